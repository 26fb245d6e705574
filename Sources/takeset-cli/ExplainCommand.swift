import ArgumentParser
import Model
import Takeset

struct ExplainCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "explain", abstract: "Explain a finding, failure, rejection or diagnosis by its code.",
    discussion: """
        takeset explain pose-jump
        takeset explain images-encoded     a diagnosis of verify --for
        takeset explain            list all codes
        takeset explain --json
      """)

  @Argument(help: "A code from inspect, run, verify --for or the manifest.", completion: .list(Self.codes))
  var code: String?
  @Flag(help: "Print JSON.")
  var json = false

  /// All codes, sorted; those that are a finding's and a diagnosis's once.
  private static let codes = Set(FindingCode.allCases.map(\.rawValue) + DiagnosisCode.allCases.map(\.rawValue)).sorted()

  func run() throws {
    guard let code else { return list() }
    let (finding, diagnosis) = (FindingCode(rawValue: code), DiagnosisCode(rawValue: code).map(DiagnosisPage.init))
    guard finding != nil || diagnosis != nil else {
      let meant = Spelling.nearest(to: code, among: Self.codes).map { "; did you mean \($0)?" } ?? ""
      throw UsageError("there is no code \"\(code)\"\(meant); takeset explain lists all codes")
    }
    if json { return standardOutput(JSONValue.array([finding?.json, diagnosis?.json].compactMap(\.self)).canonicalText) }
    standardOutput([finding.map(describe), diagnosis.map(describe)].compactMap(\.self).joined(separator: "\n\n"))
  }

  private func list() {
    let findings = FindingCode.allCases.sorted { $0.rawValue < $1.rawValue }
    let diagnoses = DiagnosisCode.allCases.map(DiagnosisPage.init).sorted { $0.code.rawValue < $1.code.rawValue }
    if json { return standardOutput(JSONValue.array(findings.map(\.json) + diagnoses.map(\.json)).canonicalText) }
    let others = diagnoses.filter { FindingCode(rawValue: $0.code.rawValue) == nil }
    let lines = findings.map { ($0.rawValue, $0.page.meaning) } + others.map { ($0.code.rawValue, $0.code.meaning) }
    let width = lines.map(\.0.count).max() ?? 0
    for (code, meaning) in lines.sorted(by: { $0.0 < $1.0 }) {
      standardOutput("\(code.padded(to: width))  \(meaning.prefix { $0 != "." })")
    }
  }

  private func describe(_ code: FindingCode) -> String {
    "\(code.rawValue) (\(code.page.severityWords))\n\n  \(code.page.meaning)\n\n  What to do: \(code.page.advice)"
  }

  private func describe(_ page: DiagnosisPage) -> String {
    let entries = page.entries.map { entry in
      "  \(entry.loader.rawValue) (\(entry.severity.words)): \(entry.consequence)\n    What to do: \(entry.remedy.text)"
    }
    return (["\(page.code.rawValue) (verify --for)\n\n  \(page.code.meaning)\n"] + entries).joined(separator: "\n")
  }
}

extension FindingCode {
  fileprivate var json: JSONValue {
    [
      "code": .string(rawValue), "outcome": .string(page.group.rawValue), "severity": .string(page.severityWords),
      "meaning": .string(page.meaning), "advice": .string(page.advice),
    ]
  }
}
