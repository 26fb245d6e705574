import Evidence
import Testing

/// Examples of RFC 8949, appendix A, and bytes that no phone sends.
@Suite struct CBORTests {
  @Test(arguments: [
    ([0x00] as [UInt8], CBOR.unsigned(0)), ([0x18, 0x64], .unsigned(100)),
    ([0x1B, 0, 0, 0, 0xE8, 0xD4, 0xA5, 0x10, 0], .unsigned(1_000_000_000_000)),
    ([0x39, 0x03, 0xE7], .negative(999)), ([0x44, 1, 2, 3, 4], .bytes([1, 2, 3, 4])), ([0x64, 0x49, 0x45, 0x54, 0x46], .text("IETF")),
    ([0x83, 1, 2, 3], .array([.unsigned(1), .unsigned(2), .unsigned(3)])), ([0xF6], .other), ([0xC1, 0x01], .unsigned(1)),
  ])
  func valuesAreRead(bytes: [UInt8], value: CBOR) throws {
    #expect(try CBOR(bytes) == value)
  }

  @Test func membersAreFoundByTextAndNumber() throws {
    let map = try CBOR([0xA3, 0x61, 0x61, 0x01, 0x21, 0x42, 7, 8, 0x03, 0x26])
    #expect(map["a"]?.integer == 1 && map[-2]?.byteString == [7, 8] && map[3]?.integer == -7 && map["b"] == nil && map[-1] == nil)
  }

  @Test(arguments: [
    [] as [UInt8], [0x44, 1, 2], [0x5F, 0x41, 1, 0xFF], [0x01, 0x02], [0x9B, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF], [0x98, 65],
    [0x62, 0xFF, 0xFE],
    [UInt8](repeating: 0x81, count: 20), [0x5B, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF],
  ])
  func damageIsAnError(bytes: [UInt8]) {
    #expect(throws: CBOR.Malformed.self) { try CBOR(bytes) }
  }

  @Test func anythingMayFollowAStart() throws {
    #expect(try CBOR(startOf: [0x01, 0x02]) == .unsigned(1))
  }
}
