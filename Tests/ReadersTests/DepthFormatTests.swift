import Media
import Model
import Testing

@testable import Readers

@Suite struct DepthFormatTests {
  #if !(os(macOS) && arch(x86_64))
    /// Every half float there is, against the hardware's.
    @Test func readsHalfFloats() {
      for bits in UInt16.min...UInt16.max {
        let (found, expected) = (HalfFloat.value(bits), Float(Float16(bitPattern: bits)))
        #expect(found == expected || found.isNaN && expected.isNaN)
      }
    }
  #endif

  private func formats(_ bytes: Int, _ declared: ImageSize?) -> [String] {
    DepthFormat.candidates(bytes: bytes, declared: declared).map(\.description)
  }

  @Test func tellsFormatsByTheirSize() {
    let usual = ImageSize(width: 256, height: 192)
    #expect(formats(196_608, usual) == ["256x192 float32"])
    #expect(formats(98_304, usual) == ["256x192 float16"])
    #expect(formats(1088 * 192, usual) == ["256x192 float32, rows padded by 64 bytes"])
    #expect(formats(576 * 192, usual) == ["256x192 float16, rows padded by 64 bytes"])
    #expect(formats(307_200, usual).first == "320x240 float32")
    #expect(formats(0, usual).isEmpty && formats(7, usual).isEmpty)
  }
}
