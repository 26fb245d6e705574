import ArgumentParser
import Evidence
import Loaders
import Model
import Reports
import Steps

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

  /// A code, what it means as a finding, and what it means to loaders; it has one of both, or both.
  private struct Entry {
    var code: String
    var finding: FindingCode?
    var diagnosis: DiagnosisPage?

    init?(_ code: String) {
      (self.code, finding, diagnosis) = (code, FindingCode(rawValue: code), DiagnosisCode(rawValue: code).map(DiagnosisPage.init))
      if finding == nil, diagnosis == nil { return nil }
    }

    /// The page as JSON; for a code that is both, the words of the finding, and the loaders of the diagnosis.
    var json: JSONValue { .object((finding?.json ?? [:]).merging(diagnosis?.json ?? [:]) { own, _ in own }) }

    /// The first sentence of its meaning, without the full stop.
    var summary: String {
      let meaning = finding?.page.meaning ?? diagnosis?.code.meaning ?? ""
      // A dot inside of a sentence is that of a number or a file's name.
      guard let end = meaning.firstRange(of: ". ") else { return meaning.hasSuffix(".") ? String(meaning.dropLast()) : meaning }
      return String(meaning[..<end.lowerBound])
    }
  }

  /// All codes, sorted, each once.
  private static let codes = Set(FindingCode.allCases.map(\.rawValue) + DiagnosisCode.allCases.map(\.rawValue)).sorted()

  func run() throws {
    guard let code else { return list(Self.codes.compactMap { Entry($0) }) }
    guard let entry = Entry(code) else {
      let meant = Spelling.hint(for: code, among: Self.codes)
      throw UsageError("there is no code \"\(code)\"\(meant); takeset explain lists all codes")
    }
    if json { return list([entry]) }
    standardOutput([entry.finding.map(describe), entry.diagnosis.map(describe)].compactMap(\.self).joined(separator: "\n\n"))
  }

  private func list(_ entries: [Entry]) {
    if json { return standardOutput(JSONValue.array(entries.map(\.json)).canonicalText) }
    let width = entries.map(\.code.count).max() ?? 0
    for entry in entries { standardOutput("\(entry.code.padded(to: width))  \(entry.summary)") }
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
  fileprivate var json: [String: JSONValue] {
    [
      "code": .string(rawValue), "outcome": .string(page.group.rawValue), "severity": .string(page.severityWords),
      "meaning": .string(page.meaning), "advice": .string(page.advice),
    ]
  }
}
