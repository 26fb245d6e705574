import Testing

@testable import Readers

/// Records of texts are found by their numbers, whatever is inside them.
struct RecordScanTests {
  /// Hands out a text in pieces of some bytes.
  private func pieces(_ text: String, of count: Int) -> (UnsafeMutableRawBufferPointer) throws -> Int {
    var rest = Array(text.utf8)[...]
    return { buffer in
      let piece = rest.prefix(min(count, buffer.count))
      buffer.copyBytes(from: piece)
      rest = rest.dropFirst(piece.count)
      return piece.count
    }
  }

  private func entry(_ number: Int, _ text: String, pieces count: Int = 3) throws -> String? {
    let found = try RecordScan.entry(number, pieces(text, of: count))
    guard let found else { return nil }
    let bytes = Array(text.utf8)[Int(found.range.lowerBound)..<Int(found.range.upperBound)]
    #expect(Array(bytes) == found.bytes)
    return String(decoding: bytes, as: UTF8.self)
  }

  @Test func findsEntriesBetweenBracketsAndQuotes() throws {
    let text = " [ {\"a\": \"],\\\"}\"} ,\n[1, [2]] , 3.5 ,{}\t]"
    #expect(try entry(0, text) == "{\"a\": \"],\\\"}\"}")
    #expect(try entry(1, text) == "[1, [2]]")
    #expect(try entry(2, text) == "3.5")
    #expect(try entry(3, text) == "{}")
    #expect(try entry(4, text) == nil)
    #expect(try entry(0, "[]") == nil)
  }

  @Test func findsTheLastCompleteEntryOfACutText() throws {
    #expect(try entry(1, "[{\"a\": 1}, {\"a\": 2}") == "{\"a\": 2}")
    #expect(try entry(1, "[{\"a\": 1}, {\"a\": ") == nil)
  }

  @Test func findsLines() throws {
    func line(_ number: Int, _ text: String) throws -> String? {
      try RecordScan.line(number, pieces(text, of: 2)).map { String(decoding: $0.bytes, as: UTF8.self) }
    }
    #expect(try line(1, "a,b\r\nc\n") == "a,b")
    #expect(try line(2, "a,b\r\nc\n") == "c")
    #expect(try line(3, "a,b\r\nc\n") == nil)
    #expect(try line(2, "a\nlast") == "last")
    #expect(try RecordScan.line(2, pieces("a,b\r\ncd\r\n", of: 4))?.range == 5..<7)
  }
}
