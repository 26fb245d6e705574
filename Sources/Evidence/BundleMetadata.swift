import Foundation
package import Model

/// The `metadata` part of a bundle. Types are always enforced; the ranges are those of the app's server, and only a strict reader enforces
/// them.
package struct BundleMetadata {
  package let startedAt: Int64?
  package let durationMilliseconds: Int64
  package let frameCount: Int64
  package let keyframeCount: Int64
  package let resolution: ImageSize
  package let codec: String
  package let finalHash: String
  package let assertion: String?
  package let isPartial: Bool?
  package let device: String?
  package let deviceModel: String
  package private(set) var location: JSONValue?
  package private(set) var findings: [Finding] = []

  /// Reads the part. Throws `TakeFailure` naming the field.
  package init(_ part: [UInt8], file: String, isStrict: Bool) throws {
    let document: JSONValue
    do {
      document = try JSONReader(part).document()
    } catch let error as JSONError {
      throw TakeFailure(.jsonInvalid, error.message, file: file, field: ", " + error.place)
    }
    guard case .object(let members) = document else {
      throw TakeFailure(.metadataInvalid, "expected an object, found \(document.type)", file: file)
    }
    func wrong(_ field: String, _ expected: String) -> TakeFailure {
      // The value may be private; only its type is reported.
      let found = members[field].map { "found \($0.type)" } ?? "it is missing"
      return TakeFailure(.metadataInvalid, "expected \(expected), \(found)", file: file, field: ".\(field)")
    }
    func text(_ field: String) throws -> String {
      guard let text = members[field]?.string else { throw wrong(field, "text") }
      return text
    }
    var isFloat = false
    func whole(_ field: String) throws -> Int64 {
      guard let value = members[field], let number = value.integer, (0..<(1 << 53)).contains(number) else {
        throw wrong(field, "a whole number of 0 or more")
      }
      if case .number = value { isFloat = true }
      return number
    }
    func optionalText(_ field: String) throws -> String? {
      guard let value = members[field], value != .null else { return nil }
      guard let text = value.string else { throw wrong(field, "text") }
      return text
    }
    func time(_ field: String) throws -> Int64? {
      let text = try text(field)
      guard let time = UnixTime.nanoseconds(rfc3339: text) else { throw wrong(field, "a time such as 2025-11-27T10:30:00.123Z") }
      return time
    }
    startedAt = try time("started_at")
    let endedAt = try time("ended_at")
    durationMilliseconds = try whole("duration_ms")
    frameCount = try whole("frame_count")
    keyframeCount = try whole("depth_keyframe_count")
    guard let width = members["resolution"]?["width"]?.integer, let height = members["resolution"]?["height"]?.integer,
      (0...65_535).contains(width), (0...65_535).contains(height)
    else { throw wrong("resolution", "an object of width and height") }
    resolution = ImageSize(width: Int(width), height: Int(height))
    codec = try text("codec")
    deviceModel = try text("device_model")
    _ = try text("attestation_level")
    finalHash = try text("hash_chain_final")
    assertion = try optionalText("assertion")
    device = try optionalText("device_id")?.lowercased()
    switch members["is_partial"] ?? .null {
    case .null: isPartial = nil
    case .bool(let value): isPartial = value
    default: throw wrong("is_partial", "true or false")
    }
    if isFloat {
      findings.append(Finding(.metadataNumber, "whole numbers are written as fractions, such as 240.0", file: file))
    }
    try readPrivate(members, file)

    // The ranges of the app's server.
    var violations: [(field: String, message: String)] = []
    func check(_ field: String, _ value: Int64, _ range: ClosedRange<Int64>) {
      if !range.contains(value) { violations.append((field, "\(value) is not within \(range.lowerBound) to \(range.upperBound)")) }
    }
    check("duration_ms", durationMilliseconds, 1...20_000)
    check("frame_count", frameCount, 1...600)
    check("depth_keyframe_count", keyframeCount, 1...200)
    check("resolution.width", width, 1...4096)
    check("resolution.height", height, 1...4096)
    if let startedAt, let endedAt, endedAt < startedAt { violations.append(("ended_at", "it is before started_at")) }
    if !["h264", "hevc", "H264", "HEVC"].contains(codec) { violations.append(("codec", "it is not h264 or hevc")) }
    if deviceModel.allSatisfy(\.isWhitespace) { violations.append(("device_model", "it is blank")) }
    for (field, message) in violations {
      if isStrict { throw TakeFailure(.metadataInvalid, message, file: file, field: ".\(field)") }
      findings.append(Finding(.metadataRange, message, file: file, field: ".\(field)"))
    }
  }

  private mutating func readPrivate(_ members: [String: JSONValue], _ file: String) throws {
    let place = members["location"] ?? .null
    if place != .null { location = place }
    if case .object(let place) = place {
      // The app's documentation calls them lat and lng, the app does not.
      guard let latitude = (place["latitude"] ?? place["lat"])?.double, let longitude = (place["longitude"] ?? place["lng"])?.double,
        abs(latitude) <= 90, abs(longitude) <= 180
      else {
        throw TakeFailure(
          .metadataInvalid, "expected latitude within 90 and longitude within 180 degrees", file: file, field: ".location")
      }
      var kept: [String: JSONValue] = ["latitude": .number(latitude), "longitude": .number(longitude)]
      for key in ["altitude", "accuracy"] { if let value = place[key]?.double { kept[key] = .number(value) } }
      location = .object(kept)
    }
    let names = ["device_name", "user_name", "user", "owner", "author", "email"]
    if let name = names.first(where: { members[$0]?.string.map { !$0.isEmpty } ?? false }) {
      findings.append(
        Finding(.nameRemoved, "the metadata name a person or a device, which is withheld", file: file, field: ".\(name)"))
    }
  }
}

/// The fields of a `metadata` part that a server needs before it accepts the bundle.
public struct UploadedMetadata: Sendable {
  /// Id of the device, in lower case.
  public let device: String?
  public let deviceModel: String
  public let isPartial: Bool?

  /// The reason why metadata cannot be accepted: a field that is missing or of a wrong type, as a sentence for the sender.
  public struct Problem: Error, Equatable, CustomStringConvertible {
    public var description: String
  }

  /// Reads the part. Odd values are fine; `takeset run` reports them as findings. Throws `Problem`.
  public init(_ part: [UInt8]) throws {
    do {
      let metadata = try BundleMetadata(part, file: "metadata", isStrict: false)
      (device, deviceModel, isPartial) = (metadata.device, metadata.deviceModel, metadata.isPartial)
    } catch let failure as TakeFailure {
      throw Problem(description: failure.description)
    }
  }
}
