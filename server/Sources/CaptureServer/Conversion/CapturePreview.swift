import Foundation
import Logging

/// The small images of a capture that pages show, taken from the converter's report about its dataset.
enum CapturePreview {
  /// What we read of the report: its first take's strips, of one image each.
  private struct Strips: Decodable {
    struct Strip: Decodable {
      var depth: Bool
      var jpeg: String
    }
    var strips: [Strip]?
  }

  private static let seconds = 120
  private static let opening = #"<script type="application/json" id="take-0">"#

  /// Writes `thumbnail.jpg` and, where there is depth, `overlay.jpg`. A capture without them is complete too, so problems are only logged.
  static func make(of dataset: String, in folder: String, _ takeset: TakesetCommand, _ logger: Logger) async {
    let page = folder + "/report.html"
    defer { unlink(page) }
    do {
      let end = try await takeset(
        ["report", dataset, "--output", page, "--thumbnails", "1", "--jobs", "1", "--quiet"], in: folder, seconds: seconds)
      guard end.code == 0, let text = try? String(contentsOfFile: page, encoding: .utf8), let start = text.range(of: opening),
        let stop = text.range(of: "</script>", range: start.upperBound..<text.endIndex)
      else { return logger.warning("no preview: \(end.output)") }
      let take = try JSONDecoder().decode(Strips.self, from: Data(text[start.upperBound..<stop.lowerBound].utf8))
      for strip in take.strips ?? [] {
        guard let bytes = Data(base64Encoded: strip.jpeg) else { continue }
        try bytes.write(to: URL(fileURLWithPath: folder + (strip.depth ? "/overlay.jpg" : "/thumbnail.jpg")))
      }
    } catch {
      logger.warning("no preview: \(error)")
    }
  }
}
