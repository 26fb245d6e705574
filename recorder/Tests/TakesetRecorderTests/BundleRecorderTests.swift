import Foundation
import Testing

@testable import TakesetRecorder

/// A whole recorder, with an encoder that writes a segment after each so many frames.
@Suite struct BundleRecorderTests {
  final class FakeSink: SegmentSink, @unchecked Sendable {
    let receive: SegmentReceiver
    let every: Int
    /// Frames offered that are refused, and one that throws.
    var busy: Set<Int> = [], broken: Int?
    /// Whether the last segment is lost and the end says so.
    var losesEnd = false
    /// Seconds until the encoder is done.
    var delay = 0.0
    var offered = 0, taken = 0, sent = 0
    var pending: [UInt8] = []

    init(every: Int, _ receive: @escaping SegmentReceiver) { (self.every, self.receive) = (every, receive) }

    func encode(_ frame: borrowing CameraFrame, at seconds: Double) throws -> Bool {
      defer { offered += 1 }
      if offered == broken { throw RecordingError(path: "encoder", reason: "it broke") }
      if busy.contains(offered) { return false }
      pending.append(UInt8(truncatingIfNeeded: taken))
      taken += 1
      if taken % every == 1, taken > 1 { send(pending.dropLast(), taken - 1) }
      return true
    }

    private func send(_ bytes: some Sequence<UInt8>, _ frames: Int) {
      // Never on the thread that holds the frame.
      let (bytes, receive) = (Array(bytes), receive)
      pending.removeFirst(bytes.count)
      queue.async { receive(bytes, frames) }
    }
    private let queue = DispatchQueue(label: "segments")

    func finish(_ done: @escaping @Sendable ((any Error)?) -> Void) {
      if broken != nil { return queue.async { done(RecordingError(path: "encoder", reason: "it is broken")) } }
      if losesEnd { return queue.async { done(RecordingError(path: "encoder", reason: "the last segment is lost")) } }
      if !pending.isEmpty { send(pending, taken) }
      queue.asyncAfter(deadline: .now() + delay) { done(nil) }
    }
  }

  struct FakeSigner: AssertionSigner {
    func sign(_ hash: [UInt8], _ done: @escaping @Sendable ([UInt8]?) -> Void) { done(Array("signed".utf8) + hash) }
  }

  /// Signs the first hashes, and then never answers.
  final class SilentSigner: AssertionSigner, @unchecked Sendable {
    var answers: Int
    init(answers: Int) { self.answers = answers }
    func sign(_ hash: [UInt8], _ done: @escaping @Sendable ([UInt8]?) -> Void) {
      answers -= 1
      if answers >= 0 { done(Array("signed".utf8) + hash) }
    }
  }

  private static let good = RecordingMachine.Conditions(freeSpace: 1 << 30, tracksNormally: true, sessionRuns: true)
  private static let description = BundleDescription(
    codec: "h264", width: 8, height: 6, depthWidth: 2, depthHeight: 2, deviceModel: "iPhone", attestationLevel: "unverified",
    startedAt: 1_771_446_000_123, clockStart: 100)

  private func recorder(
    _ folder: String, busy: Set<Int> = [], broken: Int? = nil, losesEnd: Bool = false, delay: Double = 0,
    checkpointEvery: Int = 10, signer: (any AssertionSigner)? = FakeSigner(), patience: Double? = nil
  ) -> BundleRecorder {
    var options = BundleRecorder.Options()
    options.checkpoints.every = checkpointEvery
    if let patience { options.patience = patience }
    return BundleRecorder(in: folder, id: "take", Self.description, options: options, signer: signer, testHasher, deflate: stored) {
      receive in
      let sink = FakeSink(every: 5, receive)
      (sink.busy, sink.broken, sink.losesEnd, sink.delay) = (busy, broken, losesEnd, delay)
      return sink
    }
  }

  /// A camera at 60 Hz from 100 s on.
  private func film(_ recorder: BundleRecorder, _ seconds: Double) {
    for number in 0..<Int(seconds * 60) {
      let pixels = [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: 48)
      let depth = [Float](repeating: 1 + Float(number) / 100, count: 4)
      pixels.withUnsafeBytes { pixels in
        depth.withUnsafeBytes { depth in recorder.record(CameraFrame(time: 100.2 + Double(number) / 60, pixels: [pixels], depth: depth)) }
      }
    }
  }

  private func metadata(_ folder: TestFolder) throws -> [String: Any] {
    let data = try Data(contentsOf: URL(fileURLWithPath: folder.path + "/take/metadata.json"))
    return try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
  }

  @Test func everyOtherFrameOfSixtyHertzIsRecordedAndSigned() async throws {
    let folder = try TestFolder()
    let recorder = recorder(folder.path)
    try recorder.start(Self.good, at: 100)
    film(recorder, 1.5)
    let found = try #require(try await recorder.stop(at: 101.7))
    #expect(found.outcome == .complete && found.frames == 45 && found.verifiedFrames == 45 && found.keyframes == 15)
    #expect(abs(found.seconds - 1.5) < 1e-9 && recorder.state == .idle)
    #expect(
      try contents(of: folder.path).keys.sorted() == ["take/depth.gz", "take/hash_chain.json", "take/metadata.json", "take/video.mp4"])
    #expect(try contents(of: folder.path)["take/video.mp4"] == (0..<45).map { UInt8($0) })
  }

  @Test func aFrameThatTheEncoderRefusesIsInNothing() async throws {
    let folder = try TestFolder()
    let recorder = recorder(folder.path, busy: [3, 4, 20])
    try recorder.start(Self.good, at: 100)
    film(recorder, 1)
    let found = try #require(try await recorder.stop(at: 101.2))
    #expect(found.frames == 27 && found.outcome == .complete)
    let chain =
      try JSONSerialization.jsonObject(with: Data(contentsOf: URL(fileURLWithPath: folder.path + "/take/hash_chain.json")))
      as? [String: Any]
    #expect(chain?["frame_count"] as? Int == 27)
  }

  @Test func aLimitAnInterruptionAndASilenceEndIt() async throws {
    for (name, expected) in [("limit", Recovery.Outcome.complete), ("interruption", .partial), ("silence", .partial)] {
      let folder = try TestFolder()
      let recorder = recorder(folder.path)
      try recorder.start(Self.good, at: 100)
      film(recorder, name == "limit" ? 16 : 0.9)
      if name == "interruption" { recorder.interrupt(.phoneCall, at: 101.1) }
      if name == "silence" { for step in 0..<20 { recorder.tick(at: 101.2 + Double(step) / 10) } }
      // Nothing comes after the end.
      film(recorder, 0.5)
      let found = try #require(try await recorder.stop(at: 120))
      #expect(found.outcome == expected && found.frames == (name == "limit" ? 450 : 27), "\(name): \(found)")
      // Of a partial one, the newest checkpoint is signed.
      #expect(found.verifiedFrames == (name == "limit" ? 450 : 20))
      #expect(try metadata(folder)["is_partial"] as? Bool == (expected == .partial ? true : nil))
    }
  }

  @Test func whatWasEncodedBeforeAFailureIsABundle() async throws {
    let folder = try TestFolder()
    let recorder = recorder(folder.path, broken: 23)
    try recorder.start(Self.good, at: 100)
    film(recorder, 1)
    let found = try #require(try await recorder.stop(at: 101.2))
    #expect(found.outcome == .partial && found.frames == 20 && found.verifiedFrames == 20)
    #expect("\(recorder.failure.map { "\($0)" } ?? "")" == "encoder: it broke")
  }

  @Test(arguments: [(0, 0), (2, 20), (3, 30), (4, 45)])
  func aSignerThatNeverAnswersHoldsUpNoEnd(_ answers: Int, _ verified: Int) async throws {
    let folder = try TestFolder()
    // With all answers given, nothing is waited for.
    let recorder = recorder(folder.path, signer: SilentSigner(answers: answers), patience: answers < 4 ? 0.05 : nil)
    try recorder.start(Self.good, at: 100)
    film(recorder, 1.5)
    let found = try #require(try await recorder.stop(at: 101.7))
    #expect(found.outcome == .complete && found.frames == 45 && found.verifiedFrames == verified, "\(found)")
  }

  @Test func aSlowEncoderCostsNoSignature() async throws {
    let folder = try TestFolder()
    let recorder = recorder(folder.path, delay: 2.5, patience: 2)
    try recorder.start(Self.good, at: 100)
    film(recorder, 1.5)
    let found = try #require(try await recorder.stop(at: 101.7))
    #expect(found.outcome == .complete && found.frames == 45 && found.verifiedFrames == 45, "\(found)")
  }

  @Test func sizesThatNoRecordingHasAreRefusedAtTheStart() throws {
    for (edit, words) in [
      (
        {
          $0.depthWidth = 2049; $0.depthHeight = 2048
        }, "a depth map of 2049x2048"
      ), ({ $0.width = 0 }, "an image of 0x6"),
      ({ $0.depthHeight = 16_385 }, "sides of 1 to 16384"), ({ $0.startedAt = -1 }, "-1 ms"), ({ $0.clockStart = .nan }, "nan s"),
      ({ $0.location = .init(latitude: 91, longitude: 0) }, "91.0, 0.0"),
    ] as [((inout BundleDescription) -> Void, String)] {
      let folder = try TestFolder()
      var description = Self.description
      edit(&description)
      let error = #expect(throws: RecordingError.self) { try BundleRecording(in: folder.path, id: "take", description, testHasher) }
      #expect(error?.reason.contains(words) == true, "\(String(describing: error))")
      #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).isEmpty)
    }
  }

  @Test func aBundleWithoutItsEndIsPartialAlsoToTheApp() async throws {
    let folder = try TestFolder()
    let recorder = recorder(folder.path, losesEnd: true)
    nonisolated(unsafe) var effects: [RecordingMachine.Effect] = []
    recorder.onEffect = { effects.append($0) }
    try recorder.start(Self.good, at: 100)
    film(recorder, 1)
    await #expect(throws: RecordingError.self) { try await recorder.stop(at: 101.2) }
    let found = try #require(try await recorder.stop(at: 102))
    #expect(found.outcome == .partial && found.frames == 25 && effects.last == .result(.partial))
  }

  @Test func theResultReachesTheApp() async throws {
    let folder = try TestFolder()
    let recorder = recorder(folder.path)
    nonisolated(unsafe) var effects: [RecordingMachine.Effect] = []
    recorder.onEffect = { effects.append($0) }
    try recorder.start(Self.good, at: 100)
    film(recorder, 0.5)
    _ = try await recorder.stop(at: 101)
    #expect(effects.last == .result(.complete) && effects.filter { $0 == .haptic(.heavy) }.count == 1)
  }

  @Test func aRefusedStartMakesNothing() async throws {
    let folder = try TestFolder()
    let recorder = recorder(folder.path)
    try recorder.start(.init(freeSpace: 1 << 30, tracksNormally: false, sessionRuns: true), at: 100)
    film(recorder, 0.2)
    #expect(try await recorder.stop(at: 101) == nil)
    #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).isEmpty)
  }

  /// Neither of the two things that opening makes: the folder, and the encoder.
  @Test func aStartThatFailsLeavesARecorderThatCanStart() async throws {
    let folder = try TestFolder()
    nonisolated(unsafe) var effects: [RecordingMachine.Effect] = []
    nonisolated(unsafe) var hasEncoder = false
    let recorder = BundleRecorder(in: folder.path + "/new", id: "take", Self.description, testHasher, deflate: stored) { receive in
      guard hasEncoder else { throw RecordingError(path: "encoder", reason: "there is none") }
      return FakeSink(every: 5, receive)
    }
    recorder.onEffect = { effects.append($0) }
    #expect(throws: RecordingError.self) { try recorder.start(Self.good, at: 98) }
    try FileManager.default.createDirectory(atPath: folder.path + "/new", withIntermediateDirectories: false)
    let error = #expect(throws: RecordingError.self) { try recorder.start(Self.good, at: 99) }
    #expect(recorder.state == .idle && recorder.failure as? RecordingError == error && error?.path == "encoder")
    #expect(try effects.isEmpty && contents(of: folder.path).isEmpty)
    hasEncoder = true
    try recorder.start(Self.good, at: 100)
    #expect(effects == [.open, .haptic(.medium)] && recorder.failure == nil)
    film(recorder, 0.5)
    let found = try await recorder.stop(at: 100.8)
    #expect(found?.frames == 15)
  }

  @Test func aFolderInWhichNoFileCanBeMadeDoesNotStay() throws {
    let folder = try TestFolder()
    // The recording's folder has a name that the system takes, and its files do not.
    var parent = folder.path
    while parent.utf8.count < Int(PATH_MAX) - 30 {
      parent += "/" + String(repeating: "d", count: min(100, Int(PATH_MAX) - 26 - parent.utf8.count))
    }
    try FileManager.default.createDirectory(atPath: parent, withIntermediateDirectories: true)
    let recorder = recorder(parent)
    for time in [100.0, 101] {
      let error = #expect(throws: RecordingError.self) { try recorder.start(Self.good, at: time) }
      #expect(error?.reason.hasPrefix("cannot be created") == true, "\(String(describing: error))")
    }
    #expect(try FileManager.default.contentsOfDirectory(atPath: parent).isEmpty)
  }

  @Test func aBundleThatCannotBePutInPlaceIsTriedAgain() async throws {
    let folder = try TestFolder()
    let recorder = recorder(folder.path, signer: nil)
    try recorder.start(Self.good, at: 100)
    film(recorder, 0.5)
    try FileManager.default.createDirectory(atPath: folder.path + "/take", withIntermediateDirectories: true)
    await #expect(throws: RecordingError.self) { try await recorder.stop(at: 100.8) }
    #expect(FileManager.default.fileExists(atPath: folder.path + "/take.recording/journal"))
    try FileManager.default.removeItem(atPath: folder.path + "/take")
    let found = try await recorder.stop(at: 102)
    #expect(found?.frames == 15 && found?.outcome == .complete && found?.verifiedFrames == 0)
    #expect(try metadata(folder)["assertion"] as? String == "")
  }
}
