import Evidence
import Foundation
import Model
import Testing
import TestSupport

@testable import Datasets
@testable import Steps

/// Manifests read a window at a time: whatever their layout, entries wherever they begin and end, and damage at any place.
@Suite struct ManifestFileTests {
  private let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  /// A record as text, the way an independent program would write it.
  private func take(_ id: String, _ other: String = "") -> String {
    """
    {"alignment":[],"findings":[],"id":"\(id)","input_sha256":null,"inputs":[],"outcome":"failed",\(other)"output":null,\
    "reader":"marked","reason":"because","steps":[],"streams":[],"variant":null}
    """
  }

  private static let digest = String(repeating: "b", count: 64)

  private func record(_ takes: [String], filler: String = "", pipeline: String = digest) -> String {
    let index = #"{"bytes":1,"path":"dataset.h5","sha256":"\#(String(repeating: "0", count: 64))"}"#
    let head =
      #""findings":[],"index":\#(index),"manifest_version":2,"pipeline":{"filler":["\#(filler)"]},"#
      + #""pipeline_sha256":"\#(pipeline)","#
    let splits = #""splits":{"rule":"none","seed":null,"test":[],"train":["a"],"valid":[]},"statistics":{},"#
    return "{" + head + splits + "\"takes\":[\n" + takes.joined(separator: ",\n") + "\n],\"tool\":{\"version\":\"1\"},\"totals\":{}}"
  }

  /// A manifest with the digests of its record and run.
  private func manifest(_ takes: [String], filler: String = "") -> String {
    let record = record(takes, filler: filler)
    let run = #"{"index":"stamp","takes":{"a":{"location":"/in/a","seconds":1},"b":{"location":"/in/b","seconds":2}}}"#
    let digests = [record, run].map { Digest.of($0.replacing("\n", with: "")) }
    return "{\n\"record\":\n\(record),\n\"record_sha256\":\"\(digests[0])\",\n\"run\":\(run),\n\"run_sha256\":\"\(digests[1])\"\n}\n"
  }

  private func read(_ text: some Sequence<UInt8>) throws -> ManifestFile {
    try directory.write("manifest.json", text)
    return try ManifestFile(directory.path)
  }

  private func read(_ text: String) throws -> ManifestFile { try read(Array(text.utf8)) }

  @Test func readsTakesOneByOne() throws {
    let file = try read(manifest([take("a"), take("t.3", #""part":3,"take":"t","#)]))
    #expect(file.takes.map(\.id) == ["a", "t.3"])
    #expect(file.takes.map(\.id.take) == ["a", "t"])
    #expect(file.takes.map(\.id.part) == [nil, 3])
    #expect(try file.record(of: file.takes[1]).reason == "because")
    #expect(try file.damage() == [])
    #expect(try file.locations() == ["a": "/in/a", "b": "/in/b"])
    #expect(try file.locations { $0 == "b" } == ["b": "/in/b"])
    #expect(file.record?.splits["train"] == ["a"])
    #expect(try ManifestFile.indexStamp(in: directory.path) == "stamp")
  }

  @Test(arguments: ["", "/../../PWN", String(repeating: "B", count: 64)]) func aPipelinesDigestIsOne(pipeline: String) throws {
    let text = manifest([take("a")])
    #expect(try read(text).record?.pipelineDigest == Self.digest)
    let file = try? read(text.replacing(Self.digest, with: pipeline))
    #expect(file?.record == nil)
  }

  @Test func everyChangeIsNoticedWithoutParsing() throws {
    let text = Array(manifest([take("a"), take("b")]).utf8)
    func isAsWritten(_ bytes: [UInt8]) throws -> Bool {
      try directory.write("manifest.json", bytes)
      return try ManifestFile.isAsWritten(in: directory.path)
    }
    #expect(try isAsWritten(text))
    for index in text.indices {
      var changed = text
      changed[index] ^= 1
      // Line ends within the record are not part of it; a change makes them so.
      #expect(try !isAsWritten(changed), "byte \(index)")
      #expect(try !isAsWritten(Array(text.prefix(index))), "\(index) bytes")
    }
    #expect(try !isAsWritten(text + [0x0A]) && !isAsWritten(text + text))
  }

  @Test func readsNoTakesAtAll() throws {
    let file = try read(manifest([]))
    #expect(file.record != nil)
    #expect(file.takes.isEmpty)
    #expect(try file.damage() == [])
  }

  @Test(arguments: Array(stride(from: 0, to: 500, by: 23))) func findsEntriesWhereverTheWindowEnds(shift: Int) throws {
    // The window has 262,144 bytes and is moved on when 65,536 of them are left.
    let lines = [String](repeating: String(repeating: "x", count: 49_000), count: 4)
    let filler = lines.joined(separator: "\",\"") + String(repeating: "y", count: shift)
    let ids = (0..<400).map { "take-\($0)" }
    let file = try read(manifest(ids.map { take($0) }, filler: filler))
    #expect(file.takes.map(\.id.text) == ids)
    for entry in [file.takes[0], file.takes[150], file.takes[399]] { #expect(try file.record(of: entry).id == entry.id) }
    #expect(try file.damage() == [])
  }

  @Test func findsTheStampAtTheEdgeOfABlock() throws {
    // The end of the file is searched in blocks of 1 MiB.
    for more in 0..<12 {
      let text = manifest([take("a")])
      let run = try #require(text.range(of: "\n\"run\":"))
      let rest = text[run.lowerBound...].utf8.count
      try directory.write("manifest.json", Array(text.utf8) + [UInt8](repeating: 0x20, count: (1 << 20) - rest + more))
      #expect(try ManifestFile.indexStamp(in: directory.path) == "stamp", "\(more)")
    }
  }

  @Test func sayWhereAFileIsCutOff() throws {
    let text = Array(manifest([take("a"), take("é\\u00e9\\\"")]).utf8)
    // The newline at the end may be missing, and the brace before it may not.
    for count in 0..<(text.count - 1) {
      let error = #expect(throws: JSONError.self, "cut after \(count) bytes") { try read(text.prefix(count)) }
      #expect(error?.isTruncation == true, "cut after \(count) bytes: \(String(describing: error))")
    }
    #expect(try read(text.dropLast()).damage() == [])
  }

  @Test func noticesEveryFlippedByteOfTheRecord() throws {
    let text = Array(manifest([take("a")]).utf8)
    let values = Array(text.indices).filter { text[$0] != 0x0A }
    for index in stride(from: 0, to: values.count, by: 3).map({ values[$0] }) {
      var flipped = text
      flipped[index] ^= 0x04
      let isNoticed = try (try? read(flipped)).map { try !$0.damage().isEmpty } ?? true
      #expect(isNoticed, "byte \(index)")
    }
  }

  @Test func readsAnyLayoutAndSaysThatItIsNotTheOwn() throws {
    let own = try JSONSerialization.jsonObject(with: Data(manifest([take("a"), take("b")]).utf8))
    let printed = try JSONSerialization.data(withJSONObject: own, options: [.prettyPrinted])
    let file = try read(Array(printed))
    #expect(file.takes.map(\.id) == ["a", "b"])
    #expect(try file.record(of: file.takes[0]).id == "a")
    #expect(try file.locations()["b"] == "/in/b")
    #expect(try !file.damage().isEmpty)
  }

  @Test(arguments: [
    "1", "null", "[]", "{}", #"{"id":"a"}"#, #"{"id":1,"outcome":"written"}"#, #"{"id":"a","outcome":"else"}"#,
    #"{"id":"a","outcome":"failed","output":[]}"#, #"{"id":"a","outcome":"failed","output":{"path":"p","bytes":1.5,"samples":1}}"#,
    #"{"id":"a","id":"a","outcome":"failed"}"#,
  ]) func saysThatAnEntryCannotBeUnderstood(entry: String) throws {
    let file = try read(manifest([take("b"), entry]))
    #expect(file.record == nil)
    #expect(file.takes.isEmpty)
    #expect(try file.damage() == ["its record cannot be understood"])
  }

  @Test(arguments: [#"{"a":1"#, #"["a"]"#, "null", "", "\u{0}"]) func refusesWhatIsNoJSONObject(text: String) {
    #expect(throws: JSONError.self) { try read(text) }
  }

  @Test func aFileThatIsCutWhileItIsReadIsNoRecord() throws {
    let file = try read(manifest([take("a"), take("b")]))
    let handle = try FileHandle(forWritingTo: URL(fileURLWithPath: directory.path + "/manifest.json"))
    try handle.truncate(atOffset: 100)
    try handle.close()
    #expect(throws: TakeFailure.self) { try file.record(of: file.takes[1]) }
    #expect(throws: TakeFailure.self) { try file.damage() }
  }

  @Test func anotherManifestInItsPlaceDoesNotMatter() throws {
    let file = try read(manifest([take("a"), take("b")]))
    try FileManager.default.removeItem(atPath: directory.path + "/manifest.json")
    try directory.write("manifest.json", Array("{}".utf8))
    #expect(try file.record(of: file.takes[1]).id == "b")
  }
}

@Suite struct TakeRecordReadingTests {
  private var whole: TakeRecord {
    get throws {
      let digest = Digest.of("x")
      var record = TakeRecord(
        id: EpisodeID(take: "a", part: 0), reader: "marked", outcome: .written, reason: "é \"quoted\" \\ é",
        findings: [Finding(.shortEpisode, "short", severity: .warning, file: "f", field: "[1]", count: 3)])
      (record.variant, record.inputDigest) = ("v", digest)
      record.inputs = [TakeRecord.Input(path: "rgb/0.jpg", bytes: 1 << 40, digest: digest, role: .image)]
      record.streams = [
        TakeRecord.StreamRecord(name: .pose, samples: 3, rateHz: 59.94, clock: .deviceUptime),
        TakeRecord.StreamRecord(name: .image, samples: 3, rateHz: nil, clock: .mediaTime),
      ]
      record.alignment = [
        TakeRecord.Alignment(stream: .pose, method: "nearest", offset: "-9223372036854775808", residual: -5, latency: "12")
      ]
      record.steps = [
        TakeRecord.Step(
          name: "align", options: ["tolerance": .number(0.05), "latency": [:]], framesIn: 3, framesOut: 2,
          dropped: [TakeRecord.Step.Dropped(reason: "gap", count: 1)], repeated: 1, skippedTicks: 2)
      ]
      (record.details, record.verification) = (["k": [1, .number(2.5), nil, true]], ["levels": ["a"]])
      var array = ArrayRecord(
        path: "/data/demo_0/obs/pose", dtype: "<f4", shape: [2, 7], chunk: [1, 7], filters: ["shuffle", "deflate 4"])
      (array.digest, array.digestOf) = (digest, .rows)
      record.output = OutputRecord(
        path: "episodes/a.0.h5", bytes: 9, samples: 2, arrays: [array], structureDigest: digest, attributesDigest: digest)
      return record
    }
  }

  @Test func readsWhatItWrites() throws {
    let record = try whole
    #expect(try TakeRecord(json: record.canonicalBytes) == record)
    #expect(try JSONDecoder().decode(TakeRecord.self, from: JSONEncoder().encode(record)) == record)
  }

  /// What each member may be, of these; `nil` where it is missing. Nothing but what contradicts the type, or `take` and `part` the id.
  @Test func acceptsOfEachMemberWhatItCanBe() throws {
    let values: [String: JSONValue?] = [
      "missing": nil, "null": .null, "number": 7, "text": "text", "object": [:], "list": [],
    ]
    let optionalText: Set = ["missing", "null", "text"]
    let accepted: [String: Set<String>] = [
      "id": [], "take": [], "part": [], "outcome": [], "reader": optionalText, "variant": optionalText, "reason": optionalText,
      "findings": ["list"], "inputs": ["list"], "streams": ["list"], "alignment": ["list"], "steps": ["list"],
      "input_sha256": ["missing", "null"], "output": ["missing", "null"], "details": ["missing", "null", "object"],
      "verification": Set(values.keys),
    ]
    let members = try #require(try JSONReader(whole.canonicalBytes).value().object)
    #expect(Set(members.keys) == Set(accepted.keys))
    for key in members.keys {
      let found = values.filter { _, value in
        var changed = members
        changed[key] = value
        return (try? TakeRecord(json: JSONValue.object(changed).canonicalBytes)) != nil
      }
      #expect(Set(found.keys) == accepted[key], "\(key)")
    }
  }

  @Test func refusesAKeyThatIsThereTwice() {
    #expect(throws: (any Error).self) { try TakeRecord(json: Array(#"{"id":"a","reader":null,"id":"b"}"#.utf8)) }
  }
}
