import Foundation
import Testing

@testable import Evidence

@Suite struct Base64Tests {
  @Test(arguments: 0..<70) func decodesBothAlphabetsWithAndWithoutPadding(count: Int) {
    let bytes = (0..<count).map { UInt8(truncatingIfNeeded: 251 &* $0 &+ 62) }
    let standard = Data(bytes).base64EncodedString()
    let safe = standard.replacingOccurrences(of: "+", with: "-").replacingOccurrences(of: "/", with: "_")
    for text in [standard, safe, String(standard.prefix { $0 != "=" }), String(safe.prefix { $0 != "=" })] {
      #expect(Base64.decode(text)?.bytes == bytes)
    }
    #expect(Base64.decode(standard)?.isStandard == true)
  }

  @Test(arguments: ["A", "AAAAA", "A===", "AA=", "???", "AA AA", "=="]) func refusesOtherText(text: String) {
    #expect(Base64.decode(text) == nil)
  }
}
