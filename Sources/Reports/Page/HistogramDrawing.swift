import Foundation
import Model

/// A drawing of the number of rows with each value.
struct HistogramDrawing {
  private static let (width, height, margin) = (250.0, 78.0, 8.0)
  private static let binLimit = 24
  /// Width of a letter of a tick (pixels).
  private static let letter = 6.0

  /// Counts of equally wide bins.
  struct Bins: Equatable {
    var start: Double
    var width: Double
    var counts: [Int]

    init(start: Double, width: Double, counts: [Int]) { (self.start, self.width, self.counts) = (start, width, counts) }

    /// Bins of a round width over the values; `nil` without values. NaN is not counted.
    init?(_ values: [Double]) {
      let finite = values.filter(\.isFinite)
      guard let low = finite.min(), let high = finite.max() else { return nil }
      let step = Scale.step(high - low, binLimit - 1)
      width = step > 0 ? step : 1
      // Bins are centered on multiples of their width, so that one of them is centered on 0.
      let first = (low / width).rounded()
      start = (first - 0.5) * width
      counts = [Int](repeating: 0, count: max(1, min(binLimit + 2, Int((high / width).rounded() - first) + 1)))
      for value in finite { counts[min(max(Int((value / width).rounded() - first), 0), counts.count - 1)] += 1 }
    }
  }

  /// Draws the values; `nil` without any, and where all are the same.
  static func drawing(_ title: String, _ values: [Double], unit: String) -> Drawing? {
    Bins(values).flatMap { drawing(title, $0, unit: unit) }
  }

  /// Draws the bins; `nil` for a single one.
  static func drawing(_ title: String, _ bins: Bins, unit: String) -> Drawing? {
    guard bins.counts.count > 1, let most = bins.counts.max() else { return nil }
    let end = bins.start + Double(bins.counts.count) * bins.width
    var drawing = Drawing(
      width: width, height: height,
      title:
        "\(title): histogram of \(counted(bins.counts.reduce(0, +), "row")) from \(Figures.short(bins.start)) to \(Figures.short(end))\(unit.isEmpty ? "" : " \(unit)")"
    )
    let across = Scale(bins.start...end, from: margin, length: width - 2 * margin)
    let base = height - 16
    let up = Scale(0...Double(most), from: base, length: -(base - 4))
    var bars = PathData()
    for (index, count) in bins.counts.enumerated() where count > 0 {
      let left = across(bins.start + Double(index) * bins.width), right = across(bins.start + Double(index + 1) * bins.width)
      // Even a single row among thousands is visible.
      bars.box(left + 0.5, min(up(Double(count)), base - 1), max(right - 0.5, left + 1), base)
    }
    drawing.add(.bar, bars)
    var axis = PathData()
    axis.polyline([[margin, base], [width - margin, base]])
    let ticks = across.ticks(6)
    func label(_ tick: Double) -> String {
      Figures.tick(tick, step: Scale.step(end - bins.start, 6)) + (tick == ticks.last && !unit.isEmpty ? " \(unit)" : "")
    }
    // The last one has the unit, which may be long: it stands to the left of its tick at most that far.
    let lastLabel = ticks.last.map { min(across($0), width) - Self.letter * Double(label($0).count) } ?? width
    for tick in ticks {
      axis.polyline([[across(tick), base], [across(tick), base + 3]])
      let isFirst = across(tick) < 24, isLast = across(tick) > width - 24
      let text = label(tick)
      if tick != ticks.last, across(tick) + Self.letter * Double(text.count) / 2 > lastLabel { continue }
      drawing.write(text, at: isFirst ? 0 : isLast ? width : across(tick), height - 2, isFirst ? .start : isLast ? .end : .middle)
    }
    drawing.add(.axis, axis)
    if across.range.contains(0) {
      var zero = PathData()
      zero.polyline([[across(0), 0], [across(0), base]])
      drawing.add(.zero, zero)
    }
    return drawing
  }
}
