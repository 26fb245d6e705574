import Foundation
import Media
package import Model

/// Movies without anything beside them, such as the slow-motion app's recordings at 60, 120 or 240 pictures a second, which play in
/// real time.
///
///     reader: {name: slow-motion-video, rotation: keep}
package struct SlowMotionVideo: Reader {
  package static let name = "slow-motion-video"
  package static let summary = "Movies by themselves (MOV, MP4; H.264, HEVC), at their true times"

  @Option("auto: images are stored upright, except where the display matrix is suspect; apply: always upright; keep: as coded")
  var rotation = VideoRotation.auto
  var video = VideoOptions()

  package init() {}

  package func recognises(_ place: TakeLocation) throws -> Bool { try !place.isDirectory && MovieFile.recognises(place.path) }

  package func hasGenericName(_ stem: String) -> Bool { MovieFile.isGeneric(stem) }

  package func inputs(of place: TakeLocation) throws -> TakeInputs { TakeInputs(file: place.path, role: .movie) }

  package func open(_ take: Take) throws -> Episode {
    let file = take.inputs.entries[0].path
    let name = URL(fileURLWithPath: file).deletingPathExtension().lastPathComponent
    let movie = try MovieTake(
      take.inputs.slice(0), file: file,
      options: video, rotation: rotation
    ) { movie in
      // The app's WebRTC mode turned the pictures and set the matrix as well.
      if name.hasPrefix("recording_") { return "the display matrix of the app's recording_ files turns pictures that are upright already" }
      let isPortrait = movie.size.height > movie.size.width
      return isPortrait && Rotation90(rawValue: Int(movie.rotation))?.swapsSides == true
        ? "the pictures are portrait already, and the display matrix would turn them by \(Int(movie.rotation)) degrees" : nil
    }
    var episode = movie.episode(id: take.id, snapsRate: true).rotating(.phone, by: movie.rotation)
    episode.variant = movie.nominalRate.map { "\(Int($0))fps" }
    episode.unixOrigin = MovieFile.startTime(inName: name).map { Episode.UnixOrigin(nanoseconds: $0, resolution: 1_000_000_000) }
    episode.day = Day.inName(take.id) ?? episode.unixOrigin.map { Day.utc(of: $0.nanoseconds) }
    return episode
  }
}

/// What a movie's name and first bytes tell.
enum MovieFile {
  static let endings: Set<String> = ["mov", "mp4", "m4v", "qt"]
  /// Names that phones and apps give to every movie.
  private static let generic: Set<String> = [
    "video", "movie", "capture", "recording", "clip", "bundle", "upload", "body", "file", "untitled", "input", "output", "data",
  ]

  /// A movie by its ending, or, under any other, by its first box.
  static func recognises(_ path: String) throws -> Bool {
    let ending = URL(fileURLWithPath: path).pathExtension.lowercased()
    if endings.contains(ending) { return true }
    return try !InputFile.isOther(ending) && startsAsMovie(InputFile.start(of: path, count: 12))
  }

  /// A file type box with a brand of movies; pictures (HEIC, AVIF) and music (M4A) start with such a box as well.
  static func startsAsMovie(_ bytes: [UInt8]) -> Bool {
    guard bytes.count >= 12, Array(bytes[4..<8]) == Array("ftyp".utf8) else { return false }
    let brand = String(decoding: bytes[8..<12], as: UTF8.self)
    return ["qt  ", "mp41", "mp42", "avc1", "M4V ", "M4VH", "M4VP", "MSNV", "dash"].contains(brand) || brand.hasPrefix("iso")
      || brand.hasPrefix("3gp")
  }

  static func isGeneric(_ stem: String) -> Bool { generic.contains(stem.lowercased()) }

  /// Unix nanoseconds from names such as video_1771446000.mov: when recording was asked for, just before the first picture. Thirteen
  /// digits are milliseconds at which a server stored the file, which is no start.
  static func startTime(inName name: String) -> Int64? {
    let parts = name.split(separator: "_", omittingEmptySubsequences: false)
    guard parts.count == 2, ["video", "recording"].contains(parts[0]), (9...10).contains(parts[1].utf8.count),
      parts[1].utf8.allSatisfy({ (48...57).contains($0) }), let seconds = Int64(parts[1])
    else { return nil }
    return seconds * 1_000_000_000
  }
}
