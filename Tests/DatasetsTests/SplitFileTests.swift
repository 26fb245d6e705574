import Evidence
import Model
import Testing
import TestSupport

@testable import Datasets
@testable import Steps
@testable import Transforms

@Suite struct SplitFileTests {
  private func file(_ text: String) throws -> SplitFile { try SplitFile(Array(text.utf8), name: "splits.yaml") }

  private func mistake(_ text: String) -> String {
    do {
      _ = try file(text)
      return "none"
    } catch {
      return "\(error)"
    }
  }

  // MARK: Reading

  @Test(arguments: [
    "train: [a, b]\nvalid: [c]\ntest: []\n",
    "valid:\n  - c\ntrain:\n- a\n- b\n",
    "{\"train\": [\"a\", \"b\"], \"valid\": [\"c\"], \"test\": []}",
    "{\n\t\"valid\": [\"c\"],\n\t\"train\": [\n\t\t\"a\", \"b\"\n\t]\n}",
  ])
  func readsYAMLAndJSON(text: String) throws {
    #expect(try file(text).parts == ["a": .train, "b": .train, "c": .valid])
    #expect(try file(text).digest == Digest.of(text))
  }

  @Test func anIdIsWhatIsWritten() throws {
    #expect(
      try file("train: [007, 2026-02-03, 1.50, yes, 'null', \"~\", 0x10, é]").parts.keys.sorted()
        == ["007", "0x10", "1.50", "2026-02-03", "null", "yes", "~", "é"])
    #expect(try file(#"{"train": ["caf\u00e9", "\ud83d\ude00", "a\/b"]}"#).parts.keys.sorted() == ["a/b", "café", "😀"])
  }

  @Test(arguments: [
    ("", "splits.yaml: the file is empty; expected an object of the lists"), ("# nothing\n", "the file is empty"),
    ("[a, b]", "splits.yaml: expected an object of the lists"), ("train", "expected an object"),
    ("train: [a]\nvalidation: [b]\n", "validation: unknown key; a split file has \"train\", \"valid\", \"test\""),
    ("trian: [a]\n", "did you mean \"train\"?"), ("trian: [a]\n", "(line 1, column 1)"),
    ("train: a\n", "train: expected a list of ids"), ("train: {a: 1}\n", "train: expected a list"), ("train:\n", "train: expected a list"),
    ("train: [a, [b]]\n", "train[1]: expected the id of a take"), ("train: [a, null]\n", "train[1]: expected the id"),
    ("train: ['']\n", "train[0]: expected the id"),
    ("train: [a, b]\nvalid:\n  - c\n  - b\n", "valid[1]: b is in train too (train[1]) (line 4"),
    ("train: [a]\ntrain: [b]\n", "train: the key is given twice (line 1"), ("train: [a\n", "not YAML"),
    ("{\"train\": [\"\\ud83d\\ude00\"], \"x\": []}", "x: unknown key"),
    ("{\"train\": [\"\\ud83d\\ude00\", 3]}", "train[1]: expected the id"),
  ])
  func mistakesAreNamedByTheirPlace(text: String, words: String) {
    let message = mistake(text)
    #expect(message.hasPrefix("splits.yaml: ") && message.contains(words), "\(message)")
  }

  @Test func aNameTwiceInOnePartIsOne() throws { #expect(try file("valid: [a, a]").parts == ["a": .valid]) }

  // MARK: Episodes of one take

  @Test(arguments: ["{train: [a.0], valid: [a.1]}", "{train: [a], test: [a.0]}", "{valid: [a.10], train: [a]}"])
  func episodesOfOneTakeBelongTogether(text: String) throws {
    let split = try file(text)
    #expect(throws: UsageError.self) { try split.check(["a", "b"]) }
    // Takes may have such names themselves.
    try split.check(["a.0", "a.1", "a.10"])
    try split.check(["b"])
  }

  @Test func takesWithNumbersInTheirNamesAreTakes() throws {
    let split = try file("{train: [a, a.x], valid: [a.1, a.1.0, a.1.1]}")
    try split.check(["a", "a.1", "a.x"])
  }

  @Test func aTakesNameMayHaveDotsBeforeTheEpisodesNumber() throws {
    let file = try file("{train: [day.2.a.0], valid: [day.2.a.1]}")
    let error = #expect(throws: UsageError.self) { try file.check(["day.2.a"]) }
    #expect(error?.message.contains("day.2.a.1 is in valid, day.2.a.0 in train") == true)
    // Neither name is an episode of this take.
    try file.check(["day", "day.2"])
    let episodes = (0..<2).map { EpisodeID(take: "day.2.a", part: $0) }
    let split = try split("{valid: [day.2.a.1]}", episodes + [EpisodeID(take: "day.2.b")])
    #expect(split.parts == [.valid, .valid, .train])
  }

  // MARK: Dividing a dataset

  private func split(_ text: String, _ episodes: [EpisodeID]) throws -> DatasetSplit {
    DatasetSplit(
      episodes.map { DatasetSplit.Episode(id: $0, reader: "stack-session", group: nil) }, rule: Split(),
      file: try file(text))
  }

  private func takes(_ ids: String...) -> [EpisodeID] { ids.map { EpisodeID(take: $0) } }

  private func words(_ split: DatasetSplit) -> [String] {
    split.findings.map { "\($0.severity.rawValue) \($0.code.rawValue) \($0.count ?? 0): \($0.message)" }
  }

  @Test func replacesTheRule() throws {
    let split = try split("{train: [a, b], valid: [c], test: [d]}", takes("a", "b", "c", "d"))
    #expect(split.parts == [.train, .train, .valid, .test])
    #expect(split.rule == "file" && split.seed == nil && split.fileDigest != nil && split.findings.isEmpty)
  }

  @Test func namesTakesThatAreNotListedOrDoNotExist() throws {
    let split = try split("{train: [a, x1, x2], valid: [c, x3, x3, x4]}", takes("a", "b", "c", "d"))
    #expect(split.parts == [.train, .train, .valid, .train])
    #expect(
      words(split) == [
        "warning split-file-unlisted 2: takes that the split file does not name are in train: b, d",
        "warning split-file-unknown 4: names in the split file that no take of the dataset has: x1, x2, x3 and 1 more",
      ])
  }

  @Test(arguments: ["{valid: [a]}", "{valid: [a.0, a.1]}", "{valid: [a.1]}", "{valid: [a.0, a], train: []}"])
  func keepsTheEpisodesOfATakeTogether(text: String) throws {
    let split = try split(text, ["a.0", "a.1", "b.0"])
    #expect(split.parts == [.valid, .valid, .train])
    #expect(split.findings.map(\.code) == [.splitFileUnlisted])
  }

  @Test func namesAnEpisodeThatATakeDoesNotHave() throws {
    let split = try split("{valid: [a.0, a.2], train: [b]}", ["a.0", "a.1", "b.0"])
    #expect(words(split) == ["warning split-file-unknown 1: names in the split file that no take of the dataset has: a.2"])
  }

  @Test func reportsPartsThatAreEmptyThough() throws {
    #expect(try split("{train: [a], valid: [x]}", takes("a")).findings.map(\.code) == [.splitFileUnknown, .splitEmpty])
    #expect(try split("{valid: [a]}", takes("a")).findings.map(\.code) == [.splitEmpty])
    #expect(try split("{train: [a], valid: []}", takes("a")).findings.isEmpty)
    #expect(try split("{train: [a]}", []).findings.map(\.code) == [.splitFileUnknown])
  }

  // MARK: The rule

  @Test func aRuleCountsATakeOnceAndKeepsItsEpisodesTogether() {
    var rule = Split()
    (rule.group, rule.valid) = (.take, 0.5)
    var episodes = (0..<40).map { DatasetSplit.Episode(id: EpisodeID(take: "a", part: $0), reader: "stack-session", group: "a") }
    episodes += ["b", "c", "d"].map { DatasetSplit.Episode(id: EpisodeID(take: $0, part: 0), reader: "stack-session", group: $0) }
    for seed in 0..<10 {
      rule.seed = seed
      let split = DatasetSplit(episodes, rule: rule, file: nil)
      #expect(Set(split.parts[..<40]).count == 1)
      #expect([split.parts[0], split.parts[40], split.parts[41], split.parts[42]].count { $0 == .valid } == 2)
      #expect(split.rule == "by take: valid 0.5, test 0.0" && split.seed == seed && split.findings.isEmpty)
    }
  }

  @Test func withoutARuleEverythingIsInTrain() {
    let split = DatasetSplit(
      [DatasetSplit.Episode(id: "a", reader: "stack-session", group: nil)], rule: nil, file: nil)
    #expect(split.parts == [.train] && split.rule == "none: all in train" && split.seed == nil && split.findings.isEmpty)
  }
}
