import Foundation
import Testing

@testable import TakesetRecorder

/// Recordings that end in every way, and what is made of them.
@Suite struct RecoveryTests {
  private static let description = BundleDescription(
    codec: "h264", width: 64, height: 48, depthWidth: 4, depthHeight: 3, deviceModel: "iPhone", attestationLevel: "unverified",
    startedAt: 1_771_446_000_123, clockStart: 81_234.5)

  private static func map(_ frame: Int) -> [UInt8] { (0..<48).map { UInt8(truncatingIfNeeded: frame &* 7 &+ $0) } }
  private static func segment(_ number: Int) -> [UInt8] { [UInt8](repeating: UInt8(number + 1), count: 100 + number) }

  /// Records frames, a segment after each five, a checkpoint after each ten, which is signed; up to a step, as if killed before the next.
  @discardableResult
  private func record(_ count: Int, in folder: String, id: String = "take", stops: Bool = true, interrupted: Bool = false) throws
    -> BundleRecording
  {
    var rule = CheckpointRule()
    rule.every = 10
    let recording = try BundleRecording(in: folder, id: id, Self.description, checkpoints: rule, testHasher)
    for number in 0..<count {
      let pixels = [UInt8](repeating: UInt8(number), count: 64)
      let checkpoint = try pixels.withUnsafeBytes { pixels in
        try Self.map(number).withUnsafeBytes { try recording.add([pixels], depth: $0, time: Double(number) / 30) }
      }
      if let checkpoint { try recording.addAssertion([UInt8(checkpoint.frames)], frames: checkpoint.frames) }
      if number % 5 == 4 { try recording.addSegment(Self.segment(number / 5), frames: number + 1) }
    }
    if interrupted { try recording.interrupt(reason: "phone-call") }
    if stops {
      if count % 5 != 0 { try recording.addSegment(Self.segment(count / 5), frames: count) }
      if !interrupted { try recording.addAssertion([UInt8(count)], frames: count) }
      try recording.stop(time: Double(count) / 30)
    }
    return recording
  }

  private func metadata(_ folder: String) throws -> [String: Any] {
    let data = try Data(contentsOf: URL(fileURLWithPath: folder + "/metadata.json"))
    return try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
  }

  @Test func theHasherOfTheseTestsIsSHA256() {
    let hex = TestHasher.of(Array("abc".utf8)).map { String($0, radix: 16) }.joined()
    #expect(hex == "ba7816bf8f1cfea414140de5dae2223b0361a396177a9cb410ff61f2015ad")
  }

  @Test func aStoppedRecordingBecomesABundle() throws {
    let folder = try TestFolder()
    let recovered = try #require(try record(23, in: folder.path).commit(deflate: stored))
    #expect(recovered.outcome == .complete && recovered.frames == 23 && recovered.keyframes == 8 && recovered.verifiedFrames == 23)
    let files = try contents(of: folder.path)
    #expect(Set(files.keys) == ["take/depth.gz", "take/hash_chain.json", "take/metadata.json", "take/video.mp4"])
    #expect(files["take/video.mp4"] == (0..<5).flatMap(Self.segment))
    let found = try metadata(folder.path + "/take")
    #expect(found["frame_count"] as? Int == 23 && found["is_partial"] == nil && found["assertion"] as? String == "Fw==")
    #expect(found["started_at"] as? String == "2026-02-18T20:20:00.123Z" && found["duration_ms"] as? Int == 767)
    let gzip = try #require(files["take/depth.gz"])
    let depth = gzip.dropFirst(10).dropLast(8)
    #expect(Array(gzip.prefix(10)) == [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255])
    let ends = [CRC32.of(depth), UInt32(depth.count)].flatMap { number in withUnsafeBytes(of: number.littleEndian, Array.init) }
    #expect(Array(gzip.suffix(8)) == ends)
    #expect(depth.prefix(4) == Array("RLDP".utf8)[...] && Array(depth.suffix(48)) == Self.map(21) && depth.count == 16 + 8 * 12 + 8 * 48)
  }

  @Test func recoveringWhatWasStoppedGivesTheSameBundle() throws {
    let (one, other) = (try TestFolder(), try TestFolder())
    let recording = try record(23, in: one.path)
    try FileManager.default.copyItem(atPath: recording.folder, toPath: other.path + "/take.recording")
    let committed = try recording.commit(deflate: stored)
    let recovered = try Recovery(testHasher, deflate: stored).recover(other.path + "/take.recording")
    #expect(try contents(of: one.path + "/take") == contents(of: other.path + "/take"))
    #expect(committed?.frames == recovered.frames && committed?.verifiedSeconds == recovered.verifiedSeconds)
  }

  @Test func aRecordingWithoutAFrameLeavesNothing() throws {
    let folder = try TestFolder()
    let empty = try BundleRecording(in: folder.path, id: "take", Self.description, testHasher)
    try empty.stop(time: 0)
    #expect(try empty.commit(deflate: stored) == nil)
    #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).isEmpty)
  }

  @Test func aKillAtAnyEntryLosesTheLastSegmentAtMost() throws {
    let whole = try TestFolder()
    let recording = try record(23, in: whole.path)
    let journal = try contents(of: recording.folder)["journal"]!
    let (entries, _) = JournalEntry.read(journal)
    var end = 0
    for entry in entries {
      end += entry.bytes.count
      for cut in [end, end - 1] {
        let folder = try TestFolder()
        try FileManager.default.copyItem(atPath: recording.folder, toPath: folder.path + "/take.recording")
        try Data(journal[..<cut]).write(to: URL(fileURLWithPath: folder.path + "/take.recording/journal"))
        let kept = JournalEntry.read(Array(journal[..<cut])).entries
        let inMovie = kept.reduce(0) { if case .segment(_, let frames, _) = $1 { Int(frames) } else { $0 } }
        let isStopped = kept.contains { if case .stopped = $0 { true } else { false } }
        let signed = kept.reduce(0) { if case .assertion(let frames, _) = $1, Int(frames) <= inMovie { Int(frames) } else { $0 } }
        let recovered = try Recovery(testHasher, deflate: stored).recover(folder.path + "/take.recording")
        #expect(recovered.outcome == (inMovie == 0 ? .nothing : isStopped ? .complete : .partial))
        #expect(recovered.frames == inMovie && recovered.verifiedFrames == signed && recovered.journalEntries == kept.count)
        #expect(recovered.keyframes == (inMovie + 2) / 3)
        #expect(FileManager.default.fileExists(atPath: folder.path + "/take.recording.recovered/journal"))
        guard inMovie > 0 else { continue }
        let files = try contents(of: folder.path + "/take")
        #expect(files["video.mp4"] == (0..<((inMovie + 4) / 5)).flatMap(Self.segment))
        let found = try metadata(folder.path + "/take")
        #expect(found["frame_count"] as? Int == inMovie && (found["is_partial"] as? Bool ?? false) == !isStopped)
        #expect(found["assertion"] as? String == (signed == 0 ? "" : Data([UInt8(signed)]).base64EncodedString()))
      }
    }
  }

  @Test func aKilledRecoveryIsRepeatedWithTheSameBytes() throws {
    let folder = try TestFolder()
    try record(17, in: folder.path, stops: false)
    let recovery = Recovery(testHasher, deflate: stored)
    let copy = folder.path + "/other.recording"
    try FileManager.default.copyItem(atPath: folder.path + "/take.recording", toPath: copy)
    let first = try recovery.recover(folder.path + "/take.recording")
    let once = try contents(of: folder.path + "/take")
    // Killed while it wrote, and killed between its last two steps.
    try FileManager.default.moveItem(atPath: folder.path + "/take.recording.recovered", toPath: folder.path + "/take.recording")
    try FileManager.default.createDirectory(atPath: folder.path + "/take.recovering", withIntermediateDirectories: true)
    try Data([1]).write(to: URL(fileURLWithPath: folder.path + "/take.recovering/video.mp4"))
    #expect(try recovery.recover(folder.path + "/take.recording") == first)
    #expect(try contents(of: folder.path + "/take") == once)
    #expect(try contents(of: recovery.recover(copy).output ?? "") == once)
    #expect(try recovery.discard(in: folder.path).count == 2)
    #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted() == ["other", "take"])
  }

  @Test func aBundleOfAnotherRecordingIsNotReplaced() throws {
    let folder = try TestFolder()
    try record(10, in: folder.path)
    try FileManager.default.createDirectory(atPath: folder.path + "/take", withIntermediateDirectories: true)
    try Data("mine".utf8).write(to: URL(fileURLWithPath: folder.path + "/take/notes.txt"))
    let before = try contents(of: folder.path)
    #expect(throws: RecordingError.self) { try Recovery(testHasher, deflate: stored).recover(folder.path + "/take.recording") }
    #expect(try contents(of: folder.path) == before)
  }

  @Test func interruptedIsPartialThoughStopped() throws {
    let folder = try TestFolder()
    let recovered = try record(23, in: folder.path, interrupted: true).commit(deflate: stored)
    #expect(recovered?.outcome == .partial && recovered?.verifiedFrames == 20 && recovered?.frames == 23)
    #expect(try metadata(folder.path + "/take")["is_partial"] as? Bool == true)
  }

  @Test func aMovieThatIsDamagedIsCutBeforeTheDamage() throws {
    for byte in stride(from: 0, to: 510, by: 7) {
      let folder = try TestFolder()
      let recording = try record(23, in: folder.path).folder
      let path = recording + "/video.mp4"
      var movie = Array(try Data(contentsOf: URL(fileURLWithPath: path)))
      movie[byte] ^= 0x40
      try Data(movie).write(to: URL(fileURLWithPath: path))
      let sound = (0..<5).prefix { (0...$0).reduce(0) { $0 + Self.segment($1).count } <= byte }.count
      let recovered = try Recovery(testHasher, deflate: stored).recover(recording)
      #expect(recovered.frames == 5 * sound && recovered.outcome == (sound == 0 ? .nothing : .partial))
    }
  }

  @Test func noSegmentFollowsOneThatIsMissing() throws {
    let folder = try TestFolder()
    let recording = try BundleRecording(in: folder.path, id: "take", Self.description, testHasher)
    for number in 0..<15 { _ = try [UInt8(number)].withUnsafeBytes { try recording.add([$0], depth: nil, time: Double(number) / 30) } }
    try recording.addSegment([1, 2, 3], frames: 5)
    // The disk has no room for the second one.
    struct Full: Error {}
    #expect(throws: Full.self) { try recording.addSegment([4, 5], frames: 10, locked: { _ in throw Full() }) }
    #expect(throws: RecordingError.self) { try recording.addSegment([6, 7], frames: 15) }
    #expect(try recording.commit(deflate: stored)?.frames == 5)
  }

  @Test func whatKeptTheFirstSegmentFromTheDiskIsTheReasonThatThereIsNoBundle() throws {
    let folder = try TestFolder()
    let recording = try record(4, in: folder.path, stops: false)
    let full = RecordingError(path: "journal", reason: "full", isFull: true)
    #expect(throws: full) { try recording.addSegment(Self.segment(0), frames: 4) { _ in throw full } }
    #expect(throws: full) { try recording.commit(deflate: stored) }
    #expect(try contents(of: folder.path)["take.recording/journal"] != nil)
  }

  @Test func aDamagedDepthMapCostsNoOther() throws {
    let folder = try TestFolder()
    let recording = try record(23, in: folder.path).folder
    let path = recording + "/depth.raw"
    var raw = Array(try Data(contentsOf: URL(fileURLWithPath: path)))
    raw[5] ^= 1
    raw[3 * 48] ^= 1
    try Data(raw).write(to: URL(fileURLWithPath: path))
    let recovered = try Recovery(testHasher, deflate: stored).recover(recording)
    #expect(recovered.outcome == .complete && recovered.frames == 23 && recovered.keyframes == 6)
    let depth = try #require(try contents(of: folder.path + "/take")["depth.gz"])
    #expect(Array(depth.dropLast(8).suffix(6 * 48)) == [3, 6, 12, 15, 18, 21].flatMap(Self.map))
  }

  @Test func anythingFlippedInTheJournalClaimsNothingThatIsNotThere() throws {
    let source = try TestFolder()
    let recording = try record(23, in: source.path)
    let files = try contents(of: recording.folder)
    var random = SplitMix(seed: 11)
    for _ in 0..<400 {
      let folder = try TestFolder()
      try FileManager.default.copyItem(atPath: recording.folder, toPath: folder.path + "/take.recording")
      var journal = files["journal"]!
      journal[Int.random(in: 0..<journal.count, using: &random)] ^= UInt8(1 << Int.random(in: 0..<8, using: &random))
      try Data(journal).write(to: URL(fileURLWithPath: folder.path + "/take.recording/journal"))
      let recovered = try Recovery(testHasher, deflate: stored).recover(folder.path + "/take.recording")
      #expect(recovered.outcome != .complete && recovered.frames % 5 == 0 || recovered.frames == 23)
      #expect(recovered.verifiedFrames <= recovered.frames)
    }
  }

  @Test(arguments: ["", "{}", "not json", "{\"version\":2}"]) func aDescriptionThatIsNoneIsAnErrorAndLosesNothing(_ text: String) throws {
    let folder = try TestFolder()
    let recording = try record(10, in: folder.path)
    try Data(text.utf8).write(to: URL(fileURLWithPath: recording.folder + "/recording.json"))
    let before = try contents(of: folder.path)
    #expect(throws: RecordingError.self) { try Recovery(testHasher, deflate: stored).recover(recording.folder) }
    #expect(try contents(of: folder.path) == before)
  }

  @Test func anEarlierOriginalOfTheSameNameIsKept() throws {
    let folder = try TestFolder()
    let recovery = Recovery(testHasher, deflate: stored)
    for count in [10, 15, 20] {
      try record(count, in: folder.path)
      _ = try recovery.recover(folder.path + "/take.recording")
      try FileManager.default.removeItem(atPath: folder.path + "/take")
    }
    let movies = try contents(of: folder.path).filter { $0.key.hasSuffix("video.mp4") }.mapValues(\.count)
    #expect(
      movies == [
        "take.recording.recovered/video.mp4": 201, "take.recording.recovered-2/video.mp4": 303, "take.recording.recovered-3/video.mp4": 406,
      ])
    #expect(movies.keys.allSatisfy { Recovery.isUnfinished(String($0.split(separator: "/")[0])) })
    #expect(try recovery.discard(in: folder.path).count == 3)
  }

  /// Each file of a recording, as something else or not there.
  @Test(arguments: ["journal", "video.mp4", "depth.raw", "recording.json"], ["pipe", "link", "device", "folder", "absent"])
  func aFileThatIsNoFileIsAnErrorAndLosesNothing(_ name: String, _ kind: String) throws {
    let folder = try TestFolder()
    let path = try record(10, in: folder.path).folder + "/" + name
    try FileManager.default.moveItem(atPath: path, toPath: folder.path + "/elsewhere")
    switch kind {
    case "pipe": mkfifo(path, 0o644)
    case "link": symlink(folder.path + "/elsewhere", path)
    case "device": symlink("/dev/zero", path)
    case "folder": mkdir(path, 0o755)
    default: break
    }
    let before = try FileManager.default.subpathsOfDirectory(atPath: folder.path).sorted()
    let error = #expect(throws: RecordingError.self) { try Recovery(testHasher, deflate: stored).recover(folder.path + "/take.recording") }
    #expect(error?.isDamage == true && error?.path == path)
    #expect(try FileManager.default.subpathsOfDirectory(atPath: folder.path).sorted() == before)
  }

  @Test func aSegmentThatEndsBehindTheMovieIsNotInIt() throws {
    let folder = try TestFolder()
    let recording = try record(10, in: folder.path).folder
    let journal = try contents(of: recording)["journal"]!
    let entries = JournalEntry.read(journal).entries.map { entry in
      if case .segment(let end, let frames, let digest) = entry, frames == 10 {
        return JournalEntry.segment(end: end + 1 << 50, frames: 10, digest: digest)
      }
      return entry
    }
    try Data(entries.flatMap(\.bytes)).write(to: URL(fileURLWithPath: recording + "/journal"))
    #expect(try Recovery(testHasher, deflate: stored).recover(recording).frames == 5)
  }

  @Test(arguments: [[], ["recording.json.part"], ["recording.json"], ["recording.json", "video.mp4", "depth.raw", "journal"]])
  func aRecorderThatWasKilledAtOnceHasRecordedNothing(_ names: [String]) throws {
    let folder = try TestFolder()
    let recording = folder.path + "/take.recording"
    try FileManager.default.createDirectory(atPath: recording, withIntermediateDirectories: false)
    for name in names {
      let bytes = try name == BundleDescription.name ? Self.description.json : []
      try Data(bytes).write(to: URL(fileURLWithPath: recording + "/" + name))
    }
    #expect(try Recovery(testHasher, deflate: stored).recover(recording).outcome == .nothing)
    #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["take.recording.recovered"])
  }

  @Test(arguments: [".recording", "..recording", "...recording", "take"]) func aNameThatIsNoneIsRefused(_ name: String) throws {
    let folder = try TestFolder()
    #expect(throws: RecordingError.self) { try Recovery(testHasher, deflate: stored).recover(folder.path + "/" + name) }
  }
}
