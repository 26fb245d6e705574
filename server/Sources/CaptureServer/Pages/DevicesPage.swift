import GRDB
import Hummingbird

/// `/devices`: who may send captures and read them.
struct DevicesPage {
  let services: Services
  let page: Page

  func add(to routes: some RouterMethods<CaptureContext>) {
    routes.get("devices") { _, context in try await devices(of: context.key?.project) }
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
  }
  private struct Devices {
    var noDevices: Bool
    var devices: [DeviceRow]
    var more: String?
    var noKeys: Bool
    var keys: [KeyRow]
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

  private func devices(of project: String?) async throws -> Response {
    let (devices, number, counts, keys) = try await services.database.pool.read { database in
      var devices = Device.order(Column("registeredAt").desc)
      var keys = APIKey.order(Column("createdAt"))
      if let project {
        devices = devices.filter(Column("project") == project)
        keys = keys.filter(Column("project") == project)
      }
      let counts = try Row.fetchAll(
        database, sql: "SELECT device, COUNT(*) AS number FROM capture WHERE device IS NOT NULL GROUP BY device")
      return (
        try devices.limit(Self.limit).fetchAll(database), try devices.fetchCount(database),
        counts.reduce(into: [String: Int64]()) { $0[$1["device"]] = $1["number"] }, try keys.fetchAll(database)
      )
    }
    let contents = Devices(
      noDevices: devices.isEmpty,
      devices: devices.map {
        DeviceRow(
          id: $0.id, model: Figure.short($0.model, 100), level: $0.level.replacing("_", with: " "),
          tone: Self.tone($0.level), registered: Figure.time($0.registeredAt),
          captures: "\(counts[$0.id] ?? 0)")
      }, more: number > devices.count ? "These are the newest \(devices.count) of \(number) devices." : nil, noKeys: keys.isEmpty,
      keys: keys.map {
        KeyRow(
          id: $0.id, name: Figure.short($0.name, 100), project: Figure.short($0.project, 100),
          state: $0.state)
      })
    return page.response("Devices and keys", template: "devices", contents, place: "/devices")
  }
}
