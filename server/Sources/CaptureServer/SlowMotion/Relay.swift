import Foundation
import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOHTTP1
import NIOWebSocket

/// Relays between cameras and viewers: live frames and signaling one way, commands and signaling the other. Slow viewers miss frames;
/// nobody waits for them. A key shows and tells the cameras of its project only.
final class Relay: Sendable {
  private struct Camera: Sendable {
    let peer: SocketPeer
    let project: String
    let recorder: StreamRecorder
    let records: Bool
    var status: String?
  }

  private struct Viewer: Sendable {
    let peer: SocketPeer
    /// Of its key; `nil` for one without a key, who sees all.
    let project: String?
    var records: Bool
    /// Whether it may do more than look.
    let mayCommand: Bool
    /// Who it is, for the log.
    let sender: String
  }

  private struct State: Sendable {
    /// By id: milliseconds since 1970 at which the camera connected.
    var cameras: [Int64: Camera] = [:]
    var viewers: [ObjectIdentifier: Viewer] = [:]

    /// All, or those of a project.
    func cameras(of project: String?) -> [Camera] { cameras.values.filter { project == nil || project == $0.project } }

    func viewers(of project: String) -> [Viewer] { viewers.values.filter { $0.project == nil || $0.project == project } }

    func records(_ camera: Camera) -> Bool { camera.records || viewers(of: camera.project).contains(where: \.records) }
  }

  private let configuration: Configuration
  private let data: DataFolder
  private let database: ServerDatabase
  private let intake: Intake
  private let logger: Logger
  private let state = NIOLockedValueBox(State())

  init(configuration: Configuration, data: DataFolder, database: ServerDatabase, intake: Intake, logger: Logger) {
    (self.configuration, self.data, self.database, self.intake, self.logger) = (configuration, data, database, intake, logger)
  }

  /// Of a project, or of all.
  func counts(of project: String?) -> (cameras: Int, viewers: Int, recordings: Int) {
    let (cameras, viewers) = state.withLockedValue { state in
      (state.cameras(of: project), project.map { state.viewers(of: $0).count } ?? state.viewers.count)
    }
    return (cameras.count, viewers, cameras.count(where: \.recorder.isRecording))
  }

  /// Tells the cameras of a project, or all, to start or stop recording on the phone. How many there are.
  @discardableResult
  func command(_ command: String, to project: String?) -> Int { tell(Self.json(["command": command]), project) }

  private func tell(_ text: ByteBuffer, _ project: String?) -> Int {
    let cameras = state.withLockedValue { $0.cameras(of: project) }
    for camera in cameras { camera.peer.send(text) }
    return cameras.count
  }

  // MARK: Sockets

  /// Whether a request may become a socket. Those that may not go to the router, which says why.
  func admits(_ head: HTTPRequestHead) async -> Bool {
    guard let request = SocketRequest(head),
      Origin.serves(request.host, isForwarded: request.isForwarded, configuration),
      !Origin.isForeign(request.origin, host: request.host, isForwarded: request.isForwarded, configuration),
      case .granted(let key) = try? await SlowMotionKey(configuration: configuration, database: database).access(
        request.key, isForwarded: request.isForwarded)
    else { return false }
    return key?.allows(request.role.deed) ?? true
  }

  /// Serves a camera or a viewer until it leaves, or its key is revoked.
  func serve(_ socket: CaptureChannel.Socket, _ request: SocketRequest) async {
    guard
      case .granted(let key) = try? await SlowMotionKey(configuration: configuration, database: database).access(
        request.key, isForwarded: request.isForwarded)
    else {
      socket.channel.close(promise: nil)
      return
    }
    let peer = SocketPeer(socket.channel)
    let watch = request.key.map { key in
      Task {
        while (try? await Task.sleep(for: Self.keyInterval)) != nil {
          if case .refused = try? await SlowMotionKey(configuration: configuration, database: database).access(key, isForwarded: false) {
            peer.close(.policyViolation)
          }
        }
      }
    }
    defer { watch?.cancel() }
    switch request.role {
    case .camera: await serveCamera(socket, peer, request, key?.project ?? "default")
    case .viewer:
      let address = ClientAddress.of(
        socket.channel.remoteAddress, forwardedFor: request.forwardedFor, trusting: configuration.trustedProxies)
      let mayCommand = key?.allows(.change) ?? true
      let viewer = Viewer(
        peer: peer, project: key?.project, records: request.records && mayCommand, mayCommand: mayCommand,
        sender: APIKey.sender(key, at: address))
      await serve(viewer, socket)
    }
  }

  /// How often an open socket's key is looked up.
  private static let keyInterval = Duration.seconds(5)

  private func serveCamera(_ socket: CaptureChannel.Socket, _ peer: SocketPeer, _ request: SocketRequest, _ project: String) async {
    let (id, recorder) = state.withLockedValue { state in
      var id = Time.now()
      while state.cameras[id] != nil { id += 1 }
      let recorder = StreamRecorder(
        configuration: configuration, data: data, database: database, intake: intake, logger: logger, project: project, camera: id)
      state.cameras[id] = Camera(peer: peer, project: project, recorder: recorder, records: request.records)
      return (id, recorder)
    }
    await read(socket, peer) { message in
      switch message {
      case .frame(let bytes):
        let (viewers, records) = self.state.withLockedValue { state in
          (state.viewers(of: project), state.cameras[id].map(state.records) ?? false)
        }
        for viewer in viewers { viewer.peer.offer(bytes) }
        if records, let problem = await recorder.append(bytes) { self.warn(problem, of: project) }
      case .text(let text): self.hear(text, from: id, of: project)
      case .other: break
      }
    }
    state.withLockedValue { _ = $0.cameras.removeValue(forKey: id) }
    announce(id, of: project, "disconnected")
    await recorder.finish()
  }

  private func serve(_ viewer: Viewer, _ socket: CaptureChannel.Socket) async {
    let id = ObjectIdentifier(viewer.peer)
    let known = state.withLockedValue { state in
      state.viewers[id] = viewer
      return state.cameras.filter { viewer.project == nil || viewer.project == $0.value.project }
    }
    for (id, camera) in known.sorted(by: { $0.key < $1.key }) { viewer.peer.send(Self.status(id, camera.status ?? "waiting")) }
    await read(socket, viewer.peer) { message in
      if case .text(let text) = message { await self.hear(text, from: viewer) }
    }
    state.withLockedValue { _ = $0.viewers.removeValue(forKey: id) }
    await finishIdleRecordings()
  }

  /// Reads messages until the socket ends, however it ends.
  private func read(_ socket: CaptureChannel.Socket, _ peer: SocketPeer, _ body: (LiveMessage) async -> Void) async {
    do {
      try await socket.executeThenClose { inbound, _ in
        for try await frame in inbound {
          peer.heard()
          switch frame.opcode {
          case .text, .binary: await body(LiveMessage(frame.unmaskedData, isBinary: frame.opcode == .binary))
          case .ping: peer.pong(frame.unmaskedData)
          case .connectionClose:
            peer.close(.normalClosure)
            return
          default: break
          }
        }
      }
    } catch {
      logger.debug("a socket ended: \(error)")
    }
  }

  // MARK: Texts

  private static let statusLimit = 256

  private func hear(_ text: LiveText, from camera: Int64, of project: String) {
    guard text.command == nil else { return }
    switch text.type {
    case "status":
      // It is kept, and told to each viewer that comes.
      guard let status = text.status, status.utf8.count <= Self.statusLimit else { return }
      state.withLockedValue { $0.cameras[camera]?.status = status }
      announce(camera, of: project, status)
    case "offer", "ice": show(text.bytes, of: project)
    default: break
    }
  }

  private func hear(_ text: LiveText, from viewer: Viewer) async {
    switch (text.command, text.type) {
    case (nil, "answer"?), (nil, "ice"?):
      // It decides to whom the camera sends.
      if viewer.mayCommand || may("signaling", viewer) { _ = tell(text.bytes, viewer.project) }
    case ("start"?, _), ("stop"?, _), (nil, "reconnect_request"):
      let command = text.command ?? "reconnect"
      if may(command, viewer) { self.command(command, to: viewer.project) }
    case (nil, "record"):
      guard let isOn = text.isOn else { return }
      guard may(isOn ? "record" : "record no more", viewer) else {
        return viewer.peer.send(Self.json(Keeping(on: false, problem: "The API key is for reading only.")))
      }
      state.withLockedValue { $0.viewers[ObjectIdentifier(viewer.peer)]?.records = isOn }
      viewer.peer.send(Self.json(Keeping(on: isOn, problem: nil)))
      if !isOn { await finishIdleRecordings() }
    default: break
    }
  }

  /// Whether a viewer may do something, which is noted in the log either way.
  private func may(_ deed: String, _ viewer: Viewer) -> Bool {
    logger.info("/viewer \(deed): \(viewer.mayCommand ? "done" : "refused"), \(viewer.sender)")
    return viewer.mayCommand
  }

  /// Whether the stream is kept for a viewer, and why some of it is not.
  private struct Keeping: Encodable {
    var type = "keeping"
    var on: Bool
    var problem: String?
  }

  /// Tells those who want a project's streams kept that they are not.
  private func warn(_ problem: String, of project: String) {
    let text = Self.json(Keeping(on: true, problem: problem))
    for viewer in state.withLockedValue({ $0.viewers(of: project) }) where viewer.records { viewer.peer.send(text) }
  }

  /// Ends the recordings that nobody wants any more.
  private func finishIdleRecordings() async {
    let recorders = state.withLockedValue { state in state.cameras.values.filter { !state.records($0) }.map(\.recorder) }
    for recorder in recorders { await recorder.finish() }
  }

  private func announce(_ camera: Int64, of project: String, _ status: String) { show(Self.status(camera, status), of: project) }

  private func show(_ text: ByteBuffer, of project: String) {
    for viewer in state.withLockedValue({ $0.viewers(of: project) }) { viewer.peer.send(text) }
  }

  private struct CameraStatus: Encodable {
    var type = "camera_status"
    var cameraId: Int64
    var status: String
  }

  private static func status(_ camera: Int64, _ status: String) -> ByteBuffer { json(CameraStatus(cameraId: camera, status: status)) }

  private static func json(_ value: some Encodable) -> ByteBuffer { ByteBuffer(bytes: (try? JSONAnswer.data(value)) ?? Data()) }
}
