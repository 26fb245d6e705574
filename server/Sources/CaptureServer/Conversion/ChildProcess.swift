import Foundation
import Synchronization

/// A command that runs beside the server, in a process group of its own, with limits.
///
/// It inherits no descriptors and only what it needs of the environment. Memory is limited by the shell that starts it, with `ulimit -v`.
/// It never outlives the server: a watch in its group reads from a pipe whose other end the server holds, and ends the group when the pipe
/// closes, which it does even if the server is killed.
final class ChildProcess: Sendable {
  struct Limits: Sendable {
    var seconds: Int
    /// Bytes of address space.
    var memory: Int64
  }

  /// The end of a command.
  struct End: Sendable, Equatable {
    /// `nil` after a signal.
    var code: Int32?
    var signal: Int32?
    /// Whether it was ended because its time was up.
    var isOverdue = false
    /// The start of its output, which programs read.
    var output = ""
    /// Its last words, for people: the end of its error output or, if that is empty, of its output.
    var words = ""
  }

  /// Arguments: KiB of memory, folder, command. The subshell is the watch; all else becomes the command.
  private static let script = """
    (read -r _ <&3; kill -KILL 0) >/dev/null 2>&1 &
    exec 3<&-
    ulimit -c 0
    ulimit -v "$1" 2>/dev/null
    cd -- "$2" || exit 126
    shift 2
    exec "$@"
    """
  private static let outputLimit = 1 << 20
  private static let wordLimit = 8 << 10

  private struct State {
    var isGone = false
    var isOverdue = false
    var output: [UInt8] = []
    /// The ends of output and error output.
    var lastOutput: [UInt8] = []
    var lastErrors: [UInt8] = []
  }

  private let state = Mutex(State())
  private let pid: pid_t
  /// Our end of the pipe that keeps the command alive.
  private let lifeline: Int32
  /// The ends of the command's output and error output that we read.
  private let output, errors: Int32

  /// Runs a command until it ends, its time is up, or the task is cancelled, when its whole group is killed.
  ///
  /// Throws `ChildProcessFailure` if it cannot be started, `CancellationError`.
  static func run(_ command: [String], in folder: String, limits: Limits) async throws -> End {
    try Task.checkCancellation()
    let child = try ChildProcess(command, folder, limits)
    return try await withTaskCancellationHandler {
      let clock = Task {
        try await Task.sleep(for: .seconds(limits.seconds))
        child.kill(isOverdue: true)
      }
      defer { clock.cancel() }
      // A thread of its own: an hour of waiting must not hold one that others share.
      let end = await withCheckedContinuation { continuation in
        Thread.detachNewThread { continuation.resume(returning: child.wait()) }
      }
      try Task.checkCancellation()
      return end
    } onCancel: {
      child.kill(isOverdue: false)
    }
  }

  private init(_ command: [String], _ folder: String, _ limits: Limits) throws {
    let life = try Self.pipe()
    defer { close(life.read) }
    var texts: [(read: Int32, write: Int32)] = []
    do {
      for _ in 0..<2 { texts.append(try Self.pipe()) }
    } catch {
      close(life.write)
      for text in texts { [text.read, text.write].forEach { close($0) } }
      throw error
    }
    defer { for text in texts { close(text.write) } }
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
    posix_spawn_file_actions_adddup2(&actions, texts[0].write, 1)
    posix_spawn_file_actions_adddup2(&actions, texts[1].write, 2)
    posix_spawn_file_actions_adddup2(&actions, life.read, 3)
    Self.closeAll(from: 4, &actions)

    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    var signals = sigset_t()
    sigfillset(&signals)
    // The server ignores SIGPIPE; a command should not.
    posix_spawnattr_setsigdefault(&attributes, &signals)
    sigemptyset(&signals)
    posix_spawnattr_setsigmask(&attributes, &signals)
    posix_spawnattr_setpgroup(&attributes, 0)
    posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK))

    let arguments = ["sh", "-c", Self.script, "sh", "\(limits.memory >> 10)", folder] + command
    var child: pid_t = 0
    let code = Self.withCStrings(arguments) { arguments in
      Self.withCStrings(Self.environment) { posix_spawn(&child, "/bin/sh", &actions, &attributes, arguments, $0) }
    }
    guard code == 0 else {
      close(life.write)
      for text in texts { close(text.read) }
      throw ChildProcessFailure(description: "cannot start \(command.first ?? "a command"): \(String(cString: strerror(code)))")
    }
    (pid, lifeline, output, errors) = (child, life.write, texts[0].read, texts[1].read)
  }

  private func kill(isOverdue: Bool) {
    state.withLock {
      // Once it is gone, its number may be another's.
      guard !$0.isGone else { return }
      if isOverdue { $0.isOverdue = true }
      Foundation.kill(-pid, SIGKILL)
    }
  }

  /// Waits for the end, in the calling thread.
  private func wait() -> End {
    let isRead = DispatchSemaphore(value: 0)
    let readers: [@Sendable () -> Void] = [
      {
        self.read(self.output) { state, block in
          if state.output.count < Self.outputLimit { state.output += block }
          Self.keepEnd(&state.lastOutput, block)
        }
      },
      { self.read(self.errors) { Self.keepEnd(&$0.lastErrors, $1) } },
    ]
    for reader in readers {
      Thread.detachNewThread {
        reader()
        isRead.signal()
      }
    }
    var information = siginfo_t()
    while waitid(P_PID, id_t(pid), &information, WEXITED | WNOWAIT) != 0, errno == EINTR {}
    var end = End()
    state.withLock {
      // The watch, and whatever else the command has left.
      Foundation.kill(-pid, SIGKILL)
      var status: Int32 = 0
      while true {
        // As the first process of a container, the server is also the parent of what the command has left.
        let found = waitpid(-pid, &status, 0)
        if found < 0 {
          if errno == EINTR { continue }
          break
        }
        guard found == pid else { continue }
        if status & 0x7F == 0 { end.code = status >> 8 & 0xFF } else { end.signal = status & 0x7F }
      }
      $0.isGone = true
      end.isOverdue = $0.isOverdue
    }
    close(lifeline)
    for _ in readers { _ = isRead.wait(timeout: .now() + 1) }
    state.withLock {
      end.output = String(decoding: $0.output, as: UTF8.self)
      end.words = String(decoding: $0.lastErrors.isEmpty ? $0.lastOutput : $0.lastErrors, as: UTF8.self)
    }
    return end
  }

  private static func keepEnd(_ words: inout [UInt8], _ block: ArraySlice<UInt8>) {
    words += block
    if words.count > 2 * wordLimit { words.removeFirst(words.count - wordLimit) }
  }

  /// Reads a pipe to its end, and closes it.
  private func read(_ descriptor: Int32, _ keep: (inout State, ArraySlice<UInt8>) -> Void) {
    var block = [UInt8](repeating: 0, count: 4096)
    while true {
      let count = Foundation.read(descriptor, &block, block.count)
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { break }
      state.withLock { keep(&$0, block[..<count]) }
    }
    close(descriptor)
  }

  /// The part of the server's environment that commands need: the rest may hold secrets.
  private static var environment: [String] {
    let own = ProcessInfo.processInfo.environment
    return ["PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH"].compactMap { name in own[name].map { "\(name)=\($0)" } } + ["LC_ALL=C.UTF-8"]
  }

  /// Both ends above the numbers that the command uses, closed by every `exec`.
  private static func pipe() throws -> (read: Int32, write: Int32) {
    var ends: [Int32] = [-1, -1]
    guard Foundation.pipe(&ends) == 0 else { throw ChildProcessFailure(description: "no pipe: \(String(cString: strerror(errno)))") }
    let moved = ends.map { fcntl($0, F_DUPFD_CLOEXEC, 10) }
    let reason = errno
    for end in ends { close(end) }
    guard moved.allSatisfy({ $0 >= 0 }) else {
      for end in moved where end >= 0 { close(end) }
      throw ChildProcessFailure(description: "no pipe: \(String(cString: strerror(reason)))")
    }
    return (moved[0], moved[1])
  }

  /// Closes every descriptor from a number on. The function of the C library that does so at once is not declared to Swift; without it,
  /// those that are open now are closed one by one.
  private static func closeAll(from first: Int32, _ actions: inout posix_spawn_file_actions_t) {
    typealias Function = @convention(c) (UnsafeMutablePointer<posix_spawn_file_actions_t>, Int32) -> Int32
    if let symbol = dlsym(nil, "posix_spawn_file_actions_addclosefrom_np"),
      unsafeBitCast(symbol, to: Function.self)(&actions, first) == 0
    {
      return
    }
    let open = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
    for descriptor in open.compactMap({ Int32($0) }) where descriptor >= first { posix_spawn_file_actions_addclose(&actions, descriptor) }
  }

  private static func withCStrings<Result>(_ texts: [String], _ body: ([UnsafeMutablePointer<CChar>?]) -> Result) -> Result {
    let pointers = texts.map { strdup($0) }
    defer { for pointer in pointers { free(pointer) } }
    return body(pointers + [nil])
  }
}

/// A command could not be started.
struct ChildProcessFailure: Error, CustomStringConvertible {
  var description: String
}
