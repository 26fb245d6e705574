import Datasets
import Foundation
import Model
import Steps

/// The takes that a page shows: those of a published dataset, or those that an unfinished run has converted so far.
struct ReportedTakes: Sendable {
  let directory: String
  let takes: [TakeRecord]
  /// The manifest's record; `nil` while a run has not published it.
  let record: ManifestRecord?
  let recordDigest: String?
  /// Faults of the manifest, in sentences.
  let notes: [String]
  private let checks: Verification.ExternalChecks

  /// Reads the manifest, or the journal where there is no manifest or the journal is preferred.
  ///
  /// Throws `UsageError` if the directory is not a dataset of this version.
  ///
  /// - Parameter checks: The check of shards that another program has written to.
  init(_ directory: String, _ checks: Verification.ExternalChecks, prefersJournal: Bool = false) throws {
    self.checks = checks
    let journal = directory + "/" + DatasetFiles.journal
    let hasManifest = try Directory.kind(at: directory + "/" + DatasetFiles.manifest) != nil
    let hasJournal = try Directory.kind(at: journal) == .file
    self.directory = directory
    if hasJournal, prefersJournal || !hasManifest {
      (takes, record, recordDigest, notes) = (try Journal.records(at: journal), nil, nil, [])
      return
    }
    let dataset = try Dataset(directory: directory)
    (takes, record, recordDigest) = (try dataset.takes.map(dataset.record), dataset.record, dataset.recordDigest)
    notes = Self.unpublished(takes, directory, journal)
  }

  /// A sentence on takes that the journal has and the manifest lacks: of a run that has not finished.
  private static func unpublished(_ takes: [TakeRecord], _ directory: String, _ journal: String) -> [String] {
    // A journal that is older than the manifest is read by none but the next run.
    guard let written = try? FileStamp.of(journal).modified,
      let known = try? FileStamp.of(directory + "/" + DatasetFiles.manifest).modified,
      written > known
    else { return [] }
    let published = Dictionary(takes.map { ($0.id, $0) }) { first, _ in first }
    let count = ((try? Journal.contents(at: journal))?.entries ?? [:]).values.count { entry in
      guard let take = published[entry.id] else { return true }
      return take.outcome != entry.outcome || take.inputDigest?.description != entry.inputDigest
    }
    guard count > 0 else { return [] }
    return [
      "A later run has not finished: \(counted(count, "take")) that it converted \(count == 1 ? "is" : "are") not in the manifest and not on this page."
    ]
  }

  /// The part of the split of each episode.
  var splits: [String: String] { record?.parts.mapValues(\.rawValue) ?? [:] }

  /// Opens a take's episode.
  func episode(_ take: TakeRecord) throws -> Episode {
    guard let output = take.output else { throw UsageError("it has no file") }
    guard try Directory.kind(at: directory + "/" + output.path) != nil else { throw UsageError("\(output.path) is missing") }
    return try Dataset.episode(take, in: directory, checks)
  }
}
