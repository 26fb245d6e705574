import ArgumentParser
import CLinux
import CRevision
import Foundation
import Model
import Takeset

// Steps of a pipeline have options too.
typealias Option = ArgumentParser.Option
typealias OptionGroup = ArgumentParser.OptionGroup

@main
struct TakesetCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "takeset",
    abstract: "Turns raw phone captures into training data: takes in, dataset out.",
    discussion: """
      Start with a look at what is there, then convert it:

        takeset inspect sessions/
        takeset run sessions/ --output dataset/
        takeset verify dataset/

      The result opens with h5py as one file, dataset/dataset.h5; dataset/manifest.json says which input made which \
      episode, and what was odd about it. Nothing in the inputs is ever changed.

      Exit codes: 0 all done; 1 could not finish; 2 verify found a difference; 3 a take failed, the others are \
      written; 64 a mistake in the command or the pipeline file; 130, 143 interrupted.
      """,
    version: "takeset \(tool.version) (\(tool.revision))",
    subcommands: [
      RunCommand.self, InspectCommand.self, PlanCommand.self, VerifyCommand.self, StepsCommand.self,
      ExplainCommand.self, SimulateCommand.self, PackCommand.self, CheckForeignCommand.self, GenerateCommand.self,
    ])

  static let tool = ToolIdentity(version: "0.2.0", revision: String(cString: takeset_revision))

  static func main() {
    // Writing beyond a file-size limit or into a closed pipe is an error to report, not a reason to die.
    signal(SIGXFSZ, SIG_IGN)
    signal(SIGPIPE, SIG_IGN)
    // Takes come and go, and with them buffers of the same sizes. Given back to the system and asked for again, they cost a short
    // take some 5 % of its time in page faults.
    clinux_keep_buffers(4 << 20, 32 << 20)
    do {
      var command = try parseAsRoot()
      try command.run()
    } catch let error as ExitCode {
      exit(withError: error)
    } catch let error as PipelineFileError {
      finish("pipeline: \(error)", 64)
    } catch let error as UsageError {
      finish("\(error)", 64)
    } catch let error as NoInputs {
      finish("\(error)", 1)
    } catch let error as OutputFailure {
      finish("\(error)", 1)
    } catch {
      let code = exitCode(for: error)
      if code == .success || code == .validationFailure { exit(withError: error) }
      finish("\(error)", 1)
    }
  }

  private static func finish(_ message: String, _ code: Int32) -> Never {
    standardError("takeset: \(message)")
    Foundation.exit(code)
  }
}

func standardError(_ line: String) { FileHandle.standardError.write(Data((line + "\n").utf8)) }

func standardOutput(_ text: String) { FileHandle.standardOutput.write(Data((text + "\n").utf8)) }

/// The pipeline in a file, or the default one.
func pipeline(_ path: String?) throws -> Pipeline {
  guard let path else { return try PipelineFile.defaultPipeline() }
  guard let data = FileManager.default.contents(atPath: path) else {
    throw UsageError("the pipeline file \(path) cannot be read")
  }
  do {
    return try PipelineFile.parse(String(decoding: data, as: UTF8.self))
  } catch let error as PipelineFileError {
    throw UsageError("\(path): \(error)")
  }
}

/// The public keys in a file, if one is given.
func deviceKeys(_ path: String?) throws -> DeviceKeys? {
  guard let path else { return nil }
  guard let data = FileManager.default.contents(atPath: path) else { throw UsageError("the keys file \(path) cannot be read") }
  return try DeviceKeys(Array(data), name: path)
}
