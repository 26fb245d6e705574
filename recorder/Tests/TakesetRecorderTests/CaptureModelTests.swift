import Testing

@testable import TakesetRecorder

/// One test for each row of what the capture screen must do.
@Suite struct CaptureModelTests {
  typealias Model = CaptureModel
  private static let take = Model.Take(id: "take-1", seconds: 12.4, verifiedSeconds: 10, isPartial: true)

  private func ready(_ button: Model.Options.Button = .hold, _ mode: Model.Mode = .video) -> Model {
    var options = Model.Options()
    options.button = button
    var preferences = Model.Preferences()
    preferences.mode = mode
    var model = Model(options: options, preferences: preferences)
    _ = model.handle(.tracking(.normal), at: 0)
    return model
  }

  /// Presses and holds at 1 s; ticks of 0.1 s until `end`. Returns each effect with its time.
  private func hold(_ model: inout Model, until end: Double) -> [(Double, Model.Effect)] {
    var found = model.handle(.press, at: 1).map { (1.0, $0) }
    for step in 1...Int((end - 1) * 10) {
      let time = 1 + Double(step) / 10
      found += model.handle(.tick, at: time).map { (time, $0) }
    }
    return found
  }

  private func recording() -> Model {
    var model = ready()
    _ = hold(&model, until: 3)
    return model
  }

  private func previewing() -> Model {
    var model = recording()
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
    var model = recording()
    #expect(model.handle(.release, at: 5) == [.stopRecording, .haptic(.heavy)] && model.screen == .processing)
    var longer = ready()
    let effects = hold(&longer, until: 20)
    #expect(effects.last?.1 == .haptic(.heavy) && effects.contains { $0.1 == .stopRecording && abs($0.0 - 16.3) < 0.11 })
    #expect(longer.handle(.release, at: 21).isEmpty)
  }

  @Test func a4TheTimerCountsSeconds() {
    var model = ready()
    #expect(model.timer == nil && model.caption == nil)
    _ = hold(&model, until: 1.3)
    var seen: [String] = []
    for step in 0..<150 {
      _ = model.handle(.tick, at: 1.3 + Double(step) / 10 + 0.01)
      if let timer = model.timer, seen.last != timer { seen.append(timer) }
    }
    #expect(seen == (0..<15).map { "0:\($0 < 10 ? "0" : "")\($0)" } && Model.clock(75.9) == "1:15")
    #expect(model.caption == "Recording..." && recording().showsDot)
  }

  @Test func a5TheHapticsAreStartWarningAndStop() {
    var model = ready()
    let haptics = hold(&model, until: 20).compactMap {
      if case .haptic(let haptic) = $0.1 { (($0.0 * 10).rounded() / 10, haptic) } else { nil }
    }
    #expect(haptics.map(\.1) == [.medium, .warning, .heavy] && haptics.map(\.0) == [1.3, 11.3, 16.3])
  }

  @Test func a10AnInterruptionKeepsWhatThereIs() {
    var model = recording()
    #expect(model.handle(.interrupted, at: 4) == [.stopRecording, .haptic(.heavy)] && model.screen == .processing)
    #expect(model.banner == "Recording interrupted. What was recorded is kept.")
    // The finger that is lifted later does nothing.
    #expect(model.handle(.release, at: 4.5).isEmpty)
    _ = model.handle(.finished(Self.take), at: 5)
    #expect(model.screen == .preview(Self.take))
  }

  @Test func c1TheModeIsRememberedAndLockedWhileRecording() {
    var model = ready()
    var expected = Model.Preferences()
    expected.mode = .photo
    #expect(model.handle(.choose(.photo), at: 1) == [.remember(expected)] && Model(preferences: expected).preferences.mode == .photo)
    #expect(model.handle(.choose(.photo), at: 1).isEmpty)
    var busy = recording()
    #expect(busy.isModeLocked && busy.handle(.choose(.photo), at: 4).isEmpty && busy.preferences.mode == .video)
    #expect(previewing().isModeLocked && !ready().isModeLocked)
  }

  @Test func c2AHoldRecordsAndAShortPressDoesNot() {
    var model = ready()
    #expect(hold(&model, until: 1.2).isEmpty && model.screen == .camera)
    #expect(model.handle(.release, at: 1.25).isEmpty && model.banner == "Hold to record")
    #expect(model.handle(.tick, at: 3).isEmpty)
    var photo = ready(.hold, .photo)
    #expect(photo.handle(.press, at: 1).isEmpty && photo.handle(.release, at: 1.1) == [.takePhoto])
    // A long press in photo mode is one photo, too.
    #expect(photo.handle(.press, at: 2).isEmpty && photo.handle(.tick, at: 4).isEmpty && photo.handle(.release, at: 4) == [.takePhoto])
  }

  @Test func c2ATapStartsAndTheNextStops() {
    var model = ready(.toggle)
    #expect(model.handle(.press, at: 1) == [.startRecording, .haptic(.medium)] && model.handle(.release, at: 1.1).isEmpty)
    #expect(model.handle(.press, at: 4) == [.stopRecording, .haptic(.heavy)] && model.handle(.press, at: 4.1).isEmpty)
  }

  @Test(arguments: [
    (Model.Event.tracking(.tooFast), "Move slower"), (.tracking(.tooDark), "More light needed"),
    (.tracking(.starting), "Move the phone to start"),
    (.tracking(.lost), "Tracking lost. Go back to where you were"), (.freeSpace(49_999_999), "Not enough storage"),
    (.permission(false), "Allow the camera in Settings"),
  ])
  func c2AndC10TheButtonIsOffAndSaysWhy(_ event: Model.Event, _ message: String) {
    for button in [Model.Options.Button.hold, .toggle] {
      var model = ready(button)
      _ = model.handle(event, at: 0.5)
      #expect(!model.isButtonEnabled && model.banner == message)
      #expect(hold(&model, until: 3).isEmpty && model.screen == .camera)
    }
  }

  @Test func c3TheProgressIsOfFifteenSeconds() {
    var model = ready()
    #expect(model.progress == 0 && !model.showsDot)
    _ = hold(&model, until: 1.3)
    _ = model.handle(.tick, at: 1.3 + 7.5)
    #expect(abs(model.progress - 0.5) < 1e-9 && model.showsDot)
  }

  @Test func c4EdgesAreAPreferenceOfEachMode() {
    var model = ready()
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
    var busy = recording()
    #expect(busy.handle(.toggleEdges, at: 4).count == 1 && !busy.showsEdges)
  }

  @Test func c4EdgesAreCyanNearAndMagentaFar() {
    #expect(EdgeOverlay.color(0.5) == [0, 1, 1] && EdgeOverlay.color(5) == [1, 0, 1])
    // A step of a meter is an edge, a smooth wall is none.
    let step = (0..<64).map { Float($0 % 8 < 4 ? 1 : 2) }
    let colors = EdgeOverlay.colors(step, width: 8, height: 8)
    #expect(colors.indices.filter { colors[$0] != nil }.allSatisfy { [3, 4].contains($0 % 8) } && colors[3] != nil && colors[4] != nil)
  }

  @Test func c5TheWarningComesOnce() {
    var model = ready()
    let warnings = hold(&model, until: 15).filter { $0.1 == .haptic(.warning) }
    #expect(warnings.count == 1)
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
    #expect(Model.Take(id: "a", seconds: recorded, verifiedSeconds: verified, isPartial: true).badge == badge)
    #expect(previewing().badge == "Verified: 10s of 12s recorded")
  }

  @Test func c9AModeSwitchTouchesTheSessionNever() {
    var model = ready()
    for step in 0..<100 {
      let effects = model.handle(.choose(step % 2 == 0 ? .photo : .video), at: Double(step))
      #expect(effects.count == 1 && { if case .remember = effects[0] { true } else { false } }())
    }
  }

  @Test func c10MessagesGoAfterFiveSecondsAndFailuresAreTriedAgain() {
    var model = ready()
    _ = model.handle(.press, at: 1)
    _ = model.handle(.release, at: 1.1)
    _ = model.handle(.tick, at: 6)
    #expect(model.banner == "Hold to record")
    _ = model.handle(.tick, at: 6.2)
    #expect(model.banner == nil)
    var failed = recording()
    #expect(failed.handle(.stopped, at: 4) == [.stopRecording, .haptic(.heavy)])
    _ = failed.handle(.finishingFailed("the disk is full"), at: 5)
    #expect(failed.screen == .failed("the disk is full") && failed.handle(.retry, at: 6) == [.finishAgain])
    var closed = failed
    _ = closed.handle(.finishingFailed("the disk is full"), at: 6.5)
    #expect(closed.handle(.close, at: 6.6).isEmpty && closed.screen == .camera)
    _ = failed.handle(.nothing, at: 7)
    #expect(failed.screen == .camera && failed.banner == "Nothing was recorded")
  }

  @Test func trackingThatIsLostWhileRecordingIsShownAndEndsNothing() {
    var model = recording()
    _ = model.handle(.tracking(.tooFast), at: 4)
    #expect(model.banner == "Move slower" && model.showsDot)
    _ = model.handle(.tracking(.normal), at: 5)
    #expect(model.banner == nil)
  }

  /// Every sequence of up to five of sixteen events: recordings start and stop in turn, one haptic for each, uploads only of what was used.
  @Test func noSequenceStartsTwiceOrUploadsWhatWasNotUsed() {
    let events: [(Model.Event, Double)] = [
      (.press, 0), (.release, 0.1), (.tick, 0.3), (.tick, 15), (.choose(.photo), 0), (.choose(.video), 0), (.tracking(.lost), 0),
      (.tracking(.normal), 0), (.stopped, 0), (.finished(Self.take), 0.2), (.nothing, 0.2), (.finishingFailed("x"), 0.2),
      (.interrupted, 0.1),
      (.use, 0.5), (.retake, 0.5), (.retry, 0.5),
    ]
    var count = 0
    var failures: [String] = []
    func visit(_ model: Model, _ isRecording: Bool, _ time: Double, _ depth: Int, _ path: [Int]) {
      for index in events.indices {
        var (model, isRecording) = (model, isRecording)
        let effects = model.handle(events[index].0, at: time + events[index].1)
        count += 1
        func fail(_ what: String) { failures.append("\(path + [index]): \(what)") }
        for effect in effects {
          switch effect {
          case .startRecording:
            if isRecording { fail("starts twice") }
            isRecording = true
          case .stopRecording: if !isRecording { fail("stops what is not recorded") }
          case .upload(let id): if events[index].0 != .use && events[index].0 != .retry || id != "take-1" { fail("uploads \(id)") }
          case .takePhoto: if isRecording { fail("a photo while it records") }
          default: break
          }
        }
        if case .recording = model.screen {} else { isRecording = false }
        if model.showsDot != isRecording { fail("shows otherwise") }
        if isRecording, !model.isModeLocked { fail("the mode is free") }
        if depth < 5 { visit(model, isRecording, time + events[index].1, depth + 1, path + [index]) }
      }
    }
    visit(ready(), false, 1, 1, [])
    #expect(count == 1_118_480 && failures.isEmpty, "\(failures.count): \(failures.prefix(3))")
  }
}
