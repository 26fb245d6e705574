import Evidence
package import Model
package import Steps

/// The division of a dataset's episodes into parts, by a split file or else by the pipeline's rule.
package struct DatasetSplit {
  /// An episode of the dataset.
  package struct Episode {
    package var id: EpisodeID
    package var reader: String
    /// `nil` without a rule.
    package var group: String?
    /// Digest of the take's files: takes with the same one are copies of one recording.
    package var content: String?
    /// The `RecordingDigest`: takes with the same one are copies, too.
    package var recording: String?

    package init(id: EpisodeID, reader: String, group: String? = nil, content: String? = nil, recording: String? = nil) {
      (self.id, self.reader, self.group, self.content, self.recording) = (id, reader, group, content, recording)
    }
  }

  /// The part of each episode.
  package private(set) var parts: [SplitPart]
  package private(set) var findings: [Finding] = []
  /// The rule in words, for the manifest.
  let rule: String
  let seed: Int?
  /// Digest of the split file.
  var fileDigest: Digest?

  /// - Parameter earlier: The parts that takes have already and keep, by their ids; only for a rule.
  package init(_ episodes: [Episode], rule: (any SplitRule)?, file: SplitFile?, earlier: [String: SplitPart] = [:]) {
    if let file {
      (self.rule, seed, fileDigest) = ("file", nil, file.digest)
      parts = []
      assign(episodes, file)
    } else if let rule {
      (self.rule, seed) = (rule.words, rule.seed)
      // A take counts once, however many episodes it has.
      let takes = Dictionary(episodes.map { ($0.id.take, $0) }, uniquingKeysWith: { first, _ in first }).sorted { $0.key < $1.key }
      // Copies of one recording count once and stay together: what is learned must not be what is tested.
      let copies = Copies(takes.map(\.value))
      let distinct = takes.filter { copies.original(of: $0.key) == $0.key }
      let kept = Dictionary(
        takes.compactMap { take, _ in earlier[take].map { (copies.original(of: take), $0) } }, uniquingKeysWith: { first, _ in first })
      let members = distinct.map { SplitTake(group: $1.group ?? $0, reader: $1.reader, id: $0, part: kept[$0]) }
      let assigned = rule.assign(members)
      let byTake = Dictionary(zip(distinct.map(\.key), assigned), uniquingKeysWith: { first, _ in first })
      parts = episodes.map { byTake[copies.original(of: $0.id.take)] ?? .train }
      findings = rule.findings(members, assigned)
    } else {
      (self.rule, seed) = ("none: all in train", nil)
      parts = episodes.map { _ in .train }
    }
    findings += duplicates(episodes)
  }

  /// The parts that the episodes have in the datasets they come from.
  package init(_ episodes: [Episode], keeping parts: [SplitPart]) {
    (self.parts, rule, seed) = (parts, "kept from the source datasets", nil)
    findings = duplicates(episodes)
  }

  /// The split that a manifest records, of a dataset whose episodes stay.
  package init(recorded record: ManifestRecord, _ ids: [String]) {
    let (split, parts) = (record.splits, record.parts)
    self.parts = ids.map { parts[$0] ?? .train }
    (rule, seed) = (split["rule"]?.string ?? "", split["seed"]?.integer.map { Int(clamping: $0) })
    fileDigest = split["file_sha256"]?.string.flatMap(Digest.init(hex:))
  }

  /// The takes that are copies of one recording: those whose files are equal, and those whose poses are.
  private struct Copies {
    /// An earlier take of the recording of each copy.
    private var earlier: [String: String] = [:]
    /// Takes of one recording, where it has several; by what shows it.
    private(set) var ofFiles: [[String]] = []
    private(set) var ofPoses: [[String]] = []

    /// - Parameter takes: An episode of each take.
    init(_ takes: [Episode]) {
      func groups(_ word: (Episode) -> String?) -> [[String]] {
        Dictionary(grouping: takes.filter { word($0) != nil }, by: { word($0) ?? "" }).values
          .map { Set($0.map(\.id.take)).sorted() }.filter { $0.count > 1 }.sorted { $0[0] < $1[0] }
      }
      ofFiles = groups(\.content)
      let known = Set(ofFiles)
      ofPoses = groups(\.recording).filter { !known.contains($0) }
      for group in ofFiles + ofPoses {
        let firsts = Set(group.map { original(of: $0) }).sorted()
        for take in firsts.dropFirst() { earlier[take] = firsts[0] }
      }
    }

    func original(of take: String) -> String {
      var first = take
      while let other = earlier[first] { first = other }
      return first
    }
  }

  /// Returns the findings about copies: a rule puts them in one part, a split file or a merge may put them in several.
  private func duplicates(_ episodes: [Episode]) -> [Finding] {
    let places = Dictionary(zip(episodes.map(\.id.take), parts), uniquingKeysWith: { first, _ in first })
    let copies = Copies(Array(Dictionary(episodes.map { ($0.id.take, $0) }, uniquingKeysWith: { first, _ in first }).values))
    return [("files", copies.ofFiles), ("poses", copies.ofPoses)].compactMap { what, groups in
      guard !groups.isEmpty else { return nil }
      let words = groups.map { "\($0.dropFirst().joined(separator: ", ")) of \($0[0])" }
      let torn = groups.filter { Set($0.compactMap { places[$0] }).count > 1 }.map { group in
        group.map { "\($0) in \(places[$0]?.rawValue ?? "")" }.joined(separator: ", ")
      }
      let leak = torn.isEmpty ? "" : "; what is learned is also what is tested: \(torn.abridged)"
      return Finding(
        .duplicateContent, "takes with the same \(what) as another one: \(words.abridged)\(leak)", severity: .warning,
        count: groups.reduce(0) { $0 + $1.count - 1 })
    }
  }

  private mutating func assign(_ episodes: [Episode], _ file: SplitFile) {
    let named = file.parts
    var byTake: [String: SplitPart] = [:]
    for episode in episodes { byTake[episode.id.take] = byTake[episode.id.take] ?? named[episode.id.take] ?? named[episode.id.text] }
    parts = episodes.map { byTake[$0.id.take] ?? .train }

    let takes = Set(episodes.map(\.id.take))
    let unlisted = takes.filter { byTake[$0] == nil }.sorted()
    if !unlisted.isEmpty {
      findings.append(
        Finding(
          .splitFileUnlisted, "takes that the split file does not name are in train: \(unlisted.abridged)", count: unlisted.count))
    }
    let known = takes.union(episodes.map(\.id.text))
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
