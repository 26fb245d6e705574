import CSandbox
import Datasets
import Evidence
import Foundation
import Hosts
import Model
import Steps

/// The choice of takes that are converted by child processes.
package enum IsolationPolicy: String, Sendable, CaseIterable {
  /// Takes from outside: archives, single files, and folders that a reader isolates.
  case auto
  case always, never

  func applies(to task: TakeTask) -> Bool { applies(to: task.location, readBy: task.reader.name) }

  func applies(to location: TakeLocation, readBy reader: String) -> Bool {
    switch self {
    case .always: true
    case .never: false
    case .auto: !location.isDirectory || Registry.reader(reader)?.isolatesFolders ?? true
    }
  }
}

/// Limits of one child process.
package struct IsolationLimits: Sendable {
  /// Bytes of address space.
  package var memory: Int64 = 4 << 30
  /// Seconds from start to end; as many seconds of processor time for each thread.
  package var seconds = 3600
  package init() {}
}

/// Converts takes in child processes, which can read nothing but the take, write nothing but its shards, and use no network, as far as the
/// kernel can enforce it. A decoder that crashes, hangs or eats memory costs its take only.
package struct IsolatedConversion: Sendable {
  let conversion: TakeConversion
  private let server: ForkServer
  let limits: IsolationLimits

  /// Most bytes of an answer: JSON of some hundred bytes for each input file, and some thousand for each episode.
  private static func answerLimit(_ job: TakeJob) -> Int { 1 << 26 + (job.inputs?.paths.count ?? 0) << 10 }
  /// Bytes of a child's words: those that it may write, and the last ones, which are read.
  private static let (spokenLimit, wordsLimit) = (1 << 20, 4096)

  /// - Parameter command: The program and the arguments by which it calls `ConversionChild.run`.
  package init(_ conversion: TakeConversion, command: [String], limits: IsolationLimits) {
    (self.conversion, self.limits) = (conversion, limits)
    server = ForkServer(command)
  }

  /// Converts a take whose files are listed, and puts its shards in place.
  ///
  /// Throws `OutputFailure`, `CancellationError`; problems of the take are in the results.
  func callAsFunction(_ job: TakeJob, in dataset: String, threads: Int, isCancelled: () -> Bool) throws -> [TakeResult] {
    let attempt = try AttemptDirectory(in: dataset)
    defer { attempt.discard() }
    let results = try convert(job, in: attempt, threads: threads, isCancelled: isCancelled)
    try attempt.publish(results)
    return results
  }

  /// Converts a take into shards in an attempt's directory.
  func convert(_ job: TakeJob, in attempt: AttemptDirectory, threads: Int, isCancelled: () -> Bool) throws -> [TakeResult] {
    let hosts = conversion.pipeline.hosts
    let request = try request(job.task, job.inputs, in: attempt.path, threads: threads, hosts)
    let answerLimit = Self.answerLimit(job)
    func once() throws -> End<[TakeResult]> {
      try run(request, hosts, answerLimit: answerLimit, isCancelled, reading: ConversionAnswer.decode)
    }
    var end = try once()
    // A crash may be the system's; the same take crashes twice only by its own fault.
    if case .crashed = end { end = try once() }
    switch end {
    case .finished(let results):
      do {
        try conversion.pipeline.checkStepFiles()
        try Self.check(results, of: job.task, conversion)
        try Self.checkShards(of: results, in: attempt.path)
      } catch {
        return try conversion.giveUp(job, error, isCancelled: isCancelled)
      }
      return results
    case .crashed(let failure), .failed(let failure): return try conversion.giveUp(job, failure, isCancelled: isCancelled)
    }
  }

  /// Says when a take was recorded. Throws `TakeFailure` for one that cannot be opened, `OutputFailure` and `CancellationError`.
  func span(of task: TakeTask, _ isCancelled: () -> Bool) throws -> UnixSpan {
    let inputs = try task.makeReader().inputs(of: task.location)
    // Nothing is written.
    let request = try request(task, inputs, in: "/dev/null", threads: 1, nil, asksForTime: true)
    func once() throws -> End<UnixSpan.Answer> {
      try run(request, nil, answerLimit: 1 << 16, isCancelled) { try JSONDecoder().decode(UnixSpan.Answer.self, from: $0) }
    }
    var end = try once()
    if case .crashed = end { end = try once() }
    switch end {
    case .finished(let answer): return try answer.get()
    case .crashed(let failure), .failed(let failure): throw failure
    }
  }

  private func request(
    _ task: TakeTask, _ inputs: TakeInputs?, in directory: String, threads: Int, _ hosts: StepHosts?, asksForTime: Bool? = nil
  ) throws -> Data {
    try JSONEncoder().encode(
      ConversionRequest(
        task: task, pipeline: conversion.pipeline.canonical(), digest: conversion.digest, toolVersion: conversion.tool.version,
        toolRevision: conversion.tool.revision, keys: conversion.context.keys?.text, directory: directory,
        readable: inputs?.readablePaths(of: task) ?? [], threads: threads, environment: hosts?.environment, asksForTime: asksForTime,
        memory: limits.memory, processorSeconds: Int64(limits.seconds) * Int64(threads)))
  }

  private enum End<Answer> {
    case finished(Answer)
    /// The child was ended by a signal.
    case crashed(TakeFailure)
    case failed(TakeFailure)
  }

  private func run<Answer>(
    _ request: Data, _ hosts: StepHosts?, answerLimit: Int, _ isCancelled: () -> Bool, reading: (Data) throws -> Answer
  ) throws -> End<Answer> {
    let files: [MemoryFile]
    do {
      files = try [request.count, answerLimit, Self.spokenLimit].map { try MemoryFile(size: $0) }
    } catch {
      throw OutputFailure("cannot start a child process: \(error)")
    }
    defer { files.forEach { $0.close() } }
    let (input, output, errors) = (files[0], files[1], files[2])
    try input.write(request)
    let host: StepHost?
    do {
      host = try hosts?.take()
    } catch {
      throw OutputFailure("cannot start Python: \(error)")
    }
    let process: pid_t
    do {
      process = try server.child(
        errors: errors, request: input, answer: output, host: host.map(StepHosts.descriptors) ?? [],
        isCancelled: isCancelled)
    } catch let crash as ForkServer.Crash {
      // Loading what the take needs ended it: the other takes may not need it.
      return ended(by: crash.status, "", 0)
    }
    // Time in which the machine sleeps does not count.
    let deadline = SuspendingClock.now + .seconds(limits.seconds)
    var (isOverdue, wasCancelled) = (false, false)
    var (status, peak): (Int32, Int64) = (0, 0)
    while true {
      let ended = csandbox_wait(process, 50, &status, &peak)
      if ended > 0 { break }
      if ended < 0 { throw OutputFailure("a child process is lost: \(String(cString: strerror(-ended)))") }
      if isCancelled() { wasCancelled = true } else if SuspendingClock.now >= deadline { isOverdue = true }
      if wasCancelled || isOverdue { kill(-process, SIGKILL) }
    }
    if wasCancelled { throw CancellationError() }
    let words = String(decoding: (try? errors.contents(limit: Self.wordsLimit)) ?? Data(), as: UTF8.self)
    let signal = status & 0x7F
    if isOverdue || signal == SIGXCPU { return .failed(overdue) }
    if signal != 0 { return ended(by: status, words, peak) }
    switch status >> 8 & 0xFF {
    case ConversionExit.done:
      guard let answer = try? reading(output.contents()) else {
        return .failed(TakeFailure(.internal, "the child process that converted the take left no readable result"))
      }
      // Of any other end it is not known in what call the host was.
      if let host { hosts?.give(host) }
      return .finished(answer)
    case ConversionExit.output: throw OutputFailure(words)
    default: return ended(by: status, words, peak)
    }
  }

  /// Returns the end of a child that left no results.
  private func ended<Answer>(by status: Int32, _ words: String, _ peak: Int64) -> End<Answer> {
    let signal = status & 0x7F
    if signal != 0 { return .crashed(crash(signal, words, peak)) }
    if Self.lacksMemory(words) { return .failed(outOfMemory) }
    return .failed(TakeFailure(.internal, words.isEmpty ? "the child process that converted the take ended with \(status >> 8)" : words))
  }

  private var overdue: TakeFailure {
    TakeFailure(.timeLimit, "its conversion took longer than \(limits.seconds) s; raise --take-time if the take is that long")
  }
  private var outOfMemory: TakeFailure {
    TakeFailure(
      .memoryLimit,
      "its conversion failed near its limit of \(limits.memory >> 20) MiB of memory; raise --take-memory if the take is that large")
  }

  private func crash(_ signal: Int32, _ words: String, _ peak: Int64) -> TakeFailure {
    // Many libraries crash without a word when an allocation fails; what is allocated need not have been used.
    if Self.lacksMemory(words) || peak > limits.memory / 2 { return outOfMemory }
    let name = strsignal(signal).map { String(cString: $0) } ?? "unknown"
    return TakeFailure(.conversionCrashed, "its conversion crashed twice (signal \(signal), \(name)); the other takes are not affected")
  }

  /// Words of Swift's and of C++'s runtime when an allocation fails.
  private static func lacksMemory(_ words: String) -> Bool {
    ["allocate", "bad_alloc", "out of memory"].contains { words.contains($0) }
  }

  /// A decoder may have been taken over: results must be of this take, for all of its episodes, and with numbers that can be added up.
  /// Throws `TakeFailure`.
  static func check(_ results: [TakeResult], of task: TakeTask, _ conversion: TakeConversion) throws {
    func require(_ condition: Bool, _ what: String) throws {
      if !condition { throw TakeFailure(.internal, "the child process that converted the take returned \(what)") }
    }
    let parts = results.first?.parts
    try require(results.count == parts ?? 1 && results.allSatisfy { $0.parts == parts }, "results of other episodes")
    for (index, result) in results.enumerated() {
      let (record, part) = (result.record, parts.map { _ in index })
      try require(
        record.id == EpisodeID(take: task.id, part: part) && record.reader == task.reader.name
          && (record.outcome == .written) == (record.output != nil)
          && record.output.map { $0.path == DatasetFiles.shard(of: record.id.text) } ?? true, "the result of another take")
      try require(result.hasPlausibleCounts && (0...1e9).contains(result.seconds), "numbers that cannot be")
    }
  }

  /// Shards must be files of the length that their records name, and be what they seem: later, this process reads them.
  private static func checkShards(of results: [TakeResult], in directory: String) throws {
    for record in results.map(\.record) {
      guard let output = record.output else { continue }
      let path = directory + "/" + output.path
      guard let stamp = try? FileStamp.of(path), stamp.bytes == output.bytes, WrittenShard.isShard(path, of: record.id.text) else {
        throw TakeFailure(.internal, "the child process that converted the take left no shard, or another one than it described")
      }
    }
  }

  /// The limits that this system cannot enforce, as a sentence for the log; `nil` if it enforces all.
  package static let shortcoming: String? = {
    switch (csandbox_has_landlock() == 1, csandbox_has_filters() == 1) {
    case (true, true): nil
    case (false, true): "this kernel has no Landlock: child processes have limits and no network, but can read and write other files"
    case (true, false):
      "this system has no seccomp filters: child processes have limits and reach no other files, but have sockets and reach other processes"
    case (false, false): "this system has neither Landlock nor seccomp filters: child processes have limits, and nothing else confines them"
    }
  }()
}

extension TakeInputs {
  /// Returns the paths that a process needs to read for the take: its folder, or else its files.
  fileprivate func readablePaths(of task: TakeTask) -> [String] {
    if !members.isEmpty { return members.flatMap { $0.location.isDirectory ? [$0.location.path] : $0.inputs.paths } }
    return (task.location.isDirectory ? [task.location.path] : paths) + [task.duplicateFolder?.path].compactMap(\.self)
  }
}
