import ArgumentParser
import Foundation
import Synchronization
import Uploader

struct UploadCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "upload", abstract: "Send captures to a server.",
    discussion: """
      Finds bundle folders, session folders and archives, and movies at or below the paths, and sends them, several at a time. \
      What was cut off goes on where it was: after a lost connection, an interruption, a restart of this machine or of the \
      server. Without paths it goes on with the queue. A recording that a killed app has left is made a bundle first, as `takeset recover` does; other files \
      are only read, and stay, unless --delete-after-upload says otherwise.

        takeset upload sessions/ --to https://captures.example.org --key KEY
        takeset upload --watch inbox/ --to https://captures.example.org
        takeset upload --list

      Prints a line for each capture: its state, the server's id and its path.

      Exit codes: 0 all are there; 3 some failed for good, or the server took nothing for all attempts; 77 the server wants a key; \
      64 a mistake in the command; 1 could not start, or --to is no capture server; 130, 143 interrupted.
      """)

  @Argument(help: "Captures, or folders to search for captures.") var paths: [String] = []
  @Option(help: ArgumentHelp("The server's root.", valueName: "url")) var to: String?
  @Option(help: ArgumentHelp("Also send what appears in this folder, until interrupted.", valueName: "dir")) var watch: String?
  @Option(help: ArgumentHelp("Seconds without a change after which something in --watch is complete.", valueName: "s")) var rest = 10.0
  @Option(help: "API key; by default from TAKESET_KEY, where others do not see it.") var key: String?
  @Option(help: ArgumentHelp("PEM file of certificates that count beside those of the system.", valueName: "file")) var caCert: String?
  @Option(help: ArgumentHelp("Captures at a time.", valueName: "n")) var jobs = 3
  @Option(
    help: ArgumentHelp("Attempts without progress after which a capture has failed; by default 10, with --watch no limit.", valueName: "n"))
  var maxAttempts: Int?
  @Option(help: ArgumentHelp("Bytes a second in all, such as 500k or 2M.", valueName: "rate")) var limitRate: String?
  @Flag(help: "Delete what was sent, once the server lists its digests.") var deleteAfterUpload = false
  @Flag(help: "Send the named captures even if they were uploaded before.") var again = false
  @Flag(help: "Try again what failed in earlier runs.") var retryFailed = false
  @Option(help: ArgumentHelp("The queue; by default takeset/uploads.sqlite below $XDG_STATE_HOME.", valueName: "file")) var state: String?
  @Flag(help: "Print the queue, and send nothing.") var list = false
  @Flag(help: "Print JSON, a line for each capture.") var json = false
  @Flag(name: .shortAndLong, help: "Print problems only.") var quiet = false
  @Option(help: ArgumentHelp("Seconds before the first repetition; doubled each time, up to 60 times.", valueName: "s")) var firstPause =
    1.0
  @Option(help: ArgumentHelp("Seconds without a byte after which a request fails.", valueName: "s")) var timeout = 60.0

  func validate() throws {
    guard (1...64).contains(jobs) else { throw ValidationError("--jobs: expected 1 to 64") }
    guard maxAttempts.map((1...1000).contains) ?? true else { throw ValidationError("--max-attempts: expected 1 to 1000") }
    guard (0...86_400).contains(rest) else { throw ValidationError("--rest: expected 0 to 86400") }
    guard firstPause >= 0.001, firstPause <= 3600 else { throw ValidationError("--first-pause: expected 0.001 to 3600") }
    guard (1...86_400).contains(timeout) else { throw ValidationError("--timeout: expected 1 to 86400") }
    if !list, to == nil { throw ValidationError("--to: expected the server's address, such as https://captures.example.org") }
  }

  func run() throws {
    try Uploading.run("; the queue goes on with the next `takeset upload`") {
      if list {
        try await Uploader.list(state: state) { Uploading.show($0, json: json) }
        return 0
      }
      // What a killed app has left is a bundle first.
      let isRecovered = RecoverCommand.recoverAll(below: paths + (watch.map { [$0] } ?? [])) {
        if !quiet { standardError("takeset: \($0)") }
      }
      var options = Uploader.Options()
      (options.to, options.certificates) = (to ?? "", caCert)
      (options.paths, options.watch, options.rest, options.key) = (paths.map(RecoverCommand.bundle(of:)), watch, rest, key)
      (options.jobs, options.maxAttempts, options.limitRate) = (jobs, maxAttempts, limitRate)
      (options.deletesAfterUpload, options.sendsAgain, options.retriesFailed) = (deleteAfterUpload, again, retryFailed)
      (options.state, options.isQuiet, options.firstPause, options.timeout) = (state, quiet, firstPause, timeout)
      let code = try await Uploader(options).run { Uploading.show($0, json: json) }
      // A recording that cannot be read is a capture that is not on the server.
      return code == 0 && !isRecovered ? 3 : code
    }
  }
}

/// The parts that the sending commands share.
enum Uploading {
  /// Runs a command and ends with its exit code. SIGINT and SIGTERM cancel it in order; the second one ends it at once.
  ///
  /// - Parameter afterwards: A sentence to print after an interruption.
  static func run(_ afterwards: String = "", _ body: @escaping @Sendable () async throws -> Int32) throws {
    let ended = DispatchSemaphore(value: 0)
    let outcome = Mutex<Result<Int32, any Error>?>(nil)
    // It begins when signals are heard: one that came in between would be ignored for ever.
    let (hearing, hears) = AsyncStream.makeStream(of: Void.self)
    let task = Task {
      for await _ in hearing { break }
      let result: Result<Int32, any Error>
      do { result = .success(try await body()) } catch { result = .failure(error) }
      outcome.withLock { $0 = result }
      ended.signal()
    }
    let sources = [SIGINT, SIGTERM].map { number in
      signal(number, SIG_IGN)
      let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
      source.setEventHandler {
        if task.isCancelled { exit(128 + number) }
        received.signal = number
        task.cancel()
        // A disk that hangs holds up nobody; what is in the queue bears any end.
        DispatchQueue.global().asyncAfter(deadline: .now() + 0.8) {
          interrupted(afterwards)
          exit(128 + number)
        }
      }
      source.resume()
      return source
    }
    defer { sources.forEach { $0.cancel() } }
    hears.yield()
    ended.wait()
    do {
      if let code = try outcome.withLock({ $0 })?.get(), code != 0 { throw ExitCode(code) }
    } catch  where task.isCancelled && !(error is UploaderProblem) {
      interrupted(afterwards)
      throw ExitCode(128 + received.signal)
    }
  }

  private static func interrupted(_ afterwards: String) {
    FileHandle.standardError.write(Data("takeset: interrupted\(afterwards)\n".utf8))
  }

  /// The signal that cancelled the command. Written before the task is cancelled, read after.
  private final class Received: @unchecked Sendable { var signal = SIGINT }
  private static let received = Received()

  static func show(_ outcome: Uploader.Outcome, json: Bool) {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    let line =
      json
      ? String(decoding: (try? encoder.encode(outcome)) ?? Data(), as: UTF8.self)
      : "\(outcome.state)\t\(outcome.capture_id ?? "-")\t\(outcome.path)"
    FileHandle.standardOutput.write(Data((line + "\n").utf8))
  }
}
