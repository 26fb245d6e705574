import Model
import Testing
import TestSupport

@testable import Datasets
@testable import Reports

@Suite struct TakeSummaryTests {
  private func summary(
    _ id: EpisodeID, _ outcome: TakeRecord.Outcome = .written, _ severities: [Finding.Severity] = [], problem: String? = nil
  ) -> TakeSummary {
    let findings = severities.map { Finding(.depthMissing, "no depth", severity: $0) }
    return TakeSummary(take: TakeRecord(id: id, reader: nil, outcome: outcome, findings: findings), problem: problem)
  }

  private func order(_ summaries: [TakeSummary]) -> [String] { summaries.sorted { $0.precedes($1) }.map(\.take.id.text) }

  @Test func theWorstTakesAreFirst() {
    let best = [summary("a"), summary("b", .written, [.info])]
    let worse = [
      summary("c", .written, [.info, .warning]), summary("d", .rejected), summary("e", problem: "it is missing"), summary("f", .failed),
    ]
    #expect(order(best + worse) == ["f", "e", "d", "c", "a", "b"])
  }

  @Test func episodesOfATakeAreInTheOrderOfTheirNumbers() {
    #expect(order((["b", "a.10", "a.9", "a.0", "a.100"] as [EpisodeID]).map { summary($0) }) == ["a.0", "a.9", "a.10", "a.100", "b"])
  }
}
