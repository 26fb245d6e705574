/// Resizes RGB pictures from one size to another with a triangle filter whose support grows with the reduction, so that
/// shrinking averages and does not alias: the filter Pillow calls BILINEAR and PyTorch "bilinear, antialias=True".
/// One resizer serves one thread.
package final class ImageResizer {
  package let source: ImageSize
  package let target: ImageSize
  private let columns: Taps
  private let rows: Taps
  /// One source row, weighted over the taps of an output row; a pixel more, so that four floats can be read anywhere.
  private var line: [Float]

  package init(from source: ImageSize, to target: ImageSize) {
    self.source = source
    self.target = target
    columns = Taps(from: source.width, to: target.width)
    rows = Taps(from: source.height, to: target.height)
    line = [Float](repeating: 0, count: (source.width + 1) * 3 + 1)
  }

  /// Replaces `output` by the resized picture. Both are RGB rows, top first.
  package func resize(_ pixels: [UInt8], into output: inout [UInt8]) {
    precondition(pixels.count == source.width * source.height * 3, "the picture is not of the size given at init")
    if output.count != target.width * target.height * 3 {
      output = [UInt8](repeating: 0, count: target.width * target.height * 3)
    }
    pixels.withUnsafeBufferPointer { pixels in
      output.withUnsafeMutableBufferPointer { output in
        line.withUnsafeMutableBufferPointer { line in
          for y in 0..<target.height {
            blendRows(of: pixels, at: y, into: line)
            blendColumns(of: line, into: UnsafeMutableBufferPointer(rebasing: output[(y * target.width * 3)...]))
          }
        }
      }
    }
  }

  private func blendRows(
    of pixels: UnsafeBufferPointer<UInt8>, at y: Int, into line: UnsafeMutableBufferPointer<Float>
  ) {
    let stride = source.width * 3
    let first = rows.first[y]
    rows.weights.withUnsafeBufferPointer { weights in
      for tap in 0..<rows.count {
        let weight = weights[y * rows.count + tap]
        if weight == 0, tap > 0 { continue }
        let row = UnsafeBufferPointer(rebasing: pixels[((first + tap) * stride)..<((first + tap + 1) * stride)])
        if tap == 0 {
          for index in 0..<stride { line[index] = weight * Float(row[index]) }
        } else {
          for index in 0..<stride { line[index] += weight * Float(row[index]) }
        }
      }
    }
  }

  private func blendColumns(of line: UnsafeMutableBufferPointer<Float>, into output: UnsafeMutableBufferPointer<UInt8>) {
    let bytes = UnsafeRawBufferPointer(line)
    columns.weights.withUnsafeBufferPointer { weights in
      for x in 0..<target.width {
        var sum = SIMD4<Float>(repeating: 0.5)
        let first = columns.first[x]
        for tap in 0..<columns.count {
          let pixel = bytes.loadUnaligned(fromByteOffset: (first + tap) * 12, as: SIMD4<Float>.self)
          sum += pixel * weights[x * columns.count + tap]
        }
        // Weights are not negative, so the sum lies within 0.5 ... 255.5 but for rounding.
        output[x * 3] = UInt8(min(sum.x, 255))
        output[x * 3 + 1] = UInt8(min(sum.y, 255))
        output[x * 3 + 2] = UInt8(min(sum.z, 255))
      }
    }
  }
}

/// For every output position along one axis: the first input position that counts, and the weights from there on, which
/// add up to 1. Every position has the same number of weights, some of them 0.
struct Taps {
  let count: Int
  let first: [Int]
  let weights: [Float]

  init(from source: Int, to target: Int) {
    let scale = Double(source) / Double(target)
    let support = max(scale, 1)
    let count = min(source, Int((2 * support).rounded(.up)) + 1)
    var first: [Int] = []
    var weights: [Float] = []
    for position in 0..<target {
      let centre = (Double(position) + 0.5) * scale
      let start = min(max(Int((centre - support + 0.5).rounded(.down)), 0), source - count)
      let triangle = (start..<(start + count)).map { max(0, 1 - abs((Double($0) + 0.5 - centre) / support)) }
      let sum = triangle.reduce(0, +)
      first.append(start)
      weights += triangle.map { Float($0 / sum) }
    }
    self.count = count
    self.first = first
    self.weights = weights
  }
}
