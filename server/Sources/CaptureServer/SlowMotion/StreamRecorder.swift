import Connections
import Foundation
import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix

/// Keeps the frames of one camera as they arrive. Writing takes place on NIO's pool of threads; the camera waits for it, viewers do not.
final class StreamRecorder: Sendable {
  private struct State: Sendable {
    var segment: StreamSegment?
    /// Bytes of the segment at which the room for it is looked at again.
    var nextCheck: Int64 = 0
    /// Whether times are those of arrival, because the sender's clock went back.
    var usesArrival = false
    /// Time of the next attempt to keep the stream after a failure, in microseconds since 1970.
    var retry: Int64 = 0
    var isUnreadable = false
    /// Segments that are being made captures.
    var keeping: [Task<Void, Never>] = []
  }

  private let configuration: Configuration
  private let data: DataFolder
  private let database: ServerDatabase
  private let intake: Intake
  private let logger: Logger
  private let project: String
  private let camera: Int64
  private let state = NIOLockedValueBox(State())
  private let recording = NIOLockedValueBox(false)

  init(
    configuration: Configuration, data: DataFolder, database: ServerDatabase, intake: Intake, logger: Logger, project: String, camera: Int64
  ) {
    (self.configuration, self.data, self.database, self.intake, self.logger) = (configuration, data, database, intake, logger)
    (self.project, self.camera) = (project, camera)
  }

  /// Read without waiting for the disk.
  var isRecording: Bool { recording.withLockedValue { $0 } }

  /// Keeps a frame. Returns a sentence for people as soon as frames are not kept: what is no JPEG is only relayed, and after a failure, such
  /// as of a full disk, they are lost for some seconds, until it is tried again.
  func append(_ bytes: ByteBuffer) async -> String? {
    guard let frame = LiveFrame(bytes) else {
      return state.withLockedValue { state in
        defer { state.isUnreadable = true }
        return state.isUnreadable ? nil : "It is not made of JPEG images, which alone can be kept."
      }
    }
    let arrival = Time.microseconds()
    // The pool ends with the process only.
    return try? await NIOThreadPool.singleton.runIfActive { self.write(frame, arrival: arrival) }
  }

  /// Ends the recording; it is a capture when this returns. The next frame starts another.
  func finish() async {
    _ = try? await NIOThreadPool.singleton.runIfActive {
      self.state.withLockedValue { state in
        self.end(&state)
        state.retry = 0
        state.isUnreadable = false
        state.usesArrival = false
      }
    }
    let tasks = state.withLockedValue { state in
      defer { state.keeping = [] }
      return state.keeping
    }
    for task in tasks { await task.value }
  }

  /// Blocks; the lock keeps frames in order.
  private func write(_ frame: LiveFrame, arrival: Int64) -> String? {
    state.withLockedValue { state in
      guard arrival >= state.retry else { return nil }
      do {
        var time = state.usesArrival ? arrival : frame.time ?? arrival
        let size = frame.size
        if let segment = state.segment {
          if time <= segment.lastTime {
            // A clock that went back, or stands still, is no clock.
            if state.usesArrival {
              time = segment.lastTime + 1
            } else {
              state.usesArrival = true
              time = arrival
              end(&state)
            }
          } else if !segment.takes(size, at: time) {
            end(&state)
          }
        }
        if state.segment == nil {
          try checkRoom(for: Int64(frame.jpeg.readableBytes))
          state.nextCheck = Self.checkStep
          state.segment = try StreamSegment(in: data, project: project, camera: camera, size: size)
          recording.withLockedValue { $0 = true }
        }
        if let bytes = state.segment?.bytes, bytes >= state.nextCheck {
          state.nextCheck = bytes + Self.checkStep
          try checkRoom(for: bytes + Int64(frame.jpeg.readableBytes))
        }
        try state.segment?.append(frame.jpeg, at: time)
        return nil
      } catch {
        let failure = error as? Failure
        logger.error("a live stream cannot be kept: \(failure.map { $0.reason ?? $0.message } ?? "\(error)")")
        state.retry = arrival + Self.pause
        end(&state)
        return failure?.message ?? "It cannot be written."
      }
    }
  }

  private static let checkStep: Int64 = 1 << 20
  /// Microseconds.
  private static let pause: Int64 = 10_000_000

  /// Throws `Failure` 507 if the disk or the project has no room for a segment of so many bytes. Blocks.
  private func checkRoom(for bytes: Int64) throws {
    try intake.checkSpace()
    try database.pool.read { try Intake.checkQuota(bytes, of: nil, in: project, configuration, $0) }
  }

  private func end(_ state: inout State) {
    guard let segment = state.segment else { return }
    state.segment = nil
    recording.withLockedValue { $0 = false }
    segment.close()
    let take = StreamTake(folder: segment.folder, data: data, intake: intake, logger: logger)
    state.keeping.append(Task { await take.keep() })
  }
}

extension Time {
  /// Microseconds since 1970.
  static func microseconds() -> Int64 {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000
  }
}
