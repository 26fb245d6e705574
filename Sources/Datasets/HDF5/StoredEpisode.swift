package import Evidence
package import HDF5
package import Model

/// The arrays of an episode in an open file: a shard, the index or a packed file. Whatever reads written episodes finds them here.
///
/// Read with libhdf5, so the caller makes sure that the file is intact or reads it in a process of its own. All members throw `HDF5Error` for
/// a file that another program has damaged.
///
///     let episode = try StoredEpisode(file.root)
///     let first = try episode.observation("depth").read(rows: 0..<1)
package struct StoredEpisode {
  package let demo: String
  package let data: Group
  package let meta: Group

  package init(_ root: Group, demo: String = ShardNames.demo) throws {
    (self.demo, data, meta) = (demo, try root.group("\(ShardNames.allData)/\(demo)"), try root.group("\(ShardNames.allMeta)/\(demo)"))
  }

  /// The id of the episode; `nil` if another program has removed it.
  package func id() throws -> String? { try data.textAttribute(ShardNames.takeID) }

  /// Returns the name of the reader that read the take; `nil` if another program has removed it.
  package func reader() throws -> String? { try data.textAttribute(ShardNames.reader) }

  /// The number of rows, which another program may have set to any number.
  package func rowCount() throws -> Int64? { try data.integerAttribute(ShardNames.rowCount) }

  /// Times of the rows in nanoseconds, since the attribute `origin_ns`.
  package func times() throws -> HDF5Array { try meta.dataset(ShardNames.times) }

  /// Bits of each row; `nil` where another program has removed them.
  package func quality() throws -> [FrameQuality]? {
    guard meta.contains(ShardNames.quality) else { return nil }
    return try meta.dataset(ShardNames.quality).readAll().map { FrameQuality(rawValue: $0) }
  }

  // MARK: Observations

  /// Returns the names of the arrays in `obs`, in name order. Groups, which only another program adds, are left out.
  package func observationNames() throws -> [String] {
    try data.group(ShardNames.observations).members().filter { $0.kind == .dataset }.map(\.name)
  }

  /// Opens an array of `obs`. Its first axis is the rows.
  package func observation(_ name: String) throws -> HDF5Array { try data.dataset("\(ShardNames.observations)/\(name)") }

  package var hasNextObservations: Bool { data.contains(ShardNames.nextObservations) }

  /// Returns the names of the arrays in `next_obs`, in name order; none where next observations are not stored.
  package func nextObservationNames() throws -> [String] {
    hasNextObservations ? try data.group(ShardNames.nextObservations).members().map(\.name) : []
  }

  /// Whether each row of an observation is valid; `nil` for one that is no stream.
  package func mask(of name: String) throws -> [UInt8]? {
    let path = "\(ShardNames.streams)/\(name)/\(ShardNames.valid)"
    return meta.contains(path) ? try meta.dataset(path).readAll() : nil
  }

  /// SHA-256 of each row; `nil` for an array that has one digest.
  package func rowDigests(of name: String) throws -> HDF5Array? {
    let path = "\(ShardNames.rowDigests)/\(name)"
    return meta.contains(path) ? try meta.dataset(path) : nil
  }

  /// fx, fy, cx, cy of each row of an image or depth map, in its pixels. Those of the first camera's images have no prefix.
  package func intrinsics(of name: String, isImage: Bool) throws -> HDF5Array? {
    let names = (isImage ? [false, true] : [false]).map { ShardNames.intrinsics(of: name, isFirstImage: $0) }
    return try names.first(where: meta.contains).map { try meta.dataset($0) }
  }

  // MARK: Actions and statistics

  /// The actions, and whether those of each row are valid; `nil` without actions.
  package func actions() throws -> (array: HDF5Array, mask: [UInt8]?)? {
    let name = StreamName.actions.rawValue
    guard data.contains(name) else { return nil }
    return (try data.dataset(name), data.contains(name + "_valid") ? try data.dataset(name + "_valid").readAll() : nil)
  }

  /// The statistics of the arrays, as JSON.
  package func statistics() throws -> [JSONValue] {
    let dataset = try meta.dataset(ShardNames.statistics)
    guard dataset.type == .uint8, dataset.dims.count == 1, dataset.dims[0] <= 1 << 28 else { return [] }
    return try JSONReader(dataset.readAll()).value().array ?? []
  }
}
