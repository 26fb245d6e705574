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

  package enum ImageEncoding: String, OptionChoice {
    case raw, jpeg, png
    case jpegSource = "jpeg-source"
  }

  @StepOption("byte shuffle and deflate for everything but images; 0 is none") package var compression = Compression.level(4)
  @StepOption(
    "raw: images as RGB arrays; jpeg: as JPEG files, where images that no step changed keep the source's own bytes; png: as PNG files, without loss; jpeg-source: only the source's own JPEG files"
  )
  package var image = ImageEncoding.raw
  @StepOption("quality of JPEG files, with full color resolution above 90 (libjpeg's scale)", 1...100) package var quality = 95
  @StepOption("the same for raw images; sensor noise compresses little, so the default is none") var imageCompression = Compression.level(0)

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

  package func blocks(_ episode: Episode) -> RowBlocks { ShardLayout.blocks(of: episode) }

  package func open(_ episode: Episode, identity: ShardIdentity, at path: String) throws -> any ShardWriter {
    try HDF5Shard(layout: ShardLayout(episode, writer: self), identity: identity, path: path, name: DatasetFiles.shard(of: episode.id))
  }

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
