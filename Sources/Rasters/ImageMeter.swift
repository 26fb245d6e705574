import CKernels
package import Model

/// Measures of an image by itself.
package struct ImageMeter {
  package struct Reading: Sendable, Equatable {
    /// The population variance of the Laplacian of the luma, which is small where edges are blurred.
    package var sharpness: Double
    /// The mean luma, 0 to 255.
    package var brightness: Double
    /// The share of the pixels whose colors are all 250 or more.
    package var overexposed: Double
  }

  private static let bright: UInt8 = 250

  private let width: Int
  private let height: Int
  /// Luma with a border of one pixel.
  private var luma: [UInt8]

  package init(of size: ImageSize) {
    (width, height) = (size.width, size.height)
    luma = [UInt8](repeating: 0, count: (width + 2) * (height + 2))
  }

  /// Measures an image of RGB bytes; `nil` for an image of another size.
  ///
  /// The Laplacian of each pixel's luma Y = (299 R + 587 G + 114 B) / 1000, rounded half up, is the sum of the four neighbors minus four
  /// times the pixel itself. Beyond its border, the image is reflected without repeating the border (BORDER_REFLECT_101 of OpenCV). Sums are
  /// whole numbers, so that each measure is exact up to its last division.
  package mutating func read(_ image: [UInt8]) -> Reading? {
    let count = width * height
    guard count > 0, image.count == 3 * count else { return nil }
    let light = setLuma(image)
    let (width, height, pitch) = (width, height, width + 2)
    var edges = cpixels_edges()
    luma.withUnsafeBufferPointer { luma in
      guard let luma = luma.baseAddress else { return }
      for y in 1...height {
        let line = luma + y * pitch + 1
        cpixels_laplacian(line - pitch, line, line + pitch, width, &edges)
      }
    }
    // The square of the sum has more than 64 bits for large images.
    let deviation = Int128(count) * Int128(edges.squares) - Int128(edges.sum) * Int128(edges.sum)
    return Reading(
      sharpness: Double(deviation) / (Double(count) * Double(count)), brightness: Double(light.luma) / Double(count),
      overexposed: Double(light.bright) / Double(count))
  }

  private mutating func setLuma(_ image: [UInt8]) -> cpixels_light {
    let (width, height, pitch) = (width, height, width + 2)
    // The row or column next to the border, which the border repeats; an image of one row or column has only itself.
    let (second, secondLast) = (min(2, width), max(1, width - 1))
    var light = cpixels_light()
    luma.withUnsafeMutableBufferPointer { luma in
      image.withUnsafeBufferPointer { image in
        guard let first = luma.baseAddress, let pixels = image.baseAddress else { return }
        for y in 0..<height {
          let row = (y + 1) * pitch
          cpixels_luma(pixels + 3 * y * width, width, Self.bright, first + row + 1, &light)
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
    return light
  }
}
