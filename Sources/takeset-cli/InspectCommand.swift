import ArgumentParser
import Foundation
import Model
import Takeset

struct InspectCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "inspect", abstract: "Say what is in each take and what is odd about it; the takes are only read.",
    discussion: """
      Reads every file, and decodes every picture, as small as can be. Exit code 3 when a take would fail.

        takeset inspect sessions/
        takeset inspect sessions/ --preview sheet.png
        takeset inspect sessions/ --json | jq '.takes[] | select(.findings != [])'
      """)

  @Argument(help: ArgumentHelp("Takes, or directories to search for takes.", valueName: "path"))
  var paths: [String]
  @Option(help: ArgumentHelp("Pipeline file (YAML), through whose steps takes are looked at.", valueName: "file"))
  var pipeline: String?
  @Option(help: ArgumentHelp("Public keys of devices, as for run.", valueName: "file"))
  var keys: String?
  @Flag(help: "Print JSON.")
  var json = false
  @Option(
    help: ArgumentHelp(
      "Draw a contact sheet of the takes: pictures, depth, and pictures with the depth's edges over them.", valueName: "file.png"))
  var preview: String?

  func run() throws {
    var sheet = Preview()
    let (inspections, notices) = try Inspection.all(
      inputs: paths, pipeline: takeset_cli.pipeline(pipeline), context: RunContext(keys: deviceKeys(keys))
    ) {
      if preview != nil { sheet.add($0) }
    }
    notices.forEach { standardError($0) }
    if json {
      standardOutput(JSONValue.object(["takes": .array(inspections.map(\.json))]).canonicalText)
    } else {
      standardOutput(inspections.map(describe).joined(separator: "\n\n"))
    }
    if let preview {
      if let png = try sheet.png() {
        guard FileManager.default.createFile(atPath: preview, contents: Data(png)) else {
          throw OutputFailure("cannot write the preview \(preview)")
        }
      } else {
        standardError("there is no picture or depth map to preview")
      }
    }
    if inspections.contains(where: { $0.outcome == .failed }) { throw ExitCode(3) }
  }

  private func describe(_ take: Inspection) -> String {
    var lines = [[take.id, take.reader, take.variant].compactMap(\.self).joined(separator: "  ")]
    if let reason = take.reason { lines.append("  would be \(take.outcome.rawValue): \(reason)") }
    if let episode = take.episode { lines += describe(episode, of: take).map { "  " + $0 } }
    if let verification = take.verification { lines.append("  \(verification.summary)") }
    for finding in take.findings {
      let place = finding.file.map { " \($0)\(finding.field ?? ""):" } ?? ""
      let count = finding.count.map { " (\($0)x)" } ?? ""
      lines.append("  \(finding.severity.rawValue)\(count) \(finding.code.rawValue):\(place) \(finding.message)")
    }
    return lines.joined(separator: "\n")
  }

  /// What there is, a line each: frames, streams, intrinsics, clocks, unit, and how the format was detected.
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
          + (stream.hasMovingLens ? ", and others for each frame" : "")
      }
      lines.append(line("intrinsics", camera ?? "none"))
    }
    for alignment in take.alignments where !alignment.method.hasPrefix("same-clock") {
      let offset = alignment.offset.map { String(format: "%+.4f s", Double($0) / 1e9) }
      let residual = alignment.residual.map { String(format: "within %.4f s", Double($0) / 1e9) }
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
