import Evidence
import Foundation
import Model
import Testing
import TestSupport

@testable import Steps
@testable import Transforms

@Suite struct SplitByTimeTests {
  /// A moment, at which UTC has the day that is written.
  private func moment(_ text: String, _ source: String = "metadata.json") throws -> RecordingDate {
    RecordingDate(source, unixNanoseconds: try #require(UnixTime.nanoseconds(rfc3339: text)))
  }

  private func split(_ group: Split.Group, _ timezone: String? = nil) -> Split {
    var split = Split()
    (split.group, split.timezone, split.valid) = (group, timezone, 0.5)
    return split
  }

  private func take(_ split: Split, _ id: String, _ dates: RecordingDate...) -> SplitTake {
    var origin = TakeOrigin()
    origin.dates = dates
    return SplitTake(group: split.grouping(id, origin), reader: "stray-scanner", id: id)
  }

  /// The takes that are together, as the parts of many seeds tell.
  private func groups(_ split: Split, _ takes: [SplitTake]) -> [[String]] {
    let seeds = (0..<60).map { seed -> [SplitPart] in
      var seeded = split
      seeded.seed = seed
      return seeded.assign(takes)
    }
    let known = takes.indices.map { index in seeds.map { $0[index].rawValue }.joined() }
    return Dictionary(grouping: takes.indices) { known[$0] }.values.map { $0.map { takes[$0].id } }.sorted { $0[0] < $1[0] }
  }

  // MARK: Days

  @Test func theFirstDateCounts() throws {
    let video = try moment("2026-02-18T20:20:00Z", "rgb.mp4")
    #expect(Day.dates(name: "scan 2026-02-18", nil, video).map(\.source) == ["the name", "rgb.mp4"])
    #expect(take(split(.day), "scan", video).group == "2026-02-18")
    #expect(take(split(.day), "scan").group == "scan")
  }

  @Test func anAfternoonInCaliforniaIsOneDayThere() throws {
    let times = try ["2026-02-18T23:59:30Z", "2026-02-19T00:01:00Z"].map { try moment($0) }
    func days(_ zone: String?) -> [String] { times.map { take(split(.day, zone), "a", $0).group } }
    #expect(days(nil) == ["2026-02-18", "2026-02-19"])
    #expect(days("America/Los_Angeles") == ["2026-02-18", "2026-02-18"])
    #expect(days("Asia/Tokyo") == ["2026-02-19", "2026-02-19"])
  }

  @Test func datesThatCannotBothBeRightAreAFinding() throws {
    func message(_ day: String, _ time: String) throws -> String? {
      try Day.finding([RecordingDate("the name", day: day), moment(time)])?.message
    }
    let found = try #require(try message("2026-01-31", "2026-02-18T20:23:54Z"))
    #expect(found.contains("the name says 2026-01-31") && found.contains("metadata.json says 2026-02-18"))
    // The phone's own day may be another than that of UTC.
    #expect(try message("2026-02-18", "2026-02-19T05:00:00Z") == nil)
    #expect(try message("2026-02-18", "2026-02-20T12:00:00Z") != nil)
    #expect(try message("0000-99-99", "2026-02-20T12:00:00Z") == nil)
  }

  @Test func takesWithoutADayAreReported() throws {
    let rule = split(.day)
    let takes = [
      take(rule, "a1"), take(rule, "b2"), take(rule, "2026-02-18", RecordingDate("the name", day: "2026-02-18")),
    ]
    let finding = try #require(rule.findings(takes, rule.assign(takes)).first { $0.code == .dayUnknown })
    #expect(finding.count == 2 && finding.message.contains("a1, b2") && finding.severity == .warning)
    #expect(rule.findings([takes[0]], [.train]).allSatisfy { $0.code != .dayUnknown })
    var byTake = rule
    byTake.group = .take
    #expect(byTake.findings(takes, byTake.assign(takes)).allSatisfy { $0.code != .dayUnknown })
  }

  // MARK: Hours

  @Test func hoursApartMakesChains() throws {
    let rule = split(.hoursApart(6))
    let takes = try [
      take(rule, "a", moment("2026-02-18T08:00:00Z")), take(rule, "b", moment("2026-02-18T13:00:00Z")),
      take(rule, "c", moment("2026-02-18T19:00:00Z")), take(rule, "d", moment("2026-02-19T01:00:01Z")), take(rule, "e"),
    ]
    #expect(groups(rule, takes) == [["a", "b", "c"], ["d"], ["e"]])
    #expect(groups(rule, takes.reversed()).map { $0.sorted() }.sorted { $0[0] < $1[0] } == [["a", "b", "c"], ["d"], ["e"]])
    #expect(rule.findings(takes, rule.assign(takes)).contains { $0.code == .dayUnknown && $0.count == 1 })
  }

  @Test func aDayWithoutATimeCountsForAllOfIt() throws {
    let rule = split(.hoursApart(2))
    let takes = try [
      take(rule, "a", RecordingDate("the name", day: "2026-02-18")), take(rule, "b", moment("2026-02-18T12:00:00Z")),
      take(rule, "c", moment("2026-02-19T01:30:00Z")), take(rule, "d", moment("2026-02-19T04:00:00Z")),
    ]
    #expect(groups(rule, takes) == [["a", "b", "c"], ["d"]])
  }

  @Test func aStratifiedSplitKeepsChainsToo() throws {
    var rule = split(.hoursApart(6))
    rule.stratify = .format
    let takes = try [
      take(rule, "a", moment("2026-02-18T08:00:00Z")), take(rule, "b", moment("2026-02-18T09:00:00Z")),
      take(rule, "c", moment("2026-02-20T09:00:00Z")),
    ]
    #expect(groups(rule, takes) == [["a", "b"], ["c"]])
  }

  // MARK: Options

  @Test func optionsSurviveARoundTrip() throws {
    for group in ["day", "take", ["hours-apart": 6], ["hours-apart": .number(0.5)]] as [JSONValue] {
      let split = try Options.decode(Split.self, over: ["group": group], at: "split")
      #expect(Options.values(of: split)["group"] == group)
    }
    #expect(split(.hoursApart(6)).words.hasPrefix("by hours-apart 6: "))
    #expect(split(.day, "Europe/Berlin").words.hasPrefix("by day Europe/Berlin: "))
  }

  @Test(
    arguments: [
      ["group": "room"], ["group": ["hours-apart": 0]], ["group": ["hours-apart": "6"]], ["group": ["hours": 6]], ["group": 6],
      ["group": ["hours-apart": 6, "day": 1]], ["timezone": "Mars/Olympus"], ["group": "device", "timezone": "Europe/Berlin"],
    ] as [JSONValue])
  func otherOptionsAreRefused(options: JSONValue) {
    let error = #expect(throws: PipelineFileError.self) { try Options.decode(Split.self, over: options, at: "split") }
    #expect(error?.path.hasPrefix("split.") == true)
  }
}
