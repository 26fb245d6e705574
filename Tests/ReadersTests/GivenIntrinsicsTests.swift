import Evidence
import Model
import Testing

@testable import Readers

@Suite struct GivenIntrinsicsTests {
  private let size = ImageSize(width: 640, height: 480)

  @Test func scalesPixelsToOtherImages() {
    let given = GivenIntrinsics([500, 510, 321, 239], of: size)
    #expect(given.intrinsics(for: size) == Intrinsics(fx: 500, fy: 510, cx: 321, cy: 239))
    #expect(given.intrinsics(for: ImageSize(width: 320, height: 240)) == Intrinsics(fx: 250, fy: 255, cx: 160.5, cy: 119.5))
    #expect(GivenIntrinsics([500, 510, 321, 239], of: nil).intrinsics(for: size) == Intrinsics(fx: 500, fy: 510, cx: 321, cy: 239))
  }

  @Test func anAngleNeedsOnlyTheImages() {
    let found = GivenIntrinsics.angles(x: .pi / 2, y: nil).intrinsics(for: size)
    #expect(found.map { abs($0.fx - 320) < 1e-9 && $0.fy == $0.fx && $0.cx == 320 && $0.cy == 240 } == true)
  }

  @Test(arguments: [[500, 500, 0, 0], [0, 500, 320, 240], [500, 500, 320], [500, .infinity, 320, 240]] as [[Double]])
  func numbersThatAreNoneAreSaid(numbers: [Double]) { #expect(GivenIntrinsics(numbers, of: size) == .unusable(GivenIntrinsics.expected)) }

  @Test func onlyPinholesHaveTheseNumbers() {
    for name in ["PINHOLE", "SIMPLE_PINHOLE", "OPENCV", "pinhole", "brown-conrady"] {
      #expect(GivenIntrinsics.problem(ofModel: name) == nil)
    }
    for name in ["OPENCV_FISHEYE", "EQUIRECTANGULAR", "kannala-brandt4", "?"] { #expect(GivenIntrinsics.problem(ofModel: name) != nil) }
  }

  @Test func aNumberOfAnotherTypeIsNotAbsent() throws {
    let fields = JSONFields(members: ["a": 2, "b": "2", "c": nil, "d": .number(.infinity), "w": 640, "h": .number(479.5)], path: ".x")
    #expect(try fields.scale("a") == 2 && fields.scale("c") == nil && fields.scale("z") == nil)
    for key in ["b", "d"] {
      #expect(throws: TakeFailure.self) { try fields.number(key) }
      #expect(throws: TakeFailure.self) { try fields.scale(key) }
    }
    #expect(throws: TakeFailure.self) { try fields.number("a", in: 3...4) }
    #expect(throws: TakeFailure.self) { try fields.size("w", "h") }
    #expect(throws: TakeFailure.self) { try fields.text("a") }
  }

  @Test func aLocationIsFoundAtAnyDepth() {
    #expect((["a": [["gpsInfo": ["x": 1]]]] as JSONValue).hasLocation && (["Latitude": .number(47.4)] as JSONValue).hasLocation)
    #expect(!(["latitude": nil, "gps": [:], "location": "", "platform": "lat"] as JSONValue).hasLocation)
  }
}
