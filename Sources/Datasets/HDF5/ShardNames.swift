import Model

/// The names inside shards, the index and packed files, described in `docs/layout.md`, for what writes and reads them. Other code spells names
/// of an episode only where it shows them, or looks up a `StoredRow`'s fields.
package enum ShardNames {
  /// The only episode of a shard.
  package static let demo = "demo_0"
  /// The groups of all episodes of a file.
  package static let allData = "data", allMeta = "meta"
  /// The groups of the index and of packed files with the parts of the split, and with the statistics of the training takes.
  package static let masks = "mask", totals = "stats"
  /// The group of the index with the labels of episodes.
  package static let labels = "labels"
  /// The groups of a shard's episode, and the same as the paths of arrays in records begin.
  package static let data = "\(allData)/\(demo)", meta = "\(allMeta)/\(demo)"
  package static let dataPath = "/\(data)/"

  static let observations = "obs", nextObservations = "next_obs", streams = "streams", rowDigests = "row_sha256"
  package static let delay = "dt_ns", nextIndex = "next_index", weight = "weight"
  static let rewards = "rewards", dones = "dones"
  static let valid = "valid", accelerations = "accel", rotationRates = "gyro"
  static let times = "timestamp_ns", sourceIndex = "source_index", quality = "quality", segment = "segment", gaps = "gaps"
  static let checksums = "chunk_crc32", statistics = "statistics", statisticsPath = "\(meta)/\(statistics)"
  package static let takeID = "take_id"
  static let rowCount = "num_samples", reader = "reader"

  /// The array of a raster's intrinsics at each row; the images of the first camera have theirs without a name, but for that of the member
  /// of a joined take.
  static func intrinsics(of name: some StringProtocol, isFirstImage: Bool, member: String? = nil) -> String {
    isFirstImage ? (member.map { $0 + "_" } ?? "") + "intrinsics" : "\(name)_intrinsics"
  }

  /// The array of a vector's values before joints were given their signs and offsets.
  static func raw(of name: some CustomStringConvertible) -> String { "\(name)_raw" }

  private static let prefix = "demo_"

  /// The name of an episode in the index and in packed files, numbered from 0: `demo_000003`.
  package static func demo(_ number: Int) -> String { prefix + number.padded(to: 6) }

  /// The number in such a name, with any number of digits.
  package static func number(of demo: String) -> Int? { demo.hasPrefix(prefix) ? Int(demo.dropFirst(prefix.count)) : nil }

  /// The dataset with the digests of the rows of an array.
  package static func rowDigests(of path: some StringProtocol) -> String {
    let parts = path.split(separator: "/")
    guard parts.count > 2 else { return "" }
    return "meta/\(parts[1])/\(rowDigests)/" + (parts[2] == nextObservations ? nextObservations + "/" : "") + parts[parts.count - 1]
  }
}
