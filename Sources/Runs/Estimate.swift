package import Datasets
package import Evidence
import HDF5
import Media
package import Model

/// An estimate of the size of a dataset and of the time to write it, from a few rows that are read, decoded and encoded.
package struct Estimate: Sendable {
  /// Bytes of the dataset with images stored as `raw`, `jpeg` or `png`, for datasets that have images.
  package private(set) var choices: [(image: SampleStorage.ImageEncoding, bytes: Int64)] = []
  /// Bytes of the dataset as the pipeline stores it.
  package private(set) var bytes: Int64 = 0
  /// Seconds on all threads.
  package private(set) var seconds = 0.0
  /// Rows that were read.
  package private(set) var rows = 0

  /// Sums over the rows that were read, by which all rows are estimated: everything is proportional to pixels.
  private struct Measured {
    var pixels = 0.0
    var bytes: [SampleStorage.ImageEncoding: Double] = [:]
    var seconds = 0.0
  }

  private let storage: SampleStorage
  private let threads: Int
  private var episodes = 0
  /// Pixels of all rows, and what was measured, by kind of raster.
  private var pixels: [String: Double] = [:]
  private var measured: [String: Measured] = [:]
  private var otherBytes = 0.0

  /// Episodes that are measured: the first ones, and then one of so many.
  private static let firstEpisodes = 8, every = 50
  private static let rowsPerEpisode = 4

  package init(pipeline: Pipeline, threads: Int) {
    storage = pipeline.writer.storage
    self.threads = threads
  }

  /// Adds an episode with the arrays that it becomes, and measures some of its rows. Rows that cannot be read are left out.
  package mutating func add(_ episode: Episode, _ arrays: [ArrayRecord]) {
    episodes += 1
    let count = Double(episode.frames.count)
    let rasters = episode.streams.filter { $0.value.spec.kind.isRaster && $0.value.rows != nil }.sorted { $0.key < $1.key }
    // The observations of the next row are stored once more.
    let copies = episode.storesNextObservations ? 2.0 : 1
    var rasterBytes = 0.0
    for (name, stream) in rasters {
      let size = stream.spec.gridSize
      pixels[stream.spec.kind.word, default: 0] += copies * count * Double(size.width * size.height)
      rasterBytes += arrays.filter { $0.path.hasSuffix("/\(name)") || $0.path.hasSuffix("/\(name)_valid") }.reduce(0) {
        $0 + Double($1.rawBytes)
      }
    }
    otherBytes += max(0, arrays.reduce(0) { $0 + Double($1.rawBytes) } - rasterBytes)
    guard episodes <= Self.firstEpisodes || episodes % Self.every == 0 else { return }
    // A stream that cannot be read counts as its other episodes do; the conversion says why.
    for (_, stream) in rasters { try? measure(stream, count: episode.frames.count) }
  }

  private mutating func measure(_ stream: SampleStream, count: Int) throws {
    // A source that is read front to back would be read up to the last row.
    let isForward = stream.source.access.feed != nil
    let wanted = min(Self.rowsPerEpisode, count)
    let chosen = (0..<wanted).map { isForward ? $0 : $0 * count / wanted }
    var cursor = try stream.source.makeCursor(SampleRequest(isStandalone: true))
    let size = stream.spec.gridSize
    var bytes: [UInt8] = [], mask: [UInt8] = [], encoded: [UInt8] = []
    let deflater = try storage.compression.deflate.map { try ChunkEncoder(level: $0) }
    func deflated(_ raw: [UInt8], _ elementSize: Int) -> Double {
      guard let deflater else { return Double(raw.count) }
      _ = raw.withUnsafeBytes { deflater.encode($0, elementSize: elementSize, into: &encoded) }
      return Double(encoded.count)
    }
    let clock = ContinuousClock()
    for row in chosen {
      guard let sample = stream.rows?[row]?.sample else { continue }
      var costs: [SampleStorage.ImageEncoding: Double] = [:]
      var seconds = 0.0
      func timed(_ body: () throws -> Void) rethrows { seconds += try clock.measure(body) / .seconds(1) }
      do {
        try timed { try cursor.read(sample, into: &bytes) }
      } catch is SampleFailure {
        continue
      }
      timed { _ = Digest.of(bytes) }
      if stream.spec.kind == .image {
        costs[.raw] = Double(bytes.count)
        for choice in [SampleStorage.ImageEncoding.jpeg, .png] {
          let before = seconds
          try timed {
            costs[choice] = Double(
              choice == .png
                ? try PNG.encode(bytes, size: size, isFast: true).count
                : try JPEGEncoder().encode(bytes, size: size, quality: storage.quality).count)
          }
          if storage.image != choice { seconds = before }
        }
      } else {
        timed {
          costs[.raw] = deflated(bytes, stream.spec.type.size)
          if stream.spec.kind == .depth {
            _ = DepthMask.mark(bytes, stream.spec.type, in: &mask)
            costs[.raw, default: 0] += deflated(mask, 1)
          }
        }
      }
      rows += 1
      var sums = measured[stream.spec.kind.word] ?? Measured()
      sums.pixels += Double(size.width * size.height)
      sums.seconds += seconds
      for (choice, cost) in costs { sums.bytes[choice, default: 0] += cost }
      measured[stream.spec.kind.word] = sums
    }
  }

  /// Computes the totals, once every episode is added.
  package mutating func finish() {
    func share(_ kind: String, _ value: (Measured) -> Double) -> Double {
      guard let sums = measured[kind], sums.pixels > 0 else { return 0 }
      return value(sums) / sums.pixels * (pixels[kind] ?? 0)
    }
    let others = otherBytes + pixels.keys.filter { $0 != "image" }.reduce(0) { $0 + share($1) { $0.bytes[.raw] ?? 0 } }
    let images = pixels["image"] == nil ? [] : [SampleStorage.ImageEncoding.raw, .jpeg, .png]
    choices = images.map { choice in (choice, Int64(others + share("image") { $0.bytes[choice] ?? 0 })) }
    let own = storage.image == .jpegSource ? .jpeg : storage.image
    bytes = choices.first { $0.image == own }?.bytes ?? Int64(others)
    seconds = pixels.keys.reduce(0) { $0 + share($1) { $0.seconds } } / Double(max(threads, 1))
  }

  package var json: JSONValue {
    [
      "bytes": .integer(bytes), "seconds": .number((seconds * 10).rounded() / 10), "rows_measured": JSONValue(rows),
      "threads": JSONValue(threads),
      "image_choices": .object(Dictionary(uniqueKeysWithValues: choices.map { ($0.image.rawValue, .integer($0.bytes)) })),
    ]
  }
}
