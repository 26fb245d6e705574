import Datasets
import Evidence
import Foundation
import Model
import Steps

/// The arrays of a replay buffer, and which rows of which episode they have.
struct ReplayBuffer: Sendable {
  private struct Part: Sendable {
    let episode: ExportedEpisode
    let complete: CompleteRows
  }

  private let contents: ReplayContents
  private let parts: [Part]
  private let level: Int
  private let count: Int

  /// Chunks of numbers have about this many bytes, as diffusion-policy's have.
  private static let chunkBytes = 2_000_000

  /// Throws `ExportRefusal` where no row has every key.
  init(_ contents: ReplayContents, _ episodes: [ExportedEpisode], level: Int) throws {
    (self.contents, self.level) = (contents, level)
    parts = try episodes.map {
      Part(episode: $0, complete: try CompleteRows($0, of: contents.streams, elements: contents.elements, minimum: contents.minimumRows))
    }
    count = parts.reduce(0) { $0 + $1.complete.rows - $1.complete.lost }
    guard count > 0 else {
      let problems = parts.map { "\($0.episode.id): \($0.complete.problem)" }
      throw ExportRefusal("no row of any episode has a value in every key: \(problems.abridged); leave the keys out that lack values")
    }
  }

  /// Says in `takeset-export.json` which rows are whose, and which are not there.
  func note(to directory: ExportDirectory, _ dataset: Dataset) {
    var (table, masked): ([JSONValue], [String: JSONValue]) = ([], [:])
    for part in parts {
      for run in part.complete.runs {
        var entry: [String: JSONValue] = [
          "take": .string(part.episode.id), "first_row": JSONValue(run.lowerBound), "rows": JSONValue(run.count),
        ]
        entry["split"] = part.episode.split(in: dataset)
        table.append(.object(entry))
      }
      guard part.complete.lost > 0 else { continue }
      var reasons = Dictionary(part.complete.missing.map { ($0.name.rawValue, JSONValue($0.rows)) }) { $1 }
      if part.complete.endsWithoutAction { reasons["no-next-row"] = 1 }
      if part.complete.inShortRuns > 0 { reasons["alone"] = JSONValue(part.complete.inShortRuns) }
      masked[part.episode.id] = .object(reasons)
      let rows = "\(part.complete.lost) of \(part.episode.rows) rows are left out"
      directory.lose("\(part.episode.id): \(rows) (\(part.complete.problem)); each ends an episode.")
    }
    directory.note("replay_episodes", .array(table))
    directory.note("masked_rows", JSONValue(parts.reduce(0) { $0 + $1.complete.lost }))
    directory.note("masked", .object(masked))
    directory.note("conventions", .array(contents.conventions.map { .string($0) }))
  }

  func write(to store: ZarrStore, _ directory: ExportDirectory) throws {
    let arrays = contents.keys.map(array)
    let ends = parts.flatMap(\.complete.runs).reduce(into: [Int]()) { $0.append(($0.last ?? 0) + $1.count) }
    let index = ZarrArray(path: "meta/episode_ends", type: .int64, rows: ends.count, rowShape: [], chunkRows: ends.count, level: 0)
    for folder in ["", "data/", "meta/"] { try store.add(ZarrArray.group, folder + ".zgroup") }
    for (path, bytes) in (arrays + [index]).flatMap(\.metadata) { try store.add(bytes, path) }
    let rasters = zip(contents.keys, arrays).filter { $0.0.content.raster != nil }
    let numbers = contents.keys.filter { $0.content.raster == nil }
    var columns = try zip(contents.keys, arrays).filter { $0.0.content.raster == nil }.map { try ZarrRows($0.1) }
    var done = 0
    for part in parts where !part.complete.runs.isEmpty {
      let rows = part.complete.runs.flatMap(Array.init)
      let (episode, keys, level) = (part.episode, rasters.map(\.0), level)
      if !keys.isEmpty {
        try directory.inOrder(rows.count) {
          try RasterChunks(keys, of: episode, level: level)
        } make: { chunks, index in
          try chunks.row(rows[index])
        } store: { index, chunks in
          for (chunk, (_, array)) in zip(chunks, rasters) { try store.add(chunk, array.chunk(done + index)) }
        }
      }
      var values = try ReplayRows(episode, contents)
      for row in rows {
        for (index, key) in numbers.enumerated() { try columns[index].append(values.values(key.content, row), to: store) }
      }
      done += rows.count
    }
    for index in columns.indices { try columns[index].finish(in: store) }
    var rows = try ZarrRows(index)
    for end in ends { try rows.append([Double(end)], to: store) }
    try writeLabels(to: store)
  }

  /// Writes the task and the success of each episode of the buffer: text of a fixed length as NumPy has it, in UTF-32, and -1 where nobody has said.
  private func writeLabels(to store: ZarrStore) throws {
    let labels = parts.flatMap { part in part.complete.runs.map { _ in part.episode.labels } }
    func write(_ name: String, _ type: String, _ fill: JSONValue, _ bytes: [UInt8]) throws {
      let array: JSONValue = [
        "zarr_format": 2, "shape": [JSONValue(labels.count)], "chunks": [JSONValue(labels.count)], "dtype": .string(type), "order": "C",
        "fill_value": fill, "filters": .null, "compressor": .null,
      ]
      try store.add(array.canonicalBytes, "meta/\(name)/.zarray")
      try store.add(bytes, "meta/\(name)/0")
    }
    if labels.contains(where: { $0.task != nil }) {
      let width = labels.map { ($0.task ?? "").unicodeScalars.count }.max() ?? 1
      let letters = labels.flatMap { own -> [UInt32] in
        let text = (own.task ?? "").unicodeScalars.map { $0.value.littleEndian }
        return text + [UInt32](repeating: 0, count: width - text.count)
      }
      try write("task", "<U\(width)", "", letters.withUnsafeBytes { Array($0) })
    }
    if labels.contains(where: { $0.success != nil }) {
      try write("success", "|i1", -1, labels.map { $0.success.map { $0 ? 1 : 0 } ?? 255 })
    }
  }

  /// One row a chunk for pixels, about 2 MB of rows for numbers.
  private func array(of key: ReplayKey) -> ZarrArray {
    let bytes = max(1, key.shape.reduce(key.type.size, *))
    let rows = key.content.raster == nil ? min(count, (Self.chunkBytes + bytes - 1) / bytes) : 1
    return ZarrArray(
      path: "data/\(key.name)", type: key.type, rows: count, rowShape: key.shape, chunkRows: rows, level: level, attributes: key.attributes)
  }
}

/// Reads and compresses the pixels of an episode's rows. One serves one thread.
private struct RasterChunks {
  private let keys: [ReplayKey]
  private let episode: ExportedEpisode
  private var readers: [StreamName: RasterReader] = [:]
  private let compress: ZarrCompressor

  init(_ keys: [ReplayKey], of episode: ExportedEpisode, level: Int) throws {
    (self.keys, self.episode) = (keys, episode)
    compress = try ZarrCompressor(level: level)
    for name in Set(keys.compactMap(\.content.raster)) { readers[name] = try RasterReader(name, of: episode) }
  }

  /// The chunk of each key.
  mutating func row(_ row: Int) throws -> [[UInt8]] {
    var samples: [StreamName: [UInt8]] = [:]
    return try keys.map { key in
      guard let name = key.content.raster else { return [] }
      // Confidence without a sample is the lowest, as in the dataset; rows without images or depth are not exported.
      let sample = try samples[name] ?? readers[name]?.read(row) ?? [UInt8](repeating: 0, count: key.shape.reduce(key.type.size, *))
      samples[name] = sample
      guard case .depthMask = key.content, let type = episode.episode.streams[name]?.spec.type else { return compress(sample) }
      var mask: [UInt8] = []
      _ = DepthMask.mark(sample, type, in: &mask)
      return compress(mask)
    }
  }
}

/// Reads the numbers of an episode's rows.
private struct ReplayRows {
  private var reader: RowReader
  private let umi: [UMIRow]

  init(_ episode: ExportedEpisode, _ contents: ReplayContents) throws {
    reader = RowReader(episode.episode)
    umi = try contents.robots.map { try UMIRow(episode, $0) }
  }

  mutating func values(_ content: ReplayKey.Content, _ row: Int) throws -> [Double] {
    switch content {
    case .values(let name): try reader.values(of: name, at: row).map { Double($0) }
    case .mask(let name): try reader.values(of: name, at: row).map { $0.isNaN ? 0 : 1 }
    case .umi(let part, let robot): try umi[robot].values(part, row, &reader)
    case .raster, .depthMask: []
    }
  }
}
