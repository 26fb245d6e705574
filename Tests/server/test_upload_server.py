"""`takeset upload` and `takeset simulate device` against the real server, over connections that are cut."""

import json
import os
import shutil
import signal
import subprocess

import pytest
from conftest import TAKESET
from devices import add_key
from queued import running
from uploads import Client, bundle, digest, movie, session

SMALL = ["--size", "160x120", "--seconds", "0.5"]


def device(server_url, *options, key=None, environment=None):
    command = [str(TAKESET), "simulate", "device", "--to", server_url, *SMALL, "--first-pause", "0.05", "--json", *map(str, options)]
    done = subprocess.run(
        command + (["--key", key] if key else []), capture_output=True, text=True, timeout=300, env={**os.environ, **(environment or {})})
    return done, [json.loads(line) for line in done.stdout.splitlines()]


def captures(server):
    return server.get("/api/v1/captures").json()["data"]


def detail(server, capture):
    return server.get(f"/api/v1/captures/{capture}").json()["data"]


# Uploads


def test_every_kind_becomes_a_capture(server, client, tmp_path):
    root = tmp_path / "in"
    movie(root), session(root), bundle(root)
    done = client.send(server, root)
    assert done.returncode == 0, done.stderr
    items = client.items()
    found = {item["capture_id"]: item for item in captures(server)}
    types = {name: found[item["capture_id"]]["type"] for name, item in items.items()}
    assert types == {"video_1771446000.mov": "movie", "session_1": "session", "bundle_1": "video"}
    kept = detail(server, items["video_1771446000.mov"]["capture_id"])["files"]
    assert digest((root / "video_1771446000.mov").read_bytes()) in {file["sha256"] for file in kept}


def test_the_same_capture_by_two_uploaders_is_one(server, tmp_path):
    path = movie(tmp_path / "in")
    running = [Client(tmp_path / str(number)).start(path, "--to", server.url) for number in range(2)]
    outputs = [process.communicate(timeout=300)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    assert len(captures(server)) == 1
    assert len({output.split("\t")[1] for output in outputs}) == 1


def test_files_go_only_when_the_server_shows_that_it_has_them(server, client, tmp_path):
    root = tmp_path / "in"
    movie(root), session(root), bundle(root)
    done = client.send(server, root, "--delete-after-upload")
    assert done.returncode == 0, done.stderr
    assert not list(root.iterdir()) and [item["is_deleted"] for item in client.items().values()] == [True] * 3
    kept = {file["sha256"] for item in captures(server) for file in detail(server, item["capture_id"])["files"]}
    assert {item["sha256"] for item in client.items().values()} <= kept


# The simulated device


def test_a_device_registers_and_its_captures_are_verified(server):
    done, outcomes = device(server.url, "--captures", 3, "--signing", "s2", key=add_key(server))
    assert done.returncode == 0, done.stderr
    assert [outcome["state"] for outcome in outcomes] == ["uploaded"] * 3
    assert len({outcome["capture_id"] for outcome in outcomes}) == 3
    for item in captures(server):
        assert item["is_verified"] is True and item["signature"] == "s2" and item["device_id"] == outcomes[0]["device_id"]


def test_without_a_key_it_cannot_register_and_an_unknown_fault_is_a_mistake(server):
    done, outcomes = device(server.url)
    assert done.returncode == 77 and "keys add" in done.stderr and not outcomes
    done, _ = device(server.url, "--fault", "no-such", key=add_key(server))
    assert done.returncode == 64 and "no-such" in done.stderr
    assert not captures(server)


@pytest.mark.parametrize("signing, verified", [("s1", True), ("s0", False)])
def test_ways_of_signing(server, signing, verified):
    done, outcomes = device(server.url, "--signing", signing, key=add_key(server))
    assert done.returncode == 0, done.stderr
    (item,) = captures(server)
    assert (item["signature"], item["is_verified"]) == (signing, verified)


@pytest.mark.parametrize(
    "fault, count, words",
    [
        ("wrong-key", 1, "401"), ("wrong-body", 1, "401"), ("old-timestamp", 1, "401"), ("future-timestamp", 1, "401"),
        ("repeated-counter", 2, "401"), ("missing-video", 1, "400"), ("invalid-json", 1, "400"), ("empty-depth", 1, "400"),
    ],
)
def test_faults_are_refused(server, fault, count, words):
    done, outcomes = device(server.url, "--fault", fault, "--captures", count, key=add_key(server))
    assert done.returncode == 3 and f"answered {words}" in done.stderr
    assert [outcome["state"] for outcome in outcomes] == ["uploaded"] * (count - 1) + ["failed"]
    assert len(captures(server)) == count - 1


def test_a_seed_gives_the_same_recordings(server):
    key, runs = add_key(server), []
    for seed in (5, 5, 6):
        done, outcomes = device(server.url, "--captures", 2, "--seed", seed, "--seconds", "0.2", key=key)
        assert done.returncode == 0, done.stderr
        files = [detail(server, outcome["capture_id"])["files"] for outcome in outcomes]
        runs.append([{file["name"]: file["sha256"] for file in each} for each in files])
    for name in ("video.mp4", "depth.gz", "hash_chain.json"):
        digests = [[files[name] for files in run] for run in runs]
        # The second capture has the next seed.
        assert digests[0] == digests[1] and digests[2][0] == digests[0][1] != digests[0][0]
    assert len({files["metadata.json"] for run in runs for files in run}) == 6, "signatures are new"


def test_an_identity_is_kept_from_run_to_run(server, tmp_path):
    kept, key = tmp_path / "device.json", add_key(server)
    found = [device(server.url, "--identity", kept, "--seed", seed, key=key)[1][0]["device_id"] for seed in (1, 2)]
    assert found[0] == found[1] and kept.stat().st_mode & 0o777 == 0o600
    assert all(item["is_verified"] for item in captures(server)) and len(captures(server)) == 2
    done, _ = device("http://127.0.0.1:1", "--identity", kept)
    assert done.returncode == 1 and "registered at" in done.stderr


def test_sending_needs_no_server_program(tmp_path, server):
    """A copy of the command alone sends; only `serve` looks for the server's program, and says how to get it."""
    alone, nothing = tmp_path / "bin/takeset", {**os.environ, "PATH": "/usr/bin:/bin", "TAKESET_SERVER": "/nowhere"}
    alone.parent.mkdir()
    shutil.copy(TAKESET, alone)
    path = movie(tmp_path / "in")
    done = subprocess.run([alone, "upload", path, "--to", server.url, "--state", tmp_path / "queue.sqlite"], capture_output=True, text=True, env=nothing)
    assert (done.returncode, [item["bytes"] for item in captures(server)]) == (0, [path.stat().st_size]), done.stderr
    missing = subprocess.run([alone, "serve"], capture_output=True, text=True, env=nothing)
    assert missing.returncode == 1 and "make server" in missing.stderr


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_device_leaves_nothing_behind(server, tmp_path, number, code):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    # It has 0.8 s to tidy up, after which it ends at once: then once more.
    for _ in range(10):
        process = subprocess.Popen(
            [str(TAKESET), "simulate", "device", "--to", server.url, "--key", add_key(server), "--seconds", "3600", "--size", "640x480"],
            stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(temporary)})
        server.until(lambda: list(temporary.glob("*/0.recording/video.mp4")))
        process.send_signal(number)
        _, errors = process.communicate(timeout=300)
        assert process.returncode == code, errors
        if not list(temporary.iterdir()) and not running(str(temporary)):
            return
        server.until(lambda: not running(str(temporary)))
        shutil.rmtree(temporary)
        temporary.mkdir()
    pytest.fail("files are left each time")
