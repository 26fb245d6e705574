import Foundation

/// Records one bundle: feeds the frames that the machine wants to the chain, the files and the encoder, has checkpoints signed, and puts the bundle in
/// place.
///
/// Each frame is consumed inside the camera's callback. A lock instead of a queue of its own keeps frames in order and needs no copy: hashing 1920x1440 takes a
/// fraction of a frame's time. What the encoder cannot take is dropped and counted, never waited for.
///
/// `@unchecked Sendable`: `lock` guards everything that changes.
///
///     try recorder.start(conditions, at: now)
///     recorder.record(CameraFrame(time: time, pixels: planes, depth: depth))           // each frame
///     recorder.tick(at: now)                                                           // every 0.1 s
///     let bundle = try await recorder.stop(at: now)
public final class BundleRecorder: @unchecked Sendable {
  /// The options of a recording: its rate, its limits, and its patience with the signer.
  public struct Options: Sendable {
    /// Frames per second of the recording, from a camera with more; `nil` for all of the camera's.
    public var rate: Double? = 30
    public var limits = RecordingMachine.Limits()
    var checkpoints = CheckpointRule()
    /// The end waits this long for signatures that are not there yet (seconds); the bundle then claims less.
    public var patience = 10.0
    public init() {}
  }

  public typealias Completion = @Sendable (Result<Recovery.Recovered?, any Error>) -> Void
  public typealias MakeSink = (@escaping SegmentReceiver) throws -> any SegmentSink

  private let lock = NSLock()
  private var machine: RecordingMachine
  private var gate: FrameGate?
  private var files: BundleRecording?
  private var sink: (any SegmentSink)?
  private var first: Double?
  private var last = 0.0
  /// Frames that were not recorded and are not in the journal yet, by reason.
  private var dropped = 0
  private var problem: (any Error)?
  /// Those who wait for the end; not empty while it is made.
  private var waiting: [Completion] = []
  /// Checkpoints that are being signed.
  private let signatures = DispatchGroup()
  private let finishing = DispatchQueue(label: "takeset.recorder.finishing")

  private static let busy = "the encoder was busy"
  private let signer: (any AssertionSigner)?
  private let patience: Double
  private let deflate: Deflate
  private let makeFiles: () throws -> BundleRecording
  private let makeSink: MakeSink
  /// Called for what an app has to do or show: haptics, which come from here alone, refusals, the result. On the thread of the event.
  public var onEffect: @Sendable (RecordingMachine.Effect) -> Void = { _ in }

  /// - Parameters:
  ///   - parent: The folder in which `ID.recording/` is made, and at last `ID/`.
  ///   - signer: Signs checkpoints and the end; without one, the bundle is unsigned.
  public init(
    in parent: String, id: String, _ description: BundleDescription, options: Options = Options(), signer: (any AssertionSigner)? = nil,
    _ makeHasher: @escaping MakeHasher, deflate: @escaping Deflate, sink: @escaping MakeSink
  ) {
    (self.signer, patience, self.deflate, makeSink) = (signer, options.patience, deflate, sink)
    machine = RecordingMachine(limits: options.limits)
    gate = options.rate.map(FrameGate.init)
    makeFiles = {
      try BundleRecording(in: parent, id: id, description, checkpoints: options.checkpoints, makeHasher)
    }
  }

  /// Number of frames recorded so far.
  public var frames: Int { lock.withLock { files?.frames ?? 0 } }
  public var state: RecordingMachine.State { lock.withLock { machine.state } }
  /// The failure that ended the recording, or kept it from its place; `nil` where nothing failed.
  public var failure: (any Error)? { lock.withLock { problem } }

  /// Begins, if all is as it has to be; otherwise `onEffect` gets the refusal.
  ///
  /// - Parameter time: Seconds on the camera's clock, as of all events.
  /// - Throws: `RecordingError` where the folder cannot be made, and what the maker of the encoder throws. The recorder is then as before, and another
  ///   call may succeed.
  public func start(_ conditions: RecordingMachine.Conditions, at time: Double) throws {
    let effects = try lock.withLock {
      var begun = machine
      let effects = begun.handle(.start(conditions), at: time)
      if effects.contains(.open) {
        do {
          try open()
          problem = nil
        } catch {
          problem = error
          throw error
        }
      }
      machine = begun
      return effects
    }
    effects.forEach(onEffect)
  }

  /// Under the lock.
  private func open() throws {
    let files = try makeFiles()
    do {
      sink = try makeSink { [weak self] bytes, frames in self?.receive(bytes, frames) }
    } catch {
      files.discard()
      throw error
    }
    self.files = files
    (first, last, dropped) = (nil, 0, 0)
  }

  /// Offers a frame of the camera. Inside this call it is hashed, encoded and journaled, or dropped.
  public func record(_ frame: borrowing CameraFrame) {
    var checkpoint: FrameChain.Checkpoint?
    var effects: [RecordingMachine.Effect] = []
    lock.lock()
    if gate?.takes(frame.time) ?? true {
      effects = machine.handle(.frame, at: frame.time)
      if effects == [.record] {
        do {
          checkpoint = try take(frame)
        } catch {
          effects = fail(error, at: frame.time)
        }
      }
    }
    // Before the lock is free, so that an end on another thread waits for this signature.
    if checkpoint != nil { signatures.enter() }
    lock.unlock()
    if let checkpoint { sign(checkpoint.hash, frames: checkpoint.frames) }
    effects.filter { $0 != .record }.forEach(onEffect)
  }

  /// Under the lock.
  private func take(_ frame: borrowing CameraFrame) throws -> FrameChain.Checkpoint? {
    guard let files, let sink else { return nil }
    let seconds = frame.time - (first ?? frame.time)
    guard try sink.encode(frame, at: seconds) else {
      dropped += 1
      return nil
    }
    if dropped > 0 {
      try files.drop(dropped, reason: Self.busy)
      dropped = 0
    }
    (first, last) = (first ?? frame.time, frame.time)
    return try files.add(frame.pixels, depth: frame.depth, time: seconds)
  }

  private func fail(_ error: any Error, at time: Double) -> [RecordingMachine.Effect] {
    problem = problem ?? error
    return machine.handle((error as? RecordingError)?.isFull == true ? .diskFull : .writerFailed, at: time)
  }

  private func receive(_ bytes: [UInt8], _ frames: Int) {
    // Of one thread after another: the encoder's.
    guard let files = lock.withLock({ self.files }) else { return }
    do {
      try files.addSegment(bytes, frames: frames) { try lock.withLock($0) }
    } catch {
      lock.withLock { fail(error, at: last) }.forEach(onEffect)
    }
  }

  private func sign(_ hash: [UInt8], frames: Int) {
    guard let signer else { return signatures.leave() }
    signer.sign(hash) { [self] assertion in
      // Unsigned is no reason to stop: the bundle then claims less.
      if let assertion { lock.withLock { try? files?.addAssertion(assertion, frames: frames) } }
      signatures.leave()
    }
  }

  /// Time has passed: stops a recording at its limit, or when the camera is silent. Call it every 0.1 s.
  ///
  /// - Returns: The state after it, which a `CaptureModel` shows.
  @discardableResult public func tick(at time: Double) -> RecordingMachine.State {
    deliver(.tick, at: time)
    return state
  }

  /// Ends the recording, which is then partial.
  public func interrupt(_ reason: RecordingMachine.Interruption, at time: Double) {
    deliver(.interrupt(reason), at: time)
  }

  private func deliver(_ event: RecordingMachine.Event, at time: Double) {
    lock.withLock { machine.handle(event, at: time) }.forEach(onEffect)
  }

  /// Ends the recording and makes the bundle; also one that has ended by itself.
  ///
  /// - Returns: The recorded bundle; `nil` without a frame.
  /// - Throws: `RecordingError` where it cannot be put in place: `ID.recording/` then stays, for another call or for `Recovery`.
  public func stop(at time: Double) async throws -> Recovery.Recovered? {
    try await withCheckedThrowingContinuation { continuation in stop(at: time) { continuation.resume(with: $0) } }
  }

  /// Does the same as `stop(at:)`, for code without tasks.
  public func stop(at time: Double, _ done: @escaping Completion) {
    deliver(.release, at: time)
    lock.lock()
    if case .failed = machine.state { _ = machine.handle(.retry, at: time) }
    guard case .processing(let reason, _) = machine.state, files != nil else {
      lock.unlock()
      return done(.success(nil))
    }
    waiting.append(done)
    let isFirst = waiting.count == 1, sink = sink
    lock.unlock()
    guard isFirst else { return }
    guard let sink else { return signEnd(reason, at: time, nil, by: .now() + patience) }
    sink.finish { [self] error in
      // The signing deadline starts only now, after the encoder.
      let deadline = DispatchTime.now() + patience
      lock.withLock { self.sink = nil }
      // The failure that ended the recording is already reported.
      let isKnown = reason == .writerFailed || reason == .diskFull
      let end = Awaited<Bool>(on: finishing, until: deadline) { [self] _ in signEnd(reason, at: time, isKnown ? nil : error, by: deadline) }
      signatures.notify(queue: finishing) { end.answer(true) }
    }
  }

  private func signEnd(_ reason: RecordingMachine.Stop, at time: Double, _ failure: (any Error)?, by deadline: DispatchTime) {
    let (hash, frames) = lock.withLock { (files?.finalHash, files?.frames ?? 0) }
    guard failure == nil, reason.isComplete, let signer, let hash else { return commit(reason, at: time, nil, failure) }
    let end = Awaited<[UInt8]>(on: finishing, until: deadline) { [self] assertion in
      commit(reason, at: time, assertion.map { ($0, frames) }, nil)
    }
    signer.sign(hash) { end.answer($0) }
  }

  private func commit(
    _ reason: RecordingMachine.Stop, at time: Double, _ assertion: (bytes: [UInt8], frames: Int)?, _ failure: (any Error)?
  ) {
    lock.lock()
    let result = Result<Recovery.Recovered?, any Error> {
      if let failure { throw failure }
      guard let files else { return nil }
      if let assertion { try files.addAssertion(assertion.bytes, frames: assertion.frames) }
      if dropped > 0 { try files.drop(dropped, reason: Self.busy) }
      dropped = 0
      switch reason {
      case .interrupted(let reason): try files.interrupt(reason: reason.rawValue)
      case .released: try files.stop(time: max(time, last) - (first ?? last))
      case .limit: try files.stop(time: machine.limits.longest)
      // The journal ends without a stop, which says the same.
      case .writerFailed, .diskFull, .silence: break
      }
      return try files.commit(deflate: deflate)
    }
    let effects: [RecordingMachine.Effect]
    switch result {
    case .success(let recovered):
      // The bundle says what it is: of an encoder that failed at the end, less is in it than the reason of the end tells.
      let outcome = recovered?.outcome ?? .nothing
      effects = machine.handle(.finished, at: time).map { if case .result = $0 { .result(outcome) } else { $0 } }
    case .failure(let error):
      problem = error
      effects = machine.handle(.finishingFailed, at: time)
    }
    let waiting = waiting
    self.waiting = []
    lock.unlock()
    effects.forEach(onEffect)
    for done in waiting { done(result) }
  }
}

/// Something that is done once: with its answer, or without one at a deadline.
///
/// `@unchecked Sendable`: everything that changes belongs to `queue`, which is serial.
private final class Awaited<Answer: Sendable>: @unchecked Sendable {
  private let queue: DispatchQueue
  private var action: (@Sendable (Answer?) -> Void)?

  init(on queue: DispatchQueue, until deadline: DispatchTime, _ action: @escaping @Sendable (Answer?) -> Void) {
    (self.queue, self.action) = (queue, action)
    queue.asyncAfter(deadline: deadline) { self.take(nil) }
  }

  func answer(_ answer: Answer?) { queue.async { self.take(answer) } }

  private func take(_ answer: Answer?) {
    action?(answer)
    action = nil
  }
}
