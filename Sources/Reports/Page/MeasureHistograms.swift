import Foundation
import Model

/// A histogram of the episodes for each measure. A bar is a link to its episodes in the table of takes.
struct MeasureHistograms {
  /// The edges of the bars as the links have them, so that a bar counts what its link leads to, and the number of episodes in each.
  private struct Bars {
    var name: String
    var edges: [Double]
    var counts: [Int]
  }

  private let all: [Bars]
  private static let (width, height, base) = (250.0, 78.0, 62.0)

  /// Measures that would have a single bar are left out.
  init(_ summaries: [TakeSummary]) {
    let measures = summaries.compactMap(\.take.measures)
    all = Measures.Name.allCases.compactMap { name in
      let values = measures.compactMap { $0[name] }
      guard let bins = HistogramDrawing.Bins(values), bins.counts.count > 1 else { return nil }
      // A value at the edge of the last bin lies beyond it.
      let edges = (0...(bins.counts.count + 1)).compactMap { Double(Self.edge(bins.start + Double($0) * bins.width)) }
      let counts = zip(edges, edges.dropFirst()).map { from, to in values.count { from <= $0 && $0 < to } }
      return Bars(name: name.rawValue, edges: edges, counts: counts)
    }
  }

  var markup: Markup {
    if all.isEmpty { return "" }
    let figures = all.map { bars -> Markup in
      "<figure><figcaption><code>\(bars.name)</code></figcaption>\(Self.drawing(bars))</figure>"
    }
    return """
      <section aria-labelledby="measures"><h2 id="measures">Measures</h2>\
      <p class="note">Episodes by measure. A bar leads to its episodes in the table.</p><div class="measures">\(figures.joined())</div></section>
      """
  }

  private static func drawing(_ bars: Bars) -> Markup {
    let (name, edges) = (bars.name, bars.edges)
    let across = Scale(edges[0]...edges[edges.count - 1], from: 0, length: width)
    let most = Double(bars.counts.max() ?? 1)
    let boxes = bars.counts.enumerated().map { index, count -> Markup in
      if count == 0 { return "" }
      let (from, to) = (edges[index], edges[index + 1])
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
      \(boxes.joined())<path class="axis" d="M0 \(format(base))H\(format(width))"/>\(ticks.joined())</svg>
      """
  }

  private static func format(_ value: Double) -> String { String(format: "%.4g", value) }

  /// The edge of a bin, with as many digits as a measure has.
  private static func edge(_ value: Double) -> String { String(format: "%.9g", value) }
}
