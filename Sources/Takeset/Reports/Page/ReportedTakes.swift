import Foundation
import HDF5
import Model

/// The takes that a page shows: those of a published dataset, or those that an unfinished run has converted so far.
struct ReportedTakes: Sendable {
  let directory: String
  let takes: [TakeRecord]
  /// The manifest's record; `nil` while a run has not published it.
  let record: ManifestRecord?
  let recordDigest: String?
  let writer: any Writer
  /// What is wrong with the manifest, in sentences.
  let notes: [String]

  /// Reads the manifest, or the journal where there is no manifest or the journal is preferred.
  ///
  /// Throws `UsageError` if the directory is not a dataset of this version.
  init(_ directory: String, prefersJournal: Bool = false) throws {
    let journal = directory + "/" + DatasetFiles.journal
    let hasManifest = try Directory.kind(at: directory + "/" + DatasetFiles.manifest) != nil
    let hasJournal = try Directory.kind(at: journal) == .file
    self.directory = directory
    if hasJournal, prefersJournal || !hasManifest {
      (takes, record, recordDigest, notes) = (try Journal.records(at: journal), nil, nil, [])
      writer = Registry.defaultWriter.init()
      return
    }
    let dataset = try Dataset(directory: directory)
    guard let writer = dataset.record.writer else { throw UsageError("\(directory) names a writer that this version does not have") }
    (takes, record, recordDigest, self.writer) = (try dataset.takes.map(dataset.record), dataset.record, dataset.recordDigest, writer)
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
      "A later run has not finished: \(Figures.counted(count, "take")) that it converted \(count == 1 ? "is" : "are") not in the manifest and not on this page."
    ]
  }

  /// The part of the split of each episode.
  var splits: [String: String] {
    var parts: [String: String] = [:]
    for part in SplitPart.allCases {
      for id in record?.splits[part.rawValue]?.array ?? [] { if let id = id.string { parts[id] = part.rawValue } }
    }
    return parts
  }

  /// Opens a take's episode.
  func episode(_ take: TakeRecord) throws -> Episode {
    guard let output = take.output else { throw UsageError("it has no file") }
    guard try Directory.kind(at: directory + "/" + output.path) != nil else { throw UsageError("\(output.path) is missing") }
    return try writer.episode(take, in: directory)
  }

  /// The reason why a take's file cannot be shown, as a sentence.
  static func problem(_ error: any Error, _ take: TakeRecord) -> String {
    let path = take.output?.path ?? "its file"
    switch error {
    case let error as UsageError: return error.message
    case let error as FileError: return "\(path) cannot be read: \(error.reason)"
    case let error as FileMap.Damaged: return "\(path): \(error.description)"
    case let error as HDF5.HDF5Error: return "\(path) cannot be read: \(error.message)"
    case let error as TakeFailure: return "\(path) cannot be read: \(error.message)"
    default: return "\(path) cannot be read: \(error)"
    }
  }
}
