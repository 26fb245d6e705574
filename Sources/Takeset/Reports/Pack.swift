package import Evidence
import Foundation
import HDF5
import Model

/// Packing of a dataset directory into one self-contained HDF5 file; stored chunks are copied unchanged.
package enum Pack {
  /// Writes the file; returns the number of episodes, and the file's SHA-256 for publication. Throws `UsageError` if the directory is not a
  /// dataset, `OutputFailure` when the file cannot be written.
  package static func pack(directory: String, output: String) throws -> (episodes: Int, digest: Digest) {
    guard try Directory.kind(at: output) == nil else {
      throw UsageError("\(output) already exists; choose another name or remove it")
    }
    let dataset = try Dataset(directory: directory)
    let index: File
    do {
      index = try File.open(directory + "/" + dataset.record.index.path)
    } catch {
      throw UsageError("\(directory) is not a Takeset dataset: \(error)")
    }
    defer { try? index.close() }
    let shards = dataset.written.compactMap { $0.output?.path }.filter(DatasetFiles.isInside)
    let demos = try index.root.group("data").members()
    guard demos.count == shards.count else {
      throw UsageError("\(directory)/dataset.h5 has \(demos.count) episodes, manifest.json \(shards.count); run takeset run again")
    }
    let path = OutputDirectory.absolute(output)
    let temporary = SealedFile.temporaryPath(for: path)
    unlink(temporary)
    do {
      let file = try File.create(at: temporary)
      try copyAttributes(["format", "format_version", "tool_version", "pipeline_sha256"], from: index.root, to: file.root)
      let data = try file.root.createGroup("data", isSmall: false)
      let meta = try file.root.createGroup("meta", isSmall: false)
      for (demo, shard) in zip(demos, shards) {
        let source = try File.open(directory + "/" + shard)
        try data.copy("demo_0", from: source.root.group("data"), as: demo.name)
        try meta.copy("demo_0", from: source.root.group("meta"), as: demo.name)
        try source.close()
      }
      let indexData = try index.root.group("data")
      try copyAttributes(["env_args"], from: indexData, to: data)
      try data.setAttribute("total", indexData.integerAttribute("total") ?? 0)
      for group in ["mask", "stats"] { try file.root.copy(group, from: index.root, as: group) }
      try file.close()
      let digest = try SealedFile.digest(of: temporary).digest
      try SealedFile.seal(temporary, as: path)
      return (demos.count, digest)
    } catch {
      unlink(temporary)
      throw OutputFailure(error, writing: output)
    }
  }

  private static func copyAttributes(_ keys: [String], from source: Object, to target: Object) throws {
    for key in keys.sorted() {
      if let value = try source.textAttribute(key) { try target.setAttribute(key, value) }
    }
  }
}
