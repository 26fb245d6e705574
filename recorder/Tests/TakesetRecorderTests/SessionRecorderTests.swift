import Foundation
import Testing

@testable import TakesetRecorder

@Suite struct SessionRecorderTests {
  private static let start = ClockPair(uptime: 81_000_000_000_000, unix: 1_771_446_000_000_000_000)
  private static let identity: [Float] = [1, 0, 0, 0.5, 0, 1, 0, -0.25, 0, 0, 1, 2, 0, 0, 0, 1]

  private func description(depth: Bool = true) -> SessionDescription {
    var description = SessionDescription(deviceModel: "iPhone16,1", systemVersion: "18.3", width: 8, height: 6, start: Self.start)
    if depth { (description.depthWidth, description.depthHeight) = (2, 1) }
    return description
  }

  private func json(_ path: String) throws -> Any {
    try JSONSerialization.jsonObject(with: Data(contentsOf: URL(fileURLWithPath: path)))
  }

  @Test func aListIsValidAfterEveryWrite() throws {
    let folder = try TestFolder()
    let list = try JSONListFile(creating: folder.path + "/list.json")
    for count in 0..<50 {
      #expect((try json(list.path) as? [[String: Int]])?.map { $0["n"] } == Array(0..<count))
      try list.append("  {\n    \"n\" : \(count)\n  }")
    }
  }

  @Test func everyFrameIsThereAtOnce() throws {
    let folder = try TestFolder()
    let recorder = try SessionRecorder(folder.path + "/session", description())
    let depth: [Float] = [1.5, 2]
    for number in 0..<90 {
      // 60 Hz.
      let time = Self.start.uptime + Int64(number) * 16_666_667
      try depth.withUnsafeBytes { try recorder.record(.init(time: time, image: [1, UInt8(number)], pose: Self.identity, depth: $0)) }
      let poses = try #require(try json(folder.path + "/session/poses.json") as? [[String: Any]])
      #expect(poses.count == number + 1 && poses[number]["rgbIndex"] as? Int == number)
      #expect((poses[number]["transform"] as? [[Double]])?[0] == [1, 0, 0, 0.5])
    }
    // A frame of an earlier time is none.
    try recorder.record(.init(time: Self.start.uptime, image: [0], pose: Self.identity))
    try recorder.add(.init(time: Self.start.uptime + 5, sent: 12, angles: [1, 2, 3, 4]))
    try recorder.add(.init(time: Self.start.uptime + 7, acceleration: [0.1, 0, 0], rotation: [0, 0.2, 0]))
    recorder.drop(.encoder)
    recorder.drop(.encoder)
    try recorder.finish(at: Self.start.uptime + 2_000_000_000)
    let metadata = try #require(try json(folder.path + "/session/metadata.json") as? [String: Any])
    #expect(metadata["rgbFrameCount"] as? Int == 90 && metadata["poseCount"] as? Int == 90 && metadata["dropped_encoder"] as? Int == 2)
    #expect(metadata["startTime"] as? String == "2026-02-18T20:20:00Z" && metadata["endTime"] as? String == "2026-02-18T20:20:02Z")
    let maps = try FileManager.default.contentsOfDirectory(atPath: folder.path + "/session/depth").count
    #expect(maps == metadata["depthFrameCount"] as? Int && maps > 40 && maps < 46)
    let encoders = try String(contentsOfFile: folder.path + "/session/encoders.json", encoding: .utf8)
    #expect(encoders.contains("\"timestamp\" : 1771446000.000000005"))
    #expect((try json(folder.path + "/session/imu.json") as? [Any])?.count == 1)
  }

  @Test func whatCannotBeRecordedLeavesNothing() throws {
    let folder = try TestFolder()
    let recorder = try SessionRecorder(folder.path + "/session", description())
    let wrong: [Float] = [1]
    var pose = Self.identity
    pose[3] = .nan
    #expect(throws: RecordingError.self) {
      try wrong.withUnsafeBytes { try recorder.record(.init(time: Self.start.uptime, image: [1], pose: Self.identity, depth: $0)) }
    }
    #expect(throws: RecordingError.self) { try recorder.record(.init(time: Self.start.uptime, image: [1], pose: pose)) }
    #expect(throws: RecordingError.self) { try recorder.add(.init(time: 0, sent: 0, angles: [1])) }
    #expect(try contents(of: folder.path).keys.sorted() == ["session/metadata.json", "session/poses.json"])
    #expect(throws: RecordingError.self) { _ = try SessionRecorder(folder.path + "/session", description()) }
  }

  @Test func timesWhoseDifferenceIsNoNumberAreRefused() throws {
    let folder = try TestFolder()
    let recorder = try SessionRecorder(folder.path + "/session", description())
    for time in [Int64.min, .max] {
      #expect(throws: RecordingError.self) { try recorder.record(.init(time: time, image: [1], pose: Self.identity)) }
    }
    for time in [Int64.min / 2, Int64.max / 2] { try recorder.record(.init(time: time, image: [1], pose: Self.identity)) }
    try recorder.finish(at: .max / 2)
    #expect(recorder.frames == 2)
  }

  /// A signal may come before any byte of a write, or after some.
  @Test func aWriteThatASignalInterruptsIsRepeated() {
    var answers = [-1, 2, -1, 3]
    var (file, places) = ([UInt8](), [off_t]())
    let bytes = [UInt8](1...5)
    let failure = bytes.withUnsafeBytes { bytes in
      Files.writeAll(bytes, at: 7) { rest, place in
        let count = answers.removeFirst()
        if count < 0 { errno = EINTR } else { file += rest.prefix(count) }
        places.append(place)
        return count
      }
    }
    #expect(failure == nil && file == bytes && places == [7, 7, 9, 9])
    #expect(bytes.withUnsafeBytes { Files.writeAll($0, at: 0) { _, _ in 0 } } == ENOSPC)
  }

  @Test func bytesInPlaceOfTheEndAreWrittenWhereItBegins() throws {
    let folder = try TestFolder()
    let file = try AppendedFile(creating: folder.path + "/file")
    try file.append(Array("one]".utf8))
    try file.append(Array(",two]".utf8), over: Array("]".utf8))
    try file.append(Array("!".utf8))
    #expect(file.count == 9 && FileManager.default.contents(atPath: file.path) == Data("one,two]!".utf8))
  }

  @Test func aMomentIsOnBothClocks() {
    let pair = ClockPair.now()
    let later = ClockPair.now()
    #expect(abs((later.unix - later.uptime) - (pair.unix - pair.uptime)) < 1_000_000)
    #expect(pair.uptime(of: pair.unix(of: 17)) == 17 && pair.unix(of: pair.uptime + 5) == pair.unix + 5)
    #expect(
      [0, 5, -5, 1_500_000_000, -1_500_000_000].map(SessionRecorder.seconds) == [
        "0.000000000", "0.000000005", "-0.000000005", "1.500000000", "-1.500000000",
      ])
  }
}
