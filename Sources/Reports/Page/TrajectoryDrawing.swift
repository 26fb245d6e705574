import Foundation
import Model

/// The plane that a trajectory is seen in: from above where the world is aligned with something, else the plane of its largest extent.
struct GroundPlane: Equatable {
  var right: SIMD3<Double>
  var down: SIMD3<Double>
  var up: SIMD3<Double>
  /// The axes in words: "x right, z down".
  var words: String
  /// Whether `up` is a direction that the poses' world defines.
  var isLevel: Bool
  /// The viewpoint, for a title; empty where the world has no up.
  var view = ""

  /// The same, seen along what is up on this plane: up is up.
  var side: GroundPlane {
    var side = self
    (side.down, side.up, side.view) = (-up, down, isLevel ? "from the side" : "from its side")
    let axis = abs(up.x) > 0.5 ? "x" : abs(up.y) > 0.5 ? "y" : "z"
    side.words = isLevel ? "x right, \(axis) \(up.sum() > 0 ? "up" : "down")" : "across the plane of the largest extent"
    return side
  }

  init(worldAxes: PoseFrame.WorldAxes, positions: [SIMD3<Double>]) {
    // From above, a right-handed world has its other two axes in these directions. The camera's axes are the world of poses that are
    // relative to the first frame, and its forward axis is then at the top.
    switch (worldAxes.up, worldAxes.camera) {
    case (.y, _), (_, .arkit):
      (right, down, up, words, isLevel) = ([1, 0, 0], [0, 0, 1], [0, 1, 0], "x right, z down", true)
    case (.z, _), (_, .ros):
      (right, down, up, words, isLevel) = ([1, 0, 0], [0, -1, 0], [0, 0, 1], "x right, y up", true)
    case (_, .opencv):
      (right, down, up, words, isLevel) = ([1, 0, 0], [0, 0, -1], [0, -1, 0], "x right, z up", true)
    default:
      let axes = Self.principalAxes(positions)
      (right, down, up, words, isLevel) = (axes.0, axes.1, axes.2, "plane of the largest extent", false)
    }
    if isLevel { view = "from above" }
  }

  /// Eigenvectors of the covariance of the positions, the largest first (Jacobi's method), each with its largest element positive.
  private static func principalAxes(_ positions: [SIMD3<Double>]) -> (SIMD3<Double>, SIMD3<Double>, SIMD3<Double>) {
    let mean = positions.reduce(.zero, +) / Double(max(positions.count, 1))
    var matrix = [[Double]](repeating: [0, 0, 0], count: 3)
    for position in positions {
      let offset = position - mean
      for row in 0..<3 { for column in 0..<3 { matrix[row][column] += offset[row] * offset[column] } }
    }
    var vectors: [[Double]] = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    for _ in 0..<30 {
      for (p, q) in [(0, 1), (0, 2), (1, 2)] where matrix[p][q] != 0 {
        let theta = (matrix[q][q] - matrix[p][p]) / (2 * matrix[p][q])
        let tangent = (theta < 0 ? -1 : 1) / (abs(theta) + (theta * theta + 1).squareRoot())
        let cosine = 1 / (tangent * tangent + 1).squareRoot(), sine = tangent * cosine
        for k in 0..<3 {
          (matrix[k][p], matrix[k][q]) = (cosine * matrix[k][p] - sine * matrix[k][q], sine * matrix[k][p] + cosine * matrix[k][q])
        }
        for k in 0..<3 {
          (matrix[p][k], matrix[q][k]) = (cosine * matrix[p][k] - sine * matrix[q][k], sine * matrix[p][k] + cosine * matrix[q][k])
        }
        for k in 0..<3 {
          (vectors[k][p], vectors[k][q]) = (cosine * vectors[k][p] - sine * vectors[k][q], sine * vectors[k][p] + cosine * vectors[k][q])
        }
      }
    }
    let order = (0..<3).sorted { (-matrix[$0][$0], $0) < (-matrix[$1][$1], $1) }
    let axes = order.map { column -> SIMD3<Double> in
      let axis = SIMD3(vectors[0][column], vectors[1][column], vectors[2][column])
      let largest = (0..<3).max { abs(axis[$0]) < abs(axis[$1]) } ?? 0
      return axis[largest] < 0 ? -axis : axis
    }
    return (axes[0], axes[1], axes[2])
  }
}

/// The path of a camera or a body as seen from above or from the side, with a scale bar, and marks where it starts and ends.
struct TrajectoryDrawing {
  /// The unit of poses, as a scale bar names it.
  static func unitWords(_ unit: String) -> String { unit == LengthUnit.arbitrary.rawValue ? "(arbitrary unit)" : unit }

  /// Extent along the drawing's two axes, and the length of the path, in the poses' unit.
  let extent: SIMD2<Double>
  let length: Double
  let drawing: Drawing
  private let plane: GroundPlane
  private let scale: Double
  private let center: SIMD2<Double>

  private static let box = (width: 270.0, height: 210.0, margin: 14.0, bar: 22.0)

  /// Draws the positions of the rows; `nil` where there are none.
  ///
  /// `breaks`: Rows after which the line is interrupted; a dotted one bridges it.
  init?(_ positions: [SIMD3<Double>?], breaks: Set<Int> = [], plane: GroundPlane, unit: String) {
    let parts = Self.runs(positions, breaks)
    let runs = parts.map { run in run.map { SIMD2(($0 * plane.right).sum(), ($0 * plane.down).sum()) } }
    guard let first = runs.first?.first, let last = runs.last?.last else { return nil }
    let all = runs.joined()
    let low = all.reduce(first) { pointwiseMin($0, $1) }, high = all.reduce(first) { pointwiseMax($0, $1) }
    extent = high - low
    length = parts.reduce(0) { sum, run in
      sum + zip(run, run.dropFirst()).reduce(0) { $0 + (($1.1 - $1.0) * ($1.1 - $1.0)).sum().squareRoot() }
    }
    // Both axes have one scale; a take that hardly moves is not magnified without end.
    let (width, height) = (Self.box.width - 2 * Self.box.margin, Self.box.height - 2 * Self.box.margin - Self.box.bar)
    self.plane = plane
    let scale = min(width / max(extent.x, 1e-3), height / max(extent.y, 1e-3))
    let center = (low + high) / 2
    (self.scale, self.center) = (scale, center)
    func place(_ point: SIMD2<Double>) -> SIMD2<Double> { Self.place(point, scale, center) }
    let size = "\(Figures.short(extent.x)) by \(Figures.short(extent.y)) \(Self.unitWords(unit))"
    var drawing = Drawing(
      width: Self.box.width, height: Self.box.height,
      title: "Trajectory\(plane.view.isEmpty ? "" : " \(plane.view)"), \(size), path of \(Figures.short(length)) \(Self.unitWords(unit))")
    var (path, bridges) = (PathData(), PathData())
    for run in runs { path.polyline(Polyline.simplified(run.map(place))) }
    for (run, next) in zip(runs, runs.dropFirst()) {
      if let from = run.last, let to = next.first { bridges.polyline([place(from), place(to)]) }
    }
    drawing.add(.bridge, bridges)
    drawing.add(.curve, path)
    Self.mark(&drawing, place(first), place(last))
    Self.addBar(&drawing, scale, unit)
    drawing.write(plane.words, at: Self.box.width - 4, Self.box.height - 6, .end)
    self.drawing = drawing
  }

  private static func place(_ point: SIMD2<Double>, _ scale: Double, _ center: SIMD2<Double>) -> SIMD2<Double> {
    (point - center) * scale + [box.width / 2, (box.height - box.bar) / 2]
  }

  /// Returns the place of a position in the drawing, in its pixels.
  func place(_ position: SIMD3<Double>) -> SIMD2<Double> {
    Self.place([(position * plane.right).sum(), (position * plane.down).sum()], scale, center)
  }

  /// Positions without interruption.
  private static func runs(_ positions: [SIMD3<Double>?], _ breaks: Set<Int>) -> [[SIMD3<Double>]] {
    var runs: [[SIMD3<Double>]] = [[]]
    for (row, position) in positions.enumerated() {
      if let position { runs[runs.count - 1].append(position) }
      if position == nil || breaks.contains(row), !(runs.last ?? []).isEmpty { runs.append([]) }
    }
    return runs.filter { !$0.isEmpty }
  }

  private static func mark(_ drawing: inout Drawing, _ first: SIMD2<Double>, _ last: SIMD2<Double>) {
    var (start, end) = (PathData(), PathData())
    start.circle(first, radius: 4)
    end.box(last.x - 3.5, last.y - 3.5, last.x + 3.5, last.y + 3.5)
    drawing.add(.start, start)
    drawing.add(.end, end)
    // The words are beside the marks, and apart from each other where these are close.
    func write(_ text: String, at point: SIMD2<Double>, _ shift: Double) {
      let isRight = point.x > Self.box.width - 50
      drawing.write(text, at: point.x + (isRight ? -8 : 8), point.y + 3.5 + shift, isRight ? .end : .start)
    }
    let isClose = abs(first.y - last.y) < 11 && abs(first.x - last.x) < 40
    write("start", at: first, isClose ? (first.y <= last.y ? -6 : 6) : 0)
    write("end", at: last, isClose ? (first.y <= last.y ? 6 : -6) : 0)
  }

  private static func addBar(_ drawing: inout Drawing, _ scale: Double, _ unit: String) {
    let length = Scale.step(110 / scale, 1) / (Scale.step(110 / scale, 1) * scale > 110 ? 2 : 1)
    let (left, y) = (6.0, box.height - 18)
    var bar = PathData()
    bar.move(to: [left, y - 3])
    bar.line(to: [left, y])
    bar.line(to: [left + length * scale, y])
    bar.line(to: [left + length * scale, y - 3])
    drawing.add(.axis, bar)
    drawing.write("\(Figures.short(length)) \(unitWords(unit))", at: left, box.height - 6)
  }
}
