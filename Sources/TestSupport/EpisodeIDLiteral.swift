package import Model

/// `"a"` is the take a, `"a.1"` its second episode: names of test takes have no dots of their own.
extension EpisodeID: ExpressibleByStringLiteral {
  package init(stringLiteral text: String) { self = EpisodeID(ofPart: text) ?? EpisodeID(take: text) }
}
