import Datasets
import Model
import Steps

/// The ids of takes in an earlier run's journal: a take keeps its id, and no other take ever gets it.
package struct TakeIDRegistry: Sendable {
  /// One entry for each take.
  private let entries: [String: Journal.Entry]
  private let ids: [String: String]

  init(_ entries: [String: Journal.Entry]) {
    // Entries without a reader belong to unmatched inputs and reserve no id.
    let takes = entries.values.filter { $0.reader != nil }
    self.entries = Dictionary(takes.map { ($0.id.take, $0) }) { first, second in first.id < second.id ? first : second }
    // Several joined takes may lie in one folder; their names are those of their groups.
    ids = Dictionary(takes.filter { $0.reader != JoinedTake.name }.map { ($0.location, $0.id.take) }) { first, second in min(first, second)
    }
  }

  /// The id that the take at this location already has.
  func id(of place: TakeLocation) -> String? { ids[place.path] }

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
