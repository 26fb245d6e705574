package import Evidence
package import Model
package import Steps

/// Cuts off the start and the end of a take.
///
///     - trim: {start: 0.5, end: 1}
///     - trim: {start: motion, end: motion}
///     - trim: {start-frames: 10}
///
/// `motion` cuts off the part in which the camera stands still, up to the last frame before it moves and from the first one after it: these
/// two stay, so that the action that leads into the motion is kept. Frames are counted off what the seconds leave.
package struct Trim: Transform {
  package static let name = "trim"
  package static let summary = "Cuts off the start and the end of a take, by time, by frames, or up to the first motion"

  /// The part that is cut off at one end.
  package enum Cut: Sendable, Equatable { case nothing, seconds(Double), motion }

  @StepOption("what to cut off at the start: seconds, or motion: the part before the camera moves") var start = Cut.nothing
  @StepOption("what to cut off at the end: seconds, or motion: the part after the camera has moved") var end = Cut.nothing
  @StepOption("cut this many frames off the start, after the seconds", 0...) var startFrames = 0
  @StepOption("cut this many frames off the end, after the seconds", 0...) var endFrames = 0
  @StepOption("with motion: moving farther than this is motion (m; for poses in an arbitrary unit, in that unit)", 0...1_000_000)
  var distance = 0.01
  @StepOption("with motion: turning farther than this is motion (degrees)", 0...180) var angle = 2.0

  package init() {}

  /// Throws `OptionError` where nothing is to be cut off.
  package func validate() throws {
    if start == .nothing, end == .nothing, startFrames == 0, endFrames == 0 {
      throw OptionError("start", "give \"start\", \"end\", \"start-frames\" or \"end-frames\"; without them nothing is cut off")
    }
  }

  /// Drops the rows of both ends. Throws `Rejection` where a cut needs motion and the camera never moves.
  package func apply(to episode: Episode, in context: RunContext) throws -> Episode {
    let times = episode.frames.timestamps
    guard let first = times.first, let last = times.last else { return episode }
    var (lower, upper) = (0, times.count)
    let stillness = start == .motion || end == .motion ? try Stillness(episode, distance: distance, angle: angle) : nil
    switch start {
    case .nothing: break
    case .seconds(let seconds):
      let limit = first.advanced(byNanoseconds: seconds * 1e9)
      lower = times.firstIndex { $0 >= limit } ?? times.count
    case .motion: lower = try moving(\.lastBeforeMotion, of: stillness, "first")
    }
    switch end {
    case .nothing: break
    case .seconds(let seconds):
      let limit = last.advanced(byNanoseconds: -seconds * 1e9)
      upper = times.lastIndex { $0 <= limit }.map { $0 + 1 } ?? 0
    case .motion: upper = try moving(\.firstAfterMotion, of: stillness, "last") + 1
    }
    lower += min(startFrames, times.count)
    upper -= min(endFrames, times.count)
    var trimmed = episode.keeping(lower < upper ? Array(lower..<upper) : [], dropping: "trimmed", continues: true)
    // What is left has the rate of the whole, by which its gaps are told.
    trimmed.frames.nominalRate = episode.frames.nominalRate ?? episode.frames.cadence.rateHz
    return trimmed
  }

  /// A row at a motion. Throws `Rejection` if there is none.
  private func moving(_ row: KeyPath<Stillness, Int?>, of stillness: Stillness?, _ reference: String) throws -> Int {
    if let row = stillness?[keyPath: row] { return row }
    throw Rejection(
      .trim,
      "the camera never moves: every pose is within \(stillness?.distanceWords ?? "") and \(JSONValue.number(angle).canonicalText) degrees of the \(reference) one"
    )
  }
}

extension Trim.Cut: OptionValue {
  package var json: JSONValue {
    switch self {
    case .nothing: .null
    case .seconds(let seconds): seconds.json
    case .motion: "motion"
    }
  }

  package init?(json: JSONValue) {
    switch json {
    case .null: self = .nothing
    case "motion": self = .motion
    default:
      guard let seconds = Double(json: json), seconds >= 0 else { return nil }
      self = .seconds(seconds)
    }
  }

  package static var schema: [String: JSONValue] {
    ["oneOf": [["type": "number", "minimum": 0], ["const": "motion"], ["type": "null"]]]
  }
  package static var words: String { "a number of 0 or more, or motion" }
  package static var choices: [String] { ["motion"] }
}
