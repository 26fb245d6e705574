import Foundation

/// What `metadata.json` claims. Counts and sizes in it are hints: the files themselves decide.
struct SessionMetadata {
  var captureSource: String?
  var rgbResolution: Pixels?
  var depthResolution: Pixels?
  /// Unix time in nanoseconds, known to a second.
  var startTime: Int64?
  /// The UTC day of `startTime`.
  var startDay: String?
  private var intrinsics: Intrinsics?

  init(_ folder: SessionFolder, limit: Int, findings: inout [Finding]) throws {
    guard let file = folder.metadata else {
      findings.append(
        Finding(.warning, "metadata-missing", "the session has no metadata.json; sizes and times come from the files alone"))
      return
    }
    let document = try folder.inputs.readJSON(file, limit: limit) { reader in
      let value = try reader.value()
      try reader.expectEnd()
      return value
    }
    guard case .object(let members) = document else {
      throw TakeFailure("json-type", "expected an object, found \(document.kind)", file: "metadata.json")
    }
    func text(_ key: String) throws -> String? {
      guard let value = members[key], value != .null else { return nil }
      guard let text = value.string else { throw Self.mismatch(key, "text", value) }
      return text
    }
    func size(_ key: String) throws -> Pixels? {
      guard let value = members[key], value != .null else { return nil }
      let sides = value.array?.compactMap(\.integer) ?? []
      guard sides.count == 2, sides.allSatisfy({ (1...65_535).contains($0) }) else {
        throw Self.mismatch(key, "[width, height]", value)
      }
      return Pixels(width: Int(sides[0]), height: Int(sides[1]))
    }
    captureSource = try text("captureSource")
    rgbResolution = try size("rgbResolution")
    depthResolution = try size("depthResolution")
    if let depthResolution, depthResolution.width > 1000 || depthResolution.height > 1000 {
      throw TakeFailure("limit", "\(depthResolution) is over the limit of 1000x1000", file: "metadata.json", field: ".depthResolution")
    }
    if let start = try text("startTime") {
      if let seconds = Self.unixSeconds(start), (0..<4_000_000_000).contains(seconds) {
        startTime = seconds * 1_000_000_000
        startDay = String(start.prefix(10))
      } else {
        findings.append(
          Finding(
            .warning, "start-time-unreadable", "expected a time such as 2026-02-19T20:23:52Z, from 1970 to 2096", file: "metadata.json",
            field: ".startTime"))
      }
    }
    if case .object(let camera)? = members["cameraIntrinsics"] {
      let numbers = ["fx", "fy", "cx", "cy"].compactMap { camera[$0]?.double }
      if numbers.count == 4, numbers.allSatisfy(\.isFinite), numbers[0] > 0, numbers[1] > 0 {
        intrinsics = Intrinsics(fx: numbers[0], fy: numbers[1], cx: numbers[2], cy: numbers[3])
      } else {
        findings.append(
          Finding(
            .warning, "intrinsics-unusable", "expected positive fx and fy, and cx and cy", file: "metadata.json",
            field: ".cameraIntrinsics"))
      }
    }
  }

  /// The intrinsics for a grid of this size; the app gives them in pixels of `rgbResolution`.
  func intrinsics(for size: Pixels) -> Intrinsics? {
    guard let intrinsics, let rgbResolution else { return nil }
    return intrinsics.scaled(
      x: Double(size.width) / Double(rgbResolution.width), y: Double(size.height) / Double(rgbResolution.height))
  }

  private static func mismatch(_ key: String, _ expected: String, _ found: JSONValue) -> TakeFailure {
    TakeFailure("json-type", "expected \(expected), found \(found.kind)", file: "metadata.json", field: ".\(key)")
  }

  /// Whole Unix seconds of an ISO 8601 time, with or without a fraction.
  static func unixSeconds(_ text: String) -> Int64? {
    let plain = ISO8601DateFormatter()
    let fractional = ISO8601DateFormatter()
    fractional.formatOptions = [.withInternetDateTime, .withFractionalSeconds]
    guard let date = plain.date(from: text) ?? fractional.date(from: text) else { return nil }
    return Int64(exactly: date.timeIntervalSince1970.rounded(.down))
  }
}
