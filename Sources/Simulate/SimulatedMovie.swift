import Foundation
import Media
package import Model
import Takeset

/// A movie of a camera moving through `Room`. Each picture carries its number in presentation order as a `FrameCode`.
package struct SimulatedMovie: Sendable {
  package var seconds = 2.0
  package var rate = 30.0
  package var seed: UInt64 = 1
  /// Of the pictures as they stand upright.
  package var size = ImageSize(width: 1920, height: 1080)
  package var codec = "h264"
  package var timescale = 600
  package var bitRate = 10_000_000
  package var reordering = 0
  /// Degrees by which the display matrix turns clockwise; pictures are coded turned the other way.
  package var rotation = 0
  /// Pictures are coded upright although the matrix turns them.
  package var isDoublyRotated = false
  /// Frames of the camera that never became pictures: as many in one burst, from the tenth on.
  package var dropped = 0
  /// Times wander by up to this part of a period.
  package var wander = 0.0
  /// In ISO 6709, as phones write it; with an author, whose name is nobody's business either.
  package var location: String?

  package init() {}

  /// A picture before it is encoded.
  struct Picture {
    var number: Int
    var pixels: [UInt8]
    var matrix: [Double]
    var seconds: Double
  }

  /// When each picture is shown, in ticks of the timescale.
  package var ticks: [Int64] {
    var random = SplitMix(seed: seed)
    let frames = max(1, Int((seconds * rate).rounded()))
    return (0..<frames).filter { !(10..<(10 + dropped)).contains($0) }.map { frame in
      let shift = wander > 0 && frame > 0 ? (random.unit() * 2 - 1) * wander : 0
      return Int64(((Double(frame) + shift) * Double(timescale) / rate).rounded())
    }
  }

  /// Encodes the movie into a file, whose ending says MOV or MP4. `visit` sees every picture, in order.
  func write(to path: String, visit: (Picture) throws -> Void = { _ in }) throws {
    guard let turn = Rotation90(rawValue: rotation) else { throw UsageError("--rotation: expected 0, 90, 180 or 270") }
    let coded = turn.size(of: size)
    var options = MovieEncoder.Options(size: isDoublyRotated ? size : coded)
    options.codec = codec
    options.rate = rate
    options.timescale = timescale
    options.bitRate = bitRate
    options.reordering = reordering
    options.rotation = rotation
    if let location {
      options.tags = [
        ("com.apple.quicktime.location.ISO6709", location), ("com.apple.quicktime.author", "A. Person"),
      ]
    }
    let ticks = ticks
    let path3D = Trajectory.smooth(seconds: Double((ticks.last ?? 0) + 1) / Double(timescale) + 1 / rate, rate: rate, seed: seed)
    let room = Room(enclosing: [])
    let encoder = try MovieEncoder(path, options)
    // Tracing rays takes longer than encoding; pictures are made a few at a time on all cores.
    let batch = 8
    for start in stride(from: 0, to: ticks.count, by: batch) {
      let numbers = Array(start..<min(start + batch, ticks.count))
      let pictures = Parallel.map(numbers) { number -> Picture in
        let seconds = Double(ticks[number]) / Double(timescale)
        let matrix = path3D.samples[min(Int((seconds * rate).rounded()), path3D.samples.count - 1)].matrix
        var pixels = room.picture(from: Room.Camera(size: size, matrix: matrix), seed: seed &* 1_000_003 &+ UInt64(number))
        FrameCode.draw(number, into: &pixels, size: size)
        return Picture(number: number, pixels: pixels, matrix: matrix, seconds: seconds)
      }
      for picture in pictures {
        var pixels = picture.pixels
        if !isDoublyRotated, turn != .none {
          RotatedPixels(rotation: inverse(turn), from: size, pixelBytes: 3).map(picture.pixels, into: &pixels)
        }
        try encoder.add(pixels, at: ticks[picture.number])
        try visit(picture)
      }
    }
    try encoder.finish()
  }

  private func inverse(_ turn: Rotation90) -> Rotation90 { turn == .right ? .left : turn == .left ? .right : turn }

  /// Writes `<name>.mov` and `truth.json` into a directory that does not exist yet or is empty. Throws `UsageError` otherwise.
  package func write(named name: String, into directory: String) throws {
    try SimulatedSession.makeEmptyDirectory(directory)
    try write(to: "\(directory)/\(name)")
    let truth: JSONValue = [
      "seed": .integer(Int64(bitPattern: seed)), "pictures": JSONValue(ticks.count), "timescale": JSONValue(timescale),
      "ticks": .array(ticks.map { .integer($0) }), "rate_hz": .number(rate), "rotation": JSONValue(rotation),
    ]
    try Data(truth.canonicalBytes + [10]).write(to: URL(fileURLWithPath: directory + "/truth.json"))
  }
}

/// Work on all cores.
enum Parallel {
  static func map<Input: Sendable, Output>(_ inputs: [Input], _ body: @escaping @Sendable (Input) -> Output) -> [Output] {
    nonisolated(unsafe) var outputs = [Output?](repeating: nil, count: inputs.count)
    outputs.withUnsafeMutableBufferPointer { buffer in
      nonisolated(unsafe) let buffer = buffer
      DispatchQueue.concurrentPerform(iterations: inputs.count) { buffer[$0] = body(inputs[$0]) }
    }
    return outputs.compactMap(\.self)
  }
}
