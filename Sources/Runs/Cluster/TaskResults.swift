import Datasets
import Evidence
import Foundation
import Model
import Steps

/// `results/<take id>.json` of a directory of tasks: what became of a take, written when all of its shards are in place.
///
/// Its lines are those of the journal, one for each episode, so that they have checksums and `publish` copies them.
struct TaskResults: Sendable {
  /// The dataset's directory.
  let directory: String
  let conversion: TakeConversion
  /// The check of shards that another program has written to.
  let checks: Verification.ExternalChecks
  /// Whether a shard to which takeset add or another program has added is no longer in place.
  let replaces: Bool

  private static let start = Array("{\"episodes\":[\n".utf8)
  private static let end = Array("]}\n".utf8)

  struct Episode {
    var entry: Journal.Entry
    /// Canonical JSON.
    var record: [UInt8]
  }

  func path(_ take: String) -> String { "\(directory)/\(DatasetFiles.results)/\(take).json" }

  /// The result of a task; `nil` if there is none yet, it is damaged, of another pipeline or plan, or a shard is missing or differs from it.
  ///
  /// Throws `FileError` where the system cannot say.
  func episodes(of task: TakeTask) throws -> [Episode]? {
    try episodes(ofTake: task.id).flatMap { isOf(task, $0) ? $0 : nil }
  }

  /// Likewise, whatever the plan says of the take.
  func episodes(ofTake take: String) throws -> [Episode]? {
    try recorded(take).flatMap { try isInPlace($0) ? $0 : nil }
  }

  /// Whether episodes that a run has made are what a task asks for.
  func areComplete(_ episodes: [Episode], of task: TakeTask) throws -> Bool {
    try episodes.count == episodes.first?.entry.parts ?? 1 && isOf(task, episodes) && isInPlace(episodes)
  }

  /// An earlier plan may have had another reader or keys file, or the take at another place, whose folder is in the split.
  private func isOf(_ task: TakeTask, _ episodes: [Episode]) -> Bool {
    let keys = TakeConversion.keysWord(conversion.context)
    return episodes.allSatisfy { episode in
      let entry = episode.entry
      return entry.reader == task.reader.name && entry.location == task.location.path && (entry.keys == nil || entry.keys == keys)
        && entry.hadDuplicateFolder == (task.duplicateFolder != nil)
    }
  }

  /// Whether episodes are of this pipeline and version, with their shards in place.
  private func isInPlace(_ episodes: [Episode]) throws -> Bool {
    try episodes.allSatisfy { episode in
      let entry = episode.entry
      return try entry.pipeline == conversion.digest && entry.toolVersion == conversion.tool.version
        && (entry.outcome != .written || hasShard(episode))
    }
  }

  /// Likewise, of whatever pipeline, and whatever has become of the shards since.
  func recorded(_ take: String) throws -> [Episode]? {
    let path = path(take)
    guard try Directory.kind(at: path) == .file else { return nil }
    let file = try InputFile(path)
    var bytes: [UInt8] = []
    try file.readAll(limit: 1 << 30, into: &bytes)
    guard bytes.starts(with: Self.start), bytes.suffix(Self.end.count).elementsEqual(Self.end) else { return nil }
    let lines = bytes[Self.start.count..<(bytes.count - Self.end.count)].split(separator: 0x0A)
    let episodes = lines.compactMap { line in
      Journal.decode(line.last == UInt8(ascii: ",") ? line.dropLast() : line).map { Episode(entry: $0.entry, record: $0.record) }
    }
    guard let parts = episodes.first.map({ $0.entry.parts ?? 1 }), episodes.count == lines.count, episodes.count == parts else {
      return nil
    }
    let isSound = episodes.allSatisfy { episode in
      guard episode.entry.id.take == take, let record = try? TakeRecord(json: episode.record) else { return false }
      return episode.entry.describes(record)
    }
    return isSound ? episodes : nil
  }

  /// Whether the shard of an episode is in place as the result has it.
  private func hasShard(_ episode: Episode) throws -> Bool {
    if replaces, !episode.entry.added.isEmpty { return false }
    let shard = directory + "/" + DatasetFiles.shard(of: episode.entry.id.text)
    guard try Directory.kind(at: shard) == .file, let stamp = episode.entry.shard else { return false }
    let found: FileStamp
    do {
      found = try FileStamp.of(shard)
    } catch let error as FileError where error.code == ENOENT {
      return false
    }
    if found.description == stamp { return true }
    guard let record = try? TakeRecord(json: episode.record) else { return false }
    // Another worker may have put the same bytes there, or somebody has copied, changed or added to the file.
    var report = Verification(checks, of: directory)
    report.checkShard(of: record, pipelineDigests: [episode.entry.pipeline])
    return report.isSound && !(replaces && !report.notes.isEmpty)
  }

  /// Writes a result, durably, by way of an attempt's directory.
  func write(_ episodes: [Episode], of take: String, by attempt: AttemptDirectory) throws {
    let path = path(take)
    do {
      let temporary = attempt.path + "/result.json"
      try SealedFile.write(temporary) { write in
        try Self.start.withUnsafeBytes(write)
        for (index, episode) in episodes.enumerated() {
          var line = Journal.encode(episode.entry, record: episode.record)
          if index < episodes.count - 1 { line.insert(UInt8(ascii: ","), at: line.count - 1) }
          try line.withUnsafeBytes(write)
        }
        try Self.end.withUnsafeBytes(write)
      }
      guard rename(temporary, path) == 0 else { throw FileError("rename to", path) }
      try SealedFile.syncDirectory(of: path)
    } catch {
      throw OutputFailure(error, writing: path)
    }
  }
}
