package import Model

/// Resizes images, averaging over the area of each new pixel; intrinsics follow.
///
///     - resize-image: {width: 320, height: 240}
///
/// `mode: fit` keeps the aspect ratio and never enlarges; `stretch` makes exactly this size. JPEGs that shrink to half or less are first
/// decoded at 1/2, 1/4 or 1/8 by libjpeg-turbo's reduced inverse DCT.
package struct ResizeImage: Transform {
  package static let name = "resize-image"
  package static let summary = "Resizes images with antialiasing; intrinsics follow"

  package enum Mode: String, OptionChoice { case fit, stretch }

  @Option("largest width (pixels)", 1...8192) var width = 320
  @Option("largest height (pixels)", 1...8192) var height = 240
  @Option("fit: the largest image of the same aspect ratio within width x height, never enlarged; stretch: exactly width x height")
  var mode = Mode.fit
  @Option("images with neither side longer than this keep their size (pixels)", 0...) var whenLargerThan = 0

  package init() {}

  package func apply(to episode: Episode, in context: RunContext) throws -> Episode {
    var resized = episode
    for (name, stream) in episode.streams where stream.spec.kind == .image {
      guard let full = stream.spec.raster?.size else { continue }
      let box = ImageSize(width: width, height: height)
      let target = mode == .fit ? full.fitted(within: box) : box
      guard max(full.width, full.height) > whenLargerThan, target != full else { continue }
      resized.streams[name] = stream.applying(.resize(target))
    }
    return resized
  }
}
