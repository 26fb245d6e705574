package import Datasets
package import Evidence
import Foundation
import HDF5
import Model
import Runs
import Steps

/// Packing of a dataset directory into one self-contained HDF5 file; stored chunks are copied unchanged.
package enum Pack {
  /// Packs a dataset; returns the number of episodes, the file's SHA-256 for publication, and the notes of the check, which name what other
  /// programs have added to shards. What they added to the groups of an episode is packed, too. No run can write to the dataset meanwhile.
  ///
  /// Throws `UsageError` if the directory is not a dataset, `ExportRefusal` for one that is damaged or not finished, `OutputExists` while
  /// another command writes the file, `OutputFailure` when it cannot be written or a run writes to the dataset, `CancellationError`.
  ///
  /// - Parameter checks: The check of shards that another program has written to.
  /// - Parameter copying: Calls `copy` with this path in place of the output, best in another process.
  package static func pack(
    directory: String, output: String, threads: Int = 1, checks: Verification.ExternalChecks = .inProcess,
    isCancelled: () -> Bool = { false }, copying: (_ path: String) throws -> Void
  ) throws -> (episodes: Int, digest: Digest, notes: [String]) {
    guard try Directory.kind(at: output) == nil else {
      throw UsageError("\(output) already exists; choose another name or remove it")
    }
    let lock = try OutputDirectory.ReadLock(directory)
    defer { lock.release() }
    let notes = try check(directory, threads, checks)
    let source = try Source(directory)
    let staged = try StagedDirectory(output)
    do {
      try checkSpace(for: source.files, output)
      let path = staged.path + "/packed.h5"
      try copying(path)
      let digest = try SealedFile.digest(of: path).digest
      if isCancelled() { throw CancellationError() }
      try staged.commit(file: "packed.h5")
      return (source.demos.count, digest, notes)
    } catch {
      // Before the file is removed, for the free space that it reports.
      let failure = OutputFailure(error, writing: output, isResumed: false)
      staged.discard()
      throw error is OutputFailure || error is OutputExists || error is ExportRefusal || error is CancellationError ? error : failure
    }
  }

  /// Compares everything that is packed with its digests: the packed file has digests of its own, by which damage would be sound.
  ///
  /// Returns the notes of the check.
  private static func check(_ directory: String, _ threads: Int, _ checks: Verification.ExternalChecks) throws -> [String] {
    let dataset = try Dataset(directory: directory)
    let entries = try Journal.contents(at: directory + "/" + DatasetFiles.journal).entries
    if let other = entries.values.first(where: { !dataset.record.shardDigests.contains($0.pipeline) }) {
      throw ExportRefusal(
        "\(directory) is not finished: \(other.id) was converted by another pipeline than manifest.json names; run takeset run again")
    }
    let report = try Verification(directory: directory, inputs: false, threads: threads, external: checks)
    guard let first = report.differences.first else { return report.notes }
    throw ExportRefusal("\(directory) is damaged: \(first.path) \(first.message); takeset verify \(directory) says what else differs")
  }

  /// Copies a dataset into a new HDF5 file. On a full disk, libhdf5 may crash.
  package static func copy(_ directory: String, to path: String) throws {
    let source = try Source(directory)
    let file = try File.create(at: path)
    do {
      try fill(file, source)
      try file.close()
    } catch {
      file.abandon()
      throw error
    }
  }

  /// A dataset's index, and the shard of each of its episodes.
  private struct Source {
    let dataset: Dataset
    let index: File
    let demos: [String]

    var shards: [String] { dataset.written.compactMap { $0.output.map { dataset.directory + "/" + $0.path } } }
    /// Paths of the index and of the shards.
    var files: [String] { [dataset.directory + "/" + dataset.record.index.path] + shards }

    init(_ directory: String) throws {
      dataset = try Dataset(directory: directory)
      do {
        index = try File.open(directory + "/" + dataset.record.index.path)
      } catch {
        throw UsageError("\(directory) is not a Takeset dataset: \(error)")
      }
      demos = try index.root.group(ShardNames.allData).members().map(\.name)
      guard demos.count == dataset.written.count else {
        throw UsageError(
          "\(directory)/dataset.h5 has \(demos.count) episodes, manifest.json \(dataset.written.count); run takeset run again")
      }
    }
  }

  /// A full disk may crash libhdf5 as it copies. What is packed is about as large as what it is copied from.
  private static func checkSpace(for files: [String], _ output: String) throws {
    let bytes = files.reduce(0.0) { $0 + Double((try? FileStamp.of($1).bytes) ?? 0) }
    guard let free = OutputFailure.freeBytes(at: output), free < bytes else { return }
    throw OutputFailure(
      "cannot write \(output): No space left on device (\(Int(bytes / 1e6)) MB are needed, \(Int(free / 1e6)) MB are free there)")
  }

  private static func fill(_ file: File, _ source: Source) throws {
    let index = source.index
    try copyAttributes(["format", "format_version", "tool_version", "pipeline_sha256"], from: index.root, to: file.root)
    let data = try file.root.createGroup(ShardNames.allData, isSmall: false)
    let meta = try file.root.createGroup(ShardNames.allMeta, isSmall: false)
    let labels = source.dataset.record.labels
    let ids = source.dataset.written.filter { $0.output != nil }.map(\.id.text)
    for ((demo, shard), id) in zip(zip(source.demos, source.shards), ids) {
      let episode = try File.open(shard)
      for (section, copy) in [(ShardNames.allData, data), (ShardNames.allMeta, meta)] {
        // Another program may have added what leads to other files.
        do {
          try episode.root.checkIsWhole("\(section)/\(ShardNames.demo)")
        } catch let error as HDF5Error {
          throw ExportRefusal(
            "\(error.target) was added by another program and cannot be packed, because \(error.message); remove it from the shard")
        }
        try copy.copy(ShardNames.demo, from: episode.root.group(section), as: demo)
      }
      try episode.close()
      // Where robomimic and robocasa look for the language of an episode.
      if let task = labels[id]?.task {
        try data.group(demo).setAttribute("ep_meta", JSONValue.object(["lang": .string(task)]).canonicalText)
      }
    }
    let indexData = try index.root.group(ShardNames.allData)
    try copyAttributes(["env_args"], from: indexData, to: data)
    try data.setAttribute("total", indexData.integerAttribute("total") ?? 0)
    // The library crashes where it copies many attributes that are texts.
    try DatasetIndex.write(zip(source.demos, ids).map { ($0, labels[$1]) }, to: file.root)
    for group in [ShardNames.masks, ShardNames.totals] {
      try index.root.checkIsWhole(group)
      try file.root.copy(group, from: index.root, as: group)
    }
  }

  private static func copyAttributes(_ keys: [String], from source: Object, to target: Object) throws {
    for key in keys.sorted() {
      if let value = try source.textAttribute(key) { try target.setAttribute(key, value) }
    }
  }
}
