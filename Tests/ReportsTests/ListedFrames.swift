import Evidence
import Foundation
import Model
import TestSupport

@testable import Datasets
@testable import Runs
@testable import Steps

/// Frames at the times in milliseconds that a text file lists, with small images and poses.
struct ListedFrames: Reader {
  static let name = "listed-frames"
  static let summary = "Frames at listed times, for tests"
  static let needsAlign = false

  func recognize(_ place: TakePlace) -> Candidate? {
    guard place.name.hasSuffix(".frames") else { return nil }
    return Candidate(.certain, stem: place.stem) { [path = place.path] in TakeInputs(file: path, role: .metadata) }
  }

  func open(_ take: Take) throws -> Episode {
    let text = try String(contentsOfFile: take.location.path, encoding: .utf8)
    var episode = SyntheticEpisode(times: text.split(separator: " ").compactMap { Int64($0) }.map { $0 * 1_000_000 }).episode
    episode.id = EpisodeID(take: take.id)
    episode.frames.nominalRate = 10
    for name in [StreamName.depth, .joints, .imu] { episode.streams[name] = nil }
    return episode
  }

  /// Converts a take of these times below a directory, and returns the path of the dataset.
  static func convert(_ times: String, in directory: TemporaryDirectory) throws -> String {
    try directory.write("in/take.frames", Array(times.utf8))
    let pipeline = Pipeline(readers: .one(ListedFrames()), transforms: [], writer: HDF5Writer())
    let output = directory.path + "/out"
    _ = try Run(
      inputs: [directory.path + "/in"], output: output, pipeline: pipeline, tool: ToolIdentity(version: "test", revision: "test")
    ).execute { _ in }
    return output
  }

  /// Gives the manifest of a dataset a time an hour ago, as if the journal had been written to since.
  static func ageManifest(of dataset: String) throws {
    try FileManager.default.setAttributes(
      [.modificationDate: Date(timeIntervalSinceNow: -3600)], ofItemAtPath: dataset + "/" + DatasetFiles.manifest)
  }
}
