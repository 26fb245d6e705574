import Datasets
import Model
import Steps

/// The ids of takes in an earlier run's journal: a take keeps its id, and no other take ever gets it.
package struct TakeIDRegistry: Sendable {
  /// One entry for each take.
  private let entries: [String: Journal.Entry]
  private let ids: [String: String]
  /// The ids of joined takes, by the name of their group and the path of each member.
  private let groups: [[String]: String]

  init(_ entries: [String: Journal.Entry]) {
    // Entries without a reader belong to unmatched inputs and reserve no id.
    let takes = entries.values.filter { $0.reader != nil }
    self.entries = Dictionary(takes.map { ($0.id.take, $0) }) { first, second in first.id < second.id ? first : second }
    // Several joined takes may lie in one folder.
    var groups: [[String]: String] = [:]
    for entry in self.entries.values.sorted(by: { $0.id < $1.id }) {
      guard let group = entry.joinedGroup else { continue }
      for path in group.paths(in: entry.location) {
        groups[[group.name, path]] = groups[[group.name, path]] ?? entry.id.take
      }
    }
    self.groups = groups
    ids = Dictionary(takes.filter { $0.reader != JoinedTake.name }.map { ($0.location, $0.id.take) }) { first, second in min(first, second)
    }
  }

  /// The id that the take at this location already has.
  func id(of place: TakeLocation) -> String? { ids[place.path] }

  /// The id that a group already has: that with which it has the most members in common. The folder that holds all of them becomes another one when
  /// a member comes, and other groups of the same name may be in it.
  func id(of group: JoinedGroup, in folder: String) -> String? {
    let known = group.paths(in: folder).compactMap { groups[[group.name, $0]] }
    return Dictionary(grouping: known) { $0 }.max { ($0.value.count, $1.key) < ($1.value.count, $0.key) }?.key
  }

  /// Whether the id belongs to another take, even one that has vanished. A moved take keeps its id: it is recognized by its files, if
  /// nothing remains at their old location.
  func belongsToAnother(_ id: String, than place: TakeLocation, _ reader: any Reader, isCancelled: () -> Bool) -> Bool {
    guard let entry = entries[id] else { return false }
    let (own, known) = ((reader as? JoinedTake)?.joinedGroup, entry.joinedGroup)
    guard own?.name == known?.name else { return true }
    guard known != nil || entry.location != place.path else { return false }
    let isGone = known?.paths(in: entry.location).allSatisfy(Self.isGone) ?? Self.isGone(entry.location)
    guard isGone, let inputs = try? reader.inputs(of: place) else { return true }
    if let stamp = try? inputs.stamp(), stamp.description == entry.stamp { return false }
    return (try? inputs.finishDigests(isCancelled: isCancelled)) == nil || inputs.digest.description != entry.inputDigest
  }

  /// Whether there is nothing at a path; false where the system cannot determine it.
  static func isGone(_ path: String) -> Bool {
    do { return try Directory.kind(at: path) == nil } catch { return false }
  }

  func isAssigned(_ id: String) -> Bool { entries[id] != nil }
}
