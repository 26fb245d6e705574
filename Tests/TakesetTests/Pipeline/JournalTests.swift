import Model
import Foundation
import TestSupport
import Testing

@testable import Takeset

@Suite struct JournalTests {
  private func head(_ id: String, frames: Int = 3) -> Journal.Head {
    Journal.Head(
      id: id, location: "/takes/\(id)", pipeline: "p", toolVersion: "1", outcome: .written, reader: "r", stamp: "s",
      inputDigest: "d", shard: "1 2 3", framesIn: frames, framesOut: frames, splitGroup: "day", seconds: 0.25)
  }

  @Test func givesBackHeadsAndRecords() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/journal.jsonl"
    let record = Array(#"{"id":"a","note":",\"record\":"}"#.utf8)
    do {
      let journal = try Journal(path: path)
      try journal.append(head("a"), record: record)
      try journal.append(head("b"), record: Array("{}".utf8))
    }
    let journal = try Journal(path: path)
    #expect(journal.heads == ["a": head("a"), "b": head("b")])
    #expect(try journal.record(of: "a") == record)
  }

  @Test func theLastLineOfATakeCountsAndCompactingKeepsOnlyThat() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/journal.jsonl"
    let journal = try Journal(path: path)
    for frames in 1...3 { try journal.append(head("a", frames: frames), record: Array("{\"n\":\(frames)}".utf8)) }
    try journal.append(head("b"), record: Array("{}".utf8))
    try journal.compact(removing: ["b"])
    #expect(journal.heads == ["a": head("a", frames: 3)])
    #expect(try journal.record(of: "a") == Array("{\"n\":3}".utf8))
    #expect(try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n").count == 1)
    try journal.append(head("c"), record: Array("{}".utf8))
    #expect(try Journal.heads(at: path).keys.sorted() == ["a", "c"])
  }

  /// A crash may leave any prefix of the last line.
  @Test func forgetsALineThatWasCutOff() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/journal.jsonl"
    try Journal(path: path).append(head("a"), record: Array("{}".utf8))
    let whole = try Data(contentsOf: URL(fileURLWithPath: path))
    try Journal(path: path).append(head("b"), record: Array("{}".utf8))
    let both = try Data(contentsOf: URL(fileURLWithPath: path))
    for length in stride(from: whole.count, to: both.count, by: 11) {
      try both[..<length].write(to: URL(fileURLWithPath: path))
      let journal = try Journal(path: path)
      #expect(journal.heads.keys.sorted() == ["a"])
      try journal.append(head("c"), record: Array("{}".utf8))
      #expect(try Journal.heads(at: path).keys.sorted() == ["a", "c"])
    }
  }
}
