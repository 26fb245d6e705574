import Steps

/// Options of the formats for reconstruction: which images, in which form, and whether with points.
struct SceneOptions: StepOptionGroup {
  @StepOption("format of image files: png (nothing is lost) or jpeg; images that the dataset stores as files keep their bytes")
  var image = ImageFileFormat.png
  @StepOption("quality of JPEG files", 1...100) var quality = 95
  @StepOption("export every nth row", 1...1_000_000) var every = 1
  @StepOption("also fuse depth maps to a point cloud, one point in each cube of this size (m); null: no points", above: 0, through: 1)
  var points: Double? = nil

  /// The point cloud of each episode, if points are wanted. Throws as `DepthFusion.all` does.
  func clouds(of episodes: [ExportedEpisode], for format: String, losingTo directory: ExportDirectory) throws -> [DepthFusion]? {
    try points.map { try DepthFusion.all(of: episodes, FusionSettings(voxel: $0, every: every), for: format, losingTo: directory) }
  }
}
