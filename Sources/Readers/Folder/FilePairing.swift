import Evidence
import Model
import Steps

/// Which file each line of a table of times is of: by a column that names files, by path, name or number; or else by place, where nothing in the table or
/// in the names says otherwise. Where it is not certain, the take fails.
struct FilePairing {
  typealias File = TimedFiles.File

  let table: DescribedTable
  let described: FolderDescription.Table
  let pattern: FilePattern
  let inputs: TakeInputs
  /// Entries in the order of their names.
  let found: [Int]
  let names: NameNumbers?

  /// Lines that are looked at for columns that name files.
  private static let looked = 1000
  /// Numbers above it are names or times rather than counts.
  private static let mostCounted: Int64 = 1_000_000

  private enum Kind: CaseIterable { case name, time, count }

  /// What names a file.
  private struct Keys {
    var paths: [String: Int] = [:], names: [String: Int] = [:], times: [Timestamp: Int] = [:], counts: [Int64: Int] = [:]
  }

  private func uncertain(_ why: String) -> TakeFailure {
    TakeFailure(
      .csvInvalid,
      "which file has which time is not certain: \(why); there are \(found.count) files \(pattern.text), and a column with their names would tell (file: COLUMN)",
      file: table.path)
  }

  /// The files in the order of the lines.
  ///
  /// - Throws: `TakeFailure` where it is not certain which file a line is of, and where no line has a time.
  func files(by fileColumn: TableColumn?, _ notes: FindingCollector) throws -> (files: [File], isNamed: Bool) {
    let time = try table.timeColumn(described, "time")
    var times: [Timestamp] = []
    var sample: [[String]] = []
    var unreadable = UnreadableLines()
    try table.forEachRow(nil) { line in
      guard let found = table.time(line, time, described.unit) else { return unreadable.add(line) }
      times.append(found)
      if sample.count < Self.looked { sample.append(line.texts) }
    } other: {
      unreadable.add($0)
    }
    guard !times.isEmpty else {
      throw TakeFailure(
        .timesMissing,
        "no line has a time in \(described.unit.rawValue) in its column \(time + 1), at most 146 years from 0; \(unreadable.words)",
        file: table.path)
    }
    unreadable.note("lines without a time in \(described.unit.rawValue) are skipped", table.path, notes)
    let given = try fileColumn.map { try table.column($0, "file") }
    if let files = try named(given, time, times, sample) { return (files, true) }
    if let given {
      let text = sample.first.flatMap { $0.indices.contains(given) ? $0[given] : nil } ?? ""
      throw TakeFailure(
        .noFrames,
        "no line names a file of \(pattern.text) in its column \(given + 1): the first line has \"\(text.onOneLine.prefix(80))\", the first file is \(inputs.entries[found[0]].path)",
        file: table.path)
    }
    return (try placed(times, time, sample, unreadable), false)
  }

  // MARK: By columns

  private func keys() -> Keys {
    var keys = Keys()
    for entry in found {
      let path = inputs.entries[entry].path, name = PathParts.name(of: path)
      keys.paths[path] = entry
      for key in [name, PathParts.stem(of: name)] { keys.names[key.lowercased()] = entry }
    }
    for (entry, number) in zip(found, names?.exactTimes ?? []) {
      if let time = Timestamp(Array(number.utf8), in: described.unit) { keys.times[time] = entry }
    }
    let numbers = names?.counts ?? names?.exactTimes?.compactMap(Self.whole) ?? []
    if numbers.count == found.count { for (entry, number) in zip(found, numbers) { keys.counts[number] = entry } }
    return keys
  }

  private func entry(_ text: String, _ kind: Kind, _ keys: Keys, isGiven: Bool) -> Int? {
    switch kind {
    case .name:
      // A small number may also be a count, or a flag.
      if !isGiven, let number = Int64(text), abs(max(number, -.max)) <= Self.mostCounted { return nil }
      let plain = text.replacing("\\", with: "/")
      let path = plain.hasPrefix("./") ? String(plain.dropFirst(2)) : plain
      if let entry = keys.paths[path] { return entry }
      guard let entry = Self.named(path, keys) else { return nil }
      // A path of another folder is that of another file.
      let (own, known) = (PathParts.folder(of: path), PathParts.folder(of: inputs.entries[entry].path))
      return own.isEmpty || known.isEmpty || own == known || own.hasSuffix("/" + known) || known.hasSuffix("/" + own) ? entry : nil
    case .time: return Timestamp(Array(text.utf8), in: described.unit).flatMap { keys.times[$0] }
    case .count: return Self.whole(text).flatMap { keys.counts[$0] }
    }
  }

  private static let imageEndings = [".png", ".jpg", ".jpeg"]

  /// The file of a name, in any case, with or without an ending, in whatever folder.
  private static func named(_ path: String, _ keys: Keys) -> Int? {
    let name = PathParts.name(of: path).lowercased()
    if let entry = keys.names[name] { return entry }
    return imageEndings.contains(where: name.hasSuffix) ? keys.names[PathParts.stem(of: name)] : nil
  }

  /// Whether a heading says that its numbers are those of files.
  private func isOfFiles(_ column: Int) -> Bool {
    guard table.headings.indices.contains(column) else { return false }
    let words = table.headings[column].lowercased().split { !$0.isLetter }.map(String.init)
    return !words.isEmpty && words.allSatisfy(Self.words.contains)
  }
  private static let words: Set<String> = [
    "frame", "image", "img", "file", "index", "idx", "seq", "id", "picture", "photo", "number", "num", "no", "nr", "cam", "camera", "rgb",
    "color",
  ]

  private static func whole(_ text: String) -> Int64? { text.utf8.count < 16 ? Int64(text) : nil }

  /// The files by the column that names most of them; `nil` where none names half.
  private func named(_ given: Int?, _ time: Int, _ times: [Timestamp], _ sample: [[String]]) throws -> [File]? {
    let keys = keys()
    for kind in Kind.allCases {
      let columns = (given.map { [$0] } ?? Array(0..<table.columnCount)).filter { column in
        // The times may be the names of the files; they are no names or counts unless the description says so.
        guard given != nil || (column == time) == (kind == .time), given != nil || !table.isIndex(column) else { return false }
        let texts = sample.compactMap { $0.indices.contains(column) ? $0[column] : nil }
        guard texts.contains(where: { entry($0, kind, keys, isGiven: given != nil) != nil }) else { return false }
        guard given == nil, kind == .count else { return true }
        // Flags repeat, and counts from another number may be of lines.
        let numbers = texts.compactMap(Self.whole)
        return Set(numbers).count == numbers.count && numbers.min() == keys.counts.keys.min()
      }
      var best: (column: Int, files: [File], count: Int)?
      for column in columns {
        let files = try self.files(column, kind, time, times, keys, isGiven: given != nil)
        let count = Set(files.compactMap(\.entry)).count
        guard given != nil ? count > 0 : count * 2 >= min(times.count, found.count) else { continue }
        if let other = best, kind == .count || other.count == count, other.files.map(\.entry) != files.map(\.entry) {
          guard kind == .count, isOfFiles(other.column) != isOfFiles(column) else {
            throw uncertain("its columns \(table.title(other.column)) and \(table.title(column)) could both be the files")
          }
          if isOfFiles(column) { best = nil } else { continue }
        }
        if count > best?.count ?? 0 { best = (column, files, count) }
      }
      guard let best else { continue }
      try checkCounts(best.column, given, kind, keys, zip(times, sample).sorted { $0.0 < $1.0 }.map(\.1))
      if kind == .count, given == nil, best.count < found.count, best.files.contains(where: { $0.entry == nil }) {
        throw uncertain("its column \(table.title(best.column)) has numbers of no file, and lacks those of others")
      }
      return best.files
    }
    return nil
  }

  /// A column of the table, read once more.
  private func files(_ column: Int, _ kind: Kind, _ time: Int, _ times: [Timestamp], _ keys: Keys, isGiven: Bool) throws -> [File] {
    var files: [File] = []
    var place = 0
    try table.forEachRow(nil) { line in
      guard table.time(line, time, described.unit) != nil else { return }
      defer { place += 1 }
      let text = line.text(column) ?? ""
      let entry = entry(text, kind, keys, isGiven: isGiven)
      // A line that names no file at all is of none; nor is one of a log whose time is that of no file.
      if entry == nil, kind == .time || DescribedTable.absent.contains(text.lowercased()) { return }
      files.append(File(number: 0, time: times[place], entry: entry))
    } other: { _ in
    }
    return files
  }

  /// Numbers of files that may count something else, or from elsewhere.
  ///
  /// - Parameter sample: Lines in the order of their times.
  private func checkCounts(_ column: Int, _ given: Int?, _ kind: Kind, _ keys: Keys, _ sample: [[String]]) throws {
    let numbers = sample.compactMap { $0.indices.contains(column) ? Self.whole($0[column]) : nil }
    guard kind == .count || given != nil && kind == .name && numbers.count == sample.count else { return }
    let isAscending = zip(numbers, numbers.dropFirst()).allSatisfy { $0 < $1 }
    if given == nil, !isAscending, !isOfFiles(column) {
      throw uncertain("its column \(table.title(column)) has the numbers of the files in another order, and may be something else")
    }
    guard let first = numbers.min(), let last = numbers.max(), let begin = keys.counts.keys.min(), let end = keys.counts.keys.max() else {
      return
    }
    if first < begin && last < end && last < begin + Int64(clamping: keys.counts.count) || first > begin && last > end,
      sample.count < Self.looked
    {
      throw uncertain("its column \(table.title(column)) counts from \(first) to \(last), and the files from \(begin) to \(end)")
    }
  }

  // MARK: By place

  /// Line n is of the file with the number n.
  private func placed(_ times: [Timestamp], _ time: Int, _ sample: [[String]], _ unreadable: UnreadableLines) throws -> [File] {
    if let first = unreadable.first { throw uncertain("line \(first.number) has no time: \"\(first.text)\"") }
    if let place = times.indices.dropFirst().first(where: { times[$0] <= times[$0 - 1] }) {
      throw uncertain("time \(place + 1) of \(times.count) is not after the one before it")
    }
    let keys = keys()
    for column in 0..<table.columnCount where column != time {
      let texts = sample.compactMap { $0.indices.contains(column) ? $0[column] : nil }
      if texts.count(where: { Self.whole($0) == nil && Self.named($0.replacing("\\", with: "/"), keys) != nil }) * 2 > sample.count {
        throw uncertain(
          "its column \(table.title(column)) has the names of these files in another folder, such as \(texts[0].onOneLine.prefix(80))")
      }
    }
    let counts = names?.counts
    let paths = found.map { PathParts.stem(of: PathParts.name(of: inputs.entries[$0].path)) }
    if counts == nil, let odd = paths.first(where: { $0.contains(where: \.isNumber) }) {
      throw uncertain("the names, such as \(odd.onOneLine.prefix(100)), are not those of files that are counted")
    }
    let (begin, end) = (counts?.min() ?? 0, counts?.max() ?? Int64(found.count) - 1)
    for column in 0..<table.columnCount where column != time && !table.isIndex(column) {
      let numbers = sample.compactMap { $0.indices.contains(column) ? Self.whole($0[column]) : nil }
      guard numbers.count == sample.count, numbers.count > 2, zip(numbers, numbers.dropFirst()).allSatisfy({ $0 <= $1 && $1 - $0 < 4 }),
        numbers[numbers.count - 1] - numbers[0] >= max(2, Int64(numbers.count / 2))
      else { continue }
      if Set(numbers).count < numbers.count { throw uncertain("its column \(table.title(column)) has numbers twice") }
      if numbers[0] != begin { throw uncertain("its column \(table.title(column)) counts from \(numbers[0]), and the files from \(begin)") }
    }
    let isWhole = end - begin == Int64(found.count) - 1
    var first: Int64?
    if times.count == found.count, isWhole {
      first = begin
    } else if counts != nil {
      // Numbers from 0, of which some have no file, or from 1 to that of the last line.
      first = begin == 0 ? 0 : begin == 1 && end == Int64(times.count) ? 1 : nil
      if end - (first ?? 0) >= Int64(times.count) { first = nil }
    }
    guard let first else { throw uncertain("there are \(times.count) times, and the numbers in the names do not say which line is whose") }
    var entries: [Int64: Int] = [:]
    for (place, entry) in found.enumerated() { entries[counts?[place] ?? Int64(place)] = entry }
    return times.enumerated().map { place, time in
      File(number: first + Int64(place), time: time, entry: entries[first + Int64(place)])
    }
  }
}
