#if canImport(ARKit) && canImport(AVFoundation)
  import ARKit
  import AVFoundation
  import Foundation
  import TakesetRecorder

  /// ARKit's frames for a recorder. Each is consumed inside the callback, on a queue of its own: ARKit stops when too many of its frames are kept.
  ///
  /// `@unchecked Sendable`: everything that changes belongs to `queue`.
  public final class ARKitCamera: NSObject, ARSessionDelegate, @unchecked Sendable {
    public let session = ARSession()
    /// Called with each change of tracking, on the camera's queue.
    public var onTracking: @Sendable (CaptureModel.Tracking) -> Void = { _ in }

    private let queue = DispatchQueue(label: "takeset.arkit")
    private var recorder: BundleRecorder?
    private var writer: AssetSegmentWriter?

    /// Starts the session. It goes on between recordings, and when the mode changes.
    public func run() {
      let configuration = ARWorldTrackingConfiguration()
      if ARWorldTrackingConfiguration.supportsFrameSemantics(.sceneDepth) { configuration.frameSemantics = .sceneDepth }
      session.delegate = self
      session.delegateQueue = queue
      session.run(configuration)
    }

    /// The recorder of the next frames, and its encoder; `nil` for none.
    public func record(_ recorder: BundleRecorder?, _ writer: AssetSegmentWriter?) {
      queue.async { [self] in (self.recorder, self.writer) = (recorder, writer) }
    }

    /// Offers the frame, its image in place, to the recorder. Runs on the session's queue.
    public func session(_ session: ARSession, didUpdate frame: ARFrame) {
      guard let recorder, let writer else { return }
      recorder.tick(at: frame.timestamp)
      let image = frame.capturedImage
      CVPixelBufferLockBaseAddress(image, .readOnly)
      defer { CVPixelBufferUnlockBaseAddress(image, .readOnly) }
      let planes = (0..<CVPixelBufferGetPlaneCount(image)).map { plane in
        UnsafeRawBufferPointer(
          start: CVPixelBufferGetBaseAddressOfPlane(image, plane),
          count: CVPixelBufferGetBytesPerRowOfPlane(image, plane) * CVPixelBufferGetHeightOfPlane(image, plane))
      }
      writer.image = image
      defer { writer.image = nil }
      withDepth(frame.sceneDepth?.depthMap) { depth in
        recorder.record(CameraFrame(time: frame.timestamp, pixels: planes, depth: depth))
      }
    }

    private func withDepth(_ map: CVPixelBuffer?, _ body: (UnsafeRawBufferPointer?) -> Void) {
      guard let map, CVPixelBufferGetPixelFormatType(map) == kCVPixelFormatType_DepthFloat32 else { return body(nil) }
      CVPixelBufferLockBaseAddress(map, .readOnly)
      defer { CVPixelBufferUnlockBaseAddress(map, .readOnly) }
      let (height, stride) = (CVPixelBufferGetHeight(map), CVPixelBufferGetBytesPerRow(map))
      let memory = UnsafeRawBufferPointer(start: CVPixelBufferGetBaseAddress(map), count: stride * height)
      CameraFrame.withoutPadding(memory, row: CVPixelBufferGetWidth(map) * 4, stride: stride, count: height, body)
    }

    /// Translates ARKit's tracking state; relocalizing counts as lost.
    public func session(_ session: ARSession, cameraDidChangeTrackingState camera: ARCamera) {
      switch camera.trackingState {
      case .normal: onTracking(.normal)
      case .notAvailable: onTracking(.lost)
      case .limited(let reason):
        switch reason {
        case .excessiveMotion: onTracking(.tooFast)
        case .insufficientFeatures: onTracking(.tooDark)
        case .initializing: onTracking(.starting)
        default: onTracking(.lost)
        }
      }
    }

    public func sessionWasInterrupted(_ session: ARSession) { interrupt(.other) }
    public func session(_ session: ARSession, didFailWithError error: any Error) { interrupt(.sessionFailed) }

    private func interrupt(_ reason: RecordingMachine.Interruption) {
      recorder?.interrupt(reason, at: session.currentFrame?.timestamp ?? ProcessInfo.processInfo.systemUptime)
    }
  }
#endif
