import CKernels
package import Model

/// The grid that motion between images is measured on: square cells, 64 along the longer side, in blocks of 8 by 8.
package struct MotionGrid: Sendable {
  /// Blocks across and down.
  package let columns: Int, rows: Int
  /// Side of a cell in pixels.
  package let cell: Double
  private let width: Int
  /// The shorter side of the image in cells.
  let shorterSide: Double
  /// The first columns of cells, and the end.
  private let edges: [UInt32]
  /// The lines of each row of cells that are read.
  private let lines: [[Int]]

  /// Lines of a cell that are read at most: more hardly change its mean.
  private static let fewLines = 4
  /// Blocks along a side below which nothing can be told apart.
  private static let fewest = 3

  /// `nil` for images too small, or too narrow, to show motion.
  package init?(_ size: ImageSize) {
    let cell = Double(max(size.width, size.height)) / Double(cmotion_side)
    guard cell >= 1 else { return nil }
    func divided(_ length: Int) -> [Int] {
      let count = Int(Double(length) / cell + 1e-9) / 8 * 8
      let start = (Double(length) - Double(count) * cell) / 2
      return (0...count).map { Int((start + Double($0) * cell).rounded()) }
    }
    let (across, down) = (divided(size.width), divided(size.height))
    (self.cell, columns, rows, width) = (cell, (across.count - 1) / 8, (down.count - 1) / 8, size.width)
    guard columns >= Self.fewest, rows >= Self.fewest else { return nil }
    shorterSide = Double(min(size.width, size.height)) / cell
    self.edges = across.map { UInt32($0) }
    lines = zip(down, down.dropFirst()).map { from, to in
      let count = min(to - from, Self.fewLines)
      return (0..<count).map { from + ($0 * (to - from) + (to - from) / 2) / count }
    }
  }

  package var blocks: Int { columns * rows }

  /// The image of RGB bytes on this grid; `nil` for bytes of an image of another size.
  package func image(_ rgb: [UInt8]) -> MotionImage? {
    guard let last = lines.last?.last, rgb.count >= 3 * width * (last + 1) else { return nil }
    var means = [Float](repeating: 0, count: 64 * blocks)
    var sums = [UInt16](repeating: 0, count: width)
    rgb.withUnsafeBufferPointer { rgb in
      means.withUnsafeMutableBufferPointer { means in
        guard let pixels = rgb.baseAddress, let to = means.baseAddress else { return }
        for (row, lines) in lines.enumerated() {
          for column in sums.indices { sums[column] = 0 }
          for line in lines { cmotion_add_line(pixels + 3 * width * line, width, &sums) }
          cmotion_means(sums, edges, 8 * columns, lines.count, to + row * 8 * columns)
        }
      }
    }
    return MotionImage(means, width: 8 * columns, height: 8 * rows)
  }
}

/// An image on a `MotionGrid`.
package struct MotionImage: Sendable {
  /// A `cmotion_image`.
  private let prepared: [Float]
  private let blocks: Int

  fileprivate init(_ means: [Float], width: Int, height: Int) {
    blocks = width * height / 64
    let size = (cmotion_image_size() + MemoryLayout<Float>.size - 1) / MemoryLayout<Float>.size
    prepared = [Float](unsafeUninitializedCapacity: size) { image, count in
      cmotion_prepare(means, UInt32(width), UInt32(height), image.baseAddress)
      count = size
    }
  }

  /// The shifts of blocks from this image to a later one of the same grid: all x, all y (cells), and their information, all xx, xy and yy.
  package func shifts(to later: MotionImage, lens: ImageLag.Lens?) -> [Float] {
    let lens = lens ?? .assumed
    let own = cmotion_lens(
      across: Float(lens.focal), down: Float(lens.focal / lens.stretch), x: Float(lens.center.x), y: Float(lens.center.y))
    return [Float](unsafeUninitializedCapacity: 5 * blocks) { shifts, count in
      cmotion_pair(prepared, later.prepared, own, shifts.baseAddress)
      count = 5 * blocks
    }
  }
}
