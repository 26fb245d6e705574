import CLinux
import Datasets
import Foundation
import Model
import Steps

/// A fixed number of threads that convert takes: they prepare the blocks of open takes in order and, when no block is available, open
/// the next take. One long take thus uses all threads as well as many short ones do, and there are no more open takes than threads.
///
/// The only place where conversion is concurrent.
///
///     Scheduler(jobs: jobs, threads: 8, work: work).run()                  // returns when every take is done
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

  private let condition = Condition()
  /// The takes to come; each job is made when its turn comes, and gone when it is done.
  private var waiting: any IteratorProtocol<TakeJob>
  private var upcoming: TakeJob?
  private var active: [TakeJob] = []
  private let threads: Int
  private let work: Work

  init(jobs: some Sequence<TakeJob>, threads: Int, work: Work) {
    waiting = jobs.makeIterator()
    upcoming = waiting.next()
    self.threads = threads
    self.work = work
  }

  /// Runs until every take is done or the work is cancelled. With little memory there may be fewer threads than asked for; without any, the
  /// calling one does the work.
  func run() {
    var started: [pthread_t] = []
    while started.count < threads, let thread = startThread() { started.append(thread) }
    if started.isEmpty { loop() }
    for thread in started { pthread_join(thread, nil) }
  }

  /// A thread that works; `nil` where the system has none. Foundation's would not say, and never run.
  private func startThread() -> pthread_t? {
    var attributes = pthread_attr_t()
    pthread_attr_init(&attributes)
    defer { pthread_attr_destroy(&attributes) }
    pthread_attr_setstacksize(&attributes, 4 << 20)
    var thread = pthread_t()
    let own = Unmanaged.passRetained(self)
    let code = pthread_create(
      &thread, &attributes,
      { argument in
        clinux_name_thread("takeset-worker")
        argument.map { Unmanaged<Scheduler>.fromOpaque($0).takeRetainedValue().loop() }
        return nil
      }, own.toOpaque())
    guard code == 0 else {
      own.release()
      return nil
    }
    return thread
  }

  private func loop() {
    // A job is kept with its worker: another one in its place would have the same identifier, and get a worker of the wrong take.
    var workers: [ObjectIdentifier: (job: TakeJob, worker: ShardSequence.Worker)] = [:]
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
          let worker = workers[key]?.worker ?? shards.makeWorker()
          workers[key] = (job, worker)
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
          throw OutputFailure(error, writing: job.directory, needing: job.bytesNeeded())
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
      if active.count < threads, !isCancelled, let job = upcoming {
        upcoming = waiting.next()
        active.append(job)
        if let task = job.claim(window: threads + 1, isCancelled: false) { return (job, task) }
      }
      if active.isEmpty, upcoming == nil || isCancelled { return nil }
      // Any change wakes it; the time limit lets it notice a cancellation.
      condition.wait(milliseconds: 100)
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

/// A lock with a condition. Its time limit does not depend on the clock of the day, which may be set while a thread waits.
///
/// `@unchecked Sendable`: POSIX's functions synchronize all access.
private final class Condition: @unchecked Sendable {
  private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
  private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)

  init() {
    var attributes = pthread_condattr_t()
    pthread_condattr_init(&attributes)
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
    pthread_mutex_init(mutex, nil)
    pthread_cond_init(condition, &attributes)
    pthread_condattr_destroy(&attributes)
  }

  deinit {
    pthread_cond_destroy(condition)
    pthread_mutex_destroy(mutex)
    condition.deallocate()
    mutex.deallocate()
  }

  func lock() { pthread_mutex_lock(mutex) }
  func unlock() { pthread_mutex_unlock(mutex) }
  func broadcast() { pthread_cond_broadcast(condition) }

  func wait(milliseconds: Int) {
    var end = timespec()
    clock_gettime(CLOCK_MONOTONIC, &end)
    let nanoseconds = end.tv_nsec + milliseconds * 1_000_000
    end.tv_sec += nanoseconds / 1_000_000_000
    end.tv_nsec = nanoseconds % 1_000_000_000
    pthread_cond_timedwait(condition, mutex, &end)
  }
}
