import EdgeOverlay
import Testing

@testable import TakesetRecorder

/// One test for each row of what the capture screen must do.
@Suite struct CaptureModelTests {
  typealias Model = CaptureModel
  private static let take = {
    var take = Model.Take(id: "take-1", outcome: .partial, journalEntries: 0)
    (take.seconds, take.verifiedSeconds) = (12.4, 10)
    return take
  }()

  /// An app with a camera of eight frames a second: it carries out the effects of the screen, and of the machine of the recorder that it makes for each
  /// start.
  private struct Phone {
    var model: Model
    var machine = RecordingMachine()
    var haptics: [RecordingMachine.Haptic] = []
    var hapticTimes: [Double] = []

    /// Returns the effects of the screen.
    @discardableResult
    mutating func send(_ event: Model.Event, at time: Double) -> [Model.Effect] {
      let effects = model.handle(event, at: time)
      for effect in effects {
        switch effect {
        case .startRecording(let conditions):
          machine = RecordingMachine()
          tell(.start(conditions), at: time)
        case .stopRecording:
          tell(.release, at: time)
          if case .failed = machine.state { tell(.retry, at: time) }
        case .takePhoto, .upload, .discard, .remember: break
        }
      }
      return effects
    }

    mutating func tell(_ event: RecordingMachine.Event, at time: Double) {
      for effect in machine.handle(event, at: time) {
        switch effect {
        case .haptic(let haptic):
          haptics.append(haptic)
          hapticTimes.append(time)
        case .open, .record, .finish, .result, .refuse: break
        }
      }
    }

    /// Ticks each eighth of a second, whose sums are exact.
    @discardableResult
    mutating func run(from start: Double, until end: Double) -> [Model.Effect] {
      stride(from: start, through: end, by: 0.125).flatMap { time in
        tell(.frame, at: time)
        tell(.tick, at: time)
        return send(.tick(machine.state), at: time)
      }
    }

    /// Presses and holds at 1 s: it records from 1.375 s on, its first frame is at 1.5 s.
    @discardableResult
    mutating func hold(until end: Double) -> [Model.Effect] { send(.press, at: 1) + run(from: 1.125, until: end) }
  }

  private func ready(_ button: Model.Options.Button = .hold, _ mode: Model.Mode = .video) -> Phone {
    var options = Model.Options()
    options.button = button
    var preferences = Model.Preferences()
    preferences.mode = mode
    var phone = Phone(model: Model(options: options, preferences: preferences))
    phone.send(.tracking(.normal), at: 0)
    return phone
  }

  private func recording() -> Phone {
    var phone = ready()
    phone.hold(until: 3)
    return phone
  }

  private func previewing() -> Model {
    var model = recording().model
    _ = model.handle(.release, at: 3.1)
    _ = model.handle(.finished(Self.take), at: 3.2)
    return model
  }

  private func uploading() -> Model {
    var model = previewing()
    _ = model.handle(.use, at: 4)
    return model
  }

  @Test func a3ReleasingStopsAndSoDoFifteenSeconds() {
    var phone = recording()
    #expect(phone.send(.release, at: 5) == [.stopRecording] && phone.model.screen == .processing)
    var longer = ready()
    #expect(longer.hold(until: 16.375).last?.isStart == true && longer.run(from: 16.5, until: 16.5) == [.stopRecording])
    #expect(longer.machine.state == .processing(.limit, frames: 120) && longer.send(.release, at: 21).isEmpty)
  }

  @Test func a4TheTimerCountsTheSecondsThatAreRecorded() {
    var phone = ready()
    #expect(phone.model.timer == nil && phone.model.caption == nil)
    phone.hold(until: 1.375)
    #expect(phone.model.timer == "0:00" && phone.model.caption == "Recording..." && phone.model.showsDot)
    var seen: [String] = []
    for step in 12..<132 {
      phone.run(from: Double(step) / 8, until: Double(step) / 8)
      if let timer = phone.model.timer, seen.last != timer { seen.append(timer) }
    }
    #expect(seen == (0..<15).map { "0:\($0 < 10 ? "0" : "")\($0)" } && Model.clock(75.9) == "1:15")
    // A camera that is silent records nothing.
    var silent = recording()
    silent.send(.tick(silent.machine.state), at: 3.9)
    #expect(silent.model.timer == "0:01")
  }

  @Test func a5EachHapticComesOnce() {
    var phone = ready()
    phone.hold(until: 20)
    #expect(phone.haptics == [.medium, .warning, .heavy] && phone.hapticTimes == [1.375, 11.5, 16.5])
    var short = recording()
    short.send(.release, at: 3.1)
    #expect(short.haptics == [.medium, .heavy] && short.hapticTimes == [1.375, 3.1])
  }

  @Test func a10AnInterruptionKeepsWhatThereIs() {
    var phone = recording()
    phone.tell(.interrupt(.phoneCall), at: 4)
    phone.send(.interrupted, at: 4)
    #expect(phone.run(from: 4, until: 4) == [.stopRecording] && phone.model.screen == .processing)
    #expect(phone.model.banner == "Recording interrupted. What was recorded is kept.")
    // The stop that follows does not make it a recording that ended as it should.
    #expect(phone.machine.state == .processing(.interrupted(.phoneCall), frames: 13) && phone.haptics == [.medium, .heavy])
    // The finger that is lifted later does nothing, and one that was down before is forgotten.
    #expect(phone.send(.release, at: 4.5).isEmpty)
    var pressed = ready()
    pressed.send(.press, at: 1)
    pressed.send(.interrupted, at: 1.1)
    #expect(pressed.run(from: 2, until: 3).isEmpty)
  }

  @Test func c1TheModeIsRememberedAndLockedWhileRecording() {
    var model = ready().model
    var expected = Model.Preferences()
    expected.mode = .photo
    #expect(model.handle(.choose(.photo), at: 1) == [.remember(expected)] && Model(preferences: expected).preferences.mode == .photo)
    #expect(model.handle(.choose(.photo), at: 1).isEmpty)
    var busy = recording().model
    #expect(busy.isModeLocked && busy.handle(.choose(.photo), at: 4).isEmpty && busy.preferences.mode == .video)
    #expect(previewing().isModeLocked && !ready().model.isModeLocked)
  }

  @Test func c2AHoldRecordsAndAShortPressDoesNot() {
    var phone = ready()
    #expect(phone.hold(until: 1.25).isEmpty && phone.model.screen == .camera)
    #expect(phone.send(.release, at: 1.28).isEmpty && phone.model.banner == "Hold to record")
    #expect(phone.run(from: 3, until: 4).isEmpty)
    var photo = ready(.hold, .photo)
    #expect(photo.send(.press, at: 1).isEmpty && photo.send(.release, at: 1.1) == [.takePhoto])
    // A long press in photo mode is one photo, too.
    #expect(photo.send(.press, at: 2).isEmpty && photo.run(from: 3, until: 4).isEmpty && photo.send(.release, at: 4) == [.takePhoto])
  }

  @Test func c2ATapStartsAndTheNextStops() {
    var phone = ready(.toggle)
    let conditions = RecordingMachine.Conditions(freeSpace: .max, tracksNormally: true, sessionRuns: true)
    #expect(phone.send(.press, at: 1) == [.startRecording(conditions)] && phone.send(.release, at: 1.1).isEmpty)
    #expect(phone.send(.press, at: 4) == [.stopRecording] && phone.send(.press, at: 4.1).isEmpty)
  }

  @Test(arguments: [
    (Model.Event.tracking(.tooFast), "Move slower"), (.tracking(.tooDark), "More light needed"),
    (.tracking(.starting), "Move the phone to start"),
    (.tracking(.lost), "Tracking lost. Go back to where you were"), (.freeSpace(49_999_999), "Not enough storage"),
    (.permission(false), "Allow the camera in Settings"),
  ])
  func c2AndC10TheButtonIsOffAndSaysWhy(_ event: Model.Event, _ message: String) {
    for button in [Model.Options.Button.hold, .toggle] {
      var phone = ready(button)
      phone.send(event, at: 0.5)
      #expect(!phone.model.isButtonEnabled && phone.model.banner == message)
      #expect(phone.hold(until: 3).isEmpty && phone.model.screen == .camera)
    }
  }

  @Test func c3TheProgressIsOfFifteenSeconds() {
    var phone = ready()
    #expect(phone.model.progress == 0 && !phone.model.showsDot)
    phone.hold(until: 9)
    #expect(phone.model.progress == 0.5 && phone.model.showsDot)
  }

  @Test func c4EdgesAreAPreferenceOfEachMode() {
    var model = ready().model
    #expect(model.showsEdges)
    _ = model.handle(.toggleEdges, at: 1)
    #expect(!model.showsEdges)
    _ = model.handle(.choose(.photo), at: 1)
    #expect(!model.showsEdges)
    guard case .remember(let preferences)? = model.handle(.toggleEdges, at: 1).first else {
      Issue.record("nothing is remembered")
      return
    }
    #expect(preferences.edges == [.video: false, .photo: true])
    // Also while it records: the edges are of the preview, not of the recording.
    var busy = recording().model
    #expect(busy.handle(.toggleEdges, at: 4).count == 1 && !busy.showsEdges)
  }

  @Test func c4EdgesAreCyanNearAndMagentaFar() {
    #expect(EdgeOverlay.color(0.5) == [0, 1, 1] && EdgeOverlay.color(5) == [1, 0, 1])
    // A step of a meter is an edge, a smooth wall is none.
    let step = (0..<64).map { Float($0 % 8 < 4 ? 1 : 2) }
    let colors = EdgeOverlay.colors(step, width: 8, height: 8)
    #expect(colors.indices.filter { colors[$0] != nil }.allSatisfy { [3, 4].contains($0 % 8) } && colors[3] != nil && colors[4] != nil)
  }

  @Test func c6TheUploadTellsPercentAndMegabytes() {
    var model = uploading()
    #expect(model.uploadText == "Uploading video...")
    _ = model.handle(.progress("take-1", sent: 4_200_000, of: 10_000_000), at: 5)
    #expect(model.uploadText == "Uploading video... 42%, 4.2 MB of 10.0 MB")
    // A block that is sent again is no step back.
    _ = model.handle(.progress("take-1", sent: 2_000_000, of: 10_000_000), at: 6)
    #expect(model.uploadText == "Uploading video... 42%, 4.2 MB of 10.0 MB")
    #expect(model.handle(.uploaded("take-1"), at: 7).isEmpty && model.screen == .camera && model.banner == "Uploaded")
  }

  @Test func c6AnotherTakesUploadChangesNothing() {
    for start in [
      uploading(),
      {
        var model = uploading(); _ = model.handle(.uploadWaits("take-1", "no network"), at: 5); return model
      }(),
    ] {
      for event in [
        Model.Event.progress("take-0", sent: 5, of: 10), .uploaded("take-0"), .uploadWaits("take-0", "x"), .uploadFailed("take-0", "x"),
      ] {
        var model = start
        #expect(model.handle(event, at: 6).isEmpty && model.screen == start.screen && model.banner == start.banner)
      }
    }
    // Of a size that is not known, no percent is claimed.
    var model = uploading()
    _ = model.handle(.progress("take-1", sent: 500, of: -1), at: 5)
    #expect(model.uploadText == "Uploading video...")
    _ = model.handle(.progress("take-1", sent: 100, of: 200), at: 6)
    #expect(model.uploadText == "Uploading video... 100%, 0.0 MB of 0.0 MB")
  }

  @Test func c6WhatTheServerHasIsUploadedAlsoAfterARefusal() {
    var model = uploading()
    _ = model.handle(.uploadFailed("take-1", "x"), at: 5)
    #expect(model.handle(.uploaded("take-1"), at: 6).isEmpty && model.screen == .camera && model.banner == "Uploaded")
  }

  @Test func c6AnUploadThatFailsIsTriedAgain() {
    var model = uploading()
    _ = model.handle(.uploadWaits("take-1", "no network"), at: 5)
    #expect(model.uploadText == "Waiting: no network")
    _ = model.handle(.progress("take-1", sent: 1, of: 2), at: 6)
    #expect(model.uploadText == "Uploading video... 50%, 0.0 MB of 0.0 MB")
    _ = model.handle(.uploadFailed("take-1", "the server has no room"), at: 7)
    #expect(model.uploadText == "Not uploaded: the server has no room")
    #expect(model.handle(.retry, at: 8) == [.upload("take-1")])
    #expect(model.handle(.close, at: 9).isEmpty && model.screen == .camera)
  }

  @Test func c7ThePreviewIsUsedOrRetaken() {
    var model = previewing()
    #expect(model.handle(.press, at: 4).isEmpty && model.handle(.use, at: 4) == [.upload("take-1")] && model.handle(.use, at: 4).isEmpty)
    var other = previewing()
    #expect(other.handle(.retake, at: 4) == [.discard("take-1")] && other.screen == .camera)
  }

  @Test(arguments: [
    (12.4, 10.0, "Verified: 10s of 12s recorded"), (15, 15, "Verified: 15s recorded"), (4.9, 0, "Not verified: 4s recorded"),
    (8.2, 20, "Verified: 8s recorded"), (10.9, 4.99, "Verified: 4s of 10s recorded"),
  ])
  func c8TheBadgeClaimsNoMoreThanIsSigned(_ recorded: Double, _ verified: Double, _ badge: String) {
    var take = Self.take
    (take.seconds, take.verifiedSeconds) = (recorded, verified)
    #expect(take.badge == badge)
    #expect(previewing().badge == "Verified: 10s of 12s recorded")
  }

  @Test func c9AModeSwitchTouchesTheSessionNever() {
    var model = ready().model
    for step in 0..<100 {
      let effects = model.handle(.choose(step % 2 == 0 ? .photo : .video), at: Double(step))
      #expect(effects.count == 1 && { if case .remember = effects[0] { true } else { false } }())
    }
  }

  @Test func c10MessagesGoAfterFiveSecondsAndFailuresAreTriedAgain() {
    var model = ready().model
    _ = model.handle(.press, at: 1)
    _ = model.handle(.release, at: 1.1)
    _ = model.handle(.tick(.idle), at: 6)
    #expect(model.banner == "Hold to record")
    _ = model.handle(.tick(.idle), at: 6.2)
    #expect(model.banner == nil)
    var failed = recording()
    failed.tell(.writerFailed, at: 4)
    #expect(failed.run(from: 4, until: 4) == [.stopRecording])
    failed.tell(.finishingFailed, at: 5)
    failed.send(.failed("the disk is full"), at: 5)
    #expect(failed.model.screen == .failed("the disk is full"))
    #expect(failed.send(.retry, at: 6) == [.stopRecording] && failed.machine.state == .processing(.writerFailed, frames: 13))
    var closed = failed
    closed.send(.failed("the disk is full"), at: 6.5)
    #expect(closed.send(.close, at: 6.6).isEmpty && closed.model.screen == .camera)
    failed.send(.finished(nil), at: 7)
    #expect(failed.model.screen == .camera && failed.model.banner == "Nothing was recorded")
  }

  @Test func c10AStartThatFailsSaysSoAndMayBeRepeated() {
    var model = ready(.toggle).model
    _ = model.handle(.press, at: 1)
    #expect(model.handle(.failed("the disk is full"), at: 1.1).isEmpty && model.screen == .camera && model.banner == "the disk is full")
    #expect(model.handle(.press, at: 2).first?.isStart == true)
  }

  @Test func trackingThatIsLostWhileRecordingIsShownAndEndsNothing() {
    var model = recording().model
    _ = model.handle(.tracking(.tooFast), at: 4)
    #expect(model.banner == "Move slower" && model.showsDot)
    _ = model.handle(.tracking(.normal), at: 5)
    #expect(model.banner == nil)
  }

  /// Every sequence of up to five of sixteen things that happen to an app: what is recorded is shown, recordings start and stop in turn, one haptic for
  /// each, uploads only of what was used.
  @Test func noSequenceRecordsUnseenOrUploadsWhatWasNotUsed() {
    enum Happening { case screen(Model.Event), machine(RecordingMachine.Event), both(RecordingMachine.Event, Model.Event), ticks }
    let happenings: [(Happening, after: Double)] = [
      (.screen(.press), 0), (.screen(.release), 0.1), (.ticks, 0.5), (.ticks, 15), (.screen(.choose(.photo)), 0),
      (.screen(.choose(.video)), 0), (.screen(.tracking(.lost)), 0), (.screen(.tracking(.normal)), 0), (.machine(.diskFull), 0),
      (.both(.finished, .finished(Self.take)), 0.2), (.both(.finished, .finished(nil)), 0.2), (.both(.finishingFailed, .failed("x")), 0.2),
      (.both(.interrupt(.phoneCall), .interrupted), 0.1), (.screen(.use), 0.5), (.screen(.retake), 0.5), (.screen(.retry), 0.5),
    ]
    var count = 0
    var failures: [String] = []
    func visit(_ before: Phone, _ time: Double, _ depth: Int, _ path: [Int]) {
      for index in happenings.indices {
        var phone = before
        let time = time + happenings[index].after
        func fail(_ what: String) { failures.append("\(path + [index]): \(what)") }
        var effects: [Model.Effect] = []
        switch happenings[index].0 {
        case .screen(let event): effects = phone.send(event, at: time)
        case .machine(let event): phone.tell(event, at: time)
        case .both(let told, let event):
          phone.tell(told, at: time)
          // What the recorder has not done, an app does not say.
          if event == .interrupted || phone.machine != before.machine { effects = phone.send(event, at: time) }
        case .ticks:
          phone.tell(.tick, at: time)
          effects = phone.send(.tick(phone.machine.state), at: time)
        }
        count += 1
        if effects.contains(.upload("take-1")), !path.contains(9) { fail("uploads what was not recorded") }
        if effects.contains(.takePhoto), before.model.screen != .camera { fail("a photo while it records") }
        let isRecording = phone.machine.state.seconds != nil
        if isRecording, !phone.model.showsDot { fail("records unseen") }
        if case .ticks = happenings[index].0, phone.model.showsDot, !isRecording { fail("shows what is over") }
        if phone.model.showsDot, !phone.model.isModeLocked { fail("the mode is free") }
        let expected = phone.haptics.indices.map { $0 % 2 == 0 ? RecordingMachine.Haptic.medium : .heavy }
        if phone.haptics != expected || phone.haptics.count % 2 != (isRecording ? 1 : 0) { fail("haptics \(phone.haptics)") }
        if depth < 5 { visit(phone, time, depth + 1, path + [index]) }
      }
    }
    visit(ready(), 1, 1, [])
    #expect(count == 1_118_480 && failures.isEmpty, "\(failures.count): \(failures.prefix(3))")
  }
}

extension CaptureModel.Effect {
  fileprivate var isStart: Bool { if case .startRecording = self { true } else { false } }
}
