import Evidence
import Foundation
import Media
import Model
import Testing
import TestSupport

@testable import Readers
@testable import Simulate

@Suite struct DepthBlobTests {
  private let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }

  private func slice(_ bytes: [UInt8]) throws -> FileSlice {
    let path = try directory.write(UUID().uuidString, bytes)
    return FileSlice(descriptor: open(path, O_RDONLY), count: Int64(bytes.count))
  }

  private func blob(_ bytes: [UInt8], claimed: Int64?) throws -> DepthBlob {
    try DepthBlob(slice(bytes), claimed: claimed, file: "depth.gz")
  }

  private static func maps(_ count: Int, _ size: (Int, Int) = (256, 192)) -> [[UInt8]] {
    (0..<count).map { map in floats((0..<(size.0 * size.1)).map { Float($0 % 97) / 10 + Float(map) + 0.5 }) }
  }

  private static func rldp(
    _ maps: [[UInt8]], _ size: (Int, Int), version: UInt32 = 1, count: UInt32? = nil, seconds: [Double]? = nil, offsets: [UInt32]? = nil
  ) -> [UInt8] {
    var bytes = Array("RLDP".utf8)
    func append(_ number: some FixedWidthInteger) { withUnsafeBytes(of: number.littleEndian) { bytes += $0 } }
    append(version)
    append(count ?? UInt32(maps.count))
    append(UInt16(truncatingIfNeeded: size.0))
    append(UInt16(truncatingIfNeeded: size.1))
    for index in maps.indices {
      append((seconds?[index] ?? Double(index) / 10).bitPattern)
      append(offsets?[index] ?? UInt32(index * (maps.first?.count ?? 0)))
    }
    return bytes + maps.flatMap(\.self)
  }

  private static func wrap(_ raw: [UInt8], _ container: String) -> [UInt8] {
    switch container {
    case "gzip": Deflater.deflate([raw], windowBits: 31)
    case "zlib": Deflater.deflate([raw], windowBits: 15)
    case "deflate": Deflater.deflate([raw], windowBits: -15)
    default: raw
    }
  }

  /// The worked example: 31 bytes of bare deflate, and the inner bytes of the indexed form by their digest.
  @Test func inflatesTheWorkedExample() throws {
    let deflated: [UInt8] = [
      0x63, 0x60, 0x60, 0xB0, 0x67, 0x60, 0x68, 0x00, 0xE2, 0x03, 0x40, 0xCC, 0xE0, 0xC0, 0xC0, 0xA0, 0x00, 0xC4, 0x0E, 0x40, 0x0C, 0x17,
      0xAF, 0x67, 0x00, 0x03, 0x90, 0xF8, 0x02, 0x07, 0x00,
    ]
    let inflater = try Inflater(slice(deflated), .deflate)
    var raw = [UInt8](repeating: 0, count: 100)
    let count = try raw.withUnsafeMutableBytes { try inflater.read(into: $0) }
    let first = floats([0.5, 1, 1.5, 2, 2.5, 3])
    #expect(count == 48 && Array(raw[..<24]) == first && inflater.trailingBytes == 0)
    let second = Array(raw[24..<48])

    let inner = Self.rldp([first, second], (3, 2), seconds: [0, 0.1])
    #expect(Digest.of(inner).description == "3c9952d8974210b0b3367a749f5bf148d034996cf723e22e6d0ae400f50361fa")
    for container in ["gzip", "zlib", "deflate", "none"] {
      let part = Self.wrap(inner, container)
      let blob = try blob(part, claimed: 2)
      #expect(blob.container.rawValue == container && blob.layout == .rldp && blob.size == ImageSize(width: 3, height: 2))
      #expect(blob.seconds == [0, 0.1] && blob.inflatedDigest == Digest.of(inner))
      var cursor = DepthKeyframes(blob, try slice(part), file: "d").makeCursor(SampleRequest())
      var bytes: [UInt8] = []
      // NaN and 0 become 0; 5 and 2.5 stay.
      try cursor.read(1, into: &bytes)
      #expect(bytes == floats([0.5, 1, 0, 0, 2.5, 5]))
      try cursor.read(0, into: &bytes)
      #expect(bytes == first)
    }
  }

  @Test(arguments: ["gzip", "zlib", "deflate", "none"]) func readsHeaderlessMaps(container: String) throws {
    let maps = Self.maps(4)
    let blob = try blob(Self.wrap(maps.flatMap(\.self), container), claimed: 4)
    #expect(blob.container.rawValue == container && blob.layout == .headerless)
    #expect(blob.keyframes == 4 && blob.size == ImageSize(width: 256, height: 192) && blob.findings.isEmpty)
  }

  @Test(arguments: [(320, 240), (384, 288), (640, 480)]) func knowsTheSizesThatPhonesMake(size: (Int, Int)) throws {
    let blob = try blob(Self.wrap(Self.maps(2, size).flatMap(\.self), "deflate"), claimed: 2)
    #expect(blob.size == ImageSize(width: size.0, height: size.1))
  }

  @Test func assumesTheUsualSizeWhenNothingTells() throws {
    let part = Self.wrap(Self.maps(3).flatMap(\.self), "gzip")
    for claimed in [nil, 7, 0] as [Int64?] {
      let blob = try blob(part, claimed: claimed)
      #expect(blob.keyframes == 3 && blob.findings.map(\.code) == [.depthCountMismatch])
    }
  }

  @Test func readsKeyframesInAnyOrderOfOffsets() throws {
    let maps = Self.maps(3, (8, 6))
    let bytes = UInt32(maps[0].count)
    let part = Self.wrap(Self.rldp(maps, (8, 6), offsets: [2 * bytes, 0, 0]), "gzip")
    let blob = try blob(part, claimed: 3)
    var cursor = DepthKeyframes(blob, try slice(part), file: "d").makeCursor(SampleRequest())
    var read: [UInt8] = []
    for (index, map) in [(0, 2), (1, 0), (2, 0), (0, 2)] {
      try cursor.read(index, into: &read)
      #expect(read == maps[map])
    }
  }

  @Test func readsAsManyKeyframesAsTheLimit() throws {
    let limit = Int(DepthBlob.keyframeLimit)
    #expect(try blob(Self.rldp(Self.maps(limit, (2, 1)), (2, 1)), claimed: nil).keyframes == limit)
    let failure = try refusal(Self.rldp(Self.maps(limit + 1, (2, 1)), (2, 1)), claimed: nil)
    #expect(failure.code == .limit && failure.message.contains("\(limit + 1) keyframes"))
  }

  private func refusal(_ bytes: [UInt8], claimed: Int64? = 3) throws -> DepthBlob.Undecodable {
    try #require(throws: DepthBlob.Undecodable.self) { try blob(bytes, claimed: claimed) }
  }

  @Test func refusesWhatIsNoDepth() throws {
    let maps = Self.maps(3, (8, 6)), good = Self.rldp(maps, (8, 6))
    #expect(try refusal(Array("hello, this is text".utf8)).code == .depthUndecodable)
    #expect(try refusal([UInt8](repeating: 7, count: 1001)).message.contains("cannot be read"))
    #expect(try refusal(Self.wrap([UInt8](repeating: 0, count: 1000), "gzip")).message.contains("1000 bytes"))
    for container in ["gzip", "zlib", "deflate"] {
      let whole = Self.wrap(good, container)
      #expect(try refusal(Array(whole.dropLast(whole.count / 3))).code == .depthUndecodable)
    }
    let flat = Self.maps(3).flatMap(\.self)
    for other in [flat + [0], Array(flat.dropLast())] { #expect(try refusal(Self.wrap(other, "deflate")).code == .depthUndecodable) }
    #expect(try refusal(Array(good.dropLast())).code == .depthUndecodable)
    var badSum = Self.wrap(good, "gzip")
    badSum[badSum.count - 6] ^= 0xFF
    #expect(try refusal(badSum).message.contains("check"))
    #expect(try refusal(Self.rldp(maps, (8, 6), version: 2)).message.contains("version 2"))
    #expect(try refusal(Self.rldp([], (8, 6))).message.contains("0 keyframes"))
    #expect(try refusal(Self.rldp(maps, (0, 6))).message.contains("0x6"))
    #expect(try refusal(Self.rldp(maps, (65_535, 65_535))).code == .limit)
    #expect(try refusal(Self.rldp(maps, (9, 6))).message.contains("should end at byte"))
    #expect(try refusal(Self.rldp(maps, (8, 6), count: 201)).code == .limit)
    #expect(try refusal(Self.rldp(maps, (8, 6), count: .max)).code == .limit)
    #expect(try refusal(Self.rldp(maps, (8, 6), offsets: [0, 192, .max])).code == .depthUndecodable)
    for cut in [4, 10, 16, 20, 51] { #expect(try refusal(Array(good[..<cut])).message.contains("RLDP header")) }
  }

  @Test func stopsABombEarly() throws {
    let zeros = [UInt8](repeating: 0, count: 1 << 20)
    let bomb = Deflater.deflate((0..<300).lazy.map { _ in zeros }, windowBits: 31)
    #expect(bomb.count < 400_000)
    #expect(try refusal(bomb).code == .limit)
    // Behind a header that claims little, less is read.
    let headed = Deflater.deflate([Self.rldp(Self.maps(1, (8, 6)), (8, 6))] + (0..<3).map { _ in zeros }, windowBits: 31)
    #expect(try refusal(headed).code == .limit)
  }

  @Test func notesWhatFollows() throws {
    let part = Self.wrap(Self.rldp(Self.maps(2, (8, 6)), (8, 6)), "gzip")
    #expect(try blob(part + [1, 2, 3], claimed: 2).findings.map(\.code) == [.depthTrailingBytes])
    let raw = Self.rldp(Self.maps(2, (8, 6)), (8, 6))
    let members = Self.wrap(Array(raw[..<100]), "gzip") + Self.wrap(Array(raw[100...]), "gzip")
    #expect(try blob(members, claimed: 2).findings.map(\.code) == [.depthSeveralMembers])
    let unordered = Self.rldp(Self.maps(2, (8, 6)), (8, 6), seconds: [1, 0])
    #expect(try blob(unordered, claimed: 2).findings.map(\.code) == [.depthTimesUnordered])
    #expect(try blob(unordered, claimed: 2).seconds == nil)
  }
}
