import HDF5

/// Which datasets an episode becomes, and where their numbers come from.
struct ShardLayout: Sendable {
  /// A stream of pictures or depth maps: one chunk a row.
  struct Grid: Sendable {
    var name: String
    var stream: Stream
    var rows: [Int?]
    /// Indices into `datasets`: the samples, and the mask of their elements if they have one.
    var samples: Int
    var mask: Int?
    /// Set for samples of fixed size, whose values are counted.
    var sampleBytes: Int?

    /// The samples that these rows need, each once.
    func samples(of block: Range<Int>) -> [Int] {
      rows[block].reduce(into: []) { samples, sample in
        if let sample, samples.last != sample { samples.append(sample) }
      }
    }
  }

  /// A small dataset, whose rows are made when all frames have been read.
  struct Column: Sendable {
    enum Content: Sendable {
      case values(Stream, rows: [Int?])
      case mask(Stream, rows: [Int?])
      /// Some of the numbers of every sample of a stream, in its own order.
      case samples(Stream, numbers: Range<Int>)
      case integers([Int64])
      /// One byte a row: whether stream `name` has a readable sample there.
      case readable(name: String)
      /// fx, fy, cx, cy of each row; NaN where there is none.
      case cameras([Intrinsics?])
      /// One byte a row: what is wrong with it.
      case quality
    }
    var dataset: Int
    var content: Content
  }

  let episode: Episode
  private(set) var datasets: [PlannedDataset] = []
  private(set) var grids: [Grid] = []
  private(set) var columns: [Column] = []
  /// Rows that one worker prepares at a time.
  private(set) var blocks: [Range<Int>] = []

  /// Rows of a chunk of a small dataset: a window of an episode costs a few kilobytes of inflating.
  private static let columnRows = 1024

  private let writer: HDF5Writer
  private var count: Int { episode.frames.count }
  private let obs = "data/demo_0/obs", meta = "meta/demo_0"

  init(_ episode: Episode, writer: HDF5Writer) throws {
    self.episode = episode
    self.writer = writer
    for (name, stream) in episode.streams.sorted(by: { $0.key < $1.key }) {
      if stream.spec.kind == .inertial {
        addInertial(name, stream)
        continue
      }
      guard let rows = stream.rows else {
        throw TakeFailure(
          "not-aligned", "the stream \(name) is not on the frames' timeline; the pipeline needs the step align")
      }
      if stream.spec.kind == .image, writer.image == .jpeg {
        try addFiles(name, stream, rows)
      } else if stream.spec.isGrid {
        addGrid(name, stream, rows)
      } else {
        addColumn(name, stream, rows)
      }
    }
    addTimes()
    if let blocks = runBlocks() {
      self.blocks = blocks
      for index in grids.indices where grids[index].stream.source.runs != nil {
        grids[index].stream.source = grids[index].stream.source.unfed
      }
    } else {
      blocks = evenBlocks()
    }
  }

  private mutating func addGrid(_ name: String, _ stream: Stream, _ rows: [Int?]) {
    let isImage = stream.spec.kind == .image
    let compression = isImage ? writer.imageCompression : writer.compression
    let samples = add(
      "\(obs)/\(name)", stream.spec.type, stream.spec.shape, chunkRows: 1, deflate: compression.deflate,
      Self.attributes(of: stream.spec))
    var mask: Int?
    if stream.spec.kind == .depth {
      mask = add(
        "\(obs)/\(name)_valid", .uint8, stream.spec.shape, chunkRows: 1, deflate: writer.compression.deflate,
        ["unit": .text("0 or 1")])
    }
    grids.append(
      Grid(name: name, stream: stream, rows: rows, samples: samples, mask: mask, sampleBytes: stream.spec.sampleBytes))
  }

  private static func attributes(of spec: StreamSpec) -> [String: PlannedDataset.Attribute] {
    var attributes: [String: PlannedDataset.Attribute] = ["unit": .text(spec.unit)]
    if spec.kind == .image {
      attributes["encoding"] = .text("raw")
      attributes["channel_order"] = .text("rgb")
    }
    if let degrees = spec.rotationApplied { attributes["rotation_applied"] = .integer(Int64(degrees)) }
    return attributes
  }

  /// Pictures as the files they came in, one a row.
  private mutating func addFiles(_ name: String, _ stream: Stream, _ rows: [Int?]) throws {
    guard let source = stream.source as? any JPEGSource else {
      throw TakeFailure(
        "not-jpeg", "the pictures of \(name) are no untouched JPEG files; take resize-image out of the pipeline or store them raw")
    }
    var files = stream
    files.source = source.files
    let samples = add(
      PlannedDataset(
        path: "\(obs)/\(name)", layout: Layout(type: .bytes, dims: [count]),
        attributes: [
          "unit": .text(stream.spec.unit), "encoding": .text("jpeg"), "channel_order": .text("rgb"),
          "height": .integer(Int64(stream.spec.shape[0])), "width": .integer(Int64(stream.spec.shape[1])),
        ]))
    grids.append(Grid(name: name, stream: files, rows: rows, samples: samples))
  }

  private mutating func addColumn(_ name: String, _ stream: Stream, _ rows: [Int?]) {
    var attributes: [String: PlannedDataset.Attribute] = ["unit": .text(stream.spec.unit)]
    if case .pose(let frame) = stream.spec.kind {
      attributes["transform"] = .text("camera_to_world")
      attributes["camera_axes"] = .text(frame.cameraAxes)
      attributes["world_axes"] = .text(frame.worldAxes)
      attributes["quaternion_order"] = .text("xyzw")
      attributes["unit"] = .text(frame.unit)
    }
    if name == "joints" { attributes["order"] = .text(EncodersFile.channels.joined(separator: " ")) }
    let dataset = add("\(obs)/\(name)", stream.spec.type, stream.spec.shape, attributes)
    columns.append(Column(dataset: dataset, content: .values(stream, rows: rows)))
    if let raw = stream.raw {
      var unprocessed = stream
      unprocessed.source = raw
      let dataset = add("\(meta)/\(name)_raw", stream.spec.type, stream.spec.shape, ["unit": .text(stream.spec.unit)])
      columns.append(Column(dataset: dataset, content: .values(unprocessed, rows: rows)))
    }
    if stream.spec.kind == .numbers {
      let mask = add("\(obs)/\(name)_valid", .uint8, stream.spec.shape, ["unit": .text("0 or 1")])
      columns.append(Column(dataset: mask, content: .mask(stream, rows: rows)))
    }
  }

  /// A stream at its own times: on the frames' timeline where clocks could be brought together, else from its own first sample.
  private mutating func addInertial(_ name: String, _ stream: Stream) {
    let isAligned = stream.spec.clock == episode.frames.clock
    let first = isAligned ? episode.frames.timestamps.first : stream.timestamps.first
    let origin = first ?? Timestamp(nanoseconds: 0)
    addIntegers(
      "\(meta)/\(name)/timestamp_ns", stream.timestamps.map { $0.since(origin) },
      ["unit": .text("ns"), "clock": .text(stream.spec.clock.rawValue), "origin_ns": .integer(origin.nanoseconds)])
    for (part, numbers, unit) in [("accel", 0..<3, "m/s^2"), ("gyro", 3..<6, "rad/s")] {
      let rows = stream.timestamps.count
      var attributes: [String: PlannedDataset.Attribute] = [
        "unit": .text(unit), "axes": .text("device: x right, y to the top edge, z out of the screen, in portrait"),
      ]
      if part == "accel", let source = stream.spec.sourceUnit { attributes["source_unit"] = .text(source) }
      let dataset = add(
        PlannedDataset(
          path: "\(meta)/\(name)/\(part)",
          layout: Layout(
            type: .float32, dims: [rows, 3], chunk: [min(rows, Self.columnRows), 3], deflate: writer.compression.deflate),
          attributes: attributes))
      columns.append(Column(dataset: dataset, content: .samples(stream, numbers: numbers)))
    }
  }

  private mutating func addTimes() {
    let frames = episode.frames
    let origin = frames.timestamps.first ?? Timestamp(nanoseconds: 0)
    var clock: [String: PlannedDataset.Attribute] = [
      "unit": .text("ns"), "clock": .text(frames.clock.rawValue), "origin_ns": .integer(origin.nanoseconds),
    ]
    if let unix = episode.unixOrigin {
      clock["unix_origin_ns"] = .integer(unix.nanoseconds)
      clock["unix_origin_resolution_ns"] = .integer(unix.resolution)
    }
    addIntegers("\(meta)/timestamp_ns", frames.timestamps.map { $0.since(origin) }, clock)
    addIntegers("\(meta)/source_index", frames.sourceIndex, ["unit": .text("source frame number")])

    if let segment = frames.segment {
      addIntegers("\(meta)/segment", segment, ["unit": .text("number of the stretch without a gap")])
    }
    let quality = add(
      "\(meta)/quality", .uint8, [], ["unit": .text("bits"), "bits": .text(FrameQuality.names.joined(separator: " "))])
    columns.append(Column(dataset: quality, content: .quality))

    let gaps = frames.gaps
    let table = add(
      PlannedDataset(
        path: "\(meta)/gaps", layout: Layout(type: .int64, dims: [gaps.count, 2]),
        attributes: ["unit": .text("row before the gap, ns")]))
    columns.append(Column(dataset: table, content: .integers(gaps.flatMap { [Int64($0.row), $0.step] })))

    for (name, stream) in episode.streams.sorted(by: { $0.key < $1.key }) {
      guard let rows = stream.rows else { continue }
      let group = "\(meta)/streams/\(name)"
      let steps = zip(rows, frames.timestamps).map { row, frame in row.map { stream.timestamps[$0].since(frame) } ?? 0 }
      addIntegers("\(group)/dt_ns", steps, ["unit": .text("ns, sample minus frame; 0 where source_index is -1")])
      addIntegers(
        "\(group)/source_index", rows.map { row in row.map { stream.sourceIndex[$0] } ?? -1 },
        ["unit": .text("source sample number; -1: none")])
      let valid = add("\(group)/valid", .uint8, [], ["unit": .text("0 or 1")])
      columns.append(Column(dataset: valid, content: .readable(name: name)))
      if stream.spec.isGrid, let camera = stream.spec.intrinsics {
        let path = stream.spec.kind == .image ? "\(meta)/intrinsics" : "\(meta)/\(name)_intrinsics"
        let dataset = add(path, .float32, [4], ["unit": .text("pixel"), "order": .text("fx fy cx cy")])
        columns.append(Column(dataset: dataset, content: .cameras(rows.map { row in camera.intrinsics(ofSample: row) })))
      }
    }
  }

  /// Whether some samples have to be fetched in order.
  var isFed: Bool { grids.contains { $0.stream.source.feed != nil } }

  /// Blocks that are whole runs of a movie's pictures, so that several threads can decode it; `nil` where there is no movie, or where the
  /// pictures of a run, as they are stored, would take too much memory.
  private func runBlocks() -> [Range<Int>]? {
    guard let movie = grids.first(where: { $0.stream.source.runs != nil }), let runs = movie.stream.source.runs, runs.count > 1 else {
      return nil
    }
    let rowBytes = grids.reduce(1) { $0 + $1.stream.spec.sampleBytes }
    let most = (24 << 20) / rowBytes
    var blocks: [Range<Int>] = []
    var (start, next) = (0, 1)
    for row in 0..<count {
      guard let sample = movie.rows[row] else { continue }
      // The last run that has begun by this picture.
      let before = next
      while next < runs.count, runs[next] <= sample { next += 1 }
      if next > before, row > start {
        blocks.append(start..<row)
        start = row
      }
    }
    blocks.append(start..<count)
    return blocks.allSatisfy { $0.count <= most } ? blocks : nil
  }

  /// The rows in blocks of some two megabytes, which end where possible between rows that share no sample: neighbours often
  /// share a depth map, which is then read and deflated once, by one worker.
  private func evenBlocks() -> [Range<Int>] {
    if grids.isEmpty { return [] }
    let rowBytes = grids.reduce(1) { $0 + $1.stream.spec.sampleBytes + ($1.stream.source.feed?.sampleBytes ?? 0) }
    // Pictures of a movie wait at their full size; fewer of them than share a depth map would have it deflated again.
    let budget = isFed ? 16 << 20 : 2 << 20
    let target = min(max(budget / rowBytes, 1), 8)
    var blocks: [Range<Int>] = []
    var start = 0
    for row in 1...count {
      let length = row - start
      let isShared = row < count && grids.contains { $0.rows[row] != nil && $0.rows[row] == $0.rows[row - 1] }
      guard row == count || length >= 2 * target || length >= target && !isShared else { continue }
      blocks.append(start..<row)
      start = row
    }
    return blocks
  }

  private mutating func addIntegers(
    _ path: String, _ values: [Int64], _ attributes: [String: PlannedDataset.Attribute]
  ) {
    let layout = Layout(
      type: .int64, dims: [values.count], chunk: [min(max(values.count, 1), Self.columnRows)], deflate: writer.compression.deflate)
    let dataset = add(PlannedDataset(path: path, layout: layout, attributes: attributes))
    columns.append(Column(dataset: dataset, content: .integers(values)))
  }

  private mutating func add(
    _ path: String, _ type: Datatype, _ shape: [Int], chunkRows: Int? = nil, deflate: Int?? = nil,
    _ attributes: [String: PlannedDataset.Attribute]
  ) -> Int {
    let rows = chunkRows ?? min(count, Self.columnRows)
    return add(
      PlannedDataset(
        path: path,
        layout: Layout(
          type: type, dims: [count] + shape, chunk: [rows] + shape, deflate: deflate ?? writer.compression.deflate),
        attributes: attributes))
  }

  private mutating func add(_ dataset: PlannedDataset) -> Int {
    datasets.append(dataset)
    return datasets.count - 1
  }

  /// robomimic's and robosuite's camera matrices by camera, where intrinsics are known.
  var cameraInfo: JSONValue? {
    let cameras = grids.compactMap { grid -> (String, JSONValue)? in
      guard let camera = grid.stream.spec.intrinsics?.usual else { return nil }
      let matrix: JSONValue = [
        [.number(camera.fx), 0, .number(camera.cx)], [0, .number(camera.fy), .number(camera.cy)], [0, 0, 1],
      ]
      return (
        grid.name,
        [
          "intrinsics": matrix, "height": JSONValue(grid.stream.spec.shape[0]), "width": JSONValue(grid.stream.spec.shape[1]),
        ]
      )
    }
    return cameras.isEmpty ? nil : .object(Dictionary(uniqueKeysWithValues: cameras))
  }
}
