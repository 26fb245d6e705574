import Testing

@testable import TakesetRecorder

/// Every sequence of up to five events, and what holds after each.
@Suite struct RecordingMachineTests {
  private static let good = RecordingMachine.Conditions(freeSpace: 1 << 30, tracksNormally: true, sessionRuns: true)
  /// Events with the time that passes before them, in seconds.
  private static let events: [(event: RecordingMachine.Event, after: Double)] = [
    (.start(good), 0.1), (.start(.init(freeSpace: 49_999_999, tracksNormally: true, sessionRuns: true)), 0.1),
    (.start(.init(freeSpace: 1 << 30, tracksNormally: false, sessionRuns: true)), 0.1),
    (.start(.init(freeSpace: 1 << 30, tracksNormally: true, sessionRuns: false)), 0.1), (.frame, 1.0 / 30), (.frame, 15), (.release, 0.2),
    (.interrupt(.phoneCall), 0.1), (.writerFailed, 0), (.diskFull, 0), (.tick, 1), (.finished, 0.3), (.finishingFailed, 0.3), (.retry, 2),
  ]

  /// What a recorder that carries out the effects knows.
  private struct Owner {
    var isOpen = false, isFinishing = false, hasFailed = false
    var recorded: [Double] = []
    var opened = 0, results = 0, finishes = 0
    var stop: RecordingMachine.Stop?
    var mediums = 0, heavies = 0
  }

  @Test func allSequencesOfFiveEventsKeepTheInvariants() {
    var count = 0
    var failures: [String] = []
    func visit(_ machine: RecordingMachine, _ owner: Owner, _ time: Double, _ depth: Int, _ path: [Int]) {
      for index in Self.events.indices {
        var (machine, owner) = (machine, owner)
        let before = machine.state
        let now = time + Self.events[index].after
        let effects = machine.handle(Self.events[index].event, at: now)
        count += 1
        check(effects, of: Self.events[index].event, at: now, before, machine.state, &owner) { failures.append("\(path + [index]): \($0)") }
        if depth < 5 { visit(machine, owner, now, depth + 1, path + [index]) }
      }
    }
    visit(RecordingMachine(), Owner(), 100, 1, [])
    #expect(count == 579_194)
    #expect(failures.isEmpty, "\(failures.count): \(failures.prefix(3))")
  }

  private func check(
    _ effects: [RecordingMachine.Effect], of event: RecordingMachine.Event, at time: Double, _ before: RecordingMachine.State,
    _ after: RecordingMachine.State, _ owner: inout Owner, _ fail: (String) -> Void
  ) {
    for effect in effects {
      switch effect {
      case .open:
        // 1: a recording begins only from rest, and when all is right.
        if before != .idle || event != .start(Self.good) { fail("opened by \(event) in \(before)") }
        owner = Owner(isOpen: true, opened: owner.opened + 1, results: owner.results, mediums: owner.mediums, heavies: owner.heavies)
      case .record:
        // 2: no frame before the start, none after the stop.
        if !owner.isOpen || owner.isFinishing { fail("a frame outside of a recording") }
        // 3: times ascend. 4: none is 15 s after the first, or later.
        if let last = owner.recorded.last, time <= last { fail("time goes back") }
        if let first = owner.recorded.first, time - first >= 15 { fail("a frame after \(time - first) s") }
        owner.recorded.append(time)
      case .finish(let stop):
        // 5: a recording is finished once, and again only where that has failed, for the same reason.
        if !owner.isOpen { fail("finished without a recording") }
        if owner.isFinishing, !owner.hasFailed || owner.stop != stop { fail("finished twice") }
        (owner.isFinishing, owner.hasFailed, owner.stop) = (true, false, stop)
        owner.finishes += 1
      case .result(let outcome):
        // 6: one result of each recording. 7: complete only where it was not cut short, nothing only without a frame.
        owner.results += 1
        if owner.results > owner.opened || !owner.isFinishing { fail("a result too many") }
        let expected: Recovery.Outcome = owner.recorded.isEmpty ? .nothing : owner.stop?.isComplete == true ? .complete : .partial
        if outcome != expected { fail("\(outcome) instead of \(expected)") }
        (owner.isOpen, owner.isFinishing) = (false, false)
      case .refuse(let refusal):
        // 8: a refusal changes nothing.
        if before != after || effects.count != 1 { fail("refused \(refusal), and yet changed") }
      case .haptic(.medium):
        owner.mediums += 1
      case .haptic(.warning):
        if !owner.isOpen || owner.isFinishing { fail("a warning outside of a recording") }
      case .haptic(.heavy):
        owner.heavies += 1
      }
    }
    // 9: one medium at each start, one heavy at each stop.
    if owner.mediums != owner.opened { fail("\(owner.mediums) haptics of \(owner.opened) starts") }
    // 10: the state is what the owner does.
    switch after {
    case .idle: if owner.isOpen { fail("at rest, and open") }
    case .recording(_, let first, _, let frames):
      if !owner.isOpen || owner.isFinishing || frames != owner.recorded.count || first != owner.recorded.first {
        fail("recording otherwise")
      }
    case .processing(let stop, let frames):
      if !owner.isFinishing || owner.stop != stop || frames != owner.recorded.count { fail("finishing otherwise") }
    case .failed:
      owner.hasFailed = true
      if !owner.isFinishing { fail("failed without finishing") }
    }
  }

  @Test func theWarningComesOnceTenSecondsAfterTheFirstFrame() {
    var machine = RecordingMachine()
    _ = machine.handle(.start(Self.good), at: 9.5)
    var warnings: [Double] = []
    for time in stride(from: 10.0, to: 24, by: 0.25) {
      _ = machine.handle(.frame, at: time)
      if machine.handle(.tick, at: time) == [.haptic(.warning)] { warnings.append(time) }
    }
    #expect(warnings == [20])
  }

  @Test func aRecordingEndsAtTheLimitWithOrWithoutAFrame() {
    for event in [RecordingMachine.Event.frame, .tick] {
      var machine = RecordingMachine()
      _ = machine.handle(.start(Self.good), at: 10)
      var frames = 0
      var ended: [RecordingMachine.Effect] = []
      var number = 0
      while ended.isEmpty {
        let time = 10.2 + Double(number) / 30
        let effects = machine.handle(number < 450 ? .frame : event, at: time)
        if effects == [.record] { frames += 1 } else { ended = effects }
        number += 1
      }
      #expect(frames == 450 && ended == [.finish(.limit), .haptic(.heavy)])
    }
  }
}

@Suite struct FrameGateTests {
  @Test(arguments: [24.0, 25, 30, 50, 60, 90, 120]) func framesOfAnyCameraAreAtMostThirtyASecond(_ rate: Double) {
    for seed in 0..<172 {
      var random = SplitMix(seed: UInt64(seed))
      let jitter = Double(seed % 5) / 10
      var gate = FrameGate()
      var taken: [Double] = []
      var machine = RecordingMachine()
      _ = machine.handle(.start(.init(freeSpace: 1 << 30, tracksNormally: true, sessionRuns: true)), at: 5)
      for number in 0..<Int(17 * rate) {
        // A camera that now and then misses up to half a second.
        if seed % 3 == 1, (number / Int(rate / 2)) % 7 == 3 { continue }
        let time = 5 + (Double(number) + Double.random(in: -jitter...jitter, using: &random)) / rate
        if gate.takes(time), machine.handle(.frame, at: time) == [.record] { taken.append(time) }
      }
      #expect(taken.count <= 450 && zip(taken, taken.dropFirst()).allSatisfy { $0 < $1 })
      #expect((taken.last ?? 0) - (taken.first ?? 0) < 15)
      // A camera without gaps and without jitter gives what it has, or thirty.
      if seed % 15 == 0 { #expect(taken.count == Int(min(rate, 30) * 15), "\(rate): \(taken.count)") }
      let keyframes = taken.indices.filter(KeyframeRule.isKeyframe)
      #expect(keyframes.count <= 150 && keyframes.enumerated().allSatisfy { $1 == 3 * $0 })
    }
  }

  @Test func framesThatDoNotAscendAreNotTaken() {
    var gate = FrameGate()
    #expect([1.0, 1.0, 0.5, .nan, .infinity, 1.02, 1.04].map { gate.takes($0) } == [true, false, false, false, false, false, true])
  }
}

/// Steele, Lea and Flood 2014.
struct SplitMix: RandomNumberGenerator {
  private var state: UInt64
  init(seed: UInt64) { state = seed }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var z = state
    z = (z ^ z >> 30) &* 0xBF58_476D_1CE4_E5B9
    z = (z ^ z >> 27) &* 0x94D0_49BB_1331_11EB
    return z ^ z >> 31
  }
}
