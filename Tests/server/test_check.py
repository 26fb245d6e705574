"""`takeset-server check`: what would not work, what an operator should know, and that it changes nothing."""

import json
import os
import socket
import sqlite3
import subprocess
import time

import pytest
from certificates import certificate
from conftest import BINARY, TAKESET, free_port
from stores import SECRET, bucket  # noqa: F401
from test_keys import add
from test_standby import is_copied, put, with_copy

GOOD = ["--reserve", 0, "--stranger-reserve", 0, "--takeset", TAKESET, "--app-id", "ABCDE12345.org.example.app"]


def run(*options, environment=None):
    return subprocess.run(
        [*map(str, [BINARY, "check", *options])], capture_output=True, text=True, timeout=300, env={**os.environ, **(environment or {})})


def check(*options, environment=None):
    """State and message with its remedy, by name."""
    done = run(*options, "--json", environment=environment)
    assert done.returncode in (0, 1), done.stderr
    found = json.loads(done.stdout)
    assert found["works"] == (done.returncode == 0) == all(entry["state"] != "problem" for entry in found["checks"])
    assert all(("remedy" in entry) == (entry["state"] != "ok") for entry in found["checks"]), found
    return {entry["name"]: (entry["state"], entry["message"] + "; " + entry.get("remedy", "")) for entry in found["checks"]}


def address():
    return f"127.0.0.1:{free_port()}"


def files(folder):
    """Everything below a folder, with its bytes and when it was written."""
    return {path: (path.stat().st_mtime_ns, path.is_file() and path.read_bytes()) for path in sorted(folder.rglob("*"))}


def tls(folder, since, until):
    """The options of a certificate that is valid for these days from now on, and what is said of its last."""
    cert, key, last = certificate(folder, since, until)
    return ["--tls-cert", cert, "--tls-key", key], f"its last day is {last:%Y-%m-%d}"


def test_a_good_set_up_is_ok_and_stays_as_it_is(tmp_path):
    add(tmp_path / "data")
    (tmp_path / "store").mkdir()
    (tmp_path / "standby").mkdir()
    options, last = tls(tmp_path, -1, 90)
    before = files(tmp_path)
    options += ["--data", tmp_path / "data", "--store", tmp_path / "store", "--standby", tmp_path / "standby", "--require-key", "--listen", address()]
    found = check(*GOOD, *options)
    assert files(tmp_path) == before
    assert {state for state, _ in found.values()} == {"ok"}, found
    version = subprocess.run([TAKESET, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    assert version in found["converter"][1] and last in found["certificate"][1] and "1 in use" in found["keys"][1]
    # The same for people, a line each; and of a folder that is not there yet.
    done = run(*GOOD, *options)
    assert done.returncode == 0 and [line.split()[:2] for line in done.stdout.splitlines()] == [["ok", f"{name}:"] for name in found]
    assert check(*GOOD, "--data", tmp_path / "new" / "data", "--listen", address())["data"] == ("ok", f"{tmp_path}/new/data is made at the start; ")
    assert not (tmp_path / "new").exists()


def test_each_problem_is_named_with_what_helps(tmp_path, bucket):  # noqa: F811
    (tmp_path / "file").write_text("x")
    (tmp_path / "old").mkdir()
    (tmp_path / "soon").mkdir()
    ended, soon = tls(tmp_path / "old", -9, -2), tls(tmp_path / "soon", -1, 3)
    other = [*soon[0][:3], tmp_path / "old/key.pem"]
    taken = socket.create_server(("127.0.0.1", 0))
    away = f"s3://captures/x?endpoint=http://127.0.0.1:{free_port()}"
    for options, name, state, words in [
        (["--data", tmp_path / "file" / "x"], "data", "problem", "file is no folder"),
        (["--reserve", 1 << 60], "room", "problem", "nothing is accepted; remove something"),
        (["--stranger-reserve", 1 << 60], "room", "warning", "nothing is accepted that nobody vouches for"),
        (["--store", tmp_path / "file"], "store", "problem", "file is no folder"),
        (["--store", f"s3://none/x?endpoint={bucket.address}"], "store", "problem", "the bucket none cannot be used"),
        (["--standby", tmp_path / "none"], "standby", "warning", "see whether its disk is mounted"),
        (["--standby", f"s3://none/x?endpoint={bucket.address}"], "standby", "problem", "the bucket none cannot be used"),
        (["--takeset", tmp_path / "none"], "converter", "problem", "install takeset"),
        (["--takeset", tmp_path / "none", "--conversions", 0], "converter", "warning", "install takeset"),
        (["--takeset", "/bin/true"], "converter", "problem", "/bin/true cannot be run, or is another program"),
        (["--pipeline", tmp_path / "none"], "pipeline", "problem", "cannot be read"),
        (ended[0], "certificate", "problem", "its last day was"),
        (soon[0], "certificate", "warning", f"ends soon: {soon[1]}; renew it"),
        (other, "certificate", "problem", "is not the key of the certificate"),
        (["--tls-cert", tmp_path / "none", "--tls-key", tmp_path / "none"], "certificate", "problem", "expected a PEM file"),
        (["--listen", f"0.0.0.0:{free_port()}"], "certificate", "warning", "without TLS"),
        (["--listen", f"127.0.0.1:{taken.getsockname()[1]}"], "listen", "problem", "Address already in use"),
        (["--camera-listen", "nowhere.invalid:80"], "camera-listen", "problem", "there is no such host"),
        (["--app-id", "org.example"], "apps", "warning", "no id of a team and a bundle"),
        (["--app-attest-root", tmp_path / "none"], "apps", "problem", "cannot be read"),
        (["--require-key"], "keys", "warning", f"keys add --data {tmp_path}/data"),
        (["--listen", f"0.0.0.0:{free_port()}", "--require-key=false"], "keys", "warning", "everybody who can connect"),
    ]:
        found = check(*GOOD, "--data", tmp_path / "data", "--listen", address(), *options, environment=SECRET)
        assert found[name][0] == state and words in found[name][1], (options, found)
    taken.close()
    assert check("--data", tmp_path / "data", "--listen", address(), "--takeset", TAKESET)["apps"][0] == "warning"
    assert "AWS_ACCESS_KEY_ID" in check(*GOOD, "--data", tmp_path / "data", "--store", away, environment=dict.fromkeys(SECRET, ""))["store"][1]
    assert not (tmp_path / "data").exists() and not (tmp_path / "none").exists()
    mistaken = run("--data", tmp_path / "data", "--polcy", "strict")
    assert mistaken.returncode == 64 and "unknown option --polcy" in mistaken.stderr


@pytest.mark.parametrize("kind", ["folder", "bucket"])
def test_beside_a_server_and_after_it_was_killed(start, bucket, tmp_path, kind):  # noqa: F811
    place = tmp_path / "standby" if kind == "folder" else f"s3://captures/{tmp_path.name}/standby?endpoint={bucket.address}&region=us-east-1"
    data, options = tmp_path / "data", ["--require-key", "--standby", place]
    if kind == "folder":
        server = with_copy(start, place, data=data)
    else:
        server = start("--standby", place, data=data, environment=SECRET)
    put(server, "a")
    add(data)
    is_copied(server, time.monotonic())
    options = [*GOOD, "--data", data, "--listen", f"127.0.0.1:{server.port}", *options]
    found = check(*options, environment=SECRET)
    assert {state for state, _ in found.values()} == {"ok"} and "the server runs" in found["listen"][1] and "1 in use" in found["keys"][1], found
    assert "the copy is of 20" in found["standby"][1]
    server.kill()
    before = files(data)
    # The key is only in the log of the database, which no server reads now.
    found = check(*options, environment=SECRET)
    assert {state for state, _ in found.values()} == {"ok"} and "is free" in found["listen"][1] and "1 in use" in found["keys"][1], found
    assert files(data) == before
    # What was written later is not in the copy.
    late = time.time() + 3600
    os.utime(data / "server.sqlite", (late, late))
    state, words = check(*options, environment=SECRET)["standby"]
    assert state == "warning" and "before the database's last change; start the server with --standby" in words
    with sqlite3.connect(data / "server.sqlite", timeout=300) as database:
        database.execute("PRAGMA application_id = 7")
    state, words = check(*options, environment=SECRET)["standby"]
    assert state == "problem" and "copies of another database" in words
