package import Model
import Rasters
package import Steps

/// Resizes images, averaging over the area of each new pixel; intrinsics follow.
///
///     - resize-image: {width: 320, height: 240}
///
/// `mode: fit` keeps the aspect ratio and enlarges only with `enlarge: true`; `letterbox` does the same and pads with black to exactly this size; `cover` scales
/// until this size is covered and crops the rest; `stretch` makes exactly this size. Depth keeps the image's field of view, and masks of the image's size follow it. JPEGs that shrink to half or less are first
/// decoded at 1/2, 1/4 or 1/8 by libjpeg-turbo's reduced inverse DCT.
package struct ResizeImage: MemberTransform {
  package static let name = "resize-image"
  package static let summary = "Resizes images with antialiasing; intrinsics follow"

  /// The fit of an image into the box of `width` and `height`.
  package enum Mode: String, OptionChoice { case fit, cover, letterbox, stretch }

  @StepOption("largest width (pixels)", 1...8192) var width = 320
  @StepOption("largest height (pixels)", 1...8192) var height = 240
  @StepOption(
    "fit: the largest image of the same aspect ratio within width x height, enlarged only with enlarge; letterbox: the same, padded to width x height; cover: scaled to cover width x height, and cropped at the center; stretch: exactly width x height"
  )
  var mode = Mode.fit
  @StepOption("fit, letterbox: whether smaller images are enlarged, so that they fill width or height too") var enlarge = false
  @StepOption("images with neither side longer than this keep their size (pixels)", 0...) var whenLargerThan = 0
  @StepOption("of a take of several phones, only the streams of this member; null: of all") package var member: String? = nil

  package var changesImages: Bool { true }

  private static let longestSide = 16_384

  package init() {}

  /// Throws `OptionError` for `enlarge` with a mode that enlarges anyway.
  package func validate() throws {
    if enlarge, mode == .cover || mode == .stretch { throw OptionError("enlarge", "\(mode.rawValue) enlarges smaller images anyway") }
  }

  /// Resizes every image stream. Throws `TakeFailure` where `cover` would need an image of more than 16,384 pixels on a side.
  package func apply(to episode: Episode, in context: RunContext) throws -> Episode {
    var resized = episode
    let box = ImageSize(width: width, height: height)
    for (name, stream) in episode.streams.sorted(by: { $0.key < $1.key }) where stream.spec.kind == .image {
      guard let full = stream.spec.raster?.size, max(full.width, full.height) > whenLargerThan else { continue }
      let scaled =
        switch mode {
        case .fit, .letterbox: full.fitted(within: box, enlarging: enlarge)
        case .cover: full.covering(box)
        case .stretch: box
        }
      guard max(scaled.width, scaled.height) <= Self.longestSide else {
        throw TakeFailure(.limit, "to cover \(box), images of \(full) would be scaled to \(scaled), above \(Self.longestSide) pixels")
      }
      if scaled != full {
        resized.streams[name] = resized.streams[name]?.applying(.resize(scaled))
        // A mask of the image's pixels stays one.
        for (mask, other) in resized.streams where other.spec.kind == .segmentation && other.spec.raster == stream.spec.raster {
          resized.streams[mask] = other.applying(.resize(scaled))
        }
      }
      if mode != .fit, scaled != box { resized = resized.windowing(name, to: scaled.centered(box)) }
    }
    return resized
  }
}
