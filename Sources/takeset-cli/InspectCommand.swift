import ArgumentParser
import Foundation
import Takeset

struct InspectCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "inspect", abstract: "Say what is in each take and what is odd about it; the takes are only read.",
    discussion: """
      Looks at names, sizes, headers and JSON files, and decodes movies, but not every JPEG. Exit code 3 when a take would fail.

        takeset inspect sessions/
        takeset inspect sessions/ --preview sheet.png
        takeset inspect sessions/ --json | jq '.takes[] | select(.findings != [])'
      """)

  @Argument(help: ArgumentHelp("Takes, or directories to search for takes.", valueName: "path"))
  var paths: [String]
  @Flag(help: "Print JSON.")
  var json = false
  @Option(
    help: ArgumentHelp(
      "Draw a contact sheet of the takes: pictures, depth, and pictures with the depth's edges over them.", valueName: "file.png"))
  var preview: String?

  func run() throws {
    var sheet = Preview()
    let (inspections, notices) = try Inspection.all(inputs: paths, readers: PipelineFile.defaultPipeline().candidates) {
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
    if let episode = take.episode {
      let rate = episode.frames.cadence.rateHz.map { String(format: "%.2f Hz", $0) } ?? "one frame"
      let left = episode.dropped.map { ", \($0.count) left out (\($0.reason))" }.joined()
      lines.append(
        "  frames        \(episode.frames.count) of \(episode.sourceFrames)\(left); \(rate), \(String(format: "%.2f s", episode.seconds ?? 0)), \(episode.gapCount) gaps"
      )
      for (name, stream) in episode.streams.sorted(by: { $0.key < $1.key }) {
        let shape = stream.spec.shape.map(String.init).joined(separator: "x")
        let rate = Cadence(stream.timestamps, nominalRate: stream.nominalRate).rateHz.map { String(format: "%.2f Hz", $0) } ?? ""
        lines.append(
          "  \(name.padding(toLength: 13, withPad: " ", startingAt: 0)) \(stream.timestamps.count) samples of \(shape) \(stream.spec.type.numpyName), \(stream.spec.unit), \(rate) on \(stream.spec.clock.rawValue)"
        )
      }
    }
    if let verification = take.verification { lines.append("  \(verification.summary)") }
    for finding in take.findings {
      let place = finding.file.map { " \($0)\(finding.field ?? ""):" } ?? ""
      let count = finding.count.map { " (\($0)x)" } ?? ""
      lines.append("  \(finding.severity.rawValue)\(count) \(finding.code):\(place) \(finding.message)")
    }
    return lines.joined(separator: "\n")
  }
}
