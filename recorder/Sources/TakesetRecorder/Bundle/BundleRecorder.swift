import Foundation

/// Records one bundle: feeds the frames that the machine wants to the chain, the files and the encoder, has checkpoints signed, and puts the bundle in
/// place.
///
/// Each frame is consumed inside the camera's callback. A lock instead of a queue of its own keeps frames in order and needs no copy: hashing 1920x1440 takes a
/// fraction of a frame's time. What the encoder cannot take is dropped and counted, never waited for.
///
/// `@unchecked Sendable`: `lock` guards everything that changes.
public final class BundleRecorder: @unchecked Sendable {
  public struct Options: Sendable {
    /// Frames per second of the recording.
    public var rate = 30.0
    public var limits = RecordingMachine.Limits()
    public var keyframes = KeyframeRule()
    public var checkpoints = CheckpointRule()
    public init() {}
  }

  public typealias MakeSink = (@escaping SegmentReceiver) throws -> any SegmentSink

  private let lock = NSLock()
  private var machine: RecordingMachine
  private var gate: FrameGate
  private var files: BundleRecording?
  private var sink: (any SegmentSink)?
  private var first: Double?
  private var last = 0.0
  /// Frames that were not recorded and are not in the journal yet, by reason.
  private var dropped = 0
  private var signatures: [Task<Void, Never>] = []
  private var problem: (any Error)?

  private static let busy = "the encoder was busy"
  private let signer: (any AssertionSigner)?
  private let makeHasher: MakeHasher
  private let deflate: @Sendable ([UInt8]) -> [UInt8]
  private let open: () throws -> (BundleRecording, (@escaping SegmentReceiver) throws -> any SegmentSink)
  /// Called for what an app has to do: haptics, and refusals. On the thread of the event.
  public var onEffect: @Sendable (RecordingMachine.Effect) -> Void = { _ in }

  /// - Parameters:
  ///   - parent: The folder in which `ID.recording/` is made, and at last `ID/`.
  ///   - signer: Signs checkpoints and the end; without one, the bundle is unsigned.
  ///   - deflate: Compresses to raw DEFLATE (RFC 1951).
  public init(
    in parent: String, id: String, _ description: BundleDescription, options: Options = Options(), signer: (any AssertionSigner)? = nil,
    _ makeHasher: @escaping MakeHasher, deflate: @escaping @Sendable ([UInt8]) -> [UInt8], sink: @escaping MakeSink
  ) {
    (self.signer, self.makeHasher, self.deflate) = (signer, makeHasher, deflate)
    machine = RecordingMachine(limits: options.limits)
    gate = FrameGate(rate: options.rate)
    open = {
      let files = try BundleRecording(
        in: parent, id: id, description, keyframes: options.keyframes, checkpoints: options.checkpoints, makeHasher)
      return (files, sink)
    }
  }

  /// Number of frames recorded so far.
  public var frames: Int { lock.withLock { files?.frames ?? 0 } }
  public var state: RecordingMachine.State { lock.withLock { machine.state } }
  /// What ended the recording, or kept it from its place, if something failed.
  public var failure: (any Error)? { lock.withLock { problem } }

  /// Begins, if all is as it has to be.
  ///
  /// - Parameter time: Seconds on the camera's clock, as of all events.
  /// - Throws: `RecordingError` where the folder cannot be made.
  public func start(_ conditions: RecordingMachine.Conditions, at time: Double) throws {
    let effects = try lock.withLock {
      let effects = machine.handle(.start(conditions), at: time)
      guard effects.contains(.open) else { return effects }
      do {
        let (files, makeSink) = try open()
        self.files = files
        sink = try makeSink { [weak self] bytes, frames in self?.receive(bytes, frames) }
      } catch {
        _ = machine.handle(.writerFailed, at: time)
        problem = error
        throw error
      }
      return effects
    }
    effects.forEach(onEffect)
  }

  /// Offers a frame of the camera. Inside this call it is hashed, encoded and journaled, or dropped.
  public func record(_ frame: borrowing CameraFrame) {
    var checkpoint: FrameChain.Checkpoint?
    var effects: [RecordingMachine.Effect] = []
    lock.lock()
    if gate.takes(frame.time) {
      // The machine hears of a frame only when the encoder has taken it.
      var next = machine
      effects = next.handle(.frame, at: frame.time)
      if effects == [.record] {
        do {
          checkpoint = try take(frame, next)
        } catch {
          effects = fail(error, at: frame.time)
        }
      } else {
        machine = next
      }
    }
    lock.unlock()
    if let checkpoint { sign(checkpoint.hash, frames: checkpoint.frames) }
    effects.filter { $0 != .record }.forEach(onEffect)
  }

  /// Under the lock.
  private func take(_ frame: borrowing CameraFrame, _ next: RecordingMachine) throws -> FrameChain.Checkpoint? {
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
    (machine, first, last) = (next, first ?? frame.time, frame.time)
    return try files.add(frame.pixels, depth: frame.depth, time: seconds)
  }

  private func fail(_ error: any Error, at time: Double) -> [RecordingMachine.Effect] {
    problem = error
    return machine.handle((error as? RecordingError)?.isFull == true ? .diskFull : .writerFailed, at: time)
  }

  private func receive(_ bytes: [UInt8], _ frames: Int) {
    lock.withLock {
      do {
        try files?.addSegment(bytes, frames: frames)
      } catch {
        _ = fail(error, at: last)
      }
    }
  }

  private func sign(_ hash: [UInt8], frames: Int) {
    guard let signer else { return }
    let task = Task { [weak self] in
      // Unsigned is no reason to stop: the bundle then claims less.
      guard let assertion = try? await signer.assertion(over: hash) else { return }
      self?.lock.withLock { try? self?.files?.addAssertion(assertion, frames: frames) }
    }
    lock.withLock { signatures.append(task) }
  }

  /// Time has passed: stops a recording at its limit, or when the camera is silent. Call it every 0.1 s.
  public func tick(at time: Double) { deliver(.tick, at: time) }

  /// Ends the recording, which is then partial.
  public func interrupt(_ reason: RecordingMachine.Interruption, at time: Double) {
    deliver(.interrupt(reason), at: time)
  }

  private func deliver(_ event: RecordingMachine.Event, at time: Double) {
    lock.withLock { machine.handle(event, at: time) }.forEach(onEffect)
  }

  /// Ends the recording and makes the bundle; also one that has ended by itself.
  ///
  /// - Returns: What was recorded; `nil` without a frame.
  /// - Throws: `RecordingError` where it cannot be put in place: `ID.recording/` then stays, for another call or for `Recovery`.
  public func stop(at time: Double) async throws -> Recovery.Recovered? {
    deliver(.release, at: time)
    let (files, sink, reason) = lock.withLock { () -> (BundleRecording?, (any SegmentSink)?, RecordingMachine.Stop?) in
      if case .failed = machine.state { _ = machine.handle(.retry, at: time) }
      guard case .processing(let reason, _) = machine.state else { return (nil, nil, nil) }
      return (self.files, self.sink, reason)
    }
    guard let files, let reason else { return nil }
    do {
      // An encoder that has failed has no more to give.
      if reason != .writerFailed, reason != .diskFull { try await sink?.finish() }
      lock.withLock { self.sink = nil }
      for task in lock.withLock({ signatures }) { await task.value }
      let (hash, frames) = lock.withLock { (files.finalHash, files.frames) }
      if reason.isComplete, let signer, let hash, let assertion = try? await signer.assertion(over: hash) {
        try lock.withLock { try files.addAssertion(assertion, frames: frames) }
      }
      return try lock.withLock {
        if dropped > 0 { try files.drop(dropped, reason: Self.busy) }
        dropped = 0
        if case .interrupted(let reason) = reason { try files.interrupt(reason: reason.rawValue) }
        // Where something failed, the journal ends without a stop, which says the same.
        if reason != .writerFailed, reason != .diskFull, reason != .silence {
          try files.stop(time: max(0, last - (first ?? last)) + period)
        }
        let recovered = try files.commit(deflate: deflate)
        _ = machine.handle(.finished, at: time)
        return recovered
      }
    } catch {
      lock.withLock {
        problem = error
        _ = machine.handle(.finishingFailed, at: time)
      }
      throw error
    }
  }

  /// A frame lasts one period.
  private var period: Double { 1 / gate.rate }
}
