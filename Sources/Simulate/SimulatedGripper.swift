import Foundation
import Model

/// A phone among others: its side, and by how many seconds it starts later than the first moment of the demonstration.
package struct SimulatedPhone: Sendable {
  package var side: String
  package var skew: Double
  package init(side: String, skew: Double = 0) { (self.side, self.skew) = (side, skew) }
}

/// Two fingers in front of a phone, each with an ArUco tag, which open and close: they move with the camera.
///
/// Positions are in the camera's frame with OpenCV's axes (x right, y down, z forward), in meters.
struct SimulatedGripper {
  /// The numbers of the tags on the left and the right finger, as seen by the camera.
  let tags: [Int]
  private let phase: Double

  /// The numbers are those of iPhUMI's grippers: the left one has 6 and 7 where there are two.
  init(side: String, isPair: Bool, seed: UInt64) {
    tags = isPair && side == "left" ? [6, 7] : [0, 1]
    phase = Double(seed % 17)
  }

  /// Side of a tag's black square.
  static let tagSize = 0.016
  private static let distance: Float = 0.15
  private static let height = 0.03
  private static let cell = Float(tagSize / 6)

  /// The distance between the centers of the tags (m), at seconds since the first frame.
  func width(at seconds: Double) -> Double { 0.055 + 0.025 * sin(1.7 * seconds + phase) }

  /// Whether something hides the right finger in a frame: for a sixth of each second.
  func isCovered(_ number: Int, rate: Double) -> Bool { Int(Double(number) / rate * 6) % 6 == 4 }

  /// The cells of a tag of DICT_4X4_50, row by row, without its border; 1 is white.
  private static let cells: [Int: [Int]] = [
    0: [0b1011, 0b0101, 0b0011, 0b0010], 1: [0b0000, 0b1111, 0b1001, 0b1010], 6: [0b1001, 0b1110, 0b0010, 0b1110],
    7: [0b1100, 0b0100, 0b1111, 0b0010],
  ]

  /// Whether a place on the square of 8 cells around a tag is white: a border of one cell, then a black one, then the 4x4.
  private static func isWhite(_ tag: Int, _ column: Int, _ row: Int) -> Bool {
    guard (1..<7).contains(column), (1..<7).contains(row) else { return true }
    guard (2..<6).contains(column), (2..<6).contains(row), let rows = cells[tag] else { return false }
    return rows[row - 2] >> (5 - column) & 1 == 1
  }

  /// Draws the fingers into an RGB image of a camera whose principal point is its middle, with the mean of 16 rays for each pixel.
  func draw(into pixels: inout [UInt8], size: ImageSize, focalLength: Float, width: Double, isCovered: Bool) {
    forEachPixel(size, focalLength, width) { finger, x, y in
      var (sum, hits) = (0, 0)
      for ray in 0..<16 {
        let u = Float(x) + (Float(ray % 4) + 0.5) / 4, v = Float(y) + (Float(ray / 4) + 0.5) / 4
        guard let (column, row) = cell(finger, u, v, size, focalLength, width) else { continue }
        hits += 1
        sum += isCovered && finger == 1 ? 150 : Self.isWhite(tags[finger], column, row) ? 225 : 25
      }
      guard hits > 0 else { return }
      for channel in 0..<3 {
        let index = (y * size.width + x) * 3 + channel
        pixels[index] = UInt8((sum + (16 - hits) * Int(pixels[index])) / 16)
      }
    }
  }

  /// Puts the fingers into a depth map in meters.
  func draw(into meters: inout [Float], size: ImageSize, focalLength: Float, width: Double) {
    forEachPixel(size, focalLength, width) { finger, x, y in
      if cell(finger, Float(x) + 0.5, Float(y) + 0.5, size, focalLength, width) != nil { meters[y * size.width + x] = Self.distance }
    }
  }

  private func center(_ finger: Int, _ width: Double) -> Float { Float(finger == 0 ? -width / 2 : width / 2) }

  /// The cell of a finger's square that a ray meets.
  private func cell(_ finger: Int, _ u: Float, _ v: Float, _ size: ImageSize, _ focal: Float, _ width: Double) -> (Int, Int)? {
    let scale = Self.distance / focal
    let x = (u - Float(size.width) / 2) * scale - center(finger, width), y = (v - Float(size.height) / 2) * scale - Float(Self.height)
    let column = Int((x / Self.cell + 4).rounded(.down)), row = Int((y / Self.cell + 4).rounded(.down))
    return (0..<8).contains(column) && (0..<8).contains(row) ? (column, row) : nil
  }

  /// Passes the pixels around each finger.
  private func forEachPixel(_ size: ImageSize, _ focal: Float, _ width: Double, _ body: (_ finger: Int, _ x: Int, _ y: Int) -> Void) {
    let scale = focal / Self.distance, reach = 4 * Self.cell * scale
    let y = Float(Self.height) * scale + Float(size.height) / 2
    for finger in 0..<2 {
      let x = center(finger, width) * scale + Float(size.width) / 2
      for row in max(0, Int(y - reach))..<max(0, min(size.height, Int(y + reach) + 1)) {
        for column in max(0, Int(x - reach))..<max(0, min(size.width, Int(x + reach) + 1)) { body(finger, column, row) }
      }
    }
  }
}
