import Evidence
import Foundation
import Model
import Steps

/// Claims of `metadata.json`. Counts and sizes in it are hints: the files themselves decide.
struct SessionMetadata {
  static let name = "metadata.json"

  private(set) var isPresent = false
  var captureSource: String?
  private(set) var deviceModel: String?
  var hasVideo = false
  var isSynthetic = false
  /// Whether it was recorded without ARKit, so that poses are computed later.
  var needsSLAM: Bool { captureSource.map { $0 != "iphone_arkit" } ?? false }
  /// Whether it is a live view that the capture server kept: images and their times, and nothing that could be missing.
  var isLiveStream: Bool { captureSource == "slow_motion_stream" }
  /// Factor by which translations were multiplied, according to the metadata.
  var scaleFactor: Double?
  var rgbResolution: ImageSize?
  var depthResolution: ImageSize?
  /// Unix time in nanoseconds, accurate to a second.
  var startTime: Int64?
  /// `startTime` and the day as it is written there.
  var startDate: RecordingDate?
  /// Keys, which are evidence of the version that wrote the session.
  private(set) var keys: Set<String> = []
  /// Names of keys that the app does not write, without their values, which may be private.
  var unknownKeys: [String] { keys.subtracting(Self.known).sorted() }
  /// Intrinsics for images of `rgbResolution`.
  private(set) var intrinsics: Intrinsics?
  /// Declared counts and durations, for the record.
  private(set) var declared: [String: JSONValue] = [:]

  private static let known: Set<String> = [
    "deviceModel", "iosVersion", "startTime", "endTime", "durationSeconds", "rgbResolution", "depthResolution", "rgbFrameCount",
    "frameCount",
    "depthFrameCount", "poseCount", "encoderCount", "imuCount", "bleConnected", "hasVideo", "captureSource", "slamProcessed",
    "cameraIntrinsics",
    "scale_factor", "synthetic", "seed",
  ]

  private static let counts = [
    "rgbFrameCount", "frameCount", "depthFrameCount", "poseCount", "encoderCount", "imuCount", "durationSeconds",
  ]

  /// Whether these bytes start a session's metadata; other apps write a metadata.json too.
  static func recognizes(_ start: [UInt8]) -> Bool {
    let start = String(decoding: start, as: UTF8.self)
    return ["rgbResolution", "rgbFrameCount", "poseCount", "captureSource", "bleConnected"].contains { start.contains("\"\($0)\"") }
  }

  init(_ folder: SessionFolder, limit: Int, notes: FindingCollector) throws {
    func read(_ file: Int) throws -> JSONValue {
      try folder.inputs.readJSON(file, limit: limit) { try $0.document() }
    }
    guard let file = folder.metadata ?? folder.sidecar else {
      notes.add(.metadataMissing, "the session has no metadata.json; sizes and times come from the files alone")
      return
    }
    let document = try read(file)
    if let sidecar = folder.sidecar {
      let name = folder.inputs.entries[sidecar].path
      if folder.metadata == nil {
        notes.add(.metadataFromSidecar, "the archive has no metadata.json; the copy next to it is used", file: name)
      } else {
        var copy: JSONValue?
        do { copy = try read(sidecar) } catch let failure as TakeFailure where failure.code == .jsonInvalid {}
        if copy != document {
          notes.add(.sidecarDiffers, "it differs from the metadata.json in the archive, which is used", file: name)
        }
      }
    }
    guard case .object(let members) = document else {
      throw TakeFailure(.jsonType, "expected an object, found \(document.kind)", file: SessionMetadata.name)
    }
    isPresent = true
    keys = Set(members.keys)
    func text(_ key: String) throws -> String? {
      guard let value = members[key], value != .null else { return nil }
      guard let text = value.string else { throw Self.mismatch(key, "text", value) }
      return text
    }
    // The files themselves have sizes; these are hints.
    func size(_ key: String) -> ImageSize? {
      guard let value = members[key], value != .null else { return nil }
      let sides = value.array?.compactMap(\.integer) ?? []
      guard sides.count == 2, value.array?.count == 2, sides.allSatisfy({ (1...65_535).contains($0) }) else {
        notes.add(
          .resolutionUnusable, "expected [width, height], 1 to 65535 pixels each, found \(value.kind); it is ignored",
          file: SessionMetadata.name, field: ".\(key)")
        return nil
      }
      return ImageSize(width: Int(sides[0]), height: Int(sides[1]))
    }
    captureSource = try text("captureSource")
    deviceModel = members["deviceModel"]?.string
    isSynthetic = members["synthetic"]?.bool ?? false
    hasVideo = members["hasVideo"]?.bool ?? false
    rgbResolution = size("rgbResolution")
    depthResolution = size("depthResolution")
    if let depthResolution, depthResolution.width > 1000 || depthResolution.height > 1000 {
      throw TakeFailure(.limit, "\(depthResolution) is over the limit of 1000x1000", file: SessionMetadata.name, field: ".depthResolution")
    }
    if let factor = members["scale_factor"]?.double, factor.isFinite, factor > 0 { scaleFactor = factor }
    if let start = try text("startTime") {
      if let time = UnixTime.nanoseconds(rfc3339: start) {
        startTime = time / 1_000_000_000 * 1_000_000_000
        startDate = RecordingDate(Self.name, day: String(start.prefix(10)), seconds: time / 1_000_000_000)
      } else {
        notes.add(
          .startTimeUnreadable, "expected a time such as 2026-02-19T20:23:52Z, from 1970 to 2096", file: SessionMetadata.name,
          field: ".startTime")
      }
    }
    if case .object(let camera)? = members["cameraIntrinsics"] {
      intrinsics = Intrinsics(["fx", "fy", "cx", "cy"].compactMap { camera[$0]?.double })
      if intrinsics == nil {
        notes.add(
          .intrinsicsUnusable, "expected positive fx and fy, and cx and cy", file: SessionMetadata.name,
          field: ".cameraIntrinsics")
      }
    }
    // Beyond 2^53 a number in the record would not be the same in every JSON reader.
    for key in Self.counts {
      guard let number = members[key]?.double, number.isFinite else { continue }
      if abs(number) < 0x1p53 {
        declared[key] = members[key]
      } else {
        notes.add(.countUnusable, "expected a number below 2^53; it is ignored", file: SessionMetadata.name, field: ".\(key)")
      }
    }
  }

  /// The integer that the metadata declare under any of these names.
  func count(_ names: String...) -> Int64? { names.lazy.compactMap { declared[$0]?.integer }.first }

  private static func mismatch(_ key: String, _ expected: String, _ found: JSONValue) -> TakeFailure {
    TakeFailure(.jsonType, "expected \(expected), found \(found.kind)", file: SessionMetadata.name, field: ".\(key)")
  }
}
