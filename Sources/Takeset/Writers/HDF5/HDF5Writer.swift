import Foundation
import HDF5
package import Model

/// Writes each episode as a robomimic-style HDF5 file, one frame a chunk, with filters every reader has.
///
///     writer:
///       hdf5: {compression: 4, image-compression: 0}
package struct HDF5Writer: Writer {
  package static let name = "hdf5"
  package static let summary = "One robomimic-style HDF5 shard a take, and dataset.h5 that links them"
  package static let help = [
    "compression": "byte shuffle and deflate for everything but images: 0 (none) to 9, or fast",
    "image": "raw: images as RGB arrays; jpeg: the source's JPEG files untouched, neither decoded nor resized",
    "image-compression": "the same for raw images; sensor noise shrinks little, so the default is none",
  ]

  package enum ImageEncoding: String, Codable, Sendable { case raw, jpeg }

  var compression = Compression.level(4)
  var image = ImageEncoding.raw
  var imageCompression = Compression.level(0)

  package init() {}

  package func plan(_ episode: Episode) throws -> [ArrayRecord] {
    try ShardLayout(episode, writer: self).arrays.filter { $0.digestOf != nil }.map(\.record)
  }

  package func shardPath(_ id: String) -> String { "\(DatasetFiles.episodes)/\(id).h5" }
  package var indexPath: String { DatasetIndex.path }

  package func open(_ episode: Episode, identity: ShardIdentity, at path: String) throws -> any ShardWriter {
    try HDF5Shard(layout: ShardLayout(episode, writer: self), identity: identity, path: path, name: shardPath(episode.id))
  }

  package func publish(_ members: [DatasetMember], identity: ShardIdentity, in directory: String) throws -> PublishedIndex {
    try DatasetIndex(members: members, directory: directory, identity: identity, shardPath: shardPath).write()
  }

  package func check(_ take: TakeRecord, in directory: String, pipelineDigest: String, into report: inout Verification) {
    HDF5Check(directory: directory).check(take, pipelineDigest: pipelineDigest, into: &report)
  }

  package func checkIndex(_ manifest: ManifestRecord, in directory: String, into report: inout Verification) {
    HDF5Check(directory: directory).checkIndex(manifest, shardPath: shardPath, into: &report)
  }

  package func isShard(_ path: String, of id: String) -> Bool {
    // The structure first: the library is not to see files that may be damaged.
    guard (try? WrittenShard(path)) != nil, let file = try? File.open(path) else { return false }
    defer { try? file.close() }
    return (try? file.root.textAttribute("format")) == "takeset"
      && (try? file.root.group("data/demo_0").textAttribute("take_id")) == id
  }

  package func episode(_ take: TakeRecord, in directory: String) throws -> Episode {
    try ShardReader(path: directory + "/" + (take.output?.path ?? shardPath(take.id)), id: take.id).episode()
  }

  /// The version of the file layout, as in `docs/layout.md`.
  package static let formatVersion = "2.0.0"
}

/// How hard to deflate.
enum Compression: Codable, Equatable, Sendable {
  case level(Int)
  /// The fastest that still makes ordinary deflate streams.
  case fast

  /// The level for HDF5's deflate filter and for libdeflate; `nil` leaves the filters out.
  var deflate: Int? {
    switch self {
    case .level(0): nil
    case .level(let level): level
    case .fast: 1
    }
  }

  init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    if let level = try? container.decode(Int.self), (0...9).contains(level) {
      self = .level(level)
    } else if (try? container.decode(String.self)) == "fast" {
      self = .fast
    } else {
      throw DecodingError.dataCorrupted(
        .init(codingPath: container.codingPath, debugDescription: "expected 0 to 9, or fast"))
    }
  }

  func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    switch self {
    case .level(let level): try container.encode(level)
    case .fast: try container.encode("fast")
    }
  }
}
