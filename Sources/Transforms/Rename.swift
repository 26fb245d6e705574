package import Model
package import Steps

/// Gives streams other names.
///
///     - rename: {streams: {camera_image: wrist_image, joints: hand}}
///
/// Two streams can swap their names. Names that a take does not have are ignored. Must come before steps that compute streams from the
/// renamed ones.
package struct Rename: Transform {
  package static let name = "rename"
  package static let summary = "Gives streams other names"

  @StepOption("the new name of each stream, by its present one: lowercase letters, digits and underscores") var streams: [String: String] =
    [:]

  package init() {}

  /// Throws `OptionError` for a name that is no name, is reserved, or is given twice.
  package func validate() throws {
    if streams.isEmpty { throw OptionError("streams", "name at least one stream and its new name") }
    for (old, new) in streams.sorted(by: { $0.key < $1.key }) {
      guard StreamName.isName(new) else {
        throw OptionError(
          "streams", "\(old) cannot become \"\(new)\"; a name has lowercase letters, digits and underscores, and starts with a letter")
      }
      if StreamName(new).isReserved {
        throw OptionError("streams", "\(old) cannot become \"\(new)\", which the layout of datasets or an export uses for something else")
      }
    }
    let names = streams.sorted { $0.key < $1.key }
    for (index, (old, new)) in names.enumerated() {
      if let other = names[..<index].first(where: { $0.value == new }) {
        throw OptionError("streams", "\(other.key) and \(old) cannot both become \"\(new)\"")
      }
    }
  }

  /// Renames streams, also where cameras and alignments refer to them. Throws `TakeFailure` where another stream has the new name.
  package func apply(to episode: Episode, in context: RunContext) throws -> Episode {
    func renamed(_ name: StreamName) -> StreamName { streams[name.rawValue].map { StreamName($0) } ?? name }
    for (name, stream) in episode.derived.sorted(by: { $0.key < $1.key }) {
      if let changed = ([name] + stream.inputs).first(where: { renamed($0) != $0 }) {
        throw TakeFailure(
          .streamNeeded,
          "\(changed == name ? "\(name) is computed from other streams" : "\(name) is computed from \(changed)"); rename has to come before actions"
        )
      }
    }
    var result = episode
    result.streams = [:]
    for (old, stream) in episode.streams.sorted(by: { $0.key < $1.key }) {
      let new = renamed(old)
      if result.streams[new] != nil || episode.derived[new] != nil || new != old && keeps(new, episode) {
        throw TakeFailure(.nameTaken, "\(old) cannot become \(new): the take has another stream of that name")
      }
      result.streams[new] = stream
      if new != old { result.streams[new]?.firstName = stream.firstName ?? old.rawValue }
    }
    for (name, camera) in episode.cameras { result.cameras[name]?.pose = camera.pose.map(renamed) }
    result.alignments = episode.alignments.map { alignment in
      var alignment = alignment
      alignment.stream = renamed(alignment.stream)
      return alignment
    }
    return result
  }

  /// Whether a stream of this name stays in the episode.
  private func keeps(_ name: StreamName, _ episode: Episode) -> Bool {
    episode.streams[name] != nil && (streams[name.rawValue] ?? name.rawValue) == name.rawValue
  }
}
