import Foundation
import HDF5
import Media
import Model

/// Opens a shard as the episode that was written: every row's value, time, number and validity; images and depth are read on demand, by any
/// number of threads, without libhdf5.
struct ShardReader {
  private let shard: WrittenShard
  private let file: File
  private let id: String
  private let data: Group
  private let meta: Group
  private let times: [Timestamp]

  /// Throws `FileError`, `HDF5Error` or `FileMap.Damaged` for a file that is not a Takeset shard.
  init(path: String, id: String) throws {
    shard = try WrittenShard(path)
    file = try File.open(path)
    self.id = id
    (data, meta) = (try file.root.group("data/demo_0"), try file.root.group("meta/demo_0"))
    let stored = try meta.dataset("timestamp_ns")
    let origin = Timestamp(nanoseconds: try stored.integerAttribute("origin_ns") ?? 0)
    times = try stored.readAll(as: Int64.self).map { origin.advanced(by: $0) }
  }

  func episode() throws -> Episode {
    let stored = try meta.dataset("timestamp_ns")
    var frames = Episode.Frames(
      timestamps: times, sourceIndex: try meta.dataset("source_index").readAll(as: Int64.self), clock: try clock(of: stored),
      tick: try stored.integerAttribute("tick_ns") ?? 1)
    frames.isResampled = try stored.textAttribute("timeline") == "resampled"
    frames.nominalRate = try stored.textAttribute("nominal_rate_hz").flatMap { Double($0) }
    frames.quality = try meta.dataset("quality").readAll().map { FrameQuality(rawValue: $0) }
    if meta.contains("segment") { frames.segment = try meta.dataset("segment").readAll(as: Int64.self) }
    var episode = Episode(id: try data.textAttribute("take_id") ?? id, sourceFrames: times.count, frames: frames, streams: [:])
    episode.captureStart = times.first
    if let unix = try stored.integerAttribute("unix_origin_ns") {
      episode.unixOrigin = Episode.UnixOrigin(nanoseconds: unix, resolution: try stored.integerAttribute("unix_origin_resolution_ns") ?? 1)
    }
    let observations = try data.group("obs")
    for (member, kind) in try observations.members() where kind == .dataset {
      let dataset = try observations.dataset(member)
      guard let streamKind = try self.kind(of: dataset) else { continue }
      let name = StreamName(member)
      episode.streams[name] =
        streamKind.isRaster ? try raster(name, streamKind, dataset, &episode) : try vector(name, streamKind, dataset)
    }
    try addActions(of: data, to: &episode)
    if data.contains(StreamName.actionFolder) {
      try addActions(of: data.group(StreamName.actionFolder), inFolder: StreamName.actionFolder + "/", to: &episode)
    }
    episode.storesNextObservations = data.contains("next_obs")
    for (member, kind) in try meta.members() where kind == .group && !["streams", "row_sha256", StreamName.actionFolder].contains(member) {
      let group = try meta.group(member)
      if group.contains("accel") { episode.streams[StreamName(member)] = try inertial(group) }
    }
    return episode
  }

  /// Adds the actions in a group, and those in `action_dict`, whose masks are below `meta`.
  private func addActions(of group: Group, inFolder folder: String = "", to episode: inout Episode) throws {
    for (member, kind) in try group.members() where kind == .dataset {
      let dataset = try group.dataset(member)
      guard try self.kind(of: dataset) == .action else { continue }
      let name = StreamName(folder + member)
      let mask = try folder.isEmpty ? data.dataset(member + "_valid") : meta.dataset("\(name)_valid")
      episode.derived[name] = try StoredRows(
        spec: spec(.action, dataset), values: dataset.readAll(as: Float.self), valid: mask.readAll())
    }
  }

  // MARK: Streams

  private func kind(of dataset: HDF5.Dataset) throws -> StreamKind? {
    guard let word = try dataset.textAttribute("kind") else { return nil }
    var frame: PoseFrame?
    if let axes = try dataset.textAttribute("camera_axes").flatMap(PoseFrame.CameraAxes.init), let unit = try dataset.textAttribute("unit")
    {
      var own = PoseFrame(cameraAxes: axes, worldAxes: try dataset.textAttribute("world_axes") ?? "", unit: unit)
      own.body = try dataset.textAttribute("body").flatMap { Pose(measured: $0.split(separator: " ").compactMap { Double($0) }) }
      frame = own
    }
    return StreamKind(word: word, frame: frame)
  }

  private func clock(of dataset: HDF5.Dataset) throws -> Clock {
    try dataset.textAttribute("clock").flatMap(Clock.init) ?? .frameNumber
  }

  private func spec(_ kind: StreamKind, _ dataset: HDF5.Dataset) throws -> StreamSpec {
    guard let type = dataset.type.flatMap(ScalarType.init) else {
      throw HDF5Error(call: "read", target: dataset.name, message: "its type is not one that Takeset writes")
    }
    var spec = StreamSpec(
      kind: kind, type: type, shape: Array(dataset.dims.dropFirst()), unit: try dataset.textAttribute("unit") ?? "",
      clock: try clock(of: meta.dataset("timestamp_ns")))
    spec.parts = try dataset.textAttribute("parts")?.split(separator: " ").compactMap { StreamSpec.Part($0) } ?? []
    spec.elements = try dataset.textAttribute("order")?.split(separator: " ").map(String.init) ?? []
    spec.rotationApplied = try dataset.integerAttribute("rotation_applied").map { Int(clamping: $0) }
    return spec
  }

  /// A stream with one sample for each row.
  private func stream(_ name: StreamName, _ spec: StreamSpec, _ source: any SampleSource) throws -> SampleStream {
    let rows = try meta.group("streams/\(name)")
    let numbers = try rows.dataset("source_index").readAll(as: Int64.self)
    let next = try rows.dataset("next_index").readAll(as: Int64.self)
    let delays = try rows.dataset("dt_ns").readAll(as: Int64.self)
    guard numbers.count == times.count, next.count == times.count, delays.count == times.count else {
      throw HDF5Error(call: "read", target: rows.name, message: "it does not have one entry for each row")
    }
    return SampleStream(
      spec: spec, source: source, timestamps: zip(times, delays).map { $0.advanced(by: $1) }, sourceIndex: numbers,
      rows: numbers.indices.map { numbers[$0] < 0 ? nil : Row($0) })
  }

  private func vector(_ name: StreamName, _ kind: StreamKind, _ dataset: HDF5.Dataset) throws -> SampleStream {
    let spec = try spec(kind, dataset)
    var stream = try stream(name, spec, VectorSource(width: spec.elementCount, values: dataset.readAll(as: Float.self)))
    if meta.contains("\(name)_raw") {
      stream.raw = VectorSource(width: spec.elementCount, values: try meta.dataset("\(name)_raw").readAll(as: Float.self))
    }
    return stream
  }

  private func raster(_ name: StreamName, _ kind: StreamKind, _ dataset: HDF5.Dataset, _ episode: inout Episode) throws -> SampleStream {
    let isEncoded = dataset.type == .bytes
    var isPNG = false
    var spec: StreamSpec
    if isEncoded {
      let sides = try [dataset.integerAttribute("height"), dataset.integerAttribute("width")].compactMap(\.self).map { Int(clamping: $0) }
      guard sides.count == 2 else { throw HDF5Error(call: "read", target: dataset.name, message: "it lacks the size of its images") }
      spec = StreamSpec(
        kind: kind, type: .uint8, shape: sides + [3], unit: try dataset.textAttribute("unit") ?? "",
        clock: try clock(of: meta.dataset("timestamp_ns")))
      isPNG = try dataset.textAttribute("encoding") == "png"
      spec.sourceEncoding = isPNG ? .png : .jpeg
      spec.rotationApplied = try dataset.integerAttribute("rotation_applied").map { Int(clamping: $0) }
    } else {
      spec = try self.spec(kind, dataset)
    }
    let size = ImageSize(width: spec.shape[1], height: spec.shape[0])
    try addRaster(size, of: dataset, name, to: &spec, &episode)
    let valid = try meta.dataset("streams/\(name)/valid").readAll()
    let source: any SampleSource
    if isEncoded {
      source = StoredImages(dataset: dataset, of: file, isReadable: valid, size: size, isPNG: isPNG)
    } else {
      let path = "data/demo_0/obs/\(name)"
      source = StoredSamples(
        shard: shard, chunks: shard.map.chunks[path] ?? [], layout: try layout(dataset, path), isReadable: valid, name: name)
    }
    return try stream(name, spec, source)
  }

  /// Layout of the chunks, inferred from the file: all filters that are not skipped.
  private func layout(_ dataset: HDF5.Dataset, _ path: String) throws -> Layout {
    guard let type = dataset.type, let chunk = dataset.chunk else {
      throw HDF5Error(call: "read", target: dataset.name, message: "it is not stored in chunks")
    }
    return Layout(type: type, dims: dataset.dims, chunk: chunk, deflate: dataset.isDeflated ? 4 : nil)
  }

  private func addRaster(
    _ size: ImageSize, of dataset: HDF5.Dataset, _ name: StreamName, to spec: inout StreamSpec, _ episode: inout Episode
  ) throws {
    let camera = CameraName(try dataset.textAttribute("camera") ?? CameraName.phone.rawValue)
    let map = try dataset.textAttribute("raster_from_camera")?.split(separator: " ").compactMap { Double($0) } ?? []
    let full = try dataset.textAttribute("camera_size")?.split(separator: "x").compactMap { Int($0) } ?? []
    guard map.count == 6, full.count == 2 else {
      spec.raster = Raster(camera: camera, size: size, rasterFromFull: .identity)
      if episode.cameras[camera] == nil { episode.cameras[camera] = Camera(size: size) }
      return
    }
    let affine = Affine(xx: map[0], xy: map[1], yx: map[3], yy: map[4], x0: map[2], y0: map[5])
    spec.raster = Raster(camera: camera, size: size, rasterFromFull: affine)
    guard episode.cameras[camera]?.intrinsicsTrack == nil else { return }
    let own = meta.contains("\(name)_intrinsics") ? "\(name)_intrinsics" : "intrinsics"
    guard spec.kind != .confidence, meta.contains(own) else { return }
    let numbers = try meta.dataset(own).readAll(as: Float.self)
    let back = affine.inverse
    let moments = times.indices.compactMap { row -> IntrinsicsTrack.Moment? in
      let four = numbers[(4 * row)..<(4 * row + 4)].map { Double($0) }
      guard four.allSatisfy(\.isFinite) else { return nil }
      return IntrinsicsTrack.Moment(
        time: times[row], intrinsics: Intrinsics(fx: four[0], fy: four[1], cx: four[2], cy: four[3]).applying(back))
    }
    guard let first = moments.first else { return }
    let isMoving = moments.contains { $0.intrinsics != first.intrinsics }
    episode.cameras[camera] = Camera(
      size: ImageSize(width: full[0], height: full[1]),
      intrinsicsTrack: IntrinsicsTrack(first.intrinsics, moments: isMoving ? moments : []),
      pose: data.contains("obs/\(StreamName.pose)") ? .pose : nil)
  }

  private func inertial(_ group: Group) throws -> SampleStream {
    let stored = try group.dataset("timestamp_ns")
    let origin = Timestamp(nanoseconds: try stored.integerAttribute("origin_ns") ?? 0)
    let stamps = try stored.readAll(as: Int64.self).map { origin.advanced(by: $0) }
    let (accel, gyro) = (try group.dataset("accel").readAll(as: Float.self), try group.dataset("gyro").readAll(as: Float.self))
    guard accel.count == 3 * stamps.count, gyro.count == 3 * stamps.count else {
      throw HDF5Error(call: "read", target: group.name, message: "its arrays differ in length")
    }
    var values: [Float] = []
    for index in stamps.indices {
      values += accel[(3 * index)..<(3 * index + 3)]
      values += gyro[(3 * index)..<(3 * index + 3)]
    }
    var spec = StreamSpec(kind: .inertial, type: .float32, shape: [6], unit: "m/s^2, rad/s", clock: try clock(of: stored))
    spec.sourceUnit = try group.dataset("accel").textAttribute("source_unit")
    return SampleStream(
      spec: spec, source: VectorSource(width: 6, values: values), timestamps: stamps, sourceIndex: stamps.indices.map { Int64($0) })
  }
}

extension ScalarType {
  fileprivate init?(_ type: Datatype) {
    guard let same = ScalarType.allCases.first(where: { Datatype($0) == type }) else { return nil }
    self = same
  }
}

/// The failure for a sample that could not be read when the dataset was made.
private func lostSample(_ name: String, _ row: Int) -> SampleFailure {
  SampleFailure(finding: Finding(.sampleMissing, "row \(row) of \(name) has no sample in the dataset"))
}

/// Rows of a chunked array, decoded without the library.
private struct StoredSamples: SampleSource {
  let shard: WrittenShard
  /// One chunk for each row.
  let chunks: [FileMap.Chunk]
  let layout: Layout
  let isReadable: [UInt8]
  let name: StreamName

  var access: SampleAccess { .random }
  func makeCursor(_ request: SampleRequest) throws -> any SampleCursor { Cursor(source: self, decoder: try ChunkDecoder()) }

  private struct Cursor: SampleCursor {
    let source: StoredSamples
    let decoder: ChunkDecoder
    var stored: [UInt8] = []
    var size: ImageSize? {
      source.layout.dims.count == 4 ? ImageSize(width: source.layout.dims[2], height: source.layout.dims[1]) : nil
    }

    mutating func read(_ index: Int, into bytes: inout [UInt8]) throws {
      guard source.isReadable.indices.contains(index), source.isReadable[index] == 1, source.chunks.indices.contains(index) else {
        throw lostSample(source.name.rawValue, index)
      }
      let chunk = source.chunks[index]
      stored.resize(to: chunk.count)
      bytes.resize(to: source.layout.chunkBytes)
      let got = try stored.withUnsafeMutableBytes { try source.shard.slice.read(into: $0, at: chunk.offset) }
      guard got == chunk.count else { throw TakeFailure(.unreadable, "the shard has become shorter") }
      try stored.withUnsafeBytes { stored in
        try bytes.withUnsafeMutableBytes { try decoder.decode(stored, source.layout, skipped: chunk.skipped, into: $0) }
      }
    }
  }
}

/// Rows of an array of JPEG or PNG files.
private struct StoredImages: SampleSource {
  /// `@unchecked Sendable`: every call to the library is under its lock.
  private struct Box: @unchecked Sendable {
    let dataset: HDF5.Dataset
    /// Kept open, because closing it would close the dataset.
    let file: File
  }
  private let box: Box
  private let isReadable: [UInt8]
  private let size: ImageSize
  private let isPNG: Bool

  init(dataset: HDF5.Dataset, of file: File, isReadable: [UInt8], size: ImageSize, isPNG: Bool) {
    (box, self.isReadable, self.size, self.isPNG) = (Box(dataset: dataset, file: file), isReadable, size, isPNG)
  }

  var access: SampleAccess { .random }

  func makeCursor(_ request: SampleRequest) throws -> any SampleCursor {
    let reduction = isPNG ? 1 : JPEGDecoder.reduction(from: size, covering: request.enough ?? size)
    return Cursor(source: self, isEncoded: request.form == .encoded, reduction: reduction, decoder: try JPEGDecoder())
  }

  private struct Cursor: SampleCursor {
    let source: StoredImages
    let isEncoded: Bool
    let reduction: Int
    let decoder: JPEGDecoder
    var size: ImageSize? { isEncoded ? nil : JPEGDecoder.reduced(source.size, by: reduction) }

    func read(_ index: Int, into bytes: inout [UInt8]) throws {
      guard source.isReadable.indices.contains(index), source.isReadable[index] == 1 else { throw lostSample("the images", index) }
      let file = try source.box.dataset.readSequence(row: index)
      if isEncoded {
        bytes = file
      } else if source.isPNG {
        try file.withUnsafeBytes { try PNG.decode($0, size: source.size, into: &bytes) }
      } else {
        _ = try file.withUnsafeBytes { try decoder.decode($0, reduction: reduction, into: &bytes) }
      }
    }
  }
}

/// Rows that were computed when the dataset was made.
private struct StoredRows: Derived {
  let spec: StreamSpec
  let values: [Float]
  let valid: [UInt8]
  var inputs: [StreamName] { [] }

  func value(at row: Int, of rows: inout RowReader) throws -> [Float] {
    let (width, columns) = (spec.elementCount, max(spec.shape.last ?? 1, 1))
    let flags = width / columns
    guard valid.count >= (row + 1) * flags, values.count >= (row + 1) * width else { return Array(repeating: .nan, count: width) }
    return (0..<width).map { valid[row * flags + $0 / columns] == 1 ? values[row * width + $0] : .nan }
  }
}
