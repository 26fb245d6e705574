import ArgumentParser
import Model
import Takeset

struct ExplainCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "explain", abstract: "Explain a finding, failure or rejection by its code.",
    discussion: """
        takeset explain pose-jump
        takeset explain            list all codes
        takeset explain --json
      """)

  @Argument(help: "A code from inspect, run or the manifest.", completion: .list(FindingCode.allCases.map(\.rawValue)))
  var code: String?
  @Flag(help: "Print JSON.")
  var json = false

  func run() throws {
    let chosen: [FindingCode]
    if let code {
      guard let known = FindingCode(rawValue: code) else {
        let meant = Spelling.nearest(to: code, among: FindingCode.allCases.map(\.rawValue)).map { "; did you mean \($0)?" } ?? ""
        throw UsageError("there is no code \"\(code)\"\(meant); takeset explain lists all codes")
      }
      chosen = [known]
    } else {
      chosen = FindingCode.allCases.sorted { $0.rawValue < $1.rawValue }
    }
    if json {
      standardOutput(JSONValue.array(chosen.map(\.json)).canonicalText)
    } else if let code = chosen.first, chosen.count == 1 {
      standardOutput("\(code.rawValue) (\(code.page.severityWords))\n\n  \(code.page.meaning)\n\n  What to do: \(code.page.advice)")
    } else {
      let width = chosen.map(\.rawValue.count).max() ?? 0
      for code in chosen {
        standardOutput("\(code.rawValue.padding(toLength: width, withPad: " ", startingAt: 0))  \(code.page.meaning.prefix { $0 != "." })")
      }
    }
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
