import ArgumentParser
import Datasets
import Evidence
import Foundation
import Runs
import Steps

/// Options of commands that convert takes, for those that child processes convert.
struct IsolationOptions: ParsableArguments {
  @Option(
    help:
      "Convert takes from outside (bundles, archives, videos) in child processes that can reach nothing but the take: auto, always or never."
  )
  var isolate = IsolationPolicy.auto
  @Option(help: ArgumentHelp("Memory that such a process may use, such as 4G or 500M; 4G by default.", valueName: "size"))
  var takeMemory: MemorySize = MemorySize(bytes: IsolationLimits().memory)
  @Option(help: ArgumentHelp("Seconds that such a process may take.", valueName: "s"))
  var takeTime = IsolationLimits().seconds

  func validate() throws {
    if !(1...(7 * 86_400)).contains(takeTime) { throw ValidationError("--take-time: expected 1 to 604800 seconds, found \(takeTime)") }
    if !(256 << 20...1 << 50).contains(takeMemory.bytes) {
      throw ValidationError("--take-memory: expected 256M to 1024T, found \(takeMemory)")
    }
  }

  /// The limits of takes, and of steps in Python.
  var limits: IsolationLimits {
    var limits = IsolationLimits()
    (limits.memory, limits.seconds) = (takeMemory.bytes, takeTime)
    return limits
  }

  var isolation: Run.Isolation? {
    guard isolate != .never else { return nil }
    var isolation = Run.Isolation(command: ["/proc/self/exe", "convert-take"])
    isolation.policy = isolate
    isolation.limits = limits
    return isolation
  }
}

extension IsolationPolicy: ExpressibleByArgument {}

/// A size in bytes, written with K, M, G or T for powers of 1024.
struct MemorySize: ExpressibleByArgument, CustomStringConvertible {
  var bytes: Int64

  init(bytes: Int64) { self.bytes = bytes }

  init?(argument: String) {
    let shift = ["K": 10, "M": 20, "G": 30, "T": 40][argument.suffix(1).uppercased()]
    guard let number = Int64(shift == nil ? argument : String(argument.dropLast())), number > 0 else { return nil }
    let (bytes, overflow) = number.multipliedReportingOverflow(by: 1 << Int64(shift ?? 0))
    guard !overflow else { return nil }
    self.bytes = bytes
  }

  var description: String {
    for (unit, shift) in [("T", 40), ("G", 30), ("M", 20), ("K", 10)] where bytes % (1 << Int64(shift)) == 0 {
      return "\(bytes >> Int64(shift))\(unit)"
    }
    return "\(bytes)"
  }
}

/// The hidden command that `IsolatedConversion` starts.
struct ConvertTakeCommand: ParsableCommand {
  static let configuration = CommandConfiguration(commandName: "convert-take", shouldDisplay: false)

  func run() throws { ConversionChild.run() }
}

/// The options for searching inputs for takes.
struct InputOptions: ParsableArguments {
  @Flag(help: "Also search directories that are symbolic links; links among the files of a take are never followed.")
  var followLinks = false
}

/// `--python` of every command that loads a pipeline's steps in Python.
struct PythonOptions: ParsableArguments {
  @Option(
    help: ArgumentHelp(
      "The Python of a pipeline's own steps, in place of TAKESET_PYTHON or the python3 of PATH; none refuses such steps.", valueName: "path"
    ),
    completion: .file())
  var python: String?
}

/// `--labels` and `--task` of the commands that publish a dataset.
struct LabelOptions: ParsableArguments {
  @Option(
    help: ArgumentHelp("Labels of takes (CSV, YAML or JSON): task, success, tags, segments; see docs/labels.md.", valueName: "file"),
    completion: .file(extensions: ["csv", "yaml", "yml", "json"]))
  var labels: String?
  @Option(help: ArgumentHelp("The task of every episode, such as \"fold the towel\".", valueName: "text"))
  var task: String?

  var file: LabelFile? { get throws { try labels.map { try LabelFile($0) } } }

  var checkedTask: String? {
    get throws {
      guard let task else { return nil }
      do { return try LabelValue.checked("task", .string(task)).string } catch { throw UsageError("--task: \(error)") }
    }
  }
}

/// `--jobs` of every command that works in parallel.
struct JobOptions: ParsableArguments {
  @Option(help: ArgumentHelp("Threads to use; all cores by default.", valueName: "n"))
  var jobs: Int?

  var threads: Int { jobs ?? Cores.available }

  func validate() throws {
    if let jobs, !(1...1024).contains(jobs) { throw ValidationError("--jobs: expected 1 to 1024, found \(jobs)") }
  }
}
