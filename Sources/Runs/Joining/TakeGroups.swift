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

  init(_ join: Join, _ takes: [TakeSearch.Found]) {
    (self.join, all) = (join, takes)
    var groups: [Key: [String: [Int]]] = [:]
    for (index, take) in takes.enumerated() {
      switch member(of: take) {
      case .success(let (key, member)): groups[key, default: [:]][member, default: []].append(index)
      case .failure(let reason) where reason.isAmbiguous: found.append(ambiguous(take, reason.words))
      case .failure(let reason): found.append(alone(take, reason.words))
      }
    }
    for (key, group) in groups {
      for (folder, part) in divided(group) { add(part, folder.map { key.name.isEmpty ? $0 : key.name } ?? key.name) }
    }
    folders = Set(found.filter(isJoin).map(\.location.path)).filter { folder in
      takes.allSatisfy { take in
        !take.location.path.hasPrefix(folder + "/")
          || found.contains { isJoin($0) && $0.location.path == folder && $0.companions.contains(take.location.path) }
      } && found.count { isJoin($0) && $0.location.path == folder } == 1
    }
  }

  private func isJoin(_ take: TakeSearch.Found) -> Bool { take.reader is JoinedTake }

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
    case .session:
      guard let session = take.session else {
        return .failure(Reason(words: "nothing in its name says of which session it is; join: {by: name} goes by the ids alone"))
      }
      return .success((Key(key: session.key, name: session.name), match.name))
    case .name:
      let name = match.parts.joined().trimmingCharacters(in: CharacterSet(charactersIn: "-_. "))
      return .success((Key(key: match.parts.joined(separator: "\0"), name: name), match.name))
    }
  }

  /// The same, by folder, where a member has several takes of a name and every folder has at most one of each.
  private func divided(_ group: [String: [Int]]) -> [(folder: String?, group: [String: [Int]])] {
    if group.values.allSatisfy({ $0.count == 1 }) { return [(nil, group)] }
    var byFolder: [String: [String: [Int]]] = [:]
    for (member, takes) in group {
      for take in takes {
        byFolder[URL(fileURLWithPath: all[take].location.path).deletingLastPathComponent().path, default: [:]][member, default: []].append(
          take)
      }
    }
    let isClear = byFolder.values.allSatisfy { part in part.count > 1 && part.values.allSatisfy { $0.count == 1 } }
    return isClear ? byFolder.sorted { $0.key < $1.key }.map { (URL(fileURLWithPath: $0).lastPathComponent, $1) } : [(nil, group)]
  }

  private mutating func add(_ group: [String: [Int]], _ name: String) {
    let takes = group.flatMap { member, indices in indices.map { (member: member, take: all[$0]) } }
      .sorted { ($0.member, $0.take.location.path) < ($1.member, $1.take.location.path) }
    if let twice = group.keys.sorted().first(where: { group[$0, default: []].count > 1 }) {
      let rivals = takes.filter { $0.member == twice }.map { $0.take.location.path }.joined(separator: " and ")
      for (_, take) in takes { found.append(ambiguous(take, "\(twice) has several takes of one group: \(rivals)")) }
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

  private func joined(_ takes: [(member: String, take: TakeSearch.Found)], _ name: String, _ reader: JoinedTake) -> TakeSearch.Found {
    var reader = reader
    let root = Self.commonFolder(takes.map(\.take.location.path))
    for (member, take) in takes {
      let place = String(take.location.path.dropFirst(root.count + 1))
      reader.members[member] = JoinedTake.Member(name: member, place: place, id: take.id, reader: take.reader).json
    }
    let id = name.isEmpty ? URL(fileURLWithPath: root).lastPathComponent : name
    var found = TakeSearch.Found(id: id, location: TakeLocation(path: root, isDirectory: true), reader: reader)
    found.companions = takes.flatMap { [$0.take.location.path] + $0.take.companions }
    found.findings = takes.flatMap { member, take in
      take.findings.map { finding in
        var own = finding
        own.message = "\(member): \(own.message)"
        return own
      }
    }
    found.labelFiles = []
    return found
  }

  private func alone(_ take: TakeSearch.Found, _ words: String) -> TakeSearch.Found {
    var take = take
    take.findings.append(Finding(.joinAlone, "\(words); it is written by itself"))
    return take
  }

  private func ambiguous(_ take: TakeSearch.Found, _ words: String) -> TakeSearch.Found {
    var reader = JoinedTake()
    reader.ambiguity = words
    return joined([("take", take)], take.id, reader)
  }

  /// The deepest folder that holds all of these places.
  private static func commonFolder(_ paths: [String]) -> String {
    let folders = paths.map { $0.split(separator: "/").dropLast() }
    guard var common = folders.first else { return "/" }
    for folder in folders { common = common.prefix(zip(common, folder).prefix { $0.0 == $0.1 }.count) }
    return "/" + common.joined(separator: "/")
  }
}
