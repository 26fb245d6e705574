import Evidence
import Model

/// What a split has to know of a take, as one text of the journal: the group that the rule gave it, and the recording that it shows.
struct SplitKey: Equatable {
  /// `nil` without a rule.
  var group: String?
  /// A word for the poses of the recording: takes with the same one are copies of it, whatever became of their images.
  var recording: String?

  init(group: String?, recording: String?) { (self.group, self.recording) = (group, recording) }

  private static let separator: Character = "\u{1F}"
  private static let digits = 16
  /// Fewer poses say nothing: those of two takes that hold still may be equal.
  private static let fewestPoses = 10

  init(text: String?) {
    guard let text, let end = text.lastIndex(of: Self.separator), text[text.index(after: end)...].count == Self.digits else {
      self.init(group: text, recording: nil)
      return
    }
    let group = text[..<end]
    self.init(group: group.isEmpty ? nil : String(group), recording: String(text[text.index(after: end)...]))
  }

  var text: String? { recording.map { "\(group ?? "")\(Self.separator)\($0)" } ?? group }

  /// The word for the poses of a take as its reader opened it: the start of a digest of their numbers and of the time since the first.
  static func recording(of source: Episode) -> String? {
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
