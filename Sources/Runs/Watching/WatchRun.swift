import Foundation
import Steps

/// A run that does not end: converts the takes that appear among its inputs, in batches, until it is stopped.
///
///     try WatchRun(run, settle: 5).execute(isStopped: { isStopped }) { event in log(event) }
package struct WatchRun: Sendable {
  package var run: Run
  /// Seconds without a change after which a take's files rest.
  package var settle: Double

  /// A report of progress, in the order in which things happened.
  package enum Event: Sendable {
    case run(Run.Event)
    /// The inputs were looked at: takes that are not at rest or not complete, and of these the incomplete ones.
    case looked(waiting: Int, incomplete: Int)
    /// A take has not become complete for a long time.
    case stalled(path: String, reason: String)
    case missing(input: String)
    case isBack(input: String)
    case batchStarted(takes: Int)
    /// A batch was converted, and the index and the manifest are up to date.
    case batchEnded(Run.Summary)
    /// The output cannot be written now.
    case outputBlocked(String)
    case outputFreed
  }

  /// Takes in one batch, so that a long queue is published on the way.
  private static let batchLimit = 1000
  /// Seconds between two batches; longer where publishing takes long.
  private static let pause = 2.0

  package init(_ run: Run, settle: Double) { (self.run, self.settle) = (run, settle) }

  /// Runs until `isStopped` returns true, then publishes what is sealed.
  ///
  /// - Throws: `UsageError` for an output that this pipeline may not write; `OutputFailure` where the output cannot be used from the start
  ///   or not be published at the end.
  package func execute(isStopped: @escaping @Sendable () -> Bool, report: @escaping @Sendable (Event) -> Void) throws {
    var directory = try OutputDirectory(run.output, inputs: run.inputs)
    var watch = TakeWatch(inputs: run.inputs, readers: run.pipeline.candidates, settle: settle)
    var groups = WatchedGroups(run, isStopped)
    let events = DirectoryEvents()
    var (nextComplete, nextBatch) = (0.0, 0.0)
    var missing: Set<String> = []
    /// Whether the output holds takes that are not published, or may. Another pipeline's dataset stays until takes replace it.
    var isUnpublished = !run.replaces
    var blockage: Blockage?

    while !isStopped() {
      let begun = Self.now
      let isComplete = begun >= nextComplete
      let mayConvert = begun >= nextBatch && blockage.map { $0.isOver(at: run.output, begun) } ?? true
      let look = watch.look(now: begun, limit: mayConvert ? Self.batchLimit : 0, isComplete: isComplete)
      let ended = Self.now
      if isComplete { nextComplete = ended + max(min(max(2 * settle, 0.5), 10), 20 * (ended - begun)) }
      events.watch(look.containers)
      for input in look.unreachable.subtracting(missing).sorted() { report(.missing(input: input)) }
      for input in missing.subtracting(look.unreachable).sorted() { report(.isBack(input: input)) }
      missing = look.unreachable
      for notice in look.notices { report(.run(.log(notice))) }
      for (path, reason) in look.stalled { report(.stalled(path: path, reason: reason)) }
      // A take whose group is not complete waits, too.
      let ready = mayConvert ? groups?.complete(look.ready, look.counterparts, watch) ?? look.ready : []
      let held = groups?.waiting.count ?? 0
      report(.looked(waiting: look.waiting + ready.count + held, incomplete: look.incomplete + held))
      for (path, reason) in groups?.stalled(begun, patience: watch.patience) ?? [] { report(.stalled(path: path, reason: reason)) }

      if mayConvert, !ready.isEmpty || isUnpublished {
        do {
          if !directory.isThere { directory = try Self.reopened(directory, run) }
          if !ready.isEmpty { report(.batchStarted(takes: ready.count)) }
          let started = Self.now
          let (summary, converted) = try convert(ready + look.counterparts, directory, watch, groups?.timing, isStopped, report)
          if blockage != nil { report(.outputFreed) }
          blockage = nil
          isUnpublished = summary.isCancelled
          if summary.isCancelled {
            watch.giveBack(ready)
            groups?.giveBack(ready)
          }
          if !summary.isCancelled, !ready.isEmpty || !summary.isUpToDate { report(.batchEnded(summary)) }
          nextBatch = Self.now + max(Self.pause, Self.now - (converted ?? started))
        } catch let failure as OutputFailure {
          watch.giveBack(ready)
          groups?.giveBack(ready)
          isUnpublished = true
          if blockage == nil { report(.outputBlocked("\(failure)")) }
          blockage = Blockage(after: blockage, at: run.output, Self.now)
        }
        continue
      }
      let isArriving = look.waiting > look.incomplete || blockage != nil
      let interval = isArriving ? min(max(settle / 4, 0.05), 1) : min(max(settle, 0.5), 5)
      // Looks at all files are rare by nextComplete, and delay no take that has just arrived.
      wait(events, interval, least: isComplete ? 0.1 : max(0.1, 10 * (ended - begun)), isStopped)
    }
    if isUnpublished, directory.isThere {
      let (summary, _) = try convert([], directory, watch, groups?.timing, { false }, report)
      if !summary.isUpToDate { report(.batchEnded(summary)) }
    }
  }

  /// Converts takes and publishes the dataset; also the time when the last take ended.
  private func convert(
    _ takes: [String], _ directory: OutputDirectory, _ watch: TakeWatch, _ timing: UnixSpan.Reading?,
    _ isStopped: @escaping @Sendable () -> Bool,
    _ report: @escaping @Sendable (Event) -> Void
  ) throws -> (summary: Run.Summary, converted: Double?) {
    var batch = run
    batch.inputs = takes
    batch.watched = Run.Watched(directory: directory, isStanding: watch.standing, timing: timing)
    let last = LastTime()
    let summary = try batch.execute(isCancelled: isStopped) { event in
      if case .finished = event { last.set(Self.now) }
      report(.run(event))
    }
    return (summary, last.time)
  }

  /// Waits until something happens, the time is over or the watch is stopped; but not less than some seconds, so that a stream of changes
  /// leaves the processor to the conversion.
  private func wait(_ events: DirectoryEvents, _ seconds: Double, least: Double, _ isStopped: () -> Bool) {
    let start = Self.now
    while !isStopped(), Self.now - start < least { Thread.sleep(forTimeInterval: min(0.1, max(0.01, least - (Self.now - start)))) }
    while !isStopped() {
      let left = seconds - (Self.now - start)
      if left <= 0 || events.wait(seconds: min(left, 0.25)) { return }
    }
  }

  /// The output again after its disk was away. A directory that was deleted is not made again: its disk may only be unmounted.
  private static func reopened(_ directory: OutputDirectory, _ run: Run) throws -> OutputDirectory {
    guard try Directory.kind(at: directory.journal) == .file else {
      throw OutputFailure("the output directory \(run.output) is gone; waiting until it is back")
    }
    return try OutputDirectory(run.output, inputs: run.inputs)
  }

  private static var now: Double { ProcessInfo.processInfo.systemUptime }

  private final class LastTime: @unchecked Sendable {
    private let lock = NSLock()
    private var value: Double?
    var time: Double? { lock.withLock { value } }
    func set(_ time: Double) { lock.withLock { value = time } }
  }
}

/// A time in which the output cannot be written: another attempt is made when space is freed, and from time to time.
private struct Blockage {
  private let free: Double?
  private let until: Double
  private let attempts: Int

  init(after earlier: Blockage?, at output: String, _ now: Double) {
    attempts = (earlier?.attempts ?? 0) + 1
    // What the failed attempt wrote is removed by now.
    free = OutputFailure.freeBytes(at: output)
    until = now + min(60, Double(1 << min(attempts + 1, 6)))
  }

  func isOver(at output: String, _ now: Double) -> Bool {
    if now >= until { return true }
    guard let free, let current = OutputFailure.freeBytes(at: output) else { return false }
    return current > free + 1_048_576
  }
}
