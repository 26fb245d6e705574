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

  /// Names and endings of names that the layout of datasets uses next to streams.
  private static let reserved: Set<String> = [
    "action_chunk", "action_dict", "actions", "chunk_crc32", "gaps", "intrinsics", "quality", "row_sha256", "segment", "source_index",
    "statistics", "streams", "timestamp_ns",
  ]
  private static let endings = ["_intrinsics", "_raw", "_valid"]

  package init() {}

  package func validate() throws {
    if streams.isEmpty { throw OptionError("streams", "name at least one stream and its new name") }
    for (old, new) in streams.sorted(by: { $0.key < $1.key }) {
      guard Self.isName(new) else {
        throw OptionError(
          "streams", "\(old) cannot become \"\(new)\"; a name has lowercase letters, digits and underscores, and starts with a letter")
      }
      if Self.reserved.contains(new) || Self.endings.contains(where: new.hasSuffix) {
        throw OptionError("streams", "\(old) cannot become \"\(new)\", which the layout of datasets uses for something else")
      }
    }
    let names = streams.sorted { $0.key < $1.key }
    for (index, (old, new)) in names.enumerated() {
      if let other = names[..<index].first(where: { $0.value == new }) {
        throw OptionError("streams", "\(other.key) and \(old) cannot both become \"\(new)\"")
      }
    }
  }

  /// Whether a name matches `^[a-z][a-z0-9_]*$`.
  private static func isName(_ text: String) -> Bool {
    func isLetter(_ byte: UInt8) -> Bool { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) }
    func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }
    return text.utf8.first.map(isLetter) == true && text.utf8.allSatisfy { isLetter($0) || isDigit($0) || $0 == UInt8(ascii: "_") }
  }

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
