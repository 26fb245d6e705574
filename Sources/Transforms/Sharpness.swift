package import Model

/// The sharpness of images: the population variance of their Laplacian, which is small where edges are blurred.
/// The Laplacian of each pixel's luma Y = (299 R + 587 G + 114 B) / 1000, rounded half up, is the sum of the four neighbors minus four
/// times the pixel itself. Beyond its border, the image is reflected without repeating the border (BORDER_REFLECT_101 of OpenCV). Sums are
/// whole numbers, so that the variance is exact up to its last division.
package struct Sharpness {
  private let width: Int
  private let height: Int
  /// Luma with a border of one pixel.
  private var luma: [Int32]

  package init(of size: ImageSize) {
    (width, height) = (size.width, size.height)
    luma = [Int32](repeating: 0, count: (width + 2) * (height + 2))
  }

  /// The variance for an image of RGB bytes; `nil` for an image of another size.
  package mutating func variance(_ image: [UInt8]) -> Double? {
    let count = width * height
    guard count > 0, image.count == 3 * count else { return nil }
    setLuma(image)
    let (width, height, pitch) = (width, height, width + 2)
    var (sum, squares) = (0, 0)
    luma.withUnsafeBufferPointer { luma in
      for y in 1...height {
        for pixel in (y * pitch + 1)...(y * pitch + width) {
          let value = luma[pixel - pitch] &+ luma[pixel + pitch] &+ luma[pixel - 1] &+ luma[pixel + 1] &- 4 &* luma[pixel]
          sum &+= Int(value)
          squares &+= Int(value &* value)
        }
      }
    }
    // The square of the sum has more than 64 bits for large images.
    let deviation = Int128(count) * Int128(squares) - Int128(sum) * Int128(sum)
    return Double(deviation) / (Double(count) * Double(count))
  }

  private mutating func setLuma(_ image: [UInt8]) {
    let (width, height, pitch) = (width, height, width + 2)
    // The row or column next to the border, which the border repeats; an image of one row or column has only itself.
    let (second, secondLast) = (min(2, width), max(1, width - 1))
    luma.withUnsafeMutableBufferPointer { luma in
      image.withUnsafeBufferPointer { image in
        for y in 0..<height {
          let row = (y + 1) * pitch
          for x in 0..<width {
            let pixel = 3 * (y * width + x)
            let (red, green, blue) = (Int32(image[pixel]), Int32(image[pixel + 1]), Int32(image[pixel + 2]))
            luma[row + x + 1] = (299 &* red &+ 587 &* green &+ 114 &* blue &+ 500) / 1000
          }
          luma[row] = luma[row + second]
          luma[row + width + 1] = luma[row + secondLast]
        }
      }
      let (second, secondLast) = (min(2, height), max(1, height - 1))
      for x in 0..<pitch {
        luma[x] = luma[second * pitch + x]
        luma[(height + 1) * pitch + x] = luma[secondLast * pitch + x]
      }
    }
  }
}

extension Episode {
  /// The sharpness of the image of each row, from the first stream of images by name; `nil` where there is none that can be decoded.
  ///
  /// - Throws: `TakeFailure` where images are not aligned yet, and for damage that fails the take anyway.
  func sharpness() throws -> [Double?] {
    let absent = [Double?](repeating: nil, count: frames.count)
    guard let (name, stream) = streams.filter({ $0.value.spec.kind == .image }).min(by: { $0.key < $1.key }) else { return absent }
    guard let rows = stream.rows else {
      throw TakeFailure(.notAligned, "the stream \(name) is not on the frames' timeline; place the step after align")
    }
    // A cursor of its own leaves the feed of a video to the writer.
    var cursor = try stream.source.makeCursor(SampleRequest(isStandalone: true))
    guard let size = cursor.size ?? stream.spec.raster?.size else { return absent }
    var sharpness = Sharpness(of: size)
    var bytes: [UInt8] = []
    // Neighbors may share an image, and a video would have to be decoded again from its last keyframe.
    var last: (sample: Int, variance: Double?)?
    return try rows.map { row in
      guard let sample = row?.nearest else { return nil }
      if let last, last.sample == sample { return last.variance }
      var variance: Double?
      do {
        try cursor.read(sample, into: &bytes)
        variance = sharpness.variance(bytes)
      } catch is SampleFailure {}  // The writer masks it and reports it.
      last = (sample, variance)
      return variance
    }
  }
}
