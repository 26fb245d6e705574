package import Evidence

/// An array of a shard, as described in plans and manifests.
package struct ArrayRecord: Sendable, Equatable {
  /// Path from the root, with a leading slash.
  package var path: String
  /// NumPy's name: `<f4`, `|u1`.
  package var dtype: String
  package var shape: [Int]
  /// Extents of a chunk; absent for a contiguous array.
  package var chunk: [Int]?
  package var filters: [String]
  /// Digest over the content that `digestOf` names; absent in plans.
  package var digest: Digest?
  package var digestOf: DigestScope?

  /// Content that an array's digest covers.
  package enum DigestScope: String, Sendable {
    /// Logical content: row-major little-endian bytes, uncompressed.
    case bytes
    /// Concatenated digests of its rows' logical content, 32 bytes each.
    case rows
  }

  package init(path: String, dtype: String, shape: [Int], chunk: [Int]?, filters: [String]) {
    (self.path, self.dtype, self.shape, self.chunk, self.filters) = (path, dtype, shape, chunk, filters)
  }

  /// Size before compression, in bytes; 0 for byte sequences, whose length is unknown.
  package var rawBytes: Int { shape.reduce(dtype.last?.wholeNumberValue ?? 0, *) }

  /// Whether its size, whole and of a chunk, is one that an array can have, whatever its type.
  var hasPlausibleSize: Bool {
    [shape, chunk ?? []].allSatisfy { extents in
      extents.reduce(16 as Int?) { size, extent in
        guard let (size, overflow) = size?.multipliedReportingOverflow(by: max(extent, 1)), !overflow else { return nil }
        return TakeRecord.isPlausibleCount(size) ? size : nil
      } != nil
    }
  }

  package var json: JSONValue {
    var members: [String: JSONValue] = [
      "path": .string(path), "dtype": .string(dtype), "shape": .array(shape.map { JSONValue($0) }),
      "chunk": chunk.map { .array($0.map { JSONValue($0) }) } ?? .null, "filters": .array(filters.map { .string($0) }),
    ]
    if let digest { members["sha256"] = .string(digest.description) }
    if let digestOf { members["sha256_of"] = .string(digestOf.rawValue) }
    return .object(members)
  }
}

/// A shard, as described in the manifest.
package struct OutputRecord: Sendable, Equatable {
  /// Relative to the dataset's directory.
  package var path: String
  package var bytes: Int64
  package var samples: Int
  package var arrays: [ArrayRecord]
  /// Digest of the lines `<sha256>  <array path>`, sorted bytewise.
  package var contentDigest: Digest
  /// Digest of every byte that belongs to no chunk of an array, in file order.
  package var structureDigest: Digest
  /// Digest of every attribute of every object: lines `<object path>@<name>=<value as JSON>`, sorted bytewise.
  package var attributesDigest: Digest

  /// - Parameter contentDigest: As recorded; by default that of the arrays.
  package init(
    path: String, bytes: Int64, samples: Int, arrays: [ArrayRecord], structureDigest: Digest, attributesDigest: Digest,
    contentDigest: Digest? = nil
  ) {
    (self.path, self.bytes, self.samples, self.arrays) = (path, bytes, samples, arrays)
    (self.structureDigest, self.attributesDigest) = (structureDigest, attributesDigest)
    self.contentDigest = contentDigest ?? Self.contentDigest(of: arrays)
  }

  /// Returns the digest of a file's contents: SHA-256 of the lines `DIGEST  PATH`, sorted by their bytes, as `sha256sum` prints them.
  package static func contentDigest(of arrays: [ArrayRecord]) -> Digest {
    let lines = arrays.map { Array("\($0.digest?.description ?? "")  \($0.path)\n".utf8) }.sorted { $0.lexicographicallyPrecedes($1) }
    return Digest.of(pieces: lines)
  }

  package var json: JSONValue {
    [
      "path": .string(path), "bytes": .integer(bytes), "samples": JSONValue(samples), "datasets": .array(arrays.map(\.json)),
      "content_sha256": .string(contentDigest.description), "structure_sha256": .string(structureDigest.description),
      "attributes_sha256": .string(attributesDigest.description),
    ]
  }
}
