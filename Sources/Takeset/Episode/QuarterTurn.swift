/// A turn of a picture by a multiple of 90 degrees, clockwise.
package enum QuarterTurn: Int, Sendable {
  case none = 0
  case right = 90
  case half = 180
  case left = 270

  var swapsSides: Bool { self == .right || self == .left }

  package func size(of size: Pixels) -> Pixels {
    swapsSides ? Pixels(width: size.height, height: size.width) : size
  }

  /// Writes the turned picture of `size` to `output`; `bytes` is the size of a pixel.
  package func turn(_ picture: [UInt8], size: Pixels, bytes: Int, into output: inout [UInt8]) {
    if output.count != picture.count { output = [UInt8](repeating: 0, count: picture.count) }
    let (width, height) = (size.width, size.height)
    // Where the pixel at (x, y) goes: origin + x * alongX + y * alongY.
    let (origin, alongX, alongY) =
      switch self {
      case .none: (0, 1, width)
      case .right: (height - 1, height, -1)
      case .half: (width * height - 1, -1, -width)
      case .left: ((width - 1) * height, -height, 1)
      }
    // In tiles, so that both the rows read and the rows written stay in the cache.
    let tile = 32
    picture.withUnsafeBufferPointer { picture in
      output.withUnsafeMutableBufferPointer { output in
        for top in stride(from: 0, to: height, by: tile) {
          for left in stride(from: 0, to: width, by: tile) {
            for y in top..<min(top + tile, height) {
              var source = (y * width + left) * bytes
              for x in left..<min(left + tile, width) {
                let target = (origin + x * alongX + y * alongY) * bytes
                for byte in 0..<bytes { output[target + byte] = picture[source + byte] }
                source += bytes
              }
            }
          }
        }
      }
    }
  }
}

extension Stream {
  /// The stream with its pictures or depth maps turned, and their intrinsics along.
  func turned(_ turn: QuarterTurn) -> Stream {
    var turned = self
    turned.spec.rotationApplied = turn.rawValue
    if turn == .none { return turned }
    let size = Pixels(width: spec.shape[1], height: spec.shape[0])
    turned.source = TurnedPictures(base: source, turn: turn, size: size, pixelBytes: spec.type.size * (spec.shape.last ?? 1))
    turned.spec.shape = [turn.size(of: size).height, turn.size(of: size).width] + spec.shape.dropFirst(2)
    turned.spec.intrinsics = spec.intrinsics?.turned(turn, of: size)
    return turned
  }
}

/// Pictures or depth maps of another source, turned.
struct TurnedPictures: ReducibleImageSource {
  let base: any SampleSource
  let turn: QuarterTurn
  /// Before turning.
  let size: Pixels
  let pixelBytes: Int

  func makeCursor() throws -> any SampleCursor { Cursor(base: try base.makeCursor(), source: self) }

  func probe(_ index: Int) throws { try base.probe(index) }

  var feed: (any SampleFeed)? { base.feed }
  var runs: [Int]? { base.runs }
  var unfed: any SampleSource { TurnedPictures(base: base.unfed, turn: turn, size: size, pixelBytes: pixelBytes) }

  func reduced(covering target: Pixels) -> (source: any SampleSource, size: Pixels) {
    guard let reducible = base as? any ReducibleImageSource else { return (self, turn.size(of: size)) }
    // The sides of the target, as they lie before turning: a turn there and back swaps them once each.
    let (reduced, size) = reducible.reduced(covering: turn.size(of: target))
    return (TurnedPictures(base: reduced, turn: turn, size: size, pixelBytes: pixelBytes), turn.size(of: size))
  }

  private struct Cursor: SampleCursor {
    var base: any SampleCursor
    let source: TurnedPictures
    var upright: [UInt8] = []

    mutating func read(_ index: Int, into bytes: inout [UInt8]) throws {
      try base.read(index, into: &upright)
      source.turn.turn(upright, size: source.size, bytes: source.pixelBytes, into: &bytes)
    }
  }
}
