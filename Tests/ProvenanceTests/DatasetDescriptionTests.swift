import Model
import Steps
import Testing
import TestSupport

@testable import Provenance

@Suite struct DatasetDescriptionTests {
  private let takes: PublishedTakes
  init() throws { takes = try PublishedTakes() }

  /// A warning and a remark of one code are two findings, and each counts a take once.
  @Test func takesAreCountedForEverySeverityOfAFinding() throws {
    let (warning, remark) = (Finding(.framesDropped, "many", severity: .warning), Finding(.framesDropped, "one", severity: .info))
    let dataset = try takes.publish([.rejected("a", [remark, warning, warning]), .rejected("b", [remark, remark])])
    let description = try DatasetDescription(dataset.directory, options: .init(), threads: 1)
    #expect(
      description.findings == [
        DatasetDescription.FindingCount(code: .framesDropped, severity: .warning, takes: 1),
        DatasetDescription.FindingCount(code: .framesDropped, severity: .info, takes: 2),
      ])
  }

  @Test(arguments: ["2026-01-01", "2026-12-31"]) func aDayIsTheDayOfPublication(date: String) throws {
    let dataset = try takes.publish([.rejected("a")])
    var options = DatasetDescription.Options()
    options.date = date
    #expect(try DatasetDescription(dataset.directory, options: options, threads: 1).day == date)
  }

  @Test(arguments: ["2026-00-10", "2026-13-10", "2026-01-00", "2026-01-32"]) func refusesADayThatNoCalendarHas(date: String) {
    var options = DatasetDescription.Options()
    options.date = date
    let error = #expect(throws: UsageError.self) { try DatasetDescription("/nonexistent", options: options, threads: 1) }
    #expect(error?.message.hasPrefix("--date:") == true)
  }
}
