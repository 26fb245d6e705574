package import Evidence
package import Model
package import Steps

extension Journal {
  /// A line of the journal about an episode, without its record. It determines whether the take must be converted again.
  ///
  /// A run keeps one for each take and looks at them in several orders, so copies share their contents, and digests and stamps are kept as
  /// numbers: in 300 bytes instead of twice as many, and in no more for every further copy.
  @dynamicMemberLookup
  package struct Entry: @unchecked Sendable {
    /// Shared until one of the copies is changed, as an array's elements are.
    private final class Storage {
      var contents: Contents
      init(_ contents: Contents) { self.contents = contents }
    }

    private var storage: Storage

    package init(_ contents: Contents) { storage = Storage(contents) }

    var contents: Contents { storage.contents }

    /// Looked up directly, because entries are sorted by it.
    package var id: EpisodeID { storage.contents.id }

    package subscript<Value>(dynamicMember member: WritableKeyPath<Contents, Value>) -> Value {
      get { storage.contents[keyPath: member] }
      set {
        if !isKnownUniquelyReferenced(&storage) { storage = Storage(storage.contents) }
        storage.contents[keyPath: member] = newValue
      }
    }

    /// Whether a record is that of the entry, and not one of an earlier or later conversion.
    package func describes(_ record: TakeRecord) -> Bool {
      let own = contents
      return own.id == record.id && own.outcome == record.outcome && own.framesOut == record.framesOut && own.reader == record.reader
        && own.inputDigest == record.inputDigest?.description
    }
  }
}

extension Journal.Entry {
  /// The members of an entry, in one allocation that its copies share.
  package struct Contents: Equatable {
    package var id: EpisodeID
    package var location: String
    package var pipeline: String
    package var toolVersion: String
    package var outcome: TakeRecord.Outcome
    package var reader: String?
    private var compactStamp, compactDigest, compactShard: CompactText?
    /// Frames that count in the totals; 0 for all but the first episode of a take.
    package var framesIn = 0
    package var framesOut = 0
    /// Rows that repeat the frame of an earlier row.
    package var framesRepeated = 0
    /// The number of episodes of the take, where a step has split it.
    package var parts: Int?
    /// The attributes by which a split may group the take; `nil` for one that could not be opened.
    package var origin: TakeOrigin?
    /// The `RecordingDigest` of the take.
    package var recording: String?
    /// Digest of the keys file that its signature was checked against, `none` without one; `nil` if the take does not depend on keys.
    package var keys: String?
    /// The streams that `takeset add` has added to the shard.
    package var added: [StreamName] = []
    /// What the take's format and its steps in Python say of the episode, as canonical JSON; a file of labels is no input of a take.
    package var labels: String?
    /// The name of the group of a joined take and the places of its members, as canonical JSON: `JoinedGroup.text`.
    package var group: String?
    /// Nanoseconds from the take's first frame to the first row.
    package var firstRow: Int64 = 0
    /// Whether a folder with the archive's name was among the takes and was compared with it.
    package var hadDuplicateFolder = false
    package var seconds = 0.0

    package init(
      id: EpisodeID, location: String, pipeline: String, toolVersion: String, outcome: TakeRecord.Outcome, reader: String? = nil,
      stamp: String? = nil, inputDigest: String? = nil, shard: String? = nil, framesIn: Int = 0, framesOut: Int = 0
    ) {
      (self.id, self.location, self.pipeline, self.toolVersion, self.outcome) = (id, location, pipeline, toolVersion, outcome)
      (self.reader, self.framesIn, self.framesOut) = (reader, framesIn, framesOut)
      (self.stamp, self.inputDigest, self.shard) = (stamp, inputDigest, shard)
    }

    /// Digest of the inputs' paths, sizes, times and inodes.
    package var stamp: String? {
      get { compactStamp?.text }
      set { compactStamp = newValue.map { CompactText($0) } }
    }
    package var inputDigest: String? {
      get { compactDigest?.text }
      set { compactDigest = newValue.map { CompactText($0) } }
    }
    /// Size, times and inode of the shard.
    package var shard: String? {
      get { compactShard?.text }
      set { compactShard = newValue.map { CompactText($0) } }
    }
  }
}

extension Journal.Entry.Contents {
  /// Takes what concerns labels from the details of a record.
  package mutating func setLabels(_ details: [String: JSONValue]?) {
    let said = LabelCollection.said(details)
    labels = said.isEmpty ? nil : JSONValue.object(said).canonicalText
    firstRow = details?[LabelDetails.firstRow]?.integer ?? 0
  }
}

extension Journal.Entry: Equatable {
  /// Compares the contents, unless both are the same copy.
  package static func == (a: Self, b: Self) -> Bool { a.storage === b.storage || a.storage.contents == b.storage.contents }
}

/// A text in few bytes: 64 hexadecimal digits or four numbers take half of what they take as text.
private enum CompactText: Equatable {
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
