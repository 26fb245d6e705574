import ArgumentParser
import Datasets
import Evidence
import Foundation
import Model
import Reports
import Steps

struct TraceCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "trace", abstract: "Show which bytes of which file made a row, and make the row again.",
    discussion: """
      For each stream of the row: the source's sample, the file and the bytes that hold it, the steps with their options and \
      what they did, and whether the stored row and the file are still as recorded. Then the row is made again from the \
      source and compared with what is stored.

        takeset trace dataset/ --episode session_X --row 40
        takeset trace dataset/ --episode demo_000003 --row -1 --stream camera_image --open
        takeset trace dataset/ --episode session_X --row 40 --json | jq '.streams[].origins[]'

      Exit codes: 0 the row is proven; 2 the row or a file differs from the record, or the row comes out differently; 66 \
      files of the take are gone, and nothing else differs; 64 there is no such episode, row or stream, or no Python that \
      can call the pipeline's own steps. A file made by takeset pack is traced as far as it knows.
      """)

  @Argument(help: "A dataset directory, or a file made by takeset pack.", completion: .file())
  var dataset: String
  @Option(help: ArgumentHelp("The episode's id, or its name in the index, such as demo_000003.", valueName: "id"))
  var episode: String
  @Option(
    parsing: .unconditional, help: ArgumentHelp("The row, from 0; -1 is the last.", valueName: "number"))
  var row: Int
  @Option(help: ArgumentHelp("Only this stream, such as camera_image; all by default.", valueName: "name"))
  var stream: String?
  @Option(help: ArgumentHelp("The keys file of the run, where the pipeline checks signatures by it.", valueName: "file"))
  var keys: String?
  @OptionGroup var python: PythonOptions
  @Flag(help: "Print JSON.")
  var json = false
  @Flag(help: "Write a page with the source's images beside the stored ones to a temporary file, print its path, and open it.")
  var open = false
  @Option(
    name: .shortAndLong, help: ArgumentHelp("Write the page to this file, which must not exist.", valueName: "file.html"),
    completion: .file(extensions: ["html"]))
  var output: String?
  @Flag(help: "Overwrite the output.")
  var replace = false
  @Flag(help: .hidden)
  var inProcess = false
  @OptionGroup var console: OutputOptions

  func run() throws {
    guard let kind = try Directory.kind(at: dataset, followingLinks: true) else { throw NoInputs(path: dataset) }
    let isPacked = kind != .directory
    // A damaged file may crash libhdf5.
    if isPacked, !inProcess { return try TraceProcess.run(dataset) }
    if let output { try checkOutput(output) }
    let request = Trace.Request(episode: episode, row: row, stream: stream, keys: try deviceKeys(keys), python: python.python)
    let trace = try isPacked ? Trace(packed: dataset, request) : Trace(dataset: dataset, request, checks: CheckProcess.checks)
    if json {
      standardOutput(trace.json.canonicalText)
    } else {
      standardOutput(TraceText(trace: trace, style: console.style(for: STDOUT_FILENO), isQuiet: console.quiet).text)
    }
    if let path = try page(trace) {
      if json { standardError(path) } else { standardOutput("page        \(path)") }
      if open { Self.show(path) }
    }
    if trace.exitCode != 0 { throw ExitCode(trace.exitCode) }
  }

  private func checkOutput(_ path: String) throws {
    guard let kind = try Directory.kind(at: path, followingLinks: true) else { return }
    guard kind == .file, replace else {
      throw OutputExists(path, remedy: kind == .file ? "choose another name, or give --replace to overwrite it" : "and is not a file")
    }
    guard TracePage.isPage(path) else { throw UsageError("\(path) is not a page of takeset trace; choose another name") }
  }

  /// Writes the page, if one is wanted, and returns its path.
  private func page(_ trace: Trace) throws -> String? {
    guard open || output != nil else { return nil }
    let html = TracePage(trace: trace, tool: TakesetCommand.tool, checks: CheckProcess.checks).html()
    let path: String
    if let output {
      path = output
    } else {
      let directory = FileManager.default.temporaryDirectory.appendingPathComponent("takeset-trace-\(UUID().uuidString.lowercased())").path
      try FileManager.default.createDirectory(
        atPath: directory, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
      path = directory + "/row-\(trace.row).html"
    }
    do {
      try SealedFile.write(path) { write in try html.withUnsafeBytes(write) }
    } catch {
      throw OutputFailure("cannot write \(path): \(error)")
    }
    return path
  }

  /// Opens a page with the desktop's program for it, if there is one.
  private static func show(_ path: String) {
    let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
    guard let program = folders.map({ $0 + "/xdg-open" }).first(where: { FileManager.default.isExecutableFile(atPath: String($0)) }) else {
      return standardError("there is no xdg-open to open the page with; open it in a browser")
    }
    let process = Process()
    process.executableURL = URL(fileURLWithPath: String(program))
    process.arguments = [path]
    (process.standardInput, process.standardOutput, process.standardError) = (
      FileHandle.nullDevice, FileHandle.nullDevice, FileHandle.nullDevice
    )
    do { try process.run() } catch { standardError("\(program) cannot be started: \(error.localizedDescription)") }
  }
}

/// Runs the command in a process of its own.
private enum TraceProcess {
  static func run(_ path: String) throws {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/proc/self/exe")
    process.arguments = ["trace", "--in-process"] + CommandLine.arguments.dropFirst(2)
    process.environment = ProcessInfo.processInfo.environment.merging(["SWIFT_BACKTRACE": "enable=no"]) { $1 }
    try process.run()
    process.waitUntilExit()
    if process.terminationReason == .uncaughtSignal {
      standardError("takeset: \(path) is so damaged that libhdf5 crashes on it (signal \(process.terminationStatus))")
      throw ExitCode(2)
    }
    if process.terminationStatus != 0 { throw ExitCode(process.terminationStatus) }
  }
}

/// A trace as text for a terminal.
private struct TraceText {
  let trace: Trace
  let style: Style
  let isQuiet: Bool

  var text: String {
    let verdicts = [storedVerdict, inputsVerdict, reproduced]
    if isQuiet { return verdicts.joined(separator: "\n") }
    let steps = trace.steps.isEmpty ? [] : ["", style.bold("Steps")] + trace.steps.enumerated().flatMap(self.step)
    return (head + trace.streams.flatMap(stream) + steps + [""] + verdicts).joined(separator: "\n")
  }

  private func line(_ name: String, _ text: String, indent: Int = 0) -> String {
    String(repeating: " ", count: indent) + style.dim(name.padded(to: 11 - indent)) + " " + Self.unbroken(text)
  }

  /// A line that stays one, whatever names are in it.
  private static func unbroken(_ line: String) -> String { line.replacing("\n", with: Unicode.Scalar("\n").escaped) }

  // MARK: Head

  private var head: [String] {
    var lines = [style.bold("\(trace.episode.onOneLine), row \(trace.row) of \(trace.rows)")]
    let made = trace.tool.map { "made by takeset \($0)" }
    let record = trace.recordDigest.map { "record \($0)" }
    lines.append(
      line(
        "dataset",
        ([trace.dataset, trace.demo] + [trace.part.map { "split \($0)" }, made, record].compactMap(\.self)).joined(separator: ", ")))
    if let record = trace.record {
      let kind = [record.reader, record.variant].compactMap(\.self).joined(separator: " ")
      let part = record.id.part.map { ", episode \($0) of take \(record.id.take)" } ?? ""
      lines.append(line("source", "\(trace.location ?? "at a place that is not recorded") (\(kind))\(part)"))
    }
    if case let sources = (trace.sources?.array ?? []).filter({ $0["indirect"] != true }), !sources.isEmpty {
      let digests = sources.compactMap { $0["record_sha256"]?.string }
      lines.append(line("merged from", "\(counted(sources.count, "dataset")) with the records \(digests.joined(separator: ", "))"))
    }
    let seconds = String(format: "%.9f", Double(trace.time) / 1e9)
    let frame = trace.frame.map { trace.timeline == "resampled" ? "nearest to frame \($0)" : "frame \($0)" }
    lines.append(line("row", ([frame, "\(seconds) s after the first row on \(trace.clock)"].compactMap(\.self)).joined(separator: ", ")))
    return lines
  }

  // MARK: Streams

  private func stream(_ stream: TracedStream) -> [String] {
    var lines = ["", style.bold(stream.name.rawValue)]
    lines.append(line("sample", sample(stream), indent: 2))
    for origin in stream.origins {
      let whose = origin.stream == stream.name ? "" : "\(origin.stream) of row \(origin.row): "
      let weight = origin.weight == 1 ? "" : ", weight \(JSONValue.number(origin.weight).canonicalText)"
      lines.append(line("from", "\(whose)\(origin.words.onOneLine)\(weight)", indent: 2))
      if let text = origin.place.text { lines.append(line("", Self.shortened(text), indent: 2)) }
    }
    if let addition = stream.addition {
      lines.append(line("from", "\(addition.file.onOneLine), by takeset add, sha256 \(addition.digest)", indent: 2))
    }
    if !stream.candidates.isEmpty {
      lines.append(line("from", "by the name: \(stream.candidates.prefix(3).map(\.path).joined(separator: " or "))", indent: 2))
    }
    if let array = stream.array, stream.kind != "inertial" {
      let shape = stream.shape.isEmpty ? "" : " \(stream.shape.map(String.init).joined(separator: "x"))"
      let unit = stream.unit.map { ", \($0)" } ?? ""
      let digest = stream.digest.map { ", sha256 \($0)" } ?? ""
      lines.append(line("stored", "\(array)[\(trace.row)], \(stream.dtype ?? "")\(shape)\(unit)\(digest)", indent: 2))
    } else if let array = stream.array {
      lines.append(line("stored", "\(array), reading \(stream.sourceIndex ?? 0)", indent: 2))
    }
    if !stream.values.isEmpty {
      let numbers = stream.values.prefix(16).map { $0.isFinite ? String(format: "%.7g", $0) : "none" }
      lines.append(line("values", numbers.joined(separator: " ") + (stream.values.count > 16 ? " …" : ""), indent: 2))
    }
    if let problem = stream.problem { lines.append(line("stored", style.error(problem), indent: 2)) }
    if let reason = stream.unreadable { lines.append(line("source", style.warning("the sample cannot be read: \(reason)"), indent: 2)) }
    if let same = stream.isReproduced {
      lines.append(line("made again", same ? style.success("the same") : style.error("differs"), indent: 2))
    }
    return lines
  }

  private func sample(_ stream: TracedStream) -> String {
    if stream.addition != nil { return stream.isValid == false ? "none for the row" : "one value for the row" }
    if let rows = stream.inputRows {
      let words = rows.count == 1 ? "row \(rows.lowerBound)" : "rows \(rows.lowerBound) to \(rows.upperBound)"
      return
        "computed from \(stream.inputs.map(\.rawValue).joined(separator: " and ")) of \(words)\(stream.isValid == false ? "; not valid" : "")"
    }
    guard let number = stream.sourceIndex else { return stream.isValid.map { $0 ? "computed" : "not valid" } ?? "computed" }
    guard number >= 0 else { return "none: the row is masked" }
    let delay = stream.delay ?? 0
    let distance =
      delay == 0
      ? "at the row's time" : "\(JSONValue.number(abs(Double(delay)) / 1e6).canonicalText) ms \(delay > 0 ? "after" : "before") the row"
    if stream.kind == "inertial" { return "reading \(number) is the nearest in time, \(distance)" }
    let validity = stream.isValid == false ? ", not valid" : ""
    if let weight = stream.weight, let next = stream.nextIndex, next != number {
      return "between \(number) and \(next), weight of the latter \(JSONValue.number(weight).canonicalText)\(validity)"
    }
    return "\(number), \(distance)\(validity)"
  }

  /// Text in one line of moderate length.
  private static func shortened(_ text: String) -> String {
    let line = text.split(whereSeparator: \.isWhitespace).joined(separator: " ").onOneLine
    return line.count > 240 ? line.prefix(239) + "…" : line
  }

  // MARK: Steps

  private func step(_ index: Int, _ step: TracedStep) -> [String] {
    let counts = "\(step.record.framesIn) to \(step.record.framesOut) rows"
    let dropped = step.record.dropped.map { ", \($0.count) dropped (\($0.reason))" }.joined()
    let options = step.record.options.object?.isEmpty == true ? "" : " " + step.record.options.canonicalText
    let head =
      "  \(index + 1). \(step.record.name)\(style.dim(options)): \(index == 0 ? "\(step.record.framesOut) rows" : counts)\(dropped)"
    return ([head] + (step.effects ?? []).map { "     \($0.text)" }).map(Self.unbroken)
  }

  // MARK: Verdicts

  private var storedVerdict: String {
    guard trace.problems.isEmpty else { return trace.problems.map { line("stored", style.error($0)) }.joined(separator: "\n") }
    return line("stored", style.success("as recorded"))
  }

  private var inputsVerdict: String {
    var lines = trace.inputs.map { input -> String in
      let words =
        input.state == .unchanged
        ? style.success(input.words) : input.state == .changed ? style.error(input.words) : style.warning(input.words)
      return line("input", "\(input.record.path) (\(counted(Int(input.record.bytes), "byte")), sha256 \(input.record.digest)): \(words)")
    }
    lines += trace.otherProblems.prefix(3).map { line("input", style.warning($0)) }
    if trace.otherProblems.count > 3 { lines.append(line("input", style.warning("and \(trace.otherProblems.count - 3) more files"))) }
    if lines.isEmpty {
      lines = [line("input", trace.isPacked ? "the file has no record of its inputs" : "no file is known to hold the row")]
    }
    return lines.joined(separator: "\n")
  }

  private var reproduced: String {
    switch trace.isReproduced {
    case true?: return line("reproduced", style.success("yes"))
    case false?:
      let reason = trace.differenceWords ?? trace.unavailable ?? ""
      return line("reproduced", style.error("no") + (reason.isEmpty ? "" : ": \(reason)"))
    case nil: return line("reproduced", style.warning("not tried") + ": \(trace.unavailable ?? "the stored row cannot be read")")
    }
  }
}
