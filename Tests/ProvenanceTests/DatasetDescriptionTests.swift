import Steps
import Testing

@testable import Provenance

@Suite struct DatasetDescriptionTests {
  @Test(arguments: ["2026-00-10", "2026-13-10", "2026-01-00", "2026-01-32"]) func refusesADayThatNoCalendarHas(date: String) {
    var options = DatasetDescription.Options()
    options.date = date
    let error = #expect(throws: UsageError.self) { try DatasetDescription("/nonexistent", options: options, threads: 1) }
    #expect(error?.message.hasPrefix("--date:") == true)
  }
}
