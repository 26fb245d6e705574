import Evidence
import Model

/// A word for the poses of a recording: takes with the same one are copies of it, whatever became of their images.
enum RecordingDigest {
  private static let digits = 16
  /// Fewer poses say nothing: those of two takes that hold still may be equal.
  private static let fewestPoses = 10

  /// The word for the poses of a take as its reader opened it: the start of a digest of their numbers and of the time since the first.
  static func word(for source: Episode) -> String? {
    let streams = source.streams.filter { $0.value.spec.kind.poseFrame != nil }
    guard let stream = streams.min(by: { $0.key < $1.key })?.value, let first = stream.timestamps.first,
      stream.timestamps.count >= fewestPoses, var cursor = try? stream.source.makeCursor(SampleRequest())
    else { return nil }
    let hasher = SHA256()
    var (sample, other, moves): ([UInt8], [UInt8], Bool) = ([], [], false)
    for (index, time) in stream.timestamps.enumerated() {
      guard (try? cursor.read(index, into: &sample)) != nil else { return nil }
      if index == 0 { other = sample } else if sample != other { moves = true }
      hasher.update(sample)
      withUnsafeBytes(of: time.since(first).littleEndian) { hasher.update($0) }
    }
    return moves ? String(hasher.finish().description.prefix(digits)) : nil
  }
}
