"""Every kind of capture, from its request to its rows, or to a sentence on what is wrong with it."""

import asyncio
import json

import h5py
import requests
from conftest import TAKESET
from live import frame, socket
from phone import PATH, Phone
from resumable import tarred, zipped

from queued import bundle, evidence, files_below, finished, merged, queue, simulate


def session(folder, seed=1):
    return {name: path.read_bytes() for name, path in files_below(
        simulate("stack-session", folder, "--seconds", "0.3", "--variant", "v2", "--seed", seed)).items() if name != "truth.json"}


def send_all(server, tmp_path):
    """A capture of each kind, one after the other."""
    phone = Phone(server, level="unverified")
    parts = bundle(tmp_path / "b")
    names = {"video": "video.mp4", "depth_data": "depth.gz", "hash_chain": "hash_chain.json", "metadata": "metadata.json"}
    headers = {name: value for name, value in phone.headers(scheme="s0").items() if name != "Content-Type"}
    yield requests.post(server.url + PATH, files={part: (name, parts[name].read_bytes()) for part, name in names.items()}, headers=headers, timeout=300)

    sessions = f"{server.url}/api/v1/sessions"
    yield requests.put(f"{sessions}/walk.zip", data=zipped(session(tmp_path / "zip").items()), timeout=300)
    yield requests.put(f"{sessions}/walk.tar", data=tarred(session(tmp_path / "tar", 2).items()), timeout=300)
    for name, content in session(tmp_path / "folder", 3).items():
        yield requests.put(f"{sessions}/walk/files/{name}", data=content, timeout=300)
    yield server.post("/api/v1/sessions/walk/complete")

    folder = simulate("slow-motion-video", tmp_path / "m", "--seconds", "0.3", "--size", "320x240")
    yield server.post("/upload", files={"video": ("video_1771446000.mov", next(folder.glob("*.mov")).read_bytes())})

    async def stream():
        async with socket(server, "/camera?record=1") as camera:
            for number in range(12):
                await camera.send(frame(1_761_000_000 + number / 15, number))

    asyncio.run(stream())


# Type, reader and rows of each of them.
KINDS = [("video", "realitycam-bundle", 30), *[("session", "stack-session", 18)] * 3, ("movie", "slow-motion-video", 36), ("stream", "stack-session", 12)]


def test_every_kind_becomes_rows_of_the_dataset(start, tmp_path):
    server = start("--takeset", TAKESET, conversions=2)
    for answer in send_all(server, tmp_path):
        assert answer.status_code in (200, 201, 202), answer.text
    listed = server.until(lambda: len(found := server.get("/api/v1/captures").json()["data"]) == len(KINDS) and found)
    counts = {}
    for (type, reader, count), capture in zip(KINDS, reversed(listed), strict=True):
        assert capture["type"] == type
        found = finished(server, capture["capture_id"])
        assert (found["status"], found["reason"], found["rows"]) == ("complete", None, count), found
        shown = server.get(f"/api/v1/captures/{capture['capture_id']}").json()["data"]
        (take,) = shown["evidence"]["takes"]
        assert (take["reader"], take["outcome"], take["rows"]) == (reader, "written", count)
        assert "complete" in server.get(f"/verify/{capture['capture_id']}").text
        if type == "video":
            assert shown["evidence"]["chain"]["state"] == "sound" and shown["evidence"]["partial"]["recorded_frames"] == 30
            assert shown["evidence"]["depth"]["samples"] == 10 and shown["evidence"]["assertion"]["state"] != "verified"
        counts[take["id"]] = count
    # What a phone without a key sent is kept apart.
    first, *others = counts
    for dataset in merged(server, first, project="default.unverified"), merged(server, *others):
        with h5py.File(dataset / "dataset.h5") as file:
            for demo in file["data"].values():
                count = counts[demo.attrs["take_id"]]
                assert demo.attrs["num_samples"] == count == len(demo["obs/camera_image"]) and demo["obs/camera_image"][0].std() > 1


CHANGES = [
    (lambda files: {**files, "poses.json": b'[{"rgbIndex": 0, "timestamp": "soon"}]'}, ["poses.json", "timestamp"]),
    (lambda files: {**files, "metadata.json": json.dumps({**json.loads(files["metadata.json"]), "startTime": 5}).encode()},
     ["metadata.json", "startTime", "the number 5"]),
    (lambda files: {name: content for name, content in files.items() if name != "poses.json"}, ["poses.json"]),
    (lambda files: {**files, "rgb/000003.jpg": b"\xff\xd8\xff" + bytes(40)}, ["rgb/000003.jpg"]),
]


def test_what_is_wrong_is_named_with_file_and_field(start, tmp_path):
    server = start("--takeset", TAKESET, conversions=2)
    folder = simulate("slow-motion-video", tmp_path / "m", "--seconds", "0.3", "--size", "320x240")
    data = next(folder.glob("*.mov")).read_bytes()
    cut = queue(server.data, "movie", {"video_1771446000.mov": data[: len(data) // 2]})
    files = session(tmp_path / "s")
    captures = [queue(server.data, "session", {"session.zip": zipped(change(files).items())}) for change, _ in CHANGES]
    for (_, words), found in zip(CHANGES, finished(server, *captures), strict=True):
        if found["status"] == "complete":
            # One image that cannot be read costs no more than itself, and a finding says so.
            reason = json.dumps([finding for finding in evidence(found)["findings"] if finding["severity"] == "warning"])
        else:
            assert found["status"] == "rejected"
            reason = found["reason"]
        assert all(word in reason for word in words), reason
        assert str(server.data) not in reason and "/tmp" not in reason
    found = finished(server, cut)
    assert found["status"] in ("rejected", "quarantined") and found["reason"]
    assert (server.data / "captures" / cut / "video_1771446000.mov").stat().st_size == len(data) // 2
