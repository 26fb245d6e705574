"""API keys: made, listed and revoked by the command, and asked for where they are needed."""

import base64
import hashlib
import re
import sqlite3
import subprocess

import conftest
import devices
import pytest
import requests
from attestations import b64, key_named, point
from pages import insert, insert_file

GUARDED = ["/api/v1/devices", "/api/v1/captures", "/metrics", "/"]


def keys(data, *arguments):
    return subprocess.run([str(conftest.BINARY), "keys", *map(str, arguments), "--data", str(data)], capture_output=True, text=True, timeout=300)


def add(data, *options):
    ended = keys(data, "add", *options)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def listed(data):
    """Id, project, name and state of each key."""
    ended = keys(data, "list")
    assert ended.returncode == 0, ended.stderr
    return [tuple(re.split(r"  +", line)) for line in ended.stdout.splitlines()]


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def basic(user, password):
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


@pytest.fixture
def guarded(start):
    return start("--require-key")


def test_a_key_opens_what_is_guarded(guarded):
    key = add(guarded.data, "--name", "notebook")
    for path in GUARDED:
        refused = guarded.get(path)
        assert devices.failure(refused) == (401, "KEY_REQUIRED"), path
        assert refused.headers["WWW-Authenticate"].startswith('Basic realm="')
        assert guarded.get(path, headers=bearer(key)).status_code == 200, path
    # The health is open, and devices can register.
    assert guarded.get("/health").json() == {"status": "ok"}
    assert guarded.get("/api/v1/devices/challenge").status_code == 200
    assert devices.register(guarded, {}).status_code == 400


def test_a_key_comes_as_bearer_or_as_password(guarded):
    key = add(guarded.data)
    for headers in (bearer(key), basic("anyone", key)):
        assert guarded.get("/api/v1/devices", headers=headers).status_code == 200, headers
    wrong = [bearer(key[:-1]), bearer(key + "x"), bearer(key.upper()), {"X-Api-Key": key}, bearer("' OR 1=1 --"), bearer("x" * 4000),
             {"Authorization": "Basic " + base64.b64encode(b"\xff:\xfe").decode()}]
    for headers in wrong:
        assert devices.failure(guarded.get("/api/v1/devices", headers=headers)) == (401, "KEY_REQUIRED"), headers
    assert guarded.get(f"/api/v1/devices?key={key}").status_code == 401


def test_a_revoked_key_is_refused_at_once(guarded):
    first, second = add(guarded.data, "--name", "first"), add(guarded.data, "--name", "second")
    session = requests.Session()
    session.headers.update(bearer(first))
    assert session.get(f"{guarded.url}/api/v1/devices", timeout=300).status_code == 200
    identity = next(entry[0] for entry in listed(guarded.data) if entry[2] == "first")
    assert keys(guarded.data, "revoke", identity).returncode == 0
    # On the connection that is open, and on a new one.
    assert session.get(f"{guarded.url}/api/v1/devices", timeout=300).status_code == 401
    assert guarded.get("/api/v1/devices", headers=basic("x", first)).status_code == 401
    assert guarded.get("/api/v1/devices", headers=bearer(second)).status_code == 200
    guarded.restart()
    assert guarded.get("/api/v1/devices", headers=bearer(first)).status_code == 401
    assert guarded.get("/api/v1/devices", headers=bearer(second)).status_code == 200
    assert [entry[2:] for entry in listed(guarded.data)] == [("first", "revoked"), ("second", "in use")]
    again = keys(guarded.data, "revoke", identity)
    assert again.returncode != 0 and "no such key in use" in again.stderr
    assert keys(guarded.data, "revoke", "nonsense").returncode != 0


def test_only_the_digest_of_a_key_is_kept(guarded):
    secrets = [add(guarded.data, "--name", f"key {n}", "--project", "lab") for n in range(5)]
    assert len(set(secrets)) == 5
    for secret in secrets:
        assert re.fullmatch(r"tks_[A-Za-z0-9_-]{43}", secret)
        assert guarded.get("/api/v1/devices", headers=bearer(secret)).status_code == 200
    assert not any(secret in keys(guarded.data, "list").stdout for secret in secrets)
    assert [entry[1:] for entry in listed(guarded.data)] == [("lab", f"key {n}", "in use") for n in range(5)]
    for power in "work", "monitor":
        secrets.append(add(guarded.data, "--power", power))
        assert listed(guarded.data)[-1][1:] == ("all projects", "key", f"in use, {power} only")
    with sqlite3.connect(guarded.data / "server.sqlite", timeout=300) as database:
        digests = {row[0] for row in database.execute("SELECT digest FROM apiKey")}
    assert digests == {hashlib.sha256(secret.encode()).digest() for secret in secrets}
    guarded.stop()
    for path in [guarded.log, *guarded.data.rglob("*")]:
        if path.is_file():
            contents = path.read_bytes()
            assert not any(secret.encode() in contents for secret in secrets), path


@pytest.mark.parametrize("option, values, words", [
    ("project", ["../x", "a/b", "-a", "a b", "ä", "x" * 64, "a\n"], "letters, digits"), ("name", ["a\nb", "\x1b[2J", "x" * 101], "on one line"),
    ("power", ["write"], "expected upload, read, work, monitor or all"), ("days", ["0"], "expected 1 to 36500"),
])
def test_options_of_a_key_that_make_no_sense(tmp_path, option, values, words):
    for wrong in values:
        ended = keys(tmp_path / "data", "add", f"--{option}={wrong}")
        assert ended.returncode != 0 and words in ended.stderr, wrong
    assert add(tmp_path / "data", "--project", "Lab_1-b").startswith("tks_")


def test_two_commands_make_the_database_at_the_same_moment(tmp_path):
    for turn in range(20):
        command = [str(conftest.BINARY), "keys", "add", "--data", str(tmp_path / str(turn))]
        running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
        for process in running:
            out, errors = process.communicate(timeout=300)
            assert process.returncode == 0, errors


def test_a_folder_without_a_server_has_no_keys_to_list_or_revoke(tmp_path):
    """A mistyped --data is an error, not an empty list, and makes no folder."""
    for arguments in (["list"], ["revoke", "12345678"]):
        ended = keys(tmp_path / "typo", *arguments)
        assert ended.returncode != 0 and "no data of a server" in ended.stderr
    assert not (tmp_path / "typo").exists()


ODD = [{"Authorization": text} for text in (
    "Bearer tks_wrong", "Token x", "Bearer a b", "Bearer", "x", "Basic ?", "Digest x", "Basic " + base64.b64encode(b":").decode())]


@pytest.mark.parametrize("headers", ODD)
def test_a_header_that_is_not_understood_is_not_taken_for_none(common, headers):
    """Otherwise the capture of somebody who wants to be known would land among those of strangers."""
    for path in ("/api/v1/captures", "/api/v1/devices", "/api/v1/devices/challenge", "/videos", "/"):
        assert common.get(path, headers=headers).status_code == 401, path
    assert devices.failure(devices.register(common, {}, headers=headers)) == (401, "KEY_REQUIRED")
    assert devices.failure(common.post("/api/v1/captures/video", headers=headers)) == (401, "KEY_REQUIRED")
    with pytest.raises(requests.ConnectionError):
        common.post("/upload", data=b"\0\0\0\x08free", headers=headers)


@pytest.mark.parametrize("power, expected", [("all", [200, 201, 200, 201]), ("upload", [403, 201, 403, 403]), ("read", [200, 403, 403, 403])])
def test_a_key_does_what_it_is_for(guarded, power, expected):
    """To read, to deliver, to command, and to vouch for a device; PermissionTests.swift has all routes."""
    key = add(guarded.data, "--power", power)
    headers = {**bearer(key), "Tus-Resumable": "1.0.0", "Upload-Length": "5"}
    deeds = [("GET", "/api/v1/captures"), ("POST", "/files"), ("POST", "/control/start")]
    found = [requests.request(method, guarded.url + path, headers=headers, timeout=300).status_code for method, path in deeds]
    script = {"platform": "simulated", "model": "script", "public_key": b64(point(key_named("script")))}
    assert [*found, devices.register(guarded, script, headers=bearer(key)).status_code] == expected
    assert listed(guarded.data)[0][-1] == ("in use" if power == "all" else f"in use, {power} only")
    movie = b"\0\0\0\x08free" + power.encode()
    if power == "read":
        with pytest.raises(requests.ConnectionError):
            guarded.post(f"/upload?key={key}", data=movie)
    else:
        assert guarded.post(f"/k/{key}/upload", data=movie).status_code == 200


def test_an_expired_key_is_refused(guarded):
    key = add(guarded.data, "--days", 1)
    assert guarded.get("/api/v1/captures", headers=bearer(key)).status_code == 200
    assert re.fullmatch(r"in use, until 20\d\d-\d\d-\d\d", listed(guarded.data)[0][-1])
    with sqlite3.connect(guarded.data / "server.sqlite", timeout=300) as database:
        database.execute("UPDATE apiKey SET expiresAt = expiresAt - 86400000")
    assert guarded.get("/api/v1/captures", headers=bearer(key)).status_code == 401
    assert listed(guarded.data)[0][-1] == "expired"


def test_the_log_names_the_key_that_removed_a_capture_and_the_sender(start):
    server = start("--require-key", "--trusted-proxy", "127.0.0.1")
    key = add(server.data)
    capture = insert(server)
    assert requests.delete(f"{server.url}/api/v1/captures/{capture}", headers=bearer(key), timeout=300).status_code == 204
    name = listed(server.data)[0][0]
    log = server.log.read_text()
    assert f"capture {capture} was deleted with the key {name}" in log
    assert f"DELETE /api/v1/captures/{capture}: 204, key {name}, 127.0.0.1" in log
    # Commands, too, behind a proxy as well. Reading is not logged, nor is the key itself.
    assert server.post(f"/control/stop?key={key}").status_code == 200 and server.get("/status", headers=bearer(key)).ok
    assert server.post("/control/start", headers=bearer(key) | {"X-Forwarded-For": "198.51.100.1, 203.0.113.9"}).status_code == 200
    log = server.log.read_text()
    assert f"POST /control/stop: 200, key {name}, 127.0.0.1" in log and "/status" not in log and key not in log
    assert f"POST /control/start: 200, key {name}, 203.0.113.9" in log and "198.51.100.1" not in log


def test_a_key_for_uploads_reads_no_file_whatever_its_name(guarded):
    capture = insert(guarded)
    insert_file(guarded, capture, "session/upload", b"secret")
    path = f"/captures/{capture}/files/session/upload"
    assert guarded.get(path, headers=bearer(add(guarded.data, "--power", "read"))).content == b"secret"
    assert guarded.get(path, headers=bearer(add(guarded.data, "--power", "upload"))).status_code == 403
