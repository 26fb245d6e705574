import Foundation
import Model
import Simulate
import Testing

@testable import Evidence

@Suite struct JSONReaderTests {
  private func parse(_ text: String) throws -> JSONValue {
    let reader = JSONReader(Array(text.utf8))
    let value = try reader.value()
    try reader.expectEnd()
    return value
  }

  @Test func skipsAByteOrderMarkAndNamesOtherEncodings() throws {
    let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
    #expect(try JSONReader(mark + Array("{\"a\": 1}".utf8)).document() == ["a": 1])
    #expect(throws: JSONError(message: "expected a colon after the key \"a\", found a number", line: 1, column: 6)) {
      try JSONReader(mark + Array("{\"a\" 1}".utf8)).document()
    }
    for start in [[0xFF, 0xFE, 0x7B, 0], [0xFE, 0xFF, 0, 0x7B], [0x7B, 0, 0x7D, 0]] as [[UInt8]] {
      #expect(throws: JSONError(message: "the text is UTF-16 or UTF-32; expected UTF-8", line: 1, column: 1)) {
        try JSONReader(start).document()
      }
    }
    #expect(throws: JSONError.self) { try JSONReader(Array(" \u{FEFF}{}".utf8)).document() }
  }

  @Test func readsEveryKindOfValue() throws {
    let value = try parse(#" {"a" : [1, -2.5e3, true, false, null, "x\n\u00e9\ud83d\ude00"], "b": {}} "#)
    #expect(value == ["a": [1, .number(-2500), true, false, nil, "x\né😀"], "b": [:]])
  }

  @Test func readsNaNAsPythonWritesIt() throws {
    let reader = JSONReader(Array("[NaN, -Infinity, 3]".utf8))
    var isFirst = true
    try reader.beginArray()
    var numbers: [Double] = []
    while try reader.nextElement(isFirst: &isFirst) { numbers.append(try reader.number()) }
    #expect(numbers[0].isNaN)
    #expect(numbers[1] == -.infinity)
    #expect(numbers[2] == 3)
  }

  @Test(arguments: [
    ("[1, 2", true, 1, 6), ("{\"a\": ", true, 1, 7), ("[1,\n 2,\n x]", false, 3, 2), ("[1, 2,]", false, 1, 7), ("[01]", false, 1, 2),
    ("[1 2]", false, 1, 4), ("{\"a\":1,\"a\":2}", false, 1, 12), ("[1] x", false, 1, 5), ("", true, 1, 1), ("[\"abc", true, 1, 6),
    ("[1.]", false, 1, 2), ("[tru", true, 1, 5), ("[-", true, 1, 3),
  ]) func saysWhereATextGoesWrong(text: String, isTruncation: Bool, line: Int, column: Int) {
    let error = #expect(throws: JSONError.self) { try parse(text) }
    #expect(error?.isTruncation == isTruncation, "\(String(describing: error))")
    #expect(error?.line == line)
    #expect(error?.column == column)
  }

  @Test(arguments: [
    #"{"a":[1,"b",{"c":null}],"é":"\\u00e9\\ud83d\\ude00","d":-1.5e3}"#, #""plain""#, "\"\"", "[]", "{}", "[true,false]", "\"\u{7F}\"",
    "\"a\u{1}b\"", "\"abc", #""\x""#, #""\ud83d""#, "{\"a\"}", "{\"a\":}", "{1:2}", "[1 2]", "[\"a\",]", "nul", "tru", "-", "01", "",
  ]) func skipsExactlyWhatItReads(text: String) {
    let skipping = JSONReader(Array(text.utf8))
    let (value, skipped) = (
      Result { try parse(text) },
      Result {
        try skipping.skip()
        try skipping.expectEnd()
      }
    )
    switch (value, skipped) {
    case (.success, .success): #expect(skipping.offset == Int64(text.utf8.count))
    case (.failure(let a as JSONError), .failure(let b as JSONError)):
      #expect(a.place == b.place && a.isTruncation == b.isTruncation)
    default: Issue.record("read: \(value), skipped: \(skipped)")
    }
  }

  @Test func skipsBytesThatAreNotUTF8AsLittleAsItReadsThem() {
    #expect(throws: JSONError.self) { try JSONReader([0x22, 0xC3, 0x28, 0x22]).skip() }
  }

  @Test func knowsThePlaceOfEachValue() throws {
    // Longer than the window, so that places are counted beyond it.
    let texts = (0..<20_000).map { #""\#($0) \#(String(repeating: "x", count: $0 % 40))""# }
    let text = "[" + texts.joined(separator: " ,\n ") + "]"
    let bytes = Array(text.utf8)
    let reader = JSONReader(bytes)
    var isFirst = true
    try reader.beginArray()
    var count = 0
    while try reader.nextElement(isFirst: &isFirst) {
      let start = Int(reader.offset)
      try reader.skip()
      #expect(bytes[start..<Int(reader.offset)].elementsEqual(texts[count].utf8))
      count += 1
    }
    #expect(count == texts.count)
  }

  @Test func refusesToDescendForEver() {
    let error = #expect(throws: JSONError.self) { try parse(String(repeating: "[", count: 100_000)) }
    #expect(error?.message.contains("nested deeper") == true)
  }

  @Test func readsTextsLargerThanItsWindowWithTheRightPlaces() throws {
    let lines = (0..<30_000).map { "  {\"t\" : \($0).25}" }
    let text = Array(("[\n" + lines.joined(separator: ",\n") + "\n]").utf8)
    var offset = 0
    // A refill that gives uneven pieces, as a pipe would.
    func reader(_ bytes: [UInt8]) -> JSONReader {
      offset = 0
      return JSONReader { buffer in
        let count = min(buffer.count, 4099, bytes.count - offset)
        buffer.copyBytes(from: bytes[offset..<(offset + count)])
        offset += count
        return count
      }
    }
    let values = try reader(text).value().array
    #expect(values?.count == 30_000)
    #expect(values?[29_999]["t"] == .number(29_999.25))

    var broken = text
    broken[text.count - 3] = UInt8(ascii: "?")
    let error = #expect(throws: JSONError.self) { try reader(broken).value() }
    #expect(error?.line == 30_001)
  }

  @Test func parsesNumbersAsStrtodDoes() throws {
    var generator = SplitMix(seed: 6)
    for _ in 0..<5000 {
      let value = Double(bitPattern: .random(in: 0...(.max), using: &generator))
      guard value.isFinite else { continue }
      for text in [
        "\(value)", "\(Float(value).isFinite ? Float(value) : 0)",
        "\(Int.random(in: -99999...99999, using: &generator)).\(Int.random(in: 0...99999, using: &generator))",
      ] {
        #expect(try JSONReader(Array(text.utf8)).number() == Double(text))
      }
    }
  }

  /// No bytes in a file may crash the reader.
  @Test func survivesMutations() throws {
    let seed = Array(#"[{"timestamp": 1.5, "rgbIndex": 0, "transform": [[1,0,0,0]], "s": "\u00e9"}, null, true]"#.utf8)
    var state: UInt64 = 42
    func random(_ bound: Int) -> Int {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return Int((state >> 33) % UInt64(bound))
    }
    for _ in 0..<20_000 {
      var text = seed
      for _ in 0...random(3) {
        switch random(3) {
        case 0: text[random(text.count)] = UInt8(random(256))
        case 1: text.remove(at: random(text.count))
        default: text.insert(UInt8(random(256)), at: random(text.count))
        }
      }
      let reader = JSONReader(text)
      _ = try? reader.value()
      _ = try? JSONReader(text).skip()
    }
  }
}

@Suite struct CanonicalJSONTests {
  /// Pairs from RFC 8785, appendix B, and ECMAScript's Number::toString.
  @Test(
    arguments: [
      (0x0000_0000_0000_0000, "0"), (0x8000_0000_0000_0000, "0"), (0x0000_0000_0000_0001, "5e-324"),
      (0x7FEF_FFFF_FFFF_FFFF, "1.7976931348623157e+308"), (0x4340_0000_0000_0000, "9007199254740992"),
      (0x4430_0000_0000_0000, "295147905179352830000"), (0x44B5_2D02_C7E1_4AF6, "1e+23"),
      (0x444B_1AE4_D6E2_EF4E, "999999999999999700000"), (0x444B_1AE4_D6E2_EF50, "1e+21"), (0x3EB0_C6F7_A0B5_ED8D, "0.000001"),
      (0x3E7A_D7F2_9ABC_AF48, "1e-7"),
    ] as [(UInt64, String)]) func printsNumbersAsECMAScriptDoes(bits: UInt64, text: String)
  {
    #expect(JSONValue.ecmaScript(Double(bitPattern: bits)) == text)
  }

  @Test func sortsKeysByUTF16Units() {
    // RFC 8785, 3.2.3: the emoji's first surrogate sorts before U+FB33.
    let value: JSONValue = ["\u{20ac}": 1, "\r": 2, "\u{fb33}": 3, "1": 4, "\u{1f600}": 5, "\u{80}": 6, "\u{f6}": 7]
    #expect(value.canonicalText == "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\u{fb33}\":3}")
  }

  @Test func escapesOnlyWhatMustBe() {
    #expect(JSONValue.string("\"\\/\u{8}\u{1f}é\n").canonicalText == #""\"\\/\b\u001fé\n""#)
  }

  @Test func readsBackWhatItPrints() throws {
    let value: JSONValue = ["a": [1, .number(0.1), "é\u{7}", nil, true], "b": ["c": .number(1e300)]]
    #expect(try JSONReader(value.canonicalBytes).value() == value)
  }
}
