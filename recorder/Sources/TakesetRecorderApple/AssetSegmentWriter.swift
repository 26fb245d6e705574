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
    private var times: [Double] = []
    private var initialization: [UInt8] = []
    /// A segment whose frames are not known: those of all that follow would not be known either.
    private var isSegmentMissing = false

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
      writer.preferredOutputSegmentInterval = CMTime(seconds: 0.5, preferredTimescale: 600)
      writer.initialSegmentStartTime = .zero
      writer.delegate = self
      input.expectsMediaDataInRealTime = true
      writer.add(input)
      guard writer.startWriting() else { throw failure }
      writer.startSession(atSourceTime: .zero)
    }

    private var failure: any Error { writer.error ?? CocoaError(.fileWriteUnknown) }
    private var isWriting: Bool { writer.status == .writing && !lock.withLock { isSegmentMissing } }

    public func encode(_ frame: borrowing CameraFrame, at seconds: Double) throws -> Bool {
      guard isWriting else { throw failure }
      // `append` to an input that is not ready raises an exception that nothing catches.
      guard let image, input.isReadyForMoreMediaData else { return false }
      lock.withLock { times.append(seconds) }
      guard adaptor.append(image, withPresentationTime: CMTime(seconds: seconds, preferredTimescale: 600)) else { throw failure }
      return true
    }

    public func finish(_ done: @escaping @Sendable ((any Error)?) -> Void) {
      guard isWriting else {
        if writer.status == .writing { writer.cancelWriting() }
        return done(failure)
      }
      input.markAsFinished()
      writer.finishWriting { [self] in
        done(writer.status == .completed && !lock.withLock { isSegmentMissing } ? nil : failure)
      }
    }

    public func assetWriter(
      _ writer: AVAssetWriter, didOutputSegmentData segmentData: Data, segmentType: AVAssetSegmentType,
      segmentReport: AVAssetSegmentReport?
    ) {
      switch segmentType {
      case .initialization: initialization = Array(segmentData)
      case .separable:
        let frames: Int? = lock.withLock {
          guard !isSegmentMissing, let track = segmentReport?.trackReports.first else {
            isSegmentMissing = true
            return nil
          }
          let end = CMTimeGetSeconds(track.earliestPresentationTimeStamp) + CMTimeGetSeconds(track.duration)
          // Times are rounded to ticks of 1/600 s.
          return times.count { $0 < end - 0.5 / 600 }
        }
        guard let frames else { return }
        receive(initialization + Array(segmentData), frames)
        initialization = []
      @unknown default: break
      }
    }
  }
#endif
