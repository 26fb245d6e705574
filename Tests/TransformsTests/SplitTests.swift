import Model
import Testing
import TestSupport

@testable import Steps
@testable import Transforms

@Suite struct SplitTests {
  private func split(_ valid: Double, _ test: Double = 0, seed: Int = 0) -> Split {
    var split = Split()
    (split.valid, split.test, split.seed) = (valid, test, seed)
    return split
  }

  private func takes(_ groups: [String], reader: String = "stack-session") -> [SplitTake] {
    groups.map { SplitTake(group: $0, reader: reader) }
  }

  private func assign(_ split: Split, _ groups: [String]) -> [SplitPart] { split.assign(takes(groups)) }

  private func findings(_ split: Split, _ takes: [SplitTake]) -> [String] {
    split.findings(takes, split.assign(takes)).map { "\($0.severity.rawValue) \($0.code.rawValue) \($0.message)" }
  }

  // MARK: Parts

  @Test func neverDividesAGroup() {
    let groups = (0..<60).map { "day-\($0 % 12)" }
    let parts = assign(split(0.2, 0.2), groups)
    for group in Set(groups) {
      #expect(Set(zip(groups, parts).filter { $0.0 == group }.map(\.1)).count == 1)
    }
    #expect((10...14).contains(parts.count { $0 == .valid }))
    #expect((10...14).contains(parts.count { $0 == .test }))
  }

  @Test func givesAShareAboveZeroAtLeastOneGroupAndLeavesOneToTrainOn() {
    #expect(Set(assign(split(0.01), ["a", "b"])) == [.train, .valid])
    #expect(assign(split(0.9), ["a"]) == [.train])
    #expect(assign(split(0.4, 0.4), ["a", "b"]).contains(.train))
  }

  @Test func givesNothingToAShareOfZero() { #expect(Set(assign(split(0), ["a", "b", "c"])) == [.train]) }

  @Test(arguments: 0..<20) func takesALargeGroupOnlyWhereThereIsNoSmallerOne(seed: Int) {
    let parts = assign(split(0.1, seed: seed), Array(repeating: "large", count: 90) + Array(repeating: "small", count: 10))
    #expect(parts == Array(repeating: .train, count: 90) + Array(repeating: .valid, count: 10))
  }

  @Test func dependsOnTheSeedAndNotOnTheOrder() {
    let groups = (0..<40).map { "g\($0)" }
    let parts = Dictionary(uniqueKeysWithValues: zip(groups, assign(split(0.5), groups)))
    let reversed = Dictionary(uniqueKeysWithValues: zip(groups.reversed(), assign(split(0.5), groups.reversed())))
    #expect(parts == reversed)
    #expect(parts != Dictionary(uniqueKeysWithValues: zip(groups, assign(split(0.5, seed: 1), groups))))
  }

  // MARK: Takes that are in a part already

  @Test(arguments: 0..<10) func keepsThePartOfEveryTakeWhileADatasetGrows(seed: Int) {
    let rule = split(0.1, 0.2, seed: seed)
    var known: [SplitTake] = []
    for number in 0..<200 {
      // Three takes a day.
      known.append(SplitTake(group: "day-\(number / 3)", reader: "stack-session", id: "take-\(number)"))
      let parts = rule.assign(known)
      for (take, part) in zip(known, parts) where take.part != nil { #expect(take.part == part) }
      for index in known.indices { known[index].part = parts[index] }
    }
    for group in Set(known.map(\.group)) { #expect(Set(known.filter { $0.group == group }.map(\.part)).count == 1) }
    #expect((17...23).contains(known.count { $0.part == .valid }))
    #expect((36...44).contains(known.count { $0.part == .test }))
  }

  @Test func putsNewTakesOfAGroupToTheOldOnes() {
    var takes = takes(["a", "a", "b", "b", "b"])
    (takes[0].part, takes[2].part, takes[3].part) = (.test, .valid, .valid)
    #expect(split(0.1, 0.1).assign(takes) == [.test, .test, .valid, .valid, .valid])
  }

  @Test func keepsTakesOfOneGroupApartThatAreApart() {
    var takes = takes(["a", "a", "a", "a"])
    (takes[0].part, takes[1].part, takes[2].part) = (.valid, .train, .train)
    #expect(split(0.5).assign(takes) == [.valid, .train, .train, .train])
  }

  @Test func dealsAsEverWhereNoTakeHasAPart() {
    let groups = (0..<40).map { "g\($0)" }
    #expect(split(0.25).assign(takes(groups)).count { $0 == .valid } == 10)
  }

  @Test func sparesNoTakeForAnEmptyDataset() {
    #expect(assign(split(0.5), []).isEmpty)
    #expect(findings(split(0.5), []).isEmpty)
  }

  // MARK: Empty parts

  @Test func reportsAShareThatGetsNoTake() {
    #expect(
      findings(split(0.1), takes(["a", "a", "a"])) == [
        "warning split-empty valid: 0.1 of 3 takes is empty, because all are of one group (by day)"
      ])
    // One take alone is a trial, not a mistake.
    #expect(findings(split(0.1), takes(["a"])).isEmpty)
    #expect(
      findings(split(0.1, 0.25), takes(["a", "b"])) == [
        "warning split-empty test: 0.25 of 2 takes is empty, because they are of only 2 groups (by day), and one is to train on"
      ])
    #expect(findings(split(0.1, 0.1), takes(["a", "b", "c"])).isEmpty)
    #expect(findings(split(0), takes(["a"])).isEmpty)
  }

  // MARK: Kinds

  private func stratified(_ valid: Double, _ test: Double = 0, seed: Int = 0) -> Split {
    var split = split(valid, test, seed: seed)
    split.stratify = .format
    return split
  }

  /// A take as the run hands it to the rule.
  private func take(_ split: Split, _ id: String, day: String?, variant: String?, reader: String = "stack-session") -> SplitTake {
    var origin = TakeOrigin()
    (origin.variant, origin.dates) = (variant, day.map { [RecordingDate("the name", day: $0)] } ?? [])
    return SplitTake(group: split.grouping(id, origin), reader: reader)
  }

  @Test(arguments: 0..<20) func meetsTheSharesWithinEachKind(seed: Int) {
    let split = stratified(0.2, 0.1, seed: seed)
    let kinds = [("v1", "stack-session", 60), ("v2", "stack-session", 20), ("v2", "realitycam-bundle", 10)]
    var takes: [SplitTake] = []
    for (variant, reader, count) in kinds {
      takes += (0..<count).map {
        take(split, "\(variant)-\(reader)-\($0)", day: "\(variant) \(reader) day \($0 / 2)", variant: variant, reader: reader)
      }
    }
    let parts = split.assign(takes)
    var start = 0
    for (_, _, count) in kinds {
      let own = parts[start..<(start + count)]
      #expect(abs(Double(own.count { $0 == .valid }) - 0.2 * Double(count)) <= 1)
      #expect(abs(Double(own.count { $0 == .test }) - 0.1 * Double(count)) <= 1)
      start += count
    }
    #expect(split.findings(takes, parts).isEmpty)
  }

  @Test(arguments: 0..<20) func keepsGroupsOfSeveralKindsWhole(seed: Int) {
    let split = stratified(0.25, seed: seed)
    // Every day has two kinds; one kind more is there on two days only.
    var days: [String] = []
    var takes: [SplitTake] = []
    for day in 0..<8 {
      for variant in ["v1", "v2"] + (day < 2 ? ["rare"] : []) {
        takes.append(take(split, "\(day)-\(variant)", day: "day \(day)", variant: variant))
        days.append("\(day)")
      }
    }
    let parts = split.assign(takes)
    for day in Set(days) { #expect(Set(zip(days, parts).filter { $0.0 == day }.map(\.1)).count == 1) }
    // One of the two days with the rare kind is in each part.
    #expect(Set([parts[0], parts[3]]) == [.train, .valid])
    #expect(zip(days, parts).filter { $0.1 == .valid }.count == 5)
  }

  @Test func reportsAKindThatIsMissingInAPart() {
    let split = stratified(0.2)
    var takes = (0..<10).map { take(split, "a\($0)", day: "day \($0)", variant: "v1") }
    takes += (0..<3).map { take(split, "b\($0)", day: "another day", variant: nil, reader: "stray-scanner") }
    #expect(
      findings(split, takes) == [
        "warning split-empty valid: 0.2 of 3 takes of stray-scanner is empty, because all are of one group (by day)"
      ])
    let parts = split.assign(takes)
    #expect(parts[10...].allSatisfy { $0 == .train })
    #expect(parts.count { $0 == .valid } == 2)
  }

  // MARK: Groups

  /// The group of the take session_7, changed.
  private func group(_ kind: Split.Group, _ pattern: String? = nil, _ change: (inout Episode) -> Void = { _ in }) throws -> String? {
    var split = Split()
    (split.group, split.pattern) = (kind, pattern)
    try split.validate()
    var episode = SyntheticEpisode().episode
    episode.id = "session_7"
    change(&episode)
    return split.grouping(episode.id.take, TakeOrigin(episode))
  }

  @Test func groupsByDay() throws {
    #expect(try group(.day) { $0.dates = [RecordingDate("the name", day: "2026-02-03")] } == "2026-02-03")
    #expect(try group(.day) == "session_7")
  }

  @Test func groupsByDeviceWithoutItsName() throws {
    let one = try #require(try group(.device) { $0.device = "Ann's iPhone" })
    let same = try group(.device) { ($0.device, $0.id) = ("Ann's iPhone", "session_8") }
    let other = try group(.device) { $0.device = "Bob's iPhone" }
    #expect(one == same && one != other && !one.contains("Ann"))
    #expect(try group(.device) == "session_7")
    #expect(try group(.device) { $0.device = " " } == "session_7")
  }

  @Test func groupsByDirectory() throws {
    #expect(try group(.directory) { $0.folder = "kitchen" } == "kitchen")
    #expect(try group(.directory) == "session_7")
  }

  @Test func groupsEpisodesByTheirTake() throws {
    for kind in [Split.Group.take, .day, .device, .directory] {
      #expect(try group(kind) { $0.id = EpisodeID(take: "session_7", part: 3) } == "session_7")
    }
    #expect(
      try group(.regex, "[0-9.]+$") { $0.id = EpisodeID(take: "session_7", part: 3) } == "7")
  }

  @Test(arguments: [
    ("^(.+)_[0-9]+$", "session"), ("[a-z]+", "session"), ("_([0-9])", "7"), ("(x)?session", "session"), ("robot", "session_7"),
    ("x*", "session_7"),
  ])
  func groupsByAPattern(pattern: String, expected: String) throws {
    #expect(try group(.regex, pattern) { $0.dates = [RecordingDate("the name", day: "2026-02-03")] } == expected)
  }

  @Test func refusesOptionsThatContradictEachOther() {
    func refused(_ change: (inout Split) -> Void) -> String? {
      var split = Split()
      change(&split)
      do {
        try split.validate()
        return nil
      } catch let error as OptionError {
        return error.option
      } catch {
        return "\(error)"
      }
    }
    #expect(refused { $0.group = .regex } == "pattern")
    #expect(refused { $0.pattern = ".*" } == "pattern")
    #expect(refused { ($0.group, $0.pattern) = (.regex, "(") } == "pattern")
    #expect(refused { ($0.group, $0.pattern) = (.regex, "[a-") } == "pattern")
    #expect(refused { ($0.valid, $0.test) = (0.5, 0.5) } == "test")
    #expect(refused { ($0.group, $0.pattern, $0.stratify) = (.regex, "^[^_]+", .format) } == nil)
  }
}
