import Evidence
import Foundation
import HDF5
import Model
import Rasters
import Steps
import Synchronization

/// One shard being written.
///
/// `@unchecked Sendable`: workers share only `layout`, and the pool and the list of histograms, which have locks; everything else is used only
/// while storing, one call at a time, as `ShardWriter` requires.
final class HDF5Shard: ShardWriter, @unchecked Sendable {
  let layout: ShardLayout
  private let path: String
  /// The path in the dataset's directory.
  private let name: String
  private let temporary: String
  private let identity: ShardIdentity
  private let file: File
  private let groups: [String: Group]
  private let datasets: [HDF5Array]
  private let histograms = Mutex<[HistogramBox]>([])
  let edges: EdgeAgreement?
  /// What the examined rows say of images and depth.
  private let edgeRows = Mutex<[Int: EdgeAgreement.Row]>([:])
  private let pool: BufferPool

  private let growth: FileGrowth
  private var bytesStored: Int64 = 0
  private var rowsStored = 0
  /// Flags by raster, one per row.
  private var isUnreadable: [[Bool]]
  private var moments: [Moments]
  private var findings: [Finding] = []
  /// Concatenated digests of the rows, by array, for arrays with one row per chunk.
  private var rowDigests: [[UInt8]]
  /// Checksums of the deflated chunks, by array.
  private var checksums: [[UInt32]]
  private var attributes = AttributeList()
  let measured: MeasuredImages?
  private var readings = MeasuredImages.Readings()
  let motion: MeasuredMotion?
  /// The raster of the images of `motion`.
  let motionRaster: Int
  private var motionPairs = MeasuredMotion.Pairs()

  /// A worker's histogram, which the shard reads once the worker has stopped.
  private struct HistogramBox: @unchecked Sendable { let histogram: RasterHistogram }

  init(layout: ShardLayout, identity: ShardIdentity, path: String, name: String) throws {
    (self.layout, self.identity, self.path, self.name) = (layout, identity, path, name)
    temporary = SealedFile.temporaryPath(for: path)
    // Images that keep the source's bytes are decoded for this alone.
    edges = EdgeAgreement(layout.episode, rows: layout.rasters.contains { $0.encoding == .source } ? 4 : 8)
    measured = MeasuredImages(layout.rasters)
    // Images that keep the source's bytes are not decoded for it.
    let decoded = layout.rasters.indices.filter { layout.rasters[$0].stream.spec.kind == .image && layout.rasters[$0].sampleBytes != nil }
    let motion = decoded.isEmpty ? nil : try MeasuredMotion(layout.episode)
    let raster = decoded.first { layout.rasters[$0].name == motion?.imageName }
    (self.motion, motionRaster) = (raster == nil ? nil : motion, raster ?? 0)
    unlink(temporary)
    isUnreadable = layout.rasters.map { _ in [] }
    moments = layout.rasters.map { _ in Moments() }
    rowDigests = layout.arrays.map { _ in [] }
    checksums = layout.arrays.map { _ in [] }
    pool = BufferPool(kinds: 2 * layout.arrays.count)

    do {
      file = try File.create(at: temporary)
    } catch {
      unlink(temporary)
      throw error
    }
    growth = FileGrowth(temporary)
    do {
      var groups: [String: Group] = ["": file.root]
      datasets = try layout.arrays.map { planned in
        let parts = planned.path.split(separator: "/").map(String.init)
        let group = try Self.group(parts.dropLast(), in: &groups)
        return try group.createDataset(parts[parts.count - 1], planned.layout)
      }
      self.groups = groups
    } catch {
      try? file.close()
      unlink(temporary)
      throw error
    }
  }

  private static func group(_ parts: some Collection<String>, in groups: inout [String: Group]) throws -> Group {
    var (path, current) = ("", groups[""]!)
    for part in parts {
      path += path.isEmpty ? part : "/" + part
      let next = try groups[path] ?? current.createGroup(part)
      groups[path] = next
      current = next
    }
    return current
  }

  private var rowCount: Int { layout.episode.frames.count }
  func makeWorker() throws -> any ShardWorker {
    let histogram = RasterHistogram(layout.rasters)
    histograms.withLock { $0.append(HistogramBox(histogram: histogram)) }
    return try HDF5Worker(self, histogram: histogram, pool: pool)
  }

  // MARK: Rows

  func note(_ agreement: EdgeAgreement.Row, at row: Int) { edgeRows.withLock { $0[row] = agreement } }

  func store(_ rows: [PreparedRow]) throws {
    // The chunks' bytes stay where they are as long as the rows do.
    try withExtendedLifetime(rows) { try gatheringChunks(of: path) { for row in rows { try store(row) } } }
    growth.grown(to: bytesStored)
  }

  private func store(_ row: PreparedRow) throws {
    for (index, (raster, cell)) in zip(layout.rasters, row.cells).enumerated() {
      try write(cell.samples, array: raster.samples, row: rowsStored)
      if let mask = raster.mask, let chunk = cell.mask { try write(chunk, array: mask, row: rowsStored) }
      if let next = raster.next { try write(cell, asNext: next) }
      isUnreadable[index].append(!cell.isReadable)
      moments[index].merge(cell.moments)
      // Rows that share an unreadable sample count as one finding.
      let isSame = rowsStored > 0 && raster.rows[rowsStored] == raster.rows[rowsStored - 1]
      if !isSame { for finding in cell.findings { findings.note(finding, of: raster.stream.spec.member) } }
      if raster.stream.spec.kind == .image, !cell.isReadable, let finding = cell.findings.first { try checkReadable(index, finding) }
    }
    if let reading = row.image { readings.add(reading) }
    if let motion {
      let digests = rowDigests[layout.rasters[motionRaster].samples].suffix(64)
      motionPairs.add(row.motion, of: rowsStored, motion, isRepeat: digests.count == 64 && digests.prefix(32) == digests.suffix(32))
    }
    rowsStored += 1
  }

  /// Writes the observations of a row as the next ones of the row before, and those of the last row as its own next ones.
  private func write(_ cell: PreparedRow.Cell, asNext next: ShardLayout.RasterArrays.Next) throws {
    for row in [rowsStored - 1, rowsStored] where row >= 0 && (row < rowsStored || row == rowCount - 1) {
      try write(cell.samples, array: next.samples, row: row)
      if let mask = next.mask, let chunk = cell.mask { try write(chunk, array: mask, row: row) }
    }
  }

  private func write(_ chunk: PreparedChunk, array: Int, row: Int) throws {
    guard let digest = chunk.digest else {
      throw HDF5Error(call: "digest", target: "\(path):/\(self.layout.arrays[array].path)", message: "row \(row) has none")
    }
    rowDigests[array] += digest.bytes
    if let checksum = chunk.checksum { checksums[array].append(checksum) }
    let layout = layout.arrays[array].layout
    if layout.type == .bytes {
      return try chunk.raw.withUnsafeBytes { try datasets[array].writeSequence($0, row: row) }
    }
    bytesStored += Int64(chunk.stored.count)
    let origin = [row] + layout.dims.dropFirst().map { _ in 0 }
    try chunk.stored.withUnsafeBytes { try datasets[array].writeChunk($0, at: origin, skipped: chunk.skipped) }
  }

  private func checkReadable(_ raster: Int, _ finding: Finding) throws {
    // Rows that the camera does not reach, as another phone that begins later, have none to be read.
    let rows = layout.rasters[raster].rows
    let unreadable = zip(isUnreadable[raster], rows).count { $0 && $1 != nil }, count = rows.count { $0 != nil }
    if unreadable * 5 > count {
      throw TakeFailure.tooManyUndecodable(of: count, first: findings.first { $0.code == finding.code } ?? finding)
    }
  }

  // MARK: Sealing

  func close() throws -> ShardSummary {
    pool.drain()
    var columns = try ColumnWriter(
      layout, rowDigests: rowDigests,
      isUnreadable: Dictionary(uniqueKeysWithValues: zip(layout.rasters.map(\.name), isUnreadable)))
    var digests = [Digest?](repeating: nil, count: layout.arrays.count)
    for (array, planned) in layout.arrays.enumerated() where planned.digestOf == .rows { digests[array] = Digest.of(rowDigests[array]) }
    for column in layout.columns { digests[column.array] = try columns.write(column, to: datasets[column.array]) }
    let isJoined = layout.episode.streams.values.contains { $0.spec.member != nil }
    findings = columns.findings.reduce(into: findings) { all, finding in
      let isKnown = all.contains { $0.code == finding.code && (!isJoined || $0.file == finding.file && $0.message == finding.message) }
      if !isKnown { all.append(finding) }
    }
    findings += layout.rasters.indices.compactMap { repetition(raster: $0) }
    let examined = edgeRows.withLock { $0 }.sorted { $0.key < $1.key }.map(\.value)
    findings += [EdgeAgreement.finding(examined)].compactMap(\.self)
    for (array, sums) in columns.checksums { checksums[array] = sums }
    let measures = try measures(columns.statistics)
    findings += [lateImages(measures)].compactMap(\.self)
    let statistics = try writeStatistics(columns.statistics)
    digests[layout.checksums] = try writeChecksums(statistics)
    var records: [ArrayRecord] = []
    func describe(_ dataset: HDF5Array, _ planned: ShardLayout.Planned, _ digest: Digest?) throws {
      if let record = try planned.describe(dataset, digest, noting: &attributes) { records.append(record) }
    }
    for (array, planned) in layout.arrays.enumerated() { try describe(datasets[array], planned, digests[array]) }
    try describe(statistics.dataset, statistics.planned, statistics.digest)
    try writeGroupAttributes()
    try file.close()
    growth.finished()

    let written = try WrittenShard(temporary)
    for array in layout.columns.map(\.array) + [layout.checksums] {
      let planned = layout.arrays[array]
      // Closing a file on a full disk is where libraries lose data; chunks were written one by one, each with an error of its own.
      guard try written.digest(of: planned.path, planned.layout) == digests[array] else {
        throw HDF5Error(call: "read back", target: "\(temporary):/\(planned.path)", message: "reads back differently than written")
      }
    }
    let structure = try written.structureDigest()
    (rowDigests, checksums, isUnreadable) = ([], [], [])
    return ShardSummary(
      output: OutputRecord(
        path: name, bytes: written.size, samples: rowCount, arrays: records.sorted { $0.path < $1.path }, structureDigest: structure,
        attributesDigest: attributes.digest),
      findings: findings.sorted { $0.code.rawValue < $1.code.rawValue }, measures: measures)
  }

  private func measures(_ vectors: [StreamName: Statistics]) throws -> Measures {
    var measures = try Measures(layout.episode)
    readings.write(to: &measures)
    let (rows, rasters) = (Double(rowCount), layout.rasters)
    func first(_ kind: StreamKind) -> Int? { rasters.firstIndex { $0.stream.spec.kind == kind } }
    if let image = first(.image) { measures[.imageMissing] = Double(isUnreadable[image].count(where: \.self)) / rows }
    if let depth = first(.depth) {
      measures[.depthValid] = Double(moments[depth].count) / (rows * Double(rasters[depth].stream.spec.elementCount))
    }
    if let name = layout.episode.firstStream(where: { $0.spec.kind == .angles })?.name, let joints = vectors[name] {
      measures[.jointsValid] = Double(joints.moments.reduce(0) { $0 + $1.count }) / (rows * Double(joints.channels))
    }
    if let lag = motion?.lag(motionPairs) { measures.set(lag) }
    return measures
  }

  /// Less is within what a rolling shutter and an exposure explain.
  private static let leastLag = 12.0

  private func lateImages(_ measures: Measures) -> Finding? {
    guard let motion, let lag = measures[.imagePoseLag], abs(lag) > Self.leastLag else { return nil }
    let name = motion.imageName.rawValue
    func latency(_ stream: SampleStream, _ name: String, by lag: Double) -> String {
      let seconds = (10 * (Double(stream.latency) / 1e6 + lag)).rounded() / 1e4
      return "{\(stream.firstName ?? name): \(seconds == 0 ? "0" : "\(seconds)")}"
    }
    let images = latency(motion.images, name, by: lag)
    let poses = latency(motion.poseStream, motion.poseName.rawValue, by: -lag)
    let words = String(format: "its images show what the poses have %.1f ms %@, by their motion", abs(lag), lag > 0 ? "earlier" : "later")
    return Finding(
      .imagePoseLag, "\(words); align: {latency: \(images)} moves the images' times, \(poses) the poses'", field: name)
  }

  /// A finding about images or depth maps that repeat, to the last bit, as those of no camera that sees anything: all of them, or, of images,
  /// most, as from behind a lens cap, or of a picture that stands still.
  private func repetition(raster index: Int) -> Finding? {
    let (raster, digests) = (layout.rasters[index], rowDigests[layout.rasters[index].samples])
    let isImage = raster.stream.spec.kind == .image
    guard isImage || raster.stream.spec.kind == .depth else { return nil }
    func digest(_ row: Int) -> ArraySlice<UInt8> { digests[(32 * row)..<(32 * row + 32)] }
    var (samples, repeated) = (0, 0)
    var earlier: Int?
    for row in 0..<rowCount where raster.rows[row] != nil && !isUnreadable[index][row] {
      defer { earlier = row }
      // Rows of a grid may share a sample.
      if let earlier, raster.rows[row]?.nearest == raster.rows[earlier]?.nearest { continue }
      samples += 1
      if let earlier, digest(row) == digest(earlier) { repeated += 1 }
    }
    guard samples >= Self.fewestRepeated else { return nil }
    if repeated == samples - 1 {
      return Finding(.streamConstant, "all of its \(samples) samples are the same, to the last bit", field: raster.name.rawValue)
    }
    guard isImage, repeated * 2 > samples else { return nil }
    return Finding(
      .imageRepeated, "of \(samples) images, those that are the same as the one before", field: raster.name.rawValue, count: repeated)
  }

  /// Fewer may be of a camera that lies still.
  private static let fewestRepeated = 18

  func publish() throws { try SealedFile.seal(temporary, as: path) }

  func abandon() {
    try? file.close()
    unlink(temporary)
  }

  /// The attribute of an episode that lists options of the pipeline which name streams that the take does not have.
  static let unusedOptions = "unused_options"
  /// The attribute of an episode that names what actions would be made of, where the take has none of it.
  static let actionsLack = "actions_lack"

  private func writeGroupAttributes() throws {
    try attributes.set(
      [
        "format": .text("takeset"), "format_version": .text(HDF5Writer.formatVersion), "tool_version": .text(identity.toolVersion),
        "pipeline_sha256": .text(identity.pipelineDigest),
      ], on: file.root, path: "/")
    guard let data = groups[ShardNames.allData], let demo = groups[ShardNames.data] else { return }
    try attributes.set(
      ["total": .integer(Int64(rowCount)), "env_args": .text(DatasetIndex.environmentArguments(identity.reader))], on: data, path: "/data")
    var own: [String: ShardLayout.Attribute] = [
      ShardNames.rowCount: .integer(Int64(rowCount)), ShardNames.takeID: .text(layout.episode.id.text),
      ShardNames.reader: .text(identity.reader),
    ]
    if let camera = layout.cameraInfo { own["camera_info"] = .text(camera.canonicalText) }
    let unused = layout.episode.unusedOptions
    if !unused.isEmpty { own[Self.unusedOptions] = .text(JSONValue.array(unused.map { .string($0) }).canonicalText) }
    if let lacking = layout.episode.actionsLack { own[Self.actionsLack] = .text(lacking) }
    try attributes.set(own, on: demo, path: "/\(ShardNames.data)")
  }

  private func writeChecksums(_ statistics: ShardStatistics.Written) throws -> Digest {
    var sums = zip(layout.arrays, checksums).map { (path: $0.path, sums: $1) }
    sums.append((statistics.planned.path, [statistics.checksum]))
    sums.sort { $0.path.utf8.lexicographicallyPrecedes($1.path.utf8) }
    let numbers = sums.flatMap(\.sums).map { Int64($0) }
    return try numbers.withUnsafeBytes { bytes in
      try datasets[layout.checksums].write(bytes)
      let hasher = SHA256()
      hasher.update(bytes)
      return hasher.finish()
    }
  }

  private func writeStatistics(_ vectors: [StreamName: Statistics]) throws -> ShardStatistics.Written {
    // Half a megabyte each; a take of many episodes keeps its closed shards until all are put in place.
    let all = histograms.withLock { boxes in
      defer { boxes = [] }
      return boxes.map(\.histogram)
    }
    let histogram = all.first ?? RasterHistogram(layout.rasters)
    for other in all.dropFirst() { histogram.merge(other) }
    var statistics = vectors
    for (index, raster) in layout.rasters.enumerated() where raster.sampleBytes != nil {
      statistics[raster.name] = histogram.statistics(raster: index, moments: moments[index])
    }
    let specs = layout.episode.streams.mapValues(\.spec).merging(layout.episode.derived.mapValues(\.spec)) { own, _ in own }
    let entries = ShardStatistics(
      statistics.compactMap { name, statistics in specs[name].map { ShardStatistics.Entry(name, $0, statistics) } })
    return try entries.write(to: groups[ShardNames.meta] ?? file.root)
  }
}

/// Every attribute that was set, for their digest.
struct AttributeList {
  private var lines: [String] = []

  /// Sets attributes in the order of their names, so that the bytes are the same every time.
  mutating func set(_ attributes: [String: ShardLayout.Attribute], on object: Object, path: String) throws {
    for (key, value) in attributes.sorted(by: { $0.key < $1.key }) {
      switch value {
      case .text(let text): try object.setAttribute(key, text)
      case .integer(let number): try object.setAttribute(key, number)
      }
      note(key, value, path: path)
    }
  }

  mutating func note(_ key: String, _ value: ShardLayout.Attribute, path: String) {
    lines.append("\(path)@\(key)=\(value.json.canonicalText)\n")
  }

  var digest: Digest {
    Digest.of(pieces: lines.map { Array($0.utf8) }.sorted { $0.lexicographicallyPrecedes($1) })
  }
}
