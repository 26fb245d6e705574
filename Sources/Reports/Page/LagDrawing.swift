import Foundation
import Model
import Rasters

/// The motion of an episode's images and of its poses, one stretch of time below the other: a lag shifts one curve against the other.
enum LagDrawing {
  private static let (width, panel, left, right) = (400.0, 92.0, 6.0, 66.0)

  /// Draws the curves of a lag that was found, with a caption that says it.
  static func drawing(_ lag: ImageLag) -> (caption: String, drawing: Drawing) {
    let curves = lag.curves
    let milliseconds = String(format: "%.1f ms", abs(lag.lag) * 1000)
    let verdict = "images are \(milliseconds) \(lag.lag < 0 ? "early" : "late"), r \(String(format: "%.3f", lag.correlation))"
    let direction = curves.isAcross ? "across" : "up and down"
    let values = curves.stretches.joined().flatMap { [$0.images, $0.poses].compactMap(\.self) }
    let range = (values.min() ?? 0)...(values.max() ?? 0)
    var drawing = Drawing(
      width: width, height: Double(curves.stretches.count) * panel + 14,
      title: """
        Motion \(direction) of images and of poses in \(counted(curves.stretches.count, "piece")) of time, \
        \(Figures.short(range.lowerBound)) to \(Figures.short(range.upperBound)) degrees per second: \(verdict)
        """)
    for (index, stretch) in curves.stretches.enumerated() {
      guard let start = stretch.first?.time, let end = stretch.last?.time else { continue }
      let top = Double(index) * panel
      let time = Scale(start...end, from: left, length: width - left - right)
      let scale = Scale(range, from: top + panel - 16, length: -(panel - 24))
      var grid = PathData()
      let step = Scale.step(end - start, 6)
      for tick in time.ticks(6) {
        grid.move(to: [time(tick), top + 4])
        grid.line(to: [time(tick), top + panel - 14])
        drawing.write(Figures.tick(tick, step: step) + " s", at: time(tick), top + panel - 3, time(tick) < 20 ? .start : .middle)
      }
      drawing.add(.grid, grid)
      func add(_ style: Drawing.Style, _ value: (LagCurves.Point) -> Double?) {
        var path = PathData()
        let points = stretch.compactMap { point in value(point).map { SIMD2(time(point.time), scale($0)) } }
        path.polyline(Polyline.simplified(points, tolerance: 0.3))
        drawing.add(style, path)
      }
      add(.other) { $0.poses }
      add(.curve) { $0.images }
      drawing.write(Figures.short(range.upperBound), at: width - right + 4, top + 14)
      drawing.write(Figures.short(range.lowerBound), at: width - right + 4, top + panel - 20)
    }
    return ("Motion \(direction) of images (solid) and poses (dashed), degrees/s: \(verdict)", drawing)
  }
}
