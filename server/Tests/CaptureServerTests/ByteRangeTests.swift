import CaptureServer
import Testing

@Suite struct ByteRangeTests {
  @Test(
    arguments: [
      ("bytes=0-0", .part(0..<1)), ("bytes=2-4", .part(2..<5)), ("bytes=2-", .part(2..<10)), ("bytes=8-99", .part(8..<10)),
      ("bytes=-3", .part(7..<10)), ("bytes=-99", .part(0..<10)), ("bytes= 1-2 ", .part(1..<3)), ("bytes=9-9", .part(9..<10)),
      ("bytes=10-", .unsatisfiable), ("bytes=10-20", .unsatisfiable), ("bytes=-0", .unsatisfiable),
      ("bytes=4-2", .whole), ("bytes=-", .whole), ("bytes=0-1,3-4", .whole), ("bytes=+1-2", .whole), ("lines=0-1", .whole), ("", .whole),
      ("bytes=0-1234567890123456789", .whole), ("bytes=0-999999999999999999", .part(0..<10)),
    ] as [(String, ByteRange.Choice)]) func choosesOfTenBytes(header: String, choice: ByteRange.Choice)
  {
    #expect(ByteRange.choose(header, of: 10) == choice)
  }

  @Test func anEmptyFileHasNoPart() {
    #expect(ByteRange.choose("bytes=0-", of: 0) == .unsatisfiable && ByteRange.choose("bytes=-1", of: 0) == .unsatisfiable)
  }
}
