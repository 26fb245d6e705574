import Evidence
import Foundation
import Media
import Model
import Steps

/// The pinhole camera of a session, where it has one: from `calib.txt`, which SLAM writes, or else from `cameraIntrinsics` in the
/// metadata, which the phone may write.
struct SessionCamera {
  private var camera: Intrinsics?
  /// Image size that the intrinsics are for.
  private var size = SessionVariant.recordedSize
  /// Both sets of intrinsics, for the record.
  private(set) var json: [String: JSONValue] = [:]

  init(_ folder: SessionFolder, _ metadata: SessionMetadata, _ notes: FindingCollector) throws {
    if let intrinsics = metadata.intrinsics, let resolution = metadata.rgbResolution {
      (camera, size) = (intrinsics, resolution)
      json[SessionMetadata.name] = intrinsics.json(for: resolution)
    }
    guard let file = folder.calibration else { return }
    var bytes: [UInt8] = []
    try folder.inputs.read(file, limit: 1 << 16, hasher: SHA256(), into: &bytes)
    let fields = String(decoding: bytes.withoutByteOrderMark, as: UTF8.self).split(whereSeparator: \.isWhitespace)
    guard let calibrated = Intrinsics(fields.prefix(4).compactMap { Double($0) }) else {
      notes.add(.intrinsicsUnusable, "expected fx fy cx cy, positive focal lengths, on one line", file: "calib.txt")
      return
    }
    // These are for images as recorded, even if they were packed to another size since.
    let recorded = SessionVariant.recordedSize
    json["calib.txt"] = calibrated.json(for: recorded)
    if let camera {
      let other = camera.applying(.scale(from: size, to: recorded))
      let largest =
        [(other.fx, calibrated.fx), (other.fy, calibrated.fy), (other.cx, calibrated.cx), (other.cy, calibrated.cy)]
        .map { abs($0 - $1) }.max() ?? 0
      if largest > 0.5 {
        notes.add(
          .intrinsicsDiffer, "calib.txt and cameraIntrinsics differ by up to \((largest * 10).rounded() / 10) pixels; calib.txt is used",
          file: "calib.txt")
      }
    }
    (camera, size) = (calibrated, recorded)
  }

  /// The camera, or one without intrinsics for images of this size. Its rasters cover what the images cover; the app scales the sides
  /// independently.
  func camera(for images: ImageSize) -> Camera {
    camera.map { Camera(size: size, intrinsicsTrack: IntrinsicsTrack($0), pose: .pose) } ?? Camera(size: images, pose: .pose)
  }
}
