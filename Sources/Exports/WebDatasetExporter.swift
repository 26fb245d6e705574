import Datasets
import Evidence
import Foundation
import Media
import Model
import Steps

/// Tar files of samples, one sample per row, as the webdataset library reads them in order.
///
///     <name>-000000.tar
///       <take>-<row>.jpg or .png       the image
///       <take>-<row>.depth.png         depth, 16-bit gray, millimeters, 0 where unknown
///       <take>-<row>.confidence.png    its confidence, 8-bit gray
///       <take>-<row>.camera_mask.png   a mask, 8-bit gray, by its name
///       <take>-<row>.json              numbers, times and masks
///
/// Source: "The WebDataset Format" of the library. A key ends at the first dot of a name, so dots of a take's id become underscores.
struct WebDatasetExporter: Exporter {
  static let holdsMembers = true
  static let name = "webdataset"
  static let summary = "tar shards of samples, one per row, as webdataset reads them"

  @StepOption("samples of a shard", 1...10_000_000) var shardRows = 1000
  @StepOption("the shards' name before their number") var name = "shard"
  @StepOption("shards of their own for train, valid and test, with these names after the shards' name") var bySplit = false
  @StepOption("files of images that are stored as pixels: png (exact) or jpeg") var image = ImageFileFormat.png
  @StepOption("quality of JPEG files", 1...100) var quality = 95

  func validate() throws {
    if PlainName(name, atMost: 200) == nil {
      throw OptionError("name", "expected a file name of 1 to 200 bytes without slashes, found \"\(name)\"")
    }
  }

  func export(_ episodes: [ExportedEpisode], of dataset: Dataset, to directory: ExportDirectory) throws {
    let members = SampleMembers(episodes)
    let keys = try Self.keys(of: episodes)
    var shards: [JSONValue] = []
    var counts = SampleCounts()
    for (prefix, group) in groups(episodes, dataset) {
      for (number, parts) in Self.shards(of: group, rows: shardRows).enumerated() {
        let file = "\(prefix)-\(number.padded(to: 6)).tar"
        try directory.writing(file) { write in
          try withoutActuallyEscaping(write) { write in
            let tar = TarWriter(write)
            for (episode, rows) in parts {
              try add(episode, rows, key: keys[episode.id] ?? episode.id, members, to: tar, directory, &counts)
            }
            try tar.finish()
          }
        }
        let takes = parts.map { part -> JSONValue in
          ["take": .string(part.episode.id), "first_row": JSONValue(part.rows.lowerBound), "rows": JSONValue(part.rows.count)]
        }
        shards.append(
          ["file": .string(file), "samples": JSONValue(parts.reduce(0) { $0 + $1.rows.count }), "episodes": .array(takes)])
      }
    }
    directory.note("shards", .array(shards))
    noteLosses(episodes, members, counts, to: directory)
  }

  /// Names of shards and the episodes in them.
  private func groups(_ episodes: [ExportedEpisode], _ dataset: Dataset) -> [(String, [ExportedEpisode])] {
    guard bySplit else { return [(name, episodes)] }
    return SplitPart.allCases.map { part in
      // A dataset without a split is all for training.
      ("\(name)-\(part.rawValue)", episodes.filter { ($0.split(in: dataset)?.string ?? SplitPart.train.rawValue) == part.rawValue })
    }.filter { !$0.1.isEmpty }
  }

  /// The rows of each shard: complete shards, and the rest.
  private static func shards(of episodes: [ExportedEpisode], rows limit: Int) -> [[(episode: ExportedEpisode, rows: Range<Int>)]] {
    var shards: [[(episode: ExportedEpisode, rows: Range<Int>)]] = []
    var room = 0
    for episode in episodes {
      var first = 0
      while first < episode.rows {
        if room == 0 {
          shards.append([])
          room = limit
        }
        let count = min(room, episode.rows - first)
        shards[shards.count - 1].append((episode, first..<(first + count)))
        (first, room) = (first + count, room - count)
      }
    }
    return shards
  }

  /// The key of each take. Throws `ExportRefusal` where two are the same.
  private static func keys(of episodes: [ExportedEpisode]) throws -> [String: String] {
    var owners: [String: String] = [:]
    for episode in episodes {
      let key = episode.id.replacing(".", with: "_")
      if let other = owners[key] {
        throw ExportRefusal(
          "webdataset keys have no dots: \(other) and \(episode.id) would both be \(key); export them apart with --episodes")
      }
      owners[key] = episode.id
    }
    return Dictionary(owners.map { ($1, $0) }) { first, _ in first }
  }

  private func add(
    _ episode: ExportedEpisode, _ rows: Range<Int>, key: String, _ members: SampleMembers, to tar: TarWriter,
    _ directory: ExportDirectory, _ counts: inout SampleCounts
  ) throws {
    let options = self
    try directory.inOrder(rows.count) {
      try SampleReader(episode, members, options)
    } make: { reader, index in
      try reader.sample(rows.lowerBound + index)
    } store: { index, sample in
      let stem = "\(key)-\((rows.lowerBound + index).padded(to: 6))"
      for (ending, bytes) in sample.files { try tar.add(bytes, named: "\(stem).\(ending)") }
      counts.add(sample.counts)
    }
  }

  private func noteLosses(
    _ episodes: [ExportedEpisode], _ members: SampleMembers, _ counts: SampleCounts, to directory: ExportDirectory
  ) {
    if counts.withoutImage > 0 {
      directory.lose("\(counts.withoutImage) images are missing in the dataset, and their files in the samples.")
    }
    if counts.beyondRange > 0 { directory.lose("\(counts.beyondRange) depth values above 65.535 m are 0.") }
    let depths = episodes.flatMap(\.depths)
    if depths.contains(where: { $0.stream.spec.type == .float32 }) { directory.lose("Depth is rounded to whole millimeters.") }
    if image == .jpeg, episodes.contains(where: { episode in episode.images.contains { $0.stream.spec.sourceEncoding == nil } }) {
      directory.lose("Images are compressed as JPEG of quality \(quality).")
    }
    let others = Set(
      episodes.flatMap { episode in
        episode.episode.streams.filter { $0.value.rows == nil }.keys + episode.episode.derived.keys.filter { $0 != .actions }
      }
    ).sorted()
    if !others.isEmpty { directory.lose("Samples do not have \(others.map(\.rawValue).joined(separator: ", ")).") }
  }
}

/// The losses of an export: samples without an image, and depth values beyond the range of the files.
struct SampleCounts: Sendable {
  var withoutImage = 0
  var beyondRange = 0

  mutating func add(_ other: SampleCounts) {
    withoutImage += other.withoutImage
    beyondRange += other.beyondRange
  }
}

/// Writes a tar file front to back, as `TarBlocks` describes it.
struct TarWriter {
  private let write: (UnsafeRawBufferPointer) throws -> Void

  /// - Parameter write: Appends bytes to the file.
  init(_ write: @escaping (UnsafeRawBufferPointer) throws -> Void) { self.write = write }

  /// Adds a regular file.
  func add(_ contents: [UInt8], named name: String) throws {
    let bytes = Int64(contents.count)
    for part in [TarBlocks.header(of: name, bytes: bytes), contents, TarBlocks.padding(after: bytes)] { try part.withUnsafeBytes(write) }
  }

  /// Writes the end mark.
  func finish() throws { try TarBlocks.end.withUnsafeBytes(write) }
}
