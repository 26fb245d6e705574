import Foundation
package import Model

/// A dataset that was written: its takes as the manifest records them, and each written one as an episode again.
///
/// What reads datasets, to check, pack, export or show them, does it through this.
package struct Dataset: Sendable {
  package let directory: String
  package let record: ManifestRecord
  private let writer: any Writer

  /// Throws `UsageError` for what is not a dataset of this version.
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
  }

  package var takes: [TakeRecord] { record.takes }

  /// Those that have an episode, in the order of the index.
  package var written: [TakeRecord] { takes.filter { $0.output != nil } }

  /// The episode of a written take. Throws `UsageError` where there is none.
  package func episode(_ id: String) throws -> Episode {
    guard let take = written.first(where: { $0.id == id }) else { throw UsageError("\(directory) has no episode \(id)") }
    guard DatasetFiles.isInside(take.output?.path ?? "") else { throw UsageError("the path of episode \(id) leads out of \(directory)") }
    return try writer.episode(take, in: directory)
  }
}
