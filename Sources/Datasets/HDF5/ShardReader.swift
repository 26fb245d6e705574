import Evidence
import Foundation
import HDF5
import Model

/// Opens a shard as the episode that was written: every row's value, time, number and validity; images and depth are read on demand, by any
/// number of threads. Only cursors keep the file open. Arrays that the record does not name are not looked at.
struct ShardReader {
  private let shard: RecordedShard
  /// Paths of the arrays that the record names.
  private let recorded: Set<String>
  /// Kept open while this reads, because closing it would close its groups.
  private let library: File
  private let id: String
  private let stored: StoredEpisode
  private var data: Group { stored.data }
  private var meta: Group { stored.meta }
  private let times: [Timestamp]

  /// Throws as `RecordedShard` does, or `HDF5Error`, for a file that is not the shard of this episode.
  init(path: String, id: String, _ output: OutputRecord, _ checks: Verification.ExternalChecks) throws {
    shard = try RecordedShard(path, output, checks)
    recorded = Set(output.arrays.map(\.path))
    self.id = id
    library = try shard.open()
    stored = try StoredEpisode(library.root)
    if let own = try stored.id(), own != id { throw FileMap.Damaged(description: "it is the shard of \(own)") }
    let clocked = try stored.times()
    let origin = Timestamp(nanoseconds: try clocked.integerAttribute("origin_ns") ?? 0)
    times = try clocked.readAll(as: Int64.self).map { origin.advanced(by: $0) }
    guard zip(times, times.dropFirst()).allSatisfy(<) else { throw FileMap.Damaged(description: "its times do not ascend") }
  }

  func episode() throws -> Episode {
    let clocked = try stored.times()
    var frames = Episode.Frames(
      timestamps: times, sourceIndex: try meta.dataset(ShardNames.sourceIndex).readAll(as: Int64.self), clock: try clock(of: clocked),
      tick: try clocked.integerAttribute("tick_ns") ?? 1)
    frames.isResampled = try clocked.textAttribute("timeline") == "resampled"
    frames.nominalRate = try clocked.textAttribute("nominal_rate_hz").flatMap { Double($0) }
    guard let quality = try stored.quality() else {
      throw HDF5Error(call: "read", target: meta.name, message: "it lacks the quality of its rows")
    }
    frames.quality = quality
    if hasMeta(ShardNames.segment) { frames.segment = try meta.dataset(ShardNames.segment).readAll(as: Int64.self) }
    var episode = Episode(id: id, sourceFrames: times.count, frames: frames, streams: [:])
    episode.captureStart = times.first
    if let note = shard.note { episode.findings.append(Finding(.added, note)) }
    if let unix = try clocked.integerAttribute("unix_origin_ns") {
      episode.unixOrigin = Episode.UnixOrigin(nanoseconds: unix, resolution: try clocked.integerAttribute("unix_origin_resolution_ns") ?? 1)
    }
    for member in try stored.observationNames() where recorded.contains("\(ShardNames.dataPath)\(ShardNames.observations)/\(member)") {
      let dataset = try stored.observation(member)
      guard let streamKind = try self.kind(of: dataset) else { continue }
      let name = StreamName(member)
      episode.streams[name] =
        streamKind.isRaster ? try raster(name, streamKind, dataset, &episode) : try vector(name, streamKind, dataset)
    }
    try addActions(of: data, to: &episode)
    if data.contains(StreamName.actionFolder) {
      try addActions(of: data.group(StreamName.actionFolder), inFolder: StreamName.actionFolder + "/", to: &episode)
    }
    episode.storesNextObservations = stored.hasNextObservations
    for (member, kind) in try meta.members()
    where kind == .group && ![ShardNames.streams, ShardNames.rowDigests, StreamName.actionFolder].contains(member) {
      let group = try meta.group(member)
      if hasMeta("\(member)/\(ShardNames.accelerations)") { episode.streams[StreamName(member)] = try inertial(group) }
    }
    return episode
  }

  private func hasMeta(_ member: String) -> Bool { recorded.contains("/\(ShardNames.meta)/\(member)") }

  /// Adds the actions in a group, and those in `action_dict`, whose masks are below `meta`.
  private func addActions(of group: Group, inFolder folder: String = "", to episode: inout Episode) throws {
    for (member, _) in try group.members() where recorded.contains(ShardNames.dataPath + folder + member) {
      let dataset = try group.dataset(member)
      guard try self.kind(of: dataset) == .action else { continue }
      let name = StreamName(folder + member)
      let mask = try folder.isEmpty ? data.dataset(member + "_valid") : meta.dataset("\(name)_valid")
      episode.derived[name] = try StoredRows(
        spec: spec(.action, dataset), values: dataset.readAll(as: Float.self), valid: mask.readAll())
    }
  }

  // MARK: Streams

  private func kind(of dataset: HDF5Array) throws -> StreamKind? {
    guard let word = try dataset.textAttribute("kind") else { return nil }
    return StreamKind(word: word, frame: try frame(of: dataset))
  }

  private func frame(of dataset: HDF5Array) throws -> PoseFrame? {
    var frame: PoseFrame?
    // The unit of actions is those of their parts, positions first.
    if let axes = try dataset.textAttribute("camera_axes").flatMap(PoseFrame.CameraAxes.init),
      let unit = try dataset.textAttribute("unit")?.split(separator: ",").first.flatMap({ LengthUnit(rawValue: String($0)) })
    {
      var own = PoseFrame(cameraAxes: axes, worldAxes: PoseFrame.WorldAxes(try dataset.textAttribute("world_axes") ?? ""), unit: unit)
      own.world = try dataset.textAttribute("world")
      own.body = try dataset.textAttribute("body").flatMap { Pose(measured: $0.split(separator: " ").compactMap { Double($0) }) }
      frame = own
    }
    return frame
  }

  private func clock(of dataset: HDF5Array) throws -> Clock {
    try dataset.textAttribute("clock").flatMap(Clock.init) ?? .frameNumber
  }

  private func spec(_ kind: StreamKind, _ dataset: HDF5Array) throws -> StreamSpec {
    guard let type = dataset.type.flatMap(ScalarType.init) else {
      throw HDF5Error(call: "read", target: dataset.name, message: "its type is not one that Takeset writes")
    }
    var spec = StreamSpec(
      kind: kind, type: type, shape: Array(dataset.dims.dropFirst()), unit: try dataset.textAttribute("unit") ?? "",
      clock: try clock(of: stored.times()))
    spec.parts = try dataset.textAttribute("parts")?.split(separator: " ").compactMap { StreamSpec.Part($0) } ?? []
    if kind == .action {
      (spec.actionFrame, spec.rotationLayout) = (try frame(of: dataset), try dataset.textAttribute("rotation_layout"))
    }
    spec.elements = try dataset.textAttribute("order")?.split(separator: " ").map(String.init) ?? []
    spec.rotationApplied = try dataset.integerAttribute("rotation_applied").map { Int(clamping: $0) }
    spec.member = try dataset.textAttribute("member")
    return spec
  }

  /// A stream with one sample for each row.
  private func stream(_ name: StreamName, _ spec: StreamSpec, _ source: any SampleSource) throws -> SampleStream {
    let rows = try meta.group("\(ShardNames.streams)/\(name)")
    let numbers = try rows.dataset(ShardNames.sourceIndex).readAll(as: Int64.self)
    let next = try rows.dataset(ShardNames.nextIndex).readAll(as: Int64.self)
    let delays = try rows.dataset(ShardNames.delay).readAll(as: Int64.self)
    guard numbers.count == times.count, next.count == times.count, delays.count == times.count else {
      throw HDF5Error(call: "read", target: rows.name, message: "it does not have one entry for each row")
    }
    return SampleStream(
      spec: spec, source: source, timestamps: zip(times, delays).map { $0.advanced(by: $1) }, sourceIndex: numbers,
      rows: numbers.indices.map { numbers[$0] < 0 ? nil : Row($0) })
  }

  private func vector(_ name: StreamName, _ kind: StreamKind, _ dataset: HDF5Array) throws -> SampleStream {
    let spec = try spec(kind, dataset)
    var stream = try stream(name, spec, VectorSource(width: spec.elementCount, values: dataset.readAll(as: Float.self)))
    if hasMeta(ShardNames.raw(of: name)) {
      stream.raw = VectorSource(width: spec.elementCount, values: try meta.dataset(ShardNames.raw(of: name)).readAll(as: Float.self))
    }
    return stream
  }

  private func raster(_ name: StreamName, _ kind: StreamKind, _ dataset: HDF5Array, _ episode: inout Episode) throws -> SampleStream {
    let isEncoded = dataset.type == .bytes
    var spec: StreamSpec
    if isEncoded {
      let sides = try [dataset.integerAttribute("height"), dataset.integerAttribute("width")].compactMap(\.self).map { Int(clamping: $0) }
      guard sides.count == 2 else { throw HDF5Error(call: "read", target: dataset.name, message: "it lacks the size of its images") }
      spec = StreamSpec(
        kind: kind, type: .uint8, shape: sides + [3], unit: try dataset.textAttribute("unit") ?? "",
        clock: try clock(of: stored.times()))
      spec.sourceEncoding = try dataset.textAttribute("encoding") == "png" ? .png : .jpeg
      spec.rotationApplied = try dataset.integerAttribute("rotation_applied").map { Int(clamping: $0) }
      spec.member = try dataset.textAttribute("member")
    } else {
      spec = try self.spec(kind, dataset)
    }
    guard spec.shape.count == 3 else { throw HDF5Error(call: "read", target: dataset.name, message: "it is not an array of images") }
    let (raster, full) = try grid(ImageSize(width: spec.shape[1], height: spec.shape[0]), of: dataset)
    spec.raster = raster
    let path = "\(ShardNames.data)/\(ShardNames.observations)/\(name)"
    guard let valid = try stored.mask(of: name.rawValue) else {
      throw HDF5Error(call: "read", target: dataset.name, message: "it lacks the mask of its rows")
    }
    let source: any SampleSource
    if isEncoded {
      source = StoredImages(file: shard.file, dataset: path, isReadable: valid, size: raster.size, isPNG: spec.sourceEncoding == .png)
    } else if let map = shard.map {
      source = StoredSamples(
        file: shard.file, chunks: map.chunks[path] ?? [], layout: try layout(dataset), isReadable: valid, name: name)
    } else {
      source = RewrittenSamples(file: shard.file, dataset: path, isReadable: valid, size: raster.size)
    }
    var stream = try stream(name, spec, source)
    stream.intrinsicsTrack = try intrinsics(name, stream)
    addCamera(raster.camera, full, stream, &episode)
    return stream
  }

  /// Layout of the chunks, one for each row, inferred from the file: all filters that are not skipped.
  private func layout(_ dataset: HDF5Array) throws -> Layout {
    guard let type = dataset.type, let chunk = dataset.chunk, chunk == [1] + dataset.dims.dropFirst() else {
      throw HDF5Error(call: "read", target: dataset.name, message: "it is not stored in chunks of a row")
    }
    return Layout(type: type, dims: dataset.dims, chunk: chunk, deflate: dataset.isDeflated ? 4 : nil)
  }

  /// The grid of a stream, and the size of its camera's full-size image.
  private func grid(_ size: ImageSize, of dataset: HDF5Array) throws -> (raster: Raster, full: ImageSize) {
    let camera = CameraName(try dataset.textAttribute("camera") ?? CameraName.phone.rawValue)
    let map = try dataset.textAttribute("raster_from_camera")?.split(separator: " ").compactMap { Double($0) } ?? []
    let full = try dataset.textAttribute("camera_size")?.split(separator: "x").compactMap { Int($0) } ?? []
    guard map.count == 6, full.count == 2 else { return (Raster(camera: camera, size: size, rasterFromFull: .identity), size) }
    let affine = Affine(xx: map[0], xy: map[1], yx: map[3], yy: map[4], x0: map[2], y0: map[5])
    return (Raster(camera: camera, size: size, rasterFromFull: affine), ImageSize(width: full[0], height: full[1]))
  }

  /// The intrinsics that are stored for a stream's rows, at the times of their samples: so each row has its own again.
  private func intrinsics(_ name: StreamName, _ stream: SampleStream) throws -> IntrinsicsTrack? {
    guard let raster = stream.spec.raster,
      let array = try stored.intrinsics(of: name.rawValue, isImage: stream.spec.kind == .image)
    else { return nil }
    let numbers = try array.readAll(as: Float.self)
    guard numbers.count == 4 * times.count else {
      throw HDF5Error(call: "read", target: array.name, message: "it does not have four numbers for each row")
    }
    let fullFromRaster = raster.rasterFromFull.inverse
    let moments = times.indices.compactMap { row -> IntrinsicsTrack.Moment? in
      let four = numbers[(4 * row)..<(4 * row + 4)].map { Double($0) }
      guard four.allSatisfy(\.isFinite) else { return nil }
      let own = Intrinsics(fx: four[0], fy: four[1], cx: four[2], cy: four[3])
      return IntrinsicsTrack.Moment(time: stream.timestamps[row], intrinsics: own.applying(fullFromRaster))
    }.sorted { $0.time < $1.time }
    guard let first = moments.first else { return nil }
    let isMoving = moments.contains { $0.intrinsics != first.intrinsics }
    return IntrinsicsTrack(first.intrinsics, moments: isMoving ? moments : [])
  }

  /// Adds the camera of a stream, with the intrinsics of its images if they have any, otherwise those of its depth maps.
  private func addCamera(_ name: CameraName, _ full: ImageSize, _ stream: SampleStream, _ episode: inout Episode) {
    let known = episode.cameras[name]
    guard known?.intrinsicsTrack == nil || stream.spec.kind == .image && stream.intrinsicsTrack != nil else { return }
    let pose = StreamName.pose.of(stream.spec.member)
    episode.cameras[name] = Camera(
      size: full, intrinsicsTrack: stream.intrinsicsTrack,
      pose: data.contains("\(ShardNames.observations)/\(pose)") ? pose : nil)
  }

  private func inertial(_ group: Group) throws -> SampleStream {
    let stored = try group.dataset(ShardNames.times)
    let origin = Timestamp(nanoseconds: try stored.integerAttribute("origin_ns") ?? 0)
    let stamps = try stored.readAll(as: Int64.self).map { origin.advanced(by: $0) }
    let (accel, gyro) = (
      try group.dataset(ShardNames.accelerations).readAll(as: Float.self),
      try group.dataset(ShardNames.rotationRates).readAll(as: Float.self)
    )
    guard accel.count == 3 * stamps.count, gyro.count == 3 * stamps.count else {
      throw HDF5Error(call: "read", target: group.name, message: "its arrays differ in length")
    }
    var values: [Float] = []
    for index in stamps.indices {
      values += accel[(3 * index)..<(3 * index + 3)]
      values += gyro[(3 * index)..<(3 * index + 3)]
    }
    var spec = StreamSpec(kind: .inertial, type: .float32, shape: [6], unit: "m/s^2, rad/s", clock: try clock(of: stored))
    spec.sourceUnit = try group.dataset(ShardNames.accelerations).textAttribute("source_unit")
    spec.member = try group.dataset(ShardNames.accelerations).textAttribute("member")
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
