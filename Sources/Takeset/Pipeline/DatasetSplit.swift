import Evidence
import Model

/// The division of a dataset's episodes into parts, by a split file or else by the pipeline's rule.
struct DatasetSplit {
  /// An episode of the dataset.
  struct Episode {
    var id: String
    /// The id of its take.
    var take: String
    var reader: String
    /// The group that the rule gave it.
    var group: String?
    /// Digest of the take's files: takes with the same one are copies of one recording.
    var content: String?
  }

  /// The part of each episode.
  private(set) var parts: [SplitPart]
  private(set) var findings: [Finding] = []
  /// The rule in words, for the manifest.
  let rule: String
  let seed: Int?
  /// Digest of the split file.
  var fileDigest: Digest?

  init(_ episodes: [Episode], rule: (any SplitRule)?, file: SplitFile?) {
    if let file {
      (self.rule, seed, fileDigest) = ("file", nil, file.digest)
      parts = []
      assign(episodes, file)
    } else if let rule {
      (self.rule, seed) = (rule.words, rule.seed)
      // A take counts once, however many episodes it has.
      let takes = Dictionary(episodes.map { ($0.take, $0) }, uniquingKeysWith: { first, _ in first }).sorted { $0.key < $1.key }
      // Copies of one recording count once and stay together: what is learned must not be what is tested.
      let originals = Dictionary(takes.compactMap { take, episode in episode.content.map { ($0, take) } }) { first, _ in first }
      func original(_ episode: Episode) -> String { episode.content.flatMap { originals[$0] } ?? episode.take }
      let distinct = takes.filter { original($0.value) == $0.key }
      let members = distinct.map { SplitTake(group: $1.group ?? $0, reader: $1.reader, id: $0) }
      let assigned = rule.assign(members)
      let byTake = Dictionary(zip(distinct.map(\.key), assigned), uniquingKeysWith: { first, _ in first })
      parts = episodes.map { byTake[original($0)] ?? .train }
      findings = rule.findings(members, assigned)
    } else {
      (self.rule, seed) = ("none: all in train", nil)
      parts = episodes.map { _ in .train }
    }
    findings += Self.duplicates(episodes)
  }

  /// The parts that the episodes have in the datasets they come from.
  init(_ episodes: [Episode], keeping parts: [SplitPart]) {
    (self.parts, rule, seed) = (parts, "kept from the source datasets", nil)
    findings = Self.duplicates(episodes)
  }

  /// The takes whose files are those of another take.
  private static func duplicates(_ episodes: [Episode]) -> [Finding] {
    let takes = Dictionary(grouping: episodes.filter { $0.content != nil }, by: { $0.content ?? "" }).mapValues {
      Set($0.map(\.take)).sorted()
    }
    let copies = takes.values.filter { $0.count > 1 }.sorted { ($0.first ?? "") < ($1.first ?? "") }
    guard !copies.isEmpty else { return [] }
    let words = copies.map { "\($0.dropFirst().joined(separator: ", ")) of \($0[0])" }
    return [
      Finding(
        .duplicateContent, "takes with the same files as another one: \(words.abridged)", severity: .warning,
        count: copies.reduce(0) { $0 + $1.count - 1 })
    ]
  }

  private mutating func assign(_ episodes: [Episode], _ file: SplitFile) {
    let named = file.parts
    var byTake: [String: SplitPart] = [:]
    for episode in episodes { byTake[episode.take] = byTake[episode.take] ?? named[episode.take] ?? named[episode.id] }
    parts = episodes.map { byTake[$0.take] ?? .train }

    let takes = Set(episodes.map(\.take))
    let unlisted = takes.filter { byTake[$0] == nil }.sorted()
    if !unlisted.isEmpty {
      findings.append(
        Finding(
          .splitFileUnlisted, "takes that the split file does not name are in train: \(unlisted.abridged)", count: unlisted.count))
    }
    let known = takes.union(episodes.map(\.id))
    var seen = known
    let unknown = file.names.map(\.id).filter { seen.insert($0).inserted }
    if !unknown.isEmpty {
      findings.append(
        Finding(
          .splitFileUnknown, "names in the split file that no take of the dataset has: \(unknown.abridged)", count: unknown.count))
    }
    guard !episodes.isEmpty else { return }
    for part in SplitPart.allCases where !parts.contains(part) {
      let count = file.names.count { $0.part == part }
      if count > 0 {
        findings.append(Finding(.splitEmpty, "\(part.rawValue) is empty, because none of its \(count) names is a take of the dataset"))
      } else if part == .train {
        findings.append(Finding(.splitEmpty, "train is empty, because the split file puts every take elsewhere; there are no statistics"))
      }
    }
  }
}
