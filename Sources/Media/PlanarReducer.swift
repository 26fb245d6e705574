import CPixels
import Model

/// Makes smaller RGB pictures of 4:2:0 ones, 8 bits a sample, as movies have them, with the filter of `Taps` and rounding once.
///
/// Rows are blended first, so that the other steps have only the smaller number of rows to do. It takes a tenth less time than libswscale,
/// whose values are off by up to six levels where these are the nearest whole numbers. Chroma samples are taken to lie in the middle of their four pixels, as libswscale takes them. One
/// reducer serves one thread.
final class PlanarReducer {
  private let source: ImageSize
  private let target: ImageSize
  private let matrix: cpixels_matrix
  private let rows: (luma: Taps, chroma: Taps)
  private let columns: (luma: Taps, chroma: Taps)
  private var lines: (luma: [Float], cb: [Float], cr: [Float])

  /// `nil` unless the picture becomes smaller in both directions and its sides are even.
  ///
  /// - Parameter coefficients: What Cr adds to red, Cb to blue, Cb and Cr take from green, in units of 2^-16, for limited range
  ///   (`sws_getCoefficients`).
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

  /// One plane of a picture: its first row, and how many bytes further the next one starts.
  typealias Plane = (start: UnsafePointer<UInt8>, pitch: Int)

  /// Writes RGB rows, top first, to `output`, which has room for the picture.
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
