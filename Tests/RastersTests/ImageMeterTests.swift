import Model
import Testing

@testable import Rasters

@Suite struct ImageMeterTests {
  private func variance(_ image: [UInt8], _ width: Int, _ height: Int) -> Double? {
    var meter = ImageMeter(of: ImageSize(width: width, height: height))
    return meter.read(image)?.sharpness
  }

  private func gray(_ luma: [UInt8]) -> [UInt8] { luma.flatMap { [$0, $0, $0] } }

  @Test func aPointIsAsSharpAsComputedByHand() {
    // Laplacian: -40 at the point, 20 at each of the 4 neighbors at the border, whose reflected neighbor is the point too, else 0.
    // Sum 40, squares 3200: (9 * 3200 - 40 * 40) / 81.
    #expect(variance(gray([0, 0, 0, 0, 10, 0, 0, 0, 0]), 3, 3) == 27200.0 / 81)
  }

  @Test func aCheckerboardIsSharpUpToItsBorder() {
    let board = (0..<48).map { UInt8(128 + (($0 / 8 + $0 % 8) % 2 == 0 ? 5 : -5)) }
    #expect(variance(gray(board), 8, 6) == 1600)  // 8 * 5, squared
    #expect(variance(gray([UInt8](repeating: 77, count: 48)), 8, 6) == 0)
  }

  /// The values that `scipy.ndimage.correlate(mode="mirror")` gives for the same images.
  @Test(
    arguments: [
      (1, 1, 0, 1), (1, 4, 78011, 16), (5, 1, 69524, 25), (2, 2, 238_688, 16), (3, 3, 1_054_206, 81), (7, 5, 42_056_026, 1225),
      (64, 48, 439_728_832_604, 9_437_184), (201, 133, 33_026_926_453_808, 714_653_289),
    ] as [(Int, Int, Int, Int)])
  func agreesWithSciPy(width: Int, height: Int, numerator: Int, denominator: Int) {
    var image: [UInt8] = []
    for y in 0..<height {
      for x in 0..<width {
        let color: [Int] = [x * 37 + y * 91, x * x * 11 + y * 53 + 7, x * y * 5 + 200]
        image += color.map { UInt8($0 % 256) }
      }
    }
    #expect(variance(image, width, height) == Double(numerator) / Double(denominator))
  }

  /// Of an image of two pixels, one of them black, the Laplacian is twice the other's luma and its negative.
  @Test(
    arguments: [
      ([255, 0, 0], 76), ([0, 255, 0], 150), ([0, 0, 255], 29), ([0, 0, 250], 29), ([0, 0, 249], 28), ([255, 255, 255], 255),
    ] as [([UInt8], Double)]) func roundsLumaHalfUp(color: [UInt8], luma: Double)
  {
    #expect(variance(color + [0, 0, 0], 2, 1) == 4 * luma * luma)
  }

  @Test func oneInstanceMeasuresSeveralImages() {
    var meter = ImageMeter(of: ImageSize(width: 3, height: 3))
    let point = gray([0, 0, 0, 0, 10, 0, 0, 0, 0])
    #expect(meter.read(gray([9, 1, 3, 200, 4, 5, 6, 7, 255])) != nil)
    #expect(meter.read(point)?.sharpness == 27200.0 / 81)
  }

  @Test func brightnessIsTheMeanLumaAndOverexposedAPixelOfWhichAllColorsAre() throws {
    var meter = ImageMeter(of: ImageSize(width: 2, height: 2))
    let found = meter.read([250, 250, 250, 249, 255, 255, 255, 255, 255, 0, 0, 255])
    let reading = try #require(found)
    #expect(reading.brightness == (250 + 253 + 255 + 29) / 4.0)
    #expect(reading.overexposed == 0.5)
  }

  @Test func imagesOfAnotherSizeHaveNone() {
    #expect(variance([], 3, 3) == nil)
    #expect(variance([UInt8](repeating: 0, count: 26), 3, 3) == nil)
    #expect(variance([], 0, 0) == nil)
  }
}
