package import Evidence
package import Model
import Steps

/// Makes several episodes of a take: `<take>.0`, `<take>.1` and so on, each with a shard and an entry in the manifest of its own.
///
///     - split-episodes: {at: gaps}
///     - split-episodes: {at: jumps}
///     - split-episodes: {at: pauses, pause: 1.5}
///     - split-episodes: {at: 10}
package struct SplitEpisodes: EpisodeSplitter {
  package static let name = "split-episodes"
  package static let summary =
    "Makes several episodes of a take: at gaps, where tracking jumped, at pauses of the motion, or every so many seconds"

  /// The place of a cut: an event in the take, or a duration in seconds.
  package enum Place: OptionValue, Equatable {
    case gaps, jumps, pauses
    case every(seconds: Double)

    package var json: JSONValue {
      switch self {
      case .gaps: "gaps"
      case .jumps: "jumps"
      case .pauses: "pauses"
      case .every(let seconds): seconds.json
      }
    }

    package init?(json: JSONValue) {
      switch json {
      case "gaps": self = .gaps
      case "jumps": self = .jumps
      case "pauses": self = .pauses
      default:
        guard let seconds = Double(json: json), (0.001...86_400).contains(seconds) else { return nil }
        self = .every(seconds: seconds)
      }
    }

    package static var schema: [String: JSONValue] {
      ["oneOf": [["enum": ["gaps", "jumps", "pauses"]], ["type": "number", "minimum": .number(0.001), "maximum": 86_400]]]
    }
    package static var words: String { "gaps, jumps, pauses, or a number of seconds from 0.001 to 86400" }
    package static var choices: [String] { ["gaps", "jumps", "pauses"] }
  }

  @StepOption(
    "gaps: at every step in meta/gaps; jumps: before each frame with the quality bit pose-jump; pauses: where the camera rests; a number: every so many seconds from the first row"
  )
  var at: Place? = nil
  @StepOption("the least length of a pause, which belongs to neither episode next to it (seconds)", above: 0, through: 3600) var pause = 1.0
  @StepOption("the camera rests while it stays within this of where it was (meters, or the unit of the poses)", 0...1000) var distance =
    0.01
  @StepOption("the camera rests while it stays within this of its direction (degrees)", 0...180) var angle = 2.0

  package static var occursOnce: Bool { true }

  /// Each episode costs an entry of the manifest, with all of the take's files.
  private static let mostJumps = 250

  package init() {}

  /// Throws `OptionError` without a place.
  package func validate() throws {
    if at == nil { throw OptionError("at", "give gaps, jumps, pauses or a number of seconds; without it nothing is split") }
  }

  /// Returns the ranges of rows, ascending; rows outside are in no episode. Throws `TakeFailure` where tracking jumped too often to be in
  /// meters.
  package func episodes(of take: Episode) throws -> [Range<Int>] {
    let count = take.frames.count
    guard count > 0 else { return [] }
    switch at {
    case .gaps, nil:
      let ends = take.frames.gaps.map { $0.row + 1 } + [count]
      return zip([0] + ends, ends).map { $0..<$1 }
    case .jumps:
      let starts = take.frames.quality.enumerated().filter { $0.offset > 0 && $0.element.contains(.poseJump) }.map(\.offset)
      guard starts.count <= Self.mostJumps else {
        throw TakeFailure(
          .limit, "tracking jumped \(starts.count) times in \(count) frames, more than \(Self.mostJumps): the poses may not be in meters")
      }
      return zip([0] + starts, starts + [count]).map { $0..<$1 }
    case .every(let seconds):
      let first = take.frames.timestamps[0]
      let length = seconds * 1e9
      let numbers = take.frames.timestamps.map { Int(Double($0.since(first)) / length) }
      let starts = numbers.indices.filter { $0 == 0 || numbers[$0] != numbers[$0 - 1] }
      return zip(starts, starts.dropFirst() + [count]).map { $0..<$1 }
    case .pauses:
      let pauses = try Stillness.pauses(in: take, longerThan: pause, distance: distance, angle: angle)
      var episodes: [Range<Int>] = []
      var start = 0
      // The rows at the edges of a pause are the rest before and after the motion.
      for rest in pauses {
        if rest.lowerBound > start { episodes.append(start..<min(rest.lowerBound + 1, count)) }
        start = max(rest.upperBound - 1, 0)
      }
      if start < count - 1 || episodes.isEmpty { episodes.append(start..<count) }
      return episodes
    }
  }
}
