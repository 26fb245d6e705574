import CFFmpeg
package import Model

/// A converter of video frames to RGB rows of a target size. Color matrix and range are those that the frame declares; the default is
/// BT.601 and limited range, as in FFmpeg and software built on it.
///
/// Downscaling averages with a triangle filter, as `ImageResizer` does: `YUVDownscaler` handles 8-bit 4:2:0 frames and those of HDR, libswscale handles
/// other formats and frames that keep their size. One converter serves one thread.
package final class FrameConverter {
  package let target: ImageSize
  private var context: OpaquePointer?
  private var reducer: YUVDownscaler?
  private var kind: Kind?
  /// libswscale writes slightly past the end of rows that are not a multiple of its vector size, hence the padding.
  private let rows: UnsafeMutableRawBufferPointer
  private let stride: Int

  private struct Kind: Equatable {
    var size: ImageSize
    var format: AVPixelFormat
    var matrix: AVColorSpace
    var range: AVColorRange
    /// The transfer function of an HDR frame; `nil` for SDR.
    var transfer: ToneMap.Transfer?
    var primaries: ToneMap.Primaries?
  }

  package init(to target: ImageSize) {
    self.target = target
    stride = (target.width * 3 + 127) / 64 * 64
    rows = .allocate(byteCount: stride * target.height + 64, alignment: 64)
  }

  deinit {
    sws_freeContext(context)
    rows.deallocate()
  }

  /// Replaces `output` with the converted frame.
  ///
  /// - Throws: `MovieError` when its pixels cannot be converted.
  package func convert(_ videoFrame: MovieFrame, into output: inout [UInt8]) throws {
    let frame = videoFrame.frame.pointee
    var kind = Kind(size: videoFrame.size, format: videoFrame.format, matrix: frame.colorspace, range: frame.color_range)
    if frame.color_trc == AVCOL_TRC_SMPTE2084 || frame.color_trc == AVCOL_TRC_ARIB_STD_B67 {
      (kind.transfer, kind.primaries) = (videoFrame.color.hdr?.transfer, videoFrame.color.hdr?.primaries)
    }
    if kind != self.kind { try prepare(kind) }
    let width = target.width * 3
    if output.count != width * target.height { output = [UInt8](repeating: 0, count: width * target.height) }
    if let reducer {
      guard let luma = frame.data.0, let cb = frame.data.1, let cr = frame.data.2 else {
        throw MovieError(.colorUnsupported, "a frame has no pixels")
      }
      let pitches = (Int(frame.linesize.0), Int(frame.linesize.1), Int(frame.linesize.2))
      output.withUnsafeMutableBufferPointer {
        guard let output = $0.baseAddress else { return }
        reducer.reduce((UnsafePointer(luma), pitches.0), (UnsafePointer(cb), pitches.1), (UnsafePointer(cr), pitches.2), into: output)
      }
      return
    }
    let status = withUnsafePointer(to: frame.data) { data in
      withUnsafePointer(to: frame.linesize) { linesize in
        data.withMemoryRebound(to: UnsafePointer<UInt8>?.self, capacity: 8) { data in
          linesize.withMemoryRebound(to: Int32.self, capacity: 8) { linesize in
            var target:
              (UnsafeMutablePointer<UInt8>?, UnsafeMutablePointer<UInt8>?, UnsafeMutablePointer<UInt8>?, UnsafeMutablePointer<UInt8>?)
            target = (rows.baseAddress?.assumingMemoryBound(to: UInt8.self), nil, nil, nil)
            var strides: (Int32, Int32, Int32, Int32) = (Int32(stride), 0, 0, 0)
            return withUnsafePointer(to: &target) { target in
              withUnsafePointer(to: &strides) { strides in
                target.withMemoryRebound(to: UnsafeMutablePointer<UInt8>?.self, capacity: 4) { target in
                  strides.withMemoryRebound(to: Int32.self, capacity: 4) { strides in
                    sws_scale(context, data, linesize, 0, frame.height, target, strides)
                  }
                }
              }
            }
          }
        }
      }
    }
    guard status == Int32(target.height) else {
      throw MovieError(.colorUnsupported, "a frame of format \(videoFrame.color.pixelFormat) cannot be converted")
    }
    output.withUnsafeMutableBytes { output in
      for y in 0..<target.height {
        UnsafeMutableRawBufferPointer(rebasing: output[(y * width)..<((y + 1) * width)])
          .copyMemory(from: UnsafeRawBufferPointer(rebasing: rows[(y * stride)..<(y * stride + width)]))
      }
    }
  }

  private func prepare(_ kind: Kind) throws {
    let isHDR = kind.transfer != nil
    let usual = isHDR ? SWS_CS_BT2020 : SWS_CS_DEFAULT
    let table = sws_getCoefficients(kind.matrix == AVCOL_SPC_UNSPECIFIED ? usual : Int32(kind.matrix.rawValue))
    self.kind = nil
    reducer = nil
    if let transfer = kind.transfer, let primaries = kind.primaries, let table {
      let bits = Int(av_pix_fmt_desc_get(kind.format)?.pointee.comp.0.depth ?? 8)
      reducer = YUVDownscaler(
        from: kind.size, to: target, bits: bits, coefficients: Array(UnsafeBufferPointer(start: table, count: 4)),
        isFullRange: kind.range == AVCOL_RANGE_JPEG, toneMap: ToneMap.of(transfer, primaries))
      self.kind = kind
      return
    }
    if kind.format == AV_PIX_FMT_YUV420P || kind.format == AV_PIX_FMT_YUVJ420P, let table {
      let coefficients = Array(UnsafeBufferPointer(start: table, count: 4))
      reducer = YUVDownscaler(from: kind.size, to: target, coefficients: coefficients, isFullRange: kind.range == AVCOL_RANGE_JPEG)
      if reducer != nil {
        self.kind = kind
        return
      }
    }
    sws_freeContext(context)
    context = sws_getContext(
      Int32(kind.size.width), Int32(kind.size.height), kind.format, Int32(target.width), Int32(target.height), AV_PIX_FMT_RGB24,
      SWS_BILINEAR | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT | SWS_FULL_CHR_H_INP, nil, nil, nil)
    guard context != nil else { throw MovieError(.colorUnsupported, "frames of this format cannot be converted") }
    let descriptor = av_pix_fmt_desc_get(kind.format)
    let isRGB = (descriptor?.pointee.flags ?? 0) & UInt64(AV_PIX_FMT_FLAG_RGB) != 0
    let isFull = kind.range == AVCOL_RANGE_JPEG || isRGB
    sws_setColorspaceDetails(context, table, isFull ? 1 : 0, sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16, 1 << 16)
    self.kind = kind
  }
}
