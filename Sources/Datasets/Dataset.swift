package import Evidence
import Foundation
import HDF5
package import Model
package import Steps

/// A written dataset: its takes as the manifest records them, and the written ones as episodes.
///
/// Code that packs, exports or shows datasets reads them through this type. Takes are entries of a few hundred bytes; the record of one is
/// read from the manifest when it is asked for.
package struct Dataset: Sendable {
  package let directory: String
  package let record: ManifestRecord
  /// SHA-256 of the manifest's record, as the manifest gives it.
  package let recordDigest: String
  package let takes: [TakeEntry]
  /// The takes that have an episode, in the order of the index.
  package let written: [TakeEntry]
  private let manifest: ManifestFile

  /// Opens a dataset directory. Throws `UsageError` if it is not a dataset of this version.
  package init(directory: String) throws { self = try Self.opened(directory).dataset }

  /// The dataset in a directory, and what the manifest says of its last run. Throws as `init` does.
  package static func opened(_ directory: String) throws -> (dataset: Dataset, run: JSONValue) {
    let manifest: ManifestFile
    do {
      manifest = try ManifestFile(directory)
    } catch {
      throw UsageError(DatasetFiles.unreadable(directory, error))
    }
    guard let record = manifest.record, record.isOfKnownWriter else {
      let damage = (try? manifest.damage()) ?? []
      throw UsageError("\(directory) is not a dataset of this version of Takeset: \(damage.joined(separator: "; "))")
    }
    return (Dataset(directory, manifest, record), manifest.run)
  }

  private init(_ directory: String, _ manifest: ManifestFile, _ record: ManifestRecord) {
    (self.directory, self.manifest, self.record) = (directory, manifest, record)
    (recordDigest, takes) = (manifest.recordDigest, manifest.takes)
    // Where every take is written, both are one array.
    written = takes.allSatisfy { $0.output != nil } ? takes : takes.filter { $0.output != nil }
  }

  /// The record of a take. Throws `UsageError` where it cannot be read.
  package func record(of take: TakeEntry) throws -> TakeRecord {
    do {
      return try manifest.record(of: take)
    } catch {
      throw UsageError("\(directory)/\(DatasetFiles.manifest): the record of \(take.id) cannot be read (\(error))")
    }
  }

  /// Where a take was when it was converted; `nil` if that is not recorded.
  package func location(of id: String) -> String? { (try? manifest.locations { $0 == id })?[id] }

  /// The part of each written episode.
  package var parts: [String: SplitPart] {
    var parts: [String: SplitPart] = [:]
    for part in SplitPart.allCases {
      for id in record.splits[part.rawValue]?.array ?? [] { if let id = id.string { parts[id] = part } }
    }
    return parts
  }

  /// The episode of a written take. Throws `ExportRefusal` where its shard cannot be read.
  package func episode(_ take: TakeEntry) throws -> Episode {
    let record = try record(of: take)
    do {
      return try Self.episode(record, in: directory)
    } catch {
      throw ExportRefusal("\(take.id): \(Self.problem(error, record))")
    }
  }

  /// Opens a shard as the episode that it contains. Throws what `problem` has words for.
  package static func episode(_ take: TakeRecord, in directory: String) throws -> Episode {
    let path = directory + "/" + (take.output?.path ?? DatasetFiles.shard(of: take.id.text))
    var episode = try ShardReader(path: path, id: take.id.text, structure: take.output?.structureDigest).episode()
    episode.id = take.id
    return episode
  }

  /// The reason why a take's file cannot be shown, as a sentence.
  package static func problem(_ error: any Error, _ take: TakeRecord) -> String {
    let path = take.output?.path ?? "its file"
    switch error {
    case let error as UsageError: return error.message
    case let error as FileError: return "\(path) cannot be read: \(error.reason)"
    case let error as FileMap.Damaged: return "\(path): \(error.description)"
    case let error as HDF5Error: return "\(path) cannot be read: \(error.message)"
    case let error as TakeFailure: return "\(path) cannot be read: \(error.message)"
    default: return "\(path) cannot be read: \(error)"
    }
  }
}
