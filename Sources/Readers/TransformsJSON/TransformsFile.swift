import Evidence
import Foundation
import Model
import Steps

/// The contents of `transforms.json`: a camera, and frames with their images and poses, in any order.
struct TransformsFile {
  static let name = "transforms.json"
  static let limit = 256 << 20
  private static let frameLimit = 1 << 20
  private static let coefficients = ["k1", "k2", "k3", "k4", "p1", "p2"]

  struct Frame {
    /// Position in the file.
    var place: Int
    /// Path of the image, as written; some programs leave the ending out.
    var image: String
    var depth: String?
    var pose: Pose?
    var time: Timestamp?
    var intrinsics: Intrinsics?
    var size: ImageSize?
    /// Coefficients of the lens that are not 0.
    var distortion: [String] = []
  }

  private(set) var frames: [Frame] = []
  /// Members of the file but for its frames.
  private(set) var members: [String: JSONValue] = [:]
  /// Whether frames have times, and paths without an ending, as NeRFCapture writes them.
  private(set) var isNeRFCapture = false

  init(_ inputs: TakeInputs, _ entry: Int) throws {
    var frames: [Frame] = []
    var isNeRFCapture = false
    members = try inputs.readJSON(entry, limit: Self.limit) { reader in
      guard try reader.nextIsObject else { throw TakeFailure(.jsonType, "expected an object, found \(try reader.describeNext())") }
      let members = try reader.object { key in
        guard key == "frames" else { return nil }
        guard try reader.nextIsArray else {
          throw TakeFailure(.jsonType, "expected a list, found \(try reader.describeNext())", field: ".frames")
        }
        try reader.beginArray()
        var isFirst = true
        while try reader.nextElement(isFirst: &isFirst) {
          guard frames.count < Self.frameLimit else {
            throw TakeFailure(.limit, "there are more than \(Self.frameLimit) frames", field: ".frames")
          }
          let (frame, isOfApp) = try Self.frame(reader, place: frames.count)
          frames.append(frame)
          isNeRFCapture = isNeRFCapture || isOfApp
        }
        return .null
      }
      try reader.expectEnd()
      return members
    }
    (self.frames, self.isNeRFCapture) = (frames, isNeRFCapture)
    guard members["frames"] != nil else { throw TakeFailure(.jsonType, "the key is missing", file: Self.name, field: ".frames") }
    let size = Self.size(members)
    let scale = appliedScale
    for index in self.frames.indices {
      self.frames[index].pose?.position /= scale
      let own = self.frames[index].size ?? size
      self.frames[index].size = own
      // A camera for all frames, in pixels or as an angle.
      self.frames[index].intrinsics = self.frames[index].intrinsics ?? Self.intrinsics(members, own)
    }
  }

  /// Coefficients of the lens that are not 0, of the file or of a frame.
  var distortion: [String] { Set(frames.flatMap(\.distortion) + Self.distortion(members)).sorted() }

  private static func distortion(_ members: [String: JSONValue]) -> [String] {
    coefficients.filter { key in members[key]?.double.map { abs($0) > 1e-9 } ?? false }
  }

  /// The factor by which positions were multiplied; 1 where the file names none.
  private var appliedScale: Double {
    guard let scale = members["applied_scale"]?.double, scale.isFinite, scale > 0 else { return 1 }
    return scale
  }

  private static func frame(_ reader: JSONReader, place: Int) throws -> (Frame, isNeRFCapture: Bool) {
    guard try reader.nextIsObject else {
      throw TakeFailure(.jsonType, "expected an object, found \(try reader.describeNext())", field: ".frames[\(place)]")
    }
    var time: Timestamp?
    let members = try reader.object { key in
      guard key == "timestamp", try reader.nextIsNumber else { return nil }
      time = try reader.seconds()
      return .null
    }
    let isNeRFCapture = time != nil && !(members["file_path"]?.string ?? ".").split(separator: "/").suffix(1).joined().contains(".")
    // The range in which two times have a difference.
    if let nanoseconds = members["timestamp_ns"]?.integer, (-(1 << 60)...(1 << 62)).contains(nanoseconds) {
      time = Timestamp(nanoseconds: nanoseconds)
    }
    let rows = (members["transform_matrix"]?.array ?? []).flatMap { $0.array ?? [$0] }.compactMap(\.double)
    // Some programs leave the last row out.
    let matrix = rows.count == 12 ? rows + [0, 0, 0, 1] : rows
    return (
      Frame(
        place: place, image: members["file_path"]?.string ?? "", depth: (members["depth_file_path"] ?? members["depth_path"])?.string,
        pose: matrix.count == 16 ? try? Pose(rowMajor: matrix) : nil, time: time, intrinsics: intrinsics(members, size(members)),
        size: size(members), distortion: distortion(members)), isNeRFCapture
    )
  }

  private static func size(_ members: [String: JSONValue]) -> ImageSize? {
    guard let width = members["w"]?.double.flatMap({ Int(exactly: $0) }), let height = members["h"]?.double.flatMap({ Int(exactly: $0) }),
      (1...65_535).contains(width), (1...65_535).contains(height)
    else { return nil }
    return ImageSize(width: width, height: height)
  }

  private static func intrinsics(_ members: [String: JSONValue], _ size: ImageSize?) -> Intrinsics? {
    func number(_ key: String) -> Double? { members[key]?.double }
    if let fx = number("fl_x"), let cx = number("cx"), let cy = number("cy") { return Intrinsics([fx, number("fl_y") ?? fx, cx, cy]) }
    guard let size, let angle = number("camera_angle_x"), angle > 0, angle < .pi else { return nil }
    let (width, height) = (Double(size.width), Double(size.height))
    let focal = width / 2 / tan(angle / 2)
    return Intrinsics([focal, focal, number("cx") ?? width / 2, number("cy") ?? height / 2])
  }
}

/// Names in the order of people: numbers in them count as numbers.
struct NaturalName: Comparable {
  private enum Part: Equatable {
    case text([UInt8])
    /// Digits without leading zeros.
    case number([UInt8])
  }

  private let parts: [Part]
  private let name: String

  init(_ name: String) {
    self.name = name
    var parts: [Part] = []
    var rest = Array(name.utf8)[...]
    while let first = rest.first {
      let isDigit = (48...57).contains(first)
      let run = rest.prefix { (48...57).contains($0) == isDigit }
      parts.append(isDigit ? .number(Array(run.drop { $0 == 48 })) : .text(Array(run)))
      rest = rest.dropFirst(run.count)
    }
    self.parts = parts
  }

  static func < (a: NaturalName, b: NaturalName) -> Bool {
    for (one, other) in zip(a.parts, b.parts) where one != other {
      switch (one, other) {
      case (.number(let x), .number(let y)): return x.count != y.count ? x.count < y.count : x.lexicographicallyPrecedes(y)
      case (.text(let x), .text(let y)): return x.lexicographicallyPrecedes(y)
      case (.number, .text): return true
      case (.text, .number): return false
      }
    }
    return a.parts.count != b.parts.count ? a.parts.count < b.parts.count : a.name.utf8.lexicographicallyPrecedes(b.name.utf8)
  }
}
