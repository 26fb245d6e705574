import ArgumentParser
import Evidence
import Foundation
import Hosts
import Model
import Reports
import Runs
import Steps

struct TryCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "try", abstract: "Call a step in Python for some rows of a take, and show what it reads and gives.",
    discussion: """
      Prints the streams that the step reads, its results, and its time for a row; docs/steps.md is about such steps. Nothing is written but the \
      preview: frames, and beneath them what the step made of them.

        takeset try width.py takes/session_X
        takeset try width.py takes/session_X --rows 100:160 --preview width.png
        takeset try steps/width.py takes/session_X --pipeline pipeline.yaml

      With --pipeline, the step gets its options, and streams as the steps before it leave them; without, the streams of a take that is aligned, \
      and no options. It is called as a run calls it, from the first row on, whatever rows are shown. Exit code 3 when the step fails.
      """)

  @Argument(help: ArgumentHelp("The file with the step.", valueName: "step.py"), completion: .file(extensions: ["py"]))
  var step: String
  @Argument(help: "A take.", completion: .file())
  var take: String
  @Option(help: ArgumentHelp("The function or class, where the file has several.", valueName: "name"))
  var function: String?
  @Option(help: ArgumentHelp("Options of the step, such as '{\"tag-size\": 0.016}'.", valueName: "json"))
  var options: String?
  @Option(
    help: ArgumentHelp("The pipeline file (YAML) that names the step.", valueName: "file"),
    completion: .file(extensions: ["yaml", "yml", "json"]))
  var pipeline: String?
  @Option(help: ArgumentHelp("The rows to show, the second one excluded; those of the first block by default.", valueName: "A:B"))
  var rows: String?
  @Option(help: ArgumentHelp("Draw frames and results into this file.", valueName: "file.png"))
  var preview: String?
  @Option(help: ArgumentHelp("Public keys of devices, as for run.", valueName: "file"), completion: .file(extensions: ["json"]))
  var keys: String?
  @OptionGroup var python: PythonOptions
  @OptionGroup var console: OutputOptions

  func run() throws {
    var request = StepTrial.Request(step: step)
    (request.function, request.pipeline, request.python) = (function, pipeline, python.python)
    (request.options, request.rows, request.keys) = (try chosenOptions(), try chosenRows(), try deviceKeys(keys))
    if let preview { try OutputFile.check(preview, markedBy: ContactSheet.mark, "a picture by Takeset") }
    let trial: StepTrial
    do {
      trial = try StepTrial(request, take: take)
    } catch let error as PipelineFileError {
      throw UsageError("\(pipeline ?? step): \(error)")
    } catch let mistake as StepMistake {
      throw UsageError("\(step): \(mistake)")
    } catch let error where error is TakeFailure || error is Rejection || error is FileError {
      standardError("takeset: \(error)")
      throw ExitCode(3)
    }
    standardOutput(TrialText(trial: trial, style: console.style(for: STDOUT_FILENO)).text)
    if let preview { try write(trial.preview, to: preview) }
  }

  private func chosenOptions() throws -> [String: JSONValue]? {
    guard let options else { return nil }
    do {
      let document = try JSONReader(Array(options.utf8)).document()
      if let members = document.object { return members }
    } catch let error as JSONError {
      throw UsageError("--options: \(error)")
    }
    throw UsageError("--options: expected a JSON object, such as {\"tag-size\": 0.016}")
  }

  private func chosenRows() throws -> Range<Int>? {
    guard let rows else { return nil }
    let ends = rows.split(separator: ":", omittingEmptySubsequences: false)
    guard ends.count == 2, let first = Int(ends[0]), let end = Int(ends[1]), 0 <= first, first < end else {
      throw UsageError("--rows: expected A:B such as 100:160, found \(rows)")
    }
    return first..<end
  }

  private func write(_ sheet: ContactSheet, to path: String) throws {
    guard let png = try sheet.png() else {
      return standardError("there is nothing to draw: the take has no images, and the step gives no numbers")
    }
    guard FileManager.default.createFile(atPath: path, contents: Data(png)) else { throw OutputFailure("cannot write the preview \(path)") }
    if !console.quiet { standardError(([path] + sheet.legend).joined(separator: "\n  ")) }
  }
}

/// A trial as text.
private struct TrialText {
  let trial: StepTrial
  let style: Style

  var text: String { ([head] + reads + gives + [time] + said).joined(separator: "\n") }

  private func line(_ name: String, _ text: String) -> String { "\(style.dim(name.padded(to: 8))) \(text)" }

  private var head: String {
    "\(style.bold(trial.title)): rows \(trial.rows.lowerBound) to \(trial.rows.upperBound - 1) of \(trial.count) in \(trial.take.onOneLine)"
  }

  private var reads: [String] {
    trial.inputs.enumerated().map { index, input in
      let shape = input.shape.map(String.init).joined(separator: "x")
      return line(
        index == 0 ? "reads" : "",
        "\(input.name)  \(shape) \(input.type), \(input.unit); \(input.valid) of \(counted(trial.called, "row")) valid")
    }
  }

  private var gives: [String] {
    if let (isKept, reason) = trial.kept {
      let dropped = zip(trial.rows, isKept).filter { !$1 }.map(\.0)
      let list =
        dropped.isEmpty
        ? "" : "; drops as \(reason): \(dropped.prefix(12).map(String.init).joined(separator: ", "))\(dropped.count > 12 ? ", …" : "")"
      let isRejected = dropped.count == trial.count
      return [
        line(
          "keeps", "\(isKept.count - dropped.count) of \(counted(isKept.count, "row"))\(list)\(isRejected ? "; the take is rejected" : "")")
      ]
    }
    if let labels = trial.labels { return [line("labels", JSONValue.object(labels).canonicalText)] }
    guard let output = trial.output else { return [] }
    let shape = output.spec.shape.map(String.init).joined(separator: "x")
    let head = line(
      "gives",
      "\(output.name)  \(shape) \(output.spec.type.rawValue), \(output.spec.unit); \(output.valid) of \(counted(trial.rows.count, "row")) valid"
    )
    return [head]
      + trial.elements.prefix(20).map {
        line("", "  \($0.name)  \(Self.short($0.least)) to \(Self.short($0.most)), mean \(Self.short($0.mean))")
      } + (trial.elements.count > 20 ? [line("", "  and \(trial.elements.count - 20) more")] : [])
  }

  private static func short(_ value: Float) -> String { String(format: "%.6g", value) }

  private var time: String {
    func each(_ seconds: Double) -> String { String(format: "%.2f ms", seconds * 1000 / Double(max(trial.called, 1))) }
    return line(
      "time",
      "\(each(trial.secondsOfStep)) a row in the step, \(each(trial.secondsOfReading)) to read, over \(counted(trial.called, "row"))")
  }

  private var said: [String] {
    guard let said = trial.said else { return [] }
    let lines = said.hasSuffix("\n") ? String(said.dropLast()) : said
    return lines.split(separator: "\n", omittingEmptySubsequences: false).enumerated().map {
      line($0 == 0 ? "prints" : "", String($1).onOneLine)
    }
  }
}
