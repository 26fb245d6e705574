import Hummingbird

/// `GET /live`: the live view, with the stream's true age and rate, the phone's controls, and the recorded movies.
struct LivePage {
  let page: Page

  var response: Response {
    page.response("Live view", template: "live", (), place: "/live", script: PageFiles.liveScript)
  }
}
