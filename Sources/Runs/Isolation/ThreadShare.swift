import Synchronization

/// The number of a run's threads that each child process uses.
///
/// A child keeps what it was given. So that no processor idles, the first children, next to which few others run, and the last ones, which
/// will outlive the others, get more than the rest; for that while there are more threads than asked for.
final class ThreadShare: Sendable {
  private struct State {
    var running = 0
    var waiting: Int
  }

  private let threads: Int
  private let state: Mutex<State>

  /// - Parameter takes: The number of takes that may need a child process. Those that are converted already count until they are opened.
  init(threads: Int, takes: Int) {
    self.threads = threads
    state = Mutex(State(waiting: takes))
  }

  /// One take fewer is waiting.
  func open() { state.withLock { $0.waiting -= 1 } }

  /// Calls `body` with the number of threads of one more child process, at least one.
  func use<Result>(_ body: (Int) throws -> Result) rethrows -> Result {
    let share = state.withLock { state in
      state.running += 1
      return max(1, threads / max(1, min(state.running, state.waiting + 1)))
    }
    defer { state.withLock { $0.running -= 1 } }
    return try body(share)
  }
}
