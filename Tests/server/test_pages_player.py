"""The player of a capture's page in headless Chromium: the movie, depth over it, the trajectory beside it, and what there is without each."""

import json
import re
import time

import pytest
from pages import browser, insert, view  # noqa: F401 (fixtures)
from test_pages import captures  # noqa: F401 (a fixture)

# The pixels of a canvas, through another one: the page's is not made to be read.
PIXELS = """canvas => {
  const copy = document.createElement('canvas');
  [copy.width, copy.height] = [canvas.width, canvas.height];
  const pen = copy.getContext('2d', { willReadFrequently: true });
  pen.drawImage(canvas, 0, 0);
  return pen.getImageData(0, 0, copy.width, copy.height).data;
}"""
# The share of the player's canvas that is drawn on, and the sum of what is.
DRAWN = """() => {
  const canvas = document.getElementById('player-canvas');
  const data = (PIXELS)(canvas);
  let drawn = 0, sum = 0;
  for (let i = 0; i < data.length; i += 4) { drawn += data[i + 3] > 0; sum += data[i] + 2 * data[i + 1] + 3 * data[i + 2]; }
  return [drawn / (canvas.width * canvas.height), sum];
}""".replace("PIXELS", PIXELS)


@pytest.fixture
def player(captures, view):
    def open_player(name, prepare=None):
        page = view.open(f"{captures.url}/verify/{captures.ids[name]}", prepare)
        page.wait_for_selector("#player:not([hidden])")
        return page

    return open_player


def until(page, expression):
    """The page's policy lets nothing else wait."""
    end = time.monotonic() + 300
    while not page.evaluate(expression):
        assert time.monotonic() < end, expression
        time.sleep(0.02)


def seek(page, seconds):
    page.evaluate("seconds => { const s = document.getElementById('player-slider'); s.value = seconds; s.oninput(); }", seconds)
    until(page, "(m => m.hidden || !m.seeking)(document.getElementById('player-movie'))")


def paint_depth(page, percent):
    page.evaluate("percent => { const s = document.getElementById('player-depth'); s.value = percent; s.oninput(); }", percent)


def test_the_movie_plays_and_depth_is_drawn_over_it(player):
    page = player("complete")
    movie = page.locator("#player-movie")
    assert movie.get_attribute("preload") == "metadata", "nobody has pressed Play"
    assert movie.is_visible() and page.locator(".stills").is_hidden() and page.locator("#player-time").inner_text() == "0.0 of 1.0 s"
    # It is seen through the depth maps, whose colors are explained, and what is proven stands beside it.
    assert page.locator("#player-depth").input_value() == "25" and page.locator(".legend").inner_text().split() == ["0.5", "m", "5", "m"]
    screen, about = page.locator(".screen").bounding_box(), page.locator(".about").bounding_box()
    assert about["x"] >= screen["x"] + screen["width"] and about["y"] < screen["y"] + screen["height"]
    share, first = page.evaluate(DRAWN)
    assert share == 1
    seek(page, 0.5)
    share, second = page.evaluate(DRAWN)
    assert share == 1 and second != first, "another depth map"
    paint_depth(page, 0)
    assert page.evaluate(DRAWN)[0] == 0, "the movie alone"
    paint_depth(page, 60)
    assert page.evaluate(DRAWN)[0] == 1 and page.locator("#player-depth").get_attribute("aria-valuetext") == "60 %"
    # To its end, and again from the start.
    def speed(rate):
        page.evaluate("rate => { document.getElementById('player-movie').playbackRate = rate; }", rate)

    seek(page, 0)
    speed(1 / 16)  # sixteen seconds
    page.click("text=Play")
    until(page, "document.getElementById('player-movie').currentTime > 0.01")
    assert page.locator("#player-play").inner_text() == "Pause"
    speed(16)
    # The browser may pause a moment before it says that the movie has ended.
    until(page, "document.getElementById('player-movie').ended && document.getElementById('player-play').textContent === 'Play'")
    speed(1 / 16)
    page.click("text=Play")
    until(page, "(t => t > 0 && t < 0.5)(document.getElementById('player-movie').currentTime)")
    page.click("text=Pause")
    assert page.evaluate("document.getElementById('player-movie').paused")
    # Somebody else pauses it, such as a key of the keyboard.
    page.click("text=Play")
    page.evaluate("document.getElementById('player-movie').pause()")
    until(page, "document.getElementById('player-play').textContent === 'Play'")


def test_a_sheet_that_cannot_be_loaded_is_left_out(player, view):
    page = player("complete", lambda page: page.route("**/000000-depths.jpg", lambda route: route.fulfill(status=404)))
    view.said.clear()  # the browser notes the status
    assert page.locator("#player-movie").is_visible() and page.locator("#player-depth-choice").is_hidden()


def test_depth_is_of_the_time_that_is_shown(player, captures):
    """The map in the canvas is that cell of the sheet whose time is nearest."""
    page = player("complete")
    preview = captures.server.get(f"/captures/{captures.ids['complete']}/preview/preview.json").json()["episodes"][0]
    times = preview["depth"]["seconds"]
    for index in 3, len(times) // 2, len(times) - 1:
        seek(page, times[index] + 0.001)
        difference = page.evaluate("""async ([file, index, about]) => {
          const image = new Image();
          image.src = document.getElementById('player').dataset.folder + file;
          await image.decode();
          const other = document.createElement('canvas'), canvas = document.getElementById('player-canvas');
          [other.width, other.height] = [canvas.width, canvas.height];
          const pen = other.getContext('2d');
          pen.globalAlpha = 0.25;
          pen.drawImage(image, index % about.columns * about.width, Math.floor(index / about.columns) * about.height, about.width, about.height,
            0, 0, other.width, other.height);
          const [a, b] = [other, canvas].map(PIXELS);
          return a.reduce((sum, value, i) => sum + Math.abs(value - b[i]), 0);
        }""".replace("PIXELS", PIXELS), [preview["depth"]["file"], index, preview["depth"]])
        assert difference == 0, index


def test_a_movie_that_cannot_be_played_is_shown_as_images(player, view):
    page = player("complete", lambda page: page.route("**/files/video.mp4", lambda route: route.fulfill(body=b"no movie", content_type="video/mp4")))
    view.said.clear()  # the browser notes what it could not play
    assert page.locator("#player-movie").is_hidden() and page.locator("#player-unplayable").is_visible()
    paint_depth(page, 0)
    share, first = page.evaluate(DRAWN)
    seek(page, 0.9)
    assert share == 1 and page.evaluate(DRAWN)[1] != first


def test_a_session_is_played_from_its_images_with_the_place_on_its_path(player):
    page = player("session")
    assert page.locator("#player-movie").is_hidden() and page.locator("#player-unplayable").is_hidden()
    assert page.locator("#player-depth-choice").is_hidden() and page.locator(".path svg").is_visible()
    words = page.locator(".path text").all_text_contents()
    assert {"start", "end", "x right, z down"} <= {*words} and [word for word in words if re.fullmatch(r"[0-9.]+ m", word)], words
    assert page.locator(".path .axis").get_attribute("d")
    place = "(d => [Number(d.getAttribute('cx')), Number(d.getAttribute('cy'))])(document.querySelector('.path .now'))"
    start, first = page.evaluate(place), page.evaluate(DRAWN)
    # The end of the path is far from its start, and where the drawing says.
    page.click("text=Play")
    until(page, "document.getElementById('player-play').textContent === 'Play'")
    end, last = page.evaluate(place), page.evaluate(DRAWN)
    assert first[0] == last[0] == 1 and first[1] != last[1]
    marks = page.evaluate("['.start', '.end'].map(c => (b => [b.x + b.width / 2, b.y + b.height / 2])(document.querySelector('.path ' + c).getBBox()))")
    assert start == pytest.approx(marks[0], abs=0.5) and end == pytest.approx(marks[1], abs=0.5)


def test_captures_without_a_preview_keep_their_images(captures, view):
    """As those that an earlier version has converted."""
    server = captures.server
    capture = insert(server, name="old")
    folder = server.data / "conversions" / capture
    folder.mkdir()
    jpeg = (server.data / "conversions" / captures.ids["complete"] / "thumbnail.jpg").read_bytes()
    (folder / "thumbnail.jpg").write_bytes(jpeg)
    page = view.open(f"{captures.url}/verify/{capture}")
    assert page.locator("#player").count() == 0 and page.locator(".stills img").count() == 1
    for contents in b"", b"{", b"[]", json.dumps({"episodes": []}).encode(), b"\xff" * 100:
        (folder / "preview").mkdir(exist_ok=True)
        (folder / "preview/preview.json").write_bytes(contents)
        answer = server.get(f"/verify/{capture}")
        assert answer.status_code == 200 and "id=\"player\"" not in answer.text


def test_only_files_of_a_preview_are_served(captures):
    server, capture = captures.server, captures.ids["complete"]
    types = {"preview.json": "application/json", "000000-images.jpg": "image/jpeg", "000000-depths.jpg": "image/jpeg"}
    for name, kind in types.items():
        answer = server.get(f"/captures/{capture}/preview/{name}")
        assert answer.status_code == 200 and answer.headers["Content-Type"] == kind and answer.headers["X-Content-Type-Options"] == "nosniff"
    for name in "..%2fdataset%2fmanifest.json", "manifest.json", "000000-images.jpg%00", "000001-images.jpg", ".", "%2e%2e", "000000-images.JPG":
        assert server.get(f"/captures/{capture}/preview/{name}").status_code == 404, name
