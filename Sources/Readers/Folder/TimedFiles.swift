import Foundation
import Model
import Steps

/// The files that a pattern has, each with its time, in the order of their table, or else of their names.
struct TimedFiles {
  struct File {
    /// Place in the order of times, or the number in the name where that is what files have their times by.
    var number: Int64
    var time: Timestamp?
    /// Entry of the inputs; `nil` for a line of the table whose file is missing.
    var entry: Int?
  }

  private(set) var files: [File] = []
  /// Where the times are from, for messages: `rgb.txt`.
  private(set) var origin: String
  /// Whether there are no times, but a rate.
  private(set) var isAssumed = false

  private let pattern: FilePattern
  private let inputs: TakeInputs

  /// - Throws: `TakeFailure` where there are no files, and where nobody can say which file has which time.
  init(
    _ pattern: FilePattern, _ times: FolderDescription.Times, unit: TimeUnit, _ inputs: TakeInputs, limit: Int, _ notes: FindingCollector
  ) throws {
    (self.pattern, self.inputs) = (pattern, inputs)
    let found = inputs.entries.indices.filter { pattern.matches(inputs.entries[$0].path) }
      .map { (name: NaturalName(PathParts.name(of: inputs.entries[$0].path)), entry: $0) }.sorted { $0.name < $1.name }.map(\.entry)
    guard !found.isEmpty else {
      throw TakeFailure(.noFrames, "the description names \(pattern.text), and there is no such file", file: FolderDescription.fileName)
    }
    let names = NameNumbers(found.map { PathParts.name(of: inputs.entries[$0].path) })
    switch times {
    case .rate(let rate):
      (origin, isAssumed) = ("the names of \(pattern.text)", true)
      let counts = names?.counts
      let first = counts?.min() ?? 0
      if counts == nil, found.contains(where: { PathParts.name(of: inputs.entries[$0].path).contains(where: \.isNumber) }) {
        throw TakeFailure(
          .timesMissing,
          "a rate needs names that count files, such as 000017.png, or names without numbers; \(PathParts.name(of: inputs.entries[found[0]].path)) is neither: are its numbers times (times: name)?",
          file: pattern.text)
      }
      files = found.enumerated().map { place, entry in
        let number = counts?[place] ?? Int64(place)
        return File(
          number: number, time: Timestamp(nanoseconds: 0).advanced(byNanoseconds: Double(number - first) * 1e9 / rate),
          entry: entry)
      }
      notes.add(
        .timesAssumed, "files have no times; \(counts == nil ? "the n-th of them" : "the one with the n-th number") is at n / \(rate) s",
        file: pattern.text)
    case .names:
      origin = "the names of \(pattern.text)"
      guard let numbers = names?.times else {
        throw TakeFailure(
          .timesMissing,
          "names such as \(PathParts.name(of: inputs.entries[found[0]].path)) and \(PathParts.name(of: inputs.entries[found[found.count - 1]].path)) have no one number that is the time: they differ in none, in several, or in their words; give a table of times",
          file: pattern.text)
      }
      let named = zip(found, numbers).map { entry, number in File(number: 0, time: Timestamp(Array(number.utf8), in: unit), entry: entry) }
      // As text, 0.9 comes before 0.85.
      files = named.sorted { one, other in
        one.time.flatMap { time in other.time.map { time < $0 } } ?? (one.time != nil && other.time == nil)
      }
      sortByTime(notes)
    case .table(let table, let column):
      origin = table.path
      let pairing = FilePairing(
        table: try DescribedTable(inputs, table.path, limit: limit), described: table, pattern: pattern, inputs: inputs, found: found,
        names: names)
      let (files, isNamed) = try pairing.files(by: column, notes)
      self.files = files
      if isNamed {
        removeDoubled(table.path, notes)
        sortByTime(notes)
        let own = Set(files.compactMap(\.entry)).count
        if own < found.count {
          notes.add(
            [
              Finding(
                .inputIgnored, "files of \(pattern.text) that no line names have no time and are skipped", severity: .warning,
                file: table.path,
                count: found.count - own)
            ])
        }
      }
    }
    let absent = files.count { $0.time == nil }
    guard absent < files.count else {
      throw TakeFailure(.timesMissing, "nothing in \(origin) is a time in \(unit.rawValue)", file: pattern.text)
    }
  }

  /// Files that have their times by name are in the order of these, whatever the order of lines or names.
  private mutating func sortByTime(_ notes: FindingCollector) {
    let timed = files.filter { $0.time != nil }
    let order = SensorTimes(timed.compactMap(\.time), of: "files", file: origin, notes: notes).order
    files = order.map { timed[$0] } + files.filter { $0.time == nil }
    for place in files.indices { files[place].number = Int64(place) }
  }

  /// Each file once, with the first of its times.
  private mutating func removeDoubled(_ table: String, _ notes: FindingCollector) {
    var known: Set<Int> = []
    let count = files.count
    files.removeAll { file in file.entry.map { !known.insert($0).inserted } ?? false }
    if files.count < count {
      notes.add(
        .imagesDuplicate, "lines name a file that an earlier line names; the first is used", file: table, count: count - files.count)
    }
  }

  // MARK: Streams

  /// The files that are there, in ascending time, each time once.
  func ordered(_ notes: FindingCollector) -> [(number: Int64, time: Timestamp, entry: Int)] {
    let present = files.compactMap { file in
      file.time.flatMap { time in file.entry.map { (number: file.number, time: time, entry: $0) } }
    }
    return SensorTimes(present.map(\.time), of: "files", file: origin, notes: notes).order.map { present[$0] }
  }

  /// Notes lines whose file is missing.
  func noteMissing(_ code: FindingCode, _ notes: FindingCollector) {
    let missing = files.count { $0.entry == nil }
    if missing > 0 { notes.add(code, "lines name files that are missing", file: origin, count: missing) }
  }
}
