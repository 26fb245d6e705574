/// A format of a camera: the size of its images in pixels, and its highest rate in frames per second.
public struct CameraFormat: Sendable, Equatable {
  public var width: Int
  public var height: Int
  public var rate: Double

  public init(width: Int, height: Int, rate: Double) { (self.width, self.height, self.rate) = (width, height, rate) }

  /// The format for a recording: one that reaches the rate and the size, with the fewest pixels, and of those the one of the lowest rate.
  ///
  /// - Returns: `nil` where none reaches both: an app says so, and records nothing slower or smaller than was asked for.
  public static func choice(of formats: [CameraFormat], width: Int, height: Int, rate: Double) -> CameraFormat? {
    formats.filter { $0.rate >= rate && $0.width >= width && $0.height >= height }
      .min { ($0.width * $0.height, $0.rate) < ($1.width * $1.height, $1.rate) }
  }
}
