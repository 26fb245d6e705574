package import Model

/// Divides the takes into training, validation and test sets. Takes of one group stay together: frames of one day in one room look alike,
/// and a model must not be validated on what it has seen.
///
///     - split: {valid: 0.1, test: 0, group: day, seed: 0}
///
/// Groups are put in an order that depends only on the seed and their names. From its start, complete groups go to `valid` until it has
/// its share of the takes, then to `test`; the rest is `train`, which never ends up empty. A share above 0 gets at least one group when
/// there are enough.
package struct Split: SplitRule {
  package static let name = "split"
  package static let summary = "Divides takes into train, valid and test masks by complete groups"

  package enum Group: String, OptionChoice { case day, take }

  @Option("share of the takes for validation", 0...1) var valid = 0.1
  @Option("share of the takes for testing", 0...1) var test = 0.0
  @Option("day: takes of one day stay together; take: each take is drawn independently") var group = Group.day
  @Option("changes which groups are drawn", -(1 << 52)...(1 << 52)) package var seed = 0

  package init() {}

  package func validate() throws {
    if valid + test >= 1 { throw OptionError("test", "valid and test together leave nothing to train on") }
  }

  package func apply(to episode: Episode, in context: RunContext) throws -> Episode {
    var grouped = episode
    grouped.splitGroup =
      switch group {
      case .day: episode.day ?? episode.id
      case .take: episode.id
      }
    return grouped
  }

  package var words: String { "by \(group.rawValue): valid \(valid), test \(test)" }

  package func assign(_ groups: [String]) -> [SplitPart] {
    let sizes = Dictionary(groups.map { ($0, 1) }, uniquingKeysWith: +)
    let order = sizes.keys.map { (Digest.of("\(seed)\n\($0)").description, $0) }.sorted { $0 < $1 }.map(\.1)
    var parts: [String: SplitPart] = [:]
    var rest = order[...]
    for (part, share) in [(SplitPart.valid, valid), (.test, test)] where share > 0 {
      let wanted = share * Double(groups.count)
      var taken = 0
      // At least one group is left to train on. A group is added when it brings the share nearer.
      while rest.count > 1, let group = rest.first, let size = sizes[group],
        taken == 0 || Double(taken) + Double(size) / 2 <= wanted
      {
        parts[group] = part
        taken += size
        rest = rest.dropFirst()
      }
    }
    return groups.map { parts[$0] ?? .train }
  }
}
