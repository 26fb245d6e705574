"""Sessions as archives by PUT, and as folders, file by file."""

import base64
import hashlib
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from conftest import bytes_below
from phone import error, rows
from resumable import SESSION, Tus, raw, sha256, stored, tarred, zipped
from wire import Wire


class Sessions:
    def __init__(self, server):
        self.server, self.session = server, Tus(server).session

    def __call__(self, method, path, **options):
        return self.session.request(method, f"{self.server.url}/api/v1/sessions/{path}", timeout=300, **options)


@pytest.fixture
def sessions(server):
    return Sessions(server)


FILES = {"metadata.json": b"{}", "poses.json": b"[]", "rgb/000000.jpg": b"\xff\xd8\xff\xd9", "rgb/deep/x y+é.bin": b""}


def send(sessions, name, files=FILES):
    for path, data in files.items():
        answer = sessions("PUT", f"{name}/files/{path}", data=data)
        assert answer.status_code == 201, answer.text


# Archives


@pytest.mark.parametrize("body,ending", [(zipped(SESSION), "zip"), (tarred(SESSION), "tar")])
def test_an_archive(server, sessions, body, ending):
    answer = sessions("PUT", f"session_1.{ending}", data=body)
    assert answer.status_code == 201
    data = answer.json()["data"]
    capture = data["capture_id"]
    assert answer.headers["X-Capture-Id"] == capture
    assert answer.headers["Location"] == f"/api/v1/captures/{capture}"
    assert data["verification_url"] == f"{server.url}/verify/{capture}"
    assert (data["type"], data["status"], data["name"], data["bytes"]) == ("session", "processing", f"session_1.{ending}", len(body))
    assert stored(server, capture) == {f"session.{ending}": body}
    again = sessions("PUT", f"session_1.{ending}", data=body)
    assert (again.status_code, again.json()["data"]) == (200, data)
    assert Tus(server).upload(body, filename="other") == capture
    others = sessions("PUT", f"session_1.{ending}", data=zipped([("a", b"b")]) if ending == "zip" else tarred([("a", b"b")]))
    assert error(others) == (409, "NAME_TAKEN")
    assert len(list((server.data / "captures").iterdir())) == 1
    assert list((server.data / "staging").iterdir()) == []


def test_an_archive_in_chunks_and_a_project_of_another_name(server, sessions):
    body = zipped(SESSION)
    answer = sessions("PUT", "s%C3%A9ance%201.zip", data=iter([body[:100], body[100:]]))
    assert answer.status_code == 201 and answer.json()["data"]["name"] == "séance 1.zip"


def test_digests_are_checked(server, sessions):
    body = zipped(SESSION)
    right, wrong = hashlib.sha256(body).digest(), hashlib.sha256(b"").digest()

    def structured(digest):
        return f"sha-256=:{base64.b64encode(digest).decode()}:"

    for headers in [
        {"Content-Digest": structured(wrong)},
        {"X-Content-SHA256": wrong.hex()},
        {"X-Content-SHA256": right.hex(), "Content-Digest": structured(wrong)},
    ]:
        assert error(sessions("PUT", "s.zip", data=body, headers=headers)) == (400, "CHECKSUM_MISMATCH")
    for headers in [{"Content-Digest": "sha-256=abc"}, {"X-Content-SHA256": "abc"}, {"Content-Digest": "sha-256=:YQ==:"}]:
        assert error(sessions("PUT", "s.zip", data=body, headers=headers)) == (400, "VALIDATION_ERROR")
    assert list((server.data / "captures").iterdir()) == []
    headers = {"Content-Digest": "sha-512=:AAAA:, " + structured(right), "X-Content-SHA256": right.hex().upper()}
    assert sessions("PUT", "s.zip", data=body, headers=headers).status_code == 201


def test_what_is_no_archive_is_refused(server, sessions):
    body = zipped(SESSION)
    for name, data in [("s.zip", b""), ("s.zip", b"hello"), ("s.zip", tarred(SESSION)), ("s.tar", body), ("s.zip", body[:-30])]:
        assert error(sessions("PUT", name, data=data)) == (422, "ARCHIVE_REFUSED")
    assert sessions("PUT", "s.rar", data=body).status_code == 404
    assert sessions("PUT", ".zip", data=body).status_code == 400
    assert sessions("PUT", "s.zip", data=body).status_code == 201


@pytest.mark.parametrize("chunked", [False, True])
def test_a_cut_archive_leaves_nothing(server, sessions, chunked):
    body = zipped([*SESSION, ("s/video.mov", random.Random(3).randbytes(300_000))])
    head = "PUT /api/v1/sessions/s.zip HTTP/1.1\r\nHost: localhost\r\n"
    if chunked:
        # All bytes of the archive, but not the end of the body.
        connection = raw(server, head + "Transfer-Encoding: chunked\r\n\r\n", b"%x\r\n" % len(body) + body + b"\r\n")
    else:
        connection = raw(server, head + f"Content-Length: {len(body) + 1}\r\n\r\n", body)
    server.until(lambda: list((server.data / "staging").iterdir()))
    connection.close()
    server.until(lambda: not list((server.data / "staging").iterdir()))
    assert list((server.data / "captures").iterdir()) == []
    assert sessions("PUT", "s.zip", data=body).status_code == 201


def test_the_same_archive_at_once_is_one_capture(server):
    body = zipped(SESSION)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: Sessions(server)("PUT", "s.zip", data=body), range(8)))
    assert sorted(answer.status_code for answer in answers) == [200] * 7 + [201]
    assert len({answer.headers["X-Capture-Id"] for answer in answers}) == 1
    assert len(list((server.data / "captures").iterdir())) == 1


# Folders


def test_a_folder(server, sessions):
    send(sessions, "session_1")
    expected = [{"name": name, "size": len(data), "sha256": sha256(data)} for name, data in FILES.items()]
    answer = sessions("POST", "session_1/complete", json=expected)
    assert answer.status_code == 201, answer.text
    capture = answer.json()["data"]["capture_id"]
    assert answer.json()["data"]["bytes"] == sum(map(len, FILES.values()))
    assert stored(server, capture) == {f"session/{name}": data for name, data in FILES.items()}
    found = rows(server, "SELECT name, bytes, sha256 FROM file WHERE capture = ?", capture)
    assert sorted(found) == sorted((f"session/{name}", len(data), sha256(data)) for name, data in FILES.items())
    assert list((server.data / "uploads").iterdir()) == []
    # An archive has a name of its own, with its ending.
    assert sessions("PUT", "session_1.zip", data=zipped(SESSION)).status_code == 201
    assert sessions("PUT", "session_1.zip", data=zipped(SESSION[:2])).status_code == 409

    again = sessions("POST", "session_1/complete", json=expected)
    assert (again.status_code, again.headers["X-Capture-Id"]) == (200, capture)
    assert sessions("PUT", "session_1/files/metadata.json", data=b"{}").status_code == 200
    assert sessions("PUT", "session_1/files/metadata.json", data=b"[]").status_code == 409
    assert sessions("PUT", "session_1/files/new", data=b"").status_code == 409
    assert sessions("DELETE", "session_1").status_code == 409
    assert sessions("HEAD", "session_1/files/metadata.json").headers["X-Content-SHA256"] == sha256(b"{}")
    # The same files under another name are the same capture.
    send(sessions, "session_2")
    other = sessions("POST", "session_2/complete")
    assert (other.status_code, other.headers["X-Capture-Id"]) == (200, capture)


def test_a_folder_is_resumed_file_by_file(server, sessions):
    names = list(FILES)
    send(sessions, "s", {name: FILES[name] for name in names[:2]})
    server.restart()
    assert sessions("HEAD", f"s/files/{names[0]}").headers["X-Content-SHA256"] == sha256(FILES[names[0]])
    missing = sessions("HEAD", f"s/files/{names[2]}")
    assert (missing.status_code, missing.content) == (404, b"")
    listed = sessions("GET", "s").json()["data"]
    assert [file["name"] for file in listed["files"]] == sorted(names[:2])
    assert listed["count"] == 2 and "capture_id" not in listed
    assert sessions("PUT", f"s/files/{names[0]}", data=FILES[names[0]]).status_code == 200
    send(sessions, "s", {name: FILES[name] for name in names[2:]})
    capture = sessions("POST", "s/complete").headers["X-Capture-Id"]
    assert stored(server, capture) == {f"session/{name}": data for name, data in FILES.items()}


def test_lists_have_pages(sessions):
    files = {f"f{number:02}": b"x" for number in range(7)}
    send(sessions, "s", files)
    names, cursor = [], ""
    while cursor is not None:
        page = sessions("GET", f"s?limit=3&cursor={cursor}").json()
        names += [file["name"] for file in page["data"]["files"]]
        cursor = page["meta"].get("next")
    assert names == list(files)
    assert sessions("GET", "s?limit=0").status_code == 400
    assert sessions("GET", "unknown").status_code == 404


def test_other_bytes_under_a_known_name(sessions):
    send(sessions, "s", {"a/b": b"1"})
    assert sessions("PUT", "s/files/a/b", data=b"1").status_code == 200
    for path in ["a/b", "a", "a/b/c"]:
        assert error(sessions("PUT", f"s/files/{path}", data=b"2")) == (409, "NAME_TAKEN"), path
    assert sessions("PUT", "s/files/a/c", data=b"2", headers={"X-Content-SHA256": sha256(b"3")}).status_code == 400
    assert sessions("GET", "s").json()["data"]["count"] == 1
    # Start again from nothing.
    assert sessions("DELETE", "s").status_code == 204
    assert sessions("GET", "s").status_code == 404
    send(sessions, "s", {"a": b"2"})


OUTSIDE = [
    "%2e%2e/x", "a/%2e%2e/%2e%2e/x", "%2Fetc%2Fpasswd", "a%2Fb", "a%5C..%5Cb", "a//b", "a%00b", "a/%2e/b", "a%0Ab", "%FF", "a/",
    "x" * 256, "/".join(["d"] * 33), "/".join(["x" * 100] * 11), "%E2%80%AEgpj.exe", "%",
]  # fmt: skip
WRONG_NAMES = ["%2e%2e", "%2e", ".hidden", "a%2Fb", "a%00", "%5C", "x" * 256]


def test_names_of_files_and_sessions_that_could_leave_the_folder_are_refused(server):
    requests = [f"PUT /api/v1/sessions/s/files/{path}" for path in OUTSIDE]
    for name in WRONG_NAMES:
        requests += [f"PUT /api/v1/sessions/{name}/files/a", f"PUT /api/v1/sessions/{name}.zip", f"POST /api/v1/sessions/{name}/complete"]
    for request in requests:
        with Wire(server, f"{request} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx") as wire:
            assert wire.status() in (400, 404), request
    assert list((server.data / "uploads").iterdir()) == list((server.data / "captures").iterdir()) == []


def test_a_list_must_agree(sessions):
    send(sessions, "s", {"a": b"1", "b": b"22"})
    a, b = {"name": "a", "size": 1, "sha256": sha256(b"1")}, {"name": "b", "size": 2}

    def complete(files):
        answer = sessions("POST", "s/complete", json=files)
        return answer.status_code, answer.json().get("error", {}).get("code")

    assert complete([a, b, {"name": "c"}]) == (409, "FILES_MISSING")
    assert complete([a]) == (409, "FILES_NOT_LISTED")
    assert complete([a, {"name": "b", "size": 3}]) == (422, "FILES_DIFFER")
    assert complete([a, {"name": "b", "sha256": sha256(b"")}]) == (422, "FILES_DIFFER")
    assert complete([a, b, b]) == (400, "VALIDATION_ERROR")
    assert complete({"files": []}) == (400, "VALIDATION_ERROR")
    assert complete([a, b]) == (201, None)
    assert sessions("POST", "unknown/complete").status_code == 404


def test_a_folder_has_a_limited_number_of_files(server, sessions):
    send(sessions, "s", {"a": b"1"})
    rows(server, "UPDATE folder SET files = 100000")
    assert error(sessions("PUT", "s/files/b", data=b"1")) == (422, "TOO_MANY_FILES")
    assert len(list(next((server.data / "uploads").iterdir()).iterdir())) == 1


def test_the_same_file_at_once_is_stored_once(server, sessions):
    bodies = [b"1", b"2"] * 6
    with ThreadPoolExecutor(len(bodies)) as pool:
        statuses = pool.map(lambda body: Sessions(server)("PUT", "s/files/a", data=body).status_code, bodies)
    answers = list(zip(bodies, statuses, strict=True))
    won = [body for body, status in answers if status == 201]
    assert len(won) == 1
    assert all(status == (409 if body != won[0] else 200) or status == 201 for body, status in answers)
    capture = sessions("POST", "s/complete").headers["X-Capture-Id"]
    assert stored(server, capture) == {"session/a": won[0]}


def test_files_that_arrive_during_completion_are_never_lost(server, sessions):
    """A file that was acknowledged is in the capture, or the completion is refused."""
    for number in range(5):
        name = f"s{number}"
        send(sessions, name, {f"f{index}": b"%d" % number for index in range(3)})
        late = []
        thread = threading.Thread(target=lambda: late.append(Sessions(server)("PUT", f"{name}/files/late", data=b"late")))
        thread.start()
        answer = sessions("POST", f"{name}/complete")
        thread.join()
        if answer.status_code == 201:
            files = stored(server, answer.headers["X-Capture-Id"])
            assert ("session/late" in files) == (late[0].status_code == 201)
        else:
            assert error(answer) == (409, "SESSION_CHANGED")


def test_an_abandoned_folder_is_swept(server, sessions):
    send(sessions, "s")
    server.kill()
    rows(server, "UPDATE folder SET expiresAt = 1")
    server.start()
    server.until(lambda: sessions("GET", "s").status_code == 404)
    server.until(lambda: not list((server.data / "uploads").iterdir()))


def test_a_kill_while_files_arrive_loses_none_that_was_acknowledged(server, sessions):
    """Killed after so many bytes of one, or after all of them, perhaps before its answer."""
    choice, acknowledged = random.Random(4), {}

    def another(size):
        return f"rgb/{len(acknowledged):06}.jpg", choice.randbytes(size)

    for turn in range(5):
        for _ in range(3 * turn + 1):
            name, data = another(choice.randrange(20_000))
            assert sessions("PUT", f"s/files/{name}", data=data).status_code in (200, 201)
            acknowledged[name] = data
        name, data = another(300_000)
        part = len(data) if turn % 2 else 70_000 * (turn + 1)
        connection = raw(server, f"PUT /api/v1/sessions/s/files/{name} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n", data[:part])
        server.until(lambda: bytes_below(server.data / "staging") >= 65_536 or sessions("GET", "s").json()["data"]["count"] > len(acknowledged))
        server.kill()
        connection.close()
        server.start()
        assert sessions("PUT", f"s/files/{name}", data=data).status_code in (200, 201)
        acknowledged[name] = data
    capture = sessions("POST", "s/complete").headers["X-Capture-Id"]
    assert stored(server, capture) == {f"session/{name}": data for name, data in acknowledged.items()}


def test_files_of_an_incomplete_session_count_against_the_quota(start):
    server = start("--project-quota", 1000)

    def put(name, count):
        return requests.put(f"{server.url}/api/v1/sessions/s/files/{name}", data=bytes(count), timeout=300)

    assert put("a", 600).status_code == 201
    assert error(put("b", 401)) == (507, "QUOTA_EXCEEDED")
    # What is there already takes no room.
    assert put("a", 600).status_code == 200 and put("b", 400).status_code == 201
    assert server.post("/api/v1/sessions/s/complete").status_code == 201
    assert requests.delete(f"{server.url}/api/v1/captures/{server.get('/api/v1/captures').json()['data'][0]['capture_id']}", timeout=300).status_code == 204
    assert requests.put(f"{server.url}/api/v1/sessions/t/files/a", data=bytes(1000), timeout=300).status_code == 201
