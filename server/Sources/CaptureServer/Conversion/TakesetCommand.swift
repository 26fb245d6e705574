import Foundation

/// The converter's command.
struct TakesetCommand: Sendable {
  /// A path, or a name that is looked up in PATH.
  let path: String
  /// The interpreter of a pipeline's steps in Python, or the word by which the command refuses such steps.
  let python: String
  let limits: ChildProcess.Limits

  init(_ configuration: Configuration) {
    self.init(
      configuration.takeset, ChildProcess.Limits(seconds: configuration.conversionSeconds, memory: configuration.conversionMemory),
      python: configuration.python)
  }

  /// - Parameter given: A path or a name; by default the command next to this one, then from PATH.
  /// - Parameter python: Likewise; without one, steps in Python are refused.
  init(_ given: String?, _ limits: ChildProcess.Limits, python: String?) {
    self.limits = limits
    // It runs in another folder.
    func absolute(_ name: String) -> String { name.contains("/") ? URL(fileURLWithPath: name).standardizedFileURL.path : name }
    self.python = python.map(absolute) ?? "none"
    if let given {
      path = absolute(given)
      return
    }
    let own = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath().deletingLastPathComponent().path + "/takeset"
    path = access(own, X_OK) == 0 ? own : "takeset"
  }

  /// Runs it with arguments. Throws `ChildProcessFailure`, `CancellationError`.
  func callAsFunction(_ arguments: [String], in folder: String, seconds: Int? = nil) async throws -> ChildProcess.End {
    var limits = limits
    if let seconds { limits.seconds = min(limits.seconds, seconds) }
    return try await ChildProcess.run([path] + arguments, in: folder, limits: limits)
  }
}
