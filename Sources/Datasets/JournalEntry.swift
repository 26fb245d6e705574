import Evidence
package import Model

extension Journal {
  /// What a line of the journal says of an episode, without its record. It determines whether the take must be converted again.
  ///
  /// A run keeps one for each take and looks at them in several orders, so copies share their contents, and digests and stamps are kept as
  /// numbers: in 300 bytes instead of twice as many, and in no more for every further copy.
  package struct Entry: @unchecked Sendable {
    /// Shared until one of the copies is changed, as an array's elements are.
    private final class Contents {
      var id: EpisodeID
      var location: String
      var pipeline: String
      var toolVersion: String
      var outcome: TakeRecord.Outcome
      var reader: String?
      var stamp: CompactText?
      var inputDigest: CompactText?
      var shard: CompactText?
      var framesIn: Int
      var framesOut: Int
      var framesRepeated: Int
      var parts: Int?
      var splitGroup: String?
      var recording: String?
      var keys: String?
      var hadDuplicateFolder: Bool
      var seconds: Double

      init(id: EpisodeID, location: String, pipeline: String, toolVersion: String, outcome: TakeRecord.Outcome) {
        (self.id, self.location, self.pipeline, self.toolVersion, self.outcome) = (id, location, pipeline, toolVersion, outcome)
        (framesIn, framesOut, framesRepeated, hadDuplicateFolder, seconds) = (0, 0, 0, false, 0)
      }

      func copy() -> Contents {
        let copy = Contents(id: id, location: location, pipeline: pipeline, toolVersion: toolVersion, outcome: outcome)
        (copy.reader, copy.stamp, copy.inputDigest, copy.shard) = (reader, stamp, inputDigest, shard)
        (copy.framesIn, copy.framesOut, copy.framesRepeated) = (framesIn, framesOut, framesRepeated)
        (copy.parts, copy.splitGroup, copy.recording) = (parts, splitGroup, recording)
        (copy.keys, copy.hadDuplicateFolder, copy.seconds) = (keys, hadDuplicateFolder, seconds)
        return copy
      }
    }

    private var contents: Contents

    package init(
      id: EpisodeID, location: String, pipeline: String, toolVersion: String, outcome: TakeRecord.Outcome, reader: String? = nil,
      stamp: String? = nil, inputDigest: String? = nil, shard: String? = nil, framesIn: Int = 0, framesOut: Int = 0,
      splitGroup: String? = nil, recording: String? = nil, keys: String? = nil, hadDuplicateFolder: Bool = false, seconds: Double = 0
    ) {
      contents = Contents(id: id, location: location, pipeline: pipeline, toolVersion: toolVersion, outcome: outcome)
      (contents.reader, contents.splitGroup, contents.recording, contents.keys) = (reader, splitGroup, recording, keys)
      (contents.stamp, contents.inputDigest) = (stamp.map { CompactText($0) }, inputDigest.map { CompactText($0) })
      contents.shard = shard.map { CompactText($0) }
      (contents.framesIn, contents.framesOut, contents.seconds) = (framesIn, framesOut, seconds)
      contents.hadDuplicateFolder = hadDuplicateFolder
    }

    private mutating func change(_ change: (Contents) -> Void) {
      if !isKnownUniquelyReferenced(&contents) { contents = contents.copy() }
      change(contents)
    }

    package var id: EpisodeID {
      get { contents.id }
      set { change { $0.id = newValue } }
    }
    package var location: String {
      get { contents.location }
      set { change { $0.location = newValue } }
    }
    package var pipeline: String {
      get { contents.pipeline }
      set { change { $0.pipeline = newValue } }
    }
    package var toolVersion: String {
      get { contents.toolVersion }
      set { change { $0.toolVersion = newValue } }
    }
    package var outcome: TakeRecord.Outcome {
      get { contents.outcome }
      set { change { $0.outcome = newValue } }
    }
    package var reader: String? {
      get { contents.reader }
      set { change { $0.reader = newValue } }
    }
    /// Digest of the inputs' paths, sizes, times and inodes.
    package var stamp: String? {
      get { contents.stamp?.text }
      set { change { $0.stamp = newValue.map { CompactText($0) } } }
    }
    package var inputDigest: String? {
      get { contents.inputDigest?.text }
      set { change { $0.inputDigest = newValue.map { CompactText($0) } } }
    }
    /// Size, times and inode of the shard.
    package var shard: String? {
      get { contents.shard?.text }
      set { change { $0.shard = newValue.map { CompactText($0) } } }
    }
    /// Frames that count in the totals; 0 for all but the first episode of a take.
    package var framesIn: Int {
      get { contents.framesIn }
      set { change { $0.framesIn = newValue } }
    }
    package var framesOut: Int {
      get { contents.framesOut }
      set { change { $0.framesOut = newValue } }
    }
    /// Rows that repeat the frame of an earlier row.
    package var framesRepeated: Int {
      get { contents.framesRepeated }
      set { change { $0.framesRepeated = newValue } }
    }
    /// How many episodes the take has, where a step has split it.
    package var parts: Int? {
      get { contents.parts }
      set { change { $0.parts = newValue } }
    }
    /// The group that the rule of the split gave the take; `nil` without a rule.
    package var splitGroup: String? {
      get { contents.splitGroup }
      set { change { $0.splitGroup = newValue } }
    }
    /// The `RecordingDigest` of the take.
    package var recording: String? {
      get { contents.recording }
      set { change { $0.recording = newValue } }
    }
    /// Digest of the keys file that its signature was checked against, `none` without one; `nil` if the take does not depend on keys.
    package var keys: String? {
      get { contents.keys }
      set { change { $0.keys = newValue } }
    }
    /// Whether a folder with the archive's name was among the takes and was compared with it.
    package var hadDuplicateFolder: Bool {
      get { contents.hadDuplicateFolder }
      set { change { $0.hadDuplicateFolder = newValue } }
    }
    package var seconds: Double {
      get { contents.seconds }
      set { change { $0.seconds = newValue } }
    }

    /// Whether a record is that of the entry, and not one of an earlier or later conversion.
    package func describes(_ record: TakeRecord) -> Bool {
      id == record.id && outcome == record.outcome && framesOut == record.framesOut && reader == record.reader
        && inputDigest == record.inputDigest?.description
    }
  }
}

extension Journal.Entry: Equatable {
  package static func == (a: Self, b: Self) -> Bool {
    a.contents === b.contents
      || (a.id, a.location, a.pipeline, a.toolVersion, a.outcome) == (b.id, b.location, b.pipeline, b.toolVersion, b.outcome)
        && (a.reader, a.stamp, a.inputDigest, a.shard) == (b.reader, b.stamp, b.inputDigest, b.shard)
        && (a.framesIn, a.framesOut, a.framesRepeated, a.seconds) == (b.framesIn, b.framesOut, b.framesRepeated, b.seconds)
        && (a.parts, a.splitGroup, a.recording, a.keys, a.hadDuplicateFolder)
          == (b.parts, b.splitGroup, b.recording, b.keys, b.hadDuplicateFolder)
  }
}

/// A text in few bytes: 64 hexadecimal digits or four numbers take half of what they take as text.
private enum CompactText {
  case digest(UInt64, UInt64, UInt64, UInt64)
  case numbers(Int64, Int64, Int64, Int64)
  case other(String)

  init(_ text: String) {
    let words = text.split(separator: " ", omittingEmptySubsequences: false)
    if words.count == 1, let digest = Digest(hex: text) {
      let numbers = digest.bytes.withUnsafeBytes { bytes in (0..<4).map { bytes.loadUnaligned(fromByteOffset: 8 * $0, as: UInt64.self) } }
      self = .digest(numbers[0], numbers[1], numbers[2], numbers[3])
    } else if words.count == 4, case let numbers = words.compactMap({ Int64($0) }), numbers.count == 4,
      numbers.map({ String($0) }).joined(separator: " ") == text
    {
      self = .numbers(numbers[0], numbers[1], numbers[2], numbers[3])
    } else {
      self = .other(text)
    }
  }

  var text: String {
    switch self {
    case .digest(let a, let b, let c, let d):
      Digest(bytes: [a, b, c, d].withUnsafeBytes { Array($0) }[...])?.description ?? ""
    case .numbers(let a, let b, let c, let d): "\(a) \(b) \(c) \(d)"
    case .other(let text): text
    }
  }
}
