import CSandbox
import Foundation
import Model
import Synchronization

/// A process that has loaded this program, FFmpeg's hundred and more libraries and the pipeline, and only forks, which costs a child process
/// a third of what loading them again would. It never reads a file of a take.
final class ForkServer: Sendable {
  private struct Process {
    var id: pid_t = 0
    var connection: Int32 = -1

    func end() {
      close(connection)
      kill(id, SIGKILL)
      while waitpid(id, nil, 0) < 0, errno == EINTR {}
    }
  }

  /// The program and its arguments, by which it calls `ConversionChild.run`.
  private let command: [String]
  private let process = Mutex<Process?>(nil)

  init(_ command: [String]) { self.command = command }

  deinit { process.withLock { $0?.end() } }

  /// Starts a child of this process, which finds a request, and leaves its words and its answer. Returns its process id.
  ///
  /// The server is started when it is first needed, and again if it was killed. A child that asks the kernel to end with its parent ends with
  /// the thread that has started its server, which must therefore outlive it.
  ///
  /// Throws `OutputFailure`.
  func child(errors: MemoryFile, request: MemoryFile, answer: MemoryFile) throws -> pid_t {
    try process.withLock { process in
      for _ in 1...2 {
        let server = try process ?? start()
        process = server
        var child: pid_t = 0
        let code = csandbox_fork(server.connection, errors.descriptor, request.descriptor, answer.descriptor, &child)
        if code == 0 { return child }
        guard code == EPIPE else { throw Self.failure(code) }
        // It was killed, or hangs.
        server.end()
        process = nil
      }
      throw Self.failure(EPIPE)
    }
  }

  private func start() throws -> Process {
    var process = Process()
    let code = withCStrings(command) { arguments in
      withCStrings(Self.environment) { environment in
        csandbox_start_server(command[0], arguments, environment, &process.id, &process.connection)
      }
    }
    guard code == 0 else { throw Self.failure(code) }
    return process
  }

  private static func failure(_ code: Int32) -> OutputFailure {
    OutputFailure("cannot start a child process: \(String(cString: strerror(code)))")
  }

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
