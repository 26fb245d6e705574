import Evidence
import Foundation
import Model
import Testing
import TestSupport

@testable import Datasets
@testable import Exports
@testable import Runs

@Suite struct NerfstudioExporterTests {
  private let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }

  /// `transforms.json` of an episode that moves along x in a world with these axes.
  private func transforms(_ worldAxes: String) throws -> JSONValue {
    let publication = Publication(
      pipeline: Pipeline(readers: .auto, transforms: [], writer: HDF5Writer()), tool: ToolIdentity(version: "test", revision: "test"),
      started: Date(), commandLine: [])
    _ = try publication.write([], of: Journal(path: directory.path + "/" + DatasetFiles.journal), to: directory.path)
    var episode = SyntheticEpisode().episode
    episode.streams[.pose]?.spec.kind = .pose(PoseFrame(cameraAxes: .arkit, worldAxes: worldAxes, unit: .meters))
    let output = directory.path + "-scenes"
    let export = try ExportDirectory(output, of: Dataset(directory: directory.path), threads: 1, replacing: false)
    defer { export.discard() }
    try NerfstudioExporter().export([ExportedEpisode("a", open: episode)], of: Dataset(directory: directory.path), to: export)
    let text = try Data(contentsOf: URL(fileURLWithPath: export.path + "/a/transforms.json"))
    return try JSONReader(Array(text)).document()
  }

  /// Without the override, nerfstudio would turn a world whose vertical is known after the mean of the cameras.
  @Test(arguments: [
    (PoseFrame.arkit.worldAxes, "none", true), ("z up, gravity-aligned; origin and heading of the AR session", "none", false),
    (PoseFrame.slam(unit: .meters).worldAxes, nil, false),
  ])
  func aWorldWhoseVerticalIsKnownKeepsIt(_ worldAxes: String, _ override: String?, _ turns: Bool) throws {
    let transforms = try transforms(worldAxes)
    #expect(transforms["orientation_override"]?.string == override)
    #expect((transforms["applied_transform"] != nil) == turns)
    // The last frame is 5 m along x, which becomes y where the world is turned.
    let matrix = transforms["frames"]?.array?.last?["transform_matrix"]?.array ?? []
    #expect(matrix.map { $0.array?.last?.double } == (turns ? [0, 5, 0, 1] : [5, 0, 0, 1]))
  }
}
