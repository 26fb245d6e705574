"""The live view in headless Chromium: images, their age and rate, the phone's controls, recorded movies, and what comes back after a break."""

import base64
import io
import json
import re
import struct
import threading
import time

import pytest
from conftest import TAKESET
from live import SECONDS_TO_2001
from numpy.random import default_rng
from pages import browser, follow, view
from PIL import Image
from test_keys import add
from test_slowmotion import upload
from test_slowmotion_streams import captures
from test_conversion import movie
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

SIZE = (320, 240)


def picture(color):
    """A JPEG of one color with some grain, which makes it as large as a frame must be."""
    grain = default_rng(0).integers(-20, 20, (SIZE[1], SIZE[0], 3))
    data = io.BytesIO()
    Image.fromarray((grain + color).clip(0, 255).astype("uint8")).save(data, "JPEG", quality=80)
    return data.getvalue()


RED, BLUE = picture((200, 40, 40)), picture((40, 40, 200))


class Camera(threading.Thread):
    """Sends frames at a rate, each with a time that lies `age` seconds back; or without any, if that is None."""

    def __init__(self, server, rate=15, age=0.3, since=0, path="/camera"):
        super().__init__(daemon=True)
        self.address = f"ws://127.0.0.1:{server.port}{path}"
        self.rate, self.age, self.since, self.image = rate, age, since, RED
        self.says, self.sent, self.heard, self.stopped = None, [], [], threading.Event()
        self.start()

    def run(self):
        with connect(self.address, open_timeout=300, close_timeout=300, ping_interval=None) as socket:
            socket.send(json.dumps({"type": "status", "status": "waiting", "timestamp": time.time()}))
            due = time.monotonic()
            try:
                while not self.stopped.is_set():
                    moment = struct.pack("<d", time.time() - self.age - self.since) if self.age is not None else b""
                    socket.send(moment + self.image)
                    self.sent.append(time.monotonic())
                    if (status := self.says) is not None:
                        self.says = None
                        socket.send(json.dumps({"type": "status", "status": status}))
                    due = max(due + 1 / self.rate, time.monotonic() - 0.1)
                    while (rest := due - time.monotonic()) > 0:
                        try:
                            self.heard.append(json.loads(socket.recv(timeout=rest)))
                        except TimeoutError:
                            break
            except ConnectionClosed:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.join(300)


def figure(page, name):
    return page.locator(f"dt:text-is('{name}') + dd").inner_text()


def shows(page, name, text):
    page.locator(f"dt:text-is('{name}') + dd").filter(has_text=text).wait_for()


def color(page):
    """The mean color of the image that is shown."""
    return page.evaluate("""() => {
      const image = document.getElementById('frame'), canvas = document.createElement('canvas');
      if (image.hidden) return null;
      [canvas.width, canvas.height] = [1, 1];
      const context = canvas.getContext('2d');
      context.drawImage(image, 0, 0, 1, 1);
      return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
    }""")


def becomes(page, check):
    end = time.monotonic() + 300
    while not check():
        assert time.monotonic() < end, page.locator("main").inner_text()
        page.wait_for_timeout(100)


def number(page, name, unit=""):
    found = re.fullmatch(rf"([0-9.]+){unit}", figure(page, name))
    return float(found[1]) if found else 0


def rate_is_true(page, camera):
    """Whether the page shows the rate at which the camera sends, over three seconds."""
    recent = [moment for moment in list(camera.sent) if moment > time.monotonic() - 3]
    if len(recent) < 2:
        return False
    true = (len(recent) - 1) / (recent[-1] - recent[0])
    return abs(number(page, "Frames per second") - true) < 0.2 * true


def is_red(page):
    found = color(page)
    return found is not None and found[0] > 120 > found[2]


@pytest.mark.parametrize("path", ["/viewer.html", "/viewer-webrtc.html"])
def test_the_apps_addresses_of_viewers_lead_to_the_live_view(server, path):
    answer = server.get(f"{path}?x=a%26b", allow_redirects=False)
    assert (answer.status_code, answer.headers["Location"]) == (302, "/live?x=a%26b")
    assert "Live view" in server.get(path).text


@pytest.mark.parametrize("since", [0, SECONDS_TO_2001])
def test_the_image_its_age_and_its_rate_are_those_of_the_camera(server, view, since):
    page = view.open(f"{server.url}/live")
    page.locator("#phone", has_text=f"ws://127.0.0.1:{server.port}/camera").wait_for()
    assert page.locator("#nothing").inner_text() == "Waiting for a phone."
    boxes = [page.locator(name).bounding_box() for name in (".stage", ".figures", "#start")]
    with Camera(server, rate=12, age=0.4, since=since) as camera:
        becomes(page, lambda: is_red(page))
        assert boxes == [page.locator(name).bounding_box() for name in (".stage", ".figures", "#start")], "something has jumped"
        shows(page, "Cameras", "waiting")
        assert figure(page, "Size") == "320 x 240"
        assert page.locator("#nothing").is_hidden() and page.locator("#connection").inner_text() == "Connected to the server."
        becomes(page, lambda: rate_is_true(page, camera))
        # The age is the camera's delay and the way through server and browser.
        becomes(page, lambda: 400 <= number(page, "Age of the image", " ms") < 900)
        camera.image, camera.age, camera.rate = BLUE, 2.0, 4
        becomes(page, lambda: color(page)[2] > 120 > color(page)[0])
        becomes(page, lambda: rate_is_true(page, camera))
        becomes(page, lambda: 2000 <= number(page, "Age of the image", " ms") < 2500)


def test_an_age_that_cannot_be_known_is_not_shown(server, view):
    page = view.open(f"{server.url}/live")
    with Camera(server, age=None) as camera:
        shows(page, "Age of the image", "unknown: the camera sends no times")
        camera.age = -7.0
        shows(page, "Age of the image", "ahead of the server's")
        assert figure(page, "Age of the image").startswith(("unknown: the camera's clock is 6.9 s", "unknown: the camera's clock is 7.0 s"))
        camera.age = 9000.0
        shows(page, "Age of the image", "s behind the server's")
        with Camera(server):
            shows(page, "Cameras", "2, whose images are mixed: waiting, waiting")


def test_the_buttons_start_and_stop_the_phones_recording(server, view):
    page = view.open(f"{server.url}/live")
    page.click("#start")
    page.locator("#said:text-is('No camera is connected')").wait_for()
    with Camera(server) as camera:
        becomes(page, lambda: is_red(page))
        for command in ("start", "stop"):
            page.click(f"#{command}")
            page.locator(f"#said:text-is('Sent {command} to 1 camera')").wait_for()
            becomes(page, lambda: {"command": command} in camera.heard)
    assert camera.heard == [{"command": "start"}, {"command": "stop"}]


def test_a_recorded_movie_is_listed_played_and_sought(server, view, tmp_path):
    page = view.open(f"{server.url}/live")
    page.locator("#none").wait_for()
    name = upload(server, movie(tmp_path / "film", "--seconds", 4).read_bytes()).json()["filename"]
    with Camera(server):
        # A camera that waits has sent its movie: the list is read again.
        page.locator("#movies li").wait_for()
    assert page.locator("#movies a").inner_text() == name and page.locator("#none").is_hidden()
    statuses = []
    page.on("response", lambda answer: statuses.append(answer.status) if "/uploads/" in answer.url else None)
    page.click(f"button[aria-label='Play {name}']")
    becomes(page, lambda: page.evaluate("document.getElementById('video').currentTime > 0"))
    assert page.locator("#title").inner_text() == name and page.locator("#unplayable").is_hidden()
    page.evaluate("""() => new Promise((done, fail) => {
      const video = document.getElementById('video');
      [video.onseeked, video.onerror] = [done, fail];
      video.pause();
      video.currentTime = video.duration * 0.75;
    })""")
    assert abs(page.evaluate("video.currentTime / video.duration") - 0.75) < 0.01
    assert page.evaluate("video.videoWidth") > 0 and statuses and set(statuses) == {206}
    # The list is read again and again, and the keyboard stays where it is.
    page.focus("#movies button")
    page.evaluate("list()")
    assert page.evaluate("document.activeElement.textContent") == "Play"
    with page.expect_download() as download:
        page.evaluate("document.querySelector('#movies a').download = ''")
        page.click("#movies a")
    assert download.value.suggested_filename == name


def test_a_movie_that_cannot_be_played_says_so(server, view):
    upload(server)
    page = view.open(f"{server.url}/live")
    page.click("#movies button")
    page.locator("#unplayable").wait_for()


def test_the_page_recovers_when_the_camera_comes_back(server, view):
    page = view.open(f"{server.url}/live")
    for _ in range(2):
        with Camera(server):
            becomes(page, lambda: is_red(page))
        shows(page, "Cameras", "none")
        page.locator("#nothing").wait_for()
        assert color(page) is None
        assert [figure(page, name) for name in ("Age of the image", "Frames per second", "Size")] == ["-"] * 3


def test_the_page_recovers_when_the_server_comes_back(server, view):
    page = view.open(f"{server.url}/live")
    page.locator("#connection:text-is('Connected to the server.')").wait_for()
    page.click("#keep")
    with Camera(server):
        becomes(page, lambda: is_red(page))
        shows(page, "Streams being kept", "1")
        server.kill()
        page.locator("#connection:text-is('Not connected. Trying again.')").wait_for()
        page.locator("#nothing").wait_for()
        page.click("#start")
        page.locator("#said:text-is('The server cannot be reached.')").wait_for()
    server.start()
    page.locator("#connection:text-is('Connected to the server.')").wait_for()
    with Camera(server):
        becomes(page, lambda: is_red(page))
        # It still wants the stream to be kept.
        shows(page, "Streams being kept", "1")
        assert page.get_attribute("#keep", "aria-pressed") == "true"
    server.until(lambda: len(captures(server)) == 2)
    # The browser notes what could not be reached.
    view.said.clear()


def test_the_live_stream_is_kept_and_let_go(server, view):
    page = view.open(f"{server.url}/live")
    with Camera(server):
        becomes(page, lambda: is_red(page))
        shows(page, "Streams being kept", "0")
        page.click("#keep")
        shows(page, "Streams being kept", "1")
        page.click("#keep")
        shows(page, "Streams being kept", "0")
        assert page.get_attribute("#keep", "aria-pressed") == "false"
        server.until(lambda: len(captures(server)) == 1)


def test_a_stream_that_cannot_be_kept_is_not_said_to_be(start, view):
    server = start("--reserve", 1 << 60)
    page = view.open(f"{server.url}/live")
    with Camera(server):
        becomes(page, lambda: is_red(page))
        page.click("#keep")
        page.locator("#said", has_text="The live stream is not kept. The server is short of disk space.").wait_for()
        shows(page, "Streams being kept", "0")


def test_a_key_for_reading_has_no_commands(start, view):
    server = start("--require-key")
    page = view.open(f"{server.url}/live?key={add(server.data, '--power', 'read')}")
    page.locator("#connection:text-is('Connected to the server.')").wait_for()
    assert page.locator("#start, #stop, #keep").count() == 0
    page.locator("#phone", has_text=f"ws://127.0.0.1:{server.port}/camera?key=KEY").wait_for()


def test_a_command_without_effect_is_said_to_be_one(server, view):
    page = view.open(f"{server.url}/live")
    with Camera(server) as camera:
        shows(page, "Cameras", "waiting")
        page.click("#start")
        page.locator("#said:text-is('Sent start to 1 camera')").wait_for()
        page.locator("#said", has_text="No phone has said that it did so.").wait_for()
        page.click("#stop")
        page.locator("#said:text-is('Sent stop to 1 camera')").wait_for()
        camera.says = "recording"
        page.locator("#said:text-is('The phone says: recording.')").wait_for()


def test_without_javascript_the_page_says_what_it_needs(server, view):
    page = view.open(f"{server.url}/live", java_script_enabled=False)
    assert page.locator("main").inner_text().split("\n\n") == ["Live view", "The live view needs JavaScript. Movies of phones are among the captures."]
    assert not page.locator("button").first.is_visible()
    follow(page, "noscript a")
    assert page.url == f"{server.url}/?type=movie"


def test_a_key_in_the_address_shows_only_its_project(start, view):
    server = start("--require-key", "--takeset", TAKESET)
    kitchen, garage = (add(server.data, "--name", name, "--project", name) for name in ("kitchen", "garage"))
    basic = {"Authorization": "Basic " + base64.b64encode(f":{kitchen}".encode()).decode()}
    assert server.get("/live", headers=basic).status_code == 200
    page = view.open(f"{server.url}/live?key={kitchen}")
    with Camera(server, path=f"/camera?key={garage}") as other:
        server.until(lambda: len(other.sent) > 5)
        page.click("#start")
        page.locator("#said:text-is('No camera is connected')").wait_for()
        server.until(lambda: len(other.sent) > 30)
        assert figure(page, "Cameras") == "none" and figure(page, "Frames per second") == "-" and color(page) is None
        with Camera(server, path=f"/camera?key={kitchen}") as camera:
            becomes(page, lambda: is_red(page))
            page.click("#start")
            becomes(page, lambda: {"command": "start"} in camera.heard)
        assert other.heard == []
