import Connections
import Foundation
import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOHTTP1
import NIOWebSocket

/// Relays between cameras and viewers: live frames and signaling one way, commands and signaling the other. Slow viewers miss frames and
/// hold up no others. `RelayState` decides who sees whom.
final class Relay: Sendable {
  private struct CameraEnd: Sendable {
    let peer: SocketPeer
    let recorder: StreamRecorder
  }

  private struct Viewer: Sendable {
    let peer: SocketPeer
    /// Project of its key; `nil` for one without a key, who sees all.
    let project: String?
    /// Whether it may do more than look.
    let mayCommand: Bool
    /// Its name for the log.
    let sender: String
  }

  private let configuration: Configuration
  private let data: DataFolder
  private let database: ServerDatabase
  private let intake: Intake
  private let logger: Logger
  private let state = NIOLockedValueBox(RelayState<CameraEnd, SocketPeer>())

  init(configuration: Configuration, data: DataFolder, database: ServerDatabase, intake: Intake, logger: Logger) {
    (self.configuration, self.data, self.database, self.intake, self.logger) = (configuration, data, database, intake, logger)
  }

  /// Returns the counts of a project, or of all.
  func counts(of project: String?) -> (cameras: Int, viewers: Int, recordings: Int) {
    let (cameras, viewers) = state.withLockedValue { ($0.cameras(of: project), $0.viewerCount(of: project)) }
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
    return key?.allows(request.role.permission) ?? true
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
      let viewer = Viewer(peer: peer, project: key?.project, mayCommand: mayCommand, sender: APIKey.sender(key, at: address))
      await serve(viewer, socket, records: request.records && mayCommand)
    }
  }

  /// Interval at which an open socket's key is looked up.
  private static let keyInterval = Duration.seconds(5)

  private func serveCamera(_ socket: CaptureChannel.Socket, _ peer: SocketPeer, _ request: SocketRequest, _ project: String) async {
    let (id, end) = state.withLockedValue {
      $0.add(at: Time.now()) { id in
        let recorder = StreamRecorder(
          configuration: configuration, data: data, database: database, intake: intake, logger: logger, project: project, camera: id)
        return .init(end: CameraEnd(peer: peer, recorder: recorder), project: project, records: request.records)
      }
    }
    await read(socket, peer) { message in
      switch message {
      case .frame(let bytes):
        // Whoever sees a frame and wants no more to be kept must not overtake it: it would begin another recording.
        if self.state.withLockedValue({ $0.isKept(id) }), let problem = await end.recorder.append(bytes) { self.warn(problem, of: project) }
        for viewer in self.state.withLockedValue({ $0.viewers(of: project) }) { viewer.offer(bytes) }
      case .text(let text): self.hear(text, from: id, of: project)
      case .other: break
      }
    }
    state.withLockedValue { $0.removeCamera(id) }
    announce(id, of: project, "disconnected")
    await end.recorder.finish()
  }

  private func serve(_ viewer: Viewer, _ socket: CaptureChannel.Socket, records: Bool) async {
    let (id, seen) = state.withLockedValue { $0.add(.init(end: viewer.peer, project: viewer.project, records: records)) }
    for (camera, status) in seen { viewer.peer.send(Self.status(camera, status)) }
    await read(socket, viewer.peer) { message in
      if case .text(let text) = message { await self.hear(text, from: viewer, id) }
    }
    state.withLockedValue { $0.removeViewer(id) }
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

  private func hear(_ text: LiveText, from camera: Int64, of project: String) {
    switch text.news {
    case .status(let status):
      // It is kept, and told to each viewer that comes.
      state.withLockedValue { $0.setStatus(status, of: camera) }
      announce(camera, of: project, status)
    case .signal: show(text.bytes, of: project)
    case nil: break
    }
  }

  private func hear(_ text: LiveText, from viewer: Viewer, _ id: Int) async {
    switch text.wish {
    case .signal:
      // It decides to whom the camera sends.
      if viewer.mayCommand || may("signaling", viewer) { _ = tell(text.bytes, viewer.project) }
    case .command(let command): if may(command, viewer) { self.command(command, to: viewer.project) }
    case .record(let isOn):
      guard may(isOn ? "record" : "record no more", viewer) else {
        return viewer.peer.send(Self.json(Keeping(on: false, problem: "The API key is for reading only.")))
      }
      state.withLockedValue { $0.setRecords(isOn, of: id) }
      viewer.peer.send(Self.json(Keeping(on: isOn, problem: nil)))
      if !isOn { await finishIdleRecordings() }
    case nil: break
    }
  }

  /// Whether a viewer may do something, which is noted in the log either way.
  private func may(_ wish: String, _ viewer: Viewer) -> Bool {
    logger.info("/viewer \(wish): \(viewer.mayCommand ? "done" : "refused"), \(viewer.sender)")
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
    for viewer in state.withLockedValue({ $0.keepers(of: project) }) { viewer.send(text) }
  }

  /// Ends the recordings that no viewer wants any more.
  private func finishIdleRecordings() async {
    for camera in state.withLockedValue(\.unkept) { await camera.recorder.finish() }
  }

  private func announce(_ camera: Int64, of project: String, _ status: String) { show(Self.status(camera, status), of: project) }

  private func show(_ text: ByteBuffer, of project: String) {
    for viewer in state.withLockedValue({ $0.viewers(of: project) }) { viewer.send(text) }
  }

  private struct CameraStatus: Encodable {
    var type = "camera_status"
    var cameraId: Int64
    var status: String
  }

  private static func status(_ camera: Int64, _ status: String) -> ByteBuffer { json(CameraStatus(cameraId: camera, status: status)) }

  private static func json(_ value: some Encodable) -> ByteBuffer { ByteBuffer(bytes: (try? JSONAnswer.data(value)) ?? Data()) }
}
