/// The logic of a capture screen: what its buttons do, what it shows, when the phone vibrates. It touches nothing: the app draws the values and carries out
/// the effects, in order.
///
/// Times are seconds on one clock that only goes forward.
public struct CaptureModel: Sendable, Equatable {
  public enum Mode: String, Sendable, CaseIterable { case photo, video }

  public struct Options: Sendable, Equatable {
    /// How the button records: while it is held, or from one tap to the next.
    public enum Button: Sendable { case hold, toggle }

    public var button = Button.hold
    /// Seconds after which a press is a hold.
    public var threshold = 0.3
    /// Seconds of a recording at most, and after how many the phone warns.
    public var longest = 15.0
    public var warning = 10.0
    /// Free space in bytes without which nothing is recorded.
    public var space: Int64 = 50_000_000
    /// Seconds that a message is shown.
    public var banner = 5.0

    public init() {}
  }

  /// What an app remembers from one start to the next.
  public struct Preferences: Sendable, Equatable {
    public var mode = Mode.video
    /// Whether edges are shown, for each mode.
    public var edges: [Mode: Bool] = [:]

    public init() {}
  }

  public enum Tracking: Sendable, Equatable { case normal, tooFast, tooDark, starting, lost }

  /// A recording that is done, and how much of it a signature covers.
  public struct Take: Sendable, Equatable {
    public var id: String
    public var seconds: Double
    public var verifiedSeconds: Double
    public var isPartial: Bool

    public init(id: String, seconds: Double, verifiedSeconds: Double, isPartial: Bool) {
      (self.id, self.seconds, self.verifiedSeconds, self.isPartial) = (id, seconds, verifiedSeconds, isPartial)
    }

    /// Such as `Verified: 10s of 12s recorded`: whole seconds, and never more than there are.
    public var badge: String {
      let (verified, recorded) = (Int(max(0, min(verifiedSeconds, seconds))), Int(max(0, seconds)))
      if verified == 0 { return "Not verified: \(recorded)s recorded" }
      return verified >= recorded ? "Verified: \(recorded)s recorded" : "Verified: \(verified)s of \(recorded)s recorded"
    }
  }

  public enum Screen: Sendable, Equatable {
    case camera
    /// Since when.
    case recording(since: Double)
    /// The recording is being finished.
    case processing
    /// It could not be; it may be tried again.
    case failed(String)
    case preview(Take)
    /// Bytes sent, and of how many; `nil` as long as that is not known.
    case uploading(Take, sent: Int64, of: Int64?)
    /// The upload waits, or was given up, for this reason.
    case waiting(Take, String)
    case rejected(Take, String)
  }

  public enum Event: Sendable, Equatable {
    case press, release
    case choose(Mode)
    case toggleEdges
    case tracking(Tracking)
    case freeSpace(Int64)
    /// Whether the camera and the microphone may be used.
    case permission(Bool)
    /// Time has passed; the app sends one each 0.1 s.
    case tick
    /// The recorder's words: it stopped by itself, it is done, there was no frame, it cannot be finished.
    case stopped
    case finished(Take)
    case nothing
    case finishingFailed(String)
    /// Tell the recorder first (`interrupt`): the stop that this asks for would make it a recording that ended as it should.
    case interrupted
    case use, retake, retry, close
    /// The uploader's words, with the id of the take: others may still be on their way. A total that is not known is 0 or less.
    case progress(String, sent: Int64, of: Int64)
    case uploaded(String)
    /// It is tried again by itself when there is a network.
    case uploadWaits(String, String)
    case uploadFailed(String, String)
  }

  public enum Haptic: Sendable, Equatable { case medium, heavy, warning }

  public enum Effect: Sendable, Equatable {
    case takePhoto
    case startRecording, stopRecording
    case finishAgain
    case haptic(Haptic)
    case upload(String)
    case discard(String)
    case remember(Preferences)
  }

  public let options: Options
  public private(set) var preferences: Preferences
  public private(set) var screen = Screen.camera
  public private(set) var tracking = Tracking.starting
  public private(set) var isPermitted = true
  private var space = Int64.max
  /// When the button went down, unless that has already had its effect.
  private var pressed: Double?
  private var hasWarned = false
  private var now = 0.0
  private struct Message: Equatable, Sendable {
    var text: String
    var until: Double
  }
  private var message: Message?

  public init(options: Options = Options(), preferences: Preferences = Preferences()) {
    (self.options, self.preferences) = (options, preferences)
  }

  public mutating func handle(_ event: Event, at time: Double) -> [Effect] {
    now = max(now, time)
    if let message, now >= message.until { self.message = nil }
    switch event {
    case .press: return press()
    case .release: return release()
    case .choose(let mode):
      // The camera's session goes on; only what the button does changes.
      guard !isModeLocked, mode != preferences.mode else { return [] }
      preferences.mode = mode
      return [.remember(preferences)]
    case .toggleEdges:
      preferences.edges[preferences.mode] = !showsEdges
      return [.remember(preferences)]
    case .tracking(let state):
      tracking = state
      return []
    case .freeSpace(let bytes):
      space = bytes
      return []
    case .permission(let isGiven):
      isPermitted = isGiven
      return []
    case .tick: return tick()
    case .interrupted:
      pressed = nil
      guard case .recording = screen else { return [] }
      show("Recording interrupted. What was recorded is kept.")
      return stop()
    default: return answer(event)
    }
  }

  // MARK: The button

  private mutating func press() -> [Effect] {
    if options.button == .toggle, preferences.mode == .video {
      if case .recording = screen { return stop() }
      return start()
    }
    guard screen == .camera else { return [] }
    guard isButtonEnabled else {
      show(whyDisabled)
      return []
    }
    pressed = now
    return []
  }

  private mutating func release() -> [Effect] {
    let wasPressed = pressed != nil
    pressed = nil
    if case .recording = screen, options.button == .hold { return stop() }
    guard wasPressed, screen == .camera else { return [] }
    if preferences.mode == .photo { return isButtonEnabled ? [.takePhoto] : [] }
    show("Hold to record")
    return []
  }

  private mutating func start() -> [Effect] {
    guard screen == .camera else { return [] }
    guard isButtonEnabled else {
      show(whyDisabled)
      return []
    }
    screen = .recording(since: now)
    (hasWarned, pressed, message) = (false, nil, nil)
    return [.startRecording, .haptic(.medium)]
  }

  private mutating func stop() -> [Effect] {
    screen = .processing
    return [.stopRecording, .haptic(.heavy)]
  }

  private mutating func tick() -> [Effect] {
    if let pressed, preferences.mode == .video, now - pressed >= options.threshold { return start() }
    guard case .recording(let start) = screen else { return [] }
    if now - start >= options.longest { return stop() }
    guard !hasWarned, now - start >= options.warning else { return [] }
    hasWarned = true
    return [.haptic(.warning)]
  }

  // MARK: Answers of recorder and uploader, and of the person to them

  private mutating func answer(_ event: Event) -> [Effect] {
    switch event {
    case .progress(let id, _, _), .uploaded(let id), .uploadWaits(let id, _), .uploadFailed(let id, _):
      guard id == uploadingTake else { return [] }
    default: break
    }
    switch (screen, event) {
    // The recorder makes the bundle when it is told to stop, also of a recording that has ended by itself.
    case (.recording, .stopped): return stop()
    case (.processing, .finished(let take)): screen = .preview(take)
    case (.processing, .nothing):
      screen = .camera
      show("Nothing was recorded")
    case (.processing, .finishingFailed(let reason)): screen = .failed(reason)
    case (.failed, .retry):
      screen = .processing
      return [.finishAgain]
    // Its files stay, for the recovery at the next start.
    case (.failed, .close): screen = .camera
    case (.preview(let take), .use):
      screen = .uploading(take, sent: 0, of: nil)
      return [.upload(take.id)]
    case (.preview(let take), .retake):
      screen = .camera
      return [.discard(take.id)]
    case (.uploading(let take, let before, _), .progress(_, let sent, let total)):
      // A repeated block is no step back.
      screen = .uploading(take, sent: min(max(before, sent), total > 0 ? total : .max), of: total > 0 ? total : nil)
    case (.waiting(let take, _), .progress(_, let sent, let total)):
      screen = .uploading(take, sent: min(sent, total > 0 ? total : .max), of: total > 0 ? total : nil)
    // Also after a refusal: what the server has counts.
    case (.uploading, .uploaded), (.waiting, .uploaded), (.rejected, .uploaded):
      screen = .camera
      show("Uploaded")
    case (.uploading(let take, _, _), .uploadWaits(_, let reason)): screen = .waiting(take, reason)
    case (.uploading(let take, _, _), .uploadFailed(_, let reason)), (.waiting(let take, _), .uploadFailed(_, let reason)):
      screen = .rejected(take, reason)
    case (.waiting(let take, _), .retry), (.rejected(let take, _), .retry):
      screen = .uploading(take, sent: 0, of: nil)
      return [.upload(take.id)]
    case (.uploading, .close), (.waiting, .close), (.rejected, .close):
      // The upload goes on, or stays in the list of captures.
      screen = .camera
    default: break
    }
    return []
  }

  private var uploadingTake: String? {
    switch screen {
    case .uploading(let take, _, _), .waiting(let take, _), .rejected(let take, _): take.id
    default: nil
    }
  }

  private mutating func show(_ text: String) { message = Message(text: text, until: now + options.banner) }

  // MARK: What the screen shows

  private var recordedSeconds: Double? { if case .recording(let start) = screen { min(now - start, options.longest) } else { nil } }

  public var isModeLocked: Bool { screen != .camera || pressed != nil }
  public var isButtonEnabled: Bool { whyDisabled.isEmpty }
  public var showsEdges: Bool { preferences.edges[preferences.mode] ?? (preferences.mode == .video) }
  /// A red dot that pulses.
  public var showsDot: Bool { recordedSeconds != nil }
  /// Such as `0:07`; `nil` when nothing is recorded.
  public var timer: String? { recordedSeconds.map(Self.clock) }
  /// 0 to 1 of the longest recording.
  public var progress: Double { (recordedSeconds ?? 0) / options.longest }
  public var caption: String? { recordedSeconds == nil ? screen == .processing ? "Processing..." : nil : "Recording..." }

  static func clock(_ seconds: Double) -> String {
    let whole = Int(max(0, seconds))
    return "\(whole / 60):\(whole % 60 < 10 ? "0" : "")\(whole % 60)"
  }

  private var whyDisabled: String {
    if !isPermitted { return "Allow the camera in Settings" }
    if space < options.space { return "Not enough storage" }
    switch tracking {
    case .normal: return ""
    case .tooFast: return "Move slower"
    case .tooDark: return "More light needed"
    case .starting: return "Move the phone to start"
    case .lost: return "Tracking lost. Go back to where you were"
    }
  }

  /// A message that is shown now: of what has happened for some seconds, or of what is in the way for as long as it is.
  public var banner: String? {
    if let message, now < message.until { return message.text }
    if case .recording = screen { return tracking == .normal ? nil : whyDisabled }
    return screen == .camera && !whyDisabled.isEmpty ? whyDisabled : nil
  }

  public var badge: String? { if case .preview(let take) = screen { take.badge } else { nil } }

  /// Such as `Uploading video... 42%, 4.2 MB of 10.0 MB`.
  public var uploadText: String? {
    switch screen {
    case .uploading(_, _, nil): return "Uploading video..."
    case .uploading(_, let sent, .some(let total)):
      let percent = Int(Double(sent) / Double(total) * 100)
      return "Uploading video... \(percent)%, \(Self.megabytes(sent)) MB of \(Self.megabytes(total)) MB"
    case .waiting(_, let reason): return "Waiting: \(reason)"
    case .rejected(_, let reason): return "Not uploaded: \(reason)"
    default: return nil
    }
  }

  private static func megabytes(_ bytes: Int64) -> String {
    let tenths = (bytes + 50_000) / 100_000
    return "\(tenths / 10).\(tenths % 10)"
  }
}
