import Evidence
import Model
import Simulate
import Testing
import TestSupport

@testable import Readers

/// Files that have been damaged at random end in findings and in errors that are meant for them. The same seeds every time; `Fuzz/` goes on
/// for longer.
@Suite struct FuzzTests {
  /// 8 parts with so many each: 10,000 in all.
  private static let cases = 1250

  @Test(arguments: FuzzedSession.Part.allCases) func damagedFilesEndInFindingsOrClearErrors(part: FuzzedSession.Part) throws {
    let session = try FuzzedSession()
    let sound = try #require(session.sound[part])
    #expect(try session.open(part, sound) == nil)
    var mutator = Mutator(seed: UInt64(sound.count))
    var failures = 0
    for number in 0..<Self.cases {
      let bytes = mutator.damaged(sound)
      do {
        if try session.open(part, bytes) != nil { failures += 1 }
      } catch {
        Issue.record("case \(number) of \(part.rawValue): \(error)")
      }
    }
    // Most damage to these is noticed; a movie and a calibration may be done without.
    if ![.movie, .calibration].contains(part) { #expect(failures > Self.cases / 10) }
  }

  /// simdjson reads poses in their plain form only; what it makes of them is what the careful reader does, down to the bits.
  ///
  /// Entries have 300 to 400 bytes, so that most windows have a few.
  @Test(arguments: ["v1", "v2", "v3-slam"], [700, 1000, 1 << 18]) func bothReadersOfPosesAgree(variant: String, window: Int) throws {
    let directory = try TemporaryDirectory()
    var session = SimulatedSession()
    session.variant = try #require(SimulatedSession.Variant(rawValue: variant))
    (session.seconds, session.size, session.depthSize) = (0.4, .init(width: 32, height: 24), .init(width: 8, height: 6))
    try session.write(to: directory.path + "/session")
    let sound = try directory.read("session/poses.json")
    func fast(_ text: [UInt8]) throws -> [PosesFile.Record]? {
      var rest = text[...]
      return try PosesFile.parseFast(
        { buffer in
          // In pieces, as files come.
          let piece = rest.prefix(min(buffer.count, 333))
          buffer.copyBytes(from: piece)
          rest = rest.dropFirst(piece.count)
          return piece.count
        }, window: window)
    }
    #expect(try fast(sound)?.count == 24)
    // A comma at the end, twice, and a bracket in the middle are no list, wherever windows end.
    for (wrong, right) in [("},\n]", "}\n]"), ("},,", "},"), ("},]", "},"), ("[},", "},")] {
      let text = String(decoding: sound, as: UTF8.self)
      for range in text.ranges(of: right) { #expect(try fast(Array(text.replacingCharacters(in: range, with: wrong).utf8)) == nil) }
    }
    // Keys that come twice, and endless numbers, are the strict parser's.
    let first = try #require(String(decoding: sound, as: UTF8.self).firstRange(of: "\"rgbIndex\""))
    for more in ["\"depth\": 1.5, \"depth\": null,", "\"rgbIndex\": 0,", "\"depth\": 1.\(String(repeating: "0", count: 450)),"] {
      let text = String(decoding: sound, as: UTF8.self).replacingCharacters(in: first, with: more + "\"rgbIndex\"")
      #expect(try fast(Array(text.utf8)) == nil)
    }
    var mutator = Mutator(seed: 7)
    var compared = 0
    for _ in 0..<1000 {
      let damaged = mutator.damaged(sound)
      guard let quick = try fast(damaged) else { continue }
      compared += 1
      var careful: [PosesFile.Record] = []
      try PosesFile.parseStrictly(JSONReader(damaged), into: &careful)
      let differing = zip(quick, careful).enumerated().first { Fields($0.element.0) != Fields($0.element.1) }?.offset
      #expect(differing == nil && quick.count == careful.count)
    }
    #expect(compared > 5)
  }

  /// An entry with NaN equal to itself.
  private struct Fields: Equatable {
    var integers: [Int64?]
    var bits: [UInt64]
    var flags: [Bool]

    init(_ record: PosesFile.Record) {
      let entry = record.entry
      integers = [entry.number, entry.timestamp.nanoseconds, entry.depthIndex]
      let pose = entry.pose.map { pose in (0..<3).map { pose.position[$0] } + (0..<4).map { pose.quaternion[$0] } } ?? []
      bits = (pose + [Double(record.depthPoint)]).map { $0.isNaN ? 1 : $0.bitPattern }
      flags = [entry.hasTime, record.isTransposed, record.hasNullDepth]
    }
  }
}
