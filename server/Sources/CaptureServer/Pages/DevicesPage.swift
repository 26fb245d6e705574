import GRDB
import Hummingbird

/// `/devices`: who may send captures and read them. Whoever may change something makes keys there, and revokes them.
struct DevicesPage {
  let configuration: Configuration
  let database: ServerDatabase
  let page: Page

  func add(to routes: Routes) {
    routes.open(to: .key(.read)).get("devices") { request, context in try await devices(request, context) }
    let changing = routes.open(to: .key(.change))
    changing.post("keys") { request, context in
      try checkMayManage(request, context)
      let text = String(buffer: try await request.body.collect(upTo: Self.formLimit))
      guard let form = try? URLEncodedFormDecoder().decode(NewKey.self, from: text) else {
        throw Failure.invalid("the form is not understood")
      }
      return try await devices(request, context, made: try await make(form, context))
    }
    changing.post("keys/:key/revoke") { request, context in
      try checkMayManage(request, context)
      guard try await APIKeys(database).revoke(try context.parameters.require("key"), of: context.key?.project) else {
        throw Failure(.notFound, "NOT_FOUND", "There is no such key in use")
      }
      return Response.redirect(to: "/devices", type: .normal)
    }
  }

  private static let formLimit = 8 << 10

  /// Whether a request may make and revoke keys: with a key for everything, or on this machine. Elsewhere, where nobody needs a key, a key
  /// would last longer than that is so.
  private func mayManage(_ request: Request, _ context: CaptureContext) -> Bool {
    context.key?.allows(.change) ?? (configuration.isLoopback && !request.isForwarded)
  }

  private func checkMayManage(_ request: Request, _ context: CaptureContext) throws {
    guard mayManage(request, context) else {
      throw Failure(.forbidden, "FORBIDDEN", "Keys are made and revoked with a key for everything, or on the server's own machine")
    }
  }

  /// The form of a new key; fields that are left open are empty.
  private struct NewKey: Decodable {
    var name: String
    var project: String?
    var power: String
    var days: String
  }

  /// Makes a key; with a key, only for its own project. Throws `Failure` 400.
  private func make(_ form: NewKey, _ context: CaptureContext) async throws -> (key: String, record: APIKey) {
    // Keys of all projects are the operator's, so only the command makes them.
    guard let power = APIKey.Power(rawValue: form.power), power.isOfProject else {
      throw Failure.invalid("power: expected upload, read or all")
    }
    let days = Int(form.days)
    guard form.days.isEmpty || days != nil else { throw Failure.invalid("days: expected a whole number, or nothing for ever") }
    do {
      let project = context.key?.project ?? form.project.flatMap { $0.isEmpty ? nil : $0 } ?? "default"
      return try await APIKeys(database).add(name: form.name, project: project, power: power, days: days, by: context.key)
    } catch let mistake as Mistake {
      throw Failure.invalid("\(mistake)")
    }
  }

  private struct DeviceRow {
    var id: String
    var model: String
    var level: String
    var tone: String
    var registered: String
    var captures: String
  }
  private struct KeyRow {
    var id: String
    var name: String
    var project: String
    var state: String
    var isInUse: Bool
    var canChange: Bool
  }
  private struct Devices {
    var noDevices: Bool
    var sendOptions: String
    var devices: [DeviceRow]
    var more: String?
    var noKeys: Bool
    var keys: [KeyRow]
    var canChange: Bool
    /// Whether any project can be named.
    var hasProjects: Bool
    /// The key that was just made, which is never shown again.
    var made: String?
    var madeFor: String
  }

  private static let limit = 500

  /// Green is for what is proven, and only an attestation proves anything about a device.
  private static func tone(_ level: String) -> String {
    switch level {
    case Device.attested: "good"
    case Registrar.Level.registeredKey.rawValue: "soft"
    default: "fair"
    }
  }

  private func devices(
    _ request: Request, _ context: CaptureContext, made: (key: String, record: APIKey)? = nil
  ) async throws -> Response {
    let (project, canChange) = (context.key?.project, mayManage(request, context))
    let (devices, number, counts, keys) = try await database.pool.read { database in
      var devices = Device.order(Column("registeredAt").desc)
      var keys = APIKey.order(Column("createdAt"))
      if let project {
        devices = devices.filter(Column("project") == project)
        keys = keys.filter(Column("project") == project && APIKey.Power.ofProjects.contains(Column("power")))
      }
      let shown = try devices.limit(Self.limit).fetchAll(database)
      let counts = try Row.fetchAll(
        database,
        Capture.select(Column("device"), count(Column("id")).forKey("number")).filter(shown.map(\.id).contains(Column("device")))
          .group(Column("device")).asRequest(of: Row.self))
      return (
        shown, try devices.fetchCount(database),
        counts.reduce(into: [String: Int64]()) { $0[$1["device"]] = $1["number"] }, try keys.fetchAll(database)
      )
    }
    let contents = Devices(
      noDevices: devices.isEmpty, sendOptions: configuration.sendOptions(for: request),
      devices: devices.map {
        DeviceRow(
          id: $0.id, model: Figure.short($0.model, 100), level: $0.level.replacing("_", with: " "),
          tone: Self.tone($0.level), registered: Figure.time($0.registeredAt),
          captures: "\(counts[$0.id] ?? 0)")
      }, more: number > devices.count ? "These are the newest \(devices.count) of \(number) devices." : nil, noKeys: keys.isEmpty,
      keys: keys.map {
        KeyRow(
          id: $0.id, name: Figure.short($0.name, 100), project: Figure.short($0.scope ?? "all projects", 100),
          state: $0.state, isInUse: $0.revokedAt == nil && !$0.isExpired, canChange: canChange)
      }, canChange: canChange, hasProjects: context.key == nil, made: made?.key,
      madeFor: made.map { "\(Figure.short($0.record.name, 100)), \($0.record.project)" } ?? "")
    return try await page.response("Devices and keys", template: "devices", contents, place: "/devices", for: context)
  }
}
