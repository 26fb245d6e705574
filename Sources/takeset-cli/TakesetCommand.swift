import ArgumentParser
import CLinux
import CRevision
import Datasets
import Foundation
import Hosts
import Model
import Runs
import Steps

@main
struct TakesetCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "takeset",
    abstract: "Convert raw phone captures into HDF5 training data.",
    discussion: """
      Inspect the takes first, then convert them:

        takeset inspect sessions/
        takeset run sessions/ --output dataset/
        takeset verify dataset/

      h5py opens the result as one file, dataset/dataset.h5. dataset/manifest.json records the source of every episode \
      and its problems. Inputs are never modified.

      Exit codes: 0 finished; 1 could not finish, or an input does not exist; 2 verify found a difference; 3 a take \
      failed (with --fail-on warning: or has a warning) and the others are written; 64 a mistake in the command or the \
      pipeline file; 130, 143 interrupted.
      """,
    version: "takeset \(tool.version) (\(tool.revision))",
    // Hidden ones.
    subcommands: [
      CheckExternalCommand.self, PackCopyCommand.self, ConvertTakeCommand.self, GenerateCommand.self, PipelineFilesCommand.self,
    ],
    groupedSubcommands: [
      CommandGroup(
        name: "Everyday",
        subcommands: [
          RunCommand.self, InspectCommand.self, VerifyCommand.self, ReportCommand.self, ExportCommand.self, ViewCommand.self,
          SelectCommand.self,
          MergeCommand.self, AddCommand.self, LabelCommand.self, MeasuresCommand.self, PackCommand.self, TraceCommand.self,
          PlanCommand.self, InitCommand.self,
          StepsCommand.self,
          TryCommand.self,
          ExplainCommand.self, SimulateCommand.self,
        ]),
      CommandGroup(
        name: "Operation",
        subcommands: [
          ConvertCommand.self, StatusCommand.self, PublishCommand.self, DescribeCommand.self, SignCommand.self, PreviewCommand.self,
          ServeCommand.self, UploadCommand.self, RecoverCommand.self,
        ]),
    ])

  static let tool = ToolIdentity(version: "0.3.0", revision: String(cString: takeset_revision))

  static func main() {
    // Writing beyond a file-size limit or into a closed pipe is an error to report, not a reason to exit.
    signal(SIGXFSZ, SIG_IGN)
    signal(SIGPIPE, SIG_IGN)
    // Who starts this program may ignore the end of children, and programs inherit that: then nobody could ask how they ended.
    signal(SIGCHLD, SIG_DFL)
    // Successive takes need buffers of the same sizes. Returning them to the system and requesting them again costs a short take some
    // 5 % of its time in page faults.
    clinux_keep_buffers(4 << 20, 32 << 20)
    let arguments = Array(CommandLine.arguments.dropFirst())
    if arguments.isEmpty { return standardOutput(overview) }
    if arguments.contains("--version"), arguments.contains("--verbose") || arguments.contains("-v") { return standardOutput(details) }
    if let mistake = CommandLineMistake.command(arguments) { finish(mistake, 64) }
    do {
      var command = try parseAsRoot()
      try command.run()
    } catch let error as ExitCode {
      exit(withError: error)
    } catch let error as any ExitCoded {
      finish("\(error is PipelineFileError ? "pipeline: " : "")\(error)", error.exitCode)
    } catch {
      switch exitCode(for: error) {
      case .success: exit(withError: error)
      case .validationFailure:
        let words = fullMessage(for: error)
        let message = words.hasPrefix("Error: ") ? String(words.dropFirst("Error: ".count)) : words
        // The parser may have a suggestion of its own, in its first line.
        let rest = message.contains("Did you mean") ? message.drop { $0 != "\n" }.dropFirst() : message[...]
        finish(CommandLineMistake.option(arguments).map { "\($0)\n\(rest)" } ?? message, 64)
      default: finish("\(error)", 1)
      }
    }
  }

  private static let overview = """
    Takeset converts raw phone captures into HDF5 training data.

      takeset inspect sessions/                  report each take's streams, rates and problems
      takeset run sessions/ --output dataset/    convert; run it again to add takes or to resume
      takeset verify dataset/                    compare a dataset with its digests
      takeset init --for USE                     print a pipeline file for act, diffusion-policy, robomimic, nerf or lerobot
      takeset steps                              list readers, transforms and writers with their options
      takeset explain CODE                       explain a finding and what to do about it

    takeset --help lists all commands; takeset COMMAND --help shows the options of one.
    """

  /// The details that a bug report should include.
  private static var details: String {
    var machine = utsname()
    uname(&machine)
    func text<Field>(_ field: Field) -> String { withUnsafeBytes(of: field) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) } }
    let libraries = (ToolIdentity.libraries.object ?? [:]).sorted { $0.key < $1.key }.map {
      "\($0.key) \($0.value.string ?? $0.value.canonicalText)"
    }
    return """
      takeset \(tool.version) (\(tool.revision))
      libraries: \(libraries.joined(separator: ", "))
      machine:   \(text(machine.sysname)) \(text(machine.release)) \(text(machine.machine)), \(counted(Cores.available, "core"))
      """
  }

  private static func finish(_ message: String, _ code: Int32) -> Never {
    if RunLog.isJSON(CommandLine.arguments) {
      // How the command is used is not a line of a log.
      RunLog.fail(message.components(separatedBy: "\nUsage: ")[0])
    } else {
      standardError("takeset: \(message)")
    }
    Foundation.exit(code)
  }
}

/// The pipeline in a file, or the default one. Its steps in Python are loaded.
///
/// - Parameter python: The interpreter of these, if one is named.
func pipeline(_ path: String?, python: String? = nil, limits: IsolationLimits = IsolationLimits()) throws -> Pipeline {
  guard let path else { return try PipelineFile.defaultPipeline() }
  guard let data = FileManager.default.contents(atPath: path) else {
    throw UsageError("the pipeline file \(path) cannot be read")
  }
  do {
    let folder = URL(fileURLWithPath: path).deletingLastPathComponent().path
    return try ProgramLoader(folder: folder, interpreter: python, limits: limits).load(
      PipelineFile.parse(String(decoding: data, as: UTF8.self)))
  } catch let error as PipelineFileError {
    throw UsageError("\(path): \(error)")
  } catch let mistake as StepMistake {
    throw UsageError("\(path): \(mistake)")
  }
}

/// The public keys in a file, if one is given.
func deviceKeys(_ path: String?) throws -> DeviceKeys? {
  guard let path else { return nil }
  guard let data = FileManager.default.contents(atPath: path) else { throw UsageError("the keys file \(path) cannot be read") }
  return try DeviceKeys(Array(data), name: path)
}

/// The split in a file, if one is given.
func explicitSplit(_ path: String?) throws -> SplitFile? {
  guard let path else { return nil }
  guard let data = FileManager.default.contents(atPath: path) else { throw UsageError("the split file \(path) cannot be read") }
  return try SplitFile(Array(data), name: path)
}

/// Throws `NoInputs` where there is nothing, `UsageError` for a file.
func checkIsFolder(_ directory: String) throws {
  guard let kind = try Directory.kind(at: directory, followingLinks: true) else { throw NoInputs(path: directory) }
  guard kind == .directory else { throw UsageError("\(directory) is a file; name the folder of the dataset, which has manifest.json") }
}

/// The dataset in a directory. Throws `NoInputs` where there is nothing.
func dataset(at directory: String) throws -> Dataset {
  try checkIsFolder(directory)
  return try Dataset(directory: directory, checks: CheckProcess.checks)
}
