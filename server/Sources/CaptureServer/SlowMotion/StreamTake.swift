import Foundation
import Logging
import NIOCore
import NIOPosix

/// A recorded live stream on its way to become a capture: a StackCapture session without poses.
///
///     session/rgb/000000.jpg …    the frames as they arrived
///     session/video.mov           one sample for each frame, at the frame's time; its pictures are blank
///     session/metadata.json       image size, count, start and end
///     session/frames.tsv          time, size and digest of each frame
struct StreamTake {
  /// The folder of a `StreamSegment` that has ended.
  let folder: String
  let data: DataFolder
  let intake: Intake
  let logger: Logger

  /// Makes captures of what a server that was killed had recorded.
  static func recover(data: DataFolder, intake: Intake, logger: Logger) async {
    let names = (try? FileManager.default.contentsOfDirectory(atPath: data.recordings)) ?? []
    for name in names.sorted() {
      logger.notice("keeping a live stream that was interrupted")
      await StreamTake(folder: data.recordings + "/" + name, data: data, intake: intake, logger: logger).keep()
    }
  }

  /// Makes it a capture and removes the folder; if that fails, the folder stays for the next start.
  func keep() async {
    do {
      guard let contents = try await NIOThreadPool.singleton.runIfActive(contents) else {
        logger.info("a live stream had no complete frame")
        DurableFile.removeFolder(folder)
        return
      }
      let staging = try Staging(in: data)
      defer { staging.discard() }
      var files = try await NIOThreadPool.singleton.runIfActive { try link(contents.frames, into: staging) }
      files.append(try await staging.write(TimingMovie.bytes(times: contents.frames.map(\.time)), as: "session/video.mov"))
      files.append(try await staging.write([UInt8](JSONAnswer.data(contents.metadata)), as: "session/metadata.json"))
      let list = contents.frames.map(\.line).joined()
      files.append(try await staging.write(Array(list.utf8), as: "session/" + StreamSegment.list))
      try await NIOThreadPool.singleton.runIfActive {
        for folder in ["/session/rgb", "/session"] { try DurableFile.syncFolder(staging.path + folder) }
      }

      let digest = "stream:" + (folder as NSString).lastPathComponent
      let capture = Capture(
        type: .stream, project: contents.description.project, name: "stream_\(contents.frames[0].time / 1_000_000)",
        bytes: files.reduce(0) { $0 + $1.bytes }, contentDigest: digest)
      // The recorder stopped at the quota, so what there is exceeds it by a megabyte at most. A server that was killed between this and the
      // next line finds the capture again.
      _ = try await intake.accept(staging, files: files, as: capture, checksQuota: false) { database in
        try Capture.fetchOne(database, sql: "SELECT * FROM capture WHERE contentDigest = ?", arguments: [digest])
      }
      DurableFile.removeFolder(folder)
    } catch {
      logger.error("a live stream is not a capture yet, and stays in \(folder): \((error as? Failure)?.reason ?? "\(error)")")
    }
  }

  private struct Contents: Sendable {
    var description: StreamSegment.Description
    var frames: [StreamSegment.Frame]

    var metadata: Metadata {
      let (first, last) = (frames[0].time, frames[frames.count - 1].time)
      return Metadata(
        rgbResolution: description.size.map { [$0.width, $0.height] }, rgbFrameCount: frames.count,
        startTime: Time.text(first / 1_000_000 * 1000), endTime: Time.text(last / 1_000_000 * 1000),
        durationSeconds: Double(last - first) / 1e6)
    }
  }

  /// The metadata in the StackCapture app's form, which its reader expects.
  private struct Metadata: Encodable {
    var captureSource = "slow_motion_stream"
    var rgbResolution: [Int]?
    var rgbFrameCount: Int
    var poseCount = 0
    var hasVideo = false
    var startTime: String
    var endTime: String
    var durationSeconds: Double
  }

  /// `nil` where there is no complete frame.
  private func contents() throws -> Contents? {
    guard let data = FileManager.default.contents(atPath: folder + "/" + StreamSegment.description),
      let description = try? JSONDecoder().decode(StreamSegment.Description.self, from: data),
      let list = FileManager.default.contents(atPath: folder + "/" + StreamSegment.list)
    else { return nil }
    var frames: [StreamSegment.Frame] = []
    for line in String(decoding: list, as: UTF8.self).split(separator: "\n") {
      var status = stat()
      guard let frame = StreamSegment.Frame(line: line), frame.number == frames.count, frame.time > frames.last?.time ?? .min,
        stat(folder + "/" + frame.file, &status) == 0, Int64(status.st_size) == frame.bytes
      else { break }
      frames.append(frame)
    }
    return frames.isEmpty ? nil : Contents(description: description, frames: frames)
  }

  /// Makes the frames durable, and links them, so that the recording stays whole until the capture is safe.
  private func link(_ frames: [StreamSegment.Frame], into staging: Staging) throws -> [CaptureFile] {
    try DurableFile.makeFolder(staging.path + "/session")
    try DurableFile.makeFolder(staging.path + "/session/rgb")
    return try frames.map { frame in
      let (path, name) = (folder + "/" + frame.file, "session/" + frame.file)
      let descriptor = open(path, O_RDONLY | O_CLOEXEC)
      guard descriptor >= 0 else { throw DurableFile.failure("open", path) }
      defer { close(descriptor) }
      // Most were written minutes ago, so that this is quick.
      guard fsync(descriptor) == 0 else { throw DurableFile.failure("sync", path) }
      guard Foundation.link(path, staging.path + "/" + name) == 0 else { throw DurableFile.failure("link", path) }
      return CaptureFile(capture: "", name: name, bytes: frame.bytes, sha256: frame.sha256)
    }
  }
}
