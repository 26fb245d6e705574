import Evidence
import Model
import Steps

/// The poses of a described table.
struct PoseRows {
  /// The poses of the table, in meters where the unit is known.
  let trajectory: Trajectory
  /// From the world of the table to one with y or z up.
  private let turn: Pose?
  /// The camera in the body that the poses are of.
  private let camera: Pose?
  let frame: PoseFrame
  let file: String

  private static let mostUnreadable = 5

  /// - Throws: `TakeFailure` where columns are missing, and where more than a fifth of the lines are no poses.
  init(_ described: FolderDescription.Pose, _ inputs: TakeInputs, limit: Int, _ notes: FindingCollector) throws {
    let table = try DescribedTable(inputs, described.table.path, limit: limit)
    let part = described.part
    file = table.path
    let world: PoseFrame.WorldAxes
    (world, turn) = Self.world(part.worldUp, file)
    camera = described.camera
    frame = PoseFrame(
      cameraAxes: part.axes?.cameraAxes ?? .arbitrary, worldAxes: world, unit: part.unit == .arbitrary ? .arbitrary : .meters)
    let read = try Self.columns(described, table)
    let times = try described.times.map { try DescribedTable(inputs, $0.path, limit: limit).times($0, "times", notes) }
    let timeColumn = times == nil ? try table.timeColumn(described.table, "time") : nil
    let scale = part.unit.factor
    var entries: [PoseList.Entry] = []
    var (unreadable, lines) = (UnreadableLines(), 0)
    try table.forEachRow(times == nil ? notes : nil) { line in
      defer { lines += 1 }
      let time = timeColumn.map { table.time(line, $0, described.table.unit) } ?? times.flatMap { lines < $0.count ? $0[lines] : nil }
      guard let time, var pose = read(line) else { return unreadable.add(line) }
      if part.maps == .worldToCamera { pose = pose.inverse }
      pose.position *= scale
      guard pose.floats.allSatisfy(\.isFinite) else { return unreadable.add(line) }
      entries.append(PoseList.Entry(number: Int64(line.number), timestamp: time, pose: pose, place: line.number))
    } other: {
      lines += 1
      unreadable.add($0)
    }
    if let times, times.count != lines {
      throw TakeFailure(
        .csvInvalid,
        "there are \(lines) poses, and \(times.count) times in \(described.times?.path ?? ""); expected one time for each pose", file: file)
    }
    let expected = described.columns.expected(timeIn: described.table.unit)
    unreadable.note("lines that are not \(expected) are skipped", file, notes, as: .posesUnreadable)
    guard unreadable.count * Self.mostUnreadable <= max(lines, 1) else {
      throw TakeFailure(
        .tooFewPoses, "\(unreadable.count) of \(lines) lines are not \(expected); at most a fifth may be; \(unreadable.words)", file: file)
    }
    guard !entries.isEmpty else { throw TakeFailure(.posesMissing, "the table has no poses", file: file) }
    PositionCheck.examine(&entries, file: file, notes)
    trajectory = Trajectory(entries.compactMap { entry in entry.pose.map { (entry.timestamp, $0) } }, file: file, notes)
  }

  /// The pose of the camera at a time, in a world with y or z up where that is known; see `Trajectory`.
  func pose(at time: Timestamp, limit: Int64) -> Pose? {
    guard var pose = trajectory.pose(at: time, limit: limit) else { return nil }
    // Between two poses, the body is on a line, and the camera is not.
    if let camera { pose = pose.composed(with: camera) }
    return turn.map { $0.composed(with: pose) } ?? pose
  }

  /// The words for a world, and the rotation that turns an axis which is neither y nor z up.
  private static func world(_ up: FolderParts.Pose.Up?, _ file: String) -> (PoseFrame.WorldAxes, Pose?) {
    let half = 0.5.squareRoot()
    func turned(_ axis: String, _ quaternion: SIMD4<Double>) -> (PoseFrame.WorldAxes, Pose?) {
      (
        PoseFrame.WorldAxes("\(axis) up, turned from the world of \(file), in which \(up?.rawValue ?? "") is up"),
        Pose(position: .zero, quaternion: quaternion)
      )
    }
    switch up {
    case nil: return (PoseFrame.WorldAxes("those of \(file)"), nil)
    case .y, .z: return (PoseFrame.WorldAxes("\(up?.rawValue ?? "") up, those of \(file)"), nil)
    // Half a turn about x.
    case .minusY: return turned("y", [1, 0, 0, 0])
    case .minusZ: return turned("z", [1, 0, 0, 0])
    // A quarter turn about y.
    case .x: return turned("z", [0, -half, 0, half])
    case .minusX: return turned("z", [0, half, 0, half])
    }
  }

  /// Makes a pose of a line, in the table's unit; `nil` where it is none.
  private static func columns(_ described: FolderDescription.Pose, _ table: DescribedTable) throws -> (CSVFile.Line) -> Pose? {
    func numbers(_ columns: [Int]) -> (CSVFile.Line) -> [Double]? {
      { line in
        let found = columns.compactMap { table.number(line, $0) }
        return found.count == columns.count && found.allSatisfy(\.isFinite) ? found : nil
      }
    }
    func matrix(_ columns: [Int]) -> (CSVFile.Line) -> Pose? {
      let read = numbers(columns)
      return { line in read(line).flatMap { try? Pose(rowMajor: $0.count == 12 ? $0 + [0, 0, 0, 1] : $0) } }
    }
    func quaternions(_ columns: [Int]) -> (CSVFile.Line) -> Pose? {
      let read = numbers(columns)
      return { line in read(line).flatMap(Pose.init(measured:)) }
    }
    func need(_ count: Int, _ layout: String) throws {
      guard table.columnCount >= count else {
        throw TakeFailure(.csvInvalid, "the layout \(layout) has \(count) columns, and the table \(table.columnCount)", file: table.path)
      }
    }
    switch described.columns {
    case .tum:
      try need(8, "tum")
      try table.checkOrder("xyzw", "tum")
      return quaternions(Array(1..<8))
    case .euroc:
      try need(8, "euroc")
      try table.checkOrder("wxyz", "euroc")
      return quaternions([1, 2, 3, 5, 6, 7, 4])
    case .kitti:
      try need(12, "kitti")
      return matrix(Array(0..<12))
    case .matrix(let columns): return matrix(try columns.map { try table.column($0, "pose.matrix") })
    case .columns(let named):
      let rotation = FolderDescription.rotations.first { named[$0[0]] != nil } ?? []
      let places = try (["x", "y", "z"] + rotation).map { name in
        try named[name].map { try table.column($0, "pose.columns.\(name)") } ?? 0
      }
      for place in places.prefix(3) { try table.check(place, is: described.part.unit.rawValue, among: ["m", "cm", "mm"], "unit") }
      if rotation.count == 4 { return quaternions(places) }
      for place in places.dropFirst(3) {
        try table.check(place, is: described.part.angleUnit.rawValue, among: ["rad", "deg"], "angle-unit")
      }
      let unit = described.part.angleUnit == .deg ? Double.pi / 180 : 1
      let read = numbers(places)
      let isVector = rotation[0] == "rx"
      return { line in
        guard let n = read(line) else { return nil }
        let angles = SIMD3(n[3], n[4], n[5]) * unit
        guard let rotation = isVector ? Pose(rotationVector: angles) : Self.fixedAxes(angles) else { return nil }
        return Pose(position: [n[0], n[1], n[2]], quaternion: rotation.quaternion)
      }
    }
  }

  /// A rotation about the fixed axis x, then y, then z, by these angles in radians.
  private static func fixedAxes(_ angles: SIMD3<Double>) -> Pose? {
    let turns = (0..<3).compactMap { axis -> Pose? in
      var vector = SIMD3<Double>.zero
      vector[axis] = angles[axis]
      return Pose(rotationVector: vector)
    }
    return turns.count == 3 ? turns[2].composed(with: turns[1]).composed(with: turns[0]) : nil
  }
}

extension DescribedTable {
  /// Throws `TakeFailure` where headings of a quaternion are in another order than its layout has.
  fileprivate func checkOrder(_ order: String, _ layout: String) throws {
    guard headings.count >= 8 else { return }
    let found = String((4..<8).compactMap { name(of: $0).lowercased().last })
    guard found.sorted() == order.sorted(), found != order else { return }
    throw TakeFailure(
      .csvInvalid,
      "the headings \((4..<8).map { headings[$0] }.joined(separator: ", ").onOneLine.prefix(200)) are in another order than the layout \(layout) has; name the columns of x, y, z, qx, qy, qz and qw",
      file: path)
  }
}

extension FolderDescription.PoseColumns {
  /// What a line should be, for messages.
  fileprivate func expected(timeIn unit: TimeUnit) -> String {
    switch self {
    case .tum, .euroc: "a time in \(unit.rawValue), a position and a quaternion of length 1"
    case .kitti: "the 12 numbers of a rotation and a position"
    case .matrix: "a time in \(unit.rawValue) and the matrix of a rotation and a position"
    case .columns(let named) where named["qx"] != nil: "a time in \(unit.rawValue), a position and a quaternion of length 1"
    case .columns: "a time in \(unit.rawValue), a position and three angles"
    }
  }
}
