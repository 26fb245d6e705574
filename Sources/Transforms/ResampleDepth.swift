package import Model
import Rasters
package import Steps

/// Resamples depth maps to another grid, leaves out unreliable depth values, and converts the unit. Confidence and intrinsics follow.
///
///     - resample-depth: {width: 256, height: 192, method: area}
///     - resample-depth: {to: image, method: edge-aware, min-confidence: 1}
///     - resample-depth: {unit: mm}
///
/// A depth value that is absent or left out contributes to no new value. The confidence of a new value is the least of those that it was
/// computed from. The error against the source is measured for every map that is written.
package struct ResampleDepth: MemberTransform {
  package static let name = "resample-depth"
  package static let summary = "Resamples depth and its confidence to a grid, filters it and converts its unit; intrinsics follow"

  enum Unit: String, OptionChoice { case m, mm }
  enum Target: String, OptionChoice { case image }

  @StepOption("width of the grid, with \"height\"; absent: the grid stays (pixels)", 1...8192) var width: Int? = nil
  @StepOption("height of the grid, with \"width\" (pixels)", 1...8192) var height: Int? = nil
  @StepOption("image: the grid of the camera's images at this point of the pipeline, instead of \"width\" and \"height\"") var to: Target? =
    nil
  @StepOption("nearest: value at the center of a new pixel; area: mean over it; bilinear: interpolated; edge-aware: not across edges")
  var method = DepthResampling.Method.nearest
  @StepOption("edge-aware: interpolates across differences up to this fraction of the depth", 0...1) var edge = 0.05
  @StepOption("leaves out depth values of less confidence (0 low, 1 medium, 2 high), where the take has confidence", 0...2)
  var minConfidence: Int? = nil
  @StepOption("leaves out depth values beyond this distance (m)", above: 0, through: 1000) var maxRange: Double? = nil
  @StepOption("m: Float32 meters; mm: UInt16 millimeters, rounded half up, absent above 65535") var unit: Unit? = nil
  @StepOption("of a take of several phones, only the streams of this member; null: of all") package var member: String? = nil

  package init() {}

  /// Throws `OptionError` without a change, and for half a size.
  package func validate() throws {
    if width != nil, height == nil { throw OptionError("width", "give \"height\" too") }
    if height != nil, width == nil { throw OptionError("height", "give \"width\" too") }
    if to != nil, width != nil { throw OptionError("to", "give either \"to\" or \"width\" and \"height\", not both") }
    if width == nil, to == nil, minConfidence == nil, maxRange == nil, unit == nil {
      throw OptionError(
        "width", "give \"width\" and \"height\", \"to\", \"unit\", \"min-confidence\" or \"max-range\"; without them nothing changes")
    }
  }

  package func apply(to episode: Episode, in context: RunContext) throws -> Episode {
    var resampled = episode
    for (name, stream) in episode.streams.sorted(by: { $0.key < $1.key }) {
      switch stream.spec.kind {
      case .depth: resampled.streams[name] = try resampling(depth: stream, name, in: episode)
      case .confidence: resampled.streams[name] = try resampling(confidence: stream, name, in: episode)
      default: break
      }
    }
    return resampled
  }

  private func resampling(depth stream: SampleStream, _ name: StreamName, in episode: Episode) throws -> SampleStream {
    guard let raster = stream.spec.raster else { return stream }
    let target = try self.target(of: raster, name, in: episode)
    let confidence = rejectsByConfidence ? episode.first(.confidence, of: raster.camera) : nil
    var resampling = try plan(from: raster, to: target, depth: stream.spec, name)
    resampling.minConfidence = confidence == nil ? nil : minConfidence.map { UInt8(clamping: $0) }
    if resampling.keepsDepth { return stream }
    let companion = try confidence.map { try pair(name, stream, with: $0.name, $0.stream) }
    let isMeasured = !resampling.keepsGrid || resampling.source != resampling.target
    var resampled = stream.on(target)
    resampled.source = ResampledDepth(
      base: stream.source, content: .depth, companion: companion, resampling: resampling,
      errors: isMeasured ? DepthResamplingErrors(count: stream.timestamps.count) : nil)
    resampled.spec.type = resampling.target
    if let unit { resampled.spec.unit = unit.rawValue }
    return resampled
  }

  private func resampling(confidence stream: SampleStream, _ name: StreamName, in episode: Episode) throws -> SampleStream {
    guard let raster = stream.spec.raster else { return stream }
    let target = try self.target(of: raster, name, in: episode)
    let depth = episode.first(.depth, of: raster.camera)
    var resampling = try plan(from: raster, to: target, depth: depth?.stream.spec, name)
    if depth == nil { resampling.method = .nearest }
    if rejectsByConfidence { resampling.minConfidence = minConfidence.map { UInt8(clamping: $0) } }
    if resampling.keepsGrid { return stream }
    let needed = resampling.confidenceNeedsDepth ? depth : nil
    let companion = try needed.map { try pair(name, stream, with: $0.name, $0.stream) }
    var resampled = stream.on(target)
    resampled.source = ResampledDepth(base: stream.source, content: .confidence, companion: companion, resampling: resampling)
    return resampled
  }

  /// Whether there are confidences that make a depth value invalid.
  private var rejectsByConfidence: Bool { minConfidence ?? 0 > 0 }

  private func target(of raster: Raster, _ name: StreamName, in episode: Episode) throws -> Raster {
    if let width, let height { return raster.applying(.resize(ImageSize(width: width, height: height))) }
    guard to == .image else { return raster }
    guard let image = episode.first(.image, of: raster.camera)?.stream.spec.raster else {
      throw TakeFailure(.streamMissing, "resample-depth: \(name) has no images whose grid it could get; its camera has none")
    }
    guard episode.cameras[raster.camera]?.intrinsicsTrack != nil else {
      throw TakeFailure(
        .intrinsicsMissing, "resample-depth: \(name) cannot be put on the grid of the images: the intrinsics of the camera are not known")
    }
    return image
  }

  private func plan(from raster: Raster, to target: Raster, depth: StreamSpec?, _ name: StreamName) throws -> DepthResampling {
    let oldFromNew =
      to == .image ? raster.rasterFromFull.after(target.rasterFromFull.inverse) : .scale(from: target.size, to: raster.size)
    var resampling = DepthResampling(from: raster.size, to: target.size, oldFromNew: oldFromNew)
    guard resampling.isPossible else {
      throw TakeFailure(.internal, "resample-depth: the grids of \(name) and of the images are not parallel")
    }
    if resampling.isTransposed, method != .nearest {
      throw TakeFailure(
        .gridsDiffer,
        "resample-depth: \(name) and the images are rotated against each other, which only the method nearest supports")
    }
    (resampling.method, resampling.edge, resampling.maxRange) = (method, edge, maxRange)
    if let depth {
      resampling.source = depth.type
      resampling.target = unit.map { $0 == .mm ? .uint16 : .float32 } ?? depth.type
    }
    return resampling
  }

  /// The samples that a stream is computed from together with its own.
  private func pair(
    _ name: StreamName, _ stream: SampleStream, with other: StreamName, _ companion: SampleStream
  ) throws -> ResampledDepth.Companion {
    guard stream.spec.raster == companion.spec.raster else {
      throw TakeFailure(
        .gridsDiffer,
        "resample-depth: \(name) and \(other) are not on the same grid (\(stream.spec.shape) and \(companion.spec.shape))")
    }
    guard case .random = companion.source.access else {
      throw TakeFailure(
        .internal, "resample-depth: \(other) can only be read from front to back, so \(name) cannot be computed together with it")
    }
    return ResampledDepth.Companion(of: stream, in: companion)
  }
}

extension SampleStream {
  /// The stream with the spec of another grid.
  fileprivate func on(_ raster: Raster) -> SampleStream {
    var stream = self
    stream.spec.raster = raster
    stream.spec.shape = [raster.size.height, raster.size.width] + spec.shape.dropFirst(2)
    stream.spec.sourceEncoding = nil
    return stream
  }
}

extension Episode {
  /// A camera's stream of a kind, the first by name.
  fileprivate func first(_ kind: StreamKind, of camera: CameraName) -> (name: StreamName, stream: SampleStream)? {
    streams.filter { $0.value.spec.kind == kind && $0.value.spec.raster?.camera == camera }.min { $0.key < $1.key }
      .map { ($0.key, $0.value) }
  }
}
