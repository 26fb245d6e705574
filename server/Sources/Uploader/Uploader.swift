import Foundation
import Synchronization

/// `takeset upload`: sends captures to a server by a queue that outlives the process.
package struct Uploader: Sendable {
  package struct Options: Sendable {
    package var to = ""
    package var paths: [String] = []
    package var watch: String?
    package var key: String?
    package var jobs = 3
    package var maxAttempts = 10
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
  /// Items that this run named or sent.
  private let handled = Handled()

  private final class Handled: Sendable { let ids = Mutex<Set<Int64>>([]) }

  /// Throws `UploaderProblem`.
  package init(_ options: Options, environment: [String: String] = ProcessInfo.processInfo.environment) throws {
    self.options = options
    server = try ServerAddress(options.to)
    queue = try UploadQueue(options.state ?? UploadQueue.usualPath(environment))
    progress = UploadProgress(isQuiet: options.isQuiet)
    backoff = Backoff(unit: options.firstPause)
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
    client = HTTPClient(key: key, timeout: options.timeout)
    tus = TusUpload(client: client, server: server, queue: queue, limit: limit, progress: progress)
    if key != nil, server.isOpen { progress.problem("warning: the key goes to \(server.text) unencrypted; https would hide it") }
  }

  /// Everything in a queue file.
  package static func list(
    state: String?, environment: [String: String] = ProcessInfo.processInfo.environment
  ) async throws -> [Outcome] {
    try await UploadQueue(state ?? UploadQueue.usualPath(environment)).items(nil).map(Outcome.init)
  }

  /// Sends until everything is settled or, with a watched folder, until the task is cancelled; what is under way is then pending again.
  ///
  /// - Returns: The exit code, 0 or 3, and what became of each item.
  /// - Throws: `UploaderProblem`; code 77 where the server wants a key.
  package func run() async throws -> (code: Int32, outcomes: [Outcome]) {
    try await queue.resume(server.text, failed: options.retriesFailed)
    var watch = try options.watch.map { try FolderWatch($0, rest: options.rest) }
    for path in options.paths {
      let found = try CaptureFinder.captures(at: path)
      if found.isEmpty { throw UploaderProblem("\(path): there is no capture in it") }
      for capture in found { try await add(capture, isNamed: true) }
    }
    do {
      try await withThrowingTaskGroup(of: Bool.self) { group in
        for _ in 0..<options.jobs {
          group.addTask {
            try await work()
            return true
          }
        }
        group.addTask {
          while true {
            try await Task.sleep(for: .milliseconds(500))
            progress.show(remaining: try await queue.remainingBytes(server.text))
          }
        }
        if watch != nil {
          while true {
            let (looked, found) = try await Blocking.run { [watch] in
              var watch = watch
              let found = try watch?.look() ?? []
              return (watch, found)
            }
            watch = looked
            for capture in found { try await add(capture, isNamed: false) }
            try await Self.pause(min(max(options.rest / 4, 0.05), 2), ends: &group)
          }
        }
        var running = options.jobs
        while running > 0, try await group.next() == true { running -= 1 }
        group.cancelAll()
      }
    } catch is CancellationError where !Task.isCancelled {
      // The display was ended.
    }
    return try await outcomes()
  }

  /// Sleeps, or throws what a worker threw meanwhile.
  private static func pause(_ seconds: Double, ends group: inout ThrowingTaskGroup<Bool, any Error>) async throws {
    group.addTask {
      try await Task.sleep(for: .seconds(seconds))
      return false
    }
    // Workers of a watched folder do not end; the first to return is the sleep.
    _ = try await group.next()
  }

  private func outcomes() async throws -> (Int32, [Outcome]) {
    let ids = handled.ids.withLock { $0 }
    let items = try await queue.items(server.text).filter { $0.id.map(ids.contains) ?? false }
    let failed = items.filter { $0.state == .failed }.count
    let uploaded = items.filter { $0.state == .uploaded }.count
    progress.note("\(uploaded) uploaded" + (failed > 0 ? ", \(failed) failed" : ""))
    let isComplete = items.allSatisfy { $0.state == .uploaded }
    return (failed > 0 ? 3 : isComplete ? 0 : 1, items.map(Outcome.init))
  }

  private func add(_ capture: LocalCapture, isNamed: Bool) async throws {
    let tree = try? await Blocking.run { try FileTree(capture.path) }
    let bytes = tree.flatMap { try? UploadContent($0, name: capture.path.split(separator: "/").last.map(String.init) ?? "").count }
    var item = try await queue.add(capture, for: server.text, bytes: bytes, again: options.sendsAgain && isNamed)
    if item.state == .uploaded {
      let isChanged = tree != nil && item.fingerprint != tree?.fingerprint
      if isChanged {
        item = try await queue.add(capture, for: server.text, again: true)
      } else if !isNamed {
        return
      }
    }
    guard let id = item.id else { return }
    handled.ids.withLock { _ = $0.insert(id) }
    guard item.state == .uploaded else { return }
    progress.note("\(item.name): it was uploaded before\(item.capture.map { "; capture \($0)" } ?? "")")
    if options.deletesAfterUpload, let lock = try queue.lock(id) {
      await remove(&item)
      withExtendedLifetime(lock) {}
    }
  }

  // MARK: One after the other

  /// Sends items until none are left; with a watched folder, for ever.
  private func work() async throws {
    while true {
      try Task.checkCancellation()
      if let (item, lock) = try await queue.claim(server.text, now: Self.now()) {
        try await send(item)
        withExtendedLifetime(lock) {}
        continue
      }
      let waiting = try await queue.unfinished(server.text)
      if waiting.isEmpty, options.watch == nil { return }
      // The next attempt's time; or another uploader has the rest, and may end without having sent it.
      let next = waiting.map(\.notBefore).filter { $0 > Self.now() }.min().map { Double($0 - Self.now()) / 1000 } ?? 0.1
      try await Task.sleep(for: .seconds(min(max(next, 0.01), 0.1)))
    }
  }

  /// Makes one attempt. Throws what ends the run; everything else is kept with the item.
  private func send(_ claimed: UploadQueue.Item) async throws {
    var item = claimed
    guard let id = item.id else { return }
    handled.ids.withLock { _ = $0.insert(id) }
    defer { progress.end(id) }
    var ending: (any Error)?
    do {
      try await attempt(&item)
      if options.deletesAfterUpload {
        // First the queue: a killed run must not look for files that are deleted.
        try await Task { [item] in try await queue.save(item) }.value
        await remove(&item)
      }
    } catch let setback as Setback {
      switch setback {
      case .temporary(let reason, let retryAfter): postpone(&item, reason, retryAfter)
      case .gone:
        progress.note("\(item.name): the server has dropped the upload; it begins anew")
        (item.location, item.sent) = (nil, 0)
        postpone(&item, "the server dropped the upload", nil, isSilent: true)
      case .final(let reason): fail(&item, reason)
      case .unauthorized(let reason):
        (item.state, item.reason) = (.paused, reason)
        ending = UploaderProblem.registration(
          "\(reason). This server wants an API key: `takeset-server keys add` there makes one; give it by --key or TAKESET_KEY. "
            + "The queue waits.")
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
    try await Task { [item] in try await queue.save(item) }.value
    if let ending { throw ending }
  }

  private func attempt(_ item: inout UploadQueue.Item) async throws {
    guard let id = item.id else { return }
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
        try await Blocking.run { try content.digests { _ in !isStopped.flag.withLock { $0 } }.all }
      } onCancel: {
        isStopped.flag.withLock { $0 = true }
      }
      (item.fingerprint, item.bytes) = (fingerprint, content.count)
      try await queue.save(item)
    }
    if item.attempts == 0, item.location == nil { progress.note("\(item.name): \(item.kind), \(UploadProgress.size(content.count))") }
    progress.at(id, 0)
    try await tus.send(content, as: &item)
    (item.state, item.reason, item.attempts) = (.uploaded, nil, 0)
    let seconds = ProcessInfo.processInfo.systemUptime - began
    progress.note(
      "\(item.name): uploaded in \(UploadProgress.duration(seconds))\(item.capture.map { "; capture \($0)" } ?? "")")
  }

  private final class Stop: Sendable { let flag = Mutex(false) }

  private func postpone(_ item: inout UploadQueue.Item, _ reason: String, _ retryAfter: Double?, isSilent: Bool = false) {
    item.attempts += 1
    item.reason = reason
    guard item.attempts < options.maxAttempts else {
      fail(&item, "\(reason); \(item.attempts) attempts failed")
      return
    }
    let pause = backoff.pause(after: item.attempts, retryAfter: retryAfter)
    item.state = .pending
    item.notBefore = Self.now() + Int64(pause * 1000)
    if !isSilent {
      progress.problem(
        "\(item.name): \(reason); attempt \(item.attempts + 1) of \(options.maxAttempts) in \(String(format: "%.1f", pause)) s")
    }
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
    case Setback.temporary(let reason, _), Setback.final(let reason), Setback.unauthorized(let reason): reason
    case Setback.gone: "the server has it no longer"
    case is UploadContent.Changed: "it was changed meanwhile"
    case let error as any CustomStringConvertible: "\(error)"
    default: "\(error)"
    }
  }

  static func now() -> Int64 { Int64(Date().timeIntervalSince1970 * 1000) }
}
