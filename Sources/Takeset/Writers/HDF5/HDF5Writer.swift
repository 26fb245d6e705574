import Foundation
import HDF5
package import Model

/// Writes each episode as a robomimic-style HDF5 file, one frame per chunk, with filters that every reader has.
///
///     writer:
///       hdf5: {compression: 4, image-compression: 0}
package struct HDF5Writer: Writer {
  package static let name = "hdf5"
  package static let summary = "One robomimic-style HDF5 shard per episode, and dataset.h5 that links them"

  package enum ImageEncoding: String, OptionChoice {
    case raw, jpeg, png
    case jpegSource = "jpeg-source"
  }

  @Option("byte shuffle and deflate for everything but images; 0 is none") var compression = Compression.level(4)
  @Option(
    "raw: images as RGB arrays; jpeg: as JPEG files, where images that no step changed keep the source's own bytes; png: as PNG files, without loss; jpeg-source: only the source's own JPEG files"
  )
  var image = ImageEncoding.raw
  @Option("quality of JPEG files, with full color resolution above 90 (libjpeg's scale)", 1...100) var quality = 95
  @Option("the same for raw images; sensor noise compresses little, so the default is none") var imageCompression = Compression.level(0)

  package init() {}

  package func check(_ transforms: [any Transform]) throws {
    guard image == .jpegSource, let step = transforms.first(where: { type(of: $0).changesImages }) else { return }
    throw OptionError(
      "image",
      "jpeg-source stores the source's files unchanged, and the pipeline has \(type(of: step).name); remove the step, or store images as jpeg"
    )
  }

  package func plan(_ episode: Episode) throws -> [ArrayRecord] {
    try ShardLayout(episode, writer: self).arrays.filter { $0.digestOf != nil }.map(\.record)
  }

  package func shardPath(_ id: String) -> String { "\(DatasetFiles.episodes)/\(id).h5" }
  package var indexPath: String { DatasetIndex.path }

  package func blocks(_ episode: Episode) -> RowBlocks { ShardLayout.blocks(of: episode) }

  package func open(_ episode: Episode, identity: ShardIdentity, at path: String) throws -> any ShardWriter {
    try HDF5Shard(layout: ShardLayout(episode, writer: self), identity: identity, path: path, name: shardPath(episode.id))
  }

  package func publish(
    _ members: [DatasetMember], normalization: (any NormalizationRule)?, identity: ShardIdentity, in directory: String
  ) throws -> PublishedIndex {
    try DatasetIndex(members: members, directory: directory, identity: identity, normalization: normalization, shardPath: shardPath).write()
  }

  package func check(_ take: TakeRecord, in directory: String, pipelineDigest: String, into report: inout Verification) {
    HDF5Check(directory: directory).check(take, pipelineDigest: pipelineDigest, into: &report)
  }

  package func checkIndex(_ manifest: ManifestRecord, in directory: String, into report: inout Verification) {
    HDF5Check(directory: directory).checkIndex(manifest, shardPath: shardPath, into: &report)
  }

  package func isShard(_ path: String, of id: String) -> Bool {
    // Nobody has recorded what the file was, so the library must not see it: it may be damaged.
    let times = "meta/demo_0/timestamp_ns"
    // Of a long take the times are in chunks.
    guard let shard = try? WrittenShard(path), shard.map.whole[times] != nil || shard.map.chunks[times] != nil else { return false }
    return (try? shard.holds(id)) == true
  }

  package func episode(_ take: TakeRecord, in directory: String) throws -> Episode {
    let path = directory + "/" + (take.output?.path ?? shardPath(take.id))
    return try ShardReader(path: path, id: take.id, structure: take.output?.structureDigest).episode()
  }

  /// The version of the file layout, as in `docs/layout.md`.
  package static let formatVersion = "2.0.0"
}
