"""Movies of the slow-motion app: they are kept whatever happens, or the phone is told nothing."""

import hashlib
import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
import requests
from devices import add_key, database
from resumable import stored
from wire import Wire, post

MOVIE = b"\0\0\0\x14ftypqt  \0\0\0\0qt  " + bytes(range(256)) * 400
NAME = "video_1761000000.mov"


def form(parts, boundary=None, end=True):
    """A body as the app builds it: (name, filename or None, bytes) parts."""
    boundary = boundary or str(uuid.UUID(int=7)).upper()
    body = b""
    for name, filename, data in parts:
        body += f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"'.encode()
        body += f'; filename="{filename}"\r\nContent-Type: video/quicktime\r\n\r\n'.encode() if filename is not None else b"\r\n\r\n"
        body += data + b"\r\n"
    return body + (f"--{boundary}--\r\n".encode() if end else b""), f"multipart/form-data; boundary={boundary}"


def send(server, body, content_type, path="/upload"):
    return server.post(path, data=body, headers={"Content-Type": content_type})


def upload(server, data=MOVIE, name=NAME, field="video"):
    return send(server, *form([(field, name, data)]))


def rows(server, columns="*"):
    with closing(database(server)) as found:
        return [dict(row) for row in found.execute(f"SELECT {columns} FROM capture ORDER BY receivedAt, rowid")]


def test_a_movie_is_stored_under_the_name_that_has_its_start_time(server):
    answer = upload(server)
    assert answer.status_code == 200
    row = rows(server)[0]
    listed = f"video_1761000000_{row['id'][:8]}.mov"
    digest = hashlib.sha256(MOVIE).hexdigest()
    assert answer.json() == {"success": True, "filename": listed, "size": len(MOVIE), "path": f"/uploads/{listed}", "sha256": digest}
    assert (row["type"], row["status"], row["bytes"] > len(MOVIE)) == ("movie", "processing", True)
    files = stored(server, row["id"])
    assert files[NAME] == MOVIE
    note = json.loads(files["received.json"])
    assert note["files"] == [NAME] and note["fields"] == {}
    assert server.get(answer.json()["path"]).content == MOVIE


def test_movies_of_all_sizes_arrive_whole_by_any_field(server):
    for size, field in [(1, "video"), (100, "video"), (65_535, "video"), (65_536, "video"), (262_144, "file"), (5_000_001, "video")]:
        movie = (MOVIE * (size // len(MOVIE) + 1))[:size]
        name = upload(server, movie, field=field).json()["filename"]
        assert hashlib.sha256(server.get(f"/uploads/{name}").content).digest() == hashlib.sha256(movie).digest()
        assert rows(server)[-1]["status"] == ("processing" if size > 20 else "quarantined")


def test_the_phone_keeps_a_movie_that_its_app_could_not_read(server):
    # The app's boundary follows the header directly when it could not read its file, and any answer would make it delete the file.
    body = b'--B\r\nContent-Disposition: form-data; name="video"; filename="video_1.mov"\r\nContent-Type: video/quicktime\r\n\r\n--B--\r\n'
    for sent in ((body, "multipart/form-data; boundary=B"), form([("video", NAME, b"")])):
        with pytest.raises(requests.ConnectionError):
            send(server, *sent)
    assert rows(server) == [] and not list((server.data / "staging").iterdir())


@pytest.mark.parametrize(
    "body, content_type",
    [
        form([("video", NAME, MOVIE)], end=False),
        (form([("video", NAME, MOVIE)])[0][:-20], form([])[1]),
        (MOVIE, "multipart/form-data; boundary=B"),
        (MOVIE, "multipart/form-data"),
        (b"preamble" + form([("video", NAME, MOVIE)])[0], form([])[1]),
        form([("video", NAME, b"no movie at all")]),
        (form([("video", NAME, MOVIE)])[0] + b"", "application/x-www-form-urlencoded"),
        (b"--B\r\n" + b"X-Long: " + b"a" * 10_000 + b"\r\n\r\n" + MOVIE, "multipart/form-data; boundary=B"),
    ],
)
def test_an_odd_upload_is_kept_in_quarantine_with_every_byte(server, body, content_type):
    answer = send(server, body, content_type)
    assert (answer.status_code, answer.json()["success"]) == (200, True)
    row = rows(server)[0]
    assert row["status"] == "quarantined" and row["reason"]
    kept = b"".join(data for name, data in stored(server, row["id"]).items() if name != "received.json")
    # What is of the movie in the body is of it in the store, too.
    core = body[body.find(b"\0\0\0\x14ftyp") :] if b"ftyp" in body else b"no movie at all"
    assert core[: len(MOVIE)] in kept or core[:-40] in kept
    assert server.get("/videos").json()["videos"] == []


@pytest.mark.parametrize(
    "header", [f'filename="{NAME}"', f"filename*=UTF-8''{NAME}", f'filename=""; filename*=utf-8\'en\'{NAME[:5]}%{ord(NAME[5]):02x}{NAME[6:]}'])
def test_a_form_may_have_a_preamble_and_extended_names(server, header):
    """RFC 2046, section 5.1.1; RFC 8187. The name of a movie is the only start time there is."""
    head = f'To readers without forms\r\n--B\r\nContent-Disposition: form-data; name="video"; {header}\r\n\r\n'.encode()
    answer = send(server, head + MOVIE + b"\r\n--B--\r\n", "multipart/form-data; boundary=B")
    assert answer.json()["filename"].startswith(NAME.split(".")[0] + "_") and server.get(answer.json()["path"]).content == MOVIE
    assert rows(server)[0]["status"] == "processing"


@pytest.mark.parametrize("pieces", [[MOVIE], [MOVIE[:1000], MOVIE[1000:]]])
def test_a_bare_movie_without_a_form_is_kept_also_in_chunks(server, pieces):
    answer = send(server, iter(pieces) if pieces[1:] else pieces[0], "video/quicktime")
    assert answer.status_code == 200 and server.get(answer.json()["path"]).content == MOVIE


def test_several_files_and_texts_are_all_kept(server):
    answer = send(server, *form([("fps", None, b"240"), ("video", NAME, MOVIE), ("more", "../../b.mov", b"second"), ("device", None, b"iPhone")]))
    assert answer.status_code == 200
    files = stored(server, rows(server)[0]["id"])
    assert files[NAME] == MOVIE and files["part-2-movie.mov"] == b"second"
    assert json.loads(files["received.json"])["fields"] == {"fps": "240", "device": "iPhone"}
    assert server.get(answer.json()["path"]).content == MOVIE


def test_without_any_file_it_is_400(server):
    for sent in [(b"", "multipart/form-data; boundary=B"), form([]), form([("note", None, b"hello")]), (b"", "text/plain")]:
        answer = send(server, *sent)
        assert (answer.status_code, answer.json()) == (400, {"success": False, "error": "No file uploaded"})
        assert rows(server) == []


@pytest.mark.parametrize(
    "name", ["../../evil.mov", "/etc/passwd", "a\\..\\b.mov", "video_1.mov/../../x", "n" * 4000, "\u202evom.exe", "received.json", "video_12345678901234567890.mov"]
)
def test_a_clients_name_is_never_a_path(server, name):
    body, content_type = form([("video", "NAME", MOVIE)])
    answer = send(server, body.replace(b"NAME", name.encode()), content_type)
    assert answer.status_code == 200
    row = rows(server)[0]
    assert set(stored(server, row["id"])) == {"movie.mov", "received.json"}
    assert answer.json()["filename"] == f"video_{row['receivedAt']}_{row['id'][:8]}.mov"
    assert {path.name for path in server.data.parent.iterdir()} <= {"data0", "data0.log"}


def test_a_movie_that_is_sent_again_is_the_same_movie_and_with_another_file_another(server):
    first = upload(server)
    assert upload(server).json() == first.json()
    with ThreadPoolExecutor(8) as pool:
        assert all(answer.json() == first.json() for answer in pool.map(lambda _: upload(server), range(16)))
    assert len(rows(server)) == 1 and len(list((server.data / "captures").iterdir())) == 1
    for _ in range(2):
        assert send(server, *form([("video", NAME, MOVIE), ("more", "b.mov", b"second")])).status_code == 200
    assert len(rows(server)) == 2 and stored(server, rows(server)[1]["id"])["part-2-movie.mov"] == b"second"


def test_movies_of_the_same_second_are_two(server):
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: upload(server, MOVIE + bytes([n])), range(20)))
    assert len({answer.json()["filename"] for answer in answers}) == 20


def test_below_the_reserve_there_is_no_answer(start):
    server = start("--reserve", 1 << 60)
    with pytest.raises(requests.ConnectionError):
        upload(server)
    with Wire(server, post("/upload", "Content-Length: 1000000", body="x" * 1000)) as wire:
        assert wire.rest() == b""
    assert not list((server.data / "staging").iterdir())


def test_over_the_quota_there_is_no_answer(start):
    server = start("--project-quota", len(MOVIE) + 1000)
    assert upload(server).status_code == 200
    with pytest.raises(requests.ConnectionError):
        upload(server, MOVIE + b"another")
    assert len(rows(server)) == 1 and not list((server.data / "staging").iterdir())


def test_when_the_disk_fails_there_is_no_answer(server):
    (server.data / "staging").rmdir()
    with pytest.raises(requests.ConnectionError):
        upload(server)
    (server.data / "staging").mkdir()
    assert upload(server).status_code == 200


def test_a_broken_or_too_large_body_gets_no_answer(server):
    for body in ["5\r\nhello\r\nzz\r\n", "5\r\nhello\r\n"]:
        with Wire(server, post("/upload", "Transfer-Encoding: chunked", "Content-Type: video/mp4", body=body)) as wire:
            assert wire.half_close().rest() == b""
    # What is too large is dropped by its head.
    with Wire(server, post("/upload", f"Content-Length: {(64 << 30) + 1}", "Content-Type: video/mp4")) as wire:
        assert wire.rest() == b""
    assert rows(server) == []


def test_a_chunked_movie_that_reaches_the_reserve_is_dropped_before_its_end(start, small_disk):
    server = start("--reserve", 12 << 20, data=small_disk / "data")
    with Wire(server, post("/upload", "Transfer-Encoding: chunked", "Content-Type: video/mp4")) as wire:
        try:
            for _ in range(18):
                wire.send(b"100000\r\n" + bytes(1 << 20) + b"\r\n")
        except (BrokenPipeError, ConnectionResetError):
            pass
        # The body has not ended, so only the server can have.
        assert wire.rest() == b""
    server.until(lambda: not list((server.data / "staging").iterdir()))
    assert upload(server).status_code == 200


def test_the_list_has_the_newest_first(server):
    names = [upload(server, MOVIE + bytes([n]), f"video_{1761000000 - n}.mov").json()["filename"] for n in range(5)]
    answer = server.get("/videos").json()
    assert answer["success"] is True
    assert [video["filename"] for video in answer["videos"]] == names[::-1]
    assert answer["videos"][0]["size"] == len(MOVIE) + 1
    assert server.get("/videos?limit=2").json()["videos"] == answer["videos"][:2]
    assert set(answer["videos"][0]) == {"filename", "size", "created"} and answer["videos"][0]["created"].endswith("Z")


UNLISTED = [
    "%2e%2e/server.sqlite", "..%2fserver.sqlite", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "../server.sqlite", "%00", "received.json", NAME, "%", "%ff",
    "x'%20OR%20'1'='1",
]  # fmt: skip


def test_nothing_but_listed_names_is_served(server):
    upload(server)
    for path in UNLISTED:
        with Wire(server, f"GET /uploads/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n") as wire:
            assert wire.statuses() in ([404], [400]), path


def test_without_a_key_a_phone_gets_no_answer_and_others_401(start):
    server = start("--require-key")
    key = add_key(server, "--project", "lab")
    for path in ["/upload", "/upload?key=wrong", "/k/wrong/upload"]:
        with pytest.raises(requests.ConnectionError):
            send(server, *form([("video", NAME, MOVIE)]), path)
    for path in ["/videos", "/uploads/x.mov", "/status", "/live", "/camera", "/viewer?key=wrong", "/k/wrong/camera"]:
        assert server.get(path).status_code == 401, path
    assert server.post("/control/start").status_code == 401
    assert rows(server) == []
    for n, path in enumerate([f"/upload?key={key}", f"/k/{key}/upload"]):
        assert send(server, *form([("video", NAME, MOVIE + bytes([n]))]), path).status_code == 200
    assert send(server, *form([("video", NAME, MOVIE)]), f"/upload?key={key}").status_code == 200
    assert {row["project"] for row in rows(server)} == {"lab"}
    assert len(server.get(f"/videos?key={key}").json()["videos"]) == 3
    assert server.get("/videos", headers={"Authorization": f"Bearer {key}"}).status_code == 200
    assert server.get("/videos", auth=("any", key)).status_code == 200
    assert key not in server.log.read_text()


def test_memory_does_not_grow_with_movies(server):
    def pieces():
        yield MOVIE[:20]
        for _ in range(200):
            yield bytes(1 << 20)

    upload(server)
    before = server.memory()
    answer = server.post("/upload", data=pieces(), headers={"Content-Type": "video/quicktime"})
    assert answer.json()["size"] == 20 + (200 << 20)
    with requests.get(server.url + answer.json()["path"], stream=True, timeout=300) as movie:
        assert sum(map(len, movie.iter_content(1 << 20))) == 20 + (200 << 20)
    assert server.memory() - before < 40e6
