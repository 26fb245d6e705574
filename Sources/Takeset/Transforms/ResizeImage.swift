package import Model

/// Resizes images, averaging over what each new pixel covers; intrinsics follow.
///
///     - resize-image: {width: 320, height: 240}
///
/// `mode: fit` keeps the shape of the image and never enlarges; `stretch` makes exactly this size. JPEGs that shrink
/// to half or less are first decoded to 1/2, 1/4 or 1/8 by libjpeg-turbo's smaller inverse DCT.
package struct ResizeImage: Transform {
  package static let name = "resize-image"
  package static let summary = "Resizes pictures with antialiasing; intrinsics follow"
  package static let help = [
    "width": "pixels", "height": "pixels",
    "mode": "fit: the largest picture of the same shape within width x height, never enlarged; stretch: exactly width x height",
    "when-larger-than": "pixels; pictures with neither side longer than this are left as they are",
  ]

  package enum Mode: String, Codable, Sendable { case fit, stretch }

  var width = 320
  var height = 240
  var mode = Mode.fit
  var whenLargerThan = 0

  package init() {}

  package func validate() throws {
    if !(1...8192).contains(width) { throw OptionError("width", "expected 1 to 8192, found \(width)") }
    if !(1...8192).contains(height) { throw OptionError("height", "expected 1 to 8192, found \(height)") }
    if whenLargerThan < 0 { throw OptionError("when-larger-than", "expected 0 or more, found \(whenLargerThan)") }
  }

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
