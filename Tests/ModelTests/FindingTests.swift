import Model
import Testing

@Suite struct FindingTests {
  @Test func codesAreKebabCaseAndUnique() {
    let codes = FindingCode.allCases.map(\.rawValue)
    #expect(Set(codes).count == codes.count && codes.count > 130)
    #expect(codes.allSatisfy { $0.allSatisfy { $0.isLowercase || $0.isNumber || $0 == "-" } && !$0.hasPrefix("-") && !$0.hasSuffix("-") })
  }

  @Test func aFindingHasTheSeverityOfItsCodeUnlessGivenAnother() {
    #expect(Finding(.imageMissing, "m").severity == .warning)
    #expect(Finding(.frameRate, "m").severity == .info)
    #expect(Finding(.assertionUnverified, "m", severity: .warning).severity == .warning)
    #expect(TakeFailure(.depthUndecodable, "m").finding.severity == .error)
  }

  @Test func whatHappensToSeveralSamplesIsOneFinding() {
    var findings: [Finding] = []
    for number in 0..<3 { findings.note(Finding(.imageUndecodable, "image \(number)")) }
    findings.note(Finding(.depthUndecodable, "map"))
    #expect(findings.map(\.message) == ["image 0", "map"] && findings.map(\.count) == [3, 1])
  }

  @Test func messagesThatQuoteAFileAreShort() {
    let long = "expected text, found " + String(repeating: "é", count: 60_000)
    #expect(Finding(.imageMissing, long).message.hasPrefix("expected text, found éé"))
    #expect(Finding(.imageMissing, long).message.utf8.count < 2100 && TakeFailure(.jsonType, long).message.utf8.count < 2100)
    // One character of any number of scalars.
    #expect(Finding(.imageMissing, "e" + String(repeating: "\u{301}", count: 60_000)).message.utf8.count < 2100)
    let short = String(repeating: "a", count: 1000)
    #expect(Finding(.imageMissing, short).message == short)
  }

  @Test func notesKeepTheirOrder() {
    let notes = FindingCollector()
    notes.add(.poseJump, "a")
    notes.add([Finding(.poseRepeated, "b"), Finding(.poseMissing, "c")])
    notes.add(.poseJump, "d", file: "f", field: ".x", count: 2)
    #expect(notes.findings.map(\.message) == ["a", "b", "c", "d"])
    #expect(notes.findings[3] == Finding(.poseJump, "d", file: "f", field: ".x", count: 2))
  }
}
