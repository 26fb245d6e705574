/// Makes what a `SegmentReceiver` takes of the segments of an encoder that tells the end of each as a time, as AVAssetWriter does: the initialization
/// belongs to the first segment, and frames are counted.
public struct SegmentAssembly: Sendable {
  /// Ticks in a second of the movie. Ends of segments are rounded to them.
  public static let timescale: Int32 = 600

  private var times: [Double] = []
  private var initialization: [UInt8] = []
  /// Whether the end of a segment is not known. The frames of all that follow would not be known either, so there are none.
  public private(set) var isBroken = false

  public init() {}

  /// Counts a frame that the encoder has taken, at its seconds since the first; they ascend.
  public mutating func add(_ seconds: Double) { times.append(seconds) }

  /// Keeps the movie's initialization for the first segment.
  public mutating func initialize(_ bytes: [UInt8]) { initialization = bytes }

  /// The bytes of a segment that is complete, and the number of frames up to its end; `nil` where this or an earlier end is not known.
  ///
  /// - Parameter end: Seconds from the first frame to the segment's end; `nil` where the encoder does not say.
  public mutating func segment(_ bytes: [UInt8], until end: Double?) -> (bytes: [UInt8], frames: Int)? {
    guard let end, !isBroken else {
      isBroken = true
      return nil
    }
    defer { initialization = [] }
    return (initialization + bytes, times.count { $0 < end - 0.5 / Double(Self.timescale) })
  }
}
