import Foundation
package import Model

/// A written dataset: its takes as the manifest records them, and the written ones as episodes.
///
/// Code that packs, exports or shows datasets reads them through this type.
package struct Dataset: Sendable {
  package let directory: String
  package let record: ManifestRecord
  /// SHA-256 of the manifest's record, as the manifest gives it.
  package let recordDigest: String
  private let writer: any Writer

  /// Opens a dataset directory. Throws `UsageError` if it is not a dataset of this version.
  package init(directory: String) throws {
    let manifest: ManifestFile
    do {
      manifest = try ManifestFile(directory)
    } catch {
      throw UsageError("\(directory) is not a Takeset dataset: manifest.json cannot be read (\(error))")
    }
    guard let record = manifest.record, let writer = record.writer else {
      throw UsageError("\(directory) is not a dataset of this version of Takeset: \(manifest.damage.joined(separator: "; "))")
    }
    (self.directory, self.record, self.writer) = (directory, record, writer)
    recordDigest = manifest.recordDigest
  }

  package var takes: [TakeRecord] { record.takes }

  /// The takes that have an episode, in the order of the index.
  package var written: [TakeRecord] { takes.filter { $0.output != nil } }

  /// The episode of a written take. Throws `UsageError` if there is none.
  package func episode(_ id: String) throws -> Episode {
    guard let take = written.first(where: { $0.id == id }) else { throw UsageError("\(directory) has no episode \(id)") }
    return try episode(take)
  }

  /// The episode of a written take.
  func episode(_ take: TakeRecord) throws -> Episode {
    guard DatasetFiles.isInside(take.output?.path ?? "") else { throw UsageError("the path of episode \(take.id) is outside \(directory)") }
    return try writer.episode(take, in: directory)
  }
}
