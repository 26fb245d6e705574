import EdgeOverlay
import Media
import Model
import Testing

@testable import Reports

@Suite struct EdgeOverlayTests {
  private let size = ImageSize(width: 8, height: 6)

  private func map(_ meters: (Int, Int) -> Float) -> [Float] {
    (0..<(size.width * size.height)).map { meters($0 % size.width, $0 / size.width) }
  }

  /// The app's examples: cyan at 0.5 m, #8080FF at 2.75 m, magenta from 5 m on.
  @Test func colorsByDistance() {
    #expect(EdgeOverlay.color(0.2) == [0, 1, 1])
    #expect(EdgeOverlay.color(0.5) == [0, 1, 1])
    #expect(EdgeOverlay.color(2.75) == [0.5, 0.5, 1])
    #expect(EdgeOverlay.color(5) == [1, 0, 1])
    #expect(EdgeOverlay.color(50) == [1, 0, 1])
  }

  /// A slope of s m a pixel gives 8 s, in either direction.
  @Test(arguments: [(Float(0.0120), false), (0.0126, true)]) func slopesBecomeEdgesAtATenthOfAMeter(slope: Float, isEdge: Bool) {
    for map in [map { x, _ in 2 + slope * Float(x) }, map { _, y in 2 + slope * Float(y) }] {
      let inner = EdgeOverlay.colors(map, width: size.width, height: size.height)[2 * size.width + 3]
      #expect((inner != nil) == isEdge)
    }
  }

  @Test func holesAreNoEdges() {
    let depth = map { x, y in x == 3 && y == 2 ? 0 : x == 5 && y == 3 ? .nan : 1 }
    #expect(EdgeOverlay.colors(depth, width: size.width, height: size.height).allSatisfy { $0 == nil })
    let step = EdgeOverlay.colors(map { x, _ in x < 4 ? 1 : 3 }, width: size.width, height: size.height)
    #expect(step.enumerated().allSatisfy { ($1 != nil) == [3, 4].contains($0 % size.width) })
  }

  @Test func paintsFourFifths() {
    var image = [UInt8](repeating: 100, count: size.width * size.height * 3)
    EdgeOverlay.draw(map { x, _ in x < 4 ? 0.5 : 5 }, width: size.width, height: size.height, over: &image)
    // 0.8 of cyan and 0.2 of gray 100.
    #expect(Array(image[9..<12]) == [20, 224, 224])
    #expect(Array(image[12..<15]) == [224, 20, 224])
    #expect(Array(image[0..<3]) == [100, 100, 100])
  }

  @Test func depthIsPaintedAndHolesHaveAColorOfTheirOwn() {
    #expect(EdgeOverlay.painted([0.2, 5, 0, .nan]) == [0, 255, 255, 255, 0, 255, 230, 140, 26, 230, 140, 26])
  }
}
