import Evidence
import Foundation
import HTTP
import Media
import Model
import Simulate
import Synchronization
import TakesetRecorder
import Uploader

/// A slow-motion camera that the recorder's `LiveCamera` drives, with frames of a simulated scene at their times.
///
/// `@unchecked Sendable`: everything that changes belongs to `queue`.
public final class SimulatedCamera: @unchecked Sendable {
  /// The options of `takeset simulate camera`. Sizes are in pixels, rates in frames per second.
  public struct Options: Sendable {
    /// The socket, such as ws://127.0.0.1:8080/camera.
    public var to = ""
    /// Folder of movies that the server does not have yet.
    public var output = ""
    public var rate = 120
    public var streamRate = 15
    public var width = 640
    public var height = 360
    public var seed: UInt64 = 1
    /// Movies to upload before it ends.
    public var takes = 1

    public init() {}
  }

  private let options: Options
  private let socketAddress: URL
  private let uploadAddress: URL
  private let client: HTTPClient
  private let scene: StillScene
  private let queue = DispatchQueue(label: "takeset.camera")
  /// Messages leave here; few wait.
  private let sending = DispatchQueue(label: "takeset.camera.sending")
  private let waiting = Mutex(0)
  private static let mostWaiting = 8

  private var camera: LiveCamera
  private var socket: WebSocketClient?
  private var recording: Recording?
  private var frame = 0
  private var uploaded = 0
  private var problem: (any Error)?
  private let report: @Sendable (String) -> Void

  private struct Recording {
    var file: String
    var encoder: MovieEncoder
    var output: FileHandle
    var first: Int
    var frames = 0
  }

  private struct Line: Encodable {
    var event: String
    var status: String?
    var file: String?
    var frames: Int?
    var bytes: Int64?
    var sha256: String?
    var reason: String?
  }

  /// - Parameter report: Called with lines of JSON.
  public init(_ options: Options, report: @escaping @Sendable (String) -> Void) throws {
    guard let socket = URL(string: options.to), socket.scheme?.lowercased() == "ws", socket.host?.isEmpty == false,
      let upload = LiveMessageWriter.uploadAddress(of: socket)
    else { throw UploaderProblem("--to \(options.to): expected the server's socket, such as ws://127.0.0.1:8080/camera", exitCode: 64) }
    (self.options, socketAddress, uploadAddress, self.report) = (options, socket, upload, report)
    camera = LiveCamera(rate: options.rate, streamRate: options.streamRate)
    scene = StillScene(size: ImageSize(width: options.width, height: options.height), seed: options.seed)
    do {
      client = try HTTPClient(timeout: 60)
    } catch {
      throw UploaderProblem("\(error)")
    }
  }

  /// Films until so many movies are on the server.
  ///
  /// - Throws: `UploaderProblem` where the folder cannot be used, `MovieError`.
  public func run() throws {
    do {
      try FileManager.default.createDirectory(atPath: options.output, withIntermediateDirectories: true)
    } catch {
      throw UploaderProblem("\(options.output): \(error.localizedDescription)")
    }
    let left = try FileManager.default.contentsOfDirectory(atPath: options.output).filter { $0.hasPrefix("video_") && $0.hasSuffix(".mp4") }
    for name in left.sorted() {
      // One that was killed before its first segment has nothing to send.
      let size = try FileManager.default.attributesOfItem(atPath: path(name))[.size] as? Int
      if size == 0 { try FileManager.default.removeItem(atPath: path(name)) } else { queue.sync { handle(.movie(name)) } }
    }
    let began = Self.now
    for number in 0... {
      let wait = began + Double(number) / Double(options.rate) - Self.now
      if wait > 0 { Thread.sleep(forTimeInterval: wait) }
      let isOver = queue.sync {
        frame = number
        image = nil
        handle(.frame)
        return problem != nil || uploaded >= options.takes && recording == nil
      }
      if isOver { break }
    }
    queue.sync {
      socket?.close()
      socket = nil
    }
    if let problem = queue.sync(execute: { problem }) { throw problem }
  }

  /// The frame's image, drawn when it is needed.
  private var image: [UInt8]?
  private func pixels() -> [UInt8] {
    if let image { return image }
    let drawn = scene.image(frame)
    image = drawn
    return drawn
  }

  private static var now: Double { ProcessInfo.processInfo.systemUptime }

  // MARK: Effects

  private func handle(_ event: LiveCamera.Event) {
    for effect in camera.handle(event, at: Self.now) {
      do {
        try carryOut(effect)
      } catch {
        problem = problem ?? error
      }
    }
  }

  private func carryOut(_ effect: LiveCamera.Effect) throws {
    switch effect {
    case .connect: connect()
    case .disconnect: socket?.close()
    case .status(let status):
      say(Line(event: "status", status: status.rawValue))
      send(.text(LiveMessageWriter.status(status, at: Date().timeIntervalSince1970)))
    case .stream:
      let size = ImageSize(width: options.width, height: options.height)
      // The app's usual quality.
      let jpeg = try JPEGEncoder().encode(pixels(), size: size, quality: 40)
      send(.binary(LiveMessageWriter.frame(jpeg, at: Date().timeIntervalSince1970)))
    case .openMovie: try openMovie()
    case .record: try record()
    case .closeMovie: try closeMovie()
    case .upload(let name): upload(name)
    }
  }

  private func connect() {
    let address = socketAddress
    // It waits for the network.
    Thread.detachNewThread { [weak self] in
      let socket: WebSocketClient
      do {
        socket = try WebSocketClient(address)
      } catch {
        self?.queue.async { [weak self] in
          self?.say(Line(event: "unreachable", reason: "\(error)"))
          self?.handle(.disconnected)
        }
        return
      }
      self?.queue.async { [weak self] in
        self?.socket = socket
        self?.say(Line(event: "connected"))
        self?.handle(.connected)
      }
      while let message = try? socket.receive() {
        if case .text(let text) = message { self?.queue.async { [weak self] in self?.handle(.text(text)) } }
      }
      self?.queue.async { [weak self] in
        guard let self, self.socket === socket else { return }
        self.socket = nil
        say(Line(event: "disconnected"))
        handle(.disconnected)
      }
    }
  }

  /// Sends a message, unless others wait before it: a stream that lags is of no use.
  private func send(_ message: WebSocketClient.Message) {
    guard let socket else { return }
    let isText = if case .text = message { true } else { false }
    let isFull = waiting.withLock { count in
      if count >= Self.mostWaiting, !isText { return true }
      count += 1
      return false
    }
    if isFull { return }
    sending.async { [self] in
      do { try socket.send(message) } catch { socket.close() }
      waiting.withLock { $0 -= 1 }
    }
  }

  // MARK: Movies

  /// Ticks a second: the app's, unless two frames would have the same.
  private var timescale: Int { max(600, options.rate) }

  private func openMovie() throws {
    var file = "video_\(Int(Date().timeIntervalSince1970)).mp4"
    var copy = 2
    while FileManager.default.fileExists(atPath: path(file)) || camera.pending.contains(file) {
      file = "video_\(Int(Date().timeIntervalSince1970))_\(copy).mp4"
      copy += 1
    }
    var movie = MovieEncoder.Options(size: ImageSize(width: options.width, height: options.height))
    movie.rate = Double(options.rate)
    movie.timescale = timescale
    guard FileManager.default.createFile(atPath: path(file), contents: nil), let output = FileHandle(forWritingAtPath: path(file)) else {
      throw UploaderProblem("\(path(file)): it cannot be written")
    }
    recording = Recording(file: file, encoder: try MovieEncoder(segmentsOf: 0.5, movie), output: output, first: frame)
    say(Line(event: "recording", file: file))
  }

  private func path(_ file: String) -> String { options.output + "/" + file }

  private func record() throws {
    guard let current = recording else { return }
    // From the command's frame on.
    if current.frames == 0 { recording?.first = frame }
    let number = frame - (recording?.first ?? frame)
    try current.encoder.add(pixels(), at: Int64((Double(number) * Double(timescale) / Double(options.rate)).rounded()))
    recording?.frames += 1
    try write(current)
  }

  private func write(_ current: Recording) throws {
    for segment in current.encoder.takeSegments() { try current.output.write(contentsOf: segment.bytes) }
  }

  private func closeMovie() throws {
    guard let current = recording else { return }
    recording = nil
    if current.frames == 0 {
      // It has no image, so there is nothing to send.
      try FileManager.default.removeItem(atPath: path(current.file))
      say(Line(event: "recorded", file: current.file, frames: 0))
      return queue.async { [weak self] in self?.handle(.empty) }
    }
    try current.encoder.finish()
    try write(current)
    try current.output.synchronize()
    try current.output.close()
    say(Line(event: "recorded", file: current.file, frames: current.frames))
    frames[current.file] = current.frames
    let file = current.file
    queue.async { [weak self] in self?.handle(.movie(file)) }
  }

  /// The number of frames of each of this run's movies, by name.
  private var frames: [String: Int] = [:]

  private func upload(_ file: String) {
    let (client, address, path) = (client, uploadAddress, path(file))
    Task {
      let result: Result<(Int64, String), any Error>
      do { result = .success(try await Self.send(path, file, to: address, by: client)) } catch { result = .failure(error) }
      queue.async { [self] in
        switch result {
        case .success(let (bytes, digest)):
          try? FileManager.default.removeItem(atPath: path)
          uploaded += 1
          say(Line(event: "uploaded", file: file, frames: frames[file], bytes: bytes, sha256: digest))
          handle(.uploaded(file))
        case .failure(let error):
          say(Line(event: "upload-failed", file: file, reason: "\(error)"))
          handle(.uploadFailed(file))
        }
      }
    }
  }

  private struct Kept: Decodable { var sha256: String? }

  /// Sends a movie as the app does. Returns its bytes and digest when the server has them.
  private static func send(_ path: String, _ file: String, to address: URL, by client: HTTPClient) async throws -> (Int64, String) {
    let boundary = UUID().uuidString
    let body = path + ".upload"
    defer { unlink(body) }
    guard let input = FileHandle(forReadingAtPath: path), FileManager.default.createFile(atPath: body, contents: nil),
      let output = FileHandle(forWritingAtPath: body)
    else { throw UploaderProblem("\(path): it cannot be read") }
    let hasher = SHA256()
    var bytes: Int64 = 0
    let disposition = "Content-Disposition: form-data; name=\"video\"; filename=\"\(file)\""
    try output.write(contentsOf: Data("--\(boundary)\r\n\(disposition)\r\nContent-Type: video/mp4\r\n\r\n".utf8))
    while let data = try input.read(upToCount: 1 << 20), !data.isEmpty {
      data.withUnsafeBytes { hasher.update($0) }
      bytes += Int64(data.count)
      try output.write(contentsOf: data)
    }
    try output.write(contentsOf: Data("\r\n--\(boundary)--\r\n".utf8))
    try output.close()
    let digest = hasher.finish().description
    let headers = ["Content-Type": "multipart/form-data; boundary=\(boundary)"]
    let answer = try await client.send("POST", address, headers: headers, body: .file(body))
    guard (200..<300).contains(answer.status) else { throw UploaderProblem("the server answered \(answer.status)") }
    guard let kept = try? JSONDecoder().decode(Kept.self, from: answer.body).sha256 else {
      throw UploaderProblem("the server's answer has no digest, so the movie stays")
    }
    guard kept == digest else { throw UploaderProblem("the server has other bytes: \(kept) instead of \(digest)") }
    return (bytes, digest)
  }

  private func say(_ line: Line) {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    if let data = try? encoder.encode(line) { report(String(decoding: data, as: UTF8.self)) }
  }
}
