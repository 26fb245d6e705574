package import Datasets
import Evidence
import Foundation
import Model
import Steps

/// A trace as one HTML page, without links to other files and without a script: the source's images beside the stored ones, the places of
/// the bytes, and the steps.
package struct TracePage {
  private let trace: Trace
  private let tool: ToolIdentity
  private let lag: (caption: String, drawing: Drawing)?

  /// The name by which a page is recognized as one that this program wrote.
  private static let generator = "takeset trace"

  /// - Parameter checks: The check of a shard that another program has written to, before its images are read for their lag.
  package init(trace: Trace, tool: ToolIdentity, checks: Verification.ExternalChecks = .none) {
    (self.trace, self.tool) = (trace, tool)
    // A shard that cannot be read has been named as a problem of the trace.
    let episode = try? trace.record.flatMap { record in
      record.measures.map { $0[.imagePoseLag] != nil } ?? true ? try Dataset.episode(record, in: trace.dataset, checks) : nil
    }
    lag = (try? episode.flatMap { try MeasuredMotion($0)?.readLag() }).map { LagDrawing.drawing($0) }
  }

  /// Whether a file is such a page.
  package static func isPage(_ path: String) -> Bool {
    guard let start = try? InputFile.start(of: path, count: 2048) else { return false }
    return String(decoding: start, as: UTF8.self).contains("name=\"generator\" content=\"\(generator) ")
  }

  /// Returns the complete page, in UTF-8. It fetches nothing and runs no script.
  package func html() -> [UInt8] {
    let style = PageFiles.style + Self.style
    let digest = Data(Digest.of(style.utf8).bytes).base64EncodedString()
    // Only this style sheet and the pictures in the page apply; nothing is fetched, and no script runs.
    let page: Markup = """
      <!DOCTYPE html>
      <html lang="en">
      <head>
      <meta charset="utf-8">
      <meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'sha256-\(digest)'; base-uri 'none'; form-action 'none'">
      <meta name="viewport" content="width=device-width, initial-scale=1">
      <meta name="color-scheme" content="light dark">
      <meta name="referrer" content="no-referrer">
      <meta name="generator" content="\(Self.generator) \(tool.version)">
      <title>\(trace.episode), row \(trace.row)</title>
      <style>\(Markup(verbatim: style))</style>
      </head>
      <body>
      <header>
      <h1>\(trace.episode), row \(trace.row) of \(trace.rows)</h1>
      <p class="lead">\(trace.dataset), \(trace.demo)</p>
      \(verdicts)
      </header>
      <main>
      \(trace.streams.map(section).joined())
      \(motion)
      \(steps)
      \(inputs)
      </main>
      <footer><p>Made by \(Self.generator) \(tool.version). Offsets count bytes from 0; the last one is not part of the range. Depth is cyan at 0.5 m and nearer, magenta at 5 m and farther, orange where there is none.</p></footer>
      </body>
      </html>

      """
    return Array(page.text.utf8)
  }

  private static let style = #"""
    .pictures { display: flex; flex-wrap: wrap; gap: 16px; margin: 4px 0 12px; }
    figure { margin: 0; max-width: 100%; }
    figure img { display: block; max-width: min(560px, 100%); height: auto; border: 1px solid var(--line); background: var(--inset); }
    figure img.depth { width: 480px; image-rendering: pixelated; }
    figcaption { margin-top: 4px; color: var(--soft); font-size: 12px; }
    pre { margin: 4px 0 0; padding: 6px 8px; background: var(--inset); overflow-x: auto; white-space: pre-wrap; overflow-wrap: anywhere; font-size: 12px; }
    ol { margin: 0; padding-left: 22px; } ol > li { margin-bottom: 8px; }
    ul { margin: 2px 0 0; padding-left: 18px; }
    .good { color: var(--ok); } .doubtful { color: var(--warning); } .wrong { color: var(--bad); }
    """#

  // MARK: Parts

  private func fact(_ name: String, _ value: Markup) -> Markup { "<dt>\(name)</dt><dd>\(value)</dd>" }

  private func judged(_ style: String, _ text: String) -> Markup { "<span class=\"\(style)\">\(text)</span>" }

  private var verdicts: Markup {
    var facts: [Markup] = []
    facts.append(
      fact("Stored", trace.problems.isEmpty ? judged("good", "as recorded") : judged("wrong", trace.problems.joined(separator: "; "))))
    switch trace.isReproduced {
    case true?: facts.append(fact("Made again", judged("good", "the same bytes")))
    case false?: facts.append(fact("Made again", judged("wrong", trace.differenceWords ?? trace.unavailable ?? "differs")))
    case nil: facts.append(fact("Made again", judged("doubtful", "not tried: \(trace.unavailable ?? "the stored row cannot be read")")))
    }
    if let location = trace.location { facts.append(fact("Take", "<span class=\"digest\">\(location)</span>")) }
    if let record = trace.record {
      facts.append(fact("Reader", "\([record.reader, record.variant].compactMap(\.self).joined(separator: ", "))"))
    }
    if let split = trace.part { facts.append(fact("Split", "\(split)")) }
    let seconds = String(format: "%.9f", Double(trace.time) / 1e9)
    let frame = trace.frame.map { (trace.timeline == "resampled" ? "nearest to frame \($0), " : "frame \($0), ") } ?? ""
    facts.append(fact("Row", "\(frame)\(seconds) s after the first row, on \(trace.clock)"))
    if let tool = trace.tool { facts.append(fact("Made by", "takeset \(tool)")) }
    if let digest = trace.recordDigest { facts.append(fact("Record", "<span class=\"digest\">\(digest)</span>")) }
    return "<section><dl class=\"facts\">\(facts.joined())</dl></section>"
  }

  private func section(_ stream: TracedStream) -> Markup {
    let figures = TracePicture.all(of: stream, in: trace).map { picture -> Markup in
      let original = picture.isOriginal ? ", the file itself" : ""
      let style: Markup = picture.isDepth ? " class=\"depth\"" : ""
      return """
        <figure><img\(style) src="\(Markup(verbatim: picture.dataURL))" width="\(picture.size.width)" height="\(picture.size.height)" alt="\(stream.name.rawValue), \(picture.title)">\
        <figcaption>\(picture.title): \(picture.size.description)\(original)</figcaption></figure>
        """
    }
    var facts = stream.origins.map { origin -> Markup in
      let whose = origin.stream == stream.name ? "" : "\(origin.stream) of row \(origin.row): "
      let weight = origin.weight == 1 ? "" : ", weight \(JSONValue.number(origin.weight).canonicalText)"
      let text: Markup = origin.place.text.map { "<pre>\($0)</pre>" } ?? ""
      return fact("From", "\(whose)\(origin.words)\(weight)\(text)")
    }
    if let number = stream.sourceIndex {
      let next =
        stream.nextIndex.flatMap {
          $0 == number ? nil : " and \($0), weight of the latter \(JSONValue.number(stream.weight ?? 0).canonicalText)"
        } ?? ""
      let delay = "\(stream.delay ?? 0) ns from the row's time"
      facts.append(fact("Sample", "\(number < 0 ? "none" : "\(number)\(next), \(delay)")\(stream.isValid == false ? ", not valid" : "")"))
    }
    if let rows = stream.inputRows {
      let from = stream.inputs.map(\.rawValue).joined(separator: ", ")
      facts.append(fact("Computed", "from \(from) of rows \(rows.lowerBound) to \(rows.upperBound)"))
    }
    if let array = stream.array {
      let shape = stream.shape.map(String.init).joined(separator: "x")
      facts.append(fact("Stored", "\(array) \(stream.dtype ?? "") \(shape) \(stream.unit ?? "")"))
    }
    if !stream.values.isEmpty {
      let numbers = stream.values.prefix(64).map { $0.isFinite ? String(format: "%.9g", $0) : "none" }.joined(separator: " ")
      facts.append(fact("Values", "<code>\(numbers)\(stream.values.count > 64 ? " …" : "")</code>"))
    }
    if let digest = stream.digest { facts.append(fact("SHA-256", "<span class=\"digest\">\(digest.description)</span>")) }
    if let problem = stream.problem { facts.append(fact("Problem", judged("wrong", problem))) }
    if let reason = stream.unreadable { facts.append(fact("Source", judged("doubtful", "the sample cannot be read: \(reason)"))) }
    if let same = stream.isReproduced {
      facts.append(fact("Made again", same ? judged("good", "the same bytes") : judged("wrong", "differs")))
    }
    return """
      <section><h2>\(stream.name.rawValue)</h2><div class="pictures">\(figures.joined())</div>\
      <dl class="facts">\(facts.joined())</dl></section>
      """
  }

  private var motion: Markup {
    guard let lag else { return "" }
    return "<section><h2>Images against poses</h2><p class=\"note\">\(lag.caption).</p>\(lag.drawing.markup)</section>"
  }

  private var steps: Markup {
    guard !trace.steps.isEmpty else { return "" }
    let items = trace.steps.map { step -> Markup in
      let dropped = step.record.dropped.map { ", \($0.count) dropped (\($0.reason))" }.joined()
      let effects = (step.effects ?? []).map { effect -> Markup in "<li>\(effect.text)</li>" }
      return """
        <li>\(step.record.name) <code>\(step.record.options.canonicalText)</code>, \(step.record.framesIn) to \(step.record.framesOut) rows\(dropped)\
        \(effects.isEmpty ? "" : "<ul>\(effects.joined())</ul>")</li>
        """
    }
    return "<section><h2>Steps</h2><ol>\(items.joined())</ol></section>"
  }

  private var inputs: Markup {
    var rows = trace.inputs.map { input -> Markup in
      let style = input.state == .unchanged ? "good" : input.state == .changed ? "wrong" : "doubtful"
      return """
        <tr><th scope="row">\(input.record.path)</th><td class="number">\(Int(clamping: input.record.bytes))</td>\
        <td class="digest">\(input.record.digest.description)</td><td class="\(style)">\(input.words)</td></tr>
        """
    }
    rows += trace.otherProblems.map { "<tr><td colspan=\"4\" class=\"doubtful\">\($0)</td></tr>" }
    guard !rows.isEmpty else { return "" }
    return """
      <section><h2>Files of the take</h2><div class="scroll" tabindex="0" role="group" aria-label="Files of the take"><table>\
      <thead><tr><th scope="col">File</th><th scope="col" class="number">Bytes</th><th scope="col">Recorded SHA-256</th><th scope="col">Now</th></tr></thead>\
      <tbody>\(rows.joined())</tbody></table></div></section>
      """
  }
}
