import Evidence
import Foundation
import Media
package import Model
import Rasters
import Steps

/// A synthetic video of a camera moving through `Room`. Each frame carries its number in presentation order as a `FrameCode`.
package struct SimulatedMovie: Sendable {
  package var seconds = 2.0
  package var rate = 30.0
  package var seed: UInt64 = 1
  /// Size of the upright frames.
  package var size = ImageSize(width: 1920, height: 1080)
  package var codec = "h264"
  package var timescale = 600
  package var bitRate = 10_000_000
  package var reordering = 0
  /// Clockwise rotation of the display matrix in degrees; frames are coded rotated the other way.
  package var rotation = 0
  /// Whether frames are coded upright although the display matrix rotates them.
  package var isDoublyRotated = false
  /// Number of camera frames that are missing from the video, in one burst from the tenth on.
  package var dropped = 0
  /// Timestamp jitter as a fraction of the frame period.
  package var wander = 0.0
  /// Location tag in ISO 6709, as phones write it; it comes with an author tag, which may be private too.
  package var location: String?

  package init() {}

  /// A frame before it is encoded.
  struct Frame {
    var number: Int
    var pixels: [UInt8]
    var matrix: [Double]
    var seconds: Double
  }

  /// Presentation time of each frame, in ticks of the timescale.
  package var ticks: [Int64] {
    var random = SplitMix(seed: seed)
    let frames = max(1, Int((seconds * rate).rounded()))
    return (0..<frames).filter { !(10..<(10 + dropped)).contains($0) }.map { frame in
      let shift = wander > 0 && frame > 0 ? (random.unit() * 2 - 1) * wander : 0
      return Int64(((Double(frame) + shift) * Double(timescale) / rate).rounded())
    }
  }

  /// Encodes the video into a file, whose extension selects MOV or MP4.
  func write(to path: String) throws {
    let encoder = try MovieEncoder(path, encoderOptions())
    let ticks = ticks
    try render { frame in
      try encoder.add(coded(frame.pixels), at: ticks[frame.number])
      return true
    }
    try encoder.finish()
  }

  func encoderOptions() throws -> MovieEncoder.Options {
    guard let clockwise = Rotation90(rawValue: rotation) else { throw UsageError("--rotation: expected 0, 90, 180 or 270") }
    var options = MovieEncoder.Options(size: isDoublyRotated ? size : clockwise.size(of: size))
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
    return options
  }

  /// The image that is encoded of an upright one.
  func coded(_ upright: [UInt8]) -> [UInt8] {
    guard !isDoublyRotated, let clockwise = Rotation90(rawValue: rotation), clockwise != .none else { return upright }
    var pixels = upright
    RotatedPixels(rotation: inverse(clockwise), from: size, pixelBytes: 3).map(upright, into: &pixels)
    return pixels
  }

  /// Calls `visit` with every frame, in order, until it returns `false`.
  func render(_ visit: (Frame) throws -> Bool) throws {
    let ticks = ticks
    let path3D = Trajectory.smooth(seconds: Double((ticks.last ?? 0) + 1) / Double(timescale) + 1 / rate, rate: rate, seed: seed)
    let room = Room(enclosing: [])
    // Ray tracing takes longer than encoding, so frames are rendered a few at a time on all cores.
    let batch = 8
    for start in stride(from: 0, to: ticks.count, by: batch) {
      let numbers = Array(start..<min(start + batch, ticks.count))
      let frames = Parallel.map(numbers) { number -> Frame in
        let seconds = Double(ticks[number]) / Double(timescale)
        let matrix = path3D.samples[min(Int((seconds * rate).rounded()), path3D.samples.count - 1)].matrix
        var pixels = room.image(from: Room.Camera(size: size, matrix: matrix), seed: seed &* 1_000_003 &+ UInt64(number))
        FrameCode.draw(number, into: &pixels, size: size)
        return Frame(number: number, pixels: pixels, matrix: matrix, seconds: seconds)
      }
      for frame in frames { guard try visit(frame) else { return } }
    }
  }

  private func inverse(_ rotation: Rotation90) -> Rotation90 { rotation == .right ? .left : rotation == .left ? .right : rotation }

  /// Writes `<name>.mov` and `truth.json` into a directory that does not exist yet or is empty.
  ///
  /// - Throws: `UsageError` for any other directory.
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

/// A parallel map on all cores.
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
