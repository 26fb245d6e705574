import Connections
import Foundation
import GRDB
import HTTPTypes
import Hummingbird
import NIOCore

/// Registration of devices and their list.
struct DeviceRoutes {
  let configuration: Configuration
  let database: ServerDatabase
  let intake: Intake
  let attestation: AttestationVerifier?
  private let challengeLimit = AddressLimit(10, in: .seconds(60))
  private let strangerLimit = AddressLimit(60, in: .seconds(3600))

  func add(to routes: Routes) {
    let path: RouterPath = "api/v1/devices"
    routes.open(to: .device(.upload)).group(path).get("challenge", use: challenge).post("register", use: register)
    routes.open(to: .key(.read)).group(path).get(use: list)
  }

  private struct ChallengeAnswer: Encodable { var challenge, expires_at: String }

  @Sendable private func challenge(_ request: Request, context: CaptureContext) async throws -> Response {
    try check(challengeLimit, of: client(of: request, context), "Too many challenges were asked for.")
    try intake.checkSpace()
    let issued = try await Challenges(database: database).issue()
    let answer = ChallengeAnswer(challenge: issued.value.base64EncodedString(), expires_at: Time.text(issued.expiresAt))
    return try JSONAnswer.response(Answer(answer, context), headers: [.cacheControl: "no-store"])
  }

  private func client(of request: Request, _ context: CaptureContext) -> SocketAddress? {
    ClientAddress.of(request, context, trusting: configuration.trustedProxies)
  }

  /// Throws `Failure` 429 if an address has used up a limit.
  private func check(_ limit: AddressLimit, of client: SocketAddress?, _ message: String) throws {
    guard let wait = limit.wait(for: client) else { return }
    let seconds = max(1, wait.components.seconds + (wait.components.attoseconds > 0 ? 1 : 0))
    throw Failure(
      .tooManyRequests, "TOO_MANY_REQUESTS", "\(message) Try again in \(seconds) s.", headers: [.retryAfter: "\(seconds)"])
  }

  private struct RegistrationAnswer: Encodable {
    var device_id, attestation_level: String
    var has_lidar: Bool
  }

  @Sendable private func register(_ request: Request, context: CaptureContext) async throws -> Response {
    let tooLarge = Failure.tooLarge("A registration has at most \(RegistrationRequest.limit) bytes")
    if let length = request.headers[.contentLength].flatMap({ Int($0) }), length > RegistrationRequest.limit { throw tooLarge }
    let body: ByteBuffer
    do {
      body = try await request.body.collect(upTo: RegistrationRequest.limit)
    } catch is NIOTooManyBytesError {
      throw tooLarge
    }
    let client = client(of: request, context)
    let registrar = Registrar(configuration: configuration, database: database, intake: intake, attestation: attestation) {
      try check(strangerLimit, of: client, "Too many devices that prove nothing were registered from this address.")
    }
    let device = try await registrar.register(
      try RegistrationRequest(json: Data(body.readableBytesView)), key: context.key, project: context.project, logger: context.logger)
    let answer = RegistrationAnswer(device_id: device.id, attestation_level: device.level, has_lidar: device.hasLidar)
    return try JSONAnswer.response(Answer(answer, context), status: .created)
  }

  private struct Item: Encodable {
    var device_id, attestation_level, platform, model: String
    var has_lidar: Bool
    var project, registered_at: String
  }

  private struct Page: Encodable {
    struct Meta: Encodable { var next: String? }
    var data: [Item]
    var meta: Meta
  }

  /// The newest first; `limit` (1 to 500) at a time, the rest by `cursor`. A request with a key sees the devices of its project.
  @Sendable private func list(_ request: Request, context: CaptureContext) async throws -> Response {
    let parameters = request.uri.queryParameters
    var limit = 100
    if let text = parameters["limit"] {
      guard let number = Int(text), (1...500).contains(number) else { throw Failure.invalid("limit must be a whole number from 1 to 500") }
      limit = number
    }
    var devices = Device.order(Column("registeredAt").desc, Column("id").desc).limit(limit + 1)
    if let key = context.key { devices = devices.filter(Column("project") == key.project) }
    if let text = parameters["cursor"] {
      let parts = text.split(separator: "_", omittingEmptySubsequences: false)
      guard parts.count == 2, let time = Int64(parts[0]), !parts[1].isEmpty else {
        throw Failure.invalid("cursor is not one that this server gave")
      }
      devices = devices.filter(
        Column("registeredAt") < time || (Column("registeredAt") == time && Column("id") < String(parts[1])))
    }
    let found = try await database.pool.read { [devices] in try devices.fetchAll($0) }
    let page = found.prefix(limit)
    let items = page.map {
      Item(
        device_id: $0.id, attestation_level: $0.level, platform: $0.platform, model: $0.model, has_lidar: $0.hasLidar, project: $0.project,
        registered_at: Time.text($0.registeredAt))
    }
    let next = found.count > limit ? page.last.map { "\($0.registeredAt)_\($0.id)" } : nil
    return try JSONAnswer.response(Page(data: items, meta: .init(next: next)))
  }
}
