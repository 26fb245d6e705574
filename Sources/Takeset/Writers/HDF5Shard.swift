import Foundation
import HDF5
import Synchronization

/// One shard being written.
///
/// `@unchecked Sendable`: workers share only `layout`, and the pool and the list of tallies, which have locks; all else is used by
/// whoever stores, one at a time, as `ShardWriter` demands.
final class HDF5Shard: ShardWriter, @unchecked Sendable {
  private let layout: ShardLayout
  private let path: String
  private let temporary: String
  private let identity: ShardIdentity
  private let file: File
  private let datasets: [Dataset]
  private let hashers: [SHA256]
  private let blocks: [Range<Int>]
  private let tallies = Mutex<[TallyBox]>([])
  private let pool: BufferPool

  private let writeback: Writeback
  private var bytesStored: Int64 = 0
  private var rowsStored = 0
  /// By grid, one byte a row.
  private var readable: [[UInt8]]
  private var moments: [Moments]
  private var findings: [String: Finding] = [:]
  private var statistics: [String: Statistics] = [:]

  /// A worker's tally, which the shard reads once the worker has stopped.
  private struct TallyBox: @unchecked Sendable { let tally: GridTally }

  init(layout: ShardLayout, identity: ShardIdentity, path: String) throws {
    self.layout = layout
    self.identity = identity
    self.path = path
    temporary = SealedFile.temporaryPath(for: path)
    unlink(temporary)
    readable = layout.grids.map { _ in [] }
    moments = layout.grids.map { _ in Moments() }
    hashers = layout.datasets.map { _ in SHA256() }
    pool = BufferPool(kinds: 2 * layout.datasets.count)
    blocks = layout.blocks

    do {
      file = try File.create(at: temporary)
    } catch {
      unlink(temporary)
      throw error
    }
    writeback = Writeback(temporary)
    do {
      var groups: [String: Group] = ["": file.root]
      datasets = try layout.datasets.map { planned in
        let parts = planned.path.split(separator: "/").map(String.init)
        let group = try Self.group(parts.dropLast(), in: &groups)
        return try group.createDataset(parts[parts.count - 1], planned.layout)
      }
    } catch {
      try? file.close()
      unlink(temporary)
      throw error
    }
  }

  private static func group(_ parts: some Collection<String>, in groups: inout [String: Group]) throws -> Group {
    var (path, current) = ("", groups[""]!)
    for part in parts {
      path += "/" + part
      let next = try groups[path] ?? current.createGroup(part)
      groups[path] = next
      current = next
    }
    return current
  }

  var rowCount: Int { layout.episode.frames.count }
  var blockCount: Int { blocks.count }

  var fetchesInOrder: Bool { layout.isFed }

  func fetch(_ block: Int) throws {
    for grid in layout.grids {
      guard let feed = grid.stream.source.feed else { continue }
      try feed.fetch(grid.samples(of: blocks[block]))
      if block == blocks.count - 1 { try feed.finish() }
    }
  }

  func makeWorker() throws -> any ShardWorker {
    let tally = GridTally(layout.grids)
    tallies.withLock { $0.append(TallyBox(tally: tally)) }
    return try HDF5Worker(layout: layout, blocks: blocks, tally: tally, pool: pool)
  }

  func store(_ block: PreparedBlock) throws {
    for row in block.rows {
      for (index, (grid, cell)) in zip(layout.grids, row.cells).enumerated() {
        try write(cell.samples, row: rowsStored, dataset: grid.samples)
        if let mask = grid.mask, let chunk = cell.mask { try write(chunk, row: rowsStored, dataset: mask) }
        readable[index].append(cell.isReadable ? 1 : 0)
        moments[index].merge(cell.moments)
        // Rows that share an unreadable sample are one finding.
        let isSame = rowsStored > 0 && grid.rows[rowsStored] == grid.rows[rowsStored - 1]
        if let finding = cell.finding, !isSame { note(finding) }
        if grid.stream.spec.kind == .image { try checkReadable(index, cell.finding) }
      }
      rowsStored += 1
    }
    writeback.grown(to: bytesStored)
  }

  private func write(_ chunk: PreparedChunk, row: Int, dataset: Int) throws {
    hashers[dataset].update(chunk.raw)
    if layout.datasets[dataset].layout.type == .bytes {
      return try chunk.raw.withUnsafeBytes { try datasets[dataset].writeSequence($0, row: row) }
    }
    bytesStored += Int64(chunk.encoded?.count ?? chunk.raw.count)
    let origin = [row] + layout.datasets[dataset].layout.dims.dropFirst().map { _ in 0 }
    try (chunk.encoded ?? chunk.raw).withUnsafeBytes {
      try datasets[dataset].writeChunk($0, at: origin, skipped: chunk.skipped)
    }
  }

  private func note(_ finding: Finding) {
    var noted = findings[finding.code] ?? finding
    noted.count = (noted.count ?? 0) + 1
    if findings[finding.code] == nil { noted.count = 1 }
    findings[finding.code] = noted
  }

  private func checkReadable(_ grid: Int, _ finding: Finding?) throws {
    guard let finding else { return }
    let unreadable = readable[grid].count { $0 == 0 }
    if unreadable * 5 > rowCount {
      throw TakeFailure.tooManyUndecodable(of: rowCount, first: findings[finding.code] ?? finding)
    }
  }

  // MARK: Sealing

  func seal() throws -> ShardSummary {
    pool.drain()
    for column in layout.columns { try write(column) }
    let digests = hashers.map { $0.finish() }
    for (planned, (dataset, digest)) in zip(layout.datasets, zip(datasets, digests)) {
      var attributes = planned.attributes
      attributes["sha256"] = .text(digest.description)
      try dataset.setAttributes(attributes)
    }
    try writeStatistics()
    try writeGroupAttributes()
    try file.close()
    writeback.finished()
    try checkColumns(digests)
    let (digest, bytes) = try SealedFile.digest(of: temporary)
    try SealedFile.seal(temporary, as: path)
    return ShardSummary(
      bytes: bytes, digest: digest, samples: rowCount,
      datasets: zip(layout.datasets, digests).map {
        ShardSummary.DatasetRecord(path: $0.path, layout: $0.layout, digest: $1)
      }.sorted { $0.path < $1.path },
      findings: findings.values.sorted { $0.code < $1.code })
  }

  /// Reads the small arrays back. Chunks went to the file one by one, each with an error of its own; these passed through
  /// the library's caches, and closing a file on a full disk is where such libraries lose things.
  private func checkColumns(_ digests: [Digest]) throws {
    let written = try File.open(temporary)
    for column in layout.columns {
      let path = layout.datasets[column.dataset].path
      guard try Digest.of(written.root.dataset(path).readAll()) == digests[column.dataset] else {
        throw HDF5Error(call: "H5Dread", target: "\(temporary):/\(path)", message: "reads back other than it was written")
      }
    }
    try written.close()
  }

  func abandon() {
    try? file.close()
    unlink(temporary)
  }

  private func writeGroupAttributes() throws {
    try file.root.setAttributes([
      "format": .text("takeset"), "format_version": .text(formatVersion), "tool_version": .text(identity.toolVersion),
      "pipeline_sha256": .text(identity.pipelineDigest),
    ])
    try file.root.group("data").setAttributes([
      "total": .integer(Int64(rowCount)), "env_args": .text(environmentArguments(identity.reader)),
    ])
    var attributes: [String: PlannedDataset.Attribute] = [
      "num_samples": .integer(Int64(rowCount)), "take_id": .text(layout.episode.id), "reader": .text(identity.reader),
    ]
    if let camera = layout.cameraInfo { attributes["camera_info"] = .text(camera.canonicalText) }
    try file.root.group("data/demo_0").setAttributes(attributes)
  }

  private func writeStatistics() throws {
    let tally = GridTally(layout.grids)
    tallies.withLock { for box in $0 { tally.merge(box.tally) } }
    for (index, grid) in layout.grids.enumerated() where grid.sampleBytes != nil {
      statistics[grid.name] = tally.statistics(grid: index, moments: moments[index])
    }
    let group = try file.root.createGroup("stats")
    for (name, statistics) in statistics.sorted(by: { $0.key < $1.key }) {
      try statistics.write(to: try group.createGroup(name), mergeable: true)
    }
  }

  // MARK: Columns

  private func write(_ column: ShardLayout.Column) throws {
    let layout = layout.datasets[column.dataset].layout
    guard let chunk = layout.chunk else {
      guard case .integers(let values) = column.content else { return }
      try values.withUnsafeBytes {
        hashers[column.dataset].update($0)
        try datasets[column.dataset].write($0)
      }
      return
    }
    var rows = try ColumnRows(column.content, name: self.layout.datasets[column.dataset].path, shard: self)
    let encoder = try layout.deflate.map { try ChunkEncoder(level: $0) }
    var encoded: [UInt8] = []
    for start in stride(from: 0, to: layout.dims[0], by: chunk[0]) {
      var raw = try rows.bytes(start..<min(start + chunk[0], layout.dims[0]))
      hashers[column.dataset].update(raw)
      // Chunks are stored whole; the last one is filled up.
      raw.append(contentsOf: repeatElement(0, count: layout.chunkBytes - raw.count))
      let skipped = encoder?.encode(raw, elementSize: layout.type.size, into: &encoded) ?? 0
      try (encoder == nil ? raw : encoded).withUnsafeBytes {
        try datasets[column.dataset].writeChunk(
          $0, at: [start] + layout.dims.dropFirst().map { _ in 0 }, skipped: skipped)
      }
    }
    let path = self.layout.datasets[column.dataset].path
    if case .values(let stream, _) = column.content, path.contains("/obs/") {
      let key = path.split(separator: "/").last.map(String.init) ?? ""
      statistics[key] = rows.statistics ?? Statistics(channels: stream.spec.shape[0], .floats)
    }
  }

  fileprivate func readability(of name: String) -> [UInt8]? {
    layout.grids.firstIndex { $0.name == name }.map { readable[$0] }
  }

  /// What is wrong with each row, now that everything has been read.
  fileprivate var quality: [UInt8] {
    var quality = layout.episode.quality
    for (name, bit) in [("camera_image", FrameQuality.imageUndecodable), ("camera_depth", .depthMissing)] {
      for (row, flag) in (readability(of: name) ?? []).enumerated() where flag == 0 { quality[row].insert(bit) }
    }
    return quality.map(\.rawValue)
  }

  fileprivate func rows(of name: String) -> [Int?] { layout.episode.streams[name]?.rows ?? [] }
}

extension ChunkEncoder {
  fileprivate func encode(_ raw: [UInt8], elementSize: Int, into output: inout [UInt8]) -> UInt32 {
    raw.withUnsafeBytes { encode($0, elementSize: elementSize, into: &output) }
  }
}

/// Makes the rows of a small dataset, in order.
private struct ColumnRows {
  private let content: ShardLayout.Column.Content
  private var cursor: (any SampleCursor)?
  private var lastQuaternion: SIMD4<Double>?
  private let flags: [UInt8]
  private(set) var statistics: Statistics?

  init(_ content: ShardLayout.Column.Content, name: String, shard: HDF5Shard) throws {
    self.content = content
    var flags: [UInt8] = []
    switch content {
    case .values(let stream, _):
      cursor = try stream.source.makeCursor()
      statistics = Statistics(channels: stream.spec.shape[0], .floats)
    case .mask(let stream, _), .samples(let stream, _): cursor = try stream.source.makeCursor()
    case .readable(let name):
      flags = shard.readability(of: name) ?? shard.rows(of: name).map { $0 == nil ? 0 : 1 }
    case .quality: flags = shard.quality
    case .integers, .cameras: break
    }
    self.flags = flags
  }

  mutating func bytes(_ range: Range<Int>) throws -> [UInt8] {
    switch content {
    case .integers(let values): return values[range].withUnsafeBytes { Array($0) }
    case .readable, .quality: return Array(flags[range])
    case .cameras(let cameras):
      return cameras[range].flatMap { camera in
        let numbers = camera.map { [$0.fx, $0.fy, $0.cx, $0.cy].map { Float($0) } } ?? Array(repeating: .nan, count: 4)
        return numbers.withUnsafeBytes { Array($0) }
      }
    case .values(let stream, let rows):
      return try range.flatMap { row in
        let values = try numbers(of: stream, rows[row])
        for (channel, value) in values.enumerated() where !value.isNaN { statistics?.add(value, channel: channel) }
        return values.withUnsafeBytes { Array($0) }
      }
    case .samples(let stream, let part):
      return try range.flatMap { try numbers(of: stream, $0)[part].withUnsafeBytes { Array($0) } }
    case .mask(let stream, let rows):
      return try range.flatMap { try numbers(of: stream, rows[$0]).map { $0.isNaN ? 0 : 1 } }
    }
  }

  /// The numbers of one row, NaN without a sample; quaternions continue the sign of the row before.
  private mutating func numbers(of stream: Stream, _ sample: Int?) throws -> [Float] {
    guard let sample else { return Array(repeating: .nan, count: stream.spec.shape[0]) }
    var bytes: [UInt8] = []
    try cursor?.read(sample, into: &bytes)
    var numbers = bytes.withUnsafeBytes { Array($0.bindMemory(to: Float.self)) }
    if case .pose = stream.spec.kind {
      let quaternion = SIMD4(numbers[3...6].map { Double($0) })
      let pose = Pose(position: .zero, quaternion: quaternion).continuing(lastQuaternion)
      lastQuaternion = pose.quaternion
      for element in 0..<4 { numbers[3 + element] = Float(pose.quaternion[element]) }
    }
    return numbers
  }
}

/// The version of the file layout, as in `docs/layout.md`.
package let formatVersion = "1.0.0"

/// What robomimic wants to know of the environment; type 2 is its "gym", which it asks nothing of.
func environmentArguments(_ reader: String) -> String {
  JSONValue.object(["env_name": .string(reader), "type": 2, "env_kwargs": [:]]).canonicalText
}

extension Object {
  /// Sets attributes in the order of their names, so that the bytes are the same every time.
  func setAttributes(_ attributes: [String: PlannedDataset.Attribute]) throws {
    for (key, value) in attributes.sorted(by: { $0.key < $1.key }) {
      switch value {
      case .text(let text): try setAttribute(key, text)
      case .integer(let number): try setAttribute(key, number)
      }
    }
  }
}
