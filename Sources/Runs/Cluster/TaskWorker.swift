package import Datasets
import Evidence
import Foundation
import Model
import Steps
import Synchronization

/// Converts tasks of a list. Any number of workers may convert the same tasks at the same time, on any machines: each writes under names of
/// its own and puts complete files in place, which are the same whoever made them. The result, which comes last, marks a task as done.
///
///     let worker = try TaskWorker("dataset", tool: tool, isolation: nil, threads: 4, checks: .inProcess)
///     let (id, outcome) = try worker.convert(0) { false }
package struct TaskWorker: Sendable {
  /// The outcome of a task, by which a cluster decides whether to try it again.
  package enum Outcome: Sendable {
    /// Converted now, or found done.
    case written(rows: Int, isNew: Bool)
    case rejected(reason: String)
    /// The take is bad. A result says so, and another attempt is useless.
    case failed(reason: String)
    /// The take was not converted, because a shard in its place has what another program added. Its episode stays the result, if there was one.
    case kept(reason: String)
    /// The inputs are gone. There is no result.
    case vanished(reason: String)
    /// Another attempt may succeed. There is no result.
    case retry(reason: String)
  }

  private let list: TaskList
  private let directory: String
  private let conversion: TakeConversion
  private let results: TaskResults
  private let earlier: EarlierRun
  private let isolation: Run.Isolation?
  private let isolated: IsolatedConversion?
  private let threads: Int
  private static let attempts = 3

  /// Throws `NoInputs`, `UsageError`, `VersionMismatch`, `OutputFailure`.
  ///
  /// - Parameter python: The interpreter of steps in Python, if one is named.
  package init(
    _ directory: String, tool: ToolIdentity, isolation: Run.Isolation?, threads: Int, python: String? = nil,
    limits: IsolationLimits = IsolationLimits(), checks: Verification.ExternalChecks
  ) throws {
    list = try TaskList(in: directory, tool: tool)
    self.directory = Directory.absolute(directory)
    conversion = try list.conversion(tool) { try ProgramLoader(folder: $1, interpreter: python, limits: limits).load($0) }
    guard conversion.digest == list.head.pipelineDigest else {
      throw UsageError("the pipeline in \(directory)/\(DatasetFiles.tasks) was changed; write it again with takeset plan --tasks")
    }
    results = TaskResults(directory: self.directory, conversion: conversion, checks: checks, replaces: list.head.replaces == true)
    earlier = EarlierRun(directory: self.directory)
    (self.isolation, self.threads) = (isolation, threads)
    isolated = isolation.map { [conversion] in IsolatedConversion(conversion, command: $0.command, limits: $0.limits) }
    do {
      for folder in [DatasetFiles.episodes, DatasetFiles.results] { try Directory.create(self.directory + "/" + folder) }
    } catch {
      throw OutputFailure(error, writing: directory, isResumed: false)
    }
  }

  package var count: Int { list.count }

  /// Returns the protection that this system does not give from the child process of a task; `nil` where it gives all, or where no child
  /// process converts it.
  package func shortcoming(_ number: Int) throws -> String? {
    guard let isolation, isolation.policy.applies(to: try list.task(number)) else { return nil }
    return IsolatedConversion.shortcoming
  }

  /// Converts task `number`, unless it is done. Throws `UsageError`, `OutputFailure`, `CancellationError`, `NotDeterministic`.
  ///
  /// - Parameter said: Called with the id of an episode and what steps in Python printed for it.
  package func convert(
    _ number: Int, said: @escaping (String, String) -> Void = { _, _ in }, isCancelled: @escaping @Sendable () -> Bool
  ) throws -> (id: String, outcome: Outcome) {
    let task = try list.task(number)
    func attempt(isLast: Bool) throws -> Outcome { try self.attempt(task, isLast: isLast, said, isCancelled) }
    var outcome = try attempt(isLast: false)
    var pause = 0.5
    for number in 2...Self.attempts {
      guard case .retry = outcome else { break }
      let end = Date() + pause * .random(in: 0.75...1.25)
      while Date() < end {
        if isCancelled() { throw CancellationError() }
        Thread.sleep(forTimeInterval: 0.05)
      }
      pause *= 2
      outcome = try attempt(isLast: number == Self.attempts)
    }
    return (task.id, outcome)
  }

  /// - Parameter isLast: Whether files that cannot be read now make the take a failed one, so that it holds up no other.
  private func attempt(
    _ task: TakeTask, isLast: Bool, _ said: (String, String) -> Void, _ isCancelled: @escaping @Sendable () -> Bool
  ) throws -> Outcome {
    let job = TakeJob(task: task)
    let found = try finished(task)
    let done = found?.episodes
    func adopt() throws { if let found, !found.isResult { try write(found.episodes, of: task) } }
    var obstacle: (any Error)?
    do { try conversion.list(job) } catch { obstacle = error }
    // Inputs that cannot be read any more do not undo what was converted from them.
    if let done, !done.contains(where: Self.mayDiffer), obstacle != nil || done.allSatisfy({ $0.entry.stamp == job.stamp?.description }) {
      try adopt()
      return outcome(done, isNew: false)
    }
    if let additions = try additions(to: task) {
      try adopt()
      return .kept(reason: additions)
    }
    do {
      guard try Directory.kind(at: task.location.path) != nil else {
        return .vanished(reason: "\(task.location.path) is gone; plan the tasks again without it")
      }
    } catch {
      return .retry(reason: "\(error)")
    }

    let attempt = try AttemptDirectory(in: directory)
    defer { attempt.discard() }
    let new: [TakeResult]
    if let obstacle {
      new = try conversion.giveUp(job, obstacle, isCancelled: isCancelled)
    } else if let isolation, let isolated, isolation.policy.applies(to: task) {
      new = try isolated.convert(job, in: attempt, threads: threads, isCancelled: isCancelled)
    } else {
      new = try conversion(task, in: attempt.path, threads: threads, isCancelled: isCancelled)
    }
    for result in new { if let text = result.said { said(result.record.id.text, text) } }
    if !isLast, let failure = new.first(where: { $0.record.mayPass })?.record {
      return .retry(reason: failure.reason ?? "its files cannot be read")
    }
    return outcome(try publish(new, of: task, replacing: done, by: attempt), isNew: true)
  }

  private static func mayDiffer(_ episode: TaskResults.Episode) -> Bool {
    episode.entry.outcome == .failed && (try? TakeRecord(json: episode.record))?.mayDiffer ?? false
  }

  /// Puts shards and result in place, unless another worker has done so in the meantime.
  private func publish(
    _ new: [TakeResult], of task: TakeTask, replacing old: [TaskResults.Episode]?, by attempt: AttemptDirectory
  ) throws -> [TaskResults.Episode] {
    let mayDiffer = new.contains { $0.record.mayDiffer }
    if let other = try finished(task)?.episodes, other.map(\.record) != old?.map(\.record),
      mayDiffer || !other.contains(where: Self.mayDiffer)
    {
      // Two conversions of the same bytes must have the same record.
      guard mayDiffer || other.first?.entry.stamp != new.first?.stamp || other.map(\.record) == new.map(\.record.canonicalBytes) else {
        throw NotDeterministic(
          description: "\(task.id): another worker converted the same files into something else; this is a fault of Takeset, report it")
      }
      return other
    }
    try attempt.publish(new)
    let episodes = new.map { result in
      var entry = Journal.Entry(.init(result, of: task, conversion))
      if entry.outcome == .written {
        entry.shard = UpToDateCheck.stamp(of: directory + "/" + DatasetFiles.shard(of: entry.id.text))
      }
      return TaskResults.Episode(entry: entry, record: result.record.canonicalBytes)
    }
    try results.write(episodes, of: task.id, by: attempt)
    return episodes
  }

  /// Returns the reason why the shards that a take has already are not replaced. They are those of its result, or of a run that wrote the
  /// dataset.
  private func additions(to task: TakeTask) throws -> String? {
    if results.replaces { return nil }
    let old = try results.recorded(task.id) ?? earlier.episodes(of: task.id)
    let changed = ChangedShards(of: old.map(\.entry), in: directory, results.checks) { id in
      old.first { $0.entry.id == id }?.record ?? []
    }
    return changed.additions
  }

  /// The episodes of a take, from its result or, where it has none, from a run that wrote the dataset.
  private func finished(_ task: TakeTask) throws -> (episodes: [TaskResults.Episode], isResult: Bool)? {
    do {
      if let found = try results.episodes(of: task) { return (found, true) }
      let known = try earlier.episodes(of: task.id)
      return try !known.isEmpty && results.areComplete(known, of: task) ? (known, false) : nil
    } catch {
      throw OutputFailure("cannot read the result of \(task.id) in \(directory): \(error)")
    }
  }

  /// Makes what a run has made of a take its result.
  private func write(_ episodes: [TaskResults.Episode], of task: TakeTask) throws {
    let attempt = try AttemptDirectory(in: directory)
    defer { attempt.discard() }
    try results.write(episodes, of: task.id, by: attempt)
  }

  private func outcome(_ episodes: [TaskResults.Episode], isNew: Bool) -> Outcome {
    func reason(_ outcome: TakeRecord.Outcome) -> String? {
      guard let episode = episodes.first(where: { $0.entry.outcome == outcome }) else { return nil }
      return (try? TakeRecord(json: episode.record))?.reason ?? "no reason is recorded"
    }
    if let reason = reason(.failed) { return .failed(reason: reason) }
    if episodes.contains(where: { $0.entry.outcome == .written }) {
      return .written(rows: episodes.reduce(0) { $0 + $1.entry.framesOut }, isNew: isNew)
    }
    return .rejected(reason: reason(.rejected) ?? "")
  }
}

/// Two conversions of the same files differ: exit code 70.
package struct NotDeterministic: Error, CustomStringConvertible {
  package var description: String
}

/// The journal of the dataset into which tasks are converted. It is read once, and only for takes that have a shard and no result.
private final class EarlierRun: Sendable {
  private let directory: String
  private let contents = Mutex<(journal: Journal.Contents, entries: [String: [Journal.Entry]])?>(nil)

  init(directory: String) { self.directory = directory }

  /// The episodes of a take, in order; none where it has no shard.
  func episodes(of take: String) throws -> [TaskResults.Episode] {
    let shards = [take, EpisodeID(take: take, part: 0).text].map { directory + "/" + DatasetFiles.shard(of: $0) }
    guard try shards.contains(where: { try Directory.kind(at: $0) != nil }) else { return [] }
    let path = directory + "/" + DatasetFiles.journal
    let (journal, entries) = try contents.withLock { contents in
      if let contents { return contents }
      let journal = try Journal.contents(at: path)
      let known = (journal: journal, entries: Dictionary(grouping: journal.entries.values, by: \.id.take))
      contents = known
      return known
    }
    return try entries[take, default: []].sorted { $0.id < $1.id }.map { entry in
      TaskResults.Episode(entry: entry, record: try journal.record(of: entry.id.text, at: path))
    }
  }
}
