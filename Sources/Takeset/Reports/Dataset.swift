import Evidence
import Foundation
package import Model

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
  private let writer: any Writer

  /// Opens a dataset directory. Throws `UsageError` if it is not a dataset of this version.
  package init(directory: String) throws { self = try Self.opened(directory).dataset }

  /// The dataset in a directory, and what the manifest says of its last run. Throws as `init` does.
  static func opened(_ directory: String) throws -> (dataset: Dataset, run: JSONValue) {
    let manifest: ManifestFile
    do {
      manifest = try ManifestFile(directory)
    } catch {
      throw UsageError("\(directory) is not a Takeset dataset: manifest.json cannot be read (\(error))")
    }
    guard let record = manifest.record, let writer = record.writer else {
      let damage = (try? manifest.damage()) ?? []
      throw UsageError("\(directory) is not a dataset of this version of Takeset: \(damage.joined(separator: "; "))")
    }
    return (Dataset(directory, manifest, record, writer), manifest.run)
  }

  private init(_ directory: String, _ manifest: ManifestFile, _ record: ManifestRecord, _ writer: any Writer) {
    (self.directory, self.manifest, self.record, self.writer) = (directory, manifest, record, writer)
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
  func location(of id: String) -> String? { (try? manifest.locations { $0 == id })?[id] }

  /// The episode of a written take. Throws `UsageError` if there is none.
  package func episode(_ id: String) throws -> Episode {
    guard let take = written.first(where: { $0.id == id }) else { throw UsageError("\(directory) has no episode \(id)") }
    return try episode(take)
  }

  /// The episode of a written take. Throws `ExportRefusal` where its shard cannot be read.
  func episode(_ take: TakeEntry) throws -> Episode {
    let record = try record(of: take)
    do {
      return try writer.episode(record, in: directory)
    } catch {
      throw ExportRefusal("\(take.id): \(ReportedTakes.problem(error, record))")
    }
  }
}
