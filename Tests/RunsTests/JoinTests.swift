import Evidence
import Steps
import Testing

@testable import Runs

@Suite struct JoinTests {
  private func pipeline(_ join: String) throws -> Pipeline {
    try PipelineFile.parse("version: 1\njoin: \(join)\ntransforms: [align]\n")
  }

  @Test(arguments: [
    ("*-left", "pick-left", ["pick"]), ("left_*", "left_pick", ["pick"]), ("left", "left", []), ("*", "", [""]), ("*", "any", ["any"]),
    ("a*b*c", "a1b2c", ["1", "2"]), ("a*b*c", "abbc", ["", "b"]), ("*a*", "banana", ["b", "nana"]), ("a*a", "a", nil),
    ("*-left", "-left", [""]),
    ("*-left", "pick-right", nil), ("left", "left2", nil), ("a*b*c", "acb", nil), ("**x", "yx", ["", "y"]),
  ]) func aStarIsAnyText(_ pattern: String, _ name: String, _ parts: [String]?) {
    #expect(NamePattern(pattern).parts(of: name) == parts)
  }

  @Test func theFirstMemberOfTheFileIsTheReference() throws {
    #expect(try pipeline("{members: {right: r*, head: h*, left: l*}}").join?.reference == "right")
    #expect(try pipeline("{members: {right: r*, head: h*}, reference: head}").join?.reference == "head")
    #expect(try pipeline("{\"members\": {\"z\": \"z*\", \"a\": \"a*\"}}").join?.reference == "z")
  }

  @Test func theCanonicalFormIsReadAgain() throws {
    let first = try pipeline("{by: name, members: {left: \"*-l\", right: \"*-r\"}, incomplete: keep, offset: {right: -0.25}}")
    let again = try PipelineFile.parse(first.canonical().canonicalText)
    #expect(again.join == first.join && again.digest() == first.digest())
    #expect(first.conversionDigest() != (try PipelineFile.parse("{version: 1, transforms: [align]}")).conversionDigest())
  }

  @Test(arguments: [
    ("{members: {}}", "join.members"), ("{by: session}", "join.members"), ("[a]", "join"), ("{members: {Left: x}}", "join.members.Left"),
    ("{members: {left_hand: x}}", "join.members.left_hand"), ("{members: {left: 3}}", "join.members.left"),
    ("{members: {left: x}, by: place}", "join.by"), ("{members: {left: x}, incomplete: maybe}", "join.incomplete"),
    ("{members: {left: x}, reference: right}", "join.reference"), ("{members: {left: x}, offset: {right: 1}}", "join.offset.right"),
    ("{members: {left: x}, offset: 5}", "join.offset"), ("{members: {left: x}, reference: 5}", "join.reference"),
    ("{members: {left: x}, offset: {left: 4000}}", "join.offset.left"), ("{members: {left: x}, refrence: left}", "join.refrence"),
  ]) func aMistakeIsNamedByItsPlace(_ join: String, _ path: String) {
    let error = #expect(throws: PipelineFileError.self) { try pipeline(join) }
    #expect(error?.path == path)
  }

  @Test func aPipelineCannotNameTheReaderOfJoinedTakes() {
    #expect(throws: PipelineFileError.self) { try PipelineFile.parse("{version: 1, reader: join, transforms: [align]}") }
    #expect(throws: PipelineFileError.self) { try PipelineFile.parse("{version: 1, reader: {name: join}, transforms: [align]}") }
  }

  @Test(arguments: ["reference-compatible", "correlate-joints"]) func clocksOfOnePhoneAreNotOfSeveral(_ option: String) {
    let error = #expect(throws: PipelineFileError.self) {
      try PipelineFile.parse("{version: 1, join: {members: {left: l*}}, transforms: [align: {\(option): true}]}")
    }
    #expect(error?.path == "transforms[0].align.\(option)")
  }

  @Test func membersActOnlyWhereTakesAreJoined() throws {
    for (step, path) in [("actions: {of: [left]}", "actions.of"), ("crop: {aspect: 1, member: left}", "crop.member")] {
      let error = #expect(throws: PipelineFileError.self) { try PipelineFile.parse("{version: 1, transforms: [align, {\(step)}]}") }
      #expect(error?.path == "transforms[1].\(path)")
    }
    let other = #expect(throws: PipelineFileError.self) {
      try PipelineFile.parse("{version: 1, join: {members: {left: l*}}, transforms: [align, {crop: {aspect: 1, member: lefty}}]}")
    }
    #expect(other?.message.contains("did you mean left?") == true)
    let steps = "[align, {actions: {of: [left]}}]"
    #expect(try PipelineFile.parse("{version: 1, join: {members: {left: l*}}, transforms: \(steps)}").join != nil)
  }

  /// Takes of members from one second to another, and those that belong together.
  @Test(arguments: [
    ("a0-10 b1-11", "0,1"), ("a0-10 b3-13", "0 1"),  // 7 of 10 s
    ("a0-60 b58-62 b20-30", "0,2 1"), ("a0-10 a0-10 b20-30", "0 1 2"),  // one phone records one take at a time
    ("c2-12 a0-10 b1-11", "0,1,2"), ("c4-14 a0-10 b2-12", "0,1,2"),  // a and c by b
    ("a0-60 b0-10 b50-60", "0,1,2"),  // neither can be chosen
    ("b5-5 a0-10", "0,1"), ("", ""),
  ]) func takesOfOneMomentOverlap(_ takes: String, _ parts: String) {
    let spans = takes.split(separator: " ").map { take -> (member: String, span: UnixSpan) in
      let seconds = take.dropFirst().split(separator: "-").compactMap { Int64($0) }
      return (String(take.prefix(1)), UnixSpan(first: seconds[0] * 1_000_000_000, last: seconds[1] * 1_000_000_000))
    }
    let found = TakeMoments.parts(spans).map { part in part.map { "\($0)" }.joined(separator: ",") }
    #expect(found.joined(separator: " ") == parts)
  }
}
