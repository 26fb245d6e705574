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
  /// Of a file by another program, the same as `data`: what Takeset stores here is then absent.
  package let meta: Group
  /// Whether another program wrote the file, in robomimic's layout.
  package let isForeign: Bool
  private let all: Group

  package init(_ root: Group, demo: String = ShardNames.demo) throws {
    self.demo = demo
    all = try root.group(ShardNames.allData)
    data = try all.group(demo)
    isForeign = try root.textAttribute("format") != "takeset"
    meta = isForeign ? data : try root.group("\(ShardNames.allMeta)/\(demo)")
  }

  /// The id of the episode; `nil` if another program has removed it.
  package func id() throws -> String? { try data.textAttribute(ShardNames.takeID) }

  /// Returns the name of the reader that read the take; `nil` if another program has removed it.
  package func reader() throws -> String? { try data.textAttribute(ShardNames.reader) }

  /// Rows that an episode can have: four days at 30 Hz. A file may claim any number without having them.
  package static let mostRows = 10_000_000

  /// The number of rows, which another program may have set to any number.
  package func rowCount() throws -> Int64? { try data.integerAttribute(ShardNames.rowCount) }

  /// Times of the rows in nanoseconds, since the attribute `origin_ns`.
  package func times() throws -> HDF5Array { try meta.dataset(ShardNames.times) }

  /// The same as timestamps. Those of a file by another program follow from the rate that robomimic's environments name, `control_freq` in
  /// `env_args`; there are none where it names none.
  package func timestamps(rows: Int) throws -> [Timestamp] {
    guard isForeign else {
      let stamps = try times()
      guard stamps.type == .int64 else {
        throw HDF5Error(
          call: "H5Dread", target: "timestamp_ns", message: "its times are \(stamps.type?.numpyName ?? "of an unknown type"), no <i8")
      }
      return try stamps.readAll(as: Int64.self).map { Timestamp(nanoseconds: $0) }
    }
    let arguments = try all.textAttribute("env_args").flatMap { try? JSONReader(Array($0.utf8)).value() }
    guard let rate = arguments?["env_kwargs"]?["control_freq"]?.double, (0.001...100_000).contains(rate), rows <= Self.mostRows else {
      return []
    }
    return (0..<rows).map { Timestamp(nanoseconds: Int64((Double($0) / rate * 1e9).rounded())) }
  }

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

  /// The kind of an observation's numbers, as Takeset names it or, of a file by another program, as robomimic's names and shapes say; `nil` for
  /// an array that another program has added.
  package func kind(of name: String, _ array: HDF5Array) throws -> String? {
    if let word = try array.textAttribute("kind") { return word }
    guard isForeign else { return nil }
    let shape = array.dims.dropFirst()
    if shape.count == 3, shape.last == 3, array.type == .uint8 { return StreamKind.image.word }
    if shape.count == 3, shape.last == 1, name.contains("depth") { return StreamKind.depth.word }
    return (name.hasSuffix("joint_pos") ? StreamKind.angles : .vector).word
  }

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

  /// The number of the sample in each row's, -1 for none; `nil` for an array that is no stream.
  package func samples(of name: String) throws -> HDF5Array? {
    let path = "\(ShardNames.streams)/\(name)/\(ShardNames.sourceIndex)"
    return meta.contains(path) ? try meta.dataset(path) : nil
  }

  /// SHA-256 of each row; `nil` for an array that has one digest.
  package func rowDigests(of name: String) throws -> HDF5Array? {
    let path = "\(ShardNames.rowDigests)/\(name)"
    return meta.contains(path) ? try meta.dataset(path) : nil
  }

  /// fx, fy, cx, cy of each row of an image or depth map, in its pixels. Those of the first camera's images have no prefix, but for that of
  /// the member of a joined take.
  package func intrinsics(of name: String, isImage: Bool) throws -> HDF5Array? {
    let path = "\(ShardNames.observations)/\(name)"
    let member = isImage && data.contains(path) ? try data.dataset(path).textAttribute("member") : nil
    let names = (isImage ? [false, true] : [false]).map { ShardNames.intrinsics(of: name, isFirstImage: $0, member: member) }
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
