import Testing
import TestSupport

@testable import Reports

/// Runs that hold no lock here: those that are over, and those of another machine.
@Suite struct RunProgressTests {
  private let directory: TemporaryDirectory
  private let dataset: String

  init() throws {
    directory = try TemporaryDirectory()
    dataset = try ListedFrames.convert("0 100 200", in: directory)
  }

  @Test func aRunThatHasJustPublishedIsOver() { #expect(!RunProgress(dataset).isRunning) }

  @Test func aRunWhoseJournalIsNewerThanTheManifestGoesOn() throws {
    try ListedFrames.ageManifest(of: dataset)
    #expect(RunProgress(dataset).isRunning)
  }
}
