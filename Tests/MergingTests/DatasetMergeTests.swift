import Evidence
import Model
import Testing

@testable import Datasets
@testable import Merging
@testable import Steps
@testable import Transforms

@Suite struct DatasetMergeTests {
  private let datasets: SmallDatasets
  init() throws { datasets = try SmallDatasets() }

  /// As two versions of the program would find them in one recording.
  @Test func episodesOfATakeThatWasSplitInAnotherNumberAreRefused() throws {
    let split = try Options.decode(SplitEpisodes.self, over: ["at": .number(0.2)], at: SplitEpisodes.name)
    let whole = try datasets.convert("a", [Align(), split])
    let first = try datasets.merge([whole], selecting: ["session_a.0"], to: "first")
    let second = try datasets.merge([whole], selecting: ["session_a.1"], to: "second")
    #expect(try datasets.merge([first, second], to: "both").written.map(\.id.text) == ["session_a.0", "session_a.1"])
    try datasets.edit("session_a.1", of: second) { $0.parts = 9 }
    let error = #expect(throws: ExportRefusal.self) { try datasets.merge([first, second], to: "mixed") }
    #expect("\(error as Any)".contains("are episodes of different recordings, both named session_a"))
  }

  @Test func onlySourcesOfSourcesAreIndirect() throws {
    let (a, b, c) = try (datasets.convert("a"), datasets.convert("b"), datasets.convert("c"))
    let both = try datasets.merge([a, b], to: "both")
    let all = try datasets.merge([both, c], to: "all")
    func sources(_ dataset: Dataset) -> [String?] { (dataset.record.sources?.array ?? []).map { $0["record_sha256"]?.string } }
    func indirect(_ dataset: Dataset) -> [JSONValue?] { (dataset.record.sources?.array ?? []).map { $0["indirect"] } }
    #expect(sources(both) == [a.recordDigest, b.recordDigest] && indirect(both) == [nil, nil])
    #expect(sources(all) == [both, c, a, b].map(\.recordDigest) && indirect(all) == [nil, nil, true, true])
  }
}
