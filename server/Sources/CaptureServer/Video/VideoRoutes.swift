import Crypto
import Evidence
import Foundation
import GRDB
import HTTPTypes
import Hummingbird

/// `POST /api/v1/captures/video`: a bundle of video, depth, hash chain and metadata from a capture app.
struct VideoRoutes {
  let configuration: Configuration
  let data: DataFolder
  let database: ServerDatabase
  let intake: Intake
  private static let path = "/api/v1/captures/video"

  func add(to routes: Routes) {
    routes.open(to: .device(.upload)).post("api/v1/captures/video", use: receive)
  }

  /// Everything that the head tells is checked before the body is read, and everything before anything is published.
  @Sendable private func receive(_ request: Request, _ context: CaptureContext) async throws -> Response {
    let now = Time.now()
    let (configuration, intake) = (configuration, intake)
    let headers = try DeviceHeaders(request.headers, at: now, configuration)
    guard let device = try await database.pool.read({ try Device.fetchOne($0, key: headers.id) }) else {
      throw Failure(.notFound, "DEVICE_NOT_FOUND", "The device is not registered. Register it, then sign the request anew.")
    }
    if configuration.policy == .strict, device.key == nil {
      throw Failure(.forbidden, "DEVICE_UNVERIFIED", "The device has no verified key")
    }
    let length = request.headers[.contentLength].flatMap { Int64($0) }
    if let length, length > BundlePart.bodyLimit { throw BundleReceiver.bodyTooLarge() }
    var signature = try RequestSignature(
      headers, method: "POST", paths: paths(of: request), device: device, configuration)
    let idempotencyKey = try Self.idempotencyKey(request)
    let project = context.key?.project ?? device.project
    let isStranger = context.key == nil && !signature.mayBeVerified
    try await database.pool.read { [number = signature.number] database in
      guard
        try !VideoAcceptance.mayBeRepeated(
          device.id, signature: number, idempotencyKey: idempotencyKey, length: length, database)
      else { return }
      try VideoAcceptance.checkRate(
        of: device.id, isStranger: isStranger, limit: configuration.videosPerHour, now: now, database)
      let least = max(1, (length ?? 0) - VideoAcceptance.frame)
      try Intake.checkQuota(least, of: device.id, in: project, isStranger: isStranger, configuration, database)
    }
    guard let parser = request.headers[.contentType].flatMap(MultipartParser.init(contentType:)) else { return Self.noBoundary() }
    try intake.checkSpace(for: length ?? 0, isStranger: isStranger)

    let staging = try Staging(in: data)
    defer { staging.discard() }
    let receiver = BundleReceiver(parser, into: staging, intake, policy: configuration.policy, isStranger: isStranger)
    let bundle = try await receive(request.body, length: length, by: receiver) { try signature.check(headers, body: $0) }

    let capture = try capture(of: bundle, device, project, signature, headers, idempotencyKey: idempotencyKey, request, context)
    let record = record(of: bundle, as: capture, device, signature, headers, request, context)
    let files = bundle.files + [try await staging.write(Array(try JSONAnswer.data(record)), as: ReceivedRecord.fileName)]
    let acceptance = VideoAcceptance(
      device: device.id, now: capture.receivedAt, limit: configuration.videosPerHour, isStranger: capture.isStranger,
      idempotencyKey: idempotencyKey, contentDigest: bundle.contentDigest(of: device.id), requestDigest: capture.requestDigest ?? "",
      proof: Self.proof(signature, capture), capture: capture.id)
    let kept = try await intake.accept(staging, files: files, as: capture) { try acceptance.earlier($0) }
    context.logger.info("video \(kept.id)\(kept.id == capture.id ? "" : " again"): \(bundle.bytes) bytes, \(signature.scheme)")
    return JSONAnswer.response(data: try kept.answer.map { Data($0.utf8) } ?? answer(for: kept, request, context), status: .accepted)
  }

  /// Reads a body. What is wrong with its signature is told before what is wrong with its contents.
  private func receive(
    _ body: RequestBody, length: Int64?, by receiver: consuming BundleReceiver, check: (SHA256Digest) throws -> Void
  ) async throws -> ReceivedBundle {
    var receiver = receiver
    var pieces = body.makeAsyncIterator()
    while true {
      let piece: ByteBuffer?
      do {
        piece = try await pieces.next()
      } catch {
        throw Self.cutShort(reason: "\(error)")
      }
      guard let piece else { break }
      try await receiver.append(piece)
    }
    if let length, receiver.bytes != length { throw Self.cutShort(reason: "\(receiver.bytes) of \(length) bytes came") }
    let digest = try await receiver.end()
    try check(digest)
    return try receiver.bundle(digest: digest)
  }

  private static func cutShort(reason: String) -> Failure {
    var failure = Failure.invalid("The body ends too early")
    failure.reason = reason
    return failure
  }

  // MARK: The head

  /// The path as we know it, and as a client knows it to whom a proxy shows us below another path.
  private func paths(of request: Request) -> [String] {
    let prefix = URLComponents(string: configuration.baseURL ?? "")?.path ?? ""
    return prefix.isEmpty ? [request.uri.path] : [request.uri.path, prefix + request.uri.path]
  }

  private static func idempotencyKey(_ request: Request) throws -> String? {
    guard let key = request.headers[.idempotencyKey] else { return nil }
    guard (1...255).contains(key.utf8.count) else { throw Failure.invalid("Idempotency-Key must have 1 to 255 characters") }
    return key
  }

  /// The apps' server answers this in plain text.
  private static func noBoundary() -> Response {
    Response(
      status: .badRequest, headers: [.contentType: "text/plain; charset=utf-8"],
      body: .init(byteBuffer: ByteBuffer(string: "Expected multipart/form-data with a boundary of 1 to 70 characters")))
  }

  // MARK: The capture

  private struct Accepted: Encodable {
    var capture_id: String
    var status: CaptureStatus
    var type: CaptureType
    var verification_url: String
  }

  private func capture(
    of bundle: ReceivedBundle, _ device: Device, _ project: String, _ signature: RequestSignature, _ headers: DeviceHeaders,
    idempotencyKey: String?, _ request: Request, _ context: CaptureContext
  ) throws -> Capture {
    let lines = ["POST", Self.path, headers.sentTimestamp, headers.sentID, headers.sentSignature, Hex.text(bundle.digest)]
    var capture = Capture(
      type: .video, project: project, device: device.id, name: "video_\(headers.timestamp)",
      bytes: bundle.files.reduce(0) { $0 + $1.bytes }, contentDigest: bundle.contentDigest(of: device.id),
      requestDigest: Hex.text(SHA256.hash(data: Data(lines.joined(separator: "\n").utf8))), idempotencyKey: idempotencyKey,
      signature: signature.scheme.rawValue, isVerified: signature.isVerified)
    capture.isStranger = context.key == nil && !signature.isVerified
    capture.answer = String(decoding: try answer(for: capture, request, context), as: UTF8.self)
    return capture
  }

  private func answer(for capture: Capture, _ request: Request, _ context: CaptureContext) throws -> Data {
    let accepted = Accepted(
      capture_id: capture.id, status: .processing, type: capture.type,
      verification_url: configuration.root(for: request) + "/verify/" + capture.id)
    return try JSONAnswer.data(Answer(accepted, context))
  }

  private static func proof(_ signature: RequestSignature, _ capture: Capture) -> VideoAcceptance.Proof? {
    guard signature.isVerified, let number = signature.number else { return nil }
    // S1 does not cover the body, so an app may frame the same parts anew for another attempt.
    return .init(number: number, digest: (signature.scheme == .s2 ? capture.requestDigest : capture.contentDigest) ?? "")
  }

  private func record(
    of bundle: ReceivedBundle, as capture: Capture, _ device: Device, _ signature: RequestSignature, _ headers: DeviceHeaders,
    _ request: Request, _ context: CaptureContext
  ) -> ReceivedRecord {
    let sent = [HTTPField.Name.contentType, .deviceID, .deviceTimestamp, .deviceSignature, .idempotencyKey, .userAgent].compactMap { name in
      request.headers[name].map { (name.rawName, $0) }
    }
    return ReceivedRecord(
      body_bytes: bundle.bytes, body_sha256: Hex.text(bundle.digest), capture_id: capture.id, device_id: device.id,
      device_level: device.level, headers: Dictionary(sent) { first, _ in first },
      parts: Dictionary(
        bundle.parts.map { ($0.rawValue, .init(bytes: $1.bytes, file: $1.name, sha256: $1.sha256)) }
      ) { first, _ in first },
      path: request.uri.path, policy: configuration.policy, received_at: Time.text(capture.receivedAt),
      request_id: context.requestID,
      signature: .init(scheme: signature.scheme, verified: signature.isVerified, counter: signature.counter))
  }
}
