package import Model
import Rasters
package import Steps

/// Crops images, and the depth and confidence of their camera to the same field of view; intrinsics follow.
///
///     - crop: {box: [40, 0, 240, 240]}
///     - crop: {center: [224, 224]}
///     - crop: {aspect: 1}
package struct Crop: MemberTransform {
  package static let name = "crop"
  package static let summary = "Crops images, depth and confidence to one field of view; intrinsics follow"

  @StepOption("left, top, width and height of the crop (pixels of the image as it is before this step)") var box: [Int]? = nil
  @StepOption("width and height of a crop at the center (pixels)") var center: [Int]? = nil
  @StepOption("the largest crop at the center of this width divided by height", above: 0, through: 1000) var aspect: Double? = nil
  @StepOption("of a take of several phones, only the streams of this member; null: of all") package var member: String? = nil

  package var changesImages: Bool { true }

  package init() {}

  /// Throws `OptionError` unless exactly one of the three crops is given, with a size of at least one pixel.
  package func validate() throws {
    let given = [("box", box != nil), ("center", center != nil), ("aspect", aspect != nil)].filter(\.1).map(\.0)
    guard given.count == 1 else {
      throw OptionError(given.last ?? "box", "give one of \"box\", \"center\" and \"aspect\"\(given.isEmpty ? "" : ", not \(given.count)")")
    }
    if let box {
      guard box.count == 4 else { throw OptionError("box", "expected left, top, width and height, found \(box.count) numbers") }
      guard box[0] >= 0, box[1] >= 0, box[2] >= 1, box[3] >= 1, box.allSatisfy({ $0 <= Self.limit }) else {
        throw OptionError("box", "expected left and top of 0 or more, width and height of 1 or more, up to \(Self.limit); found \(box)")
      }
    }
    if let center {
      guard center.count == 2 else { throw OptionError("center", "expected width and height, found \(center.count) numbers") }
      guard center.allSatisfy({ (1...Self.limit).contains($0) }) else {
        throw OptionError("center", "expected width and height from 1 to \(Self.limit), found \(center)")
      }
    }
  }

  private static let limit = 16384

  /// Crops every camera. Throws `TakeFailure` for a take whose images do not contain the crop.
  package func apply(to episode: Episode, in context: RunContext) throws -> Episode {
    var cropped = episode
    for (name, stream) in episode.streams.sorted(by: { $0.key < $1.key }) where stream.spec.kind == .image {
      guard let size = stream.spec.raster?.size else { continue }
      let window = self.window(of: size)
      guard case .window(let x, let y, let part) = window, x >= 0, y >= 0, x + part.width <= size.width, y + part.height <= size.height
      else {
        let words = box.map { "box \($0)" } ?? "center \(center ?? [])"
        throw TakeFailure(.cropOutside, "the images of \(name) are \(size), and the crop \(words) does not fit within them")
      }
      if part != size { cropped = cropped.windowing(name, to: window) }
    }
    return cropped
  }

  private func window(of size: ImageSize) -> RasterMap {
    if let box, box.count == 4 { return .window(x: box[0], y: box[1], size: ImageSize(width: box[2], height: box[3])) }
    if let center, center.count == 2 { return size.centered(ImageSize(width: center[0], height: center[1])) }
    let (width, height) = (Double(size.width), Double(size.height))
    let aspect = aspect ?? width / height
    let isWide = width / height > aspect
    return size.centered(
      ImageSize(
        width: isWide ? max(1, Int((height * aspect).rounded())) : size.width,
        height: isWide ? size.height : max(1, Int((width / aspect).rounded()))))
  }
}
