import Evidence
import Model

/// A word for the poses of a recording: takes with the same one are copies of it, whatever became of their images.
enum RecordingDigest {
  private static let digits = 16
  /// Fewer poses say nothing: those of two takes that hold still may be equal.
  private static let fewestPoses = 10

  /// The word for the poses of a take as its reader opened it: the start of a digest of their numbers and of the time since the first.
  static func word(for source: Episode) -> String? {
    let poses = source.streams.filter { $0.value.spec.kind.poseFrame != nil }.sorted { $0.key < $1.key }.map(\.value)
    // A joined take is another one if one of its members is.
    let streams = poses.first?.spec.member == nil ? Array(poses.prefix(1)) : poses
    guard !streams.isEmpty else { return nil }
    let hasher = SHA256()
    var moves = false
    for stream in streams {
      guard let first = stream.timestamps.first, stream.timestamps.count >= fewestPoses,
        var cursor = try? stream.source.makeCursor(SampleRequest())
      else { return nil }
      var (sample, other): ([UInt8], [UInt8]) = ([], [])
      for (index, time) in stream.timestamps.enumerated() {
        guard (try? cursor.read(index, into: &sample)) != nil else { return nil }
        if index == 0 { other = sample } else if sample != other { moves = true }
        hasher.update(sample)
        withUnsafeBytes(of: time.since(first).littleEndian) { hasher.update($0) }
      }
    }
    return moves ? String(hasher.finish().description.prefix(digits)) : nil
  }
}
