import Foundation
import Model
import Testing

@testable import Reports

@Suite struct FindingPageTests {
  @Test(arguments: FindingCode.allCases) func everyCodeSaysWhatItMeansAndWhatToDo(code: FindingCode) throws {
    let page = try #require(FindingPage.all[code.rawValue])
    for text in [page.meaning, page.advice] {
      #expect(text.count > 10 && text.hasSuffix(".") && text.first?.isLowercase == false, "\(code.rawValue): \(text)")
    }
  }

  /// The severity that a finding has unless it is given another comes first.
  @Test(arguments: FindingCode.allCases) func theDocumentSaysTheSeverityThatFindingsHave(code: FindingCode) {
    let expected: [String]
    switch code.page.group {
    case .rejected: expected = ["rejected"]
    case .failed: expected = ["error"]
    case .dataset: expected = ["info", "warning"]
    case .written: expected = ["info", "warning", "info or warning", "warning or error"]
    }
    #expect(expected.contains(code.page.severityWords), "\(code.rawValue): \(code.page.severityWords)")
    #expect(code.page.severityWords.hasPrefix(code.page.group == .rejected ? "rejected" : code.severity.rawValue), "\(code.rawValue)")
    if code.page.group == .rejected { #expect(code.severity == .info) }
  }

  @Test func everyRowIsOfACodeAndInOrder() {
    let document = String(decoding: PackageResources.findings_md, as: UTF8.self)
    let rows = document.split(separator: "\n").filter { $0.hasPrefix("| `") }.compactMap { $0.split(separator: "`").dropFirst().first }
    #expect(Set(rows.map(String.init)) == Set(FindingCode.allCases.map(\.rawValue)) && rows.count == FindingCode.allCases.count)
    for section in document.components(separatedBy: "\n## ").dropFirst() {
      let codes = section.split(separator: "\n").filter { $0.hasPrefix("| `") }.compactMap { $0.split(separator: "`").dropFirst().first }
      #expect(codes == codes.sorted())
    }
  }
}
