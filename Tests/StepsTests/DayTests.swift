import Model
import Testing

@testable import Steps

@Suite struct DayTests {
  private let day = RecordingDate("the name", day: "2026-03-01")

  /// A moment so many hours after the end of 2026-03-01 in UTC.
  private func moment(hours: Int64) -> RecordingDate {
    RecordingDate("the metadata", unixNanoseconds: (1_772_409_599 + hours * 3600) * 1_000_000_000)
  }

  /// Where it is the first of March last, it is 12 hours behind UTC, and 14 hours before it is where it is that day first.
  @Test func aDayWithoutATimeZoneIsThatOfAnyZone() {
    #expect(!day.contradicts(moment(hours: 13)) && day.contradicts(moment(hours: 15)))
    #expect(!day.contradicts(moment(hours: -24 - 13)) && day.contradicts(moment(hours: -24 - 15)))
  }

  @Test func twoMomentsMayBeADayApart() {
    #expect(!moment(hours: 0).contradicts(moment(hours: 23)) && moment(hours: 0).contradicts(moment(hours: 25)))
  }
}
