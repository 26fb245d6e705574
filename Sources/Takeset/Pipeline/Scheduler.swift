import Foundation
import Model

/// A fixed number of threads that convert takes: they prepare the blocks of open takes in order and, when no block is available, open
/// the next take. One long take thus uses all threads as well as many short ones do, and there are no more open takes than threads.
///
/// The only place where conversion is concurrent.
final class Scheduler: @unchecked Sendable {
  /// The actions of a run in each phase of a take; called on any worker, one at a time per take.
  struct Work: Sendable {
    /// Opens the take; false when there is nothing to write.
    var open: @Sendable (TakeJob) -> Bool
    /// Ends the take: seals or abandons its shard.
    var finish: @Sendable (TakeJob) -> Void
    var didStore: @Sendable (PreparedBlock) -> Void
    var isCancelled: @Sendable () -> Bool
  }

  private let condition = NSCondition()
  private var waiting: ArraySlice<TakeJob>
  private var active: [TakeJob] = []
  private let threads: Int
  private let work: Work

  init(jobs: [TakeJob], threads: Int, work: Work) {
    waiting = jobs[...]
    self.threads = threads
    self.work = work
  }

  /// Runs until every take is done or the work is cancelled.
  func run() {
    let group = DispatchGroup()
    for number in 0..<threads {
      group.enter()
      let thread = Thread { [self] in
        loop()
        group.leave()
      }
      thread.name = "takeset-\(number)"
      thread.stackSize = 4 << 20
      thread.start()
    }
    group.wait()
  }

  private func loop() {
    var workers: [ObjectIdentifier: ShardSequence.Worker] = [:]
    while let (job, task) = next() {
      switch task {
      case .open:
        let hasRows = work.open(job)
        locked {
          if hasRows { job.phase = .writing } else { end(job) }
        }
      case .prepare(let block):
        let key = ObjectIdentifier(job)
        let result = Result { () throws -> PreparedBlock in
          guard let shards = job.shards else { throw CancellationError() }
          let prefetch = shards.prefetch
          if let prefetch {
            defer { locked { job.didFetch() } }
            try prefetch.fetch(block)
          }
          defer { prefetch?.release(block) }
          let worker = workers[key] ?? shards.makeWorker()
          workers[key] = worker
          return try worker.prepare(block)
        }
        store(result, of: job, block)
      case .finish:
        workers[ObjectIdentifier(job)] = nil
        work.finish(job)
        locked { end(job) }
      }
      // Release the cursors and buffers of finished takes.
      if workers.count > threads {
        let open = locked { Set(active.map { ObjectIdentifier($0) }) }
        workers = workers.filter { open.contains($0.key) }
      }
    }
  }

  /// Called under the lock.
  private func end(_ job: TakeJob) {
    job.release()
    active.removeAll { $0 === job }
  }

  /// Adds a block, then stores the blocks that are next in order, unless another worker is storing.
  private func store(_ result: Result<PreparedBlock, any Error>, of job: TakeJob, _ number: Int) {
    locked { job.add(result, block: number) }
    while let next = locked({ job.takeReady() }) {
      let stored = Result { () throws in
        let block = try next.get()
        do {
          try block.store()
        } catch let failure as TakeFailure {
          throw failure
        } catch {
          throw OutputFailure(error, writing: job.directory)
        }
      }
      if case .success(let block) = next, case .success = stored { work.didStore(block) }
      locked { job.didStore(stored) }
    }
  }

  /// The next task for a worker, after waiting for one; `nil` when all are done.
  private func next() -> (TakeJob, TakeJob.Task)? {
    condition.lock()
    defer { condition.unlock() }
    while true {
      let isCancelled = work.isCancelled()
      for job in active {
        if let task = job.claim(window: threads + 1, isCancelled: isCancelled) { return (job, task) }
      }
      if active.count < threads, !isCancelled, let job = waiting.popFirst() {
        active.append(job)
        if let task = job.claim(window: threads + 1, isCancelled: false) { return (job, task) }
      }
      if active.isEmpty, waiting.isEmpty || isCancelled { return nil }
      // Any change wakes it; the time limit lets it notice a cancellation.
      _ = condition.wait(until: Date(timeIntervalSinceNow: 0.1))
    }
  }

  @discardableResult
  private func locked<Result>(_ body: () -> Result) -> Result {
    condition.lock()
    defer {
      condition.broadcast()
      condition.unlock()
    }
    return body()
  }
}
