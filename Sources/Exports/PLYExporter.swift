import Datasets
import Evidence
import Foundation
import Model
import Steps

/// Point clouds as binary PLY files, one per episode: depth maps fused in the world of the poses, in meters, with the colors of images.
///
/// `--voxel`, `--range` and the other options are those of `FusionSettings`. Source: Turk, The PLY Polygon File Format (1994).
struct PLYExporter: Exporter {
  static let name = "ply"
  static let summary = "fused, colored point clouds as binary PLY files"

  @StepOption("one point, the mean, in each cube of this size (m)", above: 0, through: 10) var voxel = 0.01
  @StepOption("least depth (m)", 0...1000) var minRange = 0.0
  @StepOption("greatest depth (m)", above: 0, through: 1000) var range = 5.0
  @StepOption("least confidence of depth values: 0 low, 1 medium, 2 high; null: 2 where the source has confidence", 0...2)
  var confidence: Int? = nil
  @StepOption("leave out depth values that differ from a neighbor's by more than this fraction; 0: none", 0...10) var edge = 0.05
  @StepOption("fuse the depth map of every nth row", 1...1_000_000) var every = 1

  func validate() throws {
    if minRange >= range { throw OptionError("min-range", "must be less than --range, \(range)") }
  }

  func export(_ episodes: [ExportedEpisode], of dataset: Dataset, to directory: ExportDirectory) throws {
    var settings = FusionSettings(voxel: voxel, every: every)
    (settings.least, settings.greatest, settings.confidence, settings.edge) = (Float(minRange), Float(range), confidence, Float(edge))
    let fusions = try DepthFusion.all(of: episodes, settings, for: Self.name, losingTo: directory)
    directory.lose("The format has points only: no times, poses, images or other streams.")
    var notes: [String: JSONValue] = [:]
    for fusion in fusions {
      let cloud = try fusion.cloud(in: directory)
      try directory.writing("\(fusion.id).ply") { write in
        notes[fusion.id] = cloud.note(try PLYFile.write(cloud.grid, hasColor: cloud.hasColor, write))
      }
    }
    directory.note("clouds", .object(notes))
  }
}
