// https://developer.apple.com/documentation/arkit/arsession and .../arsessiondelegate
@_exported import CoreVideo
import Foundation

open class ARSession: NSObject {
  public weak var delegate: (any ARSessionDelegate)?
  public var delegateQueue: DispatchQueue?
  public var currentFrame: ARFrame? { fatalError() }
  public func run(_ configuration: ARConfiguration) { fatalError() }
}
open class ARConfiguration: NSObject {
  public struct FrameSemantics: OptionSet, Sendable {
    public let rawValue: UInt
    public init(rawValue: UInt) { self.rawValue = rawValue }
    public static let sceneDepth = FrameSemantics(rawValue: 8)
    public static let smoothedSceneDepth = FrameSemantics(rawValue: 16)
  }
  public var frameSemantics: FrameSemantics {
    get { fatalError() }
    set { fatalError() }
  }
  open class func supportsFrameSemantics(_ semantics: FrameSemantics) -> Bool { fatalError() }
}
open class ARWorldTrackingConfiguration: ARConfiguration {}
open class ARDepthData: NSObject { public var depthMap: CVPixelBuffer { fatalError() } }
open class ARCamera: NSObject {
  public enum TrackingState: Sendable {
    public enum Reason: Sendable { case initializing, relocalizing, excessiveMotion, insufficientFeatures }
    case notAvailable, normal
    case limited(Reason)
  }
  public var trackingState: TrackingState { fatalError() }
}
open class ARFrame: NSObject {
  public var timestamp: TimeInterval { fatalError() }
  public var capturedImage: CVPixelBuffer { fatalError() }
  public var sceneDepth: ARDepthData? { fatalError() }
  public var camera: ARCamera { fatalError() }
}
public protocol ARSessionDelegate: AnyObject {
  func session(_ session: ARSession, didUpdate frame: ARFrame)
  func session(_ session: ARSession, cameraDidChangeTrackingState camera: ARCamera)
  func sessionWasInterrupted(_ session: ARSession)
  func session(_ session: ARSession, didFailWithError error: any Error)
}
