import Hummingbird

/// `GET /live`: the live view, with the stream's true age and rate, the phone's controls, and the recorded movies.
struct LivePage {
  let page: Page

  var response: Response {
    page.response("Live view", template: "live", (), place: "/live", script: LiveScript.text)
  }

  /// Without JavaScript, only the first paragraph is shown.
  static let template = """
    <h1>Live view</h1>
    <noscript>
    <p class="panel">The live view needs JavaScript. Movies of phones are among the <a href="/?type=movie">captures</a>.</p>
    </noscript>
    <div id="view" hidden>
    <p id="connection" role="status">Connecting.</p>
    <div class="stage">
    <img id="frame" alt="The camera's live image" hidden>
    <p id="nothing">No camera is sending.</p>
    </div>
    <dl class="figures">
    <div><dt>Age of the image</dt><dd id="age">-</dd></div>
    <div><dt>Frames per second</dt><dd id="rate">-</dd></div>
    <div><dt>Size</dt><dd id="size">-</dd></div>
    <div><dt>Cameras</dt><dd id="cameras">-</dd></div>
    <div><dt>Streams being kept</dt><dd id="recordings">-</dd></div>
    </dl>
    <div class="buttons">
    <button id="start" type="button">Start recording on the phone</button>
    <button id="stop" type="button">Stop recording on the phone</button>
    <button id="keep" type="button" aria-pressed="false">Keep the live stream</button>
    </div>
    <p id="said" role="status"></p>
    <h2>Recorded movies</h2>
    <p id="none" hidden>There are none yet.</p>
    <ul id="movies" class="movies"></ul>
    <p id="more" hidden>These are the newest. All of them are among the <a href="/?type=movie">captures</a>.</p>
    <section id="player" hidden aria-label="Player">
    <h3 id="title"></h3>
    <video id="video" controls playsinline></video>
    <p id="unplayable" hidden>This browser cannot play the movie. Its name in the list above leads to the file.</p>
    </section>
    </div>

    """
}
