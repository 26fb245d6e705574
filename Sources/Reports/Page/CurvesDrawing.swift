import Foundation

/// Values over time, one panel below the other: joints, heights.
struct CurvesDrawing {
  /// A curve; NaN where there is no value.
  struct Curve {
    var name: String
    var values: [Double]
  }

  private static let (width, panel, left, right) = (400.0, 44.0, 6.0, 66.0)

  /// Draws the curves over times in seconds; `nil` where none has a value.
  ///
  /// `breaks`: Rows after which the lines are interrupted.
  static func drawing(_ title: String, _ curves: [Curve], seconds: [Double], breaks: Set<Int> = [], unit: String) -> Drawing? {
    guard let start = seconds.first, let end = seconds.last else { return nil }
    let panels = curves.map { ($0, range($0.values)) }
    guard panels.contains(where: { $0.1 != nil }) else { return nil }
    let words = panels.map {
      "\($0.0.name) \($0.1.map { "\(Figures.short($0.lowerBound)) to \(Figures.short($0.upperBound))" } ?? "without a value")"
    }
    let height = Double(panels.count) * panel + 18
    var drawing = Drawing(width: width, height: height, title: "\(title) over time, \(unit): \(words.joined(separator: ", "))")
    let time = Scale(start...end, from: left, length: width - left - right)
    addAxis(&drawing, time, height)
    for (index, (curve, range)) in panels.enumerated() {
      let top = Double(index) * panel
      // A single curve has its name in the caption.
      if panels.count > 1 { drawing.write(curve.name, at: left, top + 10) }
      guard let range else {
        drawing.write("no value", at: width - right + 4, top + 10)
        continue
      }
      let scale = Scale(range, from: top + panel - 6, length: -(panel - 20))
      // A constant is a line in the middle of its panel.
      let flat = range.lowerBound == range.upperBound ? -(panel - 20) / 2 : 0
      var path = PathData()
      for run in runs(curve.values, breaks) {
        let points = run.map { SIMD2(time(seconds[$0]), scale(curve.values[$0]) + flat) }
        path.polyline(Polyline.simplified(Polyline.columns(points), tolerance: 0.4))
      }
      drawing.add(.curve, path)
      if flat == 0 {
        drawing.write(Figures.short(range.upperBound), at: width - right + 4, top + 18)
        drawing.write(Figures.short(range.lowerBound), at: width - right + 4, top + panel - 3)
      } else {
        drawing.write(Figures.short(range.lowerBound), at: width - right + 4, top + panel / 2 + 7)
      }
    }
    return drawing
  }

  private static func addAxis(_ drawing: inout Drawing, _ time: Scale, _ height: Double) {
    var grid = PathData()
    let step = Scale.step(time.range.upperBound - time.range.lowerBound, 6)
    for tick in time.ticks(6) {
      grid.move(to: [time(tick), 0])
      grid.line(to: [time(tick), height - 15])
      drawing.write(Figures.tick(tick, step: step) + " s", at: time(tick), height - 3, tick == 0 ? .start : .middle)
    }
    drawing.add(.grid, grid)
  }

  private static func range(_ values: [Double]) -> ClosedRange<Double>? {
    let finite = values.filter(\.isFinite)
    guard let low = finite.min(), let high = finite.max() else { return nil }
    return low...high
  }

  /// Rows of values without interruption.
  private static func runs(_ values: [Double], _ breaks: Set<Int>) -> [[Int]] {
    var runs: [[Int]] = [[]]
    for row in values.indices {
      if values[row].isFinite { runs[runs.count - 1].append(row) }
      if !values[row].isFinite || breaks.contains(row), !(runs.last ?? []).isEmpty { runs.append([]) }
    }
    return runs.filter { !$0.isEmpty }
  }
}
