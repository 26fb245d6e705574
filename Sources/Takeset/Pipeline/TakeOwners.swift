/// Which take each id belongs to, by an earlier run's journal: a take keeps its id, and no other take is ever given it.
package struct TakeOwners: Sendable {
  private let heads: [String: Journal.Head]
  private let ids: [String: String]

  init(_ heads: [String: Journal.Head]) {
    // Entries without a reader are of inputs that gave no take; they own nothing.
    self.heads = heads.filter { $0.value.reader != nil }
    ids = Dictionary(self.heads.values.map { ($0.location, $0.id) }) { first, second in min(first, second) }
  }

  /// The id that the take at this place has already.
  func id(of place: TakeLocation) -> String? { ids[place.path] }

  /// True when the id is another take's, even one that has vanished. A take that was moved keeps its id: it is known by its
  /// files, when there is nothing left where they were.
  func belongsToAnother(_ id: String, than place: TakeLocation, _ reader: any Reader) -> Bool {
    guard let head = heads[id], head.location != place.path else { return false }
    guard Directory.existingKind(of: head.location) == nil, let inputs = try? reader.inputs(of: place) else { return true }
    if let stamp = try? inputs.stamp(), stamp.description == head.stamp { return false }
    return (try? inputs.finishDigests()) == nil || inputs.digest.description != head.inputDigest
  }

  func isOwned(_ id: String) -> Bool { heads[id] != nil }
}
