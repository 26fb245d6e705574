/// The logic of a capture screen: what its buttons do, and what it shows. It touches nothing: the app draws the values and carries out the effects, in
/// order.
/// The recorder's `RecordingMachine` alone decides when a recording begins and ends, and when the phone vibrates. This model asks for a
/// start or a stop, and shows the state that it is told. Times are seconds on one clock that only goes forward.
///
///     for effect in model.handle(.press, at: now) { carryOut(effect) }
public struct CaptureModel: Sendable, Equatable {
  /// The effect of the button: one image, or a recording.
  public enum Mode: String, Sendable, CaseIterable { case photo, video }

  /// The options of the screen.
  public struct Options: Sendable, Equatable {
    /// The button's way of recording: while it is held, or from one tap to the next.
    public enum Button: Sendable { case hold, toggle }

    public var button = Button.hold
    /// Seconds after which a press is a hold.
    public var threshold = 0.3
    /// Those of the recorder: the same value goes into `BundleRecorder.Options`.
    public var limits = RecordingMachine.Limits()
    /// Seconds that a message is shown.
    public var banner = 5.0

    public init() {}
  }

  /// The choices that an app remembers from one start to the next.
  public struct Preferences: Sendable, Equatable {
    public var mode = Mode.video
    /// Whether edges are shown, for each mode.
    public var edges: [Mode: Bool] = [:]

    public init() {}
  }

  /// The state of the tracking, by which the screen tells a person what to do.
  public enum Tracking: Sendable, Equatable { case normal, tooFast, tooDark, starting, lost }

  /// A recording that is done, and how much of it a signature covers.
  public typealias Take = Recovery.Recovered

  /// The view that the app shows, with its contents.
  public enum Screen: Sendable, Equatable {
    case camera
    /// The recorder was asked to start, and has not ended.
    case recording
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

  /// An event from the person, the phone or the recorder.
  public enum Event: Sendable, Equatable {
    case press, release
    case choose(Mode)
    case toggleEdges
    case tracking(Tracking)
    case freeSpace(Int64)
    /// Whether the camera and the microphone may be used.
    case permission(Bool)
    /// Time has passed, and this is what `BundleRecorder.tick` says, or `idle` without a recorder; the app sends one each 0.1 s.
    case tick(RecordingMachine.State)
    /// A call or another app has taken the screen: a finger that was down counts no more. Tell the recorder first (`BundleRecorder.interrupt`), or
    /// the recording counts as complete.
    case interrupted
    /// The recording is over: what `BundleRecorder.stop` returned.
    case finished(Take?)
    /// It could not begin, or not be finished, for this reason.
    case failed(String)
    case use, retake, retry, close
    /// The uploader's words, with the id of the take: others may still be on their way. A total that is not known is 0 or less.
    case progress(String, sent: Int64, of: Int64)
    case uploaded(String)
    /// It is tried again by itself when there is a network.
    case uploadWaits(String, String)
    case uploadFailed(String, String)
  }

  /// An action for the app to carry out.
  public enum Effect: Sendable, Equatable {
    case takePhoto
    /// Start a recorder under these conditions; `failed` says that it did not start.
    case startRecording(RecordingMachine.Conditions)
    /// Have the recorder make the bundle, again where that has failed; `finished` or `failed` answers.
    case stopRecording
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
  /// Time at which the button went down, unless that has already had its effect.
  private var pressed: Double?
  /// Seconds recorded so far, as the recorder said last.
  private var recorded = 0.0
  private var now = 0.0
  private struct Message: Equatable, Sendable {
    var text: String
    var until: Double
  }
  private var message: Message?

  public init(options: Options = Options(), preferences: Preferences = Preferences()) {
    (self.options, self.preferences) = (options, preferences)
  }

  /// Returns the actions that follow from an event, in order. A time before the last one counts as the last one.
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
    case .tick(let state): return tick(state)
    case .interrupted:
      pressed = nil
      if screen == .recording { show(Self.interruption) }
      return []
    default: return answer(event)
    }
  }

  // MARK: The button

  private mutating func press() -> [Effect] {
    if options.button == .toggle, preferences.mode == .video {
      return screen == .recording ? stop() : start()
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
    if screen == .recording, options.button == .hold { return stop() }
    guard wasPressed, screen == .camera else { return [] }
    if preferences.mode == .photo { return isButtonEnabled ? [.takePhoto] : [] }
    show("Hold to record")
    return []
  }

  private mutating func start() -> [Effect] {
    pressed = nil
    guard screen == .camera else { return [] }
    guard isButtonEnabled else {
      show(whyDisabled)
      return []
    }
    (screen, recorded, message) = (.recording, 0, nil)
    return [.startRecording(conditions)]
  }

  private mutating func stop() -> [Effect] {
    screen = .processing
    return [.stopRecording]
  }

  private mutating func tick(_ state: RecordingMachine.State) -> [Effect] {
    if let pressed, preferences.mode == .video, now - pressed >= options.threshold { return start() }
    guard screen == .recording else { return [] }
    recorded = state.seconds ?? recorded
    // It has ended by itself.
    guard case .processing(let reason, _) = state else { return [] }
    if case .interrupted = reason { show(Self.interruption) }
    return stop()
  }

  // MARK: Answers of recorder and uploader, and of the person to them

  private mutating func answer(_ event: Event) -> [Effect] {
    switch event {
    case .progress(let id, _, _), .uploaded(let id), .uploadWaits(let id, _), .uploadFailed(let id, _):
      guard id == uploadingTake else { return [] }
    default: break
    }
    switch (screen, event) {
    case (.recording, .finished(let take?)), (.processing, .finished(let take?)): screen = .preview(take)
    case (.recording, .finished(nil)), (.processing, .finished(nil)):
      screen = .camera
      show("Nothing was recorded")
    case (.recording, .failed(let reason)):
      screen = .camera
      show(reason)
    case (.processing, .failed(let reason)): screen = .failed(reason)
    case (.failed, .retry): return stop()
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

  private static let interruption = "Recording interrupted. What was recorded is kept."

  private mutating func show(_ text: String) { message = Message(text: text, until: now + options.banner) }

  // MARK: What the screen shows

  private var recordedSeconds: Double? { screen == .recording ? recorded : nil }

  public var isModeLocked: Bool { screen != .camera || pressed != nil }
  public var isButtonEnabled: Bool { whyDisabled.isEmpty }
  public var showsEdges: Bool { preferences.edges[preferences.mode] ?? (preferences.mode == .video) }
  /// A red dot that pulses.
  public var showsDot: Bool { recordedSeconds != nil }
  /// Such as `0:07`; `nil` when nothing is recorded.
  public var timer: String? { recordedSeconds.map(Self.clock) }
  /// 0 to 1 of the longest recording.
  public var progress: Double { (recordedSeconds ?? 0) / options.limits.longest }
  public var caption: String? { recordedSeconds == nil ? screen == .processing ? "Processing..." : nil : "Recording..." }

  static func clock(_ seconds: Double) -> String {
    let whole = Int(max(0, seconds))
    return "\(whole / 60):\(whole % 60 < 10 ? "0" : "")\(whole % 60)"
  }

  private var whyDisabled: String {
    switch options.limits.refusal(conditions) {
    case nil, .busy: ""
    case .session: "Allow the camera in Settings"
    case .storage: "Not enough storage"
    case .tracking:
      switch tracking {
      case .normal: ""
      case .tooFast: "Move slower"
      case .tooDark: "More light needed"
      case .starting: "Move the phone to start"
      case .lost: "Tracking lost. Go back to where you were"
      }
    }
  }

  private var conditions: RecordingMachine.Conditions {
    .init(freeSpace: space, tracksNormally: tracking == .normal, sessionRuns: isPermitted)
  }

  /// A message that is shown now: of what has happened for some seconds, or of what is in the way for as long as it is.
  public var banner: String? {
    if let message, now < message.until { return message.text }
    if screen == .recording { return tracking == .normal ? nil : whyDisabled }
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

extension Recovery.Recovered {
  /// Such as `Verified: 10s of 12s recorded`: whole seconds, and never more than there are.
  public var badge: String {
    let (verified, recorded) = (Int(max(0, min(verifiedSeconds, seconds))), Int(max(0, seconds)))
    if verified == 0 { return "Not verified: \(recorded)s recorded" }
    return verified >= recorded ? "Verified: \(recorded)s recorded" : "Verified: \(verified)s of \(recorded)s recorded"
  }
}
