// https://developer.apple.com/documentation/avfoundation/avassetwriter and .../avassetwriterdelegate
@_exported import CoreMedia
@_exported import CoreVideo
import Foundation
import UniformTypeIdentifiers

public struct AVVideoCodecType: Sendable, Hashable {
  public static var hevc: AVVideoCodecType { fatalError() }
  public static var h264: AVVideoCodecType { fatalError() }
}
public struct AVMediaType: Sendable { public static var video: AVMediaType { fatalError() } }
public struct AVFileTypeProfile: Sendable {
  public static var mpeg4CMAFCompliant: AVFileTypeProfile { fatalError() }
  public static var mpeg4AppleHLS: AVFileTypeProfile { fatalError() }
}
public var AVVideoCodecKey: String { fatalError() }
public var AVVideoWidthKey: String { fatalError() }
public var AVVideoHeightKey: String { fatalError() }
public var AVVideoCompressionPropertiesKey: String { fatalError() }
public var AVVideoAverageBitRateKey: String { fatalError() }
public var AVVideoAllowFrameReorderingKey: String { fatalError() }

open class AVAssetWriter: NSObject {
  public enum Status: Int { case unknown, writing, completed, failed, cancelled }
  public init(contentType: UTType) { fatalError() }
  public var outputFileTypeProfile: AVFileTypeProfile?
  public var preferredOutputSegmentInterval: CMTime {
    get { fatalError() }
    set { fatalError() }
  }
  public var initialSegmentStartTime: CMTime {
    get { fatalError() }
    set { fatalError() }
  }
  public weak var delegate: (any AVAssetWriterDelegate)?
  public var status: Status { fatalError() }
  public var error: (any Error)? { fatalError() }
  public func add(_ input: AVAssetWriterInput) { fatalError() }
  public func startWriting() -> Bool { fatalError() }
  public func startSession(atSourceTime startTime: CMTime) { fatalError() }
  public func cancelWriting() { fatalError() }
  public func finishWriting(completionHandler handler: @escaping @Sendable () -> Void) { fatalError() }
}
open class AVAssetWriterInput: NSObject {
  public init(mediaType: AVMediaType, outputSettings: [String: Any]?) { fatalError() }
  public var expectsMediaDataInRealTime: Bool {
    get { fatalError() }
    set { fatalError() }
  }
  public var isReadyForMoreMediaData: Bool { fatalError() }
  public func markAsFinished() { fatalError() }
}
open class AVAssetWriterInputPixelBufferAdaptor: NSObject {
  public init(assetWriterInput input: AVAssetWriterInput, sourcePixelBufferAttributes: [String: Any]?) { fatalError() }
  public func append(_ pixelBuffer: CVPixelBuffer, withPresentationTime presentationTime: CMTime) -> Bool { fatalError() }
}
public enum AVAssetSegmentType: Int, Sendable { case initialization = 1, separable = 2 }
open class AVAssetSegmentTrackReport: NSObject {
  public var earliestPresentationTimeStamp: CMTime { fatalError() }
  public var duration: CMTime { fatalError() }
}
open class AVAssetSegmentReport: NSObject { public var trackReports: [AVAssetSegmentTrackReport] { fatalError() } }
public protocol AVAssetWriterDelegate: AnyObject {
  func assetWriter(
    _ writer: AVAssetWriter, didOutputSegmentData segmentData: Data, segmentType: AVAssetSegmentType, segmentReport: AVAssetSegmentReport?)
}
