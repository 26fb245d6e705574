import Crypto
import Foundation
import HTTP
package import Logging
import NIOPosix
import Synchronization

/// Converts the captures of a server on another machine: asks for one, fetches its files, converts it and sends back the result.
///
/// It owns a capture for as long as it is heard of. Killed at any moment it loses nothing: the server gives the capture to somebody else.
package struct Worker: Sendable {
  /// The options of a worker.
  package struct Options: Sendable {
    /// The server's root, without a slash at its end.
    package var server = ""
    package var key: String?
    /// PEM file of certificates that count beside those of the system.
    package var certificates: String?
    /// The worker's name at the server.
    package var name = ""
    /// Captures at a time.
    package var jobs = 1
    /// The folder of captures while they are converted.
    package var scratch = ""
    /// The command `takeset`; by default next to this one, then from PATH.
    package var takeset: String?
    /// The interpreter that calls a pipeline's steps in Python; without one, none is called.
    package var python: String?
    /// Whether it ends when nothing waits.
    package var endsWhenIdle = false

    package init() {}
  }

  /// Nothing can be done until a person has changed something.
  package struct Refusal: Error, CustomStringConvertible {
    package var description: String
    /// Whether the server wants another key.
    package var isForKey = false
  }

  /// The capture is no longer ours.
  private struct Ended: Error {}

  private let options: Options
  private let client: HTTPClient
  private let scratch: WorkerScratch
  private let logger: Logger
  /// Places that ask for a capture, or convert one.
  private let busy = Count()

  private final class Count: Sendable { let number = Mutex(0) }

  /// Seconds after which it asks again where nothing waits, and between attempts at most.
  private static let idlePause = 2.0
  private static let longestPause = 30.0
  /// Seconds without a byte after which a request fails.
  private static let timeout = 60.0

  /// Throws `Refusal`.
  package init(_ options: Options, logger: Logger) throws {
    self.options = options
    self.logger = logger
    do {
      client = try HTTPClient(key: options.key, timeout: Self.timeout, certificates: options.certificates)
    } catch {
      throw Refusal(description: "\(error)")
    }
    do {
      scratch = try WorkerScratch(below: options.scratch)
    } catch {
      throw Refusal(description: "--scratch \(options.scratch): \((error as? Failure)?.reason ?? "\(error)")")
    }
  }

  /// Works until nothing waits, or for ever. Throws `Refusal`, `CancellationError`.
  package func run() async throws {
    defer { scratch.discard() }
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<options.jobs { group.addTask { try await work() } }
      try await group.waitForAll()
    }
  }

  private func work() async throws {
    while true {
      busy.number.withLock { $0 += 1 }
      guard let assignment = try await ask() else {
        // While another place is busy, a capture may come back that another worker fell silent with.
        let isLast = busy.number.withLock { number in
          number -= 1
          return number == 0
        }
        if options.endsWhenIdle, isLast { return }
        try await Task.sleep(for: .seconds(Self.idlePause * Double.random(in: 1...1.25)))
        continue
      }
      defer { busy.number.withLock { $0 -= 1 } }
      logger.info("capture \(assignment.capture): begun")
      do {
        try await convert(assignment)
        logger.info("capture \(assignment.capture): done")
      } catch is Ended {
        logger.warning("capture \(assignment.capture): somebody else converts it now")
      } catch let refusal as Refusal where !refusal.isForKey {
        // Such as a result that is too large: another worker would fare no better.
        logger.error("capture \(assignment.capture): \(refusal)")
        let failure = ConversionResult.failed("Its conversion could not be delivered.", detail: refusal.description)
        do { try await end(assignment, failure, files: [:]) } catch is Ended {}
      } catch {
        // The task may be cancelled, and the server should know at once.
        _ = try? await Task { try await client.send("DELETE", address(assignment)) }.value
        if error is CancellationError || error is Refusal { throw error }
        logger.error("capture \(assignment.capture): \((error as? Failure)?.reason ?? "\(error)")")
        try await Task.sleep(for: .seconds(Self.longestPause))
      }
    }
  }

  // MARK: Requests

  private struct Envelope<Contents: Decodable>: Decodable { var data: Contents }

  private func address(_ assignment: WorkAssignment, _ rest: String = "") throws -> URL {
    try address("/api/v1/work/\(assignment.lease)\(rest)")
  }

  private func address(_ path: String) throws -> URL {
    guard let url = URL(string: options.server + path) else { throw Refusal(description: "\(options.server) is no address") }
    return url
  }

  /// Repeats a request until the server has answered it with success, or with another status that is accepted. Throws `Ended`, `Refusal`,
  /// `CancellationError`.
  ///
  /// - Parameter request: Returns `nil` for an answer that was damaged on its way.
  private func persist(accepting accepted: Int? = nil, _ request: () async throws -> HTTPClient.Answer?) async throws -> HTTPClient.Answer {
    var pause = 1.0
    while true {
      switch try await attempt(accepting: accepted, request) {
      case .success(let answer): return answer
      case .failure(let problem): logger.warning("\(problem.words); trying again")
      }
      try await Task.sleep(for: .seconds(pause * Double.random(in: 1...1.25)))
      pause = min(pause * 2, Self.longestPause)
    }
  }

  /// Another attempt may succeed.
  private struct Setback: Error { var words: String }

  private func attempt(
    accepting accepted: Int?, _ request: () async throws -> HTTPClient.Answer?
  ) async throws -> Result<HTTPClient.Answer, Setback> {
    do {
      guard let answer = try await request() else { return .failure(Setback(words: "other bytes arrived than were sent")) }
      let message = (try? JSONDecoder().decode(JSONMessage.self, from: answer.body))?.error.message ?? ""
      switch answer.status {
      case 200..<300, accepted: return .success(answer)
      case 404 where message.isEmpty: throw Refusal(description: "\(options.server) is no capture server that gives work")
      case 410: throw Ended()
      case 401, 403: throw Refusal(description: message, isForKey: true)
      case 408, 423, 425, 429, 500...599: return .failure(Setback(words: "the server answered \(answer.status) \(message)"))
      default: throw Refusal(description: "the server answered \(answer.status) \(message)")
      }
    } catch let none as HTTPClient.NoAnswer {
      if none.isUntrusted { throw Refusal(description: none.description) }
      return .failure(Setback(words: none.description))
    }
  }

  private struct JSONMessage: Decodable {
    struct Contents: Decodable { var message: String }
    var error: Contents
  }

  private func ask() async throws -> WorkAssignment? {
    let body = try JSONAnswer.data(WorkRequest(worker: options.name, version: CaptureServer.version, callsPython: options.python != nil))
    let url = try address("/api/v1/work")
    let answer = try await persist {
      // Also where the task is cancelled meanwhile: what the server has given is given back.
      try await Task { try await client.send("POST", url, headers: ["Content-Type": "application/json"], body: .data(body)) }.value
    }
    if answer.status == 204 { return nil }
    do {
      return try JSONDecoder().decode(Envelope<WorkAssignment>.self, from: answer.body).data
    } catch {
      throw Refusal(description: "the server's answer is not understood")
    }
  }

  // MARK: One capture

  private func convert(_ assignment: WorkAssignment) async throws {
    let work = try WorkFolder(below: scratch.path, name: assignment.lease)
    defer { work.discard() }
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask {
        try await fetch(assignment, into: work)
        try await send(try await result(of: assignment, in: work), of: assignment, from: work)
      }
      group.addTask { try await stayAlive(assignment) }
      defer { group.cancelAll() }
      // What ends first decides: the work, or the lease.
      try await group.next()
    }
  }

  /// Lets the server know that we are there. Throws `Ended` when it does not, or has not heard of us for too long.
  private func stayAlive(_ assignment: WorkAssignment) async throws {
    var heard = ContinuousClock.now
    let url = try address(assignment, "/alive")
    while true {
      try await Task.sleep(for: .seconds(assignment.silence / 4))
      do {
        switch try await client.send("POST", url).status {
        case 200..<300: heard = .now
        case 404, 410: throw Ended()
        default: break
        }
      } catch is HTTPClient.NoAnswer {}
      if .now - heard > .seconds(assignment.silence) { throw Ended() }
    }
  }

  private func fetch(_ assignment: WorkAssignment, into work: WorkFolder) async throws {
    for file in assignment.files {
      guard let name = try? SessionName.file(file.place.split(separator: "/", omittingEmptySubsequences: false).map(String.init)) else {
        throw Refusal(description: "the server names a file that cannot be one")
      }
      let path = work.path + "/input/" + name
      try FileManager.default.createDirectory(
        atPath: URL(fileURLWithPath: path).deletingLastPathComponent().path, withIntermediateDirectories: true)
      let url = try address(assignment, "/files/\(Figure.address(file.name))")
      _ = try await persist {
        try Data().write(to: URL(fileURLWithPath: path))
        let handle = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
        defer { try? handle.close() }
        let answer = try await client.send("GET", url, into: handle)
        guard answer.status == 200 else { return answer }
        return try await FileDigest.sha256(of: path) == file.sha256 ? answer : nil
      }
    }
  }

  private func result(of assignment: WorkAssignment, in work: WorkFolder) async throws -> ConversionResult {
    let folder = work.path + "/pipeline"
    let name = "pipeline-of-the-server.yaml"
    let pipeline = folder + "/" + name
    for file in [.init(name: name, bytes: Data(assignment.pipeline.utf8))] + assignment.steps {
      guard let name = try? SessionName.file(file.name.split(separator: "/", omittingEmptySubsequences: false).map(String.init)) else {
        throw Refusal(description: "the server names a file of a step that cannot be one")
      }
      let url = URL(fileURLWithPath: folder + "/" + name)
      try FileManager.default.createDirectory(at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
      try file.bytes.write(to: url)
    }
    let limits = ChildProcess.Limits(seconds: assignment.seconds, memory: assignment.memory)
    let converter = Converter(takeset: TakesetCommand(options.takeset, limits, python: options.python), logger: logger)
    do {
      return try await converter.convert(work.path + "/input/" + assignment.input, pipeline: pipeline, keys: assignment.keys, in: work)
    } catch let failure as ChildProcessFailure {
      return .failed("The conversion could not be started.", detail: failure.description)
    }
  }

  private func send(_ result: ConversionResult, of assignment: WorkAssignment, from work: WorkFolder) async throws {
    let folder = work.path + "/" + Converter.result
    let files = result.outcome == .converted ? FolderContents.files(below: folder) : [:]
    // A server that was restarted has forgotten what came before.
    for attempt in 1...3 {
      for name in files.keys.sorted() {
        let path = folder + "/" + name
        let url = try address(assignment, "/result/\(Figure.address(name))")
        let digest = try await FileDigest.sha256(of: path)
        _ = try await persist { try await client.send("PUT", url, headers: ["X-Content-SHA256": digest], body: .file(path)) }
      }
      if try await end(assignment, result, files: files, accepting: attempt < 3 ? 409 : nil).status != 409 { return }
    }
  }

  /// The conversion is over. Throws as `persist` does.
  @discardableResult
  private func end(
    _ assignment: WorkAssignment, _ result: ConversionResult, files: [String: Int64], accepting accepted: Int? = nil
  ) async throws -> HTTPClient.Answer {
    let body = try JSONAnswer.data(WorkDone(result: result, files: files))
    let done = try address(assignment, "/done")
    return try await persist(accepting: accepted) {
      try await client.send("POST", done, headers: ["Content-Type": "application/json"], body: .data(body))
    }
  }
}

enum FileDigest {
  /// 64 hexadecimal digits. Reads the file in blocks, on a thread that may wait: workers must stay heard of meanwhile.
  static func sha256(of path: String) async throws -> String {
    try await NIOThreadPool.singleton.runIfActive {
      let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
      defer { try? file.close() }
      var hasher = SHA256()
      while let block = try file.read(upToCount: 1 << 20), !block.isEmpty { hasher.update(data: block) }
      return Hex.text(hasher.finalize())
    }
  }
}

enum FolderContents {
  /// Sizes of all files below a folder, by their names.
  static func files(below folder: String) -> [String: Int64] {
    var found: [String: Int64] = [:]
    guard let names = FileManager.default.enumerator(atPath: folder) else { return found }
    while let name = names.nextObject() as? String {
      var status = stat()
      if lstat(folder + "/" + name, &status) == 0, status.st_mode & S_IFMT == S_IFREG { found[name] = Int64(status.st_size) }
    }
    return found
  }
}
