import Datasets
import Model
import Steps

/// The ids of takes in an earlier run's journal: a take keeps its id, and no other take ever gets it.
package struct TakeIDRegistry: Sendable {
  /// One entry for each take.
  private let entries: [String: Journal.Entry]
  private let ids: [String: String]
  /// The ids and places of joined takes, by the names of their groups.
  private let joined: [String: [(id: String, location: String)]]

  init(_ entries: [String: Journal.Entry]) {
    // Entries without a reader belong to unmatched inputs and reserve no id.
    let takes = entries.values.filter { $0.reader != nil }
    self.entries = Dictionary(takes.map { ($0.id.take, $0) }) { first, second in first.id < second.id ? first : second }
    // Several joined takes may lie in one folder.
    joined = Dictionary(grouping: self.entries.values.filter { $0.reader == JoinedTake.name }.map { ($0.id.take, $0.location) }) {
      Self.withoutNumber($0.0)
    }.mapValues { $0.map { (id: $0.0, location: $0.1) }.sorted { $0.id < $1.id } }
    ids = Dictionary(takes.filter { $0.reader != JoinedTake.name }.map { ($0.location, $0.id.take) }) { first, second in min(first, second)
    }
  }

  /// The id that the take at this location already has.
  func id(of place: TakeLocation) -> String? { ids[place.path] }

  /// The id that a group of this name has. The folder that holds all of its members becomes another one when a member comes or is moved, so that a
  /// group that is nowhere else now is the same.
  ///
  /// - Parameter others: The folders of the other groups of the name.
  func id(ofGroup name: String, in folder: String, others: Set<String>) -> String? {
    let known =
      (joined[name] ?? []) + (Self.withoutNumber(name) == name ? [] : (joined[Self.withoutNumber(name)] ?? []).filter { $0.id == name })
    return known.first { $0.location == folder }?.id ?? known.first { !others.contains($0.location) }?.id
  }

  /// `demo` of `demo-2`, by which takes of one name differ.
  private static func withoutNumber(_ id: String) -> String {
    guard let dash = id.lastIndex(of: "-"), dash > id.startIndex, let number = Int(id[id.index(after: dash)...]), number > 1 else {
      return id
    }
    return String(id[..<dash])
  }

  /// Whether the id belongs to another take, even one that has vanished. A moved take keeps its id: it is recognized by its files, if
  /// nothing remains at their old location.
  func belongsToAnother(_ id: String, than place: TakeLocation, _ reader: any Reader, isCancelled: () -> Bool) -> Bool {
    guard let entry = entries[id], entry.location != place.path else { return false }
    guard Self.isGone(entry.location), let inputs = try? reader.inputs(of: place) else { return true }
    if let stamp = try? inputs.stamp(), stamp.description == entry.stamp { return false }
    return (try? inputs.finishDigests(isCancelled: isCancelled)) == nil || inputs.digest.description != entry.inputDigest
  }

  /// Whether there is nothing at a path; false where the system cannot determine it.
  static func isGone(_ path: String) -> Bool {
    do { return try Directory.kind(at: path) == nil } catch { return false }
  }

  func isAssigned(_ id: String) -> Bool { entries[id] != nil }
}
