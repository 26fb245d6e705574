import Testing

@testable import Steps

@Suite struct SpellingTests {
  private let names = ["align", "decimate", "resample-depth", "resize-image", "split", "split-at-gaps", "run", "plan"]

  @Test(arguments: [
    ("resize", "resize-image"), ("decimat", "decimate"), ("algin", "align"), ("spilt", "split"), ("image", "resize-image"),
    ("Align", "align"), ("rnu", "run"), ("resize-imgae", "resize-image"),
  ]) func findsWhatWasMeant(word: String, name: String) { #expect(Spelling.nearest(to: word, among: names) == name) }

  @Test(arguments: ["xyz", "a", "", "resample-image-depth-maps", "pan-or-tilt"]) func isSilentWhereNothingIsNear(word: String) {
    #expect(Spelling.nearest(to: word, among: names) == nil)
  }

  @Test func doesNotChooseBetweenTwo() { #expect(Spelling.nearest(to: "mode-c", among: ["mode-a", "mode-b"]) == nil) }

  @Test func countsEdits() {
    for (a, b, count) in [("kitten", "sitting", 3), ("ab", "ba", 1), ("", "abc", 3), ("same", "same", 0), ("rnu", "run", 1)] {
      #expect(Spelling.distance(Array(a), Array(b)) == count)
      #expect(Spelling.distance(Array(b), Array(a)) == count)
    }
  }
}
