import Evidence
import Foundation
import HDF5
import Model
import Steps

/// Compares shards and index with their records.
///
/// The library sees a shard only if its structure is unchanged: libhdf5 has been observed to crash on files with one bit changed. A file
/// that another program has modified is compared object by object, by `ExternalChecks`, which may do that in a separate process.
struct HDF5Check {
  let directory: String

  func check(_ take: TakeRecord, pipelineDigests: Set<String>, into report: inout Verification) {
    guard let output = take.output else { return }
    report.noteFile()
    report.catching(output.path) { report in
      let shard: WrittenShard
      do {
        shard = try WrittenShard(directory + "/" + output.path)
        if try shard.structureDigest() != output.structureDigest { throw FileMap.Damaged(description: "its structure has changed") }
      } catch let damage as FileMap.Damaged {
        return try checkExternal(output, damage.description, into: &report)
      }
      report.noteBytes(shard.size)
      try checkArrays(output, shard, into: &report)
      try checkIdentity(take, output, pipelineDigests, into: &report)
    }
  }

  /// Checks that the record belongs to this shard.
  private func checkIdentity(
    _ take: TakeRecord, _ output: OutputRecord, _ pipelineDigests: Set<String>, into report: inout Verification
  ) throws {
    let file = try File.open(directory + "/" + output.path)
    defer { try? file.close() }
    let stored = try StoredEpisode(file.root)
    func compare(_ what: String, _ found: String?, _ expected: String?) {
      if found != expected {
        report.differ("\(output.path):/", "\(what) is \(found ?? "missing"), the manifest says \(expected ?? "nothing")")
      }
    }
    compare("its take_id", try stored.id(), take.id.text)
    compare("its reader", try stored.reader(), take.reader)
    let pipeline = try file.root.textAttribute("pipeline_sha256")
    if !pipelineDigests.contains(pipeline ?? "") {
      compare("its pipeline_sha256", pipeline, pipelineDigests.sorted().joined(separator: " or "))
    }
    compare("its num_samples", try stored.rowCount().map { "\($0)" }, "\(output.samples)")
    for array in output.arrays {
      let dataset = try file.root.dataset(String(array.path.dropFirst()))
      compare("the digest of \(array.path)", try dataset.textAttribute("sha256"), array.digest?.description)
    }
    if OutputRecord.contentDigest(of: output.arrays) != output.contentDigest {
      report.differ(DatasetFiles.manifest, "content_sha256 of \(output.path) is not that of its datasets")
    }
  }

  /// Checks the logical content of every array, read without the library; the structure is known to be unchanged.
  func checkArrays(_ output: OutputRecord, _ shard: WrittenShard, into report: inout Verification) throws {
    let arrays = output.arrays.sorted { $0.path.utf8.lexicographicallyPrecedes($1.path.utf8) }
    let checksums = try shard.checksums(of: arrays.compactMap { array in Layout(array).map { (String(array.path.dropFirst()), $0) } })
    for array in output.arrays {
      report.noteDataset()
      let name = "\(output.path):\(array.path)"
      report.catching(name) { report in
        guard let layout = Layout(array) else { throw FileMap.Damaged(description: "its type is not one that Takeset writes") }
        if array.digestOf == .rows, layout.type == .bytes {
          // Sequences are part of the structure; only the affected rows are determined here.
          let file = try File.open(directory + "/" + output.path)
          defer { try? file.close() }
          return try ExternalCheck.checkSequences(file.root, array, name, into: &report)
        }
        guard array.digestOf == .rows else {
          let path = String(array.path.dropFirst())
          if try shard.digest(of: path, layout, checksums: checksums[path]) != array.digest {
            report.differ(name, "its content has changed")
          }
          return
        }
        try checkRows(array, layout, shard, checksums, name, into: &report)
      }
    }
  }

  private func checkRows(
    _ array: ArrayRecord, _ layout: Layout, _ shard: WrittenShard, _ checksums: [String: ArraySlice<Int64>], _ name: String,
    into report: inout Verification
  ) throws {
    let path = String(array.path.dropFirst())
    guard let place = shard.map.whole[ShardNames.rowDigests(of: path)], place.count % 32 == 0, place.count / 32 == layout.dims[0] else {
      throw FileMap.Damaged(description: "the digests of its rows are missing")
    }
    let digests = try shard.slice.bytes(place.offset..<(place.offset + Int64(place.count)))
    if Digest.of(digests) != array.digest { report.differ(name, "the digests of its rows have changed") }
    let changed = try shard.changedRows(of: path, layout, digests: digests, checksums: checksums[path])
    for row in changed.prefix(Verification.rowsNamed) { report.differ("\(name)[\(row.row)]", row.reason) }
    if changed.count > Verification.rowsNamed {
      report.differ(name, "\(changed.count - Verification.rowsNamed) more rows have changed")
    }
  }

  /// Checks a file whose structure has changed. Another program may have added to it or rewritten it, as long as everything that the record
  /// names is unchanged; where it has the same length and nothing was added, it is damaged.
  private func checkExternal(_ output: OutputRecord, _ damage: String, into report: inout Verification) throws {
    let found = try report.checkExternalShard(directory + "/" + output.path, output)
    if found.added.isEmpty, try FileStamp.of(directory + "/" + output.path).bytes == output.bytes { report.differ(output.path, damage) }
    report.merge(found)
  }

  // MARK: The index

  /// Checks the index by its bytes, or, if a program has added to it, by its contents: attributes, links, masks, statistics.
  func checkIndex(_ manifest: ManifestRecord, into report: inout Verification) {
    report.noteFile()
    report.catching(DatasetFiles.index) { report in
      let path = directory + "/" + DatasetFiles.index
      let (digest, size) = try SealedFile.digest(of: path)
      report.noteBytes(size)
      // A digest does not say where links lead.
      if digest == manifest.index.digest { return report.merge(try report.checkExternalIndex(path)) }
      if size == manifest.index.bytes { return report.differ(DatasetFiles.index, "its bytes have changed") }
      let before = report.differences.count
      report.merge(try report.checkExternalIndex(path))
      if report.differences.count == before {
        report.note(
          "\(DatasetFiles.index): \(size - manifest.index.bytes) bytes were added by another program; what Takeset wrote is unchanged")
      }
    }
  }
}

extension Layout {
  /// The layout that a record describes.
  init?(_ record: ArrayRecord) {
    guard let type = Datatype(numpyName: record.dtype), !record.shape.isEmpty else { return nil }
    var deflate: Int?
    for filter in record.filters where filter.hasPrefix("deflate ") { deflate = Int(filter.dropFirst("deflate ".count)) }
    let extents = record.shape + (record.chunk ?? [])
    guard extents.allSatisfy({ $0 >= 0 }), Self.bytes(record.shape, type.size) != nil, Self.bytes(record.chunk ?? [], type.size) != nil
    else { return nil }
    self.init(type: type, dims: record.shape, chunk: record.chunk, deflate: deflate)
  }
}
