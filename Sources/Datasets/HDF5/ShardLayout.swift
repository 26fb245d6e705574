import Evidence
package import HDF5
package import Model

/// The arrays that an episode becomes, and the sources of their values: section 3 of the format.
package struct ShardLayout: Sendable {
  enum Attribute: Sendable, Equatable {
    case text(String)
    case integer(Int64)

    var json: JSONValue {
      switch self {
      case .text(let text): .string(text)
      case .integer(let number): .integer(number)
      }
    }
  }

  /// One array of the file.
  package struct Planned: Sendable {
    /// Path from the root, without a leading slash.
    package var path: String
    package var layout: Layout
    var attributes: [String: Attribute] = [:]
    /// Scope of the digest: over the bytes, or over digests of the rows, each a chunk; `nil` for arrays without a digest.
    var digestOf: ArrayRecord.DigestScope?

    var record: ArrayRecord {
      ArrayRecord(
        path: "/" + path, dtype: layout.type.numpyName, shape: layout.dims, chunk: layout.chunk, filters: layout.filters)
    }

    /// Sets the attributes of the array that was written, and returns its record; `nil` for one without a digest.
    func describe(_ dataset: HDF5Array, _ digest: Digest?, noting list: inout AttributeList) throws -> ArrayRecord? {
      guard let scope = digestOf, let digest else {
        try list.set(attributes, on: dataset, path: "/" + path)
        return nil
      }
      var (own, record) = (attributes, self.record)
      own["sha256_of"] = .text(scope.rawValue)
      own["sha256"] = .text(digest.description)
      (record.digest, record.digestOf) = (digest, scope)
      try list.set(own, on: dataset, path: "/" + path)
      return record
    }
  }

  /// A stream of images, depth or confidence: one chunk per row.
  package struct RasterArrays: Sendable {
    package var name: StreamName
    package var stream: SampleStream
    package var rows: [Row?]
    /// The request for cursors.
    package var request: SampleRequest
    /// Indices into `arrays`: the samples, and the mask of their elements if they have one.
    package var samples: Int
    package var mask: Int?
    /// Size of a decoded sample, whose values are counted; `nil` for files that are stored without being decoded.
    package var sampleBytes: Int?
    /// The encoding of images that are stored as files; `nil` for arrays.
    package var encoding: Encoding?

    /// The encoding of images that are stored as files, one a row.
    package enum Encoding: Sendable, Equatable {
      /// The source's own files.
      case source
      case jpeg(quality: Int)
      case png

      var word: String { self == .png ? "png" : "jpeg" }
    }
    /// The same of the row after each row, where the next observations are stored.
    package var next: Next?

    /// Indices into `arrays`: the samples of the row after each row, and their mask.
    package struct Next: Sendable {
      package var samples: Int
      package var mask: Int?
    }
  }

  /// A small array, whose rows are computed when all frames have been read.
  package struct Column: Sendable {
    /// The values of a column, or the stream that they are read from.
    package enum Content: Sendable {
      case integers([Int64])
      case floats([Float])
      case bytes([UInt8])
      /// The values of a stream's rows.
      case values(StreamName)
      /// The values of the row after each row; of the last row, its own.
      case nextValues(StreamName)
      /// Values as the sensor gave them.
      case rawValues(StreamName)
      /// Validity of the elements, or of the rows, of a stream's values.
      case mask(StreamName, isNext: Bool = false)
      /// A range of the numbers of every sample of a stream, in its own order.
      case samples(StreamName, numbers: Range<Int>)
      /// One byte per row: whether the stream has a readable sample there.
      case readable(StreamName)
      /// fx, fy, cx, cy of each row; NaN where absent.
      case intrinsics(StreamName)
      /// One byte per row: its quality bits.
      case quality
      /// The digests of another array's rows.
      case rowDigests(array: Int)
    }
    package var array: Int
    package var content: Content
  }

  /// Every name that an attribute of an array can have.
  static let attributeNames: Set<String> = [
    "axes", "bits", "body", "camera", "camera_axes", "camera_size", "channel_order", "clock", "encoding", "height", "kind", "member",
    "nominal_rate_hz",
    "normalization", "order", "origin_ns", "parts",
    "quaternion_order", "raster_from_camera", "rotation_applied", "rotation_layout", "sha256", "sha256_of", "source_unit", "tick_ns",
    "timeline", "transform",
    "unit",
    "unix_origin_ns", "unix_origin_resolution_ns", "width", "world", "world_axes",
  ]

  let episode: Episode
  package private(set) var arrays: [Planned] = []
  package private(set) var rasters: [RasterArrays] = []
  package private(set) var columns: [Column] = []
  let blocks: RowBlocks
  /// Index of the array with the checksums of all deflated chunks.
  private(set) var checksums = 0

  /// Rows per chunk of a small array; reading a window of an episode inflates a few kilobytes.
  private static let columnRows = 1024
  /// Size in bytes up to which an array is stored in its header, where opening it also reads it.
  private static let compactBytes = 8 << 10

  private let compression: Compression
  private let imageCompression: Compression
  private var count: Int { episode.frames.count }
  private static let data = ShardNames.data, meta = ShardNames.meta

  package init(_ episode: Episode, _ storage: SampleStorage) throws {
    self.episode = episode
    (compression, imageCompression) = (storage.compression, storage.imageCompression)
    for (name, stream) in episode.streams where stream.rows == nil && stream.spec.kind.place != .meta {
      throw TakeFailure(
        .notAligned, "the stream \(name) is not on the frames' timeline; the pipeline needs the step align")
    }
    let streams = episode.streams.sorted { $0.key < $1.key }
    blocks = Self.blocks(of: episode)
    for (name, stream) in streams {
      if stream.spec.kind.place == .meta {
        addInertial(name, stream)
      } else if stream.spec.kind.isRaster {
        addRaster(name, stream, try Self.encoding(name, stream.spec, storage))
      } else {
        addVector(name, stream.spec, hasRaw: stream.raw != nil)
      }
    }
    for (name, derived) in episode.derived.sorted(by: { $0.key < $1.key }) { addVector(name, derived.spec, hasRaw: false) }
    if episode.derived[.actions] != nil { addRewards() }
    if episode.storesNextObservations { addNextObservations(streams.map { ($0.key, $0.value.spec) }) }
    addTimeline()
    for (name, stream) in streams where stream.rows != nil { addRows(name, stream) }
    for raster in rasters {
      for array in [raster.samples, raster.mask, raster.next?.samples, raster.next?.mask].compactMap(\.self) { addRowDigests(of: array) }
    }
    addChecksums()
  }

  /// The arrays of a vector that is added to an episode which is written already. None is compressed: the checksums of compressed chunks stand
  /// together, and those of the episode stay as they are.
  init(adding name: StreamName, _ stream: SampleStream, to episode: Episode) {
    var own = episode
    own.streams = [name: stream]
    (self.episode, compression, imageCompression) = (own, .level(0), .level(0))
    blocks = Self.blocks(of: own)
    addVector(name, stream.spec, hasRaw: false)
    if episode.storesNextObservations { addNextObservations([(name, stream.spec)]) }
    addRows(name, stream)
  }

  /// The blocks of the rows of images, depth and confidence.
  static func blocks(of episode: Episode) -> RowBlocks {
    let rasters = episode.streams.sorted { $0.key < $1.key }.map(\.value).filter(\.spec.kind.isRaster)
    return RowBlocks(rasters, count: episode.frames.count, isPart: episode.id.part != nil)
  }

  // MARK: Streams

  /// The encoding of images, `nil` for arrays. Throws `TakeFailure` for images that are not JPEG files and must be.
  private static func encoding(_ name: StreamName, _ spec: StreamSpec, _ storage: SampleStorage) throws -> RasterArrays.Encoding? {
    guard spec.kind == .image else { return nil }
    switch storage.image {
    case .raw: return nil
    case .png: return .png
    case .jpeg: return spec.sourceEncoding == .jpeg ? .source : .jpeg(quality: storage.quality)
    case .jpegSource:
      guard spec.sourceEncoding == .jpeg else {
        throw TakeFailure(.notJPEG, "the images of \(name) are not untouched JPEG files; store them with image: jpeg, png or raw")
      }
      return .source
    }
  }

  private mutating func addRaster(_ name: StreamName, _ stream: SampleStream, _ encoding: RasterArrays.Encoding?) {
    let spec = stream.spec
    var attributes = Self.attributes(of: spec)
    if let raster = spec.raster { attributes["camera"] = .text(raster.camera.rawValue) }
    if spec.kind == .image {
      attributes["encoding"] = .text(encoding?.word ?? "raw")
      attributes["channel_order"] = .text("rgb")
    }
    if let degrees = spec.rotationApplied { attributes["rotation_applied"] = .integer(Int64(degrees)) }
    if let raster = spec.raster, let camera = episode.cameras[raster.camera], camera.intrinsicsTrack != nil {
      // A reader reconstructs the camera from these and the intrinsics of the rows.
      let map = raster.rasterFromFull
      attributes["camera_size"] = .text("\(camera.size)")
      attributes["raster_from_camera"] = .text(
        [map.xx, map.xy, map.x0, map.yx, map.yy, map.y0].map { JSONValue.number($0).canonicalText }.joined(separator: " "))
    }
    let path = "\(Self.data)/\(ShardNames.observations)/\(name)"
    var request = SampleRequest(form: encoding == .source ? .encoded : .decoded)
    request.isStandalone = blocks.isStandalone
    if let encoding {
      attributes["height"] = .integer(Int64(spec.shape[0]))
      attributes["width"] = .integer(Int64(spec.shape[1]))
      let samples = add(Planned(path: path, layout: Layout(type: .bytes, dims: [count]), attributes: attributes, digestOf: .rows))
      rasters.append(
        RasterArrays(
          name: name, stream: stream, rows: stream.rows ?? [], request: request, samples: samples,
          sampleBytes: encoding == .source ? nil : spec.sampleBytes, encoding: encoding))
      return
    }
    let deflate = (spec.kind == .image ? imageCompression : compression).deflate
    func layout(_ type: Datatype, _ deflate: Int?) -> Layout {
      Layout(type: type, dims: [count] + spec.shape, chunk: [1] + spec.shape, deflate: deflate)
    }
    let samples = add(Planned(path: path, layout: layout(Datatype(spec.type), deflate), attributes: attributes, digestOf: .rows))
    var mask: Int?
    if spec.kind.mask == .positive {
      mask = add(
        Planned(path: path + "_valid", layout: layout(.uint8, compression.deflate), attributes: ["unit": .text("0 or 1")], digestOf: .rows))
    }
    rasters.append(
      RasterArrays(
        name: name, stream: stream, rows: stream.rows ?? [], request: request, samples: samples, mask: mask, sampleBytes: spec.sampleBytes))
  }

  private static func attributes(of spec: StreamSpec) -> [String: Attribute] {
    var attributes: [String: Attribute] = ["unit": .text(spec.unit), "kind": .text(spec.kind.word)]
    if let member = spec.member { attributes["member"] = .text(member) }
    return attributes
  }

  private mutating func addVector(_ name: StreamName, _ spec: StreamSpec, hasRaw: Bool) {
    var attributes = Self.attributes(of: spec)
    if let frame = spec.kind.poseFrame ?? spec.actionFrame {
      if let body = frame.body {
        let numbers = [body.position.x, body.position.y, body.position.z] + (0..<4).map { body.quaternion[$0] }
        attributes["body"] = .text(numbers.map { JSONValue.number($0).canonicalText }.joined(separator: " "))
      }
      attributes["camera_axes"] = .text(frame.cameraAxes.rawValue)
      attributes["world_axes"] = .text(frame.worldAxes.text)
      // Actions may be of members in different worlds.
      if let world = spec.kind.poseFrame?.world { attributes["world"] = .text(world) }
    }
    if let layout = spec.rotationLayout { attributes["rotation_layout"] = .text(layout) }
    if let frame = spec.kind.poseFrame {
      attributes["transform"] = .text(frame.body == nil ? "camera_to_world" : "body_to_world")
      attributes["quaternion_order"] = .text("xyzw")
      attributes["unit"] = .text(frame.unit.rawValue)
    }
    if !spec.elements.isEmpty { attributes["order"] = .text(spec.elements.joined(separator: " ")) }
    if !spec.parts.isEmpty { attributes["parts"] = .text(spec.parts.map(\.description).joined(separator: " ")) }
    let isPart = name.rawValue.hasPrefix(StreamName.actionFolder + "/")
    let folder = spec.kind.place == .action ? Self.data : Self.data + "/" + ShardNames.observations
    addColumn("\(folder)/\(name)", .float32, spec.shape, .values(name), attributes)
    if hasRaw { addColumn("\(Self.meta)/\(ShardNames.raw(of: name))", .float32, spec.shape, .rawValues(name), ["unit": .text(spec.unit)]) }
    // Programs take every member of action_dict for an action.
    addMask("\(isPart ? Self.meta : folder)/\(name)_valid", spec, .mask(name))
  }

  private mutating func addMask(_ path: String, _ spec: StreamSpec, _ content: Column.Content) {
    switch spec.kind.mask {
    case .notNaN: addColumn(path, .uint8, spec.shape, content, ["unit": .text("0 or 1")])
    case .row: addColumn(path, .uint8, Array(spec.shape.dropLast()), content, ["unit": .text("0 or 1")])
    case .positive, nil: break
    }
  }

  /// Adds what loaders of imitation learning read besides actions: rewards of 0, and the end of the episode.
  private mutating func addRewards() {
    addColumn(
      "\(Self.data)/\(ShardNames.rewards)", .float32, [], .floats([Float](repeating: 0, count: count)), ["unit": .text("reward; always 0")])
    var dones = [UInt8](repeating: 0, count: count)
    if count > 0 { dones[count - 1] = 1 }
    addColumn("\(Self.data)/\(ShardNames.dones)", .int8, [], .bytes(dones), ["unit": .text("0 or 1: the last row of the episode")])
  }

  /// Adds `next_obs`: every observation of the row after.
  private mutating func addNextObservations(_ specs: [(name: StreamName, spec: StreamSpec)]) {
    func next(of array: Int) -> Int {
      var planned = arrays[array]
      planned.path = planned.path.replacing(
        "\(Self.data)/\(ShardNames.observations)/", with: "\(Self.data)/\(ShardNames.nextObservations)/")
      return add(planned)
    }
    for index in rasters.indices {
      let samples = next(of: rasters[index].samples)
      rasters[index].next = RasterArrays.Next(samples: samples, mask: rasters[index].mask.map { next(of: $0) })
    }
    for (name, spec) in specs where !spec.kind.isRaster && spec.kind.place == .observation {
      let path = "\(Self.data)/\(ShardNames.nextObservations)/\(name)"
      let own = arrays.first { $0.path == "\(Self.data)/\(ShardNames.observations)/\(name)" }?.attributes
      addColumn(path, .float32, spec.shape, .nextValues(name), own ?? ["unit": .text(spec.unit)])
      addMask(path + "_valid", spec, .mask(name, isNext: true))
    }
  }

  /// Adds a stream at its own times: on the frames' timeline where clocks were aligned, else from its own first sample.
  private mutating func addInertial(_ name: StreamName, _ stream: SampleStream) {
    let isAligned = stream.spec.clock == episode.frames.clock
    let first = isAligned ? episode.frames.timestamps.first : stream.timestamps.first
    let origin = first ?? Timestamp(nanoseconds: 0)
    addColumn(
      "\(Self.meta)/\(name)/\(ShardNames.times)", .int64, [], rows: stream.timestamps.count,
      .integers(stream.timestamps.map { $0.since(origin) }),
      ["unit": .text("ns"), "clock": .text(stream.spec.clock.rawValue), "origin_ns": .integer(origin.nanoseconds)])
    for (part, numbers, unit) in [(ShardNames.accelerations, 0..<3, "m/s^2"), (ShardNames.rotationRates, 3..<6, "rad/s")] {
      var attributes: [String: Attribute] = [
        "unit": .text(unit), "axes": .text("device: x right, y to the top edge, z out of the screen, in portrait"),
      ]
      if let member = stream.spec.member { attributes["member"] = .text(member) }
      if part == ShardNames.accelerations, let source = stream.spec.sourceUnit { attributes["source_unit"] = .text(source) }
      addColumn(
        "\(Self.meta)/\(name)/\(part)", .float32, [3], rows: stream.timestamps.count, .samples(name, numbers: numbers), attributes)
    }
  }

  // MARK: Provenance

  private mutating func addTimeline() {
    let frames = episode.frames
    let origin = frames.timestamps.first ?? Timestamp(nanoseconds: 0)
    var clock: [String: Attribute] = [
      "unit": .text("ns"), "clock": .text(frames.clock.rawValue), "origin_ns": .integer(origin.nanoseconds),
      "timeline": .text(frames.isResampled ? "resampled" : "source"),
    ]
    if let unix = episode.unixOrigin {
      // The recording may have begun earlier than the first row, which a step may have moved by minutes.
      let skipped = origin.since(episode.captureStart ?? origin)
      clock["unix_origin_ns"] = .integer(Timestamp(nanoseconds: unix.nanoseconds).advanced(by: skipped).nanoseconds)
      clock["unix_origin_resolution_ns"] = .integer(unix.resolution)
    }
    if frames.tick != 1 { clock["tick_ns"] = .integer(frames.tick) }
    if let rate = frames.nominalRate { clock["nominal_rate_hz"] = .text(JSONValue.number(rate).canonicalText) }
    addColumn("\(Self.meta)/\(ShardNames.times)", .int64, [], .integers(frames.timestamps.map { $0.since(origin) }), clock)
    addColumn("\(Self.meta)/\(ShardNames.sourceIndex)", .int64, [], .integers(frames.sourceIndex), ["unit": .text("source frame number")])
    if let segment = frames.segment {
      addColumn(
        "\(Self.meta)/\(ShardNames.segment)", .int64, [], .integers(segment), ["unit": .text("number of the segment without a gap")])
    }
    addColumn(
      "\(Self.meta)/\(ShardNames.quality)", .uint8, [], .quality,
      ["unit": .text("bits"), "bits": .text(FrameQuality.names.joined(separator: " "))])
    let gaps = frames.gaps
    addColumn(
      "\(Self.meta)/\(ShardNames.gaps)", .int64, [2], rows: gaps.count, .integers(gaps.flatMap { [Int64($0.row), $0.step] }),
      ["unit": .text("row before the gap, ns")])
  }

  /// Adds the provenance of each row's value.
  private mutating func addRows(_ name: StreamName, _ stream: SampleStream) {
    let rows = stream.rows ?? []
    let group = "\(Self.meta)/\(ShardNames.streams)/\(name)"
    func number(_ sample: Int?) -> Int64 { sample.map { stream.sourceIndex[$0] } ?? -1 }
    addColumn(
      "\(group)/\(ShardNames.delay)", .int64, [],
      .integers(zip(rows, episode.frames.timestamps).map { row, frame in row.map { stream.delay(of: $0, at: frame) } ?? 0 }),
      ["unit": .text("ns, sample minus row; 0 where the value was interpolated to the row's time and where source_index is -1")])
    addColumn(
      "\(group)/\(ShardNames.sourceIndex)", .int64, [], .integers(rows.map { number($0?.sample) }),
      ["unit": .text("source sample number; -1: none")])
    addColumn(
      "\(group)/\(ShardNames.nextIndex)", .int64, [], .integers(rows.map { number($0?.next) }),
      ["unit": .text("source sample number; -1: none")])
    addColumn(
      "\(group)/\(ShardNames.weight)", .float32, [], .floats(rows.map { $0?.weight ?? 0 }),
      ["unit": .text("0: source_index, 1: next_index")])
    addColumn("\(group)/\(ShardNames.valid)", .uint8, [], .readable(name), ["unit": .text("0 or 1")])
    if stream.spec.kind != .confidence, episode.camera(of: stream)?.intrinsicsTrack != nil {
      addColumn(
        "\(Self.meta)/\(intrinsicsName(name, stream))", .float32, [4], .intrinsics(name),
        ["unit": .text("pixel"), "order": .text("fx fy cx cy")])
    }
  }

  /// `intrinsics` for the image of the first camera, of several the usual one or else the first by name; other names are prefixed with their
  /// stream's name.
  private func intrinsicsName(_ name: StreamName, _ stream: SampleStream) -> String {
    let member = stream.spec.member
    let all = episode.streams.filter { $0.value.spec.member == member }
    let first = member == nil ? episode.cameras.keys.min() : all.values.compactMap { $0.spec.raster?.camera }.min()
    let images = all.filter { $0.value.spec.kind == .image && $0.value.spec.raster?.camera == first }.keys
    let isFirst = name == (images.contains(.image) ? .image : images.min())
    return ShardNames.intrinsics(of: name.rawValue, isFirstImage: isFirst, member: member)
  }

  private mutating func addRowDigests(of array: Int) {
    let index = add(
      Planned(
        path: ShardNames.rowDigests(of: arrays[array].path), layout: Layout(type: .uint8, dims: [count, 32]),
        attributes: ["unit": .text("sha256")]))
    columns.append(Column(array: index, content: .rowDigests(array: array)))
  }

  /// CRC-32 of each deflated chunk as stored: dataset after dataset in the order of their paths, including the statistics' one. Not every
  /// change of compressed data shows in the inflated data.
  private mutating func addChecksums() {
    let chunks = arrays.filter { $0.layout.deflate != nil }.map(\.layout.chunkCount).reduce(ShardStatistics.chunkCount, +)
    checksums = add(
      Planned(
        path: "\(Self.meta)/\(ShardNames.checksums)",
        layout: Layout(type: .int64, dims: [chunks], isCompact: 8 * chunks <= Self.compactBytes),
        attributes: ["unit": .text("CRC-32 of each deflated chunk, by dataset path and row")], digestOf: .bytes))
  }

  // MARK: Adding

  private mutating func addColumn(
    _ path: String, _ type: Datatype, _ shape: [Int], rows: Int? = nil, _ content: Column.Content, _ attributes: [String: Attribute]
  ) {
    let rows = rows ?? count
    let bytes = shape.reduce(rows * type.size, *)
    var layout = Layout(type: type, dims: [rows] + shape)
    if bytes > 0, bytes <= Self.compactBytes {
      layout.isCompact = true
    } else if bytes > 0, let level = compression.deflate {
      layout.chunk = [min(rows, Self.columnRows)] + shape
      layout.deflate = level
    }
    columns.append(Column(array: add(Planned(path: path, layout: layout, attributes: attributes, digestOf: .bytes)), content: content))
  }

  private mutating func add(_ planned: Planned) -> Int {
    arrays.append(planned)
    return arrays.count - 1
  }

  /// robomimic's and robosuite's camera matrices by camera, where intrinsics are known.
  var cameraInfo: JSONValue? {
    let cameras = rasters.compactMap { raster -> (String, JSONValue)? in
      guard raster.stream.spec.kind != .confidence, let grid = raster.stream.spec.raster,
        let camera = episode.cameras[grid.camera]?.usualIntrinsics(grid)
      else { return nil }
      let matrix: JSONValue = [
        [.number(camera.fx), 0, .number(camera.cx)], [0, .number(camera.fy), .number(camera.cy)], [0, 0, 1],
      ]
      return (
        raster.name.rawValue, ["intrinsics": matrix, "height": JSONValue(grid.size.height), "width": JSONValue(grid.size.width)]
      )
    }
    return cameras.isEmpty ? nil : .object(Dictionary(uniqueKeysWithValues: cameras))
  }
}

extension Datatype {
  init(_ type: ScalarType) {
    self =
      switch type {
      case .uint8: .uint8
      case .int8: .int8
      case .uint16: .uint16
      case .int32: .int32
      case .int64: .int64
      case .float32: .float32
      case .float64: .float64
      }
  }
}
