import Model
import Media
import TestSupport
import Testing

@testable import Takeset

@Suite struct QuarterTurnTests {
  private let size = ImageSize(width: 3, height: 2)
  /// 0 1 2 / 3 4 5
  private let picture: [UInt8] = [0, 1, 2, 3, 4, 5]

  @Test func turnsClockwise() {
    func turned(_ turn: QuarterTurn) -> [UInt8] {
      var output: [UInt8] = []
      turn.turn(picture, size: size, bytes: 1, into: &output)
      return output
    }
    #expect(turned(.none) == picture)
    #expect(turned(.right) == [3, 0, 4, 1, 5, 2])
    #expect(turned(.half) == [5, 4, 3, 2, 1, 0])
    #expect(turned(.left) == [2, 5, 1, 4, 0, 3])
  }

  @Test(arguments: [1, 3, 4]) func fourTurnsAreNone(bytes: Int) {
    var now = (0..<(70 * 45 * bytes)).map { UInt8(truncatingIfNeeded: $0 &* 31) }
    let before = now
    var size = ImageSize(width: 70, height: 45)
    for _ in 0..<4 {
      var next: [UInt8] = []
      QuarterTurn.right.turn(now, size: size, bytes: bytes, into: &next)
      (now, size) = (next, QuarterTurn.right.size(of: size))
    }
    #expect(now == before && size == ImageSize(width: 70, height: 45))
  }

  /// A point of the scene stays on its pixel: the projection turns with the picture.
  @Test(arguments: [QuarterTurn.none, .right, .half, .left]) func intrinsicsTurnAlong(turn: QuarterTurn) {
    let size = ImageSize(width: 640, height: 480)
    let camera = Intrinsics(fx: 500, fy: 510, cx: 315, cy: 250)
    let turned = camera.turned(turn, of: size)
    let (x, y, z) = (0.3, -0.2, 2.0)
    let pixel = (camera.fx * x / z + camera.cx, camera.fy * y / z + camera.cy)
    let (width, height) = (Double(size.width), Double(size.height))
    let (expected, direction) =
      switch turn {
      case .none: (pixel, (x, y))
      case .right: ((height - pixel.1, pixel.0), (-y, x))
      case .half: ((width - pixel.0, height - pixel.1), (-x, -y))
      case .left: ((pixel.1, width - pixel.0), (y, -x))
      }
    #expect(abs(turned.fx * direction.0 / z + turned.cx - expected.0) < 1e-9)
    #expect(abs(turned.fy * direction.1 / z + turned.cy - expected.1) < 1e-9)
  }

  @Test func turnsStreamsWithTheirShape() throws {
    let episode = SyntheticEpisode().episode
    let stream = try #require(episode.streams["camera_depth"]).turned(.right)
    #expect(stream.spec.shape == [4, 3, 1] && stream.spec.rotationApplied == 90)
    var bytes: [UInt8] = []
    var cursor = try stream.source.makeCursor()
    try cursor.read(1, into: &bytes)
    #expect(bytes.count == 48)
  }
}
