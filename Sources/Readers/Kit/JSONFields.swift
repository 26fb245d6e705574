import Evidence
import Model

/// The members of an object of JSON. A value of another type than expected is never taken for one that is absent: it throws `TakeFailure`,
/// with its path in the file.
struct JSONFields {
  let members: [String: JSONValue]
  var file: String?
  /// Path of the object in its file: `.frames[3]`.
  var path = ""

  /// Range of a factor between units: from micrometers to kilometers, with meters between them, and more.
  private static let scales = 1e-6...1e6
  private static let sides = 1.0...65_535.0

  /// A finite number; `nil` where the key is missing or null.
  ///
  /// - Parameter expected: The requirement on it, for messages.
  func number(_ key: String, in range: ClosedRange<Double>? = nil, _ expected: String? = nil) throws -> Double? {
    guard let value = members[key], value != .null else { return nil }
    let known = range ?? -.greatestFiniteMagnitude ... .greatestFiniteMagnitude
    guard let number = value.double, known.contains(number) else {
      let words = range.map { "a number from \($0.lowerBound) to \($0.upperBound)" } ?? "a finite number"
      throw mismatch(key, expected ?? words, value)
    }
    return number
  }

  /// A factor, with which the numbers of the file stay numbers.
  func scale(_ key: String) throws -> Double? { try number(key, in: Self.scales) }

  /// The size of images in whole pixels; `nil` unless both sides are there.
  func size(_ width: String, _ height: String) throws -> ImageSize? {
    func side(_ key: String) throws -> Int? {
      guard let number = try number(key, in: Self.sides, "1 to 65535 pixels") else { return nil }
      guard let side = Int(exactly: number) else { throw mismatch(key, "whole pixels", .number(number)) }
      return side
    }
    guard let width = try side(width), let height = try side(height) else { return nil }
    return ImageSize(width: width, height: height)
  }

  func text(_ key: String) throws -> String? {
    guard let value = members[key], value != .null else { return nil }
    guard let text = value.string else { throw mismatch(key, "text", value) }
    return text
  }

  private func mismatch(_ key: String, _ expected: String, _ found: JSONValue) -> TakeFailure {
    TakeFailure(.jsonType, "expected \(expected), found \(found.kind)", file: file, field: "\(path).\(key)")
  }
}

extension JSONValue {
  /// Whether a member at any depth says where on earth something was.
  var hasLocation: Bool {
    switch self {
    case .object(let members): members.contains { Self.isLocation($0.key) && $0.value.isSaid || $0.value.hasLocation }
    case .array(let elements): elements.contains(where: \.hasLocation)
    default: false
    }
  }

  /// Whether there is anything in a value: not null, no empty text, list or object.
  private var isSaid: Bool {
    switch self {
    case .null: false
    case .string(let text): !text.isEmpty
    case .array(let elements): elements.contains(where: \.isSaid)
    case .object(let members): members.values.contains(where: \.isSaid)
    default: true
    }
  }

  private static func isLocation(_ key: String) -> Bool {
    let key = key.lowercased()
    return ["latitude", "longitude", "location", "gps", "geolocation"].contains { key.contains($0) }
      || ["lat", "lon", "lng", "coordinates"].contains(key)
  }
}
