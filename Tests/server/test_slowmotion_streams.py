"""Live streams that are kept as captures."""

import asyncio
import hashlib
import json
import subprocess
import time
from contextlib import closing

import h5py
import numpy
from conftest import TAKESET
from devices import database
from live import SECONDS_TO_2001, counts, frame, jpeg, live, next_binary, next_text, socket

START = 1_761_000_000.0


def captures(server):
    with closing(database(server)) as found:
        rows = [dict(row) for row in found.execute("SELECT * FROM capture WHERE type = 'stream' ORDER BY receivedAt, rowid")]
        for row in rows:
            row["files"] = {name: (size, digest) for name, size, digest in found.execute("SELECT name, bytes, sha256 FROM file WHERE capture = ?", [row["id"]])}
    return rows


def session(server, row):
    return server.data / "captures" / row["id"] / "session"


def images(server, row):
    return [path.read_bytes() for path in sorted((session(server, row) / "rgb").iterdir())]


def converted(server, row, tmp_path):
    """Times in seconds and images of the stream's take."""
    pipeline = tmp_path / "pipeline.yaml"
    pipeline.write_text("version: 1\nreader: {name: stack-session, poses: optional}\ntransforms: [align]\nwriter: {hdf5: {image: jpeg-source}}\n")
    result = subprocess.run([TAKESET, "run", session(server, row), "-o", tmp_path / row["id"], "--pipeline", pipeline, "-q"], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    with h5py.File(next((tmp_path / row["id"] / "episodes").glob("*.h5"))) as file:
        times = file["meta/demo_0/timestamp_ns"][()]
        pictures = [bytes(numpy.asarray(data)) for data in file["data/demo_0/obs/camera_image"][()]]
    return (times - times[0]) / 1e9, pictures


async def stream(server, path, times):
    """Sends frames and waits until each has been relayed, so that each has been kept."""
    async with socket(server, "/viewer") as viewer, socket(server, path) as camera:
        await counts(server, 1, 1)
        for n, moment in enumerate(times):
            data = frame(moment, n)
            await camera.send(data)
            assert (await next_binary(viewer))[0] == data
    await counts(server, 0, 0)


def test_a_kept_stream_is_a_take_with_the_times_of_its_frames(server, tmp_path):
    times = [START + 0.1 + n / 15 + (0.011 if n % 3 else 0) for n in range(30)]
    asyncio.run(stream(server, "/camera?record=1", times))
    row = server.until(lambda: captures(server))[0]
    assert (row["type"], row["status"], row["project"], row["name"]) == ("stream", "processing", "default", "stream_1761000000")
    assert images(server, row) == [jpeg(n) for n in range(30)]
    for name, (size, digest) in row["files"].items():
        data = (server.data / "captures" / row["id"] / name).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (size, digest), name
    metadata = json.loads((session(server, row) / "metadata.json").read_text())
    assert metadata["rgbResolution"] == [64, 48] and metadata["rgbFrameCount"] == 30
    assert metadata["startTime"].startswith("2025-10-20T22:40:00")
    found, pictures = converted(server, row, tmp_path)
    assert numpy.abs(found - (numpy.array(times) - times[0])).max() < 2e-6
    assert pictures == [jpeg(n) for n in range(30)]
    assert not list((server.data / "recordings").iterdir())


def test_both_epochs_and_frames_without_times(server):
    asyncio.run(stream(server, "/camera?record=1", [START - SECONDS_TO_2001 + n / 15 for n in range(5)]))
    row = server.until(lambda: captures(server))[0]
    assert row["name"] == "stream_1761000000"

    async def bare():
        async with socket(server, "/camera?record=1") as camera:
            for n in range(5):
                await camera.send(jpeg(n))
                await asyncio.sleep(0.05)

    before = time.time()
    asyncio.run(bare())
    row = server.until(lambda: captures(server)[1:])[0]
    assert abs(int(row["name"].split("_")[1]) - before) < 10
    lines = [line.split("\t") for line in (session(server, row) / "frames.tsv").read_text().splitlines()]
    assert [int(line[0]) for line in lines] == list(range(5))
    moments = [int(line[1]) for line in lines]
    assert moments == sorted(set(moments)) and moments[-1] - moments[0] > 100_000


def test_without_record_nothing_is_kept(server):
    asyncio.run(stream(server, "/camera", [START, START + 1]))
    assert captures(server) == [] and not (server.data / "recordings").exists()


@live
async def test_a_viewer_starts_and_stops_keeping_all_cameras(server):
    async with socket(server, "/camera") as first, socket(server, "/camera") as second, socket(server, "/viewer") as viewer:
        await counts(server, 2, 1)

        async def send(camera, moment, number):
            await camera.send(frame(moment, number))
            assert (await next_binary(viewer))[0] == frame(moment, number)

        await send(first, START, 0)
        await viewer.send(json.dumps({"type": "record", "on": True}))
        # Texts and frames come by different sockets: it has begun when a frame has been kept.
        number = 1
        while (await counts(server, 2, 1))["recordings"] == 0:
            await send(first, START + number, number)
            number += 1
        await send(second, START + 1, 50)
        await send(second, START + 2, 51)
        await viewer.send(json.dumps({"type": "record", "on": False}))
        rows = await asyncio.to_thread(server.until, lambda: len(captures(server)) == 2 and captures(server))
        await send(first, START + 100, 60)
        await send(second, START + 100, 61)
        kept = sorted((images(server, row) for row in rows), key=len)
        assert [jpeg(50), jpeg(51)] in kept
        assert (await counts(server, 2, 1))["recordings"] == 0
    assert len(captures(server)) == 2


@live
async def test_a_viewer_that_leaves_keeps_no_longer(server):
    async with socket(server, "/camera") as camera:
        async with socket(server, "/viewer?record=1") as viewer:
            await counts(server, 1, 1)
            await camera.send(frame(START))
            await next_binary(viewer)
        await counts(server, 1, 0)
        await asyncio.to_thread(server.until, lambda: captures(server))


def test_another_size_and_a_long_stream_begin_another_take(server):
    async def send():
        async with socket(server, "/camera?record=1") as camera:
            for n, (moment, size) in enumerate([(0, (64, 48)), (1, (64, 48)), (2, (80, 60)), (3, (80, 60)), (700, (80, 60))]):
                await camera.send(frame(START + moment, n, size))

    asyncio.run(send())
    rows = server.until(lambda: len(captures(server)) == 3 and captures(server))
    assert sorted(len(images(server, row)) for row in rows) == [1, 2, 2]


def test_a_clock_that_goes_back_is_given_up(server):
    async def send():
        async with socket(server, "/camera?record=1") as camera:
            for n, moment in enumerate([5, 6, 4, 4, 4]):
                await camera.send(frame(START + moment, n))

    before = int(time.time() * 1e6)
    asyncio.run(send())
    rows = server.until(lambda: len(captures(server)) == 2 and captures(server))
    by_size = {len(images(server, row)): (session(server, row) / "frames.tsv").read_text() for row in rows}
    moments = [int(line.split("\t")[1]) for line in by_size[3].splitlines()]
    assert moments[0] >= before and moments == sorted(set(moments))


def test_frames_survive_a_killed_server(server, tmp_path):
    times = [START + n / 15 for n in range(20)]

    async def send():
        async with socket(server, "/camera?record=1") as camera:
            for n, moment in enumerate(times):
                await camera.send(frame(moment, n))
            await asyncio.to_thread(server.until, lambda: len(list((server.data / "recordings").glob("*/rgb/*.jpg"))) == 20)
            server.kill()

    asyncio.run(send())
    folder = next((server.data / "recordings").iterdir())
    # What a crash of the machine leaves of the last frame and line.
    (folder / "rgb" / "000019.jpg").write_bytes(b"\xff\xd8")
    with (folder / "frames.tsv").open("a") as lines:
        lines.write("20\t17610")
    server.restart()
    row = captures(server)[0]
    assert images(server, row) == [jpeg(n) for n in range(19)]
    assert len(converted(server, row, tmp_path)[0]) == 19
    assert not list((server.data / "recordings").iterdir())
    server.restart()
    assert len(captures(server)) == 1


@live
async def test_the_end_of_the_server_ends_recordings(server):
    async with socket(server, "/camera?record=1") as camera:
        for n in range(10):
            await camera.send(frame(START + n, n))
        await asyncio.to_thread(server.until, lambda: len(list((server.data / "recordings").glob("*/rgb/*.jpg"))) == 10)
        assert await asyncio.to_thread(server.stop) == 0
    assert images(server, captures(server)[0]) == [jpeg(n) for n in range(10)]


async def problems(viewer):
    """What a viewer is told about keeping until the camera says that it is done."""
    texts = []
    while not texts or texts[-1].get("status") != "done":
        texts.append(await next_text(viewer))
    return [text for text in texts if text["type"] == "keeping"]


@live
async def test_below_the_reserve_a_stream_is_shown_and_not_kept_and_whoever_wants_it_kept_is_told(start):
    server = start("--reserve", 1 << 60)
    await stream(server, "/camera?record=1", [START, START + 1])
    assert captures(server) == []
    async with socket(server, "/viewer?record=1") as viewer, socket(server, "/viewer") as other, socket(server, "/camera") as camera:
        await counts(server, 1, 2)
        for number in range(3):
            await camera.send(frame(START + number, number))
        await camera.send('{"type":"status","status":"done"}')
        assert await problems(viewer) == [{"type": "keeping", "on": True, "problem": "The server is short of disk space. Try again later."}]
        assert await problems(other) == []


@live
async def test_what_cannot_be_kept_is_said_once(server):
    async with socket(server, "/viewer?record=1") as viewer, socket(server, "/camera") as camera:
        await counts(server, 1, 1)
        for _ in range(3):
            await camera.send(bytes(5000))
        await camera.send('{"type":"status","status":"done"}')
        assert [text["problem"] for text in await problems(viewer)] == ["It is not made of JPEG images, which alone can be kept."]


@live
async def test_a_stream_ends_at_the_quota_and_nothing_is_left_over(start):
    server = start("--project-quota", 2_000_000)
    async with socket(server, "/camera?record=1") as camera:
        for number in range(30):
            await camera.send(frame(1_761_000_000 + number / 15, number, (640, 480)))
        await asyncio.to_thread(server.until, lambda: "a live stream cannot be kept: The quota of this project" in server.log.read_text())
    captures = await asyncio.to_thread(server.until, lambda: server.get("/api/v1/captures").json()["data"])
    assert len(captures) == 1 and 1_500_000 < captures[0]["bytes"] < 4_000_000
    server.until(lambda: not list((server.data / "recordings").iterdir()))
    # There is no room for another one.
    async with socket(server, "/camera?record=1") as camera:
        await camera.send(frame(1_761_000_100, 1, (640, 480)))
        await asyncio.to_thread(server.until, lambda: server.log.read_text().count("a live stream cannot be kept") == 2)
    assert len(server.get("/api/v1/captures").json()["data"]) == 1
