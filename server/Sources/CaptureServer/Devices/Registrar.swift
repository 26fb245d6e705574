import Crypto
import Foundation
import GRDB
import Logging

/// Decides what a device that registers has proven, and keeps it.
struct Registrar: Sendable {
  let configuration: Configuration
  let database: ServerDatabase
  let intake: Intake
  let attestation: AttestationVerifier?
  /// Called before a device is kept that proves nothing and that nobody vouches for. Throws `Failure` if its address has registered
  /// enough of them.
  let allowStranger: @Sendable () throws -> Void

  /// Devices without a key and without a capture that are kept at a time.
  private static let strangers: Int64 = 100_000
  /// Time for which such a device is kept at least, in milliseconds.
  private static let strangerAge: Int64 = 86_400_000

  /// The proof that a device's key has given, from most to least.
  enum Level: String {
    /// An attestation was verified: the key is in the Secure Enclave of a genuine phone.
    case secureEnclave = "secure_enclave"
    /// Somebody with an API key vouches for the key.
    case registeredKey = "registered_key"
    /// A debug build, which says so itself.
    case mock
    case unverified
  }

  /// Throws `Failure`.
  func register(_ request: RegistrationRequest, key: APIKey?, project: String, logger: Logger) async throws -> Device {
    try intake.checkSpace()
    var device = Device(
      id: UUID().uuidString.lowercased(), keyID: nil, platform: request.platform, model: request.model, hasLidar: request.hasLidar,
      level: Level.unverified.rawValue, publicKey: nil, project: project, registeredAt: Time.now())
    switch request.proof {
    case .publicKey(let point):
      guard let key else { throw KeyMiddleware.refusal("An API key is needed to register a key: Authorization: Bearer KEY") }
      try key.check(.change)
      device.keyID = Data(SHA256.hash(data: point)).base64EncodedString()
      device.publicKey = Data(point)
      device.level = Level.registeredKey.rawValue
      return try await keep(device, challenge: nil, refusal: nil, key: key, logger: logger)
    case .attestation(let attested):
      device.keyID = attested.keyID
      if let problem = try await problem(with: attested.challenge) {
        return try await keep(device, challenge: attested.challenge, refusal: problem, key: key, logger: logger)
      }
      var refusal: String?
      do {
        device.publicKey = Data(try await verify(attested, platform: request.platform))
        device.level = Level.secureEnclave.rawValue
      } catch let reason as Refusal {
        refusal = reason.description
        if attested.isMock { device.level = Level.mock.rawValue }
      }
      return try await keep(device, challenge: attested.challenge, refusal: refusal, key: key, logger: logger)
    }
  }

  /// The attested key. Throws `Refusal`.
  private func verify(_ attested: RegistrationRequest.Attested, platform: String) async throws -> [UInt8] {
    guard !attested.isMock else { throw Refusal("mock: the attestation of a debug build") }
    guard platform == "ios" else { throw Refusal("only App Attest of iOS can be verified") }
    guard let verifier = attestation else { throw Refusal("no roots are configured: see --app-attest-root") }
    guard let digest = attested.keyDigest else { throw Refusal("wrong key id: it is not base64 of 32 bytes") }
    guard let object = attested.object else { throw Refusal("the attestation is not base64") }
    let now = Date(timeIntervalSince1970: Double(Time.now()) / 1000)
    return try await verifier.key(attestedBy: object, keyID: digest, challenge: Array(attested.challenge), at: now)
  }

  private func problem(with challenge: Data) async throws -> String? {
    try await database.pool.read { try Challenges.problem(with: challenge, at: Time.now(), in: $0) }
  }

  private enum Outcome {
    case kept(Device, String?)
    case known
    case challengeRefused(String)
    case attestationRefused(String)
  }

  /// Uses up the challenge and inserts the device in one transaction. A refused attempt uses up its challenge as well: the next one needs
  /// another.
  private func keep(_ device: Device, challenge: Data?, refusal: String?, key: APIKey?, logger: Logger) async throws -> Device {
    let isStrict = configuration.policy == .strict
    if device.publicKey == nil, key == nil, !isStrict { try allowStranger() }
    let outcome = try await database.pool.write { [device] database -> Outcome in
      var device = device
      var refusal = refusal
      if let challenge, let problem = try Challenges.use(challenge, at: Time.now(), in: database) {
        if isStrict { return .challengeRefused(problem) }
        // Another request was faster with the same challenge.
        refusal = problem
        device.publicKey = nil
        if device.level != Level.mock.rawValue { device.level = Level.unverified.rawValue }
      }
      if let refusal, isStrict { return .attestationRefused(refusal) }
      if var earlier = try Device.filter(Column("keyID") == device.keyID).fetchOne(database) {
        // Whoever proves to have a key takes its id from those who only named it.
        guard earlier.publicKey == nil, device.publicKey != nil else { return .known }
        earlier.keyID = nil
        try earlier.update(database)
      }
      if device.publicKey == nil { try Self.makeRoom(for: device, database) }
      try device.insert(database)
      return .kept(device, refusal)
    }
    switch outcome {
    case .kept(let device, let refusal):
      let remark = refusal.map { ": \($0)" } ?? ""
      logger.info("device \(device.id) registered as \(device.level)\(remark)")
      return device
    case .known:
      throw Failure(.conflict, "DEVICE_ALREADY_REGISTERED", "A device with this key is already registered")
    case .challengeRefused(let reason):
      throw Failure(.unauthorized, "CHALLENGE_INVALID", "The challenge does not count. Ask for a new one.", reason: reason)
    case .attestationRefused(let reason):
      throw Failure(.unauthorized, "ATTESTATION_FAILED", "The attestation could not be verified", reason: reason)
    }
  }

  /// Bounds the number of strangers: beyond it, the oldest go that are older than a day. Throws `Failure` 429 if none is.
  private static func makeRoom(for device: Device, _ database: Database) throws {
    let all = try Int64.fetchOne(database, sql: "SELECT COUNT(*) FROM device WHERE publicKey IS NULL") ?? 0
    guard all >= strangers else { return }
    let stranger = "publicKey IS NULL AND NOT EXISTS (SELECT 1 FROM capture WHERE capture.device = device.id)"
    guard try Int64.fetchOne(database, sql: "SELECT COUNT(*) FROM device WHERE \(stranger)") ?? 0 >= strangers else { return }
    try database.execute(
      sql: """
        DELETE FROM device WHERE id IN (
          SELECT id FROM device WHERE \(stranger) AND registeredAt < ? ORDER BY registeredAt LIMIT 1000)
        """, arguments: [device.registeredAt - strangerAge])
    guard database.changesCount > 0 else {
      throw Failure(
        .tooManyRequests, "TOO_MANY_REQUESTS", "Too many devices were registered that prove nothing. Try again later.",
        headers: [.retryAfter: "3600"])
    }
  }
}
