import Model

/// The rows of an episode in time: where frames are missing, where streams have no sample, and which frames have problems.
struct TimelineDrawing {
  /// A line of the drawing: a stream with the rows that have a sample, or a problem with the rows that have it.
  struct Lane {
    var name: String
    var rows: [Bool]
    /// Whether marked rows are a problem.
    var isProblem = false
  }

  private static let (width, left, lane) = (1120.0, 150.0, 15.0)

  /// Draws the lanes over times in seconds; `nil` without rows.
  ///
  /// `gaps`: Rows before a gap, with the number of frames missing in it. `period`: Seconds that a row lasts.
  static func drawing(seconds: [Double], period: Double, gaps: [(row: Int, missing: Int)], lanes: [Lane]) -> Drawing? {
    guard let start = seconds.first, let end = seconds.last else { return nil }
    let missing = gaps.reduce(0) { $0 + $1.missing }
    let words =
      gaps.isEmpty
      ? "no gap"
      : "\(counted(gaps.count, "gap")), in which \(counted(missing, "frame")) \(missing == 1 ? "is" : "are") missing"
    let height = Double(lanes.count + 1) * lane + 22
    var drawing = Drawing(
      width: width, height: height,
      title: "Time line of \(counted(seconds.count, "row")) in \(Figures.duration(end - start)): \(words)")
    let time = Scale(start...(end + max(period, 1e-9)), from: left, length: width - left - 4)
    addAxis(&drawing, time, height)
    add(&drawing, Lane(name: "frames", rows: [Bool](repeating: true, count: seconds.count)), at: 0, seconds, period, time)
    addGaps(&drawing, gaps, seconds, period, time)
    for (index, lane) in lanes.enumerated() { add(&drawing, lane, at: Double(index + 1) * self.lane, seconds, period, time) }
    return drawing
  }

  private static func addAxis(_ drawing: inout Drawing, _ time: Scale, _ height: Double) {
    var grid = PathData()
    let step = Scale.step(time.range.upperBound - time.range.lowerBound, 10)
    for tick in time.ticks(10) {
      grid.move(to: [time(tick), 0])
      grid.line(to: [time(tick), height - 16])
      let anchor: Drawing.Label.Anchor = time(tick) > width - 24 ? .end : .middle
      drawing.write(Figures.tick(tick, step: step) + " s", at: time(tick), height - 3, anchor)
    }
    drawing.add(.grid, grid)
  }

  /// Adds boxes for runs of marked rows; boxes less than half a pixel apart are one, and none is narrower than a pixel.
  private static func add(
    _ drawing: inout Drawing, _ lane: Lane, at top: Double, _ seconds: [Double], _ period: Double, _ time: Scale
  ) {
    drawing.write(lane.name, at: left - 6, top + 11, .end)
    var path = PathData()
    var open: (from: Double, to: Double)?
    func close() {
      guard let box = open else { return }
      path.box(box.from, top + 3, max(box.to, box.from + 1), top + self.lane - 2)
    }
    for row in seconds.indices where row < lane.rows.count && lane.rows[row] {
      let next = row + 1 < seconds.count ? min(seconds[row + 1], seconds[row] + 1.5 * period) : seconds[row] + period
      let (from, to) = (time(seconds[row]), time(max(next, seconds[row])))
      if let box = open, from - box.to < 0.5 {
        open = (box.from, max(box.to, to))
      } else {
        close()
        open = (from, to)
      }
    }
    close()
    drawing.add(lane.isProblem ? .mark : .present, path)
  }

  private static func addGaps(
    _ drawing: inout Drawing, _ gaps: [(row: Int, missing: Int)], _ seconds: [Double], _ period: Double, _ time: Scale
  ) {
    var path = PathData()
    var end = -1.0
    for gap in gaps where gap.row + 1 < seconds.count {
      let from = time(min(seconds[gap.row] + period, seconds[gap.row + 1])), to = max(time(seconds[gap.row + 1]), from + 1)
      // Gaps within a pixel are one box.
      guard to > end + 0.5 else { continue }
      path.box(from, 1, to, lane)
      end = to
    }
    drawing.add(.gap, path)
  }
}
