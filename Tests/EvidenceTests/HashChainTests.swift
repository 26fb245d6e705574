import Foundation
import Model
import Simulate
import Testing

@testable import Evidence

@Suite struct HashChainTests {
  private static func hex(_ text: String) -> [UInt8] {
    stride(from: 0, to: text.count, by: 2).map { start in
      let low = text.index(text.startIndex, offsetBy: start)
      return UInt8(text[low..<text.index(low, offsetBy: 2)], radix: 16) ?? 0
    }
  }

  /// The worked vector: three frames of 16 bytes of image, depth on the first and third, times of 0, 1/30 and 2/30 s.
  @Test func hashesAsTheAppDoes() {
    let depth = floats([0.5, 1, 1.5, 2, 2.5, 3])
    func frame(_ start: UInt8, _ depth: [UInt8], _ seconds: Double, _ previous: [UInt8]) -> [UInt8] {
      let time = withUnsafeBytes(of: seconds.bitPattern.littleEndian) { Array($0) }
      return Digest.of((start..<(start + 16)) + depth + time + previous).bytes
    }
    let first = frame(0x00, depth, 0, [])
    let second = frame(0x10, [], 1 / 30.0, first)
    let third = frame(0x20, depth, 2 / 30.0, second)
    #expect(first == Self.hex("414de6306096e3cfe432ef83132793ad7c4bb476a5734358bf2f4aad2a64078c"))
    #expect(second == Self.hex("279f83061c2d7b1f999b0b85dbf94fdee9dc7079fd6dd037d1c4f326687f5a9a"))
    #expect(third == Self.hex("0c99536dad281ed224d5d852178099388b757c97f46c2d88de898296adfabf65"))
    #expect(Base64.digest("DJlTba0oHtIk1dhSF4CZOIt1fJf0bC2I3omClq36v2U=")?.bytes == third)
    #expect(Digest.of(third).description == "283577eda3f497f46eb86db4ba20b161150543d6781d41bd6780efdbf6c84bfd")
  }

  private func floats(_ numbers: [Float]) -> [UInt8] { numbers.withUnsafeBytes { Array($0) } }

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
    #expect(reason { $0["frame_hashes"] = ["AAAA"] }.contains("frame_hashes[0]"))
    #expect(reason { $0["frame_hashes"] = [5] }.contains("something else"))
    #expect(reason(1025) { _ in }.contains("1025"))
    let other: JSONValue = [["index": 0, "frame_number": 150, "hash": .string(hash(9999)), "timestamp": .number(4.9)]]
    #expect(reason { $0["checkpoints"] = other }.contains("checkpoints[0].hash"))
    let beyond: JSONValue = [["index": 1, "frame_number": 300, "hash": .string(hash(300)), "timestamp": .number(9.9)]]
    #expect(reason { $0["checkpoints"] = beyond }.contains("frame 300"))
    #expect(reason { $0["checkpoints"] = [["index": 0]] }.contains("checkpoints[0]"))
    #expect(throws: HashChain.Broken.self) { try HashChain(Array("{".utf8), file: "f") }
    #expect(throws: HashChain.Broken.self) { try HashChain(Array("[]".utf8), file: "f") }
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
    try read.check(against: (Digest.of("frame 5").description, 5), file: "f")
    #expect(throws: HashChain.Broken.self) { try read.check(against: (hash(4), 5), file: "f") }
    #expect(throws: HashChain.Broken.self) { try read.check(against: ("", 5), file: "f") }
  }
}
