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
  /// Whether episodes whose inputs are gone are removed.
  var prunes = false
  /// The check of shards that another program has written to.
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
    let changed = changedShards(of: job.task.id)
    let verdict = try compared(job, changed, isCancelled, log)
    if case .stale = verdict, let gone = goneMembers(job) { return .kept("\(gone); its episode stays until --prune") }
    guard case .stale(let reason) = verdict, let kept = additions(changed) else { return verdict }
    return .kept("\(reason ?? "it should be converted again"), but \(kept)")
  }

  /// Returns the members with which a group was written and which are gone, as a clause; `nil` where none is, or with `--prune`.
  private func goneMembers(_ job: TakeJob) -> String? {
    guard !prunes, !replaces, let reader = job.reader as? JoinedTake, !reader.lacking.isEmpty,
      let places = earlier[job.task.id]?.first(where: { $0.outcome == .written })?.joinedGroup?.places
    else { return nil }
    let gone = reader.lacking.filter { places[$0] != nil }
    return gone.isEmpty ? nil : "its group no longer has a take of \(gone.joined(separator: ", "))"
  }

  /// Returns the reason why a take's episodes are not deleted: something was added to their shards. `nil` where nothing was, or with
  /// `--replace`.
  func additions(to take: String) -> String? { additions(changedShards(of: take)) }

  private func additions(_ changed: ChangedShards) -> String? { replaces ? nil : changed.additions }

  private func changedShards(of take: String) -> ChangedShards {
    ChangedShards(of: earlier[take] ?? [], in: directory, checks) { try journal.record(of: $0.text) }
  }

  private func stamp(of entry: Journal.Entry) -> String? { Self.stamp(of: directory + "/" + DatasetFiles.shard(of: entry.id.text)) }

  private func compared(
    _ job: TakeJob, _ changed: ChangedShards, _ isCancelled: () -> Bool, _ log: (String) -> Void
  ) throws -> Verdict {
    // The comparison with the folder next to an archive must be repeated.
    guard job.task.duplicateFolder == nil, let inputs = job.inputs, let stamp = job.stamp,
      let entries = complete(earlier[job.task.id] ?? []), entries.allSatisfy({ isSame($0, job.task) })
    else { return .stale(nil) }
    if entries.contains(where: { $0.joinedGroup?.places != job.task.joinedGroup?.places }) { return .stale("its members lie elsewhere") }
    /// Sentences about shards that another program has written to.
    var notes: [EpisodeID: String] = [:]
    for entry in entries {
      // A copied dataset has other times and inodes but the same contents.
      guard let report = try changed.reports[entry.id]?.get() else { continue }
      guard report.isSound else { return .stale("its shard was changed or removed") }
      notes[entry.id] = report.notes.first
    }
    guard notes.isEmpty || !replaces else { return .stale("its shard was changed") }
    if checksContent || entries.contains(where: { $0.stamp != stamp.description }) {
      try inputs.finishDigests(isCancelled: isCancelled)
      if isCancelled() { throw CancellationError() }
      guard entries.allSatisfy({ $0.inputDigest == inputs.digest.description }) else {
        return .stale("its inputs have changed")
      }
    }
    for (_, note) in notes.sorted(by: { $0.key < $1.key }) { log("\(job.task.id): \(note)") }
    return .fresh(
      try entries.map { entry in
        // Until it is replaced, each run looks at a shard to which another program has written.
        let shard = changed.reports[entry.id] == nil || notes[entry.id] != nil ? entry.shard : self.stamp(of: entry)
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
      && !entry.hadDuplicateFolder && (entry.added.isEmpty || !replaces)
  }

  static func stamp(of path: String) -> String? { try? FileStamp.of(path).description }
}
