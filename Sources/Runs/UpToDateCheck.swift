import Datasets
import Model
import Steps

/// A check of whether the dataset already holds takes as this run would convert them.
struct UpToDateCheck: Sendable {
  let journal: Journal
  /// Entries from before the run, by take.
  let earlier: [String: [Journal.Entry]]
  let conversion: TakeConversion
  /// The dataset's directory.
  let directory: String
  /// Whether inputs are compared by content rather than by size, times and inode.
  let checksContent: Bool
  /// Whether what another program has added to a shard may be deleted.
  let replaces: Bool
  /// How shards are compared to which another program has written.
  let checks: Verification.ExternalChecks

  enum Verdict {
    case fresh([Journal.Entry])
    /// The take must be converted; with what has changed if it was converted before.
    case stale(String?)
    /// The take should be converted, which would delete what another program has added to its shards: a sentence that names it.
    case kept(String)
  }

  /// The verdict on a take whose files have been listed. Updates the entries of a take whose files were only touched or moved, and logs what
  /// another program has added to its shards.
  func verdict(_ job: TakeJob, isCancelled: () -> Bool = { false }, log: (String) -> Void) throws -> Verdict {
    let verdict = try compared(job, isCancelled, log)
    guard case .stale(let reason) = verdict, let kept = additions(to: job.task.id) else { return verdict }
    return .kept("\(reason ?? "it should be converted again"), but \(kept)")
  }

  /// Why a take's episodes are not deleted: another program has added to their shards. `nil` where none has, or with `--replace`.
  func additions(to take: String) -> String? {
    guard !replaces else { return nil }
    let notes = (earlier[take] ?? []).flatMap { entry -> [String] in
      let path = DatasetFiles.shard(of: entry.id.text)
      guard entry.outcome == .written, let shard = Self.stamp(of: directory + "/" + path), shard != entry.shard else { return [] }
      do {
        let report = try compared(entry)
        if report.added.isEmpty { return [] }
        if report.isSound { return report.notes }
        return ["\(report.added.joined(separator: ", ")) was added by another program, and \(path) is damaged"]
      } catch {
        return ["\(path) was changed and cannot be compared (\(error))"]
      }
    }
    guard !notes.isEmpty else { return nil }
    return "\(notes.joined(separator: "; ")); the episode is kept as it is, and --replace gives up what was added"
  }

  private func compared(_ entry: Journal.Entry) throws -> Verification {
    let record = try TakeRecord(json: journal.record(of: entry.id.text))
    var report = Verification(checks, of: directory)
    report.checkShard(of: record, pipelineDigests: [entry.pipeline])
    return report
  }

  private func compared(_ job: TakeJob, _ isCancelled: () -> Bool, _ log: (String) -> Void) throws -> Verdict {
    // The comparison with the folder next to an archive must be repeated.
    guard job.task.duplicateFolder == nil, let inputs = job.inputs, let stamp = job.stamp,
      let entries = complete(earlier[job.task.id] ?? []), entries.allSatisfy({ isSame($0, job.task) })
    else { return .stale(nil) }
    var notes: [String] = []
    var shards = entries.map { Self.stamp(of: directory + "/" + DatasetFiles.shard(of: $0.id.text)) }
    for (index, entry) in entries.enumerated() where entry.outcome == .written && entry.shard != shards[index] {
      // A copied dataset has other times and inodes but the same contents.
      let report = try compared(entry)
      guard report.isSound else { return .stale("its shard was changed or removed") }
      guard let note = report.notes.first else { continue }
      guard !replaces else { return .stale("its shard was changed") }
      notes.append(note)
      // Until it is replaced, each run looks at it.
      shards[index] = entry.shard
    }
    if checksContent || entries.contains(where: { $0.stamp != stamp.description }) {
      try inputs.finishDigests(isCancelled: isCancelled)
      if isCancelled() { throw CancellationError() }
      guard entries.allSatisfy({ $0.inputDigest == inputs.digest.description }) else {
        return .stale("its inputs have changed")
      }
    }
    for note in notes { log("\(job.task.id): \(note)") }
    return .fresh(
      try zip(entries, shards).map { entry, shard in
        if entry.stamp == stamp.description, entry.location == job.task.location.path, entry.shard == shard { return entry }
        // Touched or moved, but unchanged: the next run need not read it again.
        var entry = entry
        (entry.shard, entry.stamp, entry.location) = (shard, stamp.description, job.task.location.path)
        entry.origin?.folder = job.task.location.folder
        do {
          try journal.append(entry, record: journal.record(of: entry.id.text))
        } catch {
          throw OutputFailure(error, writing: journal.path)
        }
        return entry
      })
  }

  /// The entries of a take in order, if they are those of one conversion: the take itself, or every one of its episodes.
  private func complete(_ entries: [Journal.Entry]) -> [Journal.Entry]? {
    let sorted = entries.sorted { $0.id < $1.id }
    guard let first = sorted.first else { return nil }
    guard let parts = first.parts else { return sorted.count == 1 ? sorted : nil }
    return sorted.count == parts && sorted.allSatisfy { $0.parts == parts } ? sorted : nil
  }

  private func isSame(_ entry: Journal.Entry, _ task: TakeTask) -> Bool {
    entry.pipeline == conversion.digest && entry.toolVersion == conversion.tool.version && entry.reader == task.reader.name
      && entry.outcome != .failed && (entry.keys == nil || entry.keys == TakeConversion.keysWord(conversion.context))
      && !entry.hadDuplicateFolder
  }

  static func stamp(of path: String) -> String? { try? FileStamp.of(path).description }
}
