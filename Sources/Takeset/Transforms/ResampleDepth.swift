package import Model

/// Resamples depth maps to another grid by taking, for each new pixel, the old pixel that its center falls in. Values are never blended
/// with each other or with holes; holes stay holes.
///
///     - resample-depth: {width: 256, height: 192}
package struct ResampleDepth: Transform {
  package static let name = "resample-depth"
  package static let summary = "Resamples depth maps and their confidence to a grid, nearest pixel; holes stay holes, intrinsics follow"

  @Option("width of the grid (pixels)", 1...4096) var width = 256
  @Option("height of the grid (pixels)", 1...4096) var height = 192

  package init() {}

  package func apply(to episode: Episode, in context: RunContext) throws -> Episode {
    var resampled = episode
    let size = ImageSize(width: width, height: height)
    for (name, stream) in episode.streams where stream.spec.kind == .depth || stream.spec.kind == .confidence {
      if stream.spec.raster?.size != size { resampled.streams[name] = stream.applying(.resize(size)) }
    }
    return resampled
  }
}
