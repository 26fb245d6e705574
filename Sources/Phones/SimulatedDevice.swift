import Foundation
import HTTP
import Uploader

/// `takeset simulate device`: a phone that registers its key, makes captures and sends them, signed.
package struct SimulatedDevice: Sendable {
  /// The options of the command. Captures are `seconds` long, and `size` is of their images.
  package struct Options: Sendable {
    package var to = ""
    package var key: String?
    /// PEM file of certificates that count beside those of the system.
    package var certificates: String?
    package var captures = 1
    package var seconds = 2.0
    package var size = "640x480"
    package var seed: UInt64 = 1
    package var model = "simulated"
    package var appID = "TAKESET001.org.example.capture"
    package var signing = "s2"
    package var fault: String?
    package var isPartial = false
    /// File that keeps the device from run to run.
    package var identity: String?
    package var waits = false
    package var maxAttempts = 10
    package var firstPause = 1.0
    package var timeout = 60.0

    package init() {}
  }

  /// A sent capture.
  package struct Outcome: Codable, Sendable {
    package var state: String
    package var capture_id: String?
    package var device_id: String
    package var reason: String?
    /// The server's verdict, where it was waited for.
    package var status: String?
  }

  /// Faults of the request; all others are of the bundle, and made by the simulation.
  private enum RequestFault: String, CaseIterable {
    case wrongKey = "wrong-key"
    case wrongBody = "wrong-body"
    case oldTimestamp = "old-timestamp"
    case futureTimestamp = "future-timestamp"
    case repeatedCounter = "repeated-counter"
  }

  package static let requestFaults = RequestFault.allCases.map(\.rawValue)

  private static let path = "/api/v1/captures/video"

  private let options: Options
  private let server: ServerAddress
  private let client: HTTPClient
  private let signing: DeviceIdentity.Signing
  private let fault: RequestFault?
  private let takeset: String
  private let progress = UploadProgress()

  /// - Parameter takeset: The command that makes captures. Throws `UploaderProblem`.
  package init(_ options: Options, takeset: String, environment: [String: String] = ProcessInfo.processInfo.environment) throws {
    self.options = options
    self.takeset = takeset
    server = try ServerAddress(to: options.to)
    guard let signing = DeviceIdentity.Signing(rawValue: options.signing) else {
      throw UploaderProblem.usage("--signing \(options.signing): expected s2, s1 or s0")
    }
    self.signing = signing
    fault = options.fault.flatMap(RequestFault.init)
    client = try HTTPClient(
      sending: options.key ?? environment["TAKESET_KEY"].flatMap { $0.isEmpty ? nil : $0 }, timeout: options.timeout,
      certificates: options.certificates)
  }

  /// Returns the exit code, 0 or 3, and what became of each capture. Throws `UploaderProblem`, with code 77 where the device cannot
  /// register.
  package func run() async throws -> (code: Int32, outcomes: [Outcome]) {
    var device = try await identity()
    let folder = NSTemporaryDirectory() + "takeset-device-\(UUID().uuidString.lowercased())"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    defer { try? FileManager.default.removeItem(atPath: folder) }
    var outcomes: [Outcome] = []
    for number in 0..<options.captures {
      outcomes.append(try await capture(number, in: folder, by: &device))
    }
    return (outcomes.contains { $0.state != "uploaded" } ? 3 : 0, outcomes)
  }

  // MARK: Registration

  private struct Answer<Contents: Decodable>: Decodable { var data: Contents }

  private func identity() async throws -> DeviceIdentity {
    if let path = options.identity, let known = try DeviceIdentity.read(path, server: server.text) { return known }
    var device = DeviceIdentity(
      server: server.text, device_id: "", secret: DeviceIdentity.newSecret(), counter: 0)
    struct Challenge: Decodable { var challenge: String }
    struct Registration: Decodable { var device_id, attestation_level: String }
    let challenge = try await decoded(Challenge.self) { try await client.send("GET", server.at("/api/v1/devices/challenge")) }
    let body = try JSONSerialization.data(withJSONObject: [
      "platform": "simulated", "model": options.model, "has_lidar": true, "challenge": challenge.challenge,
      "public_key": device.publicPoint.base64EncodedString(),
    ])
    let registration = try await decoded(Registration.self) {
      try await client.send(
        "POST", server.at("/api/v1/devices/register"), headers: ["Content-Type": "application/json"], body: .data(body))
    }
    device.device_id = registration.device_id
    if let path = options.identity { try device.write(path) }
    progress.note("registered as \(registration.device_id), \(registration.attestation_level)")
    return device
  }

  /// The answer of a request that is repeated while it may succeed.
  private func decoded<Contents: Decodable>(
    _ type: Contents.Type, _ request: () async throws -> HTTPClient.Answer
  ) async throws -> Contents {
    do {
      let answer = try await persist("registration") {
        let answer = try await request()
        guard (200...299).contains(answer.status) else { throw Setback(answer, isUpload: false) }
        return answer
      }
      guard let contents = try? JSONDecoder().decode(Answer<Contents>.self, from: answer.body) else {
        throw UploaderProblem("the server's answer to the registration is not the expected JSON")
      }
      return contents.data
    } catch Setback.unauthorized(let reason) {
      throw UploaderProblem.registration(
        "\(reason). A simulated device registers with an API key: `takeset-server keys add` on the server makes one; give it by --key")
    } catch Setback.final(let reason), Setback.temporary(let reason, _, _), Setback.unusable(let reason) {
      throw UploaderProblem("the device cannot register: \(reason)")
    }
  }

  /// Repeats a request while that may help.
  private func persist(_ name: String, _ attempt: () async throws -> HTTPClient.Answer) async throws -> HTTPClient.Answer {
    var failures = 0
    while true {
      do {
        do { return try await attempt() } catch let failure as HTTPClient.NoAnswer { throw failure.setback }
      } catch Setback.temporary(let reason, let retryAfter, _) {
        failures += 1
        guard failures < options.maxAttempts else { throw Setback.final("\(reason); \(failures) attempts failed") }
        let pause = Backoff(unit: options.firstPause).pause(after: failures, retryAfter: retryAfter)
        progress.problem(
          "\(name): \(reason); attempt \(failures + 1) of \(options.maxAttempts) in \(String(format: "%.1f", pause)) s")
        try await Task.sleep(for: .seconds(pause))
      }
    }
  }

  // MARK: Captures

  private func capture(_ number: Int, in folder: String, by device: inout DeviceIdentity) async throws -> Outcome {
    let name = "capture \(number + 1)"
    var arguments = ["--seconds", "\(options.seconds)", "--size", options.size, "--seed", "\(options.seed &+ UInt64(number))"]
    if fault == nil, let fault = options.fault { arguments += ["--fault", fault] }
    if options.isPartial { arguments += ["--partial", "--signature", "checkpoint"] }
    let place = "\(folder)/\(number)", file = place + ".multipart"
    let boundary = "RialVideo-\(UUID().uuidString)"
    defer {
      try? FileManager.default.removeItem(atPath: place)
      try? FileManager.default.removeItem(atPath: file)
    }
    let bundle = try await SimulatedBundleFolder.make(place, by: takeset, arguments: arguments)
    _ = device.nextCounter()
    try bundle.sign(by: device, appID: options.appID, isPartial: options.isPartial)
    let digest = try await Blocking.run { try bundle.writeBody(file, boundary: boundary) }
    let idempotencyKey = UUID().uuidString.lowercased()
    var signed: (headers: [String: String], at: Int64)?
    var current = device
    do {
      let answer = try await persist(name) {
        // Word for word while the signature is fresh: the server then knows that it is the same request.
        if signed.map({ Uploader.now() - $0.at > 200_000 }) ?? true {
          signed = (try sign(by: &current, digest: digest, boundary: boundary, idempotencyKey: idempotencyKey), Uploader.now())
          if let path = options.identity { try current.write(path) }
        }
        let answer = try await client.send("POST", server.at(Self.path), headers: signed?.headers ?? [:], body: .file(file))
        switch answer.status {
        case 200...299: return answer
        case 409: throw Setback.final("the server answered 409\(answer.message.map { ": \($0)" } ?? "")")
        default: throw Setback(answer, isUpload: false)
        }
      }
      device = current
      struct Receipt: Decodable { var capture_id, status: String }
      let receipt = (try? JSONDecoder().decode(Answer<Receipt>.self, from: answer.body))?.data
      progress.note("\(name): uploaded; capture \(receipt?.capture_id ?? "without an id")")
      var outcome = Outcome(state: "uploaded", capture_id: receipt?.capture_id, device_id: device.device_id, status: receipt?.status)
      if options.waits, let id = receipt?.capture_id { outcome.status = try await settledStatus(of: id) }
      return outcome
    } catch let setback as Setback {
      device = current
      let reason =
        switch setback {
        case .temporary(let reason, _, _), .final(let reason), .unauthorized(let reason), .unusable(let reason): reason
        case .gone: "the server has no such upload"
        }
      progress.problem("\(name): failed: \(reason)")
      return Outcome(state: "failed", capture_id: nil, device_id: device.device_id, reason: reason)
    }
  }

  private func sign(
    by device: inout DeviceIdentity, digest: String, boundary: String, idempotencyKey: String
  ) throws -> [String: String] {
    _ = device.nextCounter()
    var signer = device
    if fault == .repeatedCounter { signer.counter = 1 }
    if fault == .wrongKey { signer.secret = DeviceIdentity.newSecret() }
    let minutes: Int64 = fault == .oldTimestamp ? -10 : fault == .futureTimestamp ? 10 : 0
    let timestamp = Uploader.now() + minutes * 60_000
    let signature = signer.signature(
      signing, method: "POST", path: Self.path, timestamp: timestamp,
      digest: fault == .wrongBody ? String(digest.reversed()) : digest, appID: options.appID)
    return [
      "Accept": "application/json", "Content-Type": "multipart/form-data; boundary=\(boundary)", "Idempotency-Key": idempotencyKey,
      "X-Device-Id": device.device_id, "X-Device-Timestamp": "\(timestamp)", "X-Device-Signature": signature,
    ]
  }

  /// The status of a capture once it is no longer being processed.
  private func settledStatus(of capture: String) async throws -> String? {
    struct Found: Decodable { var status: String }
    while true {
      let answer = try await persist(capture) {
        let answer = try await client.send("GET", server.at("/api/v1/captures/\(capture)"))
        guard answer.status == 200 else { throw Setback(answer, isUpload: false) }
        return answer
      }
      guard let found = (try? JSONDecoder().decode(Answer<Found>.self, from: answer.body))?.data else { return nil }
      if found.status != "processing" { return found.status }
      try await Task.sleep(for: .milliseconds(300))
    }
  }
}
