import Foundation
import Model
import Steps

/// Takes of a search, as a pipeline's `join` groups them: those of one moment become one take.
struct TakeGroups {
  private let join: Join
  private var all: [TakeSearch.Found]
  /// The takes of groups, and those that are by themselves.
  private(set) var found: [TakeSearch.Found] = []
  /// Folders that have the takes of one group only, so that a file of labels in them is that of the group.
  private(set) var folders: Set<String> = []

  /// - Parameters:
  ///   - inputs: The paths of the inputs: a file outside of them is nobody's.
  ///   - timing: Says when a take was recorded.
  init(_ join: Join, _ takes: [TakeSearch.Found], inputs: [String], timing: UnixSpan.Reading) {
    (self.join, all) = (join, takes)
    if join.by == .time {
      let candidates = takes.filter { $0.duplicateFolder == nil }.compactMap { take in join.member(of: take.id).map { (take.task, $0) } }
      moments = TakeMoments.of(candidates, join, timing)
    }
    var groups: [Key: [String: [Int]]] = [:]
    for (index, take) in takes.enumerated() {
      // An archive that the folder of its name was made of is no second take of the member.
      if take.duplicateFolder != nil {
        found.append(alone(take, "the folder of its name may have the same files"))
        continue
      }
      switch member(of: take) {
      case .success(let (key, member)): groups[key, default: [:]][member, default: []].append(index)
      case .failure(let reason) where reason.isAmbiguous: found.append(ambiguous(take, reason.words))
      case .failure(let reason): found.append(alone(take, reason.words))
      }
    }
    for (key, group) in groups.sorted(by: { $0.key.key < $1.key.key }) {
      for part in divided(group) { add(part, key.name) }
    }
    let joined = Dictionary(grouping: found.filter { $0.reader is JoinedTake }, by: \.location.path)
    var held: [String: Int] = [:]
    for take in takes {
      var folder = URL(fileURLWithPath: take.location.path)
      while folder.pathComponents.count > 1 {
        folder.deleteLastPathComponent()
        if joined[folder.path] != nil { held[folder.path, default: 0] += 1 }
      }
    }
    folders = Set(
      joined.filter { folder, groups in
        inputs.contains { folder == $0 || folder.hasPrefix($0 + "/") } && groups.count == 1
          && (groups[0].reader as? JoinedTake)?.members.count == held[folder]
      }.keys)
  }

  /// The moments of takes, by their paths; empty unless takes are joined by time.
  private var moments: [String: Result<TakeMoments.Moment, any Error>] = [:]

  /// What the takes of a group have in common, and its id.
  private struct Key: Hashable {
    var key: String
    var name: String
  }

  private struct Reason: Error {
    var words: String
    var isAmbiguous = false
  }

  /// The group and the member that a take is of.
  private func member(of take: TakeSearch.Found) -> Result<(Key, String), Reason> {
    let matches = join.members.compactMap { name, pattern in pattern.parts(of: take.id).map { (name: name, parts: $0) } }
      .sorted { $0.name < $1.name }
    guard let match = matches.first else {
      return .failure(Reason(words: "its id matches no pattern of join.members"))
    }
    guard matches.count == 1 else {
      return .failure(Reason(words: "its id matches the patterns of \(matches.map(\.name).joined(separator: " and "))", isAmbiguous: true))
    }
    switch join.by {
    case .time:
      switch moments[take.location.path] {
      case .success(let moment)?: return .success((Key(key: "\(1_000_000_000 + moment.number)", name: moment.name), match.name))
      case .failure(let failure)?:
        // A machine that was short of something is no reason to write a take without its partner.
        return .failure(Reason(words: "when it was recorded is not known: \(failure)", isAmbiguous: !TakeMoments.isOfTake(failure)))
      case nil: return .failure(Reason(words: "when it was recorded is not known"))
      }
    case .session:
      guard let session = take.session else {
        return .failure(Reason(words: "nothing in its name says of which session it is; join: {by: name} goes by the ids alone"))
      }
      return .success((Key(key: session.key, name: session.name), match.name))
    case .name:
      let name = match.parts.joined().trimmingCharacters(in: CharacterSet(charactersIn: "-_. "))
      return .success((Key(key: name, name: name), match.name))
    }
  }

  /// The same, by folder, where a member has several takes of a name, every folder has at most one of each, and a folder has several members.
  private func divided(_ group: [String: [Int]]) -> [[String: [Int]]] {
    if group.values.allSatisfy({ $0.count == 1 }) { return [group] }
    // A time is one, wherever the files are.
    if join.by == .time { return [group] }
    // A phone's files may be in folders of their own, so that the folder of a group is above them.
    for height in 1...Self.highest {
      var byFolder: [String: [String: [Int]]] = [:]
      for (member, takes) in group {
        for take in takes {
          var folder = URL(fileURLWithPath: all[take].location.path)
          for _ in 0..<height { folder.deleteLastPathComponent() }
          byFolder[folder.path, default: [:]][member, default: []].append(take)
        }
      }
      let isClear =
        byFolder.values.allSatisfy { $0.values.allSatisfy { $0.count == 1 } }
        && (join.members.count == 1 || byFolder.values.contains { $0.count > 1 })
      if isClear { return byFolder.sorted { $0.key < $1.key }.map(\.value) }
    }
    return [group]
  }
  private static let highest = 4

  private mutating func add(_ group: [String: [Int]], _ name: String) {
    let takes = group.flatMap { member, indices in indices.map { (member: member, take: all[$0]) } }
      .sorted { ($0.member, $0.take.location.path) < ($1.member, $1.take.location.path) }
    if let twice = group.keys.sorted().first(where: { group[$0, default: []].count > 1 }) {
      let paths = takes.map(\.take.location.path), root = Self.commonFolder(paths)
      let names = takes.map { member, take in "\(take.location.path.dropFirst(root == "/" ? 1 : root.count + 1)) (\(member))" }
      let words = "\(twice) has several takes of one group: \(names.abridged)"
      for (_, take) in takes { found.append(ambiguous(take, words, rivals: paths.sorted())) }
      return
    }
    let lacking = join.members.keys.filter { group[$0] == nil }.sorted()
    if !lacking.isEmpty, join.incomplete == .alone {
      for (_, take) in takes { found.append(alone(take, "there is no take of \(lacking.joined(separator: ", ")) beside it")) }
      return
    }
    var reader = JoinedTake()
    (reader.reference, reader.offset, reader.lacking) = (join.reference, join.offset, lacking)
    reader.keeps = join.incomplete == .keep
    // The phones of a session share one world.
    reader.sharesWorld = join.by == .session
    found.append(joined(takes, name, reader))
  }

  private func joined(_ takes: [(member: String, take: TakeSearch.Found)], _ name: String, _ reader: JoinedTake, group: String? = nil)
    -> TakeSearch.Found
  {
    var reader = reader
    let root = Self.commonFolder(takes.map(\.take.location.path))
    for (member, take) in takes {
      let place = String(take.location.path.dropFirst(root == "/" ? 1 : root.count + 1))
      reader.members[member] = JoinedTake.Member(name: member, place: place, id: take.id, reader: take.reader).json
    }
    let id = name.isEmpty ? URL(fileURLWithPath: root).lastPathComponent : name
    reader.group = group ?? id
    var found = TakeSearch.Found(id: id, location: TakeLocation(path: root, isDirectory: true), reader: reader)
    found.companions = takes.flatMap { [$0.take.location.path] + $0.take.companions }
    found.findings = takes.flatMap { member, take in take.findings.map { $0.ofMember(member) } }
    found.labelFiles = []
    return found
  }

  private func alone(_ take: TakeSearch.Found, _ words: String) -> TakeSearch.Found {
    var take = take
    take.findings.append(Finding(.joinAlone, "\(words); it is written by itself"))
    return take
  }

  private func ambiguous(_ take: TakeSearch.Found, _ words: String, rivals: [String]? = nil) -> TakeSearch.Found {
    var reader = JoinedTake()
    reader.ambiguity = words
    var found = joined([("take", take)], take.id, reader, group: Self.ambiguousGroup)
    found.rivals = rivals
    return found
  }
  /// No group has this name: what is ambiguous takes no episode's place, also not that of the group of which it was.
  private static let ambiguousGroup = "?"

  /// The deepest folder that holds all of these places.
  private static func commonFolder(_ paths: [String]) -> String {
    let folders = paths.map { $0.split(separator: "/").dropLast() }
    guard var common = folders.first else { return "/" }
    for folder in folders { common = common.prefix(zip(common, folder).prefix { $0.0 == $0.1 }.count) }
    return "/" + common.joined(separator: "/")
  }
}
