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


def test_nothing_is_written_or_removed_without_a_key(guarded):
    identity = "00000000-0000-4000-8000-000000000000"
    for method, path in (("POST", "/files"), ("PUT", "/api/v1/sessions/x.zip"), ("DELETE", f"/api/v1/captures/{identity}"), ("DELETE", f"/files/{identity}")):
        refused = requests.request(method, guarded.url + path, data=b"x", headers={"Tus-Resumable": "1.0.0"}, timeout=300)
        assert devices.failure(refused) == (401, "KEY_REQUIRED"), path


def test_a_key_comes_as_bearer_or_as_password(guarded):
    key = add(guarded.data)
    good = [
        bearer(key), {"Authorization": f"bearer {key}"}, {"Authorization": f"BEARER  {key}"}, basic("anyone", key), basic("", key), basic(key, ""),
        {"Authorization": "basic " + base64.b64encode(f"ä:{key}".encode()).decode()},
    ]  # fmt: skip
    for headers in good:
        assert guarded.get("/api/v1/devices", headers=headers).status_code == 200, headers
    wrong = [
        bearer(key[:-1]), bearer(key + "x"), bearer(key.upper()), bearer(""), bearer(f"{key} {key}"), {"Authorization": key}, {"Authorization": "Bearer"},
        {"Authorization": f"Digest {key}"}, basic(f"{key}:x", "x"), basic("a", ""), {"Authorization": f"Basic {key}"}, {"Authorization": "Basic ?"},
        {"X-Api-Key": key}, bearer("' OR 1=1 --"), bearer("x" * 4000),
        {"Authorization": "Basic " + base64.b64encode(b"\xff:\xfe").decode()},
    ]  # fmt: skip
    for headers in wrong:
        assert devices.failure(guarded.get("/api/v1/devices", headers=headers)) == (401, "KEY_REQUIRED"), headers
    assert guarded.get(f"/api/v1/devices?key={key}").status_code == 401


def test_a_wrong_key_is_refused_also_where_none_is_needed(server):
    assert server.get("/api/v1/devices").status_code == 200
    assert devices.failure(server.get("/api/v1/devices", headers=bearer("tks_wrong"))) == (401, "KEY_REQUIRED")
    assert devices.failure(server.get("/api/v1/devices/challenge", headers=bearer("tks_wrong"))) == (401, "KEY_REQUIRED")


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
    assert [entry[2:] for entry in listed(guarded.data)] == [("first", "revoked"), ("second", "in use")]
    again = keys(guarded.data, "revoke", identity)
    assert again.returncode != 0 and "no such key in use" in again.stderr
    assert keys(guarded.data, "revoke", "nonsense").returncode != 0


def test_a_key_survives_a_killed_server(guarded):
    key = add(guarded.data)
    guarded.restart()
    assert guarded.get("/api/v1/devices", headers=bearer(key)).status_code == 200


def test_only_the_digest_of_a_key_is_kept(guarded):
    secrets = [add(guarded.data, "--name", f"key {n}", "--project", "lab") for n in range(5)]
    assert len(set(secrets)) == 5
    for secret in secrets:
        assert re.fullmatch(r"tks_[A-Za-z0-9_-]{43}", secret)
        assert guarded.get("/api/v1/devices", headers=bearer(secret)).status_code == 200
    assert not any(secret in keys(guarded.data, "list").stdout for secret in secrets)
    assert [entry[1:] for entry in listed(guarded.data)] == [("lab", f"key {n}", "in use") for n in range(5)]
    with sqlite3.connect(guarded.data / "server.sqlite", timeout=300) as database:
        digests = {row[0] for row in database.execute("SELECT digest FROM apiKey")}
    assert digests == {hashlib.sha256(secret.encode()).digest() for secret in secrets}
    guarded.stop()
    for path in [guarded.log, *guarded.data.rglob("*")]:
        if path.is_file():
            contents = path.read_bytes()
            assert not any(secret.encode() in contents for secret in secrets), path


def test_health_is_open_and_devices_can_register(guarded):
    assert guarded.get("/health").json() == {"status": "ok"}
    assert guarded.get("/api/v1/devices/challenge").status_code == 200
    assert devices.register(guarded, {}).status_code == 400


def test_keys_are_needed_where_others_can_connect(tmp_path):
    """Without --require-key, it depends on the address."""
    for host, status in (("127.0.0.1", 200), ("localhost", 200), ("0.0.0.0", 401)):
        server = conftest.Server(tmp_path / host)
        server.options = ["--listen", f"{host}:{server.port}"]
        try:
            server.start()
            assert server.get("/api/v1/devices").status_code == status, host
        finally:
            server.kill()


def test_require_key_can_be_turned_off(tmp_path):
    server = conftest.Server(tmp_path / "data")
    server.options = ["--listen", f"0.0.0.0:{server.port}", "--require-key=false"]
    try:
        server.start()
        assert server.get("/api/v1/devices").status_code == 200
    finally:
        server.kill()


def test_the_project_of_a_key_has_a_plain_name(tmp_path):
    for wrong in ("../x", "a/b", "-a", "a b", "ä", "x" * 64, "a\n"):
        ended = keys(tmp_path / "data", "add", f"--project={wrong}")
        assert ended.returncode != 0 and "letters, digits" in ended.stderr, wrong
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


def test_guesses_find_nothing(guarded):
    key = add(guarded.data)
    with requests.Session() as session:
        found = {session.get(f"{guarded.url}/api/v1/devices", headers=bearer(f"{key[:-3]}{n:03}x"), timeout=300).status_code for n in range(300)}
    assert found == {401}


def test_a_name_is_one_line(tmp_path):
    for wrong in ("a\nb", "\x1b[2J", "x" * 101):
        ended = keys(tmp_path / "data", "add", f"--name={wrong}")
        assert ended.returncode != 0 and "on one line" in ended.stderr, wrong


ODD = [{"Authorization": text} for text in ("Token x", "Bearer a b", "Bearer", "x", "Basic ?", "Digest x", "Basic " + base64.b64encode(b":").decode())]


@pytest.mark.parametrize("headers", ODD)
def test_a_header_that_is_not_understood_is_not_taken_for_none(server, headers):
    """Otherwise the capture of somebody who wants to be known would land among those of strangers."""
    for path in ("/api/v1/captures", "/api/v1/devices/challenge", "/videos", "/"):
        assert server.get(path, headers=headers).status_code == 401, path
    assert devices.failure(devices.register(server, {}, headers=headers)) == (401, "KEY_REQUIRED")
    assert devices.failure(server.post("/api/v1/captures/video", headers=headers)) == (401, "KEY_REQUIRED")
    with pytest.raises(requests.ConnectionError):
        server.post("/upload", data=b"\0\0\0\x08free", headers=headers)


def script(number=1):
    from attestations import b64, key_named, point

    return {"platform": "simulated", "model": "script", "public_key": b64(point(key_named(f"script {number}")))}


def outcomes(server, headers):
    """What a key may: to read, to deliver, to remove, to command, to vouch for a device."""
    identity = "00000000-0000-4000-8000-000000000000"
    sent = [
        ("GET", "/api/v1/captures"), ("GET", "/"), ("GET", "/videos"), ("POST", "/files"), ("PUT", "/api/v1/sessions/s/files/a"),
        ("DELETE", f"/api/v1/captures/{identity}"), ("POST", f"/api/v1/captures/{identity}/convert"), ("POST", "/control/start"),
    ]  # fmt: skip
    tus = {"Tus-Resumable": "1.0.0", "Upload-Length": "5"}
    found = [requests.request(method, server.url + path, headers={**headers, **tus}, timeout=300).status_code for method, path in sent]
    return [*found, devices.register(server, script(len(found)), headers=headers).status_code]


@pytest.mark.parametrize("power, expected", [
    ("all", [200, 200, 200, 201, 201, 404, 404, 200, 201]), ("upload", [403, 403, 403, 201, 201, 403, 403, 403, 403]),
    ("read", [200, 200, 200, 403, 403, 403, 403, 403, 403])])
def test_a_key_does_what_it_is_for(guarded, power, expected):
    key = add(guarded.data, "--power", power)
    assert outcomes(guarded, bearer(key)) == expected
    state = listed(guarded.data)[0][-1]
    assert state == ("in use" if power == "all" else f"in use, {power} only")
    hidden = {**bearer(key), "X-HTTP-Method-Override": "DELETE", "Tus-Resumable": "1.0.0"}
    assert (guarded.get("//files/x", headers=hidden).status_code == 403) == (power == "read")
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


@pytest.mark.parametrize("options, words", [(["--power", "write"], "expected upload, read, work or all"), (["--days", "0"], "expected 1 to 36500")])
def test_a_key_has_a_power_that_exists(tmp_path, options, words):
    ended = keys(tmp_path / "data", "add", *options)
    assert ended.returncode != 0 and words in ended.stderr


def test_the_log_names_the_key_that_removed_a_capture(guarded):
    from pages import insert

    key = add(guarded.data)
    capture = insert(guarded)
    assert requests.delete(f"{guarded.url}/api/v1/captures/{capture}", headers=bearer(key), timeout=300).status_code == 204
    name = listed(guarded.data)[0][0]
    log = guarded.log.read_text()
    assert f"capture {capture} was deleted with the key {name}" in log
    assert f"DELETE /api/v1/captures/{capture}: 204, key {name}, 127.0.0.1" in log
    # Commands, too. Reading is not logged, nor is the key itself.
    assert guarded.post(f"/control/stop?key={key}").status_code == 200 and guarded.get("/status", headers=bearer(key)).ok
    log = guarded.log.read_text()
    assert f"POST /control/stop: 200, key {name}, 127.0.0.1" in log and "/status" not in log and key not in log


def test_the_log_names_the_sender_behind_a_trusted_proxy(start):
    server = start("--require-key", "--trusted-proxy", "127.0.0.1")
    key = add(server.data)
    assert server.post("/control/stop", headers=bearer(key) | {"X-Forwarded-For": "198.51.100.1, 203.0.113.9"}).status_code == 200
    log = server.log.read_text()
    assert f"POST /control/stop: 200, key {listed(server.data)[0][0]}, 203.0.113.9" in log and "198.51.100.1" not in log


def test_a_key_for_uploads_reads_no_file_whatever_its_name(guarded):
    from pages import insert, insert_file

    capture = insert(guarded)
    insert_file(guarded, capture, "session/upload", b"secret")
    path = f"/captures/{capture}/files/session/upload"
    assert guarded.get(path, headers=bearer(add(guarded.data, "--power", "read"))).content == b"secret"
    assert guarded.get(path, headers=bearer(add(guarded.data, "--power", "upload"))).status_code == 403
