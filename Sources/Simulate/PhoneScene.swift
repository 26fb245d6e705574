import Dispatch
import Evidence
import Foundation
import Model
import Synchronization

/// The frames of a simulated camera that moves through `Room`, for the formats of phone apps.
struct PhoneScene {
  /// One frame as the camera sees it.
  struct Frame {
    var number: Int
    var sample: Trajectory.Sample
    /// Focal length as a fraction of the usual one, changed by autofocus.
    var zoom: Float
    /// RGB rows with the frame's number, and exact depth in meters.
    var pixels: [UInt8], meters: [Float]
  }

  let size: ImageSize
  let depthSize: ImageSize
  let seed: UInt64
  let rate: Double
  let path: Trajectory
  /// The paths of other phones in the same room.
  var others: [Trajectory] = []
  /// Whether autofocus changes the focal length.
  let focuses: Bool

  init(seconds: Double, rate: Double, seed: UInt64, size: ImageSize, depthSize: ImageSize, focuses: Bool = false) {
    (self.size, self.depthSize, self.seed, self.rate, self.focuses) = (size, depthSize, seed, rate, focuses)
    path = Trajectory.smooth(seconds: seconds, rate: rate, seed: seed)
  }

  func zoom(_ number: Int) -> Float { focuses ? 1 + 0.004 * Float(sin(Double(number) / rate * 2)) : 1 }

  /// Focal length of the full-size image, in pixels.
  func focalLength(_ number: Int) -> Double { Double(Room.Camera(size: size, matrix: [], zoom: zoom(number)).focalLength) }

  /// Nanoseconds of a frame since the first.
  func time(_ number: Int) -> Int64 { path.samples[number].time.since(path.samples[0].time) }

  private var room: Room {
    Room(enclosing: ([path] + others).flatMap(\.samples).map { [Float($0.matrix[3]), Float($0.matrix[7]), Float($0.matrix[11])] })
  }

  private func frame(_ number: Int, in room: Room) -> Frame {
    let (sample, zoom) = (path.samples[number], zoom(number))
    var pixels = room.image(from: Room.Camera(size: size, matrix: sample.matrix, zoom: zoom), seed: seed &* 1_000_003 &+ UInt64(number))
    FrameCode.draw(number, into: &pixels, size: size)
    let meters = room.depth(from: Room.Camera(size: depthSize, matrix: sample.matrix, zoom: zoom))
    return Frame(number: number, sample: sample, zoom: zoom, pixels: pixels, meters: meters)
  }

  /// Renders all frames on all cores and passes one after the other to `body`, as a video needs them.
  func renderInOrder(_ body: (Frame) throws -> Void) throws {
    let room = room
    let batch = 8
    for start in stride(from: 0, to: path.samples.count, by: batch) {
      for frame in Parallel.map(Array(start..<min(start + batch, path.samples.count)), { frame($0, in: room) }) { try body(frame) }
    }
  }

  /// Renders all frames on all cores and passes each to `body`, on any thread. Throws what `body` throws.
  func render(_ body: @Sendable (Frame) throws -> Void) throws {
    let failure = Mutex<(any Error)?>(nil)
    let room = room
    DispatchQueue.concurrentPerform(iterations: path.samples.count) { number in
      if failure.withLock({ $0 != nil }) { return }
      do {
        try body(frame(number, in: room))
      } catch {
        failure.withLock { $0 = error }
      }
    }
    if let failure = failure.withLock({ $0 }) { throw failure }
  }

  /// Returns the poses that a reader should give: times since the first frame, and camera-to-world matrices in ARKit axes.
  func truth() -> JSONValue {
    [
      "seed": .integer(Int64(bitPattern: seed)), "frames": JSONValue(path.samples.count),
      "frame_time_ns": .array(path.samples.map { .integer($0.time.since(path.samples[0].time)) }),
      "camera_to_world": .array(path.samples.map { .array($0.matrix.map { .number($0) }) }),
    ]
  }
}
