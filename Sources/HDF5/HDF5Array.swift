import CGather
import CHDF5

/// The storage layout of a dataset.
package struct Layout: Hashable, Sendable {
  package var type: Datatype
  package var dims: [Int]
  /// Extents of a chunk; `nil` stores the array contiguously.
  package var chunk: [Int]?
  /// Whether a contiguous array of at most a few kilobytes is stored in its object header, which saves a separate read.
  package var isCompact = false
  /// Deflate level, with byte shuffle before it; `nil` stores chunks unfiltered.
  package var deflate: Int?

  package init(type: Datatype, dims: [Int], chunk: [Int]? = nil, deflate: Int? = nil, isCompact: Bool = false) {
    self.isCompact = isCompact
    self.type = type
    self.dims = dims
    self.chunk = chunk
    self.deflate = deflate
  }

  /// Whether bytes are shuffled, which would not change one-byte elements.
  package var shuffles: Bool { deflate != nil && type.size > 1 }

  /// Names of the filters in order, as in the manifest.
  package var filters: [String] {
    (shuffles ? ["shuffle"] : []) + (deflate.map { ["deflate \($0)"] } ?? [])
  }

  /// Number of chunks, which divide the first axis only; 0 for a contiguous array.
  package var chunkCount: Int { chunk.map { (dims[0] + $0[0] - 1) / max($0[0], 1) } ?? 0 }

  /// Size of one complete chunk in bytes, before filtering.
  package var chunkBytes: Int { (chunk ?? dims).reduce(type.size, *) }

  /// Bytes of an array that a file claims, of elements of `size` bytes; `nil` for more than a TiB.
  package static func bytes(_ dims: [Int], _ size: Int) -> Int? {
    var bytes = size
    for extent in dims {
      let (next, overflow) = bytes.multipliedReportingOverflow(by: extent)
      if overflow || next > 1 << 40 { return nil }
      bytes = next
    }
    return bytes
  }
}

/// An n-dimensional array in a file.
///
///     let poses = try file.root.dataset("data/demo_0/obs/pose")
///     try poses.read(rows: 0..<10)                 // row-major, little-endian bytes
///     try poses.readAll(as: Float.self)            // all numbers
package final class HDF5Array: Object {
  package let type: Datatype?
  package let dims: [Int]

  init(id: hid_t, name: String) throws {
    let space = try hdf5("H5Dget_space", name) { H5Dget_space(id) }
    defer { _ = try? hdf5("H5Sclose", name) { H5Sclose(space) } }
    let rank = try hdf5("H5Sget_simple_extent_ndims", name) { H5Sget_simple_extent_ndims(space) }
    var extents = [hsize_t](repeating: 0, count: Int(rank))
    try hdf5("H5Sget_simple_extent_dims", name) { H5Sget_simple_extent_dims(space, &extents, nil) }
    dims = try extents.map {
      guard let extent = Int(exactly: $0) else {
        throw HDF5Error(call: "H5Sget_simple_extent_dims", target: name, message: "an extent of \($0) is beyond 2^63")
      }
      return extent
    }
    let stored = try hdf5("H5Dget_type", name) { H5Dget_type(id) }
    defer { _ = try? hdf5("H5Tclose", name) { H5Tclose(stored) } }
    type = try Datatype.of(stored)
    super.init(id: id, name: name, close: H5Dclose)
  }

  /// Stores one encoded chunk, bypassing the library's own filters; inside `gatheringChunks`, perhaps later. `H5Dwrite_chunk`.
  ///
  /// `origin`: The chunk's first element, a multiple of the chunk extents.
  /// `skipped`: Bit i set means that filter i of the layout was not applied to these bytes.
  package func writeChunk(_ bytes: UnsafeRawBufferPointer, at origin: [Int], skipped: UInt32) throws {
    let offset = origin.map { hsize_t($0) }
    try hdf5("H5Dwrite_chunk", name) {
      cgather_expect(bytes.baseAddress, bytes.count)
      return H5Dwrite_chunk(id, chdf5_default, skipped, offset, bytes.count, bytes.baseAddress)
    }
  }

  /// Stores one row of a one-dimensional array of byte sequences. `H5Dwrite`.
  package func writeSequence(_ bytes: UnsafeRawBufferPointer, row: Int) throws {
    try withRow(row) { memorySpace, space in
      var sequence = hvl_t(len: bytes.count, p: UnsafeMutableRawPointer(mutating: bytes.baseAddress))
      _ = try Datatype.bytes.withIdentifier { memory in
        try hdf5("H5Dwrite", name) { H5Dwrite(id, memory, memorySpace, space, chdf5_default, &sequence) }
      }
    }
  }

  /// Reads one row of a one-dimensional array of byte sequences. `H5Dread`, `H5Dvlen_reclaim`.
  package func readSequence(row: Int) throws -> [UInt8] {
    try withRow(row) { memorySpace, space in
      try Datatype.bytes.withIdentifier { memory in
        var sequence = hvl_t()
        _ = try hdf5("H5Dread", name) { H5Dread(id, memory, memorySpace, space, chdf5_default, &sequence) }
        defer { _ = try? hdf5("H5Dvlen_reclaim", name) { H5Dvlen_reclaim(memory, memorySpace, chdf5_default, &sequence) } }
        return Array(UnsafeRawBufferPointer(start: sequence.p, count: sequence.len))
      }
    }
  }

  /// Runs `body` with a dataspace of one element, and with this array's dataspace with that row selected.
  private func withRow<Result>(_ row: Int, _ body: (hid_t, hid_t) throws -> Result) throws -> Result {
    let space = try hdf5("H5Dget_space", name) { H5Dget_space(id) }
    defer { _ = try? hdf5("H5Sclose", name) { H5Sclose(space) } }
    try hdf5("H5Sselect_hyperslab", name) {
      H5Sselect_hyperslab(space, H5S_SELECT_SET, [hsize_t(row)], nil, [1], nil)
    }
    return try withDataspace([1]) { try body($0, space) }
  }

  /// Stores the complete array. `H5Dwrite`.
  package func write(_ bytes: UnsafeRawBufferPointer) throws {
    guard let type, bytes.count == dims.reduce(type.size, *) else {
      throw HDF5Error(call: "H5Dwrite", target: name, message: "\(bytes.count) bytes do not fill \(dims)")
    }
    guard bytes.count > 0 else { return }
    _ = try type.withIdentifier { memory in
      try hdf5("H5Dwrite", name) { H5Dwrite(id, memory, chdf5_all, chdf5_all, chdf5_default, bytes.baseAddress) }
    }
  }

  /// Reads rows `rows` of the first axis as row-major little-endian bytes, unfiltered. `H5Dread`.
  package func read(rows: Range<Int>) throws -> [UInt8] {
    guard let type, type != .bytes else {
      throw HDF5Error(call: "H5Dread", target: name, message: "not a number or fixed string type")
    }
    let shape = [rows.count] + dims.dropFirst()
    var size = type.size
    for extent in shape {
      let (product, overflow) = size.multipliedReportingOverflow(by: extent)
      guard !overflow, product <= 1 << 34 else {
        throw HDF5Error(call: "H5Dread", target: name, message: "rows \(rows) of \(dims) are more than 16 GiB")
      }
      size = product
    }
    guard size > 0 else { return [] }
    let space = try hdf5("H5Dget_space", name) { H5Dget_space(id) }
    defer { _ = try? hdf5("H5Sclose", name) { H5Sclose(space) } }
    let start = [hsize_t(rows.lowerBound)] + dims.dropFirst().map { _ in 0 }
    let count = shape.map { hsize_t($0) }
    try hdf5("H5Sselect_hyperslab", name) { H5Sselect_hyperslab(space, H5S_SELECT_SET, start, nil, count, nil) }
    var bytes = [UInt8](repeating: 0, count: size)
    try withDataspace(shape) { memorySpace in
      _ = try type.withIdentifier { memory in
        try hdf5("H5Dread", name) { H5Dread(id, memory, memorySpace, space, chdf5_default, &bytes) }
      }
    }
    return bytes
  }

  /// Reads a complete array that is one-dimensional or small.
  package func readAll() throws -> [UInt8] { try read(rows: 0..<(dims.first ?? 0)) }

  /// Reads the complete array as numbers of `type`, whose size must be the stored one.
  package func readAll<Number>(as type: Number.Type) throws -> [Number] {
    guard MemoryLayout<Number>.size == self.type?.size else {
      throw HDF5Error(call: "H5Dread", target: name, message: "stored as \(self.type?.numpyName ?? "an unknown type")")
    }
    return try readAll().withUnsafeBytes { Array($0.bindMemory(to: Number.self)) }
  }

  /// Whether the raw bytes are in another file, with which an untrusted file could expose any file's contents.
  package var hasExternalStorage: Bool {
    guard let list = try? hdf5("H5Dget_create_plist", name, { H5Dget_create_plist(id) }) else { return true }
    defer { _ = try? hdf5("H5Pclose", name) { H5Pclose(list) } }
    return H5Pget_external_count(list) > 0 || H5Pget_layout(list) == H5D_VIRTUAL
  }

  /// Whether what is stored can be the array: deflate shrinks bytes to a 1032nd at most, and nothing that Takeset writes lacks a chunk. A
  /// file of a few kilobytes could otherwise claim an array that takes years to read.
  var isPlausiblyStored: Bool {
    guard let bytes = Layout.bytes(dims, type?.size ?? 1) else { return false }
    return bytes <= Self.smallBytes || UInt64(bytes) / 1100 <= H5Dget_storage_size(id)
  }

  private static let smallBytes = 1 << 20

  /// Locations of the chunks as the library reports them, by row, in time quadratic in their number: `H5Dget_num_chunks`,
  /// `H5Dget_chunk_info`.
  package func chunkPlaces() throws -> [(row: Int, offset: Int, count: Int, skipped: Int)] {
    guard chunk != nil else { return [] }
    let space = try hdf5("H5Dget_space", name) { H5Dget_space(id) }
    defer { _ = try? hdf5("H5Sclose", name) { H5Sclose(space) } }
    var count: hsize_t = 0
    try hdf5("H5Dget_num_chunks", name) { H5Dget_num_chunks(id, space, &count) }
    return try (0..<count).map { index in
      var offsets = [hsize_t](repeating: 0, count: dims.count)
      var (mask, address, size): (UInt32, haddr_t, hsize_t) = (0, 0, 0)
      try hdf5("H5Dget_chunk_info", name) { H5Dget_chunk_info(id, space, index, &offsets, &mask, &address, &size) }
      return (Int(offsets[0]), Int(address), Int(size), Int(mask))
    }.sorted { $0.row < $1.row }
  }

  /// Whether its chunks go through the deflate filter. `H5Pget_filter2`.
  package var isDeflated: Bool {
    guard let list = try? hdf5("H5Dget_create_plist", name, { H5Dget_create_plist(id) }) else { return false }
    defer { _ = try? hdf5("H5Pclose", name) { H5Pclose(list) } }
    let count = (try? hdf5("H5Pget_nfilters", name) { H5Pget_nfilters(list) }) ?? 0
    return (0..<UInt32(max(count, 0))).contains { index in
      var (flags, elements): (UInt32, Int) = (0, 0)
      return ((try? hdf5("H5Pget_filter2", name) { H5Pget_filter2(list, index, &flags, &elements, nil, 0, nil, nil) }) ?? -1) == 1
    }
  }

  /// Extents of one chunk, or `nil` when the array is contiguous. `H5Pget_chunk`.
  package var chunk: [Int]? {
    guard let list = try? hdf5("H5Dget_create_plist", name, { H5Dget_create_plist(id) }) else { return nil }
    defer { _ = try? hdf5("H5Pclose", name) { H5Pclose(list) } }
    guard H5Pget_layout(list) == H5D_CHUNKED else { return nil }
    var extents = [hsize_t](repeating: 0, count: dims.count)
    guard (try? hdf5("H5Pget_chunk", name) { H5Pget_chunk(list, Int32(dims.count), &extents) }) != nil else { return nil }
    return extents.map { Int(truncatingIfNeeded: $0) }
  }
}

extension Group {
  /// Creates a dataset that holds no data yet. `H5Dcreate2`.
  package func createDataset(_ member: String, _ layout: Layout) throws -> HDF5Array {
    let path = "\(name)/\(member)"
    return try withPropertyList(chdf5_class_dataset_create) { creation in
      try hdf5("H5Pset_obj_track_times", path) { H5Pset_obj_track_times(creation, false) }
      try hdf5("H5Pset_attr_phase_change", path) { H5Pset_attr_phase_change(creation, 64, 48) }
      if layout.isCompact { try hdf5("H5Pset_layout", path) { H5Pset_layout(creation, H5D_COMPACT) } }
      if let chunk = layout.chunk {
        try hdf5("H5Pset_chunk", path) { H5Pset_chunk(creation, Int32(chunk.count), chunk.map { hsize_t($0) }) }
        // Every chunk is written, so fill values are unnecessary.
        try hdf5("H5Pset_fill_time", path) { H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER) }
        if layout.shuffles { try hdf5("H5Pset_shuffle", path) { H5Pset_shuffle(creation) } }
        if let level = layout.deflate { try hdf5("H5Pset_deflate", path) { H5Pset_deflate(creation, UInt32(level)) } }
      }
      return try withDataspace(layout.dims) { space in
        try layout.type.withIdentifier { type in
          let id = try hdf5("H5Dcreate2", path) {
            H5Dcreate2(self.id, member, type, space, chdf5_default, creation, chdf5_default)
          }
          return try HDF5Array(id: id, name: path)
        }
      }
    }
  }
}
