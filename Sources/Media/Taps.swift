import CKernels

/// Filter weights for resizing along one axis: for every output position, the first input position and the weights from there on, which
/// add up to 1. Every position has the same number of weights, some of them 0.
///
/// The filter is a triangle whose support grows with the reduction, so that downscaling averages and does not alias: Pillow calls it
/// BILINEAR and PyTorch "bilinear, antialias=True".
struct Taps {
  let count: Int
  let first: [Int32]
  let weights: [Float]

  /// - Parameter multiple: Zero weights are appended up to a multiple of this count; their positions may lie beyond the last.
  init(from source: Int, to target: Int, multiple: Int = 1) {
    let scale = Double(source) / Double(target)
    let support = max(scale, 1)
    let count = min(source, Int((2 * support).rounded(.up)) + 1)
    let padded = (count + multiple - 1) / multiple * multiple
    var first: [Int32] = []
    var weights: [Float] = []
    for position in 0..<target {
      let center = (Double(position) + 0.5) * scale
      let start = min(max(Int((center - support + 0.5).rounded(.down)), 0), source - count)
      let triangle = (start..<(start + count)).map { max(0, 1 - abs((Double($0) + 0.5 - center) / support)) }
      let sum = triangle.reduce(0, +)
      first.append(Int32(start))
      weights += triangle.map { Float($0 / sum) } + repeatElement(0, count: padded - count)
    }
    self.count = padded
    self.first = first
    self.weights = weights
  }

  private init(count: Int, first: [Int32], weights: [Float]) { (self.count, self.first, self.weights) = (count, first, weights) }

  /// The same filter of numbers that are `factor` times as large.
  func scaled(by factor: Float) -> Taps { Taps(count: count, first: first, weights: weights.map { $0 * factor }) }

  func withPointers<Result>(_ body: (cpixels_taps) -> Result) -> Result {
    first.withUnsafeBufferPointer { first in
      weights.withUnsafeBufferPointer { weights in
        body(cpixels_taps(first: first.baseAddress, weights: weights.baseAddress, count: count))
      }
    }
  }

  /// Blends rows of bytes, or of numbers of two bytes, `pitch` bytes apart, into output row `y`.
  func blendRows(_ rows: UnsafePointer<UInt8>, pitch: Int, isWide: Bool = false, count: Int, at y: Int, into line: inout [Float]) {
    weights.withUnsafeBufferPointer { weights in
      guard let weights = weights.baseAddress else { return }
      let (rows, weight) = (rows + Int(first[y]) * pitch, weights + y * self.count)
      if isWide {
        let wide = UnsafeRawPointer(rows).assumingMemoryBound(to: UInt16.self)
        cpixels_blend_wide_rows(wide, pitch, count, weight, self.count, &line)
      } else {
        cpixels_blend_rows(rows, pitch, count, weight, self.count, &line)
      }
    }
  }
}
