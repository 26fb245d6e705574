import Media
import Model

/// A frame's number as a row of 24 black and white blocks along the top edge of its image, which survives JPEG, video
/// and downscaling: 20 bits, most significant first, then the parity of each five. It identifies the frame of any image.
package enum FrameCode {
  package static let blocks = 24
  /// Height of the image divided by the height of the blocks.
  package static let heightDivisor = 20

  static func bits(of number: Int) -> [Bool] {
    let value = (0..<20).map { number >> (19 - $0) & 1 == 1 }
    let parity = stride(from: 0, to: 20, by: 5).map { start in value[start..<(start + 5)].count { $0 } % 2 == 1 }
    return value + parity
  }

  /// Draws the code of `number` (its low 20 bits) into an RGB image.
  static func draw(_ number: Int, into pixels: inout [UInt8], size: ImageSize) {
    let bits = bits(of: number & 0xFFFFF)
    for y in 0..<max(size.height / heightDivisor, 1) {
      for x in 0..<size.width {
        let value: UInt8 = bits[x * blocks / size.width] ? 235 : 20
        for channel in 0..<3 { pixels[(y * size.width + x) * 3 + channel] = value }
      }
    }
  }
}
