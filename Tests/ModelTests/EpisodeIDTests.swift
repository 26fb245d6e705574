import Testing

@testable import Model

@Suite struct EpisodeIDTests {
  @Test func textIsTheTakeWithTheNumberOfTheEpisode() {
    #expect(EpisodeID(take: "a").text == "a" && "\(EpisodeID(take: "a.b", part: 12))" == "a.b.12")
  }

  @Test(arguments: [("a.0", "a", 0), ("a.b.12", "a.b", 12), (".1", "", 1)])
  func textOfAnEpisodeIsReadBack(_ text: String, _ take: String, _ part: Int) {
    #expect(EpisodeID(ofPart: text) == EpisodeID(take: take, part: part))
  }

  @Test(arguments: ["a", "a.", "a.b", "a.01", "a.+1", "a.-1", "a.1 ", "a.١", "a.99999999999999999999"])
  func otherTextIsNoEpisodeOfASplitTake(_ text: String) { #expect(EpisodeID(ofPart: text) == nil) }

  /// A take may be named as if it were the episode of another.
  @Test func aTakesOwnNameComesFirst() {
    #expect(EpisodeID("a.0", among: ["a", "a.0"]) == EpisodeID(take: "a.0"))
    #expect(EpisodeID("a.0", among: ["a"]) == EpisodeID(take: "a", part: 0))
    #expect(EpisodeID("a.0", among: ["b"]) == nil)
  }

  @Test func episodesAreOrderedAsNumbersAndTakesByBytes() {
    let ids = [("a", nil), ("a", 2), ("a", 10), ("a.b", nil), ("b", 0), ("ä", nil)].map { EpisodeID(take: $0, part: $1) }
    #expect(ids.shuffled().sorted() == ids)
  }
}
