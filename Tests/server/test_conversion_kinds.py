"""Every kind of capture, from its request to its rows, or to a sentence on what is wrong with it."""

import asyncio
import json

import h5py
import pytest
import requests
from conftest import TAKESET
from live import frame, socket
from phone import PATH, Phone
from resumable import tarred, zipped

from queued import bundle, evidence, files_below, finished, merged, queue, simulate


def session(folder, seed=1):
    return {name: path.read_bytes() for name, path in files_below(
        simulate("stack-session", folder, "--seconds", "0.3", "--variant", "v2", "--seed", seed)).items() if name != "truth.json"}


def sent_bundle(server, tmp_path):
    phone = Phone(server, level="unverified")
    parts = bundle(tmp_path / "b")
    names = {"video": "video.mp4", "depth_data": "depth.gz", "hash_chain": "hash_chain.json", "metadata": "metadata.json"}
    headers = {name: value for name, value in phone.headers(scheme="s0").items() if name != "Content-Type"}
    return requests.post(server.url + PATH, files={part: (name, parts[name].read_bytes()) for part, name in names.items()}, headers=headers, timeout=300)


def sent_folder(server, tmp_path):
    for name, content in session(tmp_path / "s").items():
        assert requests.put(f"{server.url}/api/v1/sessions/walk/files/{name}", data=content, timeout=300).status_code == 201, name
    return server.post("/api/v1/sessions/walk/complete")


def sent_movie(server, tmp_path):
    folder = simulate("slow-motion-video", tmp_path / "m", "--seconds", "0.3", "--size", "320x240")
    return server.post("/upload", files={"video": ("video_1771446000.mov", next(folder.glob("*.mov")).read_bytes())})


def sent_stream(server, tmp_path):
    async def send():
        async with socket(server, "/camera?record=1") as camera:
            for number in range(12):
                await camera.send(frame(1_761_000_000 + number / 15, number))

    asyncio.run(send())


KINDS = {
    "bundle": ("video", sent_bundle, "realitycam-bundle", 30),
    "session zip": ("session", lambda server, tmp_path: requests.put(
        f"{server.url}/api/v1/sessions/walk.zip", data=zipped(session(tmp_path / "s").items()), timeout=300), "stack-session", 18),
    "session tar": ("session", lambda server, tmp_path: requests.put(
        f"{server.url}/api/v1/sessions/walk.tar", data=tarred(session(tmp_path / "s").items()), timeout=300), "stack-session", 18),
    "folder": ("session", sent_folder, "stack-session", 18),
    "movie": ("movie", sent_movie, "slow-motion-video", 36),
    "stream": ("stream", sent_stream, "stack-session", 12),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_becomes_rows_of_the_dataset(start, tmp_path, kind):
    type, send, reader, count = KINDS[kind]
    server = start("--takeset", TAKESET, conversions=1)
    answer = send(server, tmp_path)
    assert answer is None or answer.status_code in (200, 201, 202), answer.text
    (capture,) = server.until(lambda: server.get("/api/v1/captures").json()["data"])
    assert capture["type"] == type
    found = finished(server, capture["capture_id"])
    assert (found["status"], found["reason"], found["rows"]) == ("complete", None, count), found
    shown = server.get(f"/api/v1/captures/{capture['capture_id']}").json()["data"]
    (take,) = shown["evidence"]["takes"]
    assert (take["reader"], take["outcome"], take["rows"]) == (reader, "written", count)
    # What a phone without a key sent is kept apart.
    dataset = merged(server, take["id"], project="default.unverified" if kind == "bundle" else "default")
    with h5py.File(dataset / "dataset.h5") as file:
        (demo,) = file["data"].values()
        assert demo.attrs["take_id"] == take["id"] and demo.attrs["num_samples"] == count
        assert len(demo["obs/camera_image"]) == count and demo["obs/camera_image"][0].std() > 1
    page = server.get(f"/verify/{capture['capture_id']}").text
    assert "complete" in page
    if kind == "bundle":
        assert shown["evidence"]["chain"]["state"] == "sound" and shown["evidence"]["partial"]["recorded_frames"] == 30
        assert shown["evidence"]["depth"]["samples"] == 10 and shown["evidence"]["assertion"]["state"] != "verified"


@pytest.mark.parametrize("change, words", [
    (lambda files: {**files, "poses.json": b'[{"rgbIndex": 0, "timestamp": "soon"}]'}, ["poses.json", "timestamp"]),
    (lambda files: {**files, "metadata.json": json.dumps({**json.loads(files["metadata.json"]), "startTime": 5}).encode()},
     ["metadata.json", "startTime", "the number 5"]),
    (lambda files: {name: content for name, content in files.items() if name != "poses.json"}, ["poses.json"]),
    (lambda files: {**files, "rgb/000003.jpg": b"\xff\xd8\xff" + bytes(40)}, ["rgb/000003.jpg"]),
])
def test_a_damaged_session_names_file_and_field(start, tmp_path, change, words):
    server = start("--takeset", TAKESET, conversions=1)
    files = change(session(tmp_path / "s"))
    (tmp_path / "s.zip").write_bytes(zipped(files.items()))
    capture = queue(server.data, "session", {"session.zip": tmp_path / "s.zip"})
    found = finished(server, capture)
    if found["status"] == "complete":
        # One image that cannot be read costs no more than itself, and a finding says so.
        reason = json.dumps([finding for finding in evidence(found)["findings"] if finding["severity"] == "warning"])
    else:
        assert found["status"] == "rejected"
        reason = found["reason"]
    assert all(word in reason for word in words), reason
    assert str(server.data) not in reason and "/tmp" not in reason


def test_a_cut_movie_says_so(start, tmp_path):
    server = start("--takeset", TAKESET, conversions=1)
    folder = simulate("slow-motion-video", tmp_path / "m", "--seconds", "0.3", "--size", "320x240")
    data = next(folder.glob("*.mov")).read_bytes()
    capture = queue(server.data, "movie", {"video_1771446000.mov": data[: len(data) // 2]})
    found = finished(server, capture)
    assert found["status"] in ("rejected", "quarantined") and found["reason"]
    assert (server.data / "captures" / capture / "video_1771446000.mov").stat().st_size == len(data) // 2
