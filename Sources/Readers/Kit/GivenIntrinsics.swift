import Foundation
import Model

/// Intrinsics of a frame as its format gives them.
enum GivenIntrinsics: Equatable {
  /// Numbers in pixels of images of this size; `nil` where the format does not name the size.
  case pixels(Intrinsics, of: ImageSize?)
  /// The angle that images span from left to right, in radians, and the one from top to bottom where it is known. The principal point is the
  /// middle.
  case angles(x: Double, y: Double?)
  /// Numbers that are none, with what is wrong with them: a sentence without the frame.
  case unusable(String)

  /// The requirements on the numbers, for messages.
  static let expected = "expected fx, fy, cx and cy, with positive focal lengths and another center than 0, 0"

  /// fx, fy, cx, cy as read, in pixels of images of a size.
  init(_ numbers: [Double]?, of size: ImageSize?) {
    self = numbers.flatMap { Intrinsics($0) }.map { GivenIntrinsics.pixels($0, of: size) } ?? .unusable(Self.expected)
  }

  /// The fault of the numbers.
  var problem: String? { if case .unusable(let reason) = self { reason } else { nil } }
  var size: ImageSize? { if case .pixels(_, let size) = self { size } else { nil } }

  /// Returns the intrinsics in pixels of images of `full`, which is also taken as the size where none is given.
  func intrinsics(for full: ImageSize) -> Intrinsics? {
    switch self {
    case .pixels(let intrinsics, let size): return intrinsics.scaled(from: size ?? full, to: full)
    case .angles(let x, let y):
      let (width, height) = (Double(full.width), Double(full.height))
      let focal = width / 2 / tan(x / 2)
      return Intrinsics([focal, y.map { height / 2 / tan($0 / 2) } ?? focal, width / 2, height / 2])
    case .unusable: return nil
    }
  }

  /// Returns the fault of a camera model, by its name in COLMAP, nerfstudio, OpenCV or ROS, for pixels that have directions by four numbers;
  /// `nil` for a pinhole, with or without distortion. A name that is not known may be anything.
  static func problem(ofModel name: String) -> String? {
    let plain = name.uppercased().filter(\.isLetter)
    return pinholes.contains(plain) ? nil : "the camera model is \(name), and a pinhole has other directions for the same numbers"
  }
  private static let pinholes: Set<String> = [
    "PINHOLE", "SIMPLEPINHOLE", "PERSPECTIVE", "OPENCV", "FULLOPENCV", "SIMPLERADIAL", "RADIAL", "BROWNCONRADY", "THINPRISM", "PLUMBBOB",
    "RATIONALPOLYNOMIAL",
  ]
}

extension Intrinsics {
  /// The same camera's, where its images have another size.
  func scaled(from size: ImageSize, to other: ImageSize) -> Intrinsics {
    if size == other { return self }
    let (x, y) = (Double(other.width) / Double(size.width), Double(other.height) / Double(size.height))
    return Intrinsics(fx: fx * x, fy: fy * y, cx: cx * x, cy: cy * y)
  }

  /// The finding that intrinsics are for images of another size than those that a take has; `nil` where they are not.
  ///
  /// - Parameter whose: Who has images of `size`: `the images are`.
  static func scaling(from full: ImageSize, to size: ImageSize, _ whose: String, file: String? = nil, count: Int? = nil) -> Finding? {
    guard full != size else { return nil }
    let isScaled = abs(Double(full.width * size.height) / Double(full.height * size.width) - 1) < 0.01
    return Finding(
      isScaled ? .intrinsicsScaled : .intrinsicsImplausible,
      "the intrinsics are for images of \(full), \(whose) \(size); they are scaled"
        + (isScaled ? "" : ", although the shape is another"), file: file, count: count)
  }
}

extension NumberedCapture {
  /// The camera of the rows, whose images have this size. Intrinsics are those of one size of images, the first that is given.
  func camera(images size: ImageSize, _ rows: [PoseList.Entry]) -> Camera {
    let given = rows.compactMap { row in intrinsics[row.number].map { (time: row.timestamp, $0) } }
    let full = usualIntrinsics?.size ?? given.lazy.compactMap(\.1.size).first ?? size
    let known = given.compactMap { time, given in
      given.intrinsics(for: full).map { IntrinsicsTrack.Moment(time: time, intrinsics: $0) }
    }
    func median(_ value: (Intrinsics) -> Double) -> Double { known.map { value($0.intrinsics) }.sorted()[known.count / 2] }
    let usual =
      usualIntrinsics?.intrinsics(for: full)
      ?? (known.isEmpty ? nil : Intrinsics(fx: median(\.fx), fy: median(\.fy), cx: median(\.cx), cy: median(\.cy)))
    let isConstant = usual.map { usual in known.allSatisfy { $0.intrinsics == usual } } ?? true
    note(given.map(\.1), full, images: size, isAbsent: usual == nil)
    return Camera(size: full, intrinsicsTrack: usual.map { IntrinsicsTrack($0, moments: isConstant ? [] : known) }, pose: .pose)
  }

  private func note(_ given: [GivenIntrinsics], _ full: ImageSize, images size: ImageSize, isAbsent: Bool) {
    let reasons = ([usualIntrinsics].compactMap(\.self) + given).compactMap(\.problem)
    if let first = reasons.first { notes.add(.intrinsicsUnusable, first, file: poses.file, count: reasons.count) }
    if isAbsent, !notes.findings.contains(where: { $0.code == .intrinsicsUnusable }) {
      notes.add(.intrinsicsAbsent, "the take has no intrinsics, so pixels have no directions")
    }
    notes.add([Intrinsics.scaling(from: full, to: size, "the images are")].compactMap(\.self))
    let others = given.compactMap(\.size).filter { $0 != full }
    if let first = others.first {
      notes.add(
        [Intrinsics.scaling(from: first, to: full, "those of the other frames for", file: poses.file, count: others.count)].compactMap(
          \.self))
    }
  }
}
