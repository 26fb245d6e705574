/// What a diagnosis means to each loader: its page in `takeset explain`, and the tables of `docs/doctor.md`.
package struct DiagnosisPage: Sendable {
  package struct Entry: Sendable {
    package var loader: Loader
    package var severity: Diagnosis.Severity
    package var consequence: String
    package var remedy: Remedy

    package var json: JSONValue {
      [
        "loader": .string(loader.rawValue), "severity": .string(severity.rawValue), "consequence": .string(consequence),
        "remedy": .string(remedy.text),
      ]
    }
  }

  package var code: DiagnosisCode
  /// One for each rule that makes the diagnosis.
  package var entries: [Entry]

  package init(_ code: DiagnosisCode) {
    self.code = code
    entries = Loader.allCases.flatMap { loader in
      loader.rules.filter { $0.code == code }.map {
        Entry(loader: loader, severity: $0.severity, consequence: $0.consequence, remedy: $0.remedy)
      }
    }
  }

  package var json: JSONValue {
    [
      "code": .string(code.rawValue), "outcome": "diagnosis", "severity": .string(severityWords), "meaning": .string(code.meaning),
      "advice": .string(advice),
      "loaders": .array(entries.map(\.json)),
    ]
  }

  /// The remedies of all loaders, each once.
  private var advice: String {
    var texts: [String] = []
    for entry in entries where !texts.contains(entry.remedy.text) { texts.append(entry.remedy.text) }
    return texts.joined(separator: "; or ")
  }

  /// `breaks`, `trains badly`, or `breaks or trains badly`.
  package var severityWords: String {
    Diagnosis.Severity.allCases.filter { severity in entries.contains { $0.severity == severity } }.map(\.words).joined(separator: " or ")
  }
}

extension Diagnosis.Severity {
  package var words: String { self == .breaks ? "breaks" : "trains badly" }
}

extension Loader {
  /// The rules of this loader as a table of Markdown.
  package var table: String {
    let rows = rules.map { rule in
      "| `\(rule.code.rawValue)` | \(rule.severity.words) | \(rule.code.meaning) | \(rule.consequence) | \(rule.remedy.text) |"
    }
    return (["| code | class | what is found | what follows | remedy |", "|---|---|---|---|---|"] + rows).joined(separator: "\n")
  }
}
