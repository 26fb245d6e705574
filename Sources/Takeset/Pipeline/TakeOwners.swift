import Model

/// Which take each id belongs to, by an earlier run's journal: a take keeps its id, and no other take is ever given it.
package struct TakeOwners: Sendable {
  private let entries: [String: Journal.Entry]
  private let ids: [String: String]

  init(_ entries: [String: Journal.Entry]) {
    // Entries without a reader are of inputs that gave no take; they own nothing.
    self.entries = entries.filter { $0.value.reader != nil }
    ids = Dictionary(self.entries.values.map { ($0.location, $0.id) }) { first, second in min(first, second) }
  }

  /// The id that the take at this place has already.
  func id(of place: TakeLocation) -> String? { ids[place.path] }

  /// True when the id is another take's, even one that has vanished. A take that was moved keeps its id: it is known by its
  /// files, when there is nothing left where they were.
  func belongsToAnother(_ id: String, than place: TakeLocation, _ reader: any Reader) -> Bool {
    guard let entry = entries[id], entry.location != place.path else { return false }
    guard Self.isGone(entry.location), let inputs = try? reader.inputs(of: place) else { return true }
    if let stamp = try? inputs.stamp(), stamp.description == entry.stamp { return false }
    return (try? inputs.finishDigests()) == nil || inputs.digest.description != entry.inputDigest
  }

  /// Whether there is nothing at a place; not so where the system does not tell.
  static func isGone(_ path: String) -> Bool {
    do { return try Directory.kind(at: path) == nil } catch { return false }
  }

  func isOwned(_ id: String) -> Bool { entries[id] != nil }
}
