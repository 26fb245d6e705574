/// Decides when a recording begins and ends, and which frames are in it. It touches nothing: the owner carries out the effects, in order.
///
/// Times are seconds on one clock, that of the camera's frames.
public struct RecordingMachine: Sendable, Equatable {
  /// The limits of a recording, in seconds on the machine's clock and in bytes.
  public struct Limits: Sendable, Equatable {
    /// A frame this long after the first, or later, is not recorded (seconds).
    public var longest = 15.0
    /// A recording ends when no frame has come for this long (seconds).
    public var silence = 1.0
    /// The phone warns when a recording is this long (seconds after its first frame).
    public var warning = 10.0
    /// Least free space at the start of a recording (bytes).
    public var space: Int64 = 50_000_000

    public init() {}

    /// Returns the reason why no recording begins under these conditions; `nil` where one does.
    public func refusal(_ conditions: Conditions) -> Refusal? {
      guard conditions.sessionRuns else { return .session }
      guard conditions.freeSpace >= space else { return .storage }
      return conditions.tracksNormally ? nil : .tracking
    }
  }

  /// The conditions for a recording to begin.
  public struct Conditions: Sendable, Equatable {
    /// Bytes.
    public var freeSpace: Int64
    public var tracksNormally: Bool
    /// Whether the camera may be used, and gives frames.
    public var sessionRuns: Bool

    public init(freeSpace: Int64, tracksNormally: Bool, sessionRuns: Bool) {
      (self.freeSpace, self.tracksNormally, self.sessionRuns) = (freeSpace, tracksNormally, sessionRuns)
    }
  }

  /// An event that ends a recording from outside; its bundle is then partial.
  public enum Interruption: String, Sendable, Equatable, CaseIterable {
    case phoneCall = "phone-call"
    case background
    case sessionFailed = "session-failed"
    case other
  }

  enum Event: Sendable, Equatable {
    case start(Conditions)
    case frame
    case release
    case interrupt(Interruption)
    case writerFailed
    case diskFull
    /// Time has passed; the owner sends one at least every 0.1 s while it records.
    case tick
    /// The files of the recording are in place.
    case finished
    /// They are not, and finishing may be tried again.
    case finishingFailed
    case retry
  }

  /// The reason why no recording begins: too little space, poor tracking, no session, or one that has not ended.
  public enum Refusal: Sendable, Equatable { case storage, tracking, session, busy }

  /// The reason why a recording ended.
  public enum Stop: Sendable, Equatable {
    case released, limit, silence, writerFailed, diskFull
    case interrupted(Interruption)

    /// Whether the recording is what was wanted, and not cut short.
    public var isComplete: Bool { self == .released || self == .limit }
  }

  /// The vibration of the phone: `medium` at the start, `warning` shortly before the limit, `heavy` at the end.
  public enum Haptic: Sendable, Equatable { case medium, warning, heavy }

  /// An action for the recorder or the app to carry out.
  public enum Effect: Sendable, Equatable {
    /// Make the recording's folder and its encoder.
    case open
    /// Record this frame.
    case record
    /// Sign, write and put in place what there is; `finished` or `finishingFailed` answers.
    case finish(Stop)
    /// The result of the recording; `nothing` without a frame.
    case result(Recovery.Outcome)
    case refuse(Refusal)
    case haptic(Haptic)
  }

  /// The phase of a recording. Times are in seconds on the machine's clock.
  public enum State: Sendable, Equatable {
    case idle
    /// Times of the start, of the first frame and of the last, and the number of frames.
    case recording(start: Double, first: Double?, last: Double, frames: Int)
    case processing(Stop, frames: Int)
    /// Finishing has failed; `retry` tries again.
    case failed(Stop, frames: Int)

    /// Seconds from the first frame to the last one so far; `nil` where nothing is being recorded.
    public var seconds: Double? {
      guard case .recording(_, let first, let last, _) = self else { return nil }
      return first.map { last - $0 } ?? 0
    }
  }

  private(set) var state = State.idle
  private var hasWarned = false
  let limits: Limits

  init(limits: Limits = Limits()) { self.limits = limits }

  /// The effects of an event, in the order in which they are to be carried out. An event that does not fit the state has none: late frames and
  /// second stops change nothing.
  mutating func handle(_ event: Event, at time: Double) -> [Effect] {
    switch (state, event) {
    case (.idle, .start(let conditions)):
      if let refusal = limits.refusal(conditions) { return [.refuse(refusal)] }
      (state, hasWarned) = (.recording(start: time, first: nil, last: time, frames: 0), false)
      return [.open, .haptic(.medium)]
    case (_, .start): return [.refuse(.busy)]

    case (.recording(let start, let first, let last, let frames), .frame):
      let origin = first ?? time
      guard time.isFinite, first == nil || time > last else { return [] }
      guard time - origin < limits.longest else { return stop(.limit, frames) }
      state = .recording(start: start, first: origin, last: time, frames: frames + 1)
      return [.record]
    case (.recording(_, let first, let last, let frames), .tick):
      if let first, time - first >= limits.longest { return stop(.limit, frames) }
      if time - last >= limits.silence { return stop(.silence, frames) }
      guard let first, !hasWarned, time - first >= limits.warning else { return [] }
      hasWarned = true
      return [.haptic(.warning)]
    case (.recording(_, _, _, let frames), .release): return stop(.released, frames)
    case (.recording(_, _, _, let frames), .interrupt(let reason)): return stop(.interrupted(reason), frames)
    case (.recording(_, _, _, let frames), .writerFailed): return stop(.writerFailed, frames)
    case (.recording(_, _, _, let frames), .diskFull): return stop(.diskFull, frames)

    case (.processing(let reason, let frames), .finished):
      state = .idle
      return [.result(frames == 0 ? .nothing : reason.isComplete ? .complete : .partial)]
    case (.processing(let reason, let frames), .finishingFailed):
      state = .failed(reason, frames: frames)
      return []
    case (.failed(let reason, let frames), .retry):
      state = .processing(reason, frames: frames)
      return [.finish(reason)]
    default: return []
    }
  }

  private mutating func stop(_ reason: Stop, _ frames: Int) -> [Effect] {
    state = .processing(reason, frames: frames)
    return [.finish(reason), .haptic(.heavy)]
  }
}
