package import Model
package import Steps

/// Keeps some of the streams.
///
///     - select: {streams: [camera_image, pose, joints]}
///
/// Names that a take does not have are ignored, so that one list serves takes of several formats. Streams that are computed from others,
/// such as actions, stay as long as those do; a named one fails takes in which they do not.
package struct Select: Transform {
  package static let name = "select"
  package static let summary = "Keeps only the named streams"

  @StepOption("names of the streams to keep, such as camera_image, pose or imu") var streams: [String] = []

  package init() {}

  /// Throws `OptionError` without names.
  package func validate() throws {
    if streams.isEmpty { throw OptionError("streams", "name at least one stream to keep") }
  }

  /// Removes the other streams. Throws `TakeFailure` for a take that has none of the named ones, or none with values in rows.
  package func apply(to episode: Episode, in context: RunContext) throws -> Episode {
    let names = Set(streams)
    // `action_dict` stands for all of its parts.
    func isNamed(_ name: StreamName) -> Bool {
      names.contains(name.rawValue) || name.rawValue.split(separator: "/").first.map { names.contains(String($0)) } == true
    }
    guard episode.streams.keys.contains(where: isNamed) || episode.derived.keys.contains(where: isNamed) else {
      let found = (Array(episode.streams.keys) + episode.derived.keys).sorted().map(\.rawValue)
      throw TakeFailure(
        .streamMissing,
        "the take has none of the streams \(streams.joined(separator: ", ")); it has \(found.isEmpty ? "none" : found.joined(separator: ", "))"
      )
    }
    guard
      episode.streams.contains(where: { isNamed($0.key) && $0.value.spec.kind.place != .meta })
        || episode.derived.keys.contains(where: isNamed)
    else {
      throw TakeFailure(
        .streamMissing, "the streams \(streams.joined(separator: ", ")) have no values in the rows; name one that has, such as pose")
    }
    var selected = episode
    selected.streams = episode.streams.filter { isNamed($0.key) }
    selected.derived = try computable(episode.derived, from: Set(selected.streams.keys), isNamed)
    for (camera, value) in episode.cameras {
      if let pose = value.pose, selected.streams[pose] == nil { selected.cameras[camera]?.pose = nil }
    }
    selected.alignments.removeAll { episode.streams[$0.stream] != nil && selected.streams[$0.stream] == nil }
    return selected
  }

  /// The derived streams all of whose inputs are kept, or are such streams themselves. Throws `TakeFailure` for others that are named.
  private func computable(
    _ derived: [StreamName: any Derived], from streams: Set<StreamName>, _ isNamed: (StreamName) -> Bool
  ) throws -> [StreamName: any Derived] {
    var kept = derived
    func missing(_ stream: any Derived) -> StreamName? { stream.inputs.sorted().first { !streams.contains($0) && kept[$0] == nil } }
    while let (name, stream) = kept.filter({ missing($0.value) != nil }).min(by: { $0.key < $1.key }) {
      if isNamed(name), let input = missing(stream) {
        throw TakeFailure(.streamNeeded, "\(name) is computed from \(input); name that too, or leave \(name) out")
      }
      kept[name] = nil
    }
    return kept
  }
}
