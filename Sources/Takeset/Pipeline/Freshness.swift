import Model

/// A check of whether the dataset already holds takes as this run would convert them.
struct Freshness: Sendable {
  let journal: Journal
  /// Entries from before the run.
  let earlier: [String: Journal.Entry]
  let conversion: TakeConversion
  /// The dataset's directory.
  let directory: String
  /// Whether inputs are compared by content rather than by size, times and inode.
  let checksContent: Bool

  enum Verdict {
    case fresh(Journal.Entry)
    /// The take must be converted; with the reason if it was converted before.
    case stale(String?)
  }

  /// The verdict on a take whose files have been listed. Updates the entry of a take whose files were only touched or moved.
  func verdict(_ job: TakeJob) throws -> Verdict {
    guard var entry = earlier[job.task.id], let inputs = job.inputs, let stamp = job.stamp, entry.pipeline == conversion.digest,
      entry.toolVersion == conversion.tool.version, entry.reader == job.task.reader.name, entry.outcome != .failed,
      entry.keys == nil || entry.keys == TakeConversion.keysWord(conversion.context),
      // The comparison with the folder next to it must be repeated.
      job.task.duplicateFolder == nil, !entry.hadDuplicateFolder
    else { return .stale(nil) }
    let shard = Self.stamp(of: directory + "/" + conversion.pipeline.writer.shardPath(entry.id))
    if entry.outcome == .written, entry.shard != shard {
      // A copied dataset has other times and inodes but the same contents.
      let record = try TakeRecord(json: journal.record(of: entry.id))
      var report = Verification()
      conversion.pipeline.writer.check(record, in: directory, pipelineDigest: entry.pipeline, into: &report)
      guard report.isSound, report.notes.isEmpty else { return .stale("its shard was changed or removed and is rebuilt") }
    }
    if entry.stamp != stamp.description || checksContent {
      try inputs.finishDigests()
      guard entry.inputDigest == inputs.digest.description else { return .stale("its inputs have changed and it is rebuilt") }
    }
    if entry.stamp != stamp.description || entry.location != job.task.location.path || entry.shard != shard {
      // Touched or moved, but unchanged: the next run need not read it again.
      entry.shard = shard
      entry.stamp = stamp.description
      entry.location = job.task.location.path
      do {
        try journal.append(entry, record: journal.record(of: entry.id))
      } catch {
        throw OutputFailure(error, writing: journal.path)
      }
    }
    return .fresh(entry)
  }

  static func stamp(of path: String) -> String? { try? FileStamp.of(path).description }
}
