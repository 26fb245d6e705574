import Foundation

/// Which captures a client wants to see; newest first.
struct CaptureListing: Sendable {
  private(set) var limit = 50
  private(set) var cursor: Cursor?
  private(set) var status: CaptureStatus?
  private(set) var type: CaptureType?
  /// Id of a device, in lower case.
  private(set) var device: String?
  private(set) var project: String?
  /// The only project that the client may see; `nil` for all.
  let visibleProject: String?

  private static let limits = 1...10_000

  /// The last capture of a page; the next page begins after it, whatever came meanwhile.
  struct Cursor: Sendable {
    let receivedAt: Int64
    let id: String

    var text: String { "\(receivedAt)_\(id)" }

    init(receivedAt: Int64, id: String) { (self.receivedAt, self.id) = (receivedAt, id) }

    init?(_ text: String) {
      let halves = text.split(separator: "_", omittingEmptySubsequences: false)
      guard halves.count == 2, let time = Int64(halves[0]), UUID(uuidString: String(halves[1])) != nil else { return nil }
      self.init(receivedAt: time, id: String(halves[1]))
    }
  }

  /// - Parameters:
  ///   - project: The only project that the client may see; `nil` for all.
  ///   - query: A value of the query by its name.
  /// - Throws: `Failure` 400 for values that make no sense.
  init(project: String?, query: (String) -> String?) throws {
    visibleProject = project
    if let text = query("limit") {
      guard let number = Int(text), Self.limits.contains(number) else {
        throw Failure.invalid("limit must be a whole number from \(Self.limits.lowerBound) to \(Self.limits.upperBound)")
      }
      limit = number
    }
    if let text = query("cursor") {
      guard let cursor = Cursor(text) else { throw Failure.invalid("cursor is not one that this server gave") }
      self.cursor = cursor
    }
    status = try Self.value("status", query)
    type = try Self.value("type", query)
    self.project = query("project")
    device = query("device")?.lowercased()
    guard device.map({ UUID(uuidString: $0) != nil }) ?? true else { throw Failure.invalid("device must be a UUID") }
  }

  private static func value<Value: RawRepresentable & CaseIterable>(
    _ name: String, _ query: (String) -> String?
  ) throws -> Value? where Value.RawValue == String {
    guard let text = query(name) else { return nil }
    guard let value = Value(rawValue: text) else {
      throw Failure.invalid("\(name) must be one of \(Value.allCases.map(\.rawValue).joined(separator: ", "))")
    }
    return value
  }
}
