/// Chooses frames of a camera for a lower rate: the first of each slot of 1 / rate seconds, counted from the first frame, so that jitter and gaps of
/// the camera never add frames.
struct FrameGate: Sendable, Equatable {
  let rate: Double
  private var first: Double?
  private var slot = -1
  /// The last time offered; a frame that is not later is refused.
  private var last = -Double.infinity

  /// - Parameter rate: Frames per second, above 0.
  init(rate: Double = 30) { self.rate = rate }

  /// Whether the frame at a time (seconds) is taken.
  mutating func takes(_ time: Double) -> Bool {
    guard time.isFinite, time > last else { return false }
    last = time
    let origin = first ?? time
    first = origin
    // A frame a millionth of a slot early belongs to the next one: times of 1/60 s add up to a little less than 1/30.
    let found = ((time - origin) * rate + 1e-6).rounded(.down)
    guard found < 1e9, Int(found) > slot else { return false }
    slot = Int(found)
    return true
  }
}

/// The rule for frames with a depth map: every third recorded one, at most 150.
enum KeyframeRule {
  /// - Parameter frame: The number of the recorded frame, from 0.
  static func isKeyframe(_ frame: Int) -> Bool { frame % 3 == 0 && frame / 3 < 150 }
}

/// The rule for checkpoints, at which the hash so far is signed: every 150 recorded frames, at most three.
struct CheckpointRule: Sendable {
  var every = 150

  /// - Parameter frames: The number of frames recorded so far.
  func isCheckpoint(_ frames: Int) -> Bool { frames > 0 && frames % every == 0 && frames / every <= 3 }
}
