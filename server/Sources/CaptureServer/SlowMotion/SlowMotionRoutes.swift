import Connections
import HTTPTypes
import Hummingbird
import Logging
import NIOCore

/// The routes of the slow-motion app and its viewers.
struct SlowMotionRoutes {
  let configuration: Configuration
  let data: DataFolder
  let database: ServerDatabase
  let store: any CaptureStore
  let intake: Intake
  let logger: Logger
  let relay: Relay
  let page: Page

  private struct Done: Encodable {
    var success = true
    var message: String
  }

  private struct Status: Encodable {
    var cameras, viewers, recordings: Int
    var timestamp: Int64
  }

  func add(to routes: Routes) {
    let upload = MovieUpload(configuration: configuration, data: data, database: database, intake: intake, logger: logger)
    // It answers for its key itself: a refusal would cost the phone its movie.
    routes.open(to: .unanswered(.upload)).post("upload", use: upload.respond).post("k/{key}/upload", use: upload.respond)

    MovieRoutes(database: database, store: store).add(to: routes)
    let changing = routes.open(to: .address(.change))
    changing.post("control/start") { _, context in try tell("start", context) }
    changing.post("control/stop") { _, context in try tell("stop", context) }
    let reading = routes.open(to: .address(.read))
    reading.get("status") { _, context in
      let counts = relay.counts(of: context.key?.project)
      return try JSONAnswer.response(
        Status(cameras: counts.cameras, viewers: counts.viewers, recordings: counts.recordings, timestamp: Time.now()))
    }
    reading.get("live") { try await LivePage(configuration: configuration, page: page).response($0, $1) }
    // Where the app's own server has its viewers.
    for path in ["viewer.html", "viewer-webrtc.html"] {
      reading.get(RouterPath(path)) { request, _ -> Response in
        Response.redirect(to: "/live" + (request.uri.query.map { "?" + $0 } ?? ""), type: .found)
      }
    }
    for role in [SocketRequest.Role.camera, .viewer] {
      routes.open(to: .address(role.permission)).get("\(role)", use: refuseSocket).get("k/{key}/\(role)", use: refuseSocket)
    }
  }

  /// Refuses a request that asked for no WebSocket, or came from a page of another site.
  @Sendable private func refuseSocket(_ request: Request, _ context: CaptureContext) throws -> Response {
    if Origin.isForeign(request.headers[.origin], host: request.head.authority, isForwarded: request.isForwarded, configuration) {
      throw Origin.refusal
    }
    throw Failure(.upgradeRequired, "UPGRADE_REQUIRED", "This is a WebSocket", headers: [.upgrade: "websocket"])
  }

  private func tell(_ command: String, _ context: CaptureContext) throws -> Response {
    let cameras = relay.command(command, to: context.key?.project)
    return try JSONAnswer.response(
      Done(message: cameras == 0 ? "No camera is connected" : "Sent \(command) to \(cameras) camera\(cameras == 1 ? "" : "s")"))
  }
}
