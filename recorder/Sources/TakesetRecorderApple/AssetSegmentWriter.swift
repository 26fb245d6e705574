#if canImport(AVFoundation) && canImport(UniformTypeIdentifiers)
  import AVFoundation
  import Foundation
  import TakesetRecorder
  import UniformTypeIdentifiers

  /// AVAssetWriter as the recorder's encoder: segments of half a second by its delegate.
  ///
  /// `@unchecked Sendable`: `lock` guards what the delegate and the camera both use.
  public final class AssetSegmentWriter: NSObject, SegmentSink, AVAssetWriterDelegate, @unchecked Sendable {
    /// The image of the frame that `encode` is called with: the camera sets it before `BundleRecorder.record`.
    public var image: CVPixelBuffer?

    private let writer: AVAssetWriter
    private let input: AVAssetWriterInput
    private let adaptor: AVAssetWriterInputPixelBufferAdaptor
    private let receive: SegmentReceiver
    private let lock = NSLock()
    private var segments = SegmentAssembly()

    /// - Parameters:
    ///   - codec: `.hevc`, or `.h264`.
    ///   - bitRate: Bits per second.
    public init(width: Int, height: Int, codec: AVVideoCodecType, bitRate: Int = 10_000_000, _ receive: @escaping SegmentReceiver) throws {
      writer = AVAssetWriter(contentType: UTType.mpeg4Movie)
      input = AVAssetWriterInput(
        mediaType: .video,
        outputSettings: [
          AVVideoCodecKey: codec, AVVideoWidthKey: width, AVVideoHeightKey: height,
          AVVideoCompressionPropertiesKey: [AVVideoAverageBitRateKey: bitRate, AVVideoAllowFrameReorderingKey: false],
        ])
      adaptor = AVAssetWriterInputPixelBufferAdaptor(assetWriterInput: input, sourcePixelBufferAttributes: nil)
      self.receive = receive
      super.init()
      writer.outputFileTypeProfile = .mpeg4CMAFCompliant
      writer.preferredOutputSegmentInterval = CMTime(seconds: 0.5, preferredTimescale: SegmentAssembly.timescale)
      writer.initialSegmentStartTime = .zero
      writer.delegate = self
      input.expectsMediaDataInRealTime = true
      writer.add(input)
      guard writer.startWriting() else { throw failure }
      writer.startSession(atSourceTime: .zero)
    }

    private var failure: any Error { writer.error ?? CocoaError(.fileWriteUnknown) }
    private var isWriting: Bool { writer.status == .writing && !lock.withLock { segments.isBroken } }

    /// Appends the frame's image. Returns false while the encoder is busy, and throws once it has failed.
    public func encode(_ frame: borrowing CameraFrame, at seconds: Double) throws -> Bool {
      guard isWriting else { throw failure }
      // `append` to an input that is not ready raises an exception that nothing catches.
      guard let image, input.isReadyForMoreMediaData else { return false }
      lock.withLock { segments.add(seconds) }
      let time = CMTime(seconds: seconds, preferredTimescale: SegmentAssembly.timescale)
      guard adaptor.append(image, withPresentationTime: time) else { throw failure }
      return true
    }

    /// Ends the movie; the last segments are received before `done` is called, with an error if any is missing.
    public func finish(_ done: @escaping @Sendable ((any Error)?) -> Void) {
      guard isWriting else {
        if writer.status == .writing { writer.cancelWriting() }
        return done(failure)
      }
      input.markAsFinished()
      writer.finishWriting { [self] in
        done(writer.status == .completed && !lock.withLock { segments.isBroken } ? nil : failure)
      }
    }

    /// Hands a segment on with the number of its frames, which AVFoundation does not give.
    public func assetWriter(
      _ writer: AVAssetWriter, didOutputSegmentData segmentData: Data, segmentType: AVAssetSegmentType,
      segmentReport: AVAssetSegmentReport?
    ) {
      switch segmentType {
      case .initialization: lock.withLock { segments.initialize(Array(segmentData)) }
      case .separable:
        let end = segmentReport?.trackReports.first.map {
          CMTimeGetSeconds($0.earliestPresentationTimeStamp) + CMTimeGetSeconds($0.duration)
        }
        if let segment = lock.withLock({ segments.segment(Array(segmentData), until: end) }) { receive(segment.bytes, segment.frames) }
      @unknown default: break
      }
    }
  }
#endif
