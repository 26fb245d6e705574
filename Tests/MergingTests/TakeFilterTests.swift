import Evidence
import Model
import Testing

@testable import Datasets
@testable import Merging

@Suite struct TakeFilterTests {
  /// A written take of 100 frames with a jump of the pose, in train.
  private func subject() -> TakeFilter.Subject {
    var record = TakeRecord(
      id: EpisodeID(take: "a b", part: 0), reader: "stack-session", outcome: .written,
      findings: [Finding(.poseJump, "one"), Finding(.framesDropped, "two")])
    record.variant = "v2"
    record.streams = [.init(name: "joints", samples: 3, rateHz: nil, clock: .phoneUnix)]
    record.output = OutputRecord(
      path: "episodes/a.h5", bytes: 1, samples: 100,
      arrays: ["/data/demo_0/obs/joints", "/meta/demo_0/intrinsics"].map {
        ArrayRecord(path: $0, dtype: "<f4", shape: [100, 4], chunk: nil, filters: [])
      },
      structureDigest: Digest.of(""), attributesDigest: Digest.of(""))
    return TakeFilter.Subject(record: record, split: "train") { 2.5 }
  }

  @Test(arguments: [
    ("id = 'a b.0'", true), ("id = \"a b\"", false), ("take = 'a b'", true), ("id ~ 'a*.0'", true), ("id ~ 'a*.1'", false),
    ("part = 0 and frames == 100", true), ("frames > 100", false), ("frames >= 100", true), ("frames < 100", false),
    ("frames <= 1e2", true),
    ("frames != 100", false), ("seconds > 2.4 and seconds < 2.6", true), ("reader != slow-motion-video", true), ("variant = v2", true),
    ("split = test", false),
    ("streams has joints", true), ("streams has pose", false), ("streams has intrinsics", true),
    ("streams has camera_depth_intrinsics", false), ("findings has pose-jump", true), ("not findings has pose-jump", false),
    ("outcome=written", true), ("outcome=failed or outcome=written", true),
    ("outcome ~ w*", true), ("outcome ~ f*", false),
    // `and` binds more tightly than `or`, and `not` most tightly.
    ("frames > 1 or frames > 1 and frames > 1000", true), ("(frames > 1 or frames > 1) and frames > 1000", false),
    ("not frames > 1000 and frames > 1", true), ("not (frames > 1000 and frames > 1)", true), ("not not frames > 1", true),
  ])
  func condition(_ text: String, _ expected: Bool) throws {
    #expect(try TakeFilter(text).matches(subject()) == expected)
  }

  @Test func whatATakeLacksIsUnequal() throws {
    let rejected = TakeFilter.Subject(
      record: TakeRecord(id: EpisodeID(take: "x"), reader: nil, outcome: .rejected, findings: []), split: nil
    ) { nil }
    #expect(try TakeFilter("part != 0 and seconds != 1 and split != train and frames = 0").matches(rejected))
    #expect(try !TakeFilter("part = 0 or seconds > 0 or seconds <= 0 or variant ~ '*'").matches(rejected))
  }

  @Test func secondsAreReadOnlyWhereTheyAreNeeded() throws {
    let unread = TakeFilter.Subject(record: subject().record, split: nil) {
      Issue.record("the shard was read")
      return nil
    }
    #expect(try TakeFilter("frames > 10").matches(unread))
    #expect(try !TakeFilter("frames > 1000 and seconds > 1").matches(unread))
  }

  @Test(arguments: ["streams has pse", "not streams has pse", "frames > 1 and not (streams has joints or not streams has pse)"])
  func aMisspelledStreamIsFoundAnywhere(_ text: String) throws {
    let sentence = try #require(try TakeFilter(text).misspelledStream(among: ["pose", "joints"]))
    #expect(sentence.contains("no take has a stream pse") && sentence.contains("did you mean pose?"))
    #expect(try TakeFilter("not streams has pose").misspelledStream(among: ["pose"]) == nil)
  }

  /// As a program makes it of a list of ids.
  @Test func conditionsMayHaveAnyNumberOfComparisons() throws {
    let ids = (0..<20_000).map { "id = take-\($0)" }
    #expect(try !TakeFilter(ids.joined(separator: " or ")).matches(subject()))
    #expect(try TakeFilter(ids.map { "not " + $0 }.joined(separator: " and ")).matches(subject()))
  }

  @Test(arguments: [
    ("frames > 3 and", "column 15: expected a field"), ("frames 3", "column 8: expected = or"),
    ("frames > 3) ", "column 11: expected and, or"),
    ("id = (", "column 6: expected a value"), ("'frames' > 3", "column 1: there is no field"),
    ("frames > \"3", "column 10: the quote has no end"),
    ("streams = joints", "column 9: expected has after streams"), ("and", "column 1: there is no field and"),
    ("frames > many", "expected a number, found many"), ("frames has 3", "expected = or != or < or <= or > or >= after frames, found has"),
    ("frames > 0x10", "expected a number"), ("frames > nan", "expected a number"), ("frames > 1_0", "expected a number"),
    ("seconds < inf", "expected a number"), ("frames > 010", "expected a number"),
    ("outcome = wirtten", "there is no outcome wirtten (written, rejected, failed); did you mean written?"),
    ("split != vaild", "there is no split vaild (train, valid, test); did you mean valid?"),
    ("reader != movei", "there is no reader movei"), ("findings has pose-jmup", "did you mean pose-jump?"),
    ("frames > 3 frames", "expected and, or, or the end, found frames"), ("(frames > 3", "column 12: expected )"),
    ("id = 'x", "column 6: the quote has no end"), ("frames >", "expected a value after >"), ("", "column 1: expected a field"),
  ])
  func mistakesNameTheirPlace(_ text: String, _ words: String) {
    #expect {
      try TakeFilter(text)
    } throws: {
      "\($0)".contains(words)
    }
  }
}
