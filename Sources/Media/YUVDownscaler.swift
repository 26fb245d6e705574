import CKernels
import Model

/// A downscaler of 4:2:0 video frames to RGB, with the filter of `Taps` and a single rounding. Frames of HDR are mapped to SDR on the way, at any size.
///
/// Rows are blended first, so that the other steps process only the smaller number of rows. It takes a tenth less time than libswscale,
/// whose values are off by up to six levels; these are the nearest whole numbers. Chroma samples are assumed to lie at the center of their
/// four pixels, as in libswscale. One downscaler serves one thread.
final class YUVDownscaler {
  private let source: ImageSize
  private let target: ImageSize
  private let matrix: cpixels_matrix
  private let rows: (luma: Taps, chroma: Taps)
  private let columns: (luma: Taps, chroma: Taps)
  private var lines: (luma: [Float], cb: [Float], cr: [Float])
  /// Whether samples take two bytes, the lower ones first.
  private let isWide: Bool
  private let toneMap: ToneMap?

  /// Returns `nil` unless the image becomes smaller in both directions and its sides are even, or is mapped.
  ///
  /// - Parameter bits: Bits of a sample, 8 to 16.
  /// - Parameter coefficients: Weights that Cr adds to red, Cb adds to blue, and Cb and Cr subtract from green, in units of 2^-16, for
  ///   limited range (`sws_getCoefficients`).
  init?(from source: ImageSize, to target: ImageSize, bits: Int = 8, coefficients: [Int32], isFullRange: Bool, toneMap: ToneMap? = nil) {
    let isSmaller = target.width < source.width && target.height < source.height
    guard toneMap != nil || (isSmaller && source.width % 2 == 0 && source.height % 2 == 0) else { return nil }
    self.source = source
    self.target = target
    self.toneMap = toneMap
    isWide = bits > 8
    // Levels of 0 to 255, whatever the bits.
    let level = Float(sign: .plus, exponent: 8 - bits, significand: 1)
    let chroma = coefficients.map { Float($0) / 0x1p16 * (isFullRange ? 224 / 255 : 1) }
    matrix = cpixels_matrix(
      black: isFullRange ? 0 : 16, contrast: isFullRange ? 1 : 255 / 219, red_of_cr: chroma[0], green_of_cb: -chroma[2],
      green_of_cr: -chroma[3], blue_of_cb: chroma[1])
    let (width, height) = ((source.width + 1) / 2, (source.height + 1) / 2)
    rows = (Taps(from: source.height, to: target.height).scaled(by: level), Taps(from: height, to: target.height).scaled(by: level))
    columns = (Taps(from: source.width, to: target.width, multiple: 8), Taps(from: width, to: target.width, multiple: 8))
    func line(_ count: Int, _ taps: Taps) -> [Float] { [Float](repeating: 0, count: count + taps.count) }
    lines = (line(source.width, columns.luma), line(width, columns.chroma), line(width, columns.chroma))
  }

  /// One plane of a frame: its first row, and the bytes from one row to the next.
  typealias Plane = (start: UnsafePointer<UInt8>, pitch: Int)

  /// Writes RGB rows, top row first, to `output`, which has room for the image.
  func reduce(_ luma: Plane, _ cb: Plane, _ cr: Plane, into output: UnsafeMutablePointer<UInt8>) {
    let width = (source.width + 1) / 2
    columns.luma.withPointers { lumaColumns in
      columns.chroma.withPointers { chromaColumns in
        toneMap.withTable { table in
          for y in 0..<target.height {
            rows.luma.blendRows(luma.start, pitch: luma.pitch, isWide: isWide, count: source.width, at: y, into: &lines.luma)
            rows.chroma.blendRows(cb.start, pitch: cb.pitch, isWide: isWide, count: width, at: y, into: &lines.cb)
            rows.chroma.blendRows(cr.start, pitch: cr.pitch, isWide: isWide, count: width, at: y, into: &lines.cr)
            cpixels_blend_planes(
              lines.luma, lines.cb, lines.cr, lumaColumns, chromaColumns, matrix, table, target.width, output + y * target.width * 3)
          }
        }
      }
    }
  }
}

extension ToneMap? {
  fileprivate func withTable<Result>(_ body: (UnsafePointer<UInt16>?) -> Result) -> Result {
    guard let self else { return body(nil) }
    return self.table.withUnsafeBufferPointer { body($0.baseAddress) }
  }
}
