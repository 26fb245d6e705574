import Foundation
import GRDB
import Logging
import ServiceLifecycle
import Synchronization

/// Converts finished captures by child processes, a few at a time, or gives them to workers on other machines, and keeps the datasets of
/// projects up to date.
///
/// The queue is the table `conversion`. A row that is being converted is `running`; a server that starts makes it `waiting` again, so a
/// conversion that ended with the server is repeated from its beginning and counts as no attempt. Those of workers go on, by their leases.
final class ConversionQueue: Service {
  private let configuration: Configuration
  private let data: DataFolder
  private let database: ServerDatabase
  private let logger: Logger
  private let conversion: CaptureConversion
  let leases: ConversionLeases
  private let datasets: DatasetKeeper
  private let pipeline: PipelineSource
  private let turns = Mutex(ConversionTurns())
  /// Captures whose outcome could not be written, such as on a full disk, and why.
  private let unwritten = Mutex<[(capture: Capture, reason: String)]>([])
  /// One for each worker and one for the datasets.
  private let bells: [(stream: AsyncStream<Void>, continuation: AsyncStream<Void>.Continuation)]

  init(_ configuration: Configuration, data: DataFolder, database: ServerDatabase, store: any CaptureStore, logger: Logger) {
    self.configuration = configuration
    self.data = data
    self.database = database
    self.logger = logger
    conversion = CaptureConversion(
      configuration: configuration, data: data, database: database, store: store,
      converter: Converter(takeset: TakesetCommand(configuration), logger: logger), logger: logger)
    leases = ConversionLeases(database: database, duration: Int64(configuration.workerSilence) * 1000)
    pipeline = PipelineSource(configuration)
    datasets = DatasetKeeper(configuration, data: data, database: database, store: store, logger: logger)
    bells = (0...configuration.conversions).map { _ in AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1)) }
  }

  /// A capture was queued or deleted.
  func wake() {
    for bell in bells { bell.continuation.yield() }
  }

  /// Works until the server ends. Conversions that are running then are killed, and repeated by the next server.
  func run() async throws {
    try await recover()
    await cancelWhenGracefulShutdown { [self] in
      await withTaskGroup(of: Void.self) { group in
        group.addTask { await self.tick() }
        for bell in bells.dropFirst() { group.addTask { await self.work(bell.stream) } }
        group.addTask { [datasets, stream = bells[0].stream] in await datasets.run(stream) }
        await group.waitForAll()
      }
    }
  }

  /// Retries, merges and deletions become due by time, too.
  private func tick() async {
    var seconds = 0
    while !Task.isCancelled {
      await writeOutcomes()
      await expireLeases()
      for bell in bells.dropFirst() { bell.continuation.yield() }
      if seconds % 10 == 0 { bells[0].continuation.yield() }
      seconds += 1
      try? await Task.sleep(for: .seconds(1))
    }
  }

  private func work(_ bell: AsyncStream<Void>) async {
    var isHeld = false
    for await _ in bell {
      do {
        while !Task.isCancelled {
          // A conversion on a full disk would fail, and uploads come first.
          let isFull = data.freeBytes < configuration.reserve
          if isFull, !isHeld { logger.warning("conversions wait: the disk has less free space than the reserve") }
          isHeld = isFull
          guard !isFull, let capture = try await claim()?.capture else { break }
          do {
            try await yielding(capture) { [conversion] in try await conversion.run(capture) }
          } catch is Yielded {
            logger.info("capture \(capture.id): its conversion gives way to others")
            await postpone(capture, for: 0)
          } catch let away as StoreUnavailable {
            logger.warning("capture \(capture.id): \(away)")
            await postpone(capture, for: 60)
          } catch let error where !(error is CancellationError) {
            keep(capture, error)
          }
          wake()
        }
      } catch is CancellationError {
        return
      } catch {
        logger.error("conversion: \((error as? Failure)?.reason ?? "\(error)")")
      }
    }
  }

  /// An outcome could not be written, and the conversion was in vain.
  private func keep(_ capture: Capture, _ error: any Error) {
    unwritten.withLock { $0.append((capture, (error as? Failure)?.reason ?? "\(error)")) }
  }

  private func writeOutcomes() async {
    for (capture, reason) in unwritten.withLock({ $0 }) {
      do {
        try await conversion.fail(capture, reason: "The outcome of the conversion could not be written.", detail: reason, isFinal: false)
        unwritten.withLock { $0.removeAll { $0.capture.id == capture.id } }
      } catch {
        logger.error("conversion: \((error as? Failure)?.reason ?? "\(error)")")
      }
    }
  }

  // MARK: Workers

  private func expireLeases() async {
    do {
      for lapse in try await leases.expire() {
        logger.warning(
          "capture \(lapse.capture): the worker \(lapse.worker) fell silent; \(lapse.isLast ? "it is tried no longer" : "it waits again")")
        DurableFile.removeFolder(data.work + "/" + lapse.lease)
      }
    } catch is CancellationError {
      // The server ends.
    } catch {
      logger.error("workers: \((error as? Failure)?.reason ?? "\(error)")")
    }
  }

  /// The next capture, for a worker; `nil` if none waits. Throws `Failure`: 500 where the server's pipeline cannot be used, 409 where it has
  /// steps in Python and the worker calls none.
  func assign(to worker: String, callsPython: Bool) async throws -> WorkAssignment? {
    guard data.freeBytes >= configuration.reserve else { return nil }
    let pipeline = try await pipeline.contents()
    guard callsPython || pipeline.files.isEmpty else {
      throw Failure(
        .conflict, "NO_PYTHON", "The server's pipeline has steps in Python: start the worker with --python, the interpreter that calls them"
      )
    }
    while let (capture, lease) = try await claim(for: worker), let lease {
      let (files, input, keys) = try await database.pool.read { [configuration] in
        try ConversionInput.all(of: capture, apps: configuration.appIDs, $0)
      }
      guard !files.isEmpty else {
        let work = try WorkFolder(below: data.work, name: lease)
        defer { work.discard() }
        await finish(try await leases.take(lease), .withoutFiles, in: work)
        continue
      }
      let digests = files.reduce(into: [:]) { $0[$1.name] = $1.sha256 }
      return WorkAssignment(
        lease: lease, capture: capture.id, input: input.name,
        files: input.files.compactMap { name, place in
          digests[name].map { .init(name: name, place: place, sha256: $0) }
        }, pipeline: pipeline.text, steps: pipeline.files, keys: keys, seconds: configuration.conversionSeconds,
        memory: configuration.conversionMemory,
        silence: Double(leases.duration) / 1000)
    }
    return nil
  }

  /// Writes what a worker made of a capture that was its.
  func finish(_ capture: Capture, _ result: ConversionResult, in work: WorkFolder) async {
    do {
      try await conversion.finish(capture, result, in: work)
    } catch {
      keep(capture, error)
    }
  }

  // MARK: Turns

  /// A stranger's conversion was ended because somebody else's waits.
  private struct Yielded: Error {}

  /// Converts a capture. A stranger's gives way as soon as another one waits, since a conversion may take an hour. Throws `Yielded` then.
  private func yielding(_ capture: Capture, _ convert: @escaping @Sendable () async throws -> Void) async throws {
    guard capture.isStranger else { return try await convert() }
    try await withThrowingTaskGroup(of: Bool.self) { group in
      group.addTask {
        try await convert()
        return true
      }
      group.addTask { [self] in
        repeat { try await Task.sleep(for: .seconds(1)) } while try await !isAwaited()
        return false
      }
      let isConverted = try await group.next() ?? true
      group.cancelAll()
      // What ended in the meantime is not done again.
      if !isConverted, (try? await group.next()) != true { throw Yielded() }
    }
  }

  /// Whether the capture of somebody who is no stranger waits while no worker is free.
  private func isAwaited() async throws -> Bool {
    try await database.pool.read { [configuration] database in
      let running = try Int.fetchOne(database, sql: "SELECT COUNT(*) FROM conversion WHERE state = 'running' AND lease IS NULL") ?? 0
      let waits = """
        SELECT EXISTS (
          SELECT 1 FROM conversion JOIN capture ON capture.id = conversion.capture
          WHERE state = 'waiting' AND notBefore <= ? AND NOT isStranger)
        """
      return try running >= configuration.conversions && Bool.fetchOne(database, sql: waits, arguments: [Time.now()]) == true
    }
  }

  /// Takes up the next capture, for this machine or for a worker, which gets a lease.
  private func claim(for worker: String? = nil) async throws -> (capture: Capture, lease: String?)? {
    let due = "SELECT EXISTS (SELECT 1 FROM conversion WHERE state = 'waiting' AND notBefore <= ?)"
    // Most looks find nothing, and need not wait for a writer.
    guard try await database.pool.read({ try Bool.fetchOne($0, sql: due, arguments: [Time.now()]) }) == true else { return nil }
    // Conversions take space, too, and strangers are to leave some.
    let withStrangers = data.freeBytes >= configuration.reserve(isStranger: true)
    return try await database.pool.write { [self] database in
      guard let capture = try turns.withLock({ try $0.next(at: Time.now(), withStrangers: withStrangers, database) }) else { return nil }
      try database.execute(
        sql: "UPDATE conversion SET state = 'running', startedAt = ? WHERE capture = ?", arguments: [Time.now(), capture.id])
      return (capture, try worker.map { try leases.give(capture, to: $0, database) })
    }
  }

  /// Lets a claimed capture wait for so many seconds; that was no attempt.
  private func postpone(_ capture: Capture, for seconds: Int64) async {
    do {
      try await database.pool.write { database in
        try database.execute(
          sql: "UPDATE conversion SET state = 'waiting', notBefore = ? WHERE capture = ?",
          arguments: [Time.now() + seconds * 1000, capture.id])
      }
    } catch {
      keep(capture, error)
    }
  }

  /// Puts in order what an earlier server left.
  private func recover() async throws {
    DurableFile.removeFolder(data.work)
    let folders = Set(try FileManager.default.contentsOfDirectory(atPath: data.conversions))
    let lost = try await database.pool.write { [data, configuration, leases] database in
      try database.execute(sql: "UPDATE conversion SET state = 'waiting' WHERE state = 'running' AND lease IS NULL")
      try leases.recover(database)
      let hasWorkers = try Bool.fetchOne(database, sql: "SELECT EXISTS (SELECT 1 FROM apiKey WHERE power = 'work')") ?? false
      guard configuration.conversions > 0 || hasWorkers else { return 0 }
      // A data folder that was restored without what can be made again.
      let complete = try String.fetchAll(
        database,
        sql: """
          SELECT id FROM capture JOIN conversion ON conversion.capture = capture.id
          WHERE status = 'complete' AND EXISTS (SELECT 1 FROM file WHERE file.capture = capture.id)
          """)
      let lost = complete.filter { !folders.contains($0) || access(data.conversion(of: $0) + "/dataset/manifest.json", F_OK) != 0 }
      for capture in lost { try Reconversion.replace(capture, database) }
      return lost.count
    }
    if lost > 0 { logger.warning("\(lost) conversions are missing and are made again") }
    try await datasets.recover()
  }
}
