import Evidence
import Model
import Testing

@testable import Documents
@testable import Steps

private struct Plain: Transform {
  static let name = "plain"
  static let summary = "Has no options, for tests"
  func apply(to episode: Episode, in context: RunContext) throws -> Episode { episode }
}

private struct Sided: Transform {
  static let name = "sided"
  static let summary = "Has an option, for tests"
  @StepOption("left | right", 0...9) var side = 3
  func apply(to episode: Episode, in context: RunContext) throws -> Episode { episode }
}

@Suite struct StepDescriptionTests {
  @Test func aStepWithoutOptionsHasASentenceInPlaceOfATable() {
    let plain = StepDescription(Plain.self, .transform)
    #expect(plain.table == "No options.")
    #expect(plain.text == "plain (transform)\n  Has no options, for tests" && plain.json["options"] == [])
  }

  @Test func anOptionIsALineOfTheTable() {
    let lines = StepDescription(Sided.self, .transform).table.split(separator: "\n")
    #expect(lines.count == 3 && lines.first == "| option | default | values | meaning |")
    // A bar would end the column.
    #expect(lines.last?.hasPrefix("| `side` | `3` | ") == true && lines.last?.hasSuffix(" | left \\| right |") == true)
  }
}
