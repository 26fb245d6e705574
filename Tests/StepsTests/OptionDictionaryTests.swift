import Evidence
import Testing

@testable import Steps

@Suite struct OptionDictionaryTests {
  @Test func survivesARoundTrip() {
    let numbers: JSONValue = ["joints": .number(0.02), "imu": -1]
    #expect([String: Double](json: numbers) == ["joints": 0.02, "imu": -1])
    #expect([String: Double](json: numbers)?.json == numbers)
    #expect([String: String](json: [:]) == [:])
    #expect([String: String](json: ["a": "b"])?.json == ["a": "b"])
  }

  @Test(arguments: [nil, [], "a", 1, ["a": "b"], ["a": 1, "b": nil], ["a": [:]], ["a": .number(.infinity)]] as [JSONValue])
  func refusesOtherValues(json: JSONValue) {
    #expect([String: Double](json: json) == nil)
  }

  @Test func describesItself() {
    #expect([String: Double].words == "an object with a number for each name")
    #expect([String: String].words == "an object with text for each name")
    #expect([String: Double].schema == ["type": "object", "additionalProperties": ["type": "number"]])
    #expect([String: String]?.schema["type"] == ["object", "null"])
  }
}
