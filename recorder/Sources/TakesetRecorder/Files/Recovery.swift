import Foundation

/// Makes bundles of recordings that a killed app has left: folders `ID.recording/`.
///
/// It takes what is certain, cuts the movie exactly there, and never claims more than the newest signature covers. It may be killed at any moment and
/// repeated; the bytes are the same each time. The recording itself is kept as `ID.recording.recovered`, or with `-2` and so on behind it.
///
///     let recovery = Recovery({ CryptoKitHasher() }, deflate: compressionDeflate)
///     let recovered = try recovery.recover(folder + "/20261127-1.recording")
public struct Recovery: Sendable {
  /// The result of a recording: whole, its beginning, or no frame.
  public enum Outcome: String, Sendable, Equatable { case complete, partial, nothing }

  /// A bundle that was made, or its recording without a frame.
  public struct Recovered: Sendable, Equatable {
    public var id: String
    public var outcome: Outcome
    public var frames = 0
    public var keyframes = 0
    public var seconds = 0.0
    /// Frames and seconds that the newest signature covers.
    public var verifiedFrames = 0
    public var verifiedSeconds = 0.0
    /// Entries of the journal that were whole.
    public var journalEntries = 0
    /// The folder of the bundle; `nil` where nothing was recorded.
    public var output: String?

    /// `nil` for a recording without a frame.
    init?(_ recording: IntactRecording, id: String, output: String) {
      guard recording.frames > 0 else { return nil }
      self.init(id: id, outcome: recording.isComplete ? .complete : .partial, journalEntries: recording.entries)
      (frames, keyframes, seconds) = (recording.frames, recording.keyframeTimes.count, recording.seconds)
      (verifiedFrames, verifiedSeconds, self.output) = (recording.verifiedFrames, recording.verifiedSeconds, output)
    }

    init(id: String, outcome: Outcome, journalEntries: Int) { (self.id, self.outcome, self.journalEntries) = (id, outcome, journalEntries) }
  }

  public static let suffix = ".recording"
  static let keptSuffix = ".recording.recovered", workingSuffix = ".recovering"

  /// Whether a folder of this name belongs to a recording or a recovery, and is no bundle.
  public static func isUnfinished(_ name: String) -> Bool { name.hasSuffix(suffix) || name.hasSuffix(workingSuffix) || isKept(name) }

  private static func isKept(_ name: String) -> Bool { name.contains(/\.recording\.recovered(-[0-9]+)?$/) }

  private let makeHasher: MakeHasher
  private let deflate: Deflate

  public init(_ makeHasher: @escaping MakeHasher, deflate: @escaping Deflate) {
    (self.makeHasher, self.deflate) = (makeHasher, deflate)
  }

  /// Recovers the recording in a folder `ID.recording`.
  ///
  /// - Throws: `RecordingError` where it cannot be read, or where its bundle cannot be written; the recording is then as it was.
  public func recover(_ folder: String) throws -> Recovered {
    let name = URL(fileURLWithPath: folder).lastPathComponent
    let id = String(name.dropLast(Self.suffix.count))
    guard name.hasSuffix(Self.suffix), !["", ".", ".."].contains(id) else {
      throw RecordingError(path: folder, reason: "its name is not that of a recording; expected ID\(Self.suffix)")
    }
    let base = String(folder.dropLast(Self.suffix.count))
    // Held to the end: two recoveries of one recording would spoil each other's bundle.
    guard let lock = FolderLock(folder) else {
      throw RecordingError(path: folder, reason: "it is being recorded, or recovered by another", isBusy: true)
    }
    defer { withExtendedLifetime(lock) {} }
    let recording = try IntactRecording(folder, makeHasher)
    let recovered = recording.flatMap { Recovered($0, id: id, output: base) }
    if let recording, recovered != nil { try write(recording, from: folder, to: base) }
    try keep(folder, as: base + Self.keptSuffix)
    return recovered ?? Recovered(id: id, outcome: .nothing, journalEntries: recording?.entries ?? 0)
  }

  /// Gives a recording that is recovered a name that no earlier one has.
  private func keep(_ folder: String, as name: String) throws {
    for number in 1... {
      let free = number == 1 ? name : "\(name)-\(number)"
      if !Files.exists(free), rename(folder, free) == 0 { return }
      guard Files.exists(free) else { throw RecordingError.system("cannot be renamed to \(free)", folder) }
    }
  }

  /// Removes the recordings that recoveries have kept in a folder. Returns their paths.
  public func discard(in folder: String) throws -> [String] {
    let names = try FileManager.default.contentsOfDirectory(atPath: folder).filter(Self.isKept).sorted()
    return try names.map { name in
      try FileManager.default.removeItem(atPath: folder + "/" + name)
      return folder + "/" + name
    }
  }

  private func write(_ recording: IntactRecording, from folder: String, to output: String) throws {
    let working = output + Self.workingSuffix
    try? FileManager.default.removeItem(atPath: working)
    guard mkdir(working, 0o755) == 0 else { throw RecordingError.system("cannot be made", working) }
    do {
      try copy(folder + "/" + IntactRecording.videoName, to: working + "/" + IntactRecording.videoName, count: recording.videoEnd)
      try BundleCommit.writeDocuments(of: recording, from: folder, to: working, deflate)
      // A recovery that was killed after its last step but one has left the same.
      if Files.exists(output), try Self.areEqual(working, output) {
        try FileManager.default.removeItem(atPath: working)
      } else {
        try BundleCommit.publish(working, as: output)
      }
    } catch {
      try? FileManager.default.removeItem(atPath: working)
      throw error
    }
  }

  private func copy(_ source: String, to target: String, count: UInt64) throws {
    let file = try RecordedFile(source)
    let output = try AppendedFile(creating: target)
    try file.read(0..<count) { try output.append($0) }
    try output.sync()
  }

  private static func areEqual(_ one: String, _ other: String) throws -> Bool {
    let names = try FileManager.default.contentsOfDirectory(atPath: one).sorted()
    guard try names == FileManager.default.contentsOfDirectory(atPath: other).sorted() else { return false }
    return names.allSatisfy { FileManager.default.contentsEqual(atPath: "\(one)/\($0)", andPath: "\(other)/\($0)") }
  }
}
