package import Evidence
import Foundation
package import Model

/// Writes each episode into its own shard, and the index over them; and checks what was written.
package protocol Writer: Step {
  /// Throws `OptionError` when an option cannot be combined with a transform of the pipeline.
  func check(_ transforms: [any Transform]) throws
  /// The arrays an episode would be written as; nothing is read or written.
  func plan(_ episode: Episode) throws -> [ArrayRecord]
  /// Path of a take's shard, relative to the dataset's directory.
  func shardPath(_ id: String) -> String
  /// Path of the index, likewise.
  var indexPath: String { get }
  /// The blocks in which the rows of an episode are written.
  func blocks(_ episode: Episode) -> RowBlocks
  /// Starts a shard under a temporary name next to `path`.
  func open(_ episode: Episode, identity: ShardIdentity, at path: String) throws -> any ShardWriter
  /// Writes the index over all shards, merges their statistics, and derives the parameters that normalize them.
  func publish(
    _ members: [DatasetMember], normalization: (any NormalizationRule)?, identity: ShardIdentity, in directory: String
  ) throws -> PublishedIndex
  /// Compares a shard with its record, and reports differences.
  func check(_ take: TakeRecord, in directory: String, pipelineDigest: String, into report: inout Verification)
  /// Compares the index with the manifest.
  func checkIndex(_ manifest: ManifestRecord, in directory: String, into report: inout Verification)
  /// Whether a file is a shard that Takeset wrote for this take.
  func isShard(_ path: String, of id: String) -> Bool
  /// Opens a shard as the episode that it contains.
  func episode(_ take: TakeRecord, in directory: String) throws -> Episode
}

extension Writer {
  package func check(_ transforms: [any Transform]) throws {}

  /// The bytes of an episode's shard, at most: its arrays before compression, images as pixels, and what holds them together.
  func bytesNeeded(by episode: Episode) -> Double {
    let arrays = (try? plan(episode)) ?? []
    let encoded = episode.streams.values.filter { $0.spec.kind == .image }.reduce(0.0) { sum, stream in
      let size = stream.spec.gridSize
      return sum + 3 * Double(size.width) * Double(size.height) * Double(episode.frames.count)
    }
    return arrays.reduce(100_000 + encoded) { $0 + Double($1.rawBytes) }
  }
}

/// Identity that a shard or an index declares besides its data.
package struct ShardIdentity: Sendable {
  /// Reader of a shard's take; for an index, that of all takes if there is only one, or else the program's name.
  package var reader: String
  package var toolVersion: String
  package var pipelineDigest: String
  package init(reader: String, toolVersion: String, pipelineDigest: String) {
    self.reader = reader
    self.toolVersion = toolVersion
    self.pipelineDigest = pipelineDigest
  }
}

/// A shard being written. Workers prepare blocks of rows concurrently and in any order; blocks are stored one at a time, in order, so that
/// the bytes do not depend on timing.
package protocol ShardWriter: AnyObject, Sendable {
  /// Makes a worker that prepares blocks on one thread.
  func makeWorker() throws -> any ShardWorker
  /// Writes the rest, once every block is stored, and closes and checks the file, which keeps its temporary name.
  func close() throws -> ShardSummary
  /// Puts the closed file in place.
  func publish() throws
  /// Removes the file, unless it is in place.
  func abandon()
}

package protocol ShardWorker: AnyObject {
  func prepare(_ block: Int) throws -> PreparedBlock
}

/// Rows ready to be stored.
package struct PreparedBlock: Sendable {
  package var rows: Int
  package var bytes: Int
  /// Stores them; called once all previous blocks have been stored. Throws `TakeFailure` when too much of the take is unreadable.
  package var store: @Sendable () throws -> Void

  package init(rows: Int, bytes: Int, store: @escaping @Sendable () throws -> Void) {
    (self.rows, self.bytes, self.store) = (rows, bytes, store)
  }
}

/// Result of a finished shard.
package struct ShardSummary: Sendable {
  package var output: OutputRecord
  /// Findings from reading the samples.
  package var findings: [Finding]
  package init(output: OutputRecord, findings: [Finding]) { (self.output, self.findings) = (output, findings) }
}

/// A take in the index.
package struct DatasetMember: Sendable {
  package var id: String
  package var samples: Int
  package var part: SplitPart

  package init(id: String, samples: Int, part: SplitPart) { (self.id, self.samples, self.part) = (id, samples, part) }
}

/// Result of publishing the index.
package struct PublishedIndex: Sendable {
  package var path: String
  package var bytes: Int64
  package var digest: Digest
  /// Statistics by key; keys that have different meanings in different takes have the unit appended.
  package var statistics: [String: Statistics]
  /// Parameters that normalize keys of `statistics`.
  package var normalizations: [String: Normalization] = [:]
  /// Findings about the dataset as a whole.
  package var findings: [Finding]

  package init(path: String, bytes: Int64, digest: Digest, statistics: [String: Statistics], findings: [Finding]) {
    (self.path, self.bytes, self.digest, self.statistics, self.findings) = (path, bytes, digest, statistics, findings)
  }
}

/// The names of a dataset's files that do not depend on the writer.
package enum DatasetFiles {
  package static let manifest = "manifest.json"
  package static let journal = "journal.jsonl"
  package static let episodes = "episodes"

  /// What a file or folder of a dataset is, for somebody who takes it for a recording; `nil` for anything else. Looks at names and first
  /// bytes only.
  static func word(for path: String) -> String? {
    let url = URL(fileURLWithPath: path)
    let folder = url.deletingLastPathComponent().path
    func isIndex(_ path: String) -> Bool {
      path.hasSuffix("/" + DatasetIndex.path) && (try? Directory.kind(at: path)) == .file
        && (try? InputFile.start(of: path, count: 8)) == [0x89, 0x48, 0x44, 0x46, 0x0D, 0x0A, 0x1A, 0x0A]
    }
    if isIndex(path) {
      return isDataset(folder)
        ? "this is the index of a Takeset dataset; its folder is \(folder): takeset inspect \(shellWord(folder))"
        : "this is the index of a Takeset dataset, without the manifest.json and the episodes of its folder, which are needed too"
    }
    if isIndex(path + "/" + DatasetIndex.path) {
      return "the directory has the index of a Takeset dataset, but not its manifest.json and journal.jsonl, which are needed too"
    }
    let parent = url.deletingLastPathComponent().deletingLastPathComponent().path
    if path.hasSuffix(".h5"), folder.hasSuffix("/" + episodes), isDataset(parent) {
      return "this is an episode of a Takeset dataset; its folder is \(parent): takeset inspect \(shellWord(parent))"
    }
    return nil
  }

  /// The files that commands of Takeset write into a dataset's directory.
  static let files =
    [
      manifest, journal, TaskList.name, SignedEnvelope.file, DatasetDescription.card, DatasetDescription.croissant,
      DatasetDescription.crate,
    ] + Registry.writers.map { $0.init().indexPath }

  /// A file or folder in a dataset's directory that no command of Takeset writes there, by its name.
  static func foreign(in directory: String) throws -> String? {
    for folder in ["", "/\(episodes)", "/\(TaskResults.folder)"] where try Directory.kind(at: directory + folder) == .directory {
      let foreign = try Directory.members(of: directory + folder).first { member in
        if isLeftover(member, isEpisode: folder == "/\(episodes)") { return false }
        switch (folder, member.kind) {
        case ("", .file): return !files.contains(member.name)
        case ("", .directory): return ![episodes, TaskResults.folder].contains(member.name)
        case ("/\(episodes)", .file): return !member.name.hasSuffix(".h5")
        case (_, .file): return !member.name.hasSuffix(".json") && member.name != TaskList.publishedMark
        default: return true
        }
      }
      if let foreign { return "\(folder.dropFirst())\(folder.isEmpty ? "" : "/")\(foreign.name)" }
    }
    return nil
  }

  /// Whether a run has left it behind; other programs have partial files, too.
  static func isLeftover(_ member: Directory.Member, isEpisode: Bool) -> Bool {
    guard SealedFile.isTemporary(member.name) else { return false }
    let name = String(member.name.dropFirst().dropLast(".partial".count))
    if member.kind == .directory { return !isEpisode && name.hasPrefix(AttemptDirectory.prefix) }
    return member.kind == .file && (isEpisode ? name.hasSuffix(".h5") : files.contains(name))
  }

  /// Whether a directory has the files of a dataset.
  package static func isDataset(_ directory: String) -> Bool {
    [manifest, journal].allSatisfy { (try? Directory.kind(at: directory + "/" + $0)) == .file }
  }
}
