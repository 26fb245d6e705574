import HTTPTypes
import Hummingbird
import NIOCore

/// What the slow-motion app and its viewers use.
struct SlowMotionRoutes {
  let services: Services
  let relay: Relay

  private struct Done: Encodable {
    var success = true
    var message: String
  }

  private struct Status: Encodable {
    var cameras, viewers, recordings: Int
    var timestamp: Int64
  }

  func add(to router: CaptureRouter) {
    let upload = MovieUpload(services: services)
    // It answers for its key itself: a refusal would cost the phone its movie.
    router.post("upload") { try await upload.respond($0, $1) }
    router.post("k/{key}/upload") { try await upload.respond($0, $1) }

    let routes = router.group().add(middleware: SlowMotionKeyMiddleware(services: services))
    MovieRoutes(services: services).add(to: routes)
    routes.post("control/start") { _, _ in try tell("start") }
    routes.post("control/stop") { _, _ in try tell("stop") }
    routes.get("status") { _, _ in
      let counts = relay.counts
      return try JSONAnswer.response(
        Status(cameras: counts.cameras, viewers: counts.viewers, recordings: counts.recordings, timestamp: Time.now()))
    }
    routes.get("live") { _, _ in LivePage.response }
    for path in ["camera", "viewer", "k/{key}/camera", "k/{key}/viewer"] {
      // What arrives here asked for no WebSocket, or came from a page of another site.
      routes.get(RouterPath(path)) { request, _ -> Response in
        if Origin.isForeign(request.headers[.origin], host: request.head.authority, root: services.configuration.baseURL) {
          throw Failure(.forbidden, "FORBIDDEN", "Pages of other sites may not do that")
        }
        throw Failure(.upgradeRequired, "UPGRADE_REQUIRED", "This is a WebSocket", headers: [.upgrade: "websocket"])
      }
    }
  }

  private func tell(_ command: String) throws -> Response {
    relay.command(command)
    return try JSONAnswer.response(Done(message: "Sent \(command) to \(relay.counts.cameras) camera(s)"))
  }
}
