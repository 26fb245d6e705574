import ArgumentParser
import Datasets
import Evidence
import Foundation
import Model
import Reports
import Steps

struct InspectCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "inspect", abstract: "Report each take's format, streams, rates and problems, or the contents of a dataset.",
    discussion: """
      Reads every file and decodes every image at the lowest resolution; writes nothing. Exit code 3 when a take would fail.

        takeset inspect sessions/
        takeset inspect sessions/ --summary
        takeset inspect sessions/ --preview sheet.png
        takeset inspect sessions/ --json | jq '.takes[] | select(.findings != [])'
        takeset inspect dataset/
      """)

  @Argument(help: ArgumentHelp("Takes, directories to search for takes, or a dataset.", valueName: "path"), completion: .file())
  var paths: [String]
  @OptionGroup var search: InputOptions
  @Option(
    help: ArgumentHelp("Pipeline file (YAML) whose steps are applied first.", valueName: "file"),
    completion: .file(extensions: ["yaml", "yml", "json"]))
  var pipeline: String?
  @OptionGroup var python: PythonOptions
  @Option(help: ArgumentHelp("Public keys of devices, as for run.", valueName: "file"), completion: .file(extensions: ["json"]))
  var keys: String?
  @Flag(help: "Print one line per take, worst first.")
  var summary = false
  @Flag(help: "Print JSON.")
  var json = false
  @Option(
    help: ArgumentHelp(
      "Draw a contact sheet of the takes: images, depth, and images overlaid with depth edges.", valueName: "file.png"))
  var preview: String?
  @OptionGroup var console: OutputOptions

  func run() throws {
    try checkPreview()
    if paths.count == 1, DatasetFiles.isDataset(paths[0]) {
      try inspectDataset(paths[0])
      if let preview { try draw(Dataset(directory: paths[0], checks: CheckProcess.checks), to: preview) }
      return
    }
    var sheet = ContactSheet()
    let (inspections, ignored, notices) = try Inspection.all(
      inputs: paths, pipeline: takeset_cli.pipeline(pipeline, python: python.python), followsLinks: search.followLinks,
      context: RunContext(keys: deviceKeys(keys))
    ) {
      if preview != nil { sheet.add($0) }
    }
    notices.forEach { standardError($0) }
    if console.verbose { for place in ignored.places { standardError("  ignored \(place.kind.rawValue): \(place.path.onOneLine)") } }
    if json {
      let passedOver = ignored.places.map { JSONValue.object(["kind": .string($0.kind.rawValue), "path": .string($0.path)]) }
      standardOutput(JSONValue.object(["ignored": .array(passedOver), "takes": .array(inspections.map(\.json))]).canonicalText)
    } else if summary {
      standardOutput(
        summarize(
          inspections.map {
            Row(id: $0.id, reader: $0.reader, outcome: $0.outcome, reason: $0.reason, frames: $0.episode?.frames, findings: $0.findings)
          }))
    } else {
      let shown =
        console.quiet ? inspections.filter { $0.outcome != .written || $0.findings.contains { $0.severity != .info } } : inspections
      if !shown.isEmpty { standardOutput(shown.map(describe).joined(separator: "\n\n")) }
    }
    if let preview { try write(sheet, to: preview) }
    if inspections.contains(where: { $0.outcome == .failed }) { throw ExitCode(3) }
  }

  private func checkPreview() throws {
    guard let preview else { return }
    try OutputFile.check(preview, markedBy: ContactSheet.mark, "a contact sheet by Takeset")
  }

  private func write(_ sheet: ContactSheet, to preview: String) throws {
    guard let png = try sheet.png() else { return standardError("there is no image or depth map to preview") }
    guard FileManager.default.createFile(atPath: preview, contents: Data(png)) else {
      throw OutputFailure("cannot write the preview \(preview)")
    }
    if !console.quiet { standardError((["\(preview), from the top:"] + sheet.legend).joined(separator: "\n  ")) }
  }

  // MARK: Datasets

  private static let previewedEpisodes = 40

  /// Draws the first episodes of a dataset, as they are stored.
  private func draw(_ dataset: Dataset, to preview: String) throws {
    var sheet = ContactSheet()
    for take in dataset.written.prefix(Self.previewedEpisodes) { sheet.add(try dataset.episode(take)) }
    try write(sheet, to: preview)
    let left = dataset.written.count - Self.previewedEpisodes
    if left > 0 { standardError("the preview shows the first \(Self.previewedEpisodes) episodes; \(counted(left, "other")) are left out") }
  }

  private func inspectDataset(_ path: String) throws {
    let dataset = try Dataset(directory: path)
    var recall = Recall()
    func record(of entry: TakeEntry) throws -> TakeRecord {
      let take = try dataset.record(of: entry)
      recall.add(take)
      return take
    }
    if json {
      let takes = try dataset.takes.map { try record(of: $0).summaryJSON }
      return standardOutput(
        JSONValue.object([
          "dataset": .string(path), "findings": .array(dataset.record.findings.map(\.json)), "takes": .array(takes),
          "notes": .array(recall.sentences.map { .string($0) }),
        ]).canonicalText)
    }
    standardOutput(
      summarize(
        try dataset.takes.map {
          let take = try record(of: $0)
          return Row(
            id: take.id.text, reader: take.reader, outcome: take.outcome, reason: take.reason, frames: take.output?.samples,
            findings: take.findings)
        }))
    let style = console.style(for: STDOUT_FILENO)
    for finding in dataset.record.findings where !console.quiet || finding.severity != .info {
      standardOutput("\(style.warning(finding.severity.rawValue)): \(finding.code.rawValue): \(finding.message)")
    }
    for sentence in recall.sentences { standardOutput("\(style.warning("warning")): \(sentence)") }
    guard let first = dataset.written.first, let arrays = try dataset.record(of: first).output?.arrays, !console.quiet else { return }
    let folder = ShardNames.dataPath
    standardOutput("\n\(first.id) contains, below \(folder.dropLast()):")
    for array in arrays where array.path.hasPrefix(folder) {
      let shape = array.shape.map(String.init).joined(separator: "x")
      standardOutput("  \(array.path.dropFirst(folder.count).description.padded(to: 36)) \(array.dtype) \(shape)")
    }
  }

  // MARK: Summary

  private struct Row {
    var id: String
    var reader: String?
    var outcome: TakeRecord.Outcome
    var reason: String?
    var frames: Int?
    var findings: [Finding]

    /// Worst first.
    var rank: Int { outcome == .failed ? 0 : outcome == .rejected ? 1 : findings.warningWords.isEmpty ? 3 : 2 }
  }

  private func summarize(_ rows: [Row]) -> String {
    let style = console.style(for: STDOUT_FILENO)
    let sorted = rows.sorted { ($0.rank, $0.id) < ($1.rank, $1.id) }.filter { !console.quiet || $0.rank < 3 }
    let width = min(40, sorted.map(\.id.count).max() ?? 0)
    let lines = sorted.map { row in
      let words = row.reason ?? row.findings.warningWords
      let verdict =
        switch row.rank {
        case 0: style.error("failed  ")
        case 1: style.warning("rejected")
        case 2: style.warning("warning ")
        default: style.success("ok      ")
        }
      let frames = row.frames.map { counted($0, "frame") } ?? ""
      return "\(verdict)  \(row.id.padded(to: width))  \((row.reader ?? "").padded(to: 17))  \(frames.padded(to: 14))  \(words)"
        .trimmingSuffix()
    }
    let counts = ["failed", "rejected", "with warnings", "without problems"].enumerated().compactMap { rank, word in
      let count = rows.count { $0.rank == rank }
      return count > 0 ? "\(count) \(word)" : nil
    }
    return (lines + ["\(counted(rows.count, "take")): \(counts.joined(separator: ", "))"]).joined(separator: "\n")
  }

  private func describe(_ take: Inspection) -> String {
    var lines = [[console.style(for: STDOUT_FILENO).bold(take.id), take.reader, take.variant].compactMap(\.self).joined(separator: "  ")]
    if let reason = take.reason { lines.append("  would be \(take.outcome.rawValue): \(reason)") }
    if let episode = take.episode { lines += describe(episode, of: take).map { "  " + $0 } }
    if let verification = take.verification { lines.append("  \(verification.summary)") }
    let style = console.style(for: STDOUT_FILENO)
    for finding in take.findings {
      let severity =
        switch finding.severity {
        case .error: style.error(finding.severity.rawValue)
        case .warning: style.warning(finding.severity.rawValue)
        case .info: style.dim(finding.severity.rawValue)
        }
      let count = finding.count.map { " (\($0)x)" } ?? ""
      lines.append("  \(severity)\(count) \(finding.code.rawValue):\(finding.place) \(finding.message)")
    }
    return lines.joined(separator: "\n")
  }

  /// The lines of a take: how its format was detected, frames, streams, intrinsics, clocks and unit.
  private func describe(_ episode: EpisodeSummary, of take: Inspection) -> [String] {
    func line(_ name: String, _ text: String) -> String {
      name.padding(toLength: max(name.count, 13), withPad: " ", startingAt: 0) + " " + text
    }
    func rate(_ hertz: Double?) -> String? { hertz.map { String(format: "%.2f Hz", $0) } }
    var lines: [String] = []
    if let evidence = episode.details["evidence"]?.array?.compactMap(\.string), !evidence.isEmpty {
      lines.append(line("detected from", evidence.joined(separator: "; ")))
    }
    if let archive = episode.details["archive"], let format = archive["format"]?.string, let members = archive["members"]?.integer {
      lines.append(line("archive", "\(format), \(members) files"))
    }
    for topic in episode.details["topics"]?.array ?? [] {
      let parts = [
        topic["messages"]?.integer.map { "\($0) messages of \(topic["schema"]?.string ?? "")" }, rate(topic["rate_hz"]?.double),
        topic["kind"]?.string, topic["stream"]?.string.map { "read as \($0)" },
      ]
      lines.append(line("topic", "\(topic["topic"]?.string?.onOneLine ?? ""): \(parts.compactMap(\.self).joined(separator: ", "))"))
    }
    let dropped = episode.dropped.map { ", \($0.count) dropped (\($0.reason))" }.joined()
    let seconds = String(format: "%.2f s", episode.seconds ?? 0)
    let gaps = episode.gaps == 1 ? "1 gap" : "\(episode.gaps) gaps"
    lines.append(
      line(
        "frames", "\(episode.frames) of \(episode.sourceFrames)\(dropped); \(rate(episode.rateHz) ?? "one frame"), \(seconds), \(gaps)"))
    for stream in episode.streams {
      let shape = stream.shape.map(String.init).joined(separator: "x")
      let parts = [
        "\(stream.samples) samples of \(shape) \(stream.numpyName)", stream.unit,
        rate(stream.rateHz).map { "\($0) on \(stream.clock.rawValue)" },
        stream.coverage.map { String(format: "%.1f %% of frames", $0 * 100) },
      ]
      lines.append(line(stream.name.rawValue, parts.compactMap(\.self).joined(separator: ", ")))
    }
    if let stream = episode.streams.first(where: { $0.name == .image }) ?? episode.streams.first(where: { $0.size != nil }) {
      let camera = stream.intrinsics.map { camera in
        String(format: "fx %.2f, fy %.2f, cx %.2f, cy %.2f", camera.fx, camera.fy, camera.cx, camera.cy)
          + (stream.hasVaryingIntrinsics ? ", varying per frame" : "")
      }
      lines.append(line("intrinsics", camera ?? "none"))
    }
    for alignment in take.alignments where !alignment.method.hasPrefix("same-clock") {
      let offset = alignment.offset.map { String(format: "%+.4f s", Double($0) / 1e9) }
      let residual = alignment.residual.map { String(format: "±%.4f s", Double($0) / 1e9) }
      lines.append(
        line("clock", (["\(alignment.stream): \(alignment.method)", offset, residual].compactMap(\.self)).joined(separator: ", ")))
    }
    if let unit = episode.poseUnit {
      let factor = episode.details["scale_factor"]?.double.map { ", factor \($0)" } ?? ""
      lines.append(line("scale", unit + factor))
    }
    return lines
  }
}

extension TakeRecord {
  fileprivate var summaryJSON: JSONValue {
    [
      "id": .string(id.text), "reader": JSONValue(reader), "outcome": .string(outcome.rawValue), "reason": JSONValue(reason),
      "frames": output.map { JSONValue($0.samples) } ?? .null, "findings": .array(findings.map(\.json)),
    ]
  }
}

extension String {
  fileprivate func trimmingSuffix() -> String { String(reversed().drop { $0 == " " }.reversed()) }
}
