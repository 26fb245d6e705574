"""`takeset simulate camera` against the real server: what it streams, records and uploads, also through a network that cuts."""

import asyncio
import contextlib
import hashlib
import io
import json
import random
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

    def wait_for(self, event, count=1, seconds=30):
        end = time.monotonic() + seconds
        while len(self.said(event)) < count:
            assert time.monotonic() < end, (event, count, self.lines[-5:])
            time.sleep(0.02)

    def end(self):
        code = self.process.wait(timeout=60)
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
        with camera(server.port, tmp_path / "movies", "--rate", 120, "--stream-rate", 30, "--takes", 2) as one:
            seen, statuses = [], []

            async def watch():
                while True:
                    message = await viewer.recv()
                    if isinstance(message, str):
                        statuses.append(json.loads(message)["status"])
                        continue
                    image = np.asarray(Image.open(io.BytesIO(message[8:])))
                    stamp = np.frombuffer(message[:8], "<f8")[0] + SECONDS_TO_2001
                    assert abs(stamp - time.time()) < 5 and image.shape == (SIZE[1], SIZE[0], 3)
                    seen.append(frame_code(image))

            watching = asyncio.create_task(watch())
            for take in range(2):
                await asyncio.to_thread(one.wait_for, "connected")
                await asyncio.sleep(0.3)
                await asyncio.to_thread(server.post, "/control/start")
                await asyncio.to_thread(server.post, "/control/start")
                await asyncio.sleep(1)
                await asyncio.to_thread(server.post, "/control/stop")
                await asyncio.to_thread(one.wait_for, "uploaded", take + 1)
            assert await asyncio.to_thread(one.end) == 0
            watching.cancel()
    # The first is the fourth of those since the camera's start; none is missing.
    assert len(seen) > 60 and all(number % 4 == 3 for number in seen) and np.diff(seen).tolist() == [4] * (len(seen) - 1)
    assert [status for status in statuses if status != "disconnected"] == ["waiting", *["recording", "uploading", "waiting"] * 2]
    check_movies(server, one, tmp_path, 2)
    assert not list((tmp_path / "movies").iterdir())
    assert all(100 < line["frames"] < 240 for line in one.said("uploaded"))


class Switch(Proxy):
    """Passes connections on, and resets all of them when it is told; those after the first bytes of an upload too."""

    def __init__(self, port):
        self.open, self.lock = [], threading.Lock()
        super().__init__(port)

    def pass_on(self, near, far, number):
        with self.lock:
            self.open.append((near, far))
        self.copy(near, far)

    def cut(self):
        with self.lock:
            for pair in self.open:
                with contextlib.suppress(OSError):
                    self.reset(*pair)
            self.open.clear()


def cut_often(server, tmp_path, takes, cuts):
    """Records takes while the network is cut at random moments, also in uploads."""
    line, chance = Switch(server.port), random.Random(takes)
    port = int(line.url.rsplit(":", 1)[1])
    backs = []
    with camera(port, tmp_path / "movies", "--rate", 60, "--stream-rate", 30, "--takes", takes) as one:
        for take in range(takes):
            one.wait_for("connected", 1 + len(backs))
            recorded = len(one.said("recorded"))
            while len(one.said("recording")) == take:
                server.post("/control/start")
                time.sleep(0.05)
            for _ in range(cuts):
                time.sleep(chance.uniform(0.05, 0.3))
                before = time.monotonic()
                line.cut()
                one.wait_for("connected", 2 + len(backs))
                backs.append(time.monotonic() - before)
            while len(one.said("recorded")) == recorded:
                server.post("/control/stop")
                time.sleep(0.02)
        assert one.end() == 0, one.process.stderr.read()
    assert len(backs) == takes * cuts and max(backs) < 2.5
    check_movies(server, one, tmp_path, takes)
    line.close()


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
        time.sleep(1.3)
    left = list((tmp_path / "movies").iterdir())
    assert len(left) == 1
    numbers = frame_numbers(left[0])
    # At most a second of it is lost.
    assert 18 <= len(numbers) and numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    with camera(server.port, tmp_path / "movies", "--rate", 60) as two:
        assert two.end() == 0
    assert [line["file"] for line in two.said("uploaded")] == [left[0].name] and not list((tmp_path / "movies").iterdir())
    assert frame_numbers(next(iter(stored(server, tmp_path).values()))) == numbers


def test_a_movie_without_a_frame_is_none_and_the_next_is_uploaded(server, tmp_path):
    with camera(server.port, tmp_path / "movies", "--rate", 2) as one:
        one.wait_for("connected")
        # Both within half a second, with luck between two frames.
        while not any(line["frames"] == 0 for line in one.said("recorded")) and len(one.said("recorded")) < 20:
            count = len(one.said("recorded"))
            server.post("/control/start")
            server.post("/control/stop")
            one.wait_for("recorded", count + 1)
            if one.process.poll() is not None:
                break
        if one.process.poll() is None:
            server.post("/control/start")
            time.sleep(1.2)
            server.post("/control/stop")
        assert one.end() == 0
    check_movies(server, one, tmp_path, 1)


def test_an_empty_movie_that_was_left_holds_up_nothing(server, tmp_path):
    (tmp_path / "movies").mkdir()
    (tmp_path / "movies/video_1.mp4").touch()
    with camera(server.port, tmp_path / "movies", "--rate", 1000) as one:
        one.wait_for("connected")
        server.post("/control/start")
        time.sleep(0.5)
        server.post("/control/stop")
        assert one.end() == 0
    check_movies(server, one, tmp_path, 1)


@pytest.mark.slow
def test_a_hundred_killed_cameras_lose_a_second_at_most(server, tmp_path):
    (tmp_path / "left").mkdir()
    chance, numbers = random.Random(5), {}
    for number in range(100):
        # A seed of its own, since the server takes equal movies for one.
        with camera(server.port, tmp_path / f"{number}", "--rate", 60, "--seed", number) as one:
            one.wait_for("connected")
            while not one.said("recording"):
                server.post("/control/start")
                time.sleep(0.02)
            seconds = chance.uniform(0.6, 2)
            time.sleep(seconds)
        (movie,) = (tmp_path / f"{number}").glob("*.mp4")
        moved = movie.rename(tmp_path / f"left/video_{number + 1}.mp4")
        found = numbers[moved.name] = frame_numbers(moved)
        assert found == list(range(found[0], found[0] + len(found))) and len(found) > (seconds - 1) * 60, (number, seconds, len(found))
    with camera(server.port, tmp_path / "left", "--takes", 100) as one:
        assert one.end() == 0
    assert len(stored(server, tmp_path)) == 100 and not list((tmp_path / "left").iterdir())


def test_mistakes_in_the_command(tmp_path):
    def code(*options):
        return subprocess.run([TAKESET, "simulate", "camera", *map(str, options)], capture_output=True, timeout=20).returncode

    assert code("--to", "http://127.0.0.1:1/camera", "--output", tmp_path) == 64
    assert code("--to", "ws://127.0.0.1:1/camera", "--output", tmp_path, "--rate", 0) == 64
    (tmp_path / "file").write_text("")
    assert code("--to", "ws://127.0.0.1:1/camera", "--output", tmp_path / "file") == 1
