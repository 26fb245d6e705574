// https://developer.apple.com/documentation/coremedia
public struct CMTime: Sendable {
  public init(seconds: Double, preferredTimescale: Int32) { fatalError() }
  public static var zero: CMTime { fatalError() }
}
public func CMTimeGetSeconds(_ time: CMTime) -> Double { fatalError() }
