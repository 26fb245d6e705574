import CKernels
package import Model

/// A resizer of RGB images from one size to another, with the filter of `Taps`. One resizer serves one thread.
package final class ImageResizer {
  package let source: ImageSize
  package let target: ImageSize
  private let columns: Taps
  private let rows: Taps
  /// One source row, weighted over the taps of an output row.
  private var line: [Float]

  package init(from source: ImageSize, to target: ImageSize) {
    self.source = source
    self.target = target
    columns = Taps(from: source.width, to: target.width)
    rows = Taps(from: source.height, to: target.height)
    line = [Float](repeating: 0, count: source.width * 3)
  }

  /// Replaces `output` with the resized image. Both are RGB rows, top row first.
  package func resize(_ pixels: [UInt8], into output: inout [UInt8]) {
    let (stride, targetStride) = (source.width * 3, target.width * 3)
    precondition(pixels.count == stride * source.height, "the image does not have the size given at init")
    if output.count != targetStride * target.height { output = [UInt8](repeating: 0, count: targetStride * target.height) }
    pixels.withUnsafeBufferPointer { pixels in
      output.withUnsafeMutableBufferPointer { output in
        guard let pixels = pixels.baseAddress, let output = output.baseAddress else { return }
        columns.withPointers { columns in
          for y in 0..<target.height {
            rows.blendRows(pixels, pitch: stride, count: stride, at: y, into: &line)
            cpixels_blend_pixels(line, columns, target.width, output + y * targetStride)
          }
        }
      }
    }
  }
}
