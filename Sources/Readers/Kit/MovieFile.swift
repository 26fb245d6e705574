import Foundation
import Model
import Steps

/// Evidence from a video's name and first bytes.
enum MovieFile {
  static let endings: Set<String> = ["mov", "mp4", "m4v", "qt"]
  /// Names that phones and apps give to every video.
  private static let generic: Set<String> = [
    "video", "movie", "capture", "recording", "clip", "bundle", "upload", "body", "file", "untitled", "input", "output", "data",
  ]

  /// Confidence that a file is a video, by its extension or else by its first box; `nil` for any other file.
  static func confidence(_ place: TakePlace) throws -> Candidate.Confidence? {
    if place.isDirectory { return nil }
    if endings.contains(URL(name: place.name).pathExtension.lowercased()) { return .likely }
    return try startsAsMovie(place.start(count: 12)) ? .possible : nil
  }

  /// Whether the bytes are a file type box with a video brand; images (HEIC, AVIF) and music (M4A) start with such a box as well.
  static func startsAsMovie(_ bytes: [UInt8]) -> Bool {
    guard bytes.count >= 12, Array(bytes[4..<8]) == Array("ftyp".utf8) else { return false }
    let brand = String(decoding: bytes[8..<12], as: UTF8.self)
    return ["qt  ", "mp41", "mp42", "avc1", "M4V ", "M4VH", "M4VP", "MSNV", "dash"].contains(brand) || brand.hasPrefix("iso")
      || brand.hasPrefix("3gp")
  }

  static func isGeneric(_ stem: String) -> Bool { generic.contains(stem.lowercased()) }

  /// Start time in Unix nanoseconds from names such as video_1771446000.mov: when recording was requested, just before the first frame.
  /// Thirteen digits are the milliseconds at which a server stored the file, not a start time.
  static func startTime(inName name: String) -> Int64? {
    let parts = name.split(separator: "_", omittingEmptySubsequences: false)
    guard parts.count == 2, ["video", "recording"].contains(parts[0]), (9...10).contains(parts[1].utf8.count),
      parts[1].utf8.allSatisfy({ (48...57).contains($0) }), let seconds = Int64(parts[1])
    else { return nil }
    return seconds * 1_000_000_000
  }
}
