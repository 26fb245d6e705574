"""`takeset simulate camera` against the real server: what it streams, records and uploads, also through a network that cuts."""

import asyncio
import contextlib
import hashlib
import io
import json
import socket as socket_module
import subprocess
import threading
import time

import numpy as np
import pytest
from conftest import TAKESET
from images import frame_code
from live import SECONDS_TO_2001, live, socket
from PIL import Image
from proxies import Proxy
from websockets.sync.client import connect

SIZE = (160, 120)


class Camera:
    """A running camera, and the lines that it has printed."""

    def __init__(self, port, folder, *options):
        command = [TAKESET, "simulate", "camera", "--to", f"ws://127.0.0.1:{port}/camera", "--output", folder, "--size", f"{SIZE[0]}x{SIZE[1]}", *options]
        self.process = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines = []
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(json.loads(line))

    def said(self, event):
        return [line for line in self.lines if line["event"] == event]

    def wait_for(self, event, count=1, seconds=300):
        end = time.monotonic() + seconds
        while len(self.said(event)) < count:
            assert time.monotonic() < end, (event, count, self.lines[-5:])
            time.sleep(0.02)

    def end(self):
        code = self.process.wait(timeout=300)
        self.reader.join()
        return code


@contextlib.contextmanager
def camera(port, folder, *options):
    one = Camera(port, folder, *options)
    try:
        yield one
    finally:
        one.process.kill()
        one.process.wait()


def frame_numbers(path):
    command = ["ffmpeg", "-v", "error", "-i", path, "-fps_mode", "passthrough", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    raw = np.frombuffer(subprocess.run(command, capture_output=True, check=True).stdout, np.uint8)
    return [frame_code(image) for image in raw.reshape(-1, SIZE[1], SIZE[0], 3)]


def stored(server, folder):
    """The movies that the server has, by digest, as files."""
    found = {}
    for entry in server.get("/videos").json()["videos"]:
        data = server.get(f"/uploads/{entry['filename']}").content
        path = folder / entry["filename"]
        path.write_bytes(data)
        found[hashlib.sha256(data).hexdigest()] = path
    return found


def check_movies(server, one, folder, expected):
    uploads = one.said("uploaded")
    movies = stored(server, folder)
    assert len(uploads) == expected and {line["sha256"] for line in uploads} == set(movies)
    for line in uploads:
        path = movies[line["sha256"]]
        assert path.stat().st_size == line["bytes"]
        numbers = frame_numbers(path)
        # All frames from the start to the stop, whatever became of the connection.
        assert numbers == list(range(numbers[0], numbers[0] + line["frames"]))


@live
async def test_every_fourth_frame_is_streamed_and_all_are_recorded(server, tmp_path):
    async with socket(server, "/viewer") as viewer:
        with camera(server.port, tmp_path / "movies", "--rate", 40, "--stream-rate", 10, "--takes", 2) as one:
            seen, statuses, began = [], [], time.time()

            async def comes(condition):
                while not condition():
                    await asyncio.sleep(0.02)

            async def watch():
                while True:
                    message = await viewer.recv()
                    if isinstance(message, str):
                        statuses.append(json.loads(message)["status"])
                        continue
                    image = np.asarray(Image.open(io.BytesIO(message[8:])))
                    stamp = np.frombuffer(message[:8], "<f8")[0] + SECONDS_TO_2001
                    assert began - 1 <= stamp <= time.time() + 1 and image.shape == (SIZE[1], SIZE[0], 3)
                    seen.append(frame_code(image))

            watching = asyncio.create_task(watch())
            for take in range(2):
                await asyncio.to_thread(one.wait_for, "connected")
                before = len(seen)
                await comes(lambda: len(seen) >= before + 2)
                await asyncio.to_thread(server.post, "/control/start")
                await asyncio.to_thread(server.post, "/control/start")
                await asyncio.to_thread(one.wait_for, "recording", take + 1)
                before = len(seen)
                await comes(lambda: len(seen) >= before + 10)
                await asyncio.to_thread(server.post, "/control/stop")
                await asyncio.to_thread(one.wait_for, "uploaded", take + 1)
            assert await asyncio.to_thread(one.end) == 0
            await comes(lambda: "disconnected" in statuses)
            watching.cancel()
    # The first is the fourth of those since the camera's start. A line that is full drops some, and shifts none.
    steps = np.diff(seen)
    assert len(seen) > 20 and all(number % 4 == 3 for number in seen) and steps.min() >= 4 and not (steps % 4).any()
    expected = ["waiting", *["recording", "uploading", "waiting"] * 2]
    assert [status for status in statuses if status != "disconnected"] in (expected, expected[:-1])
    check_movies(server, one, tmp_path, 2)
    assert not list((tmp_path / "movies").iterdir())
    assert all(line["frames"] >= 20 for line in one.said("uploaded"))


class Switch(Proxy):
    """Passes connections on, and resets all of them after so many bytes more of the client, when it is told."""

    def __init__(self, port):
        self.open, self.lock, self.left = [], threading.Lock(), None
        super().__init__(port)

    def pass_on(self, near, far, number):
        with self.lock:
            self.open.append((near, far))
        while data := near.recv(65536):
            with self.lock:
                due = self.left is not None and self.left <= len(data)
                if due:
                    data, self.left = data[: self.left], None
                elif self.left is not None:
                    self.left -= len(data)
            far.sendall(data)
            if due:
                return self.cut()
        far.shutdown(socket_module.SHUT_WR)

    def cut_after(self, count):
        with self.lock:
            self.left = count

    def cut(self):
        with self.lock:
            for pair in self.open:
                with contextlib.suppress(OSError):
                    self.reset(*pair)
            self.open.clear()


def cut_often(server, tmp_path, takes, cuts):
    """Records takes while the network is cut after so many bytes, also in uploads."""
    line = Switch(server.port)
    port = int(line.url.rsplit(":", 1)[1])
    count = 0
    with camera(port, tmp_path / "movies", "--rate", 60, "--stream-rate", 30, "--takes", takes) as one:
        for take in range(takes):
            one.wait_for("connected", 1 + count)
            recorded = len(one.said("recorded"))
            while len(one.said("recording")) == take:
                server.post("/control/start")
                time.sleep(0.05)
            for _ in range(cuts):
                line.cut_after(2000 + 7919 * count % 60_000)
                count += 1
                one.wait_for("disconnected", count)
                one.wait_for("connected", count + 1)
            while len(one.said("recorded")) == recorded:
                server.post("/control/stop")
                time.sleep(0.02)
        assert one.end() == 0, one.process.stderr.read()
    check_movies(server, one, tmp_path, takes)
    line.close()


def recorded(server, folder, segments):
    """Waits until the movie was written to so often. The number of the newest frame that a viewer had got by then."""
    last, sizes = 0, {0}
    with connect(f"ws://127.0.0.1:{server.port}/viewer", max_size=None, open_timeout=300, ping_interval=None) as viewer:
        while len(sizes) <= segments:
            if isinstance(message := viewer.recv(timeout=300), bytes):
                last = frame_code(np.asarray(Image.open(io.BytesIO(message[8:]))))
            sizes |= {path.stat().st_size for path in folder.glob("*.mp4")}
    return last


def test_a_network_that_cuts_costs_no_movie(server, tmp_path):
    cut_often(server, tmp_path, takes=2, cuts=2)


@pytest.mark.slow
def test_a_hundred_cuts_cost_no_movie(server, tmp_path):
    cut_often(server, tmp_path, takes=20, cuts=5)


def test_a_movie_that_a_killed_camera_left_is_uploaded_by_the_next(server, tmp_path):
    with camera(server.port, tmp_path / "movies", "--rate", 60) as one:
        one.wait_for("connected")
        server.post("/control/start")
        one.wait_for("recording")
        last = recorded(server, tmp_path / "movies", 2)
    left = list((tmp_path / "movies").iterdir())
    assert len(left) == 1
    numbers = frame_numbers(left[0])
    # At most a second of it is lost.
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) and numbers[-1] >= last - 60
    with camera(server.port, tmp_path / "movies", "--rate", 60) as two:
        assert two.end() == 0
    assert [line["file"] for line in two.said("uploaded")] == [left[0].name] and not list((tmp_path / "movies").iterdir())
    assert frame_numbers(next(iter(stored(server, tmp_path).values()))) == numbers


def record(server, one, check, pause):
    """Starts and stops until a movie is recorded whose frames are as many as they should be."""
    while not any(check(line["frames"]) for line in one.said("recorded")):
        count = len(one.said("recorded"))
        server.post("/control/start")
        time.sleep(pause)
        server.post("/control/stop")
        one.wait_for("recorded", count + 1)


def test_a_movie_without_a_frame_is_none_and_the_next_is_uploaded(server, tmp_path):
    with camera(server.port, tmp_path / "movies", "--rate", 1, "--takes", 1000) as one:
        one.wait_for("connected")
        record(server, one, lambda frames: frames == 0, 0)
        record(server, one, lambda frames: frames > 0, 1.1)
        expected = sum(line["frames"] > 0 for line in one.said("recorded"))
        one.wait_for("uploaded", expected)
    check_movies(server, one, tmp_path, expected)


def test_an_empty_movie_that_was_left_holds_up_nothing(server, tmp_path):
    (tmp_path / "movies").mkdir()
    (tmp_path / "movies/video_1.mp4").touch()
    with camera(server.port, tmp_path / "movies", "--rate", 1000, "--takes", 1000) as one:
        one.wait_for("connected")
        record(server, one, lambda frames: frames > 0, 0.2)
        expected = sum(line["frames"] > 0 for line in one.said("recorded"))
        one.wait_for("uploaded", expected)
    check_movies(server, one, tmp_path, expected)


@pytest.mark.slow
def test_a_hundred_killed_cameras_lose_a_second_at_most(server, tmp_path):
    (tmp_path / "left").mkdir()
    numbers = {}
    for number in range(100):
        # A seed of its own, since the server takes equal movies for one.
        with camera(server.port, tmp_path / f"{number}", "--rate", 60, "--seed", number) as one:
            one.wait_for("connected")
            while not one.said("recording"):
                server.post("/control/start")
                time.sleep(0.02)
            last = recorded(server, tmp_path / f"{number}", number % 4 + 1)
        (movie,) = (tmp_path / f"{number}").glob("*.mp4")
        moved = movie.rename(tmp_path / f"left/video_{number + 1}.mp4")
        found = numbers[moved.name] = frame_numbers(moved)
        assert found == list(range(found[0], found[0] + len(found))) and found[-1] >= last - 60, (number, last, found[-1])
    with camera(server.port, tmp_path / "left", "--takes", 100) as one:
        assert one.end() == 0
    assert len(stored(server, tmp_path)) == 100 and not list((tmp_path / "left").iterdir())


def test_mistakes_in_the_command(tmp_path):
    def code(*options):
        return subprocess.run([TAKESET, "simulate", "camera", *map(str, options)], capture_output=True, timeout=300).returncode

    assert code("--to", "http://127.0.0.1:1/camera", "--output", tmp_path) == 64
    assert code("--to", "ws://127.0.0.1:1/camera", "--output", tmp_path, "--rate", 0) == 64
    (tmp_path / "file").write_text("")
    assert code("--to", "ws://127.0.0.1:1/camera", "--output", tmp_path / "file") == 1
