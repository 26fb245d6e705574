package import Model

/// One view of the room, for cameras that are too fast to be rendered; each image carries its number as a `FrameCode`.
package struct StillScene: Sendable {
  private let size: ImageSize
  private let view: [UInt8]

  package init(size: ImageSize, seed: UInt64) {
    self.size = size
    let matrix = Trajectory.smooth(seconds: 0.1, rate: 10, seed: seed).samples[0].matrix
    view = Room(enclosing: []).image(from: Room.Camera(size: size, matrix: matrix), seed: seed)
  }

  /// RGB of the image with a number.
  package func image(_ number: Int) -> [UInt8] {
    var pixels = view
    FrameCode.draw(number, into: &pixels, size: size)
    return pixels
  }
}
