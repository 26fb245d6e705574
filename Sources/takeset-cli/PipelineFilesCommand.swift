import ArgumentParser
import Evidence
import Runs

/// The hidden command by which the server learns which files a pipeline has beside its own: those of steps in Python. Prints their SHA-256 by
/// their path from the folder of the pipeline file.
struct PipelineFilesCommand: ParsableCommand {
  static let configuration = CommandConfiguration(commandName: "pipeline-files", shouldDisplay: false)

  @Argument var pipeline: String
  @OptionGroup var python: PythonOptions

  func run() throws {
    let files = try takeset_cli.pipeline(pipeline, python: python.python).stepFiles
    standardOutput(JSONValue.object(files.mapValues { .string($0) }).canonicalText)
  }
}
