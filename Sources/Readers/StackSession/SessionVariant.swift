import Foundation
import Media
import Model

/// The app's format that a session is in. No version is written; files, keys and values are the evidence.
struct SessionVariant {
  enum Poses: Equatable {
    case none, arkit, synthetic
    case slam(Scale)

    var isSLAM: Bool { if case .slam = self { true } else { false } }
  }
  /// Scale of SLAM's poses.
  enum Scale { case arbitrary, claimed }

  /// The variant's name in the manifest.
  enum Name: String {
    case synthetic, v1, v2, packed
    case liveStream = "live-stream"
    case v3Raw = "v3-raw"
    case v3SLAM = "v3-slam"
    case v3Scaled = "v3-scaled"
  }

  let name: Name
  /// Whether the packing script has processed the session: images are downscaled, video and IMU are gone.
  var isPacked: Bool { name == .packed }
  let poses: Poses
  /// Evidence for the variant, for the record.
  let evidence: [String]

  /// Image size of v2 and later, before packing.
  static let recordedSize = ImageSize(width: 480, height: 360)

  init(_ metadata: SessionMetadata, _ poses: PosesFile?, _ folder: SessionFolder, imageSize: ImageSize?) {
    var evidence: [String] = []
    let isEmpty = poses.map { $0.entries.isEmpty } ?? true
    let source = metadata.captureSource
    let hasSLAMTimes = poses.map(Self.hasSLAMTimes) ?? false
    if metadata.isSynthetic {
      self.poses = isEmpty ? .none : .synthetic
      name = .synthetic
      evidence.append("metadata.synthetic is true")
    } else if metadata.needsSLAM || (source == nil && hasSLAMTimes) {
      if let source { evidence.append("captureSource is \(source)") }
      if hasSLAMTimes { evidence.append("timestamps are rgbIndex/60 and depth is null") }
      if isEmpty {
        (self.poses, name) = (.none, metadata.isLiveStream ? .liveStream : .v3Raw)
        evidence.append("no poses")
      } else {
        self.poses = .slam(metadata.scaleFactor == nil ? .arbitrary : .claimed)
        if metadata.scaleFactor != nil { evidence.append("metadata has scale_factor") }
        let isPacked = Self.isPacked(metadata, folder, imageSize)
        if isPacked { evidence.append("images do not have rgbResolution, and video and IMU are gone") }
        name = isPacked ? .packed : metadata.scaleFactor == nil ? .v3SLAM : .v3Scaled
      }
    } else {
      self.poses = isEmpty ? .none : .arkit
      let hasDepth = folder.hasDepthFolder || metadata.depthResolution != nil || poses?.entries.contains { $0.depthIndex != nil } ?? false
      if hasDepth {
        name = .v1
        evidence.append("depth maps")
      } else {
        name = Self.isPacked(metadata, folder, imageSize) ? .packed : .v2
        evidence.append("no depth maps")
      }
    }
    self.evidence = evidence
  }

  /// Whether times are the image number over 60 and depth is an explicit null, as SLAM writes them.
  private static func hasSLAMTimes(_ poses: PosesFile) -> Bool {
    !poses.entries.isEmpty
      && poses.entries.allSatisfy { entry in
        poses.hasNullDepth(entry) && abs(Double(entry.timestamp.nanoseconds) - Double(entry.number) * 1e9 / 60) < 1000
      }
  }

  /// Whether the packing script has processed the session: it downscales images and omits video and IMU.
  private static func isPacked(_ metadata: SessionMetadata, _ folder: SessionFolder, _ size: ImageSize?) -> Bool {
    guard let size, let declared = metadata.rgbResolution, size != declared, size.width == size.height else { return false }
    return folder.movie == nil && folder.imu == nil
  }
}
