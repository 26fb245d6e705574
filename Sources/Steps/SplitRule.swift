package import Model

/// A transform that also divides the takes of a dataset into parts.
package protocol SplitRule: Transform {
  /// The part of each take. Takes of one group are in one part, also new ones with those that have a part already.
  func assign(_ takes: [SplitTake]) -> [SplitPart]
  /// Findings about these parts, such as one that should have takes and has none.
  func findings(_ takes: [SplitTake], _ parts: [SplitPart]) -> [Finding]
  /// Whether takes of one directory are a group.
  var groupsByFolder: Bool { get }
  /// The rule in words, for the manifest.
  var words: String { get }
  var seed: Int { get }
}

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
