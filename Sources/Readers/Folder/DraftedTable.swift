import Model
import Steps

/// What a table seems to be, by its headings and first lines.
struct DraftedTable {
  enum Kind: Equatable {
    /// Times and nothing else.
    case times
    /// Poses, with the lines of the description that say how they are written.
    case pose([String])
    case imu(accel: [TableColumn], gyro: [TableColumn])
    case numbers
  }

  let path: String
  let headings: [String]
  let rows: Int
  var kind: Kind
  private(set) var timeColumn = 0
  /// The unit of its times, by their size; `nil` without any.
  private(set) var unit: TimeUnit?
  /// Whether times are so large that they can be Unix times only.
  private(set) var isUnix = false
  /// The files that a column names.
  private(set) var files: String?
  /// Columns of numbers that are neither times nor poses.
  private(set) var others: [TableColumn] = []
  /// Their unit, where the headings of all have the same in brackets.
  private(set) var otherUnit: String?

  private static let looked = 200

  func column(_ index: Int) -> TableColumn {
    let isOne = headings.indices.contains(index) && !headings[index].isEmpty && headings.count { $0 == headings[index] } == 1
    return isOne ? .heading(headings[index]) : .number(index + 1)
  }

  /// `nil` where most lines have no numbers.
  init?(_ table: DescribedTable, _ groups: [FolderDraft.Group]) {
    (path, headings, kind) = (table.path, table.headings.indices.map(table.name), .numbers)
    var lines: [CSVFile.Line] = []
    var count = 0
    try? table.forEachRow(nil) { line in
      if count < Self.looked { lines.append(line) }
      count += 1
    } other: { _ in
      count += 1
    }
    rows = count
    let width = table.columnCount
    func isMostly(_ column: Int, _ test: (CSVFile.Line, Int) -> Bool) -> Bool { lines.count { test($0, column) } * 10 >= lines.count * 9 }
    let numeric = (0..<width).filter { isMostly($0) { table.number($0, $1) != nil } }
    let dates = (0..<width).filter { isMostly($0) { table.time($0, $1, .iso8601) != nil } }
    guard !lines.isEmpty, !numeric.isEmpty || !dates.isEmpty else { return nil }
    func values(_ column: Int) -> [Double] { lines.compactMap { table.number($0, column) } }
    // A time ascends; its heading may say that it is one.
    let ascending = numeric.filter { column in
      let numbers = values(column)
      return numbers.count > 1 && zip(numbers, numbers.dropFirst()).allSatisfy { $0 < $1 }
    }
    let named = ascending.first { headings.indices.contains($0) && DescribedTable.isTimeLike(headings[$0]) }
    // The first column may count lines.
    let usual = ascending.first { !table.isIndex($0) && !Self.counts(values($0)) } ?? ascending.first
    if let date = dates.first {
      (timeColumn, unit) = (date, .iso8601)
    } else if let column = named ?? usual {
      (timeColumn, unit) = (column, Self.unit(of: values(column)))
      isUnix = Self.absoluteUnit(of: values(column)) != nil
    }
    let free = numeric.filter { ($0 != timeColumn || unit == nil) && !table.isIndex($0) }
    if unit != nil { files = Self.pattern(lines, width, timeColumn, groups) }
    if let columns = Self.imu(headings) {
      kind = .imu(accel: columns.accel.map(column), gyro: columns.gyro.map(column))
    } else if unit != nil, [12, 16].contains(free.count),
      lines.allSatisfy({ line in Self.isMatrix(free.compactMap { table.number(line, $0) }) })
    {
      kind = .pose(["matrix: [\(free.map { FolderDraft.word(column($0)) }.joined(separator: ", "))]"])
    } else if width == 12, headings.isEmpty, free.count >= 11, lines.allSatisfy({ Self.isMatrix(Self.numbers(table, $0)) }) {
      (timeColumn, unit) = (0, nil)
      kind = .pose(["layout: kitti"])
    } else if let pose = Self.pose(headings, width, lines, table, self.column) {
      kind = .pose(pose.words + Self.units(of: pose.columns, table, values))
      others = free.filter { !pose.columns.contains($0) }.map(column)
    } else if unit != nil, free.count < 2, free.allSatisfy({ Self.counts(values($0)) }) || files != nil && free.isEmpty {
      kind = .times
    } else {
      others = free.map(column)
      let units = Set(free.map(table.unit))
      otherUnit = units.count == 1 ? units.first.flatMap { $0.isEmpty ? nil : $0 } : nil
    }
  }

  private static func numbers(_ table: DescribedTable, _ line: CSVFile.Line) -> [Double] {
    (0..<table.columnCount).compactMap { table.number(line, $0) }
  }

  private static func isMatrix(_ numbers: [Double]) -> Bool {
    (numbers.count == 12 || numbers.count == 16) && (try? Pose(rowMajor: numbers.count == 12 ? numbers + [0, 0, 0, 1] : numbers)) != nil
  }

  /// The files that a column names.
  private static func pattern(_ lines: [CSVFile.Line], _ width: Int, _ time: Int, _ groups: [FolderDraft.Group]) -> String? {
    groups.first { group in
      let names = Set(group.names)
      return (0..<width).contains { column in
        column != time
          && lines.count { line in
            let text = line.text(column) ?? ""
            let name = String(text.split { $0 == "/" || $0 == "\\" }.last ?? "")
            return names.contains(name) && (!text.contains("/") || text.hasSuffix(group.path(name)) || group.path(name).hasSuffix(text))
          } * 2 > lines.count
      }
    }?.pattern
  }

  /// Columns of x, y and z whose headings name an accelerometer and a gyroscope.
  private static func imu(_ headings: [String]) -> (accel: [Int], gyro: [Int])? {
    func axes(_ names: [String]) -> [Int]? {
      let own = headings.indices.filter { index in names.contains { headings[index].lowercased().hasPrefix($0) } }
      let found = ["x", "y", "z"].compactMap { axis in own.first { headings[$0].lowercased().hasSuffix(axis) } }
      return found.count == 3 ? found : nil
    }
    guard let accel = axes(["acc", "a_", "ax", "ay", "az", "lin_acc", "linear_acc"]),
      let gyro = axes(["gyr", "w_", "wx", "wy", "wz", "gx", "gy", "gz", "omega", "ang", "rot"])
    else { return nil }
    return (accel, gyro)
  }

  /// The lines of the description of a pose, and its columns.
  private static func pose(
    _ headings: [String], _ width: Int, _ lines: [CSVFile.Line], _ table: DescribedTable, _ column: (Int) -> TableColumn
  ) -> (words: [String], columns: [Int])? {
    let names = headings.map { $0.lowercased() }
    func find(_ choices: [String]) -> Int? {
      names.firstIndex { name in
        choices.contains { name == $0 || name.hasSuffix("_" + $0) || name.hasSuffix("." + $0) || name.hasSuffix(" " + $0) }
      }
    }
    let position = [["x", "px", "tx", "pos_x"], ["y", "py", "ty", "pos_y"], ["z", "pz", "tz", "pos_z"]].compactMap(find)
    let rotations: [(names: [String], choices: [[String]])] = [
      (["qx", "qy", "qz", "qw"], [["qx", "q_x"], ["qy", "q_y"], ["qz", "q_z"], ["qw", "q_w"]]),
      (["rx", "ry", "rz"], [["rx"], ["ry"], ["rz"]]),
      (["roll", "pitch", "yaw"], [["roll"], ["pitch"], ["yaw"]]),
    ]
    for rotation in rotations where position.count == 3 {
      let found = rotation.choices.compactMap(find)
      guard found.count == rotation.names.count, Set(found + position).count == found.count + 3 else { continue }
      let pairs = zip(["x", "y", "z"] + rotation.names, position + found).map { name, index in
        "\(name): \(FolderDraft.word(column(index)))"
      }
      return (["columns: {\(pairs.joined(separator: ", "))}"], position + found)
    }
    // EuRoC has w first, and w is q_RS_w there.
    let isOfEuRoC = names.indices.contains(4) && names[4].hasSuffix("w")
    let quaternions = lines.map { line in (4..<8).compactMap { table.number(line, $0) } }
    guard width >= 8, quaternions.allSatisfy({ $0.count == 4 && abs(($0.reduce(0) { $0 + $1 * $1 }) - 1) < 0.02 }),
      Set(quaternions.map { $0.map(\.bitPattern) }).count > 1
    else { return nil }
    return (["layout: \(isOfEuRoC ? "euroc" : "tum")"], Array(1..<8))
  }

  /// The unit in which such times are: by their size, where they are Unix times, or else by their steps, which are those of a camera or a sensor.
  static func unit(of times: [Double]) -> TimeUnit {
    guard times.count > 1 else { return .s }
    if let unit = absoluteUnit(of: times) { return unit }
    let steps = zip(times.dropFirst(), times).map { $0 - $1 }.sorted()
    let step = steps[steps.count / 2]
    return step < 0.9 ? .s : step < 900 ? .ms : step < 9e5 ? .us : .ns
  }

  /// The unit of Unix times from 2001 on, which are too large for any other.
  static func absoluteUnit(of times: [Double]) -> TimeUnit? {
    let last = times.last ?? 0
    return [(1e18, TimeUnit.ns), (1e15, .us), (1e12, .ms), (1e9, .s)].first { last >= $0.0 && last < $0.0 * 5 }?.1
  }

  static func isUnix(_ names: [String]) -> Bool {
    absoluteUnit(of: (NameNumbers(names)?.times ?? []).suffix(1).compactMap { Double($0) }) != nil
  }

  /// Whether numbers count lines or files.
  private static func counts(_ numbers: [Double]) -> Bool { zip(numbers.dropFirst(), numbers).allSatisfy { $0 - $1 == 1 } }

  /// The units of positions and angles that headings or sizes tell.
  private static func units(of columns: [Int], _ table: DescribedTable, _ values: (Int) -> [Double]) -> [String] {
    let length = FolderParts.LengthWord(rawValue: table.unit(of: columns[0]).lowercased())
    var lines = length.map { $0 == .m ? [] : ["unit: \($0.rawValue)"] } ?? []
    // A circle has 6.3 radians.
    if columns.count == 6, columns[3...].contains(where: { column in values(column).contains { abs($0) > 7 } }) {
      lines.append("angle-unit: deg")
    }
    return lines
  }

  /// The unit of the times in names; `nil` where the numbers count files.
  static func times(inNames names: [String]) -> TimeUnit? {
    guard let numbers = NameNumbers(names)?.times?.compactMap({ Double($0) }).sorted(), numbers.count == names.count, numbers.count > 1
    else { return nil }
    let steps = zip(numbers.dropFirst(), numbers).map { $0 - $1 }.sorted()
    if absoluteUnit(of: numbers) != nil { return unit(of: numbers) }
    // Numbers that count have steps of 1, or of some others where files are missing.
    let counts = steps.allSatisfy { $0 == $0.rounded() } && (numbers[numbers.count - 1] < 1e9 && steps[steps.count / 2] < 5)
    return counts ? nil : unit(of: numbers)
  }
}
