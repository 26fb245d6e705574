import Foundation
import Model

/// A histogram of the episodes for each measure. A bar is a link to its episodes in the table of takes.
struct MeasureHistograms {
  private let all: [(name: String, bins: HistogramDrawing.Bins)]
  private static let (width, height, base) = (250.0, 78.0, 62.0)

  /// Measures that all episodes agree on, or none has, are left out.
  init(_ summaries: [TakeSummary]) {
    let measures = summaries.compactMap(\.take.measures)
    all = Measures.Name.allCases.compactMap { name in
      HistogramDrawing.Bins(measures.compactMap { $0[name] }).flatMap { $0.counts.count > 1 ? (name.rawValue, $0) : nil }
    }
  }

  var markup: Markup {
    if all.isEmpty { return "" }
    let figures = all.map { name, bins -> Markup in
      "<figure><figcaption><code>\(name)</code></figcaption>\(Self.drawing(name, bins))</figure>"
    }
    return """
      <section aria-labelledby="measures"><h2 id="measures">Measures</h2>\
      <p class="note">Episodes by measure. A bar leads to its episodes in the table.</p><div class="measures">\(figures.joined())</div></section>
      """
  }

  private static func drawing(_ name: String, _ bins: HistogramDrawing.Bins) -> Markup {
    let across = Scale(bins.start...(bins.start + Double(bins.counts.count) * bins.width), from: 0, length: width)
    let most = Double(bins.counts.max() ?? 1)
    let bars = bins.counts.enumerated().map { index, count -> Markup in
      if count == 0 { return "" }
      let (from, to) = (bins.start + Double(index) * bins.width, bins.start + Double(index + 1) * bins.width)
      let tall = max(3, (base - 2) * Double(count) / most)
      let (x, wide) = (format(across(from) + 0.5), format(max(1, across(to) - across(from) - 1)))
      let words = "\(counted(count, "episode")) from \(Figures.short(from)) to \(Figures.short(to))"
      return """
        <a href="#measure=\(name)&amp;from=\(edge(from))&amp;to=\(edge(to))" aria-label="\(name): \(words)"><title>\(words)</title>\
        <rect class="hit" x="\(x)" y="0" width="\(wide)" height="\(format(base))"/>\
        <rect class="present" x="\(x)" y="\(format(base - tall))" width="\(wide)" height="\(format(tall))"/></a>
        """
    }
    let ticks = across.ticks(4).map { tick -> Markup in
      let anchor = across(tick) < 20 ? "start" : across(tick) > width - 20 ? "end" : "middle"
      return
        "<text x=\"\(format(across(tick)))\" y=\"\(format(height - 2))\" text-anchor=\"\(anchor)\">\(Figures.tick(tick, step: Scale.step(across.range.upperBound - across.range.lowerBound, 4)))</text>"
    }
    return """
      <svg class="drawing" viewBox="0 0 \(format(width)) \(format(height))" width="250" height="78" role="group" aria-label="\(name)">\
      \(bars.joined())<path class="axis" d="M0 \(format(base))H\(format(width))"/>\(ticks.joined())</svg>
      """
  }

  private static func format(_ value: Double) -> String { String(format: "%.4g", value) }

  /// The edge of a bin, with as many digits as a measure has.
  private static func edge(_ value: Double) -> String { String(format: "%.9g", value) }
}
