import Foundation
import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOHTTP1
import NIOWebSocket

/// Relays between cameras and viewers: live frames and signaling one way, commands and signaling the other. Slow viewers miss frames;
/// nobody waits for them.
final class Relay: Sendable {
  private struct Camera: Sendable {
    let peer: SocketPeer
    let recorder: StreamRecorder
    let records: Bool
    var status: String?
  }

  private struct Viewer: Sendable {
    let peer: SocketPeer
    var records: Bool
  }

  private struct State: Sendable {
    /// By id: milliseconds since 1970 at which the camera connected.
    var cameras: [Int64: Camera] = [:]
    var viewers: [ObjectIdentifier: Viewer] = [:]

    func records(_ camera: Camera) -> Bool { camera.records || viewers.values.contains(where: \.records) }
  }

  private let services: Services
  private let state = NIOLockedValueBox(State())

  init(_ services: Services) { self.services = services }

  var counts: (cameras: Int, viewers: Int, recordings: Int) {
    let (state, cameras) = state.withLockedValue { ($0, Array($0.cameras.values)) }
    return (cameras.count, state.viewers.count, cameras.count(where: \.recorder.isRecording))
  }

  /// Tells all cameras to start or stop recording on the phone.
  func command(_ command: String) {
    let text = Self.json(["command": command])
    for camera in state.withLockedValue({ Array($0.cameras.values) }) { camera.peer.send(text) }
  }

  // MARK: Sockets

  /// Whether a request may become a socket. Those that may not go to the router, which says why.
  func admits(_ head: HTTPRequestHead) async -> Bool {
    guard let request = SocketRequest(head),
      !Origin.isForeign(request.origin, host: request.host, root: services.configuration.baseURL),
      case .granted = try? await SlowMotionKey(services: services).access(request.key)
    else { return false }
    return true
  }

  /// Serves a camera or a viewer until it leaves.
  func serve(_ socket: CaptureChannel.Socket, _ request: SocketRequest) async {
    guard let project = try? await SlowMotionKey(services: services).access(request.key).project else {
      socket.channel.close(promise: nil)
      return
    }
    let peer = SocketPeer(socket.channel)
    switch request.role {
    case .camera: await serveCamera(socket, peer, request, project)
    case .viewer: await serveViewer(socket, peer, request)
    }
  }

  private func serveCamera(_ socket: CaptureChannel.Socket, _ peer: SocketPeer, _ request: SocketRequest, _ project: String) async {
    let (id, recorder) = state.withLockedValue { state in
      var id = Time.now()
      while state.cameras[id] != nil { id += 1 }
      let recorder = StreamRecorder(services, project: project, camera: id)
      state.cameras[id] = Camera(peer: peer, recorder: recorder, records: request.records)
      return (id, recorder)
    }
    await read(socket, peer) { message in
      switch message {
      case .frame(let bytes):
        let (viewers, records) = self.state.withLockedValue { state in
          (state.viewers.values.map(\.peer), state.cameras[id].map(state.records) ?? false)
        }
        for viewer in viewers { viewer.offer(bytes) }
        if records { await recorder.append(bytes) }
      case .text(let text): self.hear(text, from: id)
      case .other: break
      }
    }
    state.withLockedValue { _ = $0.cameras.removeValue(forKey: id) }
    announce(id, "disconnected")
    await recorder.finish()
  }

  private func serveViewer(_ socket: CaptureChannel.Socket, _ peer: SocketPeer, _ request: SocketRequest) async {
    let id = ObjectIdentifier(peer)
    let known = state.withLockedValue { state in
      state.viewers[id] = Viewer(peer: peer, records: request.records)
      return state.cameras
    }
    for (camera, status) in known.sorted(by: { $0.key < $1.key }) { peer.send(Self.status(camera, status.status ?? "waiting")) }
    await read(socket, peer) { message in
      if case .text(let text) = message { await self.hear(text, fromViewer: id) }
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
      services.logger.debug("a socket ended: \(error)")
    }
  }

  // MARK: Texts

  private func hear(_ text: LiveText, from camera: Int64) {
    switch text.type {
    case "status":
      guard let status = text.status else { return }
      state.withLockedValue { $0.cameras[camera]?.status = status }
      announce(camera, status)
    case "offer", "ice": for viewer in viewers { viewer.send(text.bytes) }
    default: break
    }
  }

  private func hear(_ text: LiveText, fromViewer id: ObjectIdentifier) async {
    if let command = text.command {
      if ["start", "stop"].contains(command) { self.command(command) }
      return
    }
    switch text.type {
    case "reconnect_request": command("reconnect")
    case "answer", "ice": for camera in state.withLockedValue({ Array($0.cameras.values) }) { camera.peer.send(text.bytes) }
    case "record":
      guard let isOn = text.isOn else { return }
      state.withLockedValue { $0.viewers[id]?.records = isOn }
      if !isOn { await finishIdleRecordings() }
    default: break
    }
  }

  /// Ends the recordings that nobody wants any more.
  private func finishIdleRecordings() async {
    let recorders = state.withLockedValue { state in state.cameras.values.filter { !state.records($0) }.map(\.recorder) }
    for recorder in recorders { await recorder.finish() }
  }

  private var viewers: [SocketPeer] { state.withLockedValue { $0.viewers.values.map(\.peer) } }

  private func announce(_ camera: Int64, _ status: String) {
    let text = Self.status(camera, status)
    for viewer in viewers { viewer.send(text) }
  }

  private struct CameraStatus: Encodable {
    var type = "camera_status"
    var cameraId: Int64
    var status: String
  }

  private static func status(_ camera: Int64, _ status: String) -> ByteBuffer { json(CameraStatus(cameraId: camera, status: status)) }

  private static func json(_ value: some Encodable) -> ByteBuffer { ByteBuffer(bytes: (try? JSONAnswer.data(value)) ?? Data()) }
}
