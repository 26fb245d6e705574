/// What one sample of a stream is: element type, shape, unit and frame of reference.
package struct StreamSpec: Equatable, Sendable {
  package var kind: StreamKind
  package var type: ScalarType
  /// Shape of one sample.
  package var shape: [Int]
  package var unit: String
  package var clock: Clock
  /// The camera and pixel grid, for images, depth and confidence.
  package var raster: Raster?
  /// Words for the elements of a vector, in order.
  package var elements: [String] = []
  /// The unit of the source's accelerations, where these were converted.
  package var sourceUnit: String?
  /// How the source stores images, as long as nothing has changed their pixels.
  package var sourceEncoding: ImageEncoding?
  /// Degrees by which frames, and their depth, were rotated clockwise to stand upright; absent where the source has no say in it.
  package var rotationApplied: Int?

  package enum ImageEncoding: String, Sendable { case jpeg }

  package init(kind: StreamKind, type: ScalarType, shape: [Int], unit: String, clock: Clock) {
    (self.kind, self.type, self.shape, self.unit, self.clock) = (kind, type, shape, unit, clock)
  }

  /// A stream of images, depth maps or confidence maps on a camera's grid, with `channels` numbers a pixel.
  package init(raster: Raster, kind: StreamKind, type: ScalarType, channels: Int, unit: String, clock: Clock) {
    self.init(kind: kind, type: type, shape: [raster.size.height, raster.size.width, channels], unit: unit, clock: clock)
    self.raster = raster
  }

  /// Bytes of one sample.
  package var sampleBytes: Int { shape.reduce(type.size, *) }
  /// Bytes of one pixel.
  package var pixelBytes: Int { type.size * (shape.last ?? 1) }
  /// Numbers of one sample.
  package var elementCount: Int { shape.reduce(1, *) }

  /// A depth map's values in metres.
  package func metres(_ sample: [UInt8]) -> [Float] {
    sample.withUnsafeBytes {
      type == .uint16 ? $0.bindMemory(to: UInt16.self).map { Float($0) / 1000 } : Array($0.bindMemory(to: Float.self))
    }
  }
}

/// What the numbers of a stream mean. Readers and transforms choose a kind; everything that follows from it, the kind answers.
package enum StreamKind: Equatable, Sendable {
  /// Camera-to-world poses [x y z qx qy qz qw] in the given frame.
  case pose(PoseFrame)
  /// H x W x 3 RGB bytes.
  case image
  /// Depth along the optical axis, h x w x 1, in metres as Float32 or in whole millimetres; 0 where there is none.
  case depth
  /// How far each depth value is to be trusted, h x w x 1 bytes.
  case confidence
  /// A few numbers a sample; NaN where there is none.
  case vector
  /// Joint angles; NaN where there is none.
  case angles
  /// What a policy is to do, computed from other streams; a row is whole or missing.
  case action
  /// Acceleration and angular velocity, kept at their own times and never paired with frames.
  case inertial

  /// How a value between two samples is made.
  package enum Interpolation: Sendable {
    /// Not at all: the nearer sample counts.
    case nearest
    case linear
    /// Positions linearly, rotations along the shortest arc.
    case slerp
  }

  /// Which elements have a validity of their own.
  package enum Mask: Sendable {
    /// Those above 0.
    case positive
    /// Those that are not NaN.
    case notNaN
    /// The row as a whole, which is invalid when one element is NaN.
    case row
  }

  /// Where a stream belongs in a dataset.
  package enum Place: Sendable { case observation, action, meta }

  /// True for many bytes a sample, which come from files or movie frames.
  package var isRaster: Bool {
    switch self {
    case .image, .depth, .confidence: true
    case .pose, .vector, .angles, .action, .inertial: false
    }
  }

  package var interpolation: Interpolation {
    switch self {
    case .pose: .slerp
    case .vector, .angles: .linear
    case .image, .depth, .confidence, .action, .inertial: .nearest
    }
  }

  package var mask: Mask? {
    switch self {
    case .depth: .positive
    case .vector, .angles: .notNaN
    case .action: .row
    case .pose, .image, .confidence, .inertial: nil
    }
  }

  /// What stands for an element that is missing.
  package var missingValue: Float {
    switch self {
    case .image, .depth, .confidence, .action: 0
    case .pose, .vector, .angles, .inertial: .nan
    }
  }

  package var place: Place {
    switch self {
    case .action: .action
    case .inertial: .meta
    case .pose, .image, .depth, .confidence, .vector, .angles: .observation
    }
  }

  /// The mark of a frame for which the stream has nothing.
  package var missingQuality: FrameQuality? {
    switch self {
    case .image: .imageUndecodable
    case .depth: .depthMissing
    case .angles: .jointsMissing
    case .pose, .confidence, .vector, .action, .inertial: nil
    }
  }

  /// One word, as it stands in files.
  package var word: String {
    switch self {
    case .pose: "pose"
    case .image: "image"
    case .depth: "depth"
    case .confidence: "confidence"
    case .vector: "vector"
    case .angles: "angles"
    case .action: "action"
    case .inertial: "inertial"
    }
  }

  /// The kind of this word; a pose needs its frame.
  package init?(word: String, frame: PoseFrame?) {
    let plain: [StreamKind] = [.image, .depth, .confidence, .vector, .angles, .action, .inertial]
    if word == "pose", let frame {
      self = .pose(frame)
    } else if let kind = plain.first(where: { $0.word == word }) {
      self = kind
    } else {
      return nil
    }
  }

  package var poseFrame: PoseFrame? { if case .pose(let frame) = self { frame } else { nil } }
}
