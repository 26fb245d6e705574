import Foundation
import HDF5
package import Model
package import Steps

/// Writes each episode as a robomimic-style HDF5 file, one frame per chunk, with filters that every reader has.
///
///     writer:
///       hdf5: {compression: 4, image-compression: 0}
package struct HDF5Writer: Writer {
  package static let name = "hdf5"
  package static let summary = "One robomimic-style HDF5 shard per episode, and dataset.h5 that links them"

  package var storage = SampleStorage()

  package init() {}

  /// Throws `OptionError` where images are to be stored unchanged (`jpeg-source`) and a transform changes them.
  package func check(_ transforms: [any Transform]) throws {
    guard storage.image == .jpegSource, let step = transforms.first(where: { $0.changesImages }) else { return }
    throw OptionError(
      "image",
      "jpeg-source stores the source's files unchanged, and the pipeline has \(type(of: step).name); remove the step, or store images as jpeg"
    )
  }

  /// Returns the records of the arrays that have a digest, without their digests, which depend on the data.
  package func plan(_ episode: Episode) throws -> [ArrayRecord] {
    try ShardLayout(episode, storage).arrays.filter { $0.digestOf != nil }.map(\.record)
  }

  package func blocks(_ episode: Episode) -> RowBlocks { ShardLayout.blocks(of: episode) }

  /// Creates the file under a temporary name, with attributes and empty arrays.
  package func open(_ episode: Episode, identity: ShardIdentity, at path: String) throws -> any ShardWriter {
    try HDF5Shard(layout: ShardLayout(episode, storage), identity: identity, path: path, name: DatasetFiles.shard(of: episode.id.text))
  }

  /// Writes `dataset.h5`, whose members are external links to the shards.
  package func publish(
    _ members: [DatasetMember], normalization: (any NormalizationRule)?, identity: ShardIdentity, in directory: String
  ) throws -> PublishedIndex {
    try DatasetIndex(members: members, directory: directory, identity: identity, normalization: normalization).write()
  }

  /// The version of the file layout, as in `docs/layout.md`.
  package static let formatVersion = "2.0.0"
}

/// Full disks are recognized by its code.
extension HDF5Error: StorageError {}
