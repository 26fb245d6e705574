import Evidence
import Testing
import TestSupport

@testable import Datasets
@testable import Reports

@Suite struct ReportedTakesTests {
  private let directory: TemporaryDirectory
  private let dataset: String

  init() throws {
    directory = try TemporaryDirectory()
    dataset = try ListedFrames.convert("0 100 200", in: directory)
  }

  /// Adds the entry of the take once more, as a run does that is stopped before it publishes.
  private func convertAgain(_ change: (inout Journal.Entry) -> Void) throws {
    let journal = try Journal(path: dataset + "/" + DatasetFiles.journal)
    var entry = try #require(journal.entries["take"])
    change(&entry)
    try journal.append(entry, record: journal.record(of: "take"))
    try ListedFrames.ageManifest(of: dataset)
  }

  @Test func aTakeConvertedAgainFromOtherInputsIsNotOnThePage() throws {
    try convertAgain { $0.inputDigest = Digest.of("other inputs").description }
    #expect(
      try ReportedTakes(dataset, .none).notes == [
        "A later run has not finished: 1 take that it converted is not in the manifest and not on this page."
      ])
  }

  @Test func aTakeConvertedAgainFromTheSameInputsIsOnThePage() throws {
    try convertAgain { _ in }
    #expect(try ReportedTakes(dataset, .none).notes == [])
  }
}
