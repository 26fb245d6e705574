import Foundation
import Model
import Testing
import TestSupport

@testable import Datasets
@testable import Steps

@Suite struct JournalTests {
  private static let origin = TakeOrigin(
    json: [
      "variant": "v1", "device": "0123456789abcdef", "folder": "kitchen",
      "dates": [["the name", "2026-02-18"], ["metadata.json", "2026-02-18", 1_771_446_000]],
    ])

  private func entry(_ id: String, frames: Int = 3) -> Journal.Entry {
    var contents = Journal.Entry.Contents(
      id: EpisodeID(take: id), location: "/takes/\(id)", pipeline: String(repeating: "b", count: 64), toolVersion: "1", outcome: .written,
      reader: "r", stamp: "s",
      inputDigest: "d", shard: "1 2 3", framesIn: frames, framesOut: frames)
    (contents.recording, contents.seconds) = ("0123456789abcdef", 0.25)
    contents.origin = Self.origin
    return Journal.Entry(contents)
  }

  @Test func givesBackEntriesAndRecords() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/journal.jsonl"
    let record = Array(#"{"id":"a","note":",\"record\":"}"#.utf8)
    do {
      let journal = try Journal(path: path)
      try journal.append(entry("a"), record: record)
      try journal.append(entry("b"), record: Array("{}".utf8))
    }
    let journal = try Journal(path: path)
    #expect(journal.entries == ["a": entry("a"), "b": entry("b")])
    #expect(try journal.record(of: "a") == record)
  }

  @Test(arguments: ["", "/../../PWN", String(repeating: "B", count: 64)]) func aLineWithoutAPipelinesDigestIsNoLine(pipeline: String) {
    var contents = entry("a").contents
    contents.pipeline = pipeline
    #expect(Journal.decode(Journal.encode(Journal.Entry(contents), record: Array("{}".utf8)).dropLast()) == nil)
  }

  @Test(arguments: [Int.max, -1, 1 << 50]) func aLineWithImpossibleCountsIsNoLine(frames: Int) {
    let line = Journal.encode(entry("a", frames: frames), record: Array("{}".utf8))
    #expect(Journal.decode(line.dropLast()) == nil)
    #expect(Journal.decode(Journal.encode(entry("a"), record: Array("{}".utf8)).dropLast())?.entry == entry("a"))
  }

  @Test func aRecordingHasItsOwnMember() throws {
    let line = Journal.encode(entry("a"), record: Array("{}".utf8))
    let text = String(decoding: line, as: UTF8.self)
    #expect(text.contains(#""recording":"0123456789abcdef""#))
  }

  @Test func theLastLineOfATakeCountsAndCompactingKeepsOnlyThat() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/journal.jsonl"
    let journal = try Journal(path: path)
    for frames in 1...3 { try journal.append(entry("a", frames: frames), record: Array("{\"n\":\(frames)}".utf8)) }
    try journal.append(entry("b"), record: Array("{}".utf8))
    try journal.compact(removing: ["b"])
    #expect(journal.entries == ["a": entry("a", frames: 3)])
    #expect(try journal.record(of: "a") == Array("{\"n\":3}".utf8))
    #expect(try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n").count == 1)
    try journal.append(entry("c"), record: Array("{}".utf8))
    #expect(try Journal.contents(at: path).entries.keys.sorted() == ["a", "c"])
  }

  /// A crash may leave any prefix of the last line.
  @Test func forgetsALineThatWasCutOff() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/journal.jsonl"
    try Journal(path: path).append(entry("a"), record: Array("{}".utf8))
    let whole = try Data(contentsOf: URL(fileURLWithPath: path))
    try Journal(path: path).append(entry("b"), record: Array("{}".utf8))
    let both = try Data(contentsOf: URL(fileURLWithPath: path))
    for length in stride(from: whole.count, to: both.count, by: 11) {
      try both[..<length].write(to: URL(fileURLWithPath: path))
      let journal = try Journal(path: path)
      #expect(journal.entries.keys.sorted() == ["a"])
      try journal.append(entry("c"), record: Array("{}".utf8))
      #expect(try Journal.contents(at: path).entries.keys.sorted() == ["a", "c"])
    }
  }

  /// A line in which one bit is another is not believed; the others are.
  @Test func believesNoLineThatHasChanged() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/journal.jsonl"
    do {
      let journal = try Journal(path: path)
      for id in ["a", "b"] { try journal.append(entry(id), record: Array("{\"id\":\"\(id)\"}".utf8)) }
    }
    let whole = Array(try Data(contentsOf: URL(fileURLWithPath: path)))
    let end = try #require(whole.firstIndex(of: 0x0A))
    for index in 0..<end {
      for bit in 0..<8 {
        var flipped = whole
        flipped[index] ^= 1 << UInt8(bit)
        try Data(flipped).write(to: URL(fileURLWithPath: path))
        let contents = try Journal.contents(at: path)
        #expect(contents.entries.keys.sorted() == ["b"] || contents.entries.isEmpty && flipped[index] == 0x0A)
        #expect(contents.damaged > 0 || contents.unchecked > 0)
      }
    }
  }
}
