package import Evidence

/// The meaning of a diagnosis to each loader: its page in `takeset explain`, and the tables of `docs/doctor.md`.
package struct DiagnosisPage: Sendable {
  /// The meaning to one loader, and its remedy.
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

  package var json: [String: JSONValue] {
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
  package var words: String {
    switch self {
    case .breaks: "breaks"
    case .trainsBadly: "trains badly"
    case .info: "info"
    }
  }
}

extension Loader {
  /// The tables of `docs/doctor.md`, as Markdown, by the names of its sections.
  package static var tables: [String: String] {
    func table(_ columns: [String], _ rows: [[String]]) -> String {
      let lines = [columns, columns.map { _ in "---" }] + rows
      return lines.map { $0[0] == "---" ? "|" + $0.joined(separator: "|") + "|" : "| " + $0.joined(separator: " | ") + " |" }
        .joined(separator: "\n")
    }
    func rules(_ rules: [DoctorRule]) -> String {
      table(
        ["code", "class", "what follows"],
        rules.map { ["`\($0.code.rawValue)`", $0.severity.words, $0.consequence] })
    }
    let codes = DiagnosisCode.allCases.sorted { $0.rawValue < $1.rawValue }
    let shared = Set(DoctorRule.sound.map(\.code))
    var tables = [
      "diagnoses": table(["code", "what is found"], codes.map { ["`\($0.rawValue)`", $0.meaning] }),
      "rules of every loader": rules(DoctorRule.sound),
    ]
    for loader in allCases { tables["rules of \(loader.rawValue)"] = rules(loader.rules.filter { !shared.contains($0.code) }) }
    return tables
  }
}
