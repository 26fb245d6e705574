import Model
import Testing
import TestSupport
import Transforms

@testable import Exports

@Suite struct ALOHAPlanTests {
  /// Six rows, of which the last has no action.
  private func episode() throws -> Episode { try Actions().apply(to: SyntheticEpisode().episode) }

  private func parts(_ episode: Episode, _ masked: ALOHAExporter.Masked) throws -> [Range<Int>] {
    var exporter = ALOHAExporter()
    exporter.masked = masked
    return try ALOHAPlan([ExportedEpisode("a", open: episode)], exporter).parts.map(\.rows)
  }

  @Test func theFirstOfTheLongestPartsIsKept() throws {
    var episode = try episode()
    episode.streams[.image]?.rows?[2] = nil
    #expect(try parts(episode, .split) == [0..<2, 3..<5])
    #expect(try parts(episode, .longest) == [0..<2])
    episode.streams[.image]?.rows?[1] = nil
    #expect(try parts(episode, .longest) == [3..<5])
  }

  @Test func everyCameraHasANameOfItsOwn() throws {
    var episode = try episode()
    let image = episode.streams[.image]
    for name in ["wrist", "wrist_image", "head_image"] { episode.streams[StreamName(name)] = image }
    let cameras = try ALOHAPlan([ExportedEpisode("a", open: episode)], ALOHAExporter()).cameras
    #expect(
      cameras.map { "\($0.name) of \($0.stream)" } == [
        "camera of camera_image", "head of head_image", "wrist of wrist", "wrist_image of wrist_image",
      ])
  }
}
