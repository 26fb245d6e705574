import Connections
import Crypto
import Foundation
import Model
import NIOCore

/// The frames of a live stream while they arrive, in a folder of their own:
///
///     recording.json      camera, project, image size
///     frames.tsv          number, microseconds since 1970, bytes and SHA-256 of each frame
///     rgb/000000.jpg …    the frames as they arrived
///
/// A frame's file is complete before its line is written, so a server that is killed loses at most the frame in hand.
///
/// `@unchecked Sendable`: one thread at a time uses it.
final class StreamSegment: @unchecked Sendable {
  struct Description: Codable, Sendable {
    var camera: Int64
    var project: String
    var size: StreamSize?
  }

  /// A line of frames.tsv.
  struct Frame: Equatable, Sendable {
    var number: Int
    var time: Int64
    var bytes: Int64
    var sha256: String

    var file: String { StreamSegment.image(number) }
    var line: String { "\(number)\t\(time)\t\(bytes)\t\(sha256)\n" }

    init(number: Int, time: Int64, bytes: Int64, sha256: String) {
      (self.number, self.time, self.bytes, self.sha256) = (number, time, bytes, sha256)
    }

    init?(line: Substring) {
      let fields = line.split(separator: "\t", omittingEmptySubsequences: false)
      guard fields.count == 4, let number = Int(fields[0]), let time = Int64(fields[1]), let bytes = Int64(fields[2]),
        fields[3].utf8.count == 64
      else { return nil }
      self.init(number: number, time: time, bytes: bytes, sha256: String(fields[3]))
    }
  }

  static let description = "recording.json"
  static let list = "frames.tsv"
  static func image(_ number: Int) -> String { "rgb/" + number.padded(to: 6) + ".jpg" }

  /// A take that is longer is cut: the converter takes no more than 600 s and 20,000 frames by default, and what a broken disk can cost
  /// should be small.
  static let longest: Int64 = 590_000_000
  static let mostFrames = 18_000

  let folder: String
  private let size: StreamSize?
  private let descriptor: Int32
  private var firstTime: Int64?
  private var isClosed = false
  /// Time of the last frame, in microseconds since 1970.
  private(set) var lastTime = Int64.min
  private(set) var count = 0
  /// Bytes of all frames.
  private(set) var bytes: Int64 = 0

  /// Starts a segment. Throws `Failure`.
  init(in data: DataFolder, project: String, camera: Int64, size: StreamSize?) throws {
    try DurableFile.makeFolder(data.recordings)
    folder = data.recordings + "/" + UUID().uuidString.lowercased()
    self.size = size
    try DurableFile.makeFolder(folder)
    try DurableFile.makeFolder(folder + "/rgb")
    let description = try JSONAnswer.data(Description(camera: camera, project: project, size: size))
    try Self.write(ByteBuffer(bytes: description), to: folder + "/" + Self.description)
    let path = folder + "/" + Self.list
    descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0o640)
    guard descriptor >= 0 else { throw DurableFile.failure("create", path) }
  }

  deinit { close() }

  /// Whether a frame can be part of this take: images of a take have one size.
  func takes(_ size: StreamSize?, at time: Int64) -> Bool {
    guard let firstTime else { return true }
    return count < Self.mostFrames && time - firstTime <= Self.longest && (size == nil || size == self.size)
  }

  func append(_ jpeg: ByteBuffer, at time: Int64) throws {
    let frame = Frame(
      number: count, time: time, bytes: Int64(jpeg.readableBytes), sha256: Hex.text(SHA256.hash(data: jpeg.readableBytesView)))
    try Self.write(jpeg, to: folder + "/" + frame.file)
    try Array(frame.line.utf8).withUnsafeBytes { try DurableFile.write($0, to: descriptor, folder + "/" + Self.list) }
    if firstTime == nil { firstTime = time }
    lastTime = time
    count += 1
    bytes += frame.bytes
  }

  func close() {
    if !isClosed { Foundation.close(descriptor) }
    isClosed = true
  }

  private static func write(_ bytes: ByteBuffer, to path: String) throws {
    let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o640)
    guard descriptor >= 0 else { throw DurableFile.failure("create", path) }
    defer { Foundation.close(descriptor) }
    try bytes.withUnsafeReadableBytes { try DurableFile.write($0, to: descriptor, path) }
  }
}

extension DataFolder {
  /// Live streams that are being recorded, and those that a killed server left.
  var recordings: String { path + "/recordings" }
}
