import Foundation
import Model
import Readers
import Simulate
import Steps
import Transforms

/// A small valid session in which one file is replaced by arbitrary bytes.
package final class FuzzedSession {
  /// The file that is replaced, by its name in the session; the session as an archive for `zip` and `tar`.
  package enum Part: String, CaseIterable, Sendable {
    case poses = "poses.json"
    case encoders = "encoders.json"
    case metadata = "metadata.json"
    case imu = "imu.json"
    case calibration = "calib.txt"
    case movie = "video.mov"
    case zip, tar
  }

  private let directory: TemporaryDirectory
  /// The valid bytes of each part.
  package let sound: [Part: [UInt8]]

  package init() throws {
    directory = try TemporaryDirectory()
    var session = SimulatedSession()
    session.variant = .v3SLAM
    session.seconds = 0.4
    session.size = .init(width: 32, height: 24)
    var sound: [Part: [UInt8]] = [:]
    for (part, quirk) in [(Part.zip, SessionQuirk.zip), (.tar, .tar)] {
      session.quirks = [quirk]
      try session.write(to: directory.path + "/packed")
      sound[part] = try directory.read("packed.\(part.rawValue)")
    }
    session.quirks = []
    try session.write(to: directory.path + "/session")
    for part in Part.allCases where sound[part] == nil { sound[part] = try directory.read("session/\(part.rawValue)") }
    self.sound = sound
  }

  /// Opens the session with these bytes in place of a part, aligns it, and, for an archive, reads every sample. Problems must become
  /// findings, failures or rejections; any other error is thrown.
  ///
  /// - Returns: The code of the failure, or `nil` when there was none.
  package func open(_ part: Part, _ bytes: [UInt8]) throws -> String? {
    let isArchive = part == .zip || part == .tar
    let name = isArchive ? "fuzzed.\(part.rawValue)" : "session/\(part.rawValue)"
    try directory.write(name, bytes)
    defer { _ = try? directory.write(name, sound[part] ?? []) }
    let place = TakeLocation(path: directory.path + (isArchive ? "/" + name : "/session"), isDirectory: !isArchive)
    let reader = StackSession()
    guard let candidate = try reader.recognize(TakePlace(place)) else { return nil }
    do {
      let take = Take(id: "fuzzed", location: place, inputs: try candidate.inputs())
      let episode = try Align().apply(to: reader.open(take), in: RunContext())
      for stream in episode.streams.values where isArchive {
        var cursor = try stream.source.makeCursor(SampleRequest())
        var sample: [UInt8] = []
        for index in stream.timestamps.indices {
          do { try cursor.read(index, into: &sample) } catch is SampleFailure {}
        }
      }
      return nil
    } catch let failure as TakeFailure {
      return failure.code.rawValue
    } catch let rejection as Rejection {
      return rejection.reason
    }
  }
}

/// A generator of randomly damaged bytes, in ways that are hard for parsers.
package struct Mutator {
  private var random: SplitMix

  package init(seed: UInt64) { random = SplitMix(seed: seed) }

  private mutating func below(_ count: Int) -> Int { Int(random.next() % UInt64(max(count, 1))) }

  private static let tokens = [
    "NaN", "-Infinity", "1e400", "-0", "9223372036854775808", "18446744073709551616", "4294967296", "0.1e-400", "null", "true", "\"\"",
    "{}", "[]",
    "[[[[[[[[[[", "}", "]", ",", "\\u0000", "\u{0}", "\u{FF}", "PK\u{1}\u{2}", "ustar", "-1", "1e18", "255",
  ]

  /// Returns the bytes with one to six random changes: flipped, removed, repeated or replaced parts, and tokens of the formats.
  package mutating func damaged(_ bytes: [UInt8]) -> [UInt8] {
    var bytes = bytes
    for _ in 0...below(6) {
      let place = below(bytes.count)
      let end = min(bytes.count, place + 1 + below(below(8) == 0 ? bytes.count : 40))
      switch below(8) {
      case 0 where !bytes.isEmpty: bytes[place] ^= 1 << UInt8(below(8))
      case 1 where !bytes.isEmpty: bytes[place] = UInt8(below(256))
      case 2: bytes.removeSubrange(place..<end)
      case 3: bytes.insert(contentsOf: Array(bytes[place..<end]), at: place)
      case 4: bytes.insert(contentsOf: Array(Self.tokens[below(Self.tokens.count)].utf8), at: place)
      case 5:
        // Replaces a number with another token.
        guard let start = bytes[place...].firstIndex(where: { (48...57).contains($0) }) else { continue }
        let stop = bytes[start...].firstIndex { !(48...57).contains($0) && $0 != 46 } ?? bytes.endIndex
        bytes.replaceSubrange(start..<stop, with: Array(Self.tokens[below(Self.tokens.count)].utf8))
      case 6 where below(4) == 0: bytes.removeSubrange(place...)
      default: for index in place..<end where below(3) == 0 { bytes[index] = UInt8(below(256)) }
      }
    }
    return bytes
  }
}
