import Foundation
package import Model

/// A check of a take's intrinsics, whichever reader made them. Intrinsics for images of another size put the principal point far from the
/// middle of the image, or give a field of view that no phone has.
package enum IntrinsicsCheck {
  /// Along the longer side of the image, in degrees: telephoto lenses have 30 and more, ultra-wide ones 105 to 120.
  private static let fieldOfView = 30.0...120.0

  /// Greatest distance of a phone camera's principal point from the middle, as a part of the side; the stabilizer moves it by up to 4 %.
  private static let offCenter = 0.08

  /// Returns one finding per camera whose intrinsics, constant or at any moment, no phone has.
  package static func findings(_ episode: Episode) -> [Finding] {
    episode.cameras.sorted { $0.key < $1.key }.compactMap { _, camera -> Finding? in
      guard let track = camera.intrinsicsTrack else { return nil }
      let problems = ([track.usual] + track.moments.map(\.intrinsics)).lazy.compactMap { problem($0, of: camera.size) }
      return problems.first.map { Finding(.intrinsicsImplausible, $0) }
    }
  }

  private static func problem(_ intrinsics: Intrinsics, of size: ImageSize) -> String? {
    func text(_ number: Double) -> String { String(format: "%.1f", number) }
    guard intrinsics.isCentered(in: size, within: offCenter) else {
      return "the principal point \(text(intrinsics.cx)), \(text(intrinsics.cy)) is not near the middle of images of \(size)"
    }
    let (side, focal) = size.width >= size.height ? (size.width, intrinsics.fx) : (size.height, intrinsics.fy)
    let degrees = 2 * atan(Double(side) / 2 / focal) * 180 / .pi
    guard !fieldOfView.contains(degrees) else { return nil }
    return "the field of view of images of \(size) is \(text(degrees)) degrees; expected 30 to 120"
  }
}

extension Intrinsics {
  /// Whether the principal point is as near to the center of images of this size as that of a phone's camera always is.
  func isCentered(in size: ImageSize, within limit: Double = 0.15) -> Bool {
    abs(cx / Double(size.width) - 0.5) < limit && abs(cy / Double(size.height) - 0.5) < limit
  }
}
