package import HDF5
package import Media

/// What one sample of a stream is: element type, shape, unit and frame of reference.
package struct StreamSpec: Equatable, Sendable {
  /// What the numbers mean, which decides how transforms and the writer treat them.
  package enum Kind: Equatable, Sendable {
    /// Camera-to-world poses [x y z qx qy qz qw] in the given frame.
    case pose(PoseFrame)
    /// Pictures, H x W x 3 RGB bytes.
    case image
    /// Distances along the optical axis, h x w x 1, in metres as Float32 or in whole millimetres; 0 where there is none.
    case depth
    /// How much the sensor trusts each distance, h x w x 1 bytes.
    case confidence
    /// A few numbers a sample; NaN where there is none.
    case numbers
    /// Acceleration and turn rate, kept at their own times and never paired with frames.
    case inertial
  }

  package var kind: Kind
  package var type: Datatype
  /// Shape of one sample.
  package var shape: [Int]
  package var unit: String
  package var clock: Clock
  /// In what the source has accelerations, where these were brought to another unit.
  package var sourceUnit: String?
  /// Pinhole intrinsics in pixels of this stream's grid, for images and depth that know them.
  package var intrinsics: Camera?
  /// Degrees by which a movie's pictures, and its depth, were turned clockwise to stand upright.
  package var rotationApplied: Int?

  package init(
    kind: Kind, type: Datatype, shape: [Int], unit: String, clock: Clock, intrinsics: Camera? = nil
  ) {
    self.kind = kind
    self.type = type
    self.shape = shape
    self.unit = unit
    self.clock = clock
    self.intrinsics = intrinsics
  }

  /// Bytes of one sample.
  package var sampleBytes: Int { shape.reduce(type.size, *) }

  /// True for streams of many bytes a sample, whose samples are files or movie frames.
  package var isGrid: Bool { [.image, .depth, .confidence].contains(kind) }

  /// A depth map's distances in metres.
  func metres(_ sample: [UInt8]) -> [Float] {
    sample.withUnsafeBytes {
      type == .uint16 ? $0.bindMemory(to: UInt16.self).map { Float($0) / 1000 } : Array($0.bindMemory(to: Float.self))
    }
  }
}

/// The pinhole camera of a stream, which may be another for each sample: autofocus moves the lens.
package struct Camera: Equatable, Sendable {
  /// The one to take where only one can be.
  package var usual: Intrinsics
  package var bySample: [Intrinsics]?

  package init(_ usual: Intrinsics, bySample: [Intrinsics]? = nil) {
    self.usual = usual
    self.bySample = bySample
  }

  /// `nil` for a row without a sample, where samples differ.
  func intrinsics(ofSample sample: Int?) -> Intrinsics? {
    guard let bySample else { return usual }
    return sample.map { bySample[$0] }
  }

  private func mapped(_ change: (Intrinsics) -> Intrinsics) -> Camera { Camera(change(usual), bySample: bySample?.map(change)) }

  package func scaled(x: Double, y: Double) -> Camera { mapped { $0.scaled(x: x, y: y) } }

  package func turned(_ turn: QuarterTurn, of size: Pixels) -> Camera { mapped { $0.turned(turn, of: size) } }
}

/// Focal lengths and principal point in pixels; the origin is the outer corner of the top-left pixel.
package struct Intrinsics: Equatable, Sendable {
  package var fx, fy, cx, cy: Double

  package init(fx: Double, fy: Double, cx: Double, cy: Double) {
    (self.fx, self.fy, self.cx, self.cy) = (fx, fy, cx, cy)
  }

  /// For the record: pixels of pictures of this size.
  func json(for size: Pixels) -> JSONValue {
    [
      "fx": .number(fx), "fy": .number(fy), "cx": .number(cx), "cy": .number(cy), "width": JSONValue(size.width),
      "height": JSONValue(size.height),
    ]
  }

  /// The same camera on a grid whose pixels are `x` times as many across and `y` times as many down.
  package func scaled(x: Double, y: Double) -> Intrinsics {
    Intrinsics(fx: fx * x, fy: fy * y, cx: cx * x, cy: cy * y)
  }

  /// The same camera after its pictures of `size` were turned clockwise.
  package func turned(_ turn: QuarterTurn, of size: Pixels) -> Intrinsics {
    let (width, height) = (Double(size.width), Double(size.height))
    return switch turn {
    case .none: self
    case .right: Intrinsics(fx: fy, fy: fx, cx: height - cy, cy: cx)
    case .half: Intrinsics(fx: fx, fy: fy, cx: width - cx, cy: height - cy)
    case .left: Intrinsics(fx: fy, fy: fx, cx: cy, cy: width - cx)
    }
  }
}

/// Where samples come from: files, a movie, memory. Samples are read on demand, by several threads at once, each
/// through a cursor of its own.
package protocol SampleSource: Sendable {
  func makeCursor() throws -> any SampleCursor
  /// Cheaply looks whether sample `index` can be read (sizes, headers), for `inspect`; throws as a cursor would.
  func probe(_ index: Int) throws
  /// Where the samples come from one after the other, if they do.
  var feed: (any SampleFeed)? { get }
  /// First samples of the stretches that cursors can read by themselves, ascending from 0, for a source that has a feed and could do without.
  var runs: [Int]? { get }
  /// This source without its feed: each cursor reads by itself, cheaply as long as it stays within a run.
  var unfed: any SampleSource { get }
}

extension SampleSource {
  package func probe(_ index: Int) throws {}
  package var feed: (any SampleFeed)? { nil }
  package var runs: [Int]? { nil }
  package var unfed: any SampleSource { self }
}

/// In place of a source whose samples nobody will ask for any more, so that its files are closed.
struct NoSamples: SampleSource {
  func makeCursor() throws -> any SampleCursor { throw CancellationError() }
}

/// One thread's view of a source, with the buffers it needs.
package protocol SampleCursor {
  /// Replaces `bytes` by sample `index`: row-major, little-endian, as many as the spec says. Throws `SampleFailure` when
  /// this sample alone cannot be had.
  mutating func read(_ index: Int, into bytes: inout [UInt8]) throws
}

/// What the samples of a source are read from, front to back: a movie, a deflated file. Going back costs, so a writer fetches
/// the samples of each block of rows in order, by one thread at a time; cursors then find them there.
package protocol SampleFeed: AnyObject, Sendable {
  /// Bytes that a fetched sample takes.
  var sampleBytes: Int { get }
  /// Reads these samples, which ascend, and keeps them for cursors.
  func fetch(_ samples: [Int]) throws
  /// Lets go of samples that were fetched.
  func release(_ samples: [Int])
  /// After the last sample: reads what is left, where damage would count.
  func finish() throws
}

/// A source of pictures that can decode them smaller at less cost.
package protocol ReducibleImageSource: SampleSource {
  /// This source decoding to the smallest size it can that still covers `target`, and that size.
  func reduced(covering target: Pixels) -> (source: any SampleSource, size: Pixels)
}

/// A source of pictures that are stored as JPEG files.
package protocol JPEGSource: SampleSource {
  /// The files themselves, byte by byte, as samples.
  var files: any SampleSource { get }
}

package typealias Pixels = ImageSize

/// One sensor's samples with their own timestamps, and, once aligned, which of them goes with which frame.
package struct Stream: Sendable {
  package var spec: StreamSpec
  package var source: any SampleSource
  /// When each sample was taken, on the spec's clock, ascending.
  package var timestamps: [Timestamp]
  /// The source's own number of each sample.
  package var sourceIndex: [Int64]
  /// For each frame of the episode the sample that goes with it, or `nil`; absent until `align` has run.
  package var rows: [Int?]?
  /// The sender's own count of milliseconds at each sample, where samples were stamped late, on arrival. Starts again at
  /// a restart and after 2^32.
  package var senderMilliseconds: [UInt32]?
  /// The same samples as the sensor gave them, where they are stored otherwise.
  package var raw: (any SampleSource)?
  /// Samples a second, where the reader knows better than a regression over the timestamps tells.
  package var nominalRate: Double?

  package init(
    spec: StreamSpec, source: any SampleSource, timestamps: [Timestamp], sourceIndex: [Int64], rows: [Int?]? = nil
  ) {
    self.spec = spec
    self.source = source
    self.timestamps = timestamps
    self.sourceIndex = sourceIndex
    self.rows = rows
  }
}
