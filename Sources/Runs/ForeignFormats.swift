import Model
import Steps

/// Formats that are recognized and not read, with what to use instead. Some look like videos or folders that a reader would take.
enum ForeignFormats {
  private struct Format: Sendable {
    var isAt: @Sendable (TakePlace) throws -> Bool
    var words: String
  }

  /// Bytes at the end of a video in which Record3D puts the camera.
  private static let tailBytes = 1 << 16

  private static let all = [
    Format(
      isAt: { place in
        guard place.isDirectory, place.name.hasSuffix(".recording") else { return false }
        return try place.kind(of: "journal") == .file
      },
      words: "this is a recording that its app did not finish; takeset recover makes a bundle of what is certain of it"
    ),
    Format(
      isAt: { place in
        guard !place.isDirectory, ["mp4", "mov"].contains(where: { place.name.lowercased().hasSuffix("." + $0) }) else { return false }
        return try String(decoding: InputFile.end(of: place.path, count: tailBytes), as: UTF8.self).contains("\"intrinsicMatrix\"")
      },
      words:
        "this is a video of Record3D with depth as colors, which lost the depth's precision; in the app, export the recording as EXR + JPG sequence, or share the .r3d file"
    ),
    Format(
      isAt: { place in
        guard place.isDirectory, try place.kind(of: "pose_intrinsic_imu.json") == .file else { return false }
        return try place.kind(of: "depth.bin") == .file || place.kind(of: "rgb.mkv") == .file
      },
      words:
        "this is a scan of an iPhone for ScanNet++, which is not read; the reader transforms-json reads the transforms.json of the same scene"
    ),
    Format(
      isAt: { place in !place.isDirectory && place.name.lowercased().hasSuffix(".sens") },
      words:
        "this is a ScanNet recording of a Structure sensor, which is not read; extract its images, depth and poses, and give them with a transforms.json"
    ),
  ]

  /// Whether `takeset recover` keeps or writes the place: its takes are elsewhere, or will be.
  static func isOfRecovery(_ place: TakeLocation) -> Bool {
    // An expression is compiled each time, which takes longer than looking at a folder of another name.
    guard place.isDirectory, let dot = place.name.lastIndex(of: "."), place.name[dot...].hasPrefix(".recover") else { return false }
    return place.name.contains(/\.(recording\.recovered(-[0-9]+)?|recovering)$/)
  }

  /// Returns the reason why a place of a known format is not read; `nil` for all others.
  static func refusal(of place: TakePlace) throws -> TakeFailure? {
    try all.first { try $0.isAt(place) }.map { TakeFailure(.formatUnsupported, $0.words) }
  }
}
