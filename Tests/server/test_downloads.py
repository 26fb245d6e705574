"""Stored files as answers: those of captures and the movies of phones, by one set of rules."""

import hashlib
import os
from types import SimpleNamespace
from urllib.parse import quote

import pytest
import requests
from conftest import Server
from pages import insert, insert_file
from phone import rows
from test_slowmotion import MOVIE, upload
from wire import Wire, cost_of_silent_readers


@pytest.fixture(scope="module", params=["movie", "file"])
def stored(request, tmp_path_factory):
    """A movie that a phone sent, by its own address and as a file of its capture."""
    server = Server(tmp_path_factory.mktemp("downloads") / "data").start()
    try:
        path = upload(server).json()["path"]
        (capture,) = [path.name for path in (server.data / "captures").iterdir()]
        tag = f'"{hashlib.sha256(MOVIE).hexdigest()}"'
        yield SimpleNamespace(
            server=server, tag=tag, kind=request.param, path=path if request.param == "movie" else f"/captures/{capture}/files/video_1761000000.mov")
    finally:
        server.kill()


@pytest.mark.parametrize(
    "header, status, expected",
    [
        ("bytes=0-9", 206, slice(0, 10)),
        ("bytes=-7", 206, slice(-7, None)),
        (f"bytes={len(MOVIE)}-", 416, None),
        ("bytes=99999999-5", 200, slice(0, None)),
        ("bytes=0-1,5-6", 200, slice(0, None)),
    ],
)
def test_parts(stored, header, status, expected):
    answer = stored.server.get(stored.path, headers={"Range": header})
    assert answer.status_code == status
    if status == 416:
        assert answer.headers["Content-Range"] == f"bytes */{len(MOVIE)}"
        return
    assert answer.content == MOVIE[expected] and answer.headers["ETag"] == stored.tag
    if status == 206:
        start, stop, _ = expected.indices(len(MOVIE))
        assert answer.headers["Content-Range"] == f"bytes {start}-{stop - 1}/{len(MOVIE)}"


def test_heads_have_no_body_and_no_parts(stored):
    for headers in ({}, {"Range": "bytes=0-9"}):
        head = requests.head(stored.server.url + stored.path, headers=headers, timeout=300)
        assert (head.status_code, head.headers["Content-Length"], head.headers["Accept-Ranges"]) == (200, str(len(MOVIE)), "bytes")
        assert head.headers["ETag"] == stored.tag and head.headers["Content-Type"] == "video/quicktime" and "Content-Range" not in head.headers
    assert requests.head(stored.server.url + stored.path + "x", timeout=300).status_code == 404
    # The next request on the same connection is answered, so nothing followed the head.
    with requests.Session() as session:
        for _ in range(3):
            assert session.head(stored.server.url + stored.path, timeout=300).status_code == 200
            assert session.get(stored.server.url + stored.path, timeout=300).content == MOVIE


def test_conditions(stored):
    get = stored.server.get
    for known in (stored.tag, "*", f'"other", {stored.tag}', f"W/{stored.tag}"):
        answer = get(stored.path, headers={"If-None-Match": known, "Range": "bytes=0-1"})
        assert (answer.status_code, answer.content, answer.headers["ETag"]) == (304, b"", stored.tag), known
    assert get(stored.path, headers={"If-None-Match": '"other"'}).status_code == 200
    assert get(stored.path, headers={"Range": "bytes=0-1", "If-Range": stored.tag}).status_code == 206
    for other in ('"other"', f"W/{stored.tag}", "Wed, 21 Oct 2026 07:28:00 GMT"):
        assert get(stored.path, headers={"Range": "bytes=0-1", "If-Range": other}).content == MOVIE
    for method in ("GET", "HEAD"):
        with Wire(stored.server, f"{method} {stored.path} HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: {stored.tag}\r\nConnection: close\r\n\r\n") as wire:
            assert wire.rest().split(b"\r\n\r\n")[1:] == [b""]


def test_a_movie_opens_in_place_and_a_file_of_a_capture_does_not(stored):
    headers = stored.server.get(stored.path).headers
    disposition, policy = headers["Content-Disposition"], headers.get("Content-Security-Policy")
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["Cache-Control"] == "private, no-cache"
    if stored.kind == "movie":
        assert disposition.startswith("inline; filename=\"video_1761000000_") and policy is None
    else:
        assert disposition == "attachment; filename=\"video_1761000000.mov\"; filename*=UTF-8''video_1761000000.mov"
        assert policy == "default-src 'none'; sandbox"


@pytest.mark.parametrize(
    "name, media, plain",
    [
        ("hash_chain.json", "application/json", "hash_chain.json"),
        ("session/rgb/000000.jpg", "image/jpeg", "000000.jpg"),
        ("session/frames.tsv", "text/tab-separated-values", "frames.tsv"),
        ("depth.gz", "application/gzip", "depth.gz"),
        ("a.html", "application/octet-stream", "a.html"),
        ("a.svg", "application/octet-stream", "a.svg"),
        ("VIDEO.MOV", "video/quicktime", "VIDEO.MOV"),
        ("no ending", "application/octet-stream", "no ending"),
        ('\u00fc "x";\u202efdp.exe', "application/octet-stream", "_ _x___fdp.exe"),
        ("a%2fb.txt", "text/plain", "a_2fb.txt"),
    ],
)
def test_types_and_names(common, name, media, plain):
    capture = insert(common)
    insert_file(common, capture, name, b"<script>alert(1)</script>")
    answer = common.get(f"/captures/{capture}/files/{quote(name)}")
    assert (answer.status_code, answer.content) == (200, b"<script>alert(1)</script>")
    assert answer.headers["Content-Type"] == media
    last = name.split("/")[-1]
    assert answer.headers["Content-Disposition"] == f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(last, safe='')}"


def test_an_empty_file(common):
    capture = insert(common)
    insert_file(common, capture, "empty.bin", b"")
    path = f"/captures/{capture}/files/empty.bin"
    assert (common.get(path).status_code, common.get(path).content) == (200, b"")
    assert common.get(path, headers={"Range": "bytes=0-"}).status_code == 416


def test_nothing_but_files_of_the_row_is_served(stored):
    capture = next((stored.server.data / "captures").iterdir()).name
    for path in ("files/nothing", "files/..%2f..%2fserver.sqlite", "files/../../../server.sqlite", "files/", "manifest.json", "dataset/manifest.json"):
        for method in (stored.server.get, lambda path: requests.head(stored.server.url + path, timeout=300)):
            assert method(f"/captures/{capture}/{path}").status_code == 404, path
    assert stored.server.get("/captures/..%2f.work/thumbnail.jpg").status_code == 404


def test_a_file_that_is_gone_ends_the_connection(common):
    """No shorter body than was promised is ever taken for the file."""
    capture = insert(common)
    insert_file(common, capture, "video.mp4", os.urandom(3 << 20))
    path = common.data / "captures" / capture / "video.mp4"
    os.truncate(path, 1 << 20)
    with pytest.raises(requests.RequestException):
        common.get(f"/captures/{capture}/files/video.mp4")
    assert common.get("/health").status_code == 200


def test_two_movies_of_one_name_are_two(server):
    """Movies that came by other ways may have any name; the listed one has the capture's id in it."""
    movies = []
    for number in range(2):
        movies.append(insert(server, type="movie", name="clip.mov"))
        insert_file(server, movies[-1], "movie.mov", MOVIE + bytes([number]))
    listed = [video["filename"] for video in server.get("/videos").json()["videos"]]
    assert len(set(listed)) == 2
    assert sorted(server.get(f"/uploads/{name}").content for name in listed) == [MOVIE + b"\0", MOVIE + b"\1"]
    assert server.get("/uploads/clip.mov").status_code == 404
    rows(server, "UPDATE capture SET status = 'quarantined' WHERE id = ?", movies[0])
    assert len(server.get("/videos").json()["videos"]) == 1


def test_a_reader_that_takes_nothing_costs_little(start):
    server = start("--connections", 2000)
    capture = insert(server)
    insert_file(server, capture, "a.bin", bytes(20_000_000))
    assert cost_of_silent_readers(server, [f"/captures/{capture}/{path}" for path in ("files/a.bin", "download")], 50) < 60e6
