import Foundation
import Model
import Simulate
import Testing

@testable import Evidence

@Suite struct HashChainTests {
  private func hash(_ number: Int) -> String { Data(Digest.of("frame \(number)").bytes).base64EncodedString() }

  /// A chain of `count` hashes with the app's checkpoints, as JSON, after changes.
  private func chain(_ count: Int, _ change: (inout [String: JSONValue]) -> Void = { _ in }) -> [UInt8] {
    let points: [JSONValue] = stride(from: 150, through: count, by: 150).prefix(3).enumerated().map { index, frame in
      [
        "index": JSONValue(index), "frame_number": JSONValue(frame), "hash": .string(hash(frame)),
        "timestamp": .number(Double(frame - 1) / 30),
      ]
    }
    var members: [String: JSONValue] = [
      "frame_hashes": .array((1...count).map { .string(hash($0)) }), "final_hash": .string(hash(count)), "checkpoints": .array(points),
      "frame_count": JSONValue(count), "checkpoint_count": JSONValue(points.count),
    ]
    change(&members)
    return JSONValue.object(members).canonicalBytes
  }

  @Test func readsASoundChain() throws {
    var read = try HashChain(chain(450), file: "hash_chain.json")
    #expect(read.hashes.count == 450 && read.checkpoints.map(\.frameNumber) == [150, 300, 450])
    #expect(abs(read.checkpoints[0].seconds - 4.966666666666667) < 1e-12)
    try read.check(against: (hash(450), 450), file: "hash_chain.json")
    #expect(read.findings.isEmpty)
  }

  @Test func unescapesSlashes() throws {
    let text = String(decoding: chain(151), as: UTF8.self).replacing("/", with: "\\/")
    #expect(try HashChain(Array(text.utf8), file: "f").hashes == HashChain(chain(151), file: "f").hashes)
  }

  @Test(arguments: ["frame_hashes", "final_hash", "checkpoints"]) func namesWhatIsMissing(key: String) {
    let error = #expect(throws: HashChain.Broken.self) { try HashChain(chain(10) { $0[key] = nil }, file: "f") }
    #expect(error?.reason.hasPrefix(key) == true)
  }

  @Test func refusesEveryBrokenRule() {
    func reason(_ count: Int = 160, _ change: (inout [String: JSONValue]) -> Void) -> String {
      #expect(throws: HashChain.Broken.self) { try HashChain(chain(count, change), file: "f") }?.reason ?? ""
    }
    #expect(reason { $0["frame_hashes"] = [] }.contains("empty"))
    #expect(reason { $0["final_hash"] = .string(hash(3)) }.contains("not the last"))
    for count in [0, 16, 31, 33] {
      let text = Data([UInt8](repeating: 1, count: count)).base64EncodedString()
      #expect(reason { $0["frame_hashes"] = [.string(text)] }.contains("frame_hashes[0]"))
    }
    for text in [String(repeating: "ab", count: 31), String(repeating: "?", count: 44)] {
      #expect(reason { $0["frame_hashes"] = [.string(text)] }.contains("frame_hashes[0]"))
    }
    #expect(reason { $0["frame_hashes"] = "AAAA" }.contains("expected a list"))
    #expect(reason { $0["frame_hashes"] = [5] }.contains("something else"))
    #expect(reason(1025) { _ in }.contains("1025"))
    #expect((try? HashChain(chain(1024), file: "f"))?.hashes.count == 1024)
    let other: JSONValue = [["index": 0, "frame_number": 150, "hash": .string(hash(9999)), "timestamp": .number(4.9)]]
    #expect(reason { $0["checkpoints"] = other }.contains("checkpoints[0].hash"))
    let beyond: JSONValue = [["index": 1, "frame_number": 300, "hash": .string(hash(300)), "timestamp": .number(9.9)]]
    #expect(reason { $0["checkpoints"] = beyond }.contains("frame 300"))
    #expect(reason { $0["checkpoints"] = [["index": 0]] }.contains("checkpoints[0]"))
    let short: JSONValue = [["index": 0, "frame_number": 150, "hash": "AAAA", "timestamp": .number(4.9)]]
    #expect(reason { $0["checkpoints"] = short }.contains("checkpoints[0].hash"))
    #expect(throws: HashChain.Broken.self) { try HashChain(Array("{".utf8), file: "f") }
    #expect(throws: HashChain.Broken.self) { try HashChain(Array("[]".utf8), file: "f") }
    #expect(throws: HashChain.Broken.self) { try HashChain([0xFF, 0xFE, 0], file: "f") }
    #expect(throws: HashChain.Broken.self) { try HashChain(chain(451), file: "f", frameLimit: 450) }
  }

  @Test func notesWhatCanBeLivedWith() throws {
    func codes(_ change: (inout [String: JSONValue]) -> Void) throws -> [String] {
      try HashChain(chain(160, change), file: "f").findings.map(\.code.rawValue)
    }
    let moved: JSONValue = [["index": 0, "frame_number": 150, "hash": .string(hash(149)), "timestamp": .number(4.9)]]
    #expect(try codes { $0["checkpoints"] = moved } == ["chain-reordered"])
    let early: JSONValue = [["index": 0, "frame_number": 120, "hash": .string(hash(120)), "timestamp": .number(3.9)]]
    #expect(try codes { $0["checkpoints"] = early } == ["checkpoint-spacing"])
    #expect(try codes { $0["frame_count"] = 7 } == ["chain-count-mismatch"])
    #expect(try codes { $0["checkpoint_count"] = 7 } == ["chain-count-mismatch"])
    #expect(try codes { ($0["frame_count"], $0["checkpoint_count"], $0["version"]) = (nil, nil, 2) } == [])
    let hex: JSONValue = .string(Digest.of("frame 160").description)
    #expect(try codes { $0["final_hash"] = hex } == ["hash-encoding"])
  }

  @Test(arguments: [(160, true), (165, true), (166, false), (159, false)]) func comparesCounts(frames: Int64, isSound: Bool) throws {
    var read = try HashChain(chain(160), file: "f")
    if isSound {
      try read.check(against: (nil, frames), file: "f")
      #expect(read.findings.map(\.code) == (frames == 160 ? [] : [.chainShort]))
    } else {
      #expect(throws: HashChain.Broken.self) { try read.check(against: (nil, frames), file: "f") }
    }
  }

  @Test func comparesTheLastHashAsBytes() throws {
    var read = try HashChain(chain(5), file: "f")
    let hex = Digest.of("frame 5").description, safe = hash(5).replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    for text in [hex, hex.uppercased(), safe] { try read.check(against: (text, 5), file: "f") }
    #expect(throws: HashChain.Broken.self) { try read.check(against: (hash(4), 5), file: "f") }
    #expect(throws: HashChain.Broken.self) { try read.check(against: ("", 5), file: "f") }
  }
}
