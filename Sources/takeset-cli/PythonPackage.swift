import ArgumentParser
import Foundation
import Steps

/// The parts of takeset that are Python: `takeset view` becomes `python3 -m takeset.rerun`.
enum PythonPackage {
  /// Replaces this process by a module of the Python package. Returns only where that is not possible.
  ///
  /// - Parameters:
  ///   - extra: The extra of the package that installs what the module imports.
  ///   - command: The command that needs it, for the message.
  /// - Throws: `OutputFailure` where no Python here has the package.
  static func become(_ module: String, extra: String, for command: String, arguments: [String]) throws -> Never {
    let environment = ProcessInfo.processInfo.environment
    let places = pythons(environment)
    guard let python = places.first(where: { hasPackage($0) }) else {
      let found = places.isEmpty ? "there is no python3" : "it is not in \(places.joined(separator: ", "))"
      throw OutputFailure(
        """
        \(command) needs the Python package: \(found). pip install 'takeset[\(extra)]' installs it; activate its environment, or name its \
        python by TAKESET_PYTHON
        """)
    }
    signal(SIGPIPE, SIG_DFL)
    signal(SIGXFSZ, SIG_DFL)
    let start = """
      \(withoutWorkingDirectory)
      try:
          from \(module) import main
      except ImportError as error:
          sys.exit(f"takeset: \(command): {error}; pip install 'takeset[\(extra)]' installs what it needs")
      sys.exit(main())
      """
    var words = ([python, "-c", start] + arguments).map { strdup($0) }
    words.append(nil)
    execv(python, &words)
    throw OutputFailure("cannot run \(python): \(String(cString: strerror(errno)))")
  }

  /// Returns the interpreters that may have the package: `$TAKESET_PYTHON` alone or, in this order, that of the environment that is active,
  /// of the one that this command is installed in, and of PATH.
  private static func pythons(_ environment: [String: String]) -> [String] {
    if let set = environment["TAKESET_PYTHON"], !set.isEmpty { return [set] }
    var folders: [String] = []
    if let active = environment["VIRTUAL_ENV"], !active.isEmpty { folders.append(active + "/bin") }
    if let own = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe") {
      folders.append(URL(fileURLWithPath: own).deletingLastPathComponent().path)
    }
    folders += (environment["PATH"] ?? "").split(separator: ":").map(String.init)
    var known: Set<String> = []
    return folders.map { $0 + "/python3" }.filter { access($0, X_OK) == 0 && known.insert($0).inserted }
  }

  /// The first statements of a program: the folder in which the command is run may be a stranger's, and nothing is imported from there. `sys` is
  /// built in.
  private static let withoutWorkingDirectory = """
    import sys
    sys.path[:] = [place for place in sys.path if place]
    """

  private static func hasPackage(_ python: String) -> Bool {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: python)
    // A folder of this name without a module in it is found, too, but has no origin.
    let test = """
      \(withoutWorkingDirectory)
      import importlib.util
      found = importlib.util.find_spec('takeset')
      sys.exit(found is None or found.origin is None)
      """
    process.arguments = ["-c", test]
    (process.standardInput, process.standardOutput, process.standardError) = (
      FileHandle.nullDevice, FileHandle.nullDevice, FileHandle.nullDevice
    )
    guard (try? process.run()) != nil else { return false }
    process.waitUntilExit()
    return process.terminationStatus == 0
  }
}

struct ViewCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "view", abstract: "Show episodes in the Rerun viewer, or save them as .rrd files.",
    usage: "takeset view <dir> [--episode <id> ...] [--all] [--save <path>] [--connect <url>] [--every <n>] [--replace]",
    discussion: """
        takeset view dataset/
        takeset view dataset/ --episode take-1 --save take-1.rrd

      Images, depth maps, the camera with its trajectory, joints, actions, masks and findings, each at its own time. The work is done by \
      the Python package: pip install 'takeset[rerun]'. takeset view --help-python lists its options.
      """)

  @Argument(parsing: .allUnrecognized, help: ArgumentHelp("A dataset, and options of the viewer.", valueName: "dir"))
  var arguments: [String] = []
  @Flag(help: "Print the options of the Python package.")
  var helpPython = false

  func run() throws {
    guard helpPython || !arguments.isEmpty else { throw UsageError("name a dataset: takeset view dataset/") }
    try PythonPackage.become(
      "takeset.rerun", extra: "rerun", for: "takeset view", arguments: helpPython ? ["--help"] : arguments)
  }
}
