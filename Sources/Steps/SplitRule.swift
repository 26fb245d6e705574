package import Model

/// A step that divides the takes of a dataset into parts.
package protocol SplitRule: Transform {
  /// The group of a take by its id and origin. Made once for all takes: it may compile a pattern.
  var grouping: (_ take: String, _ origin: TakeOrigin) -> String { get }
  /// The part of each take. Takes of one group are in one part, also new ones with those that have a part already.
  func assign(_ takes: [SplitTake]) -> [SplitPart]
  /// Findings about these parts, such as one that should have takes and has none.
  func findings(_ takes: [SplitTake], _ parts: [SplitPart]) -> [Finding]
  /// The rule in words, for the manifest.
  var words: String { get }
  var seed: Int { get }
  /// Whether the shares hold within each task, which is then the variant of the origin that `grouping` gets.
  var stratifiesByTask: Bool { get }
}

extension SplitRule {
  package static var concernsIndexOnly: Bool { true }
  package var stratifiesByTask: Bool { false }
  /// Returns the episode unchanged: the rule concerns the index.
  package func apply(to episode: Episode, in context: RunContext) throws -> Episode { episode }
}

/// A part of a dataset, stored as the mask of that name.
package enum SplitPart: String, Sendable, CaseIterable { case train, valid, test }

/// A take that is to be in a part of the dataset.
package struct SplitTake: Sendable {
  /// The group that the rule gave it, or else its id.
  package var group: String
  /// The reader that opened it.
  package var reader: String
  /// Its id.
  package var id: String
  /// The part that it has already, and keeps.
  package var part: SplitPart?

  package init(group: String, reader: String, id: String = "", part: SplitPart? = nil) {
    (self.group, self.reader, self.id, self.part) = (group, reader, id, part)
  }
}
