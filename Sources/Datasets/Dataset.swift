package import Evidence
import Foundation
import HDF5
package import Model
package import Steps

/// A written dataset: its takes as the manifest records them, and the written ones as episodes.
///
/// Code that packs, exports or shows datasets reads them through this type. Takes are entries of a few hundred bytes; the record of one is
/// read from the manifest when it is asked for.
///
///     let dataset = try Dataset(directory: "dataset")
///     for take in dataset.written { try show(dataset.episode(take)) }
package struct Dataset: Sendable {
  package let directory: String
  package let record: ManifestRecord
  /// SHA-256 of the manifest's record, as the manifest gives it.
  package let recordDigest: String
  package let takes: [TakeEntry]
  /// The takes that have an episode, in the order of the index.
  package let written: [TakeEntry]
  private let manifest: ManifestFile
  private let checks: Verification.ExternalChecks

  /// Opens a dataset directory. Throws `UsageError` if it is not a dataset of this version.
  ///
  /// - Parameter checks: The check of a shard that another program has written to, before it is read. `none` refuses it.
  package init(directory: String, checks: Verification.ExternalChecks = .none) throws {
    self = try Self.opened(directory, checks: checks).dataset
  }

  /// Opens the dataset in a directory, and returns the manifest's record of its last run with it. Throws as `init` does.
  package static func opened(
    _ directory: String, checks: Verification.ExternalChecks = .none
  ) throws -> (dataset: Dataset, run: JSONValue) {
    DatasetFiles.settleIndex(in: directory)
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
    return (Dataset(directory, manifest, record, checks), manifest.run)
  }

  private init(_ directory: String, _ manifest: ManifestFile, _ record: ManifestRecord, _ checks: Verification.ExternalChecks) {
    (self.directory, self.manifest, self.record, self.checks) = (directory, manifest, record, checks)
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

  /// Returns the path of a take when it was converted; `nil` if that is not recorded.
  package func location(of id: String) -> String? { (try? manifest.locations { $0 == id })?[id] }

  /// The folder of the pipeline file of the last run, where the pipeline has steps in Python, whose paths are from it.
  package var pipelineFolder: String? { manifest.run["pipeline_folder"]?.string }

  /// Writes the index and the manifest with other labels. Both change in one moment, with the manifest; no shard is opened.
  ///
  /// Throws `UsageError` where another program has changed one of them.
  package func write(_ labels: LabelCollection) throws {
    let (index, pending) = (directory + "/" + DatasetFiles.index, directory + "/" + DatasetFiles.pendingIndex)
    let isSound = (try? SealedFile.digest(of: index).digest) == record.index.digest
    guard isSound, try ManifestFile.isAsWritten(in: directory) else {
      let name = isSound ? DatasetFiles.manifest : DatasetFiles.index
      throw UsageError("\(directory)/\(name) was changed after it was written; run takeset run again, which writes it anew")
    }
    let parts = parts
    let members = written.map {
      DatasetMember(id: $0.id.text, samples: $0.framesOut, part: parts[$0.id.text] ?? .train, labels: labels[$0.id.text])
    }
    let identity = ShardIdentity(
      ofIndex: written.map(\.reader), toolVersion: record.tool["version"]?.string ?? "", pipelineDigest: record.pipelineDigest)
    let published = try DatasetIndex(members: members, directory: directory, identity: identity, earlier: index).write()
    let findings = record.findings + labels.findings.filter { !record.findings.contains($0) }
    // What else was published stays as it is. A split by tasks is dealt again by the next run.
    let split = record.pipeline["transforms"]?.array?.compactMap { $0["split"] }.last
    let lines = (manifest.run["index"]?.string ?? "").split(separator: "\n").dropFirst().map(String.init)
    let said = lines.first { $0.hasPrefix(LabelCollection.stampWord) }
    let others = lines.filter { $0 != said }
    let stamp =
      [DatasetFiles.indexStamp(pending)] + (split?["stratify"] == "task" ? [] : others) + [labels.stamp(after: said)].compactMap(\.self)
    try manifest.rewrite(
      to: directory + "/" + DatasetFiles.manifest,
      {
        ($0["labels"], $0["index"]) = (labels.json, published.json)
        $0["findings"] = .array(findings.map(\.json))
      }, stamp: stamp.joined(separator: "\n"))
    DatasetFiles.settleIndex(in: directory, isWriter: true)
  }

  /// The part of each written episode.
  package var parts: [String: SplitPart] { record.parts }

  /// The episode of a written take. Throws `ExportRefusal` where its shard cannot be read.
  package func episode(_ take: TakeEntry) throws -> Episode {
    let record = try record(of: take)
    do {
      return try episode(record)
    } catch {
      throw ExportRefusal("\(take.id): \(Self.problem(error, record))")
    }
  }

  /// The episode that a record of this dataset describes. Throws what `problem` has words for.
  package func episode(_ record: TakeRecord) throws -> Episode { try Self.episode(record, in: directory, checks) }

  /// The shard of an output that a record of this dataset names. Throws as `RecordedShard` does.
  package func shard(_ output: OutputRecord) throws -> RecordedShard {
    try RecordedShard(directory + "/" + output.path, output, checks)
  }

  /// Opens a shard as the episode that it contains, with the finding `added` where another program has written to it.
  ///
  /// Throws what `problem` has words for.
  package static func episode(_ take: TakeRecord, in directory: String, _ checks: Verification.ExternalChecks) throws -> Episode {
    guard let output = take.output else { throw UsageError("it has no file") }
    var episode = try ShardReader(path: directory + "/" + output.path, id: take.id.text, output, checks).episode()
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
