import Foundation
package import Model
package import Steps

/// Frames at the times in milliseconds that a text file lists, with small images and poses.
package struct ListedFrames: Reader {
  package static let name = "listed-frames"
  package static let summary = "Frames at listed times, for tests"
  package static let needsAlign = false

  package init() {}

  /// Recognizes a file whose name ends with `.frames`.
  package func recognize(_ place: TakePlace) -> Candidate? {
    guard place.name.hasSuffix(".frames") else { return nil }
    return Candidate(.certain, stem: place.stem) { [path = place.path] in TakeInputs(file: path, role: .metadata) }
  }

  /// Opens an episode with a frame at each of the file's numbers, which are milliseconds.
  package func open(_ take: Take) throws -> Episode {
    let text = try String(contentsOfFile: take.location.path, encoding: .utf8)
    var episode = SyntheticEpisode(times: text.split(separator: " ").compactMap { Int64($0) }.map { $0 * 1_000_000 }).episode
    episode.id = EpisodeID(take: take.id)
    episode.frames.nominalRate = 10
    for name in [StreamName.depth, .joints, .imu] { episode.streams[name] = nil }
    return episode
  }
}
