/// The description of a stream's samples: element type, shape, unit and frame of reference.
package struct StreamSpec: Equatable, Sendable {
  package var kind: StreamKind
  package var type: ScalarType
  /// Shape of one sample.
  package var shape: [Int]
  package var unit: String
  package var clock: Clock
  /// The member of a joined take that it is of; `nil` in any other take.
  package var member: String?
  /// Whether it is of a member that acts: the head watches.
  package var isOfActingMember: Bool { member != nil && member != "head" }
  /// The camera and pixel grid, for images, depth and confidence.
  package var raster: Raster?
  /// Names of the elements of a vector, in order.
  package var elements: [String] = []
  /// The parts of an action, each with its number of columns, in order.
  package var parts: [Part] = []
  /// The frame of the poses that actions are computed from.
  package var actionFrame: PoseFrame?
  /// Order of a rotation's six numbers in its matrix, `columns` or `rows`; of actions that have some.
  package var rotationLayout: String?
  /// Unit of the source's accelerations, where these were converted.
  package var sourceUnit: String?
  /// The source's encoding of images, as long as no step has changed their pixels.
  package var sourceEncoding: ImageEncoding?
  /// Degrees by which frames and their depth were rotated clockwise to be upright; `nil` where the source has no display rotation.
  package var rotationApplied: Int?

  /// The compression of stored images.
  package enum ImageEncoding: String, Sendable { case jpeg, png }

  /// Some columns of an action that have a name: `joints:4`.
  package struct Part: Equatable, Sendable, CustomStringConvertible {
    package var name: String
    package var columns: Int
    package init(_ name: String, columns: Int) { (self.name, self.columns) = (name, columns) }

    /// `nil` for text that is not a name, a colon and a number.
    package init?(_ text: some StringProtocol) {
      let words = text.split(separator: ":")
      guard words.count == 2, let columns = Int(words[1]), columns > 0 else { return nil }
      self.init(String(words[0]), columns: columns)
    }

    package var description: String { "\(name):\(columns)" }
  }

  package init(kind: StreamKind, type: ScalarType, shape: [Int], unit: String, clock: Clock) {
    (self.kind, self.type, self.shape, self.unit, self.clock) = (kind, type, shape, unit, clock)
  }

  /// Describes images, depth maps or confidence maps on a camera's grid, with `channels` numbers per pixel.
  package init(raster: Raster, kind: StreamKind, type: ScalarType, channels: Int, unit: String, clock: Clock) {
    self.init(kind: kind, type: type, shape: [raster.size.height, raster.size.width, channels], unit: unit, clock: clock)
    self.raster = raster
  }

  /// Width and height of an image or depth map.
  package var gridSize: ImageSize { raster?.size ?? ImageSize(width: shape[1], height: shape[0]) }
  /// Size of one sample in bytes.
  package var sampleBytes: Int { shape.reduce(type.size, *) }
  /// Size of one pixel in bytes.
  package var pixelBytes: Int { type.size * (shape.last ?? 1) }
  /// Number of channels with statistics of their own: the elements of a vector, the columns of actions, the colors of an image.
  package var statisticsChannels: Int { kind == .action || kind.isRaster ? shape.last ?? 1 : elementCount }
  /// Number of elements of one sample.
  package var elementCount: Int { shape.reduce(1, *) }

  /// Depth values of a depth map in meters.
  package func meters(_ sample: [UInt8]) -> [Float] {
    sample.withUnsafeBytes {
      type == .uint16 ? $0.bindMemory(to: UInt16.self).map { Float($0) / 1000 } : Array($0.bindMemory(to: Float.self))
    }
  }
}

/// The meaning of a stream's numbers. Readers and transforms choose a kind; its properties follow from it.
package enum StreamKind: Equatable, Sendable {
  /// Camera-to-world poses [x y z qx qy qz qw] in the given frame.
  case pose(PoseFrame)
  /// H x W x 3 RGB bytes.
  case image
  /// Depth along the optical axis, h x w x 1, in meters as Float32 or in whole millimeters; 0 where absent.
  case depth
  /// Reliability of each depth value, h x w x 1 bytes.
  case confidence
  /// What each pixel belongs to, H x W x 1 bytes; a step of the user's says what the numbers mean.
  case segmentation
  /// A vector of numbers; NaN where absent.
  case vector
  /// Joint angles; NaN where absent.
  case angles
  /// Actions of a policy, computed from other streams; a row is complete or missing.
  case action
  /// Acceleration and angular velocity, stored at their own timestamps and never paired with frames.
  case inertial

  /// The interpolation between two samples.
  package enum Interpolation: Sendable {
    /// None: the nearer sample is used.
    case nearest
    case linear
    /// Linear for positions, along the shortest arc for rotations.
    case slerp
  }

  /// The rule that decides which elements are valid.
  package enum Mask: Sendable {
    /// Elements above 0 are valid.
    case positive
    /// Elements that are not NaN are valid.
    case notNaN
    /// A row of the last dimension is valid when none of its elements is NaN.
    case row
  }

  /// The part of a dataset that a stream belongs to.
  package enum Place: Sendable { case observation, action, meta }

  /// Whether samples are grids of pixels, which are large and come from files or video frames.
  package var isRaster: Bool {
    switch self {
    case .image, .depth, .confidence, .segmentation: true
    case .pose, .vector, .angles, .action, .inertial: false
    }
  }

  package var interpolation: Interpolation {
    switch self {
    case .pose: .slerp
    case .vector, .angles: .linear
    case .image, .depth, .confidence, .segmentation, .action, .inertial: .nearest
    }
  }

  package var mask: Mask? {
    switch self {
    case .depth: .positive
    case .vector, .angles: .notNaN
    case .action: .row
    case .pose, .image, .confidence, .segmentation, .inertial: nil
    }
  }

  /// The stored value of a missing element.
  package var missingValue: Float {
    switch self {
    case .image, .depth, .confidence, .segmentation, .action: 0
    case .pose, .vector, .angles, .inertial: .nan
    }
  }

  package var place: Place {
    switch self {
    case .action: .action
    case .inertial: .meta
    case .pose, .image, .depth, .confidence, .segmentation, .vector, .angles: .observation
    }
  }

  /// The quality bit of a frame for which the stream has no sample.
  package var missingQuality: FrameQuality? {
    switch self {
    case .image: .imageUndecodable
    case .depth: .depthMissing
    case .angles: .jointsMissing
    case .pose, .confidence, .segmentation, .vector, .action, .inertial: nil
    }
  }

  /// The kind's name, as stored in files.
  package var word: String {
    switch self {
    case .pose: "pose"
    case .image: "image"
    case .depth: "depth"
    case .confidence: "confidence"
    case .segmentation: "segmentation"
    case .vector: "vector"
    case .angles: "angles"
    case .action: "action"
    case .inertial: "inertial"
    }
  }

  /// Makes the kind with this name; a pose needs its frame.
  package init?(word: String, frame: PoseFrame?) {
    let plain: [StreamKind] = [.image, .depth, .confidence, .segmentation, .vector, .angles, .action, .inertial]
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
