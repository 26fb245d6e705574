/// The id of an episode: its take's, with the episode's number where a step has split the take.
/// Its text is the take's id, or `take.0`, `take.1` and so on. A take's own name may end like that too, so text alone does not tell; see
/// `init(_:among:)`.
package struct EpisodeID: Hashable, Sendable {
  package var take: String
  /// The number of the episode among those of its take, from 0; `nil` where the take was not split.
  package var part: Int?

  package init(take: String, part: Int? = nil) { (self.take, self.part) = (take, part) }

  /// Text as an episode of a take that was split, if it has that form.
  package init?(ofPart text: String) {
    guard let dot = text.lastIndex(of: "."), case let digits = text[text.index(after: dot)...], let part = Int(digits), part >= 0,
      "\(part)" == digits
    else { return nil }
    self.init(take: String(text[..<dot]), part: part)
  }

  /// Text as one of these takes, or as an episode of one.
  package init?(_ text: String, among takes: Set<String>) {
    if takes.contains(text) {
      self.init(take: text)
    } else {
      guard let id = EpisodeID(ofPart: text), takes.contains(id.take) else { return nil }
      self = id
    }
  }
}

extension EpisodeID: CustomStringConvertible {
  package var text: String { part.map { "\(take).\($0)" } ?? take }
  package var description: String { text }
}

extension EpisodeID: Comparable {
  /// Orders by take, and then by number, so that episode 10 of a take comes after its episode 9.
  package static func < (a: Self, b: Self) -> Bool {
    a.take == b.take ? (a.part ?? -1) < (b.part ?? -1) : a.take.utf8.lexicographicallyPrecedes(b.take.utf8)
  }
}
