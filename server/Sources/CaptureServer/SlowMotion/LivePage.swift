import Hummingbird

/// `GET /live`: the live view, with the stream's true age and rate, the phone's controls, and the recorded movies.
struct LivePage {
  let configuration: Configuration
  let page: Page

  private struct Contents {
    /// Whether the reader may command cameras and record.
    var canChange: Bool
    /// The address for phones to connect to, and the text that follows it.
    var socket: String
    var key: String
  }

  func response(_ request: Request, _ context: CaptureContext) async throws -> Response {
    let contents = Contents(
      canChange: context.key?.allows(.change) ?? true,
      socket: configuration.root(for: request).replacing(/^http/, with: "ws"),
      key: configuration.needsKey(isForwarded: request.isForwarded) ? "?key=KEY" : "")
    return try await page.response("Live view", template: "live", contents, place: "/live", for: context, script: PageFiles.liveScript)
  }
}
