"""Captures become takes of their project's dataset, with the evidence that the converter found."""

import base64
import json
import shutil
import zipfile

import h5py
import pytest
import requests
from conftest import Server
from PIL import Image

from queued import (TAKESET, bundle, connect, episodes, evidence, files_below, finished, manifest, merged, merged_bundles, queue, row, simulate,
                    takeset)

APP = "TAKESET001.org.example.capture"
OPTIONS = ["--takeset", TAKESET]


def register(data, keys, level="registered_key", project="default"):
    """Puts the devices of a keys file into the server's database. The id of the last."""
    for device, key in json.loads(keys.read_text())["devices"].items():
        with connect(data) as database:
            database.execute("INSERT OR REPLACE INTO device VALUES (?, NULL, 'ios', 'iPhone', 1, ?, ?, ?, 0)",
                             (device, level, base64.b64decode(key), project))
    return device


def movie(folder, *options):
    folder = simulate("slow-motion-video", folder, "--seconds", "0.3", "--size", "320x240", *options)
    return next(folder.glob("*.mov"))


def session(folder, seed=1):
    return simulate("stack-session", folder, "--seconds", "0.3", "--variant", "v2", "--seed", seed)


def zipped(folder, path):
    with zipfile.ZipFile(path, "w") as archive:
        for name, file in files_below(folder).items():
            archive.write(file, name)
    return path


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One server for tests that each have a project of their own."""
    server = Server(tmp_path_factory.mktemp("conversion") / "data", *OPTIONS, "--app-id", APP, conversions=2).start()
    yield server
    server.kill()


def test_bundle_with_evidence(server, tmp_path):
    parts = bundle(tmp_path / "b", "--keys", tmp_path / "keys.json")
    device = register(server.data, tmp_path / "keys.json")
    capture = queue(server.data, "video", {**parts, "received.json": b'{"signature":"s2"}'}, "evidence", device)
    found = finished(server, capture)
    assert (found["status"], found["reason"], found["rows"], found["state"]) == ("complete", None, 30, "done")
    proof = evidence(found)
    assert proof["chain"]["state"] == "sound"
    assert (proof["assertion"]["state"], proof["assertion"]["covers"], proof["assertion"]["key"]) == ("verified", "final", device)
    assert proof["partial"] == {"state": "complete", "verified_frames": 30, "verified_seconds": 1, "recorded_frames": 30, "recorded_seconds": 1}
    assert proof["levels"] == ["bytes-sealed-at-ingest", "chain-structure-ok", "assertion-ok"]
    assert len(proof["not_verified"]) == 3
    assert proof["depth"]["is_likely_real_scene"] is True and proof["depth"]["samples"] == 10
    assert 0.9 < proof["depth"]["depth_consistency"] <= 1
    assert proof["findings"] == [] and proof["rows"] == 30
    assert proof["takes"] == [{"id": capture, "reader": "realitycam-bundle", "variant": "deflate", "outcome": "written",
                               "reason": None, "rows": 30}]
    for name in ("thumbnail.jpg", "overlay.jpg"):
        image = Image.open(server.data / "conversions" / capture / name)
        image.load()
        assert image.format == "JPEG" and image.width > 100
    dataset = merged(server, capture, project="evidence")
    with h5py.File(dataset / "dataset.h5") as file:
        (episode,) = file["data"].values()
        assert episode["obs/camera_image"].shape == (30, 240, 320, 3)
    files = {entry["path"]: entry["sha256"] for entry in manifest(dataset)["record"]["takes"][0]["inputs"]}
    assert set(files) == {"video.mp4", "depth.gz", "hash_chain.json", "metadata.json"}
    assert str(server.data) not in json.dumps(proof)


@pytest.mark.parametrize("level, app, state", [("unverified", APP, "no-key"), ("registered_key", "OTHER00001.org.example.app", "invalid")])
def test_only_registered_keys_and_known_apps_verify(server, start, tmp_path, level, app, state):
    parts = bundle(tmp_path / "b", "--keys", tmp_path / "keys.json")
    server = server if app == APP else start(*OPTIONS, "--app-id", app, conversions=1)
    device = register(server.data, tmp_path / "keys.json", level)
    found = finished(server, queue(server.data, "video", parts, level, device))
    assert found["status"] == "complete"
    assert evidence(found)["assertion"]["state"] == state
    assert "assertion-ok" not in evidence(found)["levels"]


def test_without_an_app_id_that_is_the_reason(start, tmp_path):
    parts = bundle(tmp_path / "b", "--keys", tmp_path / "keys.json")
    server = start(*OPTIONS, conversions=1)
    device = register(server.data, tmp_path / "keys.json")
    capture = queue(server.data, "video", parts, device=device)
    assertion = evidence(finished(server, capture))["assertion"]
    assert (assertion["state"], assertion["reason"]) == ("no-key", "no app id is configured (--app-id)")
    assert "Not verified: no app id is configured (--app-id)" in server.get(f"/verify/{capture}").text
    assert "No signature of a capture is checked" in server.log.read_text()


def test_another_devices_key_does_not_verify(server, tmp_path):
    parts = bundle(tmp_path / "b", "--keys", tmp_path / "keys.json")
    bundle(tmp_path / "other", "--seed", 2, "--keys", tmp_path / "other.json")
    register(server.data, tmp_path / "keys.json")
    other = json.loads((tmp_path / "other.json").read_text())
    mine = json.loads((tmp_path / "keys.json").read_text())
    sender = "0b6a4cf8-0000-4000-8000-00000000000a"
    other["devices"] = {sender: next(iter(other["devices"].values()))}
    assert other["devices"][sender] not in mine["devices"].values()
    (tmp_path / "other.json").write_text(json.dumps(other))
    register(server.data, tmp_path / "other.json")
    found = finished(server, queue(server.data, "video", parts, "other", sender))
    assert evidence(found)["assertion"]["state"] != "verified"


def test_interrupted_bundle_is_verified_up_to_its_checkpoint(server, tmp_path):
    parts = bundle(tmp_path / "b", "--signature", "checkpoint", "--partial", "--keys", tmp_path / "keys.json", seconds=6)
    device = register(server.data, tmp_path / "keys.json")
    found = finished(server, queue(server.data, "video", parts, "interrupted", device))
    proof = evidence(found)
    assert proof["assertion"]["covers"] == "checkpoint"
    assert proof["partial"]["state"] == "partial"
    assert (proof["partial"]["verified_frames"], proof["partial"]["recorded_frames"], proof["partial"]["recorded_seconds"]) == (150, 180, 6)
    # The last signed frame is shown 149 thirtieths of a second after the first.
    assert proof["partial"]["verified_seconds"] == pytest.approx(149 / 30)


def test_sessions_and_movies(server, tmp_path):
    folder = session(tmp_path / "session_a")
    archive = queue(server.data, "session", {"session.zip": zipped(folder, tmp_path / "a.zip")}, "kinds")
    tree = queue(server.data, "session", files_below(session(tmp_path / "session_b", 2), "session/"), "kinds")
    film = queue(server.data, "movie", {"video_1771446000.mov": movie(tmp_path / "m")}, "kinds")
    twin = queue(server.data, "movie", {"video_1771446000.mov": movie(tmp_path / "m2", "--seed", 2)}, "kinds")
    rows = finished(server, archive, tree, film, twin)
    assert [found["status"] for found in rows] == ["complete"] * 4
    named, renamed = [evidence(found)["takes"][0]["id"] for found in sorted(rows[2:], key=lambda f: len(evidence(f)["takes"][0]["id"]))]
    assert named == "video_1771446000" and renamed in (film, twin)
    merged(server, archive, tree, named, renamed, project="kinds")
    for capture in (archive, tree, film, twin):
        assert (server.data / "conversions" / capture / "thumbnail.jpg").exists()


FAULTS = {
    "chain-base64": "hash chain is broken", "chain-final": "final_hash is not the last", "chain-metadata": "hash chain is broken",
    "truncated-movie": "the rest is cut off", "missing-depth": "no part depth_data", "invalid-json": "metadata.json",
    "depth-bomb": "inflates to more"}


def test_damaged_bundles_are_rejected(server, tmp_path):
    sent = {fault: bundle(tmp_path / fault, "--fault", fault) for fault in FAULTS}
    captures = [queue(server.data, "video", parts, "damaged") for parts in sent.values()]
    for (fault, parts), capture, found in zip(sent.items(), captures, finished(server, *captures), strict=True):
        assert found["status"] == "rejected" and FAULTS[fault] in found["reason"], fault
        assert str(server.data) not in found["reason"] + found["evidence"] and "/tmp" not in found["reason"] + found["evidence"]
        assert evidence(found)["findings"] and found["rows"] == 0
        if fault.startswith("chain"):
            assert evidence(found)["chain"]["state"] == "broken"
        assert not (server.data / "conversions" / capture).exists()
        assert sorted(path.name for path in (server.data / "captures" / capture).iterdir()) == sorted(parts)
    assert episodes(server, "damaged") == []


def test_what_is_no_recording_is_quarantined(server, tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("letter.txt", "hello")
    captures = [queue(server.data, "session", {"session.zip": tmp_path / "x.zip"}), queue(server.data, "session", {"session/a.txt": b"hello"})]
    for found in finished(server, *captures):
        assert (found["status"], found["reason"]) == ("quarantined", "Nothing in it is a recording that can be read.")


def test_bundles_in_one_file(server, tmp_path):
    parts = bundle(tmp_path / "b", "--keys", tmp_path / "keys.json")
    body = next(path for path in simulate("realitycam-bundle", tmp_path / "m", "--seconds", 1, "--size", "320x240", "--seed", 2, "--layout",
                                          "multipart", "--keys", tmp_path / "keys2.json").iterdir() if path.name != "truth.json")
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        for name, path in parts.items():
            archive.write(path, name)
    register(server.data, tmp_path / "keys.json", project="one-file")
    captures = [queue(server.data, "video", files, "one-file") for files in ({"bundle.zip": tmp_path / "b.zip"}, {"bundle.multipart": body})]
    zipped_bundle, form = finished(server, *captures)
    assert (zipped_bundle["status"], form["status"]) == ("complete", "complete")
    assert evidence(zipped_bundle)["assertion"]["state"] == "verified" and evidence(form)["chain"]["state"] == "sound"
    merged(server, *captures, project="one-file")


def test_deleted_captures_leave_the_dataset(start):
    server = start(*OPTIONS, conversions=1)
    captures = merged_bundles(server, 1, 2)
    shown = server.get(f"/api/v1/captures/{captures[0]}").json()["data"]
    assert shown["status"] == "complete" and shown["evidence"]["chain"]["state"] == "sound"
    assert requests.delete(f"{server.url}/api/v1/captures/{captures[0]}", timeout=300).status_code == 204
    merged(server, captures[1])
    server.until(lambda: not (server.data / "conversions" / captures[0]).exists())
    assert requests.delete(f"{server.url}/api/v1/captures/{captures[1]}", timeout=300).status_code == 204
    server.until(lambda: not (server.data / "datasets/default").exists())
    server.until(lambda: sorted(path.name for path in (server.data / "conversions").iterdir()) == [".work"])
    server.until(lambda: list((server.data / "conversions/.work").iterdir()) == [])


def test_recordings_in_folders_of_one_name(server, tmp_path):
    walks = [files_below(session(tmp_path / str(seed), seed), "session/walk/") for seed in (1, 2)]
    captures = [queue(server.data, "session", files, "walks") for files in walks]
    assert [found["status"] for found in finished(server, *captures)] == ["complete"] * 2
    merged(server, *captures, project="walks")
    # Several recordings in one capture keep the names of their folders, which must differ within a project.
    pair = {**files_below(tmp_path / "1", "session/a/"), **files_below(tmp_path / "2", "session/b/")}
    first = queue(server.data, "session", pair, "walks")
    assert finished(server, first)["status"] == "complete" and evidence(row(server.data, first))["rows"] == 36
    again = finished(server, queue(server.data, "session", pair, "walks"))
    assert (again["status"], again["reason"]) == ("failed", "Another capture of the project has a recording that is named a, too.")
    merged(server, *captures, "a", "b", project="walks")


def test_one_good_recording_of_two_is_kept(server, tmp_path):
    good = session(tmp_path / "good")
    bad = {name: path for name, path in files_below(session(tmp_path / "bad", 2), "session/bad/").items() if "poses.json" not in name}
    found = finished(server, queue(server.data, "session", {**files_below(good, "session/good/"), **bad}, "two"))
    assert found["status"] == "complete" and found["reason"].startswith("1 of its 2 takes cannot be converted, the first because: ")
    assert sorted(take["outcome"] for take in evidence(found)["takes"]) != ["written", "written"]
    server.until(lambda: "good" in episodes(server, "two"))


def test_retention_removes_only_what_is_merged(start, tmp_path):
    server = start(*OPTIONS, "--retention-days", 1, conversions=1)
    bad = queue(server.data, "video", bundle(tmp_path / "bad", "--fault", "chain-final"))
    old, new = merged_bundles(server, 1, 2)
    finished(server, bad)
    with connect(server.data) as database:
        database.execute("UPDATE merged SET at = at - 90000000 WHERE capture = ?", (old,))
        database.execute("UPDATE capture SET receivedAt = receivedAt - 900000000")
    (third,) = merged_bundles(server, 3, beside=(old, new))
    server.until(lambda: not (server.data / "captures" / old).exists())
    assert {path.name for path in (server.data / "captures").iterdir()} == {new, bad, third}
    found = row(server.data, old)
    assert (found["status"], found["rows"], found["bytes"]) == ("complete", 30, 0) and evidence(found)["chain"]["state"] == "sound"
    with connect(server.data) as database:
        assert database.execute("SELECT COUNT(*) FROM file WHERE capture = ?", (old,)).fetchone()[0] == 0
    (fourth,) = merged_bundles(server, 4, beside=(old, new, third))
    server.restart()
    merged(server, old, new, third, fourth)
    assert row(server.data, old)["status"] == "complete"


def test_damaged_and_lost_conversions_are_made_again(start):
    server = start(*OPTIONS, conversions=1)
    (first,) = merged_bundles(server, 1)
    shard = server.data / "conversions" / first / "dataset/episodes" / f"{first}.h5"
    with shard.open("r+b") as file:
        file.seek(shard.stat().st_size // 2)
        file.write(b"\xff" * 4096)
    assert takeset("verify", server.data / "datasets/default").returncode == 2
    (second,) = merged_bundles(server, 2, beside=[first])
    assert row(server.data, first)["status"] == row(server.data, second)["status"] == "complete"
    server.kill()
    shutil.rmtree(server.data / "conversions")
    shutil.rmtree(server.data / "datasets")
    server.start()
    merged(server, first, second)
    assert row(server.data, first)["status"] == row(server.data, second)["status"] == "complete"


def test_a_mistake_in_the_pipeline_is_ours(start, tmp_path):
    (tmp_path / "p.yaml").write_text("version: 1\ntransforms:\n  - aling: {}\n")
    server = start(*OPTIONS, "--pipeline", tmp_path / "p.yaml", conversions=1)
    found = finished(server, queue(server.data, "video", bundle(tmp_path / "1")))
    assert (found["status"], found["reason"]) == ("failed", "The server's converter is not set up correctly.")
    assert found["attempts"] == 1 and "aling" in found["lastError"]
