import Testing

@testable import Datasets
@testable import Merging
@testable import Steps

@Suite struct PackTests {
  private let datasets: SmallDatasets
  init() throws { datasets = try SmallDatasets() }

  /// A run with another pipeline that was stopped has left its line in the journal, and the manifest as it was.
  @Test func aDatasetThatAnotherPipelineHasBegunToReplaceIsRefused() throws {
    let dataset = try datasets.convert("a")
    func pack(to name: String) throws -> Int {
      try Pack.pack(directory: dataset.directory, output: datasets.path(name)) { try Pack.copy(dataset.directory, to: $0) }.episodes
    }
    #expect(try pack(to: "before.h5") == 1)
    try datasets.edit("session_a", of: dataset) { $0.pipeline = String(repeating: "0", count: 64) }
    let error = #expect(throws: ExportRefusal.self) { try pack(to: "after.h5") }
    #expect("\(error as Any)".contains("session_a was converted by another pipeline than manifest.json names"))
  }
}
