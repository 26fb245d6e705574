import CPixels
import Model

/// A downscaler of 4:2:0 video frames, 8 bits per sample, to RGB, with the filter of `Taps` and a single rounding.
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

  /// Returns `nil` unless the image becomes smaller in both directions and its sides are even.
  ///
  /// - Parameter coefficients: Weights that Cr adds to red, Cb adds to blue, and Cb and Cr subtract from green, in units of 2^-16, for
  ///   limited range (`sws_getCoefficients`).
  init?(from source: ImageSize, to target: ImageSize, coefficients: [Int32], isFullRange: Bool) {
    guard target.width < source.width, target.height < source.height, source.width % 2 == 0, source.height % 2 == 0 else { return nil }
    self.source = source
    self.target = target
    let chroma = coefficients.map { Float($0) / 0x1p16 * (isFullRange ? 224 / 255 : 1) }
    matrix = cpixels_matrix(
      black: isFullRange ? 0 : 16, contrast: isFullRange ? 1 : 255 / 219, red_of_cr: chroma[0], green_of_cb: -chroma[2],
      green_of_cr: -chroma[3], blue_of_cb: chroma[1])
    let (width, height) = (source.width / 2, source.height / 2)
    rows = (Taps(from: source.height, to: target.height), Taps(from: height, to: target.height))
    columns = (Taps(from: source.width, to: target.width, multiple: 8), Taps(from: width, to: target.width, multiple: 8))
    func line(_ count: Int, _ taps: Taps) -> [Float] { [Float](repeating: 0, count: count + taps.count) }
    lines = (line(source.width, columns.luma), line(width, columns.chroma), line(width, columns.chroma))
  }

  /// One plane of a frame: its first row, and the bytes from one row to the next.
  typealias Plane = (start: UnsafePointer<UInt8>, pitch: Int)

  /// Writes RGB rows, top row first, to `output`, which has room for the image.
  func reduce(_ luma: Plane, _ cb: Plane, _ cr: Plane, into output: UnsafeMutablePointer<UInt8>) {
    columns.luma.withPointers { lumaColumns in
      columns.chroma.withPointers { chromaColumns in
        for y in 0..<target.height {
          rows.luma.blendRows(luma.start, pitch: luma.pitch, count: source.width, at: y, into: &lines.luma)
          rows.chroma.blendRows(cb.start, pitch: cb.pitch, count: source.width / 2, at: y, into: &lines.cb)
          rows.chroma.blendRows(cr.start, pitch: cr.pitch, count: source.width / 2, at: y, into: &lines.cr)
          cpixels_blend_planes(
            lines.luma, lines.cb, lines.cr, lumaColumns, chromaColumns, matrix, target.width, output + y * target.width * 3)
        }
      }
    }
  }
}
