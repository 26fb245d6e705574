import CSandbox
import Foundation
import Model
import Steps
import Synchronization

/// A process that has loaded this program, FFmpeg's hundred and more libraries and the pipeline, and only forks, which costs a child process
/// a third of what loading them again would. It never reads a file of a take.
final class ForkServer: Sendable {
  /// A server that ended when it was asked for a child, before there was one: by its wait status.
  struct Crash: Error {
    let status: Int32
  }

  private struct Process {
    var id: pid_t = 0
    var connection: Int32 = -1

    /// Ends it, if it has not ended by itself. Returns its wait status.
    @discardableResult func end() -> Int32 {
      close(connection)
      kill(id, SIGKILL)
      var (status, peak): (Int32, Int64) = (0, 0)
      // A process that waits for a disk or a network does not even end.
      var waits = 20
      while waits > 0, csandbox_wait(id, 50, &status, &peak) == 0 { waits -= 1 }
      return status
    }
  }

  /// Most seconds for an answer. The first one includes loading the libraries, which may be on a slow network.
  private static let patience = 60

  /// The program and its arguments, by which it calls `ConversionChild.run`.
  private let command: [String]
  private let process = Mutex<Process?>(nil)

  init(_ command: [String]) { self.command = command }

  deinit { process.withLock { _ = $0?.end() } }

  /// Starts a child of this process, which finds a request, and leaves its words and its answer. Returns its process id.
  ///
  /// - Parameter host: The connection to a host of steps and its memory, if it needs one.
  ///
  /// The server is started when it is first needed, and again if it was killed. A child that asks the kernel to end with its parent ends with
  /// the thread that has started its server, which must therefore outlive it.
  ///
  /// Throws `OutputFailure`, `Crash`, `CancellationError`.
  func child(errors: MemoryFile, request: MemoryFile, answer: MemoryFile, host: [Int32] = [], isCancelled: () -> Bool) throws -> pid_t {
    let descriptors = [errors, request, answer].map(\.descriptor) + host
    return try start(descriptors, isCancelled)
  }

  private func start(_ descriptors: [Int32], _ isCancelled: () -> Bool) throws -> pid_t {
    try process.withLock { process in
      while true {
        if isCancelled() { throw CancellationError() }
        let isNew = process == nil
        let server = try process ?? start()
        process = server
        var child: pid_t = 0
        var code = csandbox_ask(server.connection, descriptors, Int32(descriptors.count))
        if code == 0 { code = Self.answer(of: server, &child, isCancelled) }
        let isSilent = code == ETIMEDOUT
        if isSilent { code = csandbox_last_answer(server.connection, &child) }
        if code == 0 {
          if child == server.id {
            close(server.connection)
            process = nil
          }
          return child
        }
        let status = server.end()
        process = nil
        if isCancelled() { throw CancellationError() }
        guard code == EPIPE else { throw Self.failure(String(cString: strerror(code))) }
        // An older one may have been killed, or hung, for a reason that is gone.
        if isNew { throw isSilent ? Self.failure("none was ready after \(Self.patience) s") : Crash(status: status) }
      }
    }
  }

  /// Returns 0 and a child's process id, ETIMEDOUT after all patience or when cancelled, or another errno.
  private static func answer(of server: Process, _ child: inout pid_t, _ isCancelled: () -> Bool) -> Int32 {
    let deadline = SuspendingClock.now + .seconds(patience)
    while true {
      let code = csandbox_answer(server.connection, 100, &child)
      if code != ETIMEDOUT || SuspendingClock.now >= deadline || isCancelled() { return code }
    }
  }

  private func start() throws -> Process {
    var process = Process()
    let code = withCStrings(command) { arguments in
      withCStrings(Self.environment) { environment in
        csandbox_start_server(command[0], arguments, environment, &process.id, &process.connection)
      }
    }
    guard code == 0 else { throw Self.failure(String(cString: strerror(code))) }
    return process
  }

  private static func failure(_ reason: String) -> OutputFailure { OutputFailure("cannot start a child process: \(reason)") }

  /// The environment without secrets that a decoder has no use for.
  private static let environment = ProcessInfo.processInfo.environment.filter { name, _ in
    ["LD_", "MALLOC_", "SWIFT_"].contains { name.hasPrefix($0) } || ["TZ", "LC_ALL", "LANG", "HDF5_USE_FILE_LOCKING"].contains(name)
  }.merging(["SWIFT_BACKTRACE": "enable=no"]) { $1 }.map { "\($0)=\($1)" }.sorted()

  private func withCStrings(_ texts: [String], _ body: (UnsafePointer<UnsafeMutablePointer<CChar>?>) -> Int32) -> Int32 {
    let copies = texts.map { strdup($0) } + [nil]
    defer { copies.forEach { free($0) } }
    return copies.withUnsafeBufferPointer { buffer in buffer.baseAddress.map(body) ?? EINVAL }
  }
}
