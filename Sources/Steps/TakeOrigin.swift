package import Evidence
package import Model

/// The origin of a take, by which the rule of a split groups it. The journal keeps it, so that another rule divides the takes of a dataset
/// without opening one of them.
package struct TakeOrigin: Sendable, Equatable, Codable {
  package var variant: String?
  package var dates: [RecordingDate] = []
  /// Digest of the device's id or model, whose name must not get into the journal.
  package var device: String?
  /// Name of the directory that holds the take.
  package var folder: String?
  /// The group that Takeset 0.3.0 gave it, of which nothing else is known.
  package var group: String?

  package init(group: String? = nil) { self.group = group }

  package init(_ episode: Episode) {
    (variant, dates, folder) = (episode.variant, episode.dates, episode.folder)
    device = episode.device.map { String(Digest.of($0).description.prefix(16)) }
  }

  package var json: JSONValue {
    var members: [String: JSONValue] = [:]
    if !dates.isEmpty {
      members["dates"] = .array(dates.map { .array([.string($0.source), .string($0.day)] + ($0.seconds.map { [.integer($0)] } ?? [])) })
    }
    for (key, text) in [("variant", variant), ("device", device), ("folder", folder), ("group", group)] where text != nil {
      members[key] = JSONValue(text)
    }
    return .object(members)
  }

  /// - Parameter shared: Returns the stored copy of a text that many takes have.
  package init(json: JSONValue, _ shared: (String) -> String = { $0 }) {
    func text(_ key: String) -> String? { json[key]?.string.map(shared) }
    (variant, device, folder, group) = (text("variant"), text("device"), text("folder"), text("group"))
    dates = (json["dates"]?.array ?? []).compactMap { date in
      guard let parts = date.array, parts.count >= 2, let source = parts[0].string, let day = parts[1].string else { return nil }
      let seconds = parts.dropFirst(2).first?.integer
      // Sums with offsets of time zones and hours stay in range.
      guard day.utf8.count == 10, seconds.map({ $0.magnitude < 1 << 40 }) ?? true else { return nil }
      return RecordingDate(shared(source), day: shared(day), seconds: seconds)
    }
  }
}
