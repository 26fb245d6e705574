import Datasets
import Evidence
import Model
import Steps

/// Reads the images, depth maps or confidence maps of an episode for an export. One reader serves one thread.
struct RasterReader {
  let stream: SampleStream
  private let place: String
  private let isEncoded: Bool
  private var cursor: any SampleCursor

  /// - Parameter isEncoded: Whether samples are read as the files that are stored.
  /// - Throws: `TakeFailure` for an episode without the stream, or a shard that cannot be opened.
  init(_ name: StreamName, of episode: ExportedEpisode, isEncoded: Bool = false) throws {
    guard let stream = episode.episode.streams[name], stream.rows != nil else {
      throw TakeFailure(.internal, "\(episode.id) has no stream \(name)")
    }
    (self.stream, self.isEncoded) = (stream, isEncoded)
    place = "\(name) of \(episode.id)"
    do {
      cursor = try stream.source.makeCursor(SampleRequest(form: isEncoded ? .encoded : .decoded))
    } catch {
      throw Dataset.unreadable(error, place)
    }
  }

  /// Replaces `bytes` by the sample of a row, row-major, little-endian; `false` where the row has none. Throws `TakeFailure` for a damaged
  /// one.
  mutating func read(_ row: Int, into bytes: inout [UInt8]) throws -> Bool {
    guard let sample = stream.rows?[row]?.nearest else { return false }
    do {
      try cursor.read(sample, into: &bytes)
    } catch is SampleFailure {
      return false
    } catch {
      throw Dataset.unreadable(error, "row \(row) of \(place)")
    }
    guard isEncoded || bytes.count == stream.spec.sampleBytes else {
      throw Dataset.unreadable("\(bytes.count) bytes, expected \(stream.spec.sampleBytes)", "row \(row) of \(place)")
    }
    return true
  }

  /// The sample of a row; `nil` where the row has none.
  mutating func read(_ row: Int) throws -> [UInt8]? {
    var bytes: [UInt8] = []
    return try read(row, into: &bytes) ? bytes : nil
  }
}

extension Dataset {
  /// The failure to read a part of a dataset: the dataset is to be checked, and not the disk that is written to.
  static func unreadable(_ reason: Any, _ part: String) -> TakeFailure {
    TakeFailure(.unreadable, "\(part) cannot be read (\(reason)); check the dataset with takeset verify")
  }
}

extension ExportedEpisode {
  /// The part of the dataset's split that the episode is in: `train`, `valid` or `test`.
  func split(in dataset: Dataset) -> JSONValue? {
    SplitPart.allCases.map(\.rawValue).first { part in
      dataset.record.splits[part]?.array?.contains(.string(id)) == true
    }.map { .string($0) }
  }
}

/// The rows of an episode that a format without masks can hold: those that have a value in every exported stream.
struct CompleteRows: Sendable {
  /// Number of rows without a value, for each stream that lacks one.
  private(set) var missing: [(name: StreamName, rows: Int)] = []
  /// The complete rows as ranges, ascending. A missing row ends a range, and so does a gap in time, which the format cannot express.
  private(set) var runs: [Range<Int>] = []
  /// Number of rows that are in no range.
  var lost: Int { rows - runs.reduce(0) { $0 + $1.count } }
  /// Number of complete rows that are in no range, because it would be too short.
  private(set) var inShortRuns = 0
  /// Whether the last row has everything but an action, as at the end of a recording, where there is no next row. It is not counted in
  /// `missing`.
  private(set) var endsWithoutAction = false
  let rows: Int

  /// - Parameters:
  ///   - names: The exported streams. A row lacks one if any of its numbers is absent, or the complete image or depth map.
  ///   - elements: The only element that is exported, of streams where it is not all.
  ///   - minimum: The least number of rows of a range.
  init(_ episode: ExportedEpisode, of names: [StreamName], elements: [StreamName: Int] = [:], minimum: Int = 1) throws {
    rows = episode.rows
    var isComplete = [Bool](repeating: true, count: rows)
    var reader = RowReader(episode.episode)
    for name in names.filter({ $0 != .actions }) + names.filter({ $0 == .actions }) {
      var count = 0
      for row in 0..<rows where try !Self.hasValue(name, elements[name], row, episode.episode, &reader) {
        if name == .actions, row == rows - 1, isComplete[row] { endsWithoutAction = true } else { count += 1 }
        isComplete[row] = false
      }
      if count > 0 { missing.append((name, count)) }
    }
    let gaps = Set(episode.episode.frames.gaps.map(\.row))
    var first: Int?
    for row in 0..<rows {
      if isComplete[row], first == nil { first = row }
      if let start = first, !isComplete[row] || row == rows - 1 || gaps.contains(row) {
        runs.append(start..<(isComplete[row] ? row + 1 : row))
        first = nil
      }
    }
    inShortRuns = runs.reduce(0) { $0 + ($1.count < minimum ? $1.count : 0) }
    runs.removeAll { $0.count < minimum }
  }

  private static func hasValue(
    _ name: StreamName, _ element: Int?, _ row: Int, _ episode: Episode, _ reader: inout RowReader
  ) throws -> Bool {
    guard let stream = episode.streams[name], stream.spec.kind.isRaster else {
      let values = try reader.values(of: name, at: row)
      return element.map { !values[$0].isNaN } ?? !values.contains(where: \.isNaN)
    }
    // A picture that could not be decoded has a sample, but the row's quality says that it has no pixels.
    let quality = episode.frames.quality
    let isUnreadable = stream.spec.kind.missingQuality.map { row < quality.count && quality[row].contains($0) } ?? false
    return stream.rows?[row] != nil && !isUnreadable
  }

  /// Whether all rows are complete, but for the last where there is no next one.
  var isWhole: Bool { runs == [0..<(endsWithoutAction ? rows - 1 : rows)] }

  /// `joints missing in 3 of 120 rows, actions missing in 1 of 120 rows`
  var problem: String {
    var parts = missing.map { "\($0.name) missing in \($0.rows) of \(rows) rows" }
    if endsWithoutAction { parts.append("no action after the last row") }
    if inShortRuns > 0 { parts.append("\(inShortRuns) rows alone between such rows or gaps") }
    return parts.isEmpty ? "a gap in time" : parts.joined(separator: ", ")
  }
}

extension ExportDirectory {
  /// Notes that the format has no place for these streams, and for intrinsics if there are any.
  func lose(_ streams: Set<StreamName>, of episodes: [ExportedEpisode]) {
    var names = streams.sorted().map(\.rawValue)
    if episodes.contains(where: { episode in (episode.images + episode.depths).contains { episode.hasIntrinsics($0.stream) } }) {
      names.append("intrinsics")
    }
    if !names.isEmpty { lose("The format has no place for \(names.joined(separator: ", ")).") }
  }

  /// Notes that positions have a unit other than meters.
  func loseUnit(of episode: ExportedEpisode) {
    guard let unit = episode.poseFrame?.unit, unit != .meters else { return }
    lose("\(episode.id): the unit of positions is \(unit), which the format cannot say.")
  }

  /// Notes that poses differ in something that the format cannot express.
  func loseFrames(of episodes: [ExportedEpisode]) {
    let frames = EpisodeGroups(episodes.filter { $0.poseFrame != nil }) { episode in
      episode.poseFrame.map { "\($0.unit), camera axes \($0.cameraAxes.rawValue)" } ?? ""
    }
    if frames.differ { lose("The format cannot say that poses differ in unit or axes: \(frames).") }
  }
}

/// Episodes grouped by a property that a format needs to be the same in all of them.
struct EpisodeGroups: CustomStringConvertible {
  private var groups: [(value: String, ids: [String])] = []

  init(_ episodes: [ExportedEpisode], by property: (ExportedEpisode) throws -> String) rethrows {
    var indices: [String: Int] = [:]
    for episode in episodes {
      let value = try property(episode)
      if let index = indices[value] {
        groups[index].ids.append(episode.id)
      } else {
        indices[value] = groups.count
        groups.append((value, [episode.id]))
      }
    }
  }

  var differ: Bool { groups.count > 1 }

  /// `320x240 in a, b; 640x480 in c`
  var description: String {
    let shown = groups.prefix(4).map { "\($0.value) in \($0.ids.abridged)" }
    return shown.joined(separator: "; ") + (groups.count > 4 ? "; and \(groups.count - 4) others" : "")
  }
}
