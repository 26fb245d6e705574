package import Model
import Rasters
package import Steps

/// Drops frames that have a problem, by the names in `meta/quality`, and frames whose image is blurred.
///
///     - drop-frames: {with: [pose-jump, pose-repeated]}
///     - drop-frames: {blur: 100}
///
/// `blur` decodes the images of the first image stream by name, at the size that they have at this point of the pipeline. A frame is dropped
/// if its image's sharpness (`ImageMeter`) is below the limit; frames without an image that can be decoded stay.
///
/// Must come after `align` to drop frames by depth or joints. Images are decoded later, so `image-undecodable` is unavailable; such rows
/// are masked.
package struct DropFrames: Transform {
  package static let name = "drop-frames"
  package static let summary = "Drops frames by their quality bits, and blurred ones"

  /// The bits that are known before images are decoded.
  package enum Reason: String, OptionChoice {
    case poseRepeated = "pose-repeated"
    case poseJump = "pose-jump"
    case poseInterpolated = "pose-interpolated"
    case depthMissing = "depth-missing"
    case jointsMissing = "joints-missing"
  }

  @StepOption("drop frames with any of these quality bits") var with: [Reason] = []
  @StepOption(
    "drop frames whose image has a variance of the Laplacian below this (squared levels of 0 to 255)", above: 0, through: 1_000_000)
  var blur: Double? = nil

  package var readsSamples: Bool { blur != nil }

  package init() {}

  /// Throws `OptionError` where nothing is to be dropped.
  package func validate() throws {
    if with.isEmpty, blur == nil {
      throw OptionError("with", "name at least one reason, or give \"blur\"; without them nothing is dropped")
    }
  }

  /// Drops frames by their bits first, and then by their images, so that fewer are decoded.
  package func apply(to episode: Episode, in context: RunContext) throws -> Episode {
    var kept = episode
    for reason in with {
      guard let bit = FrameQuality(named: reason.rawValue) else { continue }
      let quality = kept.quality()
      kept = kept.keeping(quality.indices.filter { !quality[$0].contains(bit) }, dropping: reason.rawValue)
    }
    guard let blur else { return kept }
    // Last, so that fewer images are decoded.
    let sharpness = try kept.sharpness()
    return kept.keeping(sharpness.indices.filter { sharpness[$0].map { $0 >= blur } ?? true }, dropping: "blurred")
  }
}

extension Episode {
  /// The sharpness of the image of each row, from the first stream of images by name; `nil` where there is none that can be decoded.
  ///
  /// - Throws: `TakeFailure` where images are not aligned yet, and for damage that fails the take anyway.
  fileprivate func sharpness() throws -> [Double?] {
    let absent = [Double?](repeating: nil, count: frames.count)
    guard let (name, stream) = firstStream(where: { $0.spec.kind == .image }) else { return absent }
    guard let rows = stream.rows else {
      throw TakeFailure(.notAligned, "the stream \(name) is not on the frames' timeline; place the step after align")
    }
    // A cursor of its own leaves the feed of a video to the writer.
    var cursor = try stream.source.makeCursor(SampleRequest(isStandalone: true))
    guard let size = cursor.size ?? stream.spec.raster?.size else { return absent }
    var meter = ImageMeter(of: size)
    var bytes: [UInt8] = []
    // Neighbors may share an image, and a video would have to be decoded again from its last keyframe.
    var last: (sample: Int, variance: Double?)?
    return try rows.map { row in
      guard let sample = row?.nearest else { return nil }
      if let last, last.sample == sample { return last.variance }
      var variance: Double?
      do {
        try cursor.read(sample, into: &bytes)
        variance = meter.read(bytes)?.sharpness
      } catch is SampleFailure {}  // The writer masks it and reports it.
      last = (sample, variance)
      return variance
    }
  }
}
