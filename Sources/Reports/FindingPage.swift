package import Model

/// The meaning of a code and its remedy: a row of a table of `docs/findings.md`, which is part of the program.
package struct FindingPage: Sendable {
  /// Outcome of the take, or `dataset` for a finding about the dataset as a whole.
  package enum Group: String, Sendable, CaseIterable {
    case written, dataset, failed, rejected

    /// The heading of its table.
    fileprivate var heading: String {
      switch self {
      case .written: "The take is written"
      case .dataset: "The dataset"
      case .failed: "The take failed"
      case .rejected: "The take is rejected"
      }
    }
  }

  package var group: Group
  /// `warning`, `info or warning`, `rejected`.
  package var severityWords: String
  package var meaning: String
  /// Advice to the person who holds the file.
  package var advice: String

  /// The pages by code.
  static let all = pages(in: String(decoding: PackageResources.findings_md, as: UTF8.self))

  static func pages(in document: String) -> [String: FindingPage] {
    var (pages, group): ([String: FindingPage], Group?) = ([:], nil)
    for line in document.split(separator: "\n") {
      if line.hasPrefix("## ") { group = Group.allCases.first { $0.heading == line.dropFirst(3) } }
      guard line.hasPrefix("| `"), let group else { continue }
      let cells = line.dropFirst(2).dropLast(2).split(separator: " | ", omittingEmptySubsequences: false).map(String.init)
      guard cells.count == 4 else { continue }
      let code = cells[0].filter { $0 != "`" }
      pages[code] = FindingPage(group: group, severityWords: cells[1], meaning: cells[2], advice: cells[3])
    }
    return pages
  }
}

extension FindingCode {
  /// Every code has a row, as a test checks.
  package var page: FindingPage {
    FindingPage.all[rawValue] ?? FindingPage(group: .written, severityWords: severity.rawValue, meaning: "", advice: "")
  }
}
