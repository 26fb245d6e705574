import Foundation
import HTTP
import Synchronization

/// `takeset upload`: sends captures to a server by a queue that outlives the process.
package struct Uploader: Sendable {
  /// The options of the command.
  package struct Options: Sendable {
    package var to = ""
    package var paths: [String] = []
    package var watch: String?
    package var key: String?
    /// PEM file of certificates that count beside those of the system.
    package var certificates: String?
    package var jobs = 3
    /// Attempts per capture: by default 10; with a watched folder, no limit.
    package var maxAttempts: Int?
    package var deletesAfterUpload = false
    package var sendsAgain = false
    package var retriesFailed = false
    /// Bytes a second, such as `500k`.
    package var limitRate: String?
    package var state: String?
    package var isQuiet = false
    /// Seconds without a change after which something in a watched folder is complete.
    package var rest = 10.0
    /// Seconds before the first repetition.
    package var firstPause = 1.0
    /// Seconds without a byte after which a request fails.
    package var timeout = 60.0

    package init() {}
  }

  /// An item as it is at the end, for people and scripts.
  package struct Outcome: Codable, Sendable {
    package var path: String
    package var state: String
    package var capture_id: String?
    package var bytes: Int64?
    package var sha256: String?
    package var reason: String?
    package var server: String
    package var is_deleted: Bool

    init(_ item: UploadQueue.Item) {
      (path, state, capture_id, bytes) = (item.path, item.state.rawValue, item.capture, item.bytes)
      (sha256, reason, server, is_deleted) = (item.sha256, item.reason, item.server, item.isDeleted)
    }
  }

  private let options: Options
  private let server: ServerAddress
  private let queue: UploadQueue
  private let client: HTTPClient
  private let tus: TusUpload
  private let progress: UploadProgress
  private let backoff: Backoff
  private let maxAttempts: Int
  private let outage = Outage()
  private let share = Share()

  /// The state that the tasks of a run share.
  private final class Share: Sendable {
    /// Items that this run named or sent.
    let handled = Mutex<Set<Int64>>([])
    /// Whether all that was named is in the queue.
    let isListed = Mutex(false)
  }

  /// The server took nothing in as many attempts as there are.
  private struct GaveUp: Error {}

  /// Throws `UploaderProblem`.
  package init(_ options: Options, environment: [String: String] = ProcessInfo.processInfo.environment) throws {
    self.options = options
    server = try ServerAddress(to: options.to)
    queue = try UploadQueue(options.state ?? UploadQueue.usualPath(environment))
    progress = UploadProgress(isQuiet: options.isQuiet)
    backoff = Backoff(unit: options.firstPause)
    maxAttempts = options.maxAttempts ?? (options.watch == nil ? 10 : .max)
    let key = options.key ?? environment["TAKESET_KEY"].flatMap { $0.isEmpty ? nil : $0 }
    if let key, !key.allSatisfy({ $0.isASCII && !$0.isWhitespace && !$0.isNewline }) {
      throw UploaderProblem.usage("--key: expected what `takeset-server keys add` printed")
    }
    var limit: RateLimit?
    if let text = options.limitRate {
      guard let rate = RateLimit.bytes(text) else {
        throw UploaderProblem.usage("--limit-rate \(text): expected bytes a second, such as 500k or 2M")
      }
      limit = RateLimit(rate: rate)
    }
    client = try HTTPClient(sending: key, timeout: options.timeout, certificates: options.certificates)
    tus = TusUpload(client: client, server: server, queue: queue, limit: limit, progress: progress, outage: outage)
    if key != nil, server.isOpen { progress.problem("warning: the key goes to \(server.text) unencrypted; https would hide it") }
  }

  /// Hands over everything in a queue file, one after the other. Throws `UploaderProblem`.
  package static func list(
    state: String?, environment: [String: String] = ProcessInfo.processInfo.environment, _ report: @escaping @Sendable (Outcome) -> Void
  ) async throws {
    let queue = try UploadQueue(state ?? UploadQueue.usualPath(environment))
    try await queue.forEach(nil) { report(Outcome($0)) }
  }

  /// Sends until everything is settled or, with a watched folder, until the task is cancelled; what is under way is then pending again.
  ///
  /// - Parameter report: Told at the end what became of each item.
  /// - Returns: The exit code, 0, 1 or 3.
  /// - Throws: `UploaderProblem`; code 77 where the server wants a key.
  package func run(_ report: @escaping @Sendable (Outcome) -> Void) async throws -> Int32 {
    let watch = try options.watch.map { try FolderWatch($0, rest: options.rest) }
    let captures = try await Blocking.run { [options] in
      try options.paths.flatMap { path in
        let found = try CaptureFinder.captures(at: path)
        if found.isEmpty { throw UploaderProblem("\(path): there is no capture in it") }
        return found
      }
    }
    defer { progress.clear() }
    try await queue.resume(server.text, failed: options.retriesFailed)
    var hasGivenUp = false
    do { try await sendAll(captures, watch) } catch is GaveUp { hasGivenUp = true }
    return try await conclude(hasGivenUp, report)
  }

  private func sendAll(_ captures: [LocalCapture], _ watch: FolderWatch?) async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask {
        while !Task.isCancelled {
          try? await Task.sleep(for: .milliseconds(500))
          if let remaining = try? await queue.remainingBytes(server.text) { progress.show(remaining: remaining) }
        }
      }
      group.addTask {
        for capture in captures { try await add(capture, isNamed: true) }
        share.isListed.withLock { $0 = true }
        if let watch { try await self.watch(watch) }
      }
      for _ in 0..<options.jobs { group.addTask { try await work() } }
      // All but the display, which ends when it is cancelled.
      for _ in 0...options.jobs { try await group.next() }
      group.cancelAll()
    }
  }

  private func watch(_ first: FolderWatch) async throws {
    var watch = first
    while true {
      let began = ProcessInfo.processInfo.systemUptime
      let found: [LocalCapture]
      (watch, found) = try await Blocking.run { [watch] in
        var watch = watch
        let found = try watch.look()
        return (watch, found)
      }
      for capture in found { try await add(capture, isNamed: false) }
      // A folder of very many files takes a tenth of the time at most.
      let took = ProcessInfo.processInfo.systemUptime - began
      try await Task.sleep(for: .seconds(max(min(max(options.rest / 4, 0.05), 2), took * 9)))
    }
  }

  /// Counts the items of this run, and reports each.
  private func conclude(_ hasGivenUp: Bool, _ report: @escaping @Sendable (Outcome) -> Void) async throws -> Int32 {
    let counts = Mutex<[UploadQueue.State: Int]>([:])
    let handled = share.handled.withLock { $0 }
    try await queue.forEach(server.text) { item in
      guard let id = item.id, handled.contains(id) else { return }
      counts.withLock { $0[item.state, default: 0] += 1 }
      report(Outcome(item))
    }
    let (uploaded, failed) = counts.withLock { ($0[.uploaded] ?? 0, $0[.failed] ?? 0) }
    let waiting = counts.withLock { $0.values.reduce(0, +) } - uploaded - failed
    progress.note(
      "\(uploaded) uploaded" + (failed > 0 ? ", \(failed) failed" : "") + (waiting > 0 ? ", \(waiting) wait for another run" : ""))
    return failed > 0 || hasGivenUp ? 3 : waiting > 0 ? 1 : 0
  }

  private func add(_ capture: LocalCapture, isNamed: Bool) async throws {
    let tree = try? await Blocking.run { try FileTree(capture.path) }
    let bytes = tree.flatMap { try? UploadContent($0, name: capture.path.split(separator: "/").last.map(String.init) ?? "").count }
    let item = try await queue.add(capture, for: server.text, bytes: bytes, again: options.sendsAgain && isNamed)
    if let id = item.id { share.handled.withLock { _ = $0.insert(id) } }
  }

  // MARK: One after the other

  /// Sends items until none are left; with a watched folder, for ever.
  private func work() async throws {
    while true {
      try Task.checkCancellation()
      let outageEnds = outage.ends
      if outageEnds <= ProcessInfo.processInfo.systemUptime, let (item, lock) = try await queue.claim(server.text, now: Self.now()) {
        try await send(item)
        withExtendedLifetime(lock) {}
        continue
      }
      // In this order: what is added last is seen.
      let isListed = share.isListed.withLock { $0 }
      if try await queue.nextTime(server.text) == nil, isListed, options.watch == nil { return }
      // It waits for its time; or another uploader has the rest, and may end without having sent it.
      try await Task.sleep(for: .milliseconds(50))
    }
  }

  /// Makes one attempt. Throws what ends the run; everything else is kept with the item.
  private func send(_ claimed: UploadQueue.Item) async throws {
    var item = claimed
    guard let id = item.id else { return }
    share.handled.withLock { _ = $0.insert(id) }
    progress.begin(id)
    defer { progress.end(id) }
    let began = ProcessInfo.processInfo.systemUptime
    var ending: (any Error)?
    do {
      try await attempt(&item)
      outage.end()
      if options.deletesAfterUpload {
        // First the queue: a killed run must not look for files that are deleted.
        try await queue.save(item)
        await remove(&item)
      }
    } catch let setback as Setback {
      switch setback {
      case .temporary(let reason, let retryAfter, let isOutage):
        if postpone(&item, reason, retryAfter, outageSince: isOutage ? began : nil) { ending = GaveUp() }
      case .gone:
        progress.note("\(item.name): the server has dropped the upload; it begins anew")
        (item.location, item.sent) = (nil, 0)
        postpone(&item, "the server dropped the upload", nil, isSilent: true)
      case .final(let reason):
        outage.end()
        fail(&item, reason)
      case .unusable(let reason):
        (item.state, item.reason) = (.pending, reason)
        ending = UploaderProblem("the queue waits: \(reason)")
      case .unauthorized(let reason):
        (item.state, item.reason) = (.paused, reason)
        ending = UploaderProblem.registration(
          "the queue waits: \(reason). This server wants an API key: `takeset-server keys add` there makes one; "
            + "give it by --key or TAKESET_KEY")
      }
    } catch is UploadContent.Changed {
      await tus.abandon(item.location)
      let attempts = item.attempts
      item.forget()
      item.attempts = attempts
      postpone(&item, "it was changed while it was sent", nil)
    } catch let problem as FileTree.Problem {
      fail(&item, problem.description)
    } catch {
      item.state = .pending
      ending = error
    }
    // Even where the run was cancelled: what the server has must be known later.
    try await queue.save(item)
    if let ending { throw ending }
  }

  private func attempt(_ item: inout UploadQueue.Item) async throws {
    let began = ProcessInfo.processInfo.systemUptime
    let content = try await Blocking.run { [item] in try UploadContent(FileTree(item.path), name: item.name) }
    let fingerprint = content.tree.fingerprint
    if item.sha256 == nil || item.fingerprint != fingerprint {
      if item.fingerprint != nil, item.fingerprint != fingerprint {
        await tus.abandon(item.location)
        item.forget()
      }
      let isStopped = Stop()
      item.sha256 = try await withTaskCancellationHandler {
        try await Blocking.run { try content.digests { !isStopped.flag.withLock { $0 } }.all }
      } onCancel: {
        isStopped.flag.withLock { $0 = true }
      }
      (item.fingerprint, item.bytes) = (fingerprint, content.count)
      try await queue.save(item)
    }
    if item.capture != nil {
      if try await tus.hasCapture(of: item) {
        (item.state, item.reason, item.attempts) = (.uploaded, nil, 0)
        return progress.note("\(item.name): it was uploaded before\(item.capture.map { "; capture \($0)" } ?? "")")
      }
      progress.note("\(item.name): the server has it no longer; it is sent again")
      (item.location, item.capture, item.sent, item.best) = (nil, nil, 0, 0)
    }
    if item.attempts == 0, item.location == nil { progress.note("\(item.name): \(item.kind), \(UploadProgress.size(content.count))") }
    try await tus.send(content, as: &item)
    (item.state, item.reason, item.attempts) = (.uploaded, nil, 0)
    let seconds = ProcessInfo.processInfo.systemUptime - began
    progress.note(
      "\(item.name): uploaded in \(UploadProgress.duration(seconds))\(item.capture.map { "; capture \($0)" } ?? "")")
  }

  private final class Stop: Sendable { let flag = Mutex(false) }

  /// Notes a failed attempt and when to try again. Returns whether the server has taken nothing for as many attempts as there are.
  ///
  /// - Parameter outageSince: Time at which the attempt began, if it failed because the server takes nothing at present.
  @discardableResult private func postpone(
    _ item: inout UploadQueue.Item, _ reason: String, _ retryAfter: Double?, outageSince: Double? = nil, isSilent: Bool = false
  ) -> Bool {
    item.attempts += 1
    item.reason = reason
    var (failures, hasGivenUp) = (item.attempts, false)
    if let outageSince {
      let all = outage.note(attemptFrom: outageSince) { backoff.pause(after: $0, retryAfter: retryAfter) }
      failures = max(failures, all)
      hasGivenUp = all >= maxAttempts
    } else {
      outage.end()
    }
    guard item.attempts < maxAttempts else {
      fail(&item, "\(reason); \(item.attempts) attempts failed")
      return hasGivenUp
    }
    let pause = backoff.pause(after: failures, retryAfter: retryAfter)
    item.state = .pending
    item.notBefore = Self.now() + Int64(pause * 1000)
    if hasGivenUp {
      progress.problem("\(item.name): \(reason); \(failures) attempts failed")
    } else if !isSilent {
      let number = "attempt \(failures + 1)" + (maxAttempts == .max ? "" : " of \(maxAttempts)")
      progress.problem("\(item.name): \(reason); \(number) in \(String(format: "%.1f", pause)) s")
    }
    return hasGivenUp
  }

  private func fail(_ item: inout UploadQueue.Item, _ reason: String) {
    (item.state, item.reason) = (.failed, reason)
    progress.problem("\(item.name): failed: \(reason)")
  }

  private func remove(_ item: inout UploadQueue.Item) async {
    do {
      try await LocalRemoval(client: client, server: server).remove(item)
      item.isDeleted = true
      try await queue.save(item)
      progress.note("\(item.name): deleted here; the server has it")
    } catch {
      progress.problem("\(item.name): not deleted: \(Self.words(error))")
    }
  }

  private static func words(_ error: any Error) -> String {
    switch error {
    case Setback.temporary(let reason, _, _), Setback.final(let reason), Setback.unauthorized(let reason),
      Setback.unusable(let reason):
      reason
    case Setback.gone: "the server has it no longer"
    case is UploadContent.Changed: "it was changed meanwhile"
    case let error as any CustomStringConvertible: "\(error)"
    default: "\(error)"
    }
  }

  /// Returns the time in milliseconds since 1970.
  package static func now() -> Int64 { Int64(Date().timeIntervalSince1970 * 1000) }
}
