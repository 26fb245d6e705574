import Evidence
import Model
import Testing

@testable import Datasets

@Suite struct LabelsTests {
  private func segment(_ start: Double, _ end: Double, _ text: String) -> JSONValue {
    ["start": .number(start), "end": .number(end), "text": .string(text)]
  }

  // MARK: Sources

  @Test func theLaterSourceWinsNameByName() {
    var labels = Labels()
    labels.set(["task": "a", "success": true, "mass": 2], from: "one")
    labels.set(["task": "b", "success": .null], from: "two")
    #expect(labels.task == "b" && labels.success == nil && labels.others.map(\.name) == ["mass"])
    #expect(labels.sources == ["task": "two", "success": "two", "mass": "one"])
    #expect(!labels.isEmpty && Labels().isEmpty)
  }

  @Test func aRecordIsReadBack() {
    var labels = Labels()
    labels.set(["task": "a", "tags": ["x"], "mass": .number(0.5), "success": .null, "segments": [segment(0, 1, "s")]], from: "one")
    labels.place(in: [0, 500_000_000, 1_000_000_000])
    let read = Labels(recorded: labels.json)
    #expect(read.segments == labels.segments && read.sources == labels.sources && read.values == labels.values)
    #expect(read.json == labels.json)
  }

  // MARK: Rows

  /// The rows of a segment are those whose times lie in it, compared with looking at each row.
  @Test func rowsOfSegments() {
    var random = SystemRandomNumberGenerator()
    for _ in 0..<300 {
      var time: Int64 = Int64.random(in: -1_000_000_000...1_000_000_000, using: &random)
      let times = (0..<Int.random(in: 0...40, using: &random)).map { _ -> Int64 in
        time += Int64.random(in: 1...60_000_000, using: &random)
        return time
      }
      let start = (Double.random(in: -2...3, using: &random) * 1e9).rounded() / 1e9
      let end = (start + Double.random(in: 1e-9...2, using: &random)).rounded(.up)
      var labels = Labels()
      labels.set(["segments": [segment(start, end, "x")]], from: "one")
      labels.place(in: times)
      let wanted = times.indices.filter { times[$0] >= Int64((start * 1e9).rounded()) && times[$0] < Int64((end * 1e9).rounded()) }
      #expect(labels.segments.flatMap { Array($0.rows) } == wanted)
    }
  }

  @Test func aRowHasTheTextOfItsLastSegmentOrTheTask() {
    var labels = Labels()
    labels.set(["task": "all", "segments": [segment(0, 3, "a"), segment(1, 2, "b")]], from: "one")
    labels.place(in: [0, 1_000_000_000, 2_000_000_000, 3_000_000_000])
    #expect((0..<4).map { labels.text(ofRow: $0) } == ["a", "b", "a", "all"])
    // Both begin before the first row of this part of the take: the later one counts.
    labels.set(["segments": [segment(0.3, 1.8, "later"), segment(0.1, 1.9, "first")]], from: "one")
    labels.place(in: [1_000_000_000, 1_850_000_000])
    #expect((0..<2).map { labels.text(ofRow: $0) } == ["later", "first"])
  }

  // MARK: Values

  private static let wrong: [(String, JSONValue, String)] = [
    ("task", 3, "task: expected a text, found a number"), ("task", "", "task: expected a text of 1 to 4096 bytes, found none"),
    ("success", "yes", "success: expected true or false, found yes"),
    ("tags", ["a", 1], "tags: expected a list of texts, found a number in it"),
    ("mass", [1], "mass: expected a text, a number, or true or false, found a list"),
    ("sources", "x", "sources is no name of a label; expected task, success, tags, segments or a name such as robot_id"),
    ("9a", 1, "9a is no name of a label; expected task, success, tags, segments or a name such as robot_id"),
    ("segments", [["start": 0, "end": 1]], "segments: expected start and end in seconds and a text"),
    ("segments", [["start": 1, "end": 1, "text": "x"]], "segments: a segment starts at 1.0 s and ends at 1.0 s"),
    ("segments", [["start": 0, "end": 1, "text": "x", "success": 1]], "segments: success: expected true or false, found a number"),
  ]

  @Test(arguments: wrong)
  func mistakes(name: String, value: JSONValue, words: String) {
    do {
      _ = try LabelValue.checked(name, value)
      Issue.record("\(name) was accepted")
    } catch {
      #expect("\(error)" == words)
    }
  }

  @Test func fieldsOfTables() {
    let fields: [(String, String, JSONValue)] = [
      ("task", "7", "7"), ("tags", "a; b;", ["a", "b"]), ("success", "TRUE", true), ("success", "none", .null), ("n", "1e3", .number(1000)),
      ("n", "-7", -7), ("n", "true", true), ("n", "1 2", "1 2"), ("n", "NaN", "NaN"), ("n", "[1]", "[1]"),
    ]
    for (name, text, value) in fields { #expect(LabelValue.ofField(text, name) == value, "\(name) \(text)") }
  }

  // MARK: Files

  private func file(_ text: String, _ name: String = "labels.csv", isOfOneTake: Bool = false) -> LabelFile {
    LabelFile(Array(text.utf8), name: name, isOfOneTake: isOfOneTake)
  }

  @Test func patternsAndEpisodes() {
    let labels = file("take,task,start,end,text\na*,1,,,\na.b,2,,,\na.b.1,3,0,1,x\n*.1,,1,2,y\n[a],4,,,\n")
    let names = LabelFile.Names(labels)
    func task(_ id: EpisodeID) -> String? { labels.values(of: id, using: names).values["task"]?.string }
    #expect(task(EpisodeID(take: "abc")) == "1" && task(EpisodeID(take: "a.b")) == "2" && task(EpisodeID(take: "a.b", part: 0)) == "2")
    #expect(task(EpisodeID(take: "a.b", part: 1)) == "3" && task(EpisodeID(take: "[a]")) == "4" && task(EpisodeID(take: "b")) == nil)
    let segments = labels.values(of: EpisodeID(take: "a.b", part: 1), using: names).values["segments"]?.array
    #expect(segments?.compactMap { $0["text"]?.string } == ["x", "y"])
  }

  @Test func yamlAndJSON() {
    let texts = ["a: {task: x}\n'*': {mass: 1}\n", "{\"a\": {\"task\": \"x\"},\n\"*\": {\"mass\": 1}}"]
    for text in texts {
      let labels = file(text, "labels.yaml")
      #expect(labels.mistakes.isEmpty && labels.lines.map(\.name) == ["a", "*"] && labels.lines[1].values == ["mass": 1])
    }
    let escaped = file(#"{"a": {"task": "\ud83d\ude00"}}"#, "labels.json")
    #expect(escaped.lines[0].values == ["task": "😀"])
    #expect(
      file("- a\n", "labels.yaml").mistakes == [
        LabelFile.Mistake(line: nil, message: "expected an object with the labels of each take, found a list")
      ])
    #expect(file("task: &a x\nplace: *a\n", "labels.yaml", isOfOneTake: true).mistakes.first?.line == 2)
  }
}
