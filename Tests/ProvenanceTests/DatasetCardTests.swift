import Evidence
import Testing

@testable import Provenance

@Suite struct DatasetCardTests {
  @Test func namesTheSizeAsTheHubDoes() {
    #expect([0, 999, 1000, 99_999, 100_000].map(DatasetCard.sizeCategory) == ["n<1K", "n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M"])
    #expect(DatasetCard.sizeCategory(2_000_000_000) == "n>1B")
  }

  @Test func escapesWhatMarkdownWouldRead() {
    #expect(DatasetCard.escaped("a|b *c*\nd") == "a\\|b \\*c\\* d")
  }

  @Test func indentsJSONInTheOrderOfItsKeys() {
    let value: JSONValue = ["b": [1, "x"], "a": [:], "c": []]
    #expect(value.indentedText == "{\n  \"a\": {},\n  \"b\": [\n    1,\n    \"x\"\n  ],\n  \"c\": []\n}\n")
  }
}
