"""What a finished upload becomes, and that nothing hostile leaves its place."""

import io
import sqlite3
import tarfile
import zipfile

import pytest

from resumable import MOVIE, SESSION, Tus, stored, tarred, zipped
from test_sessions_hostile import TARS, ZIPS

FORM = b'--b\r\nContent-Disposition: form-data; name="video"\r\n\r\nx\r\n--b--\r\n'


def capture_row(server, capture):
    with sqlite3.connect(server.data / "server.sqlite", timeout=300) as rows:
        return rows.execute("SELECT type, status, reason, name FROM capture WHERE id = ?", [capture]).fetchone()


@pytest.mark.parametrize(
    "body,values,kind,name",
    [
        (zipped(SESSION), {"filename": "session_1.zip"}, "session", "session.zip"),
        (zipped(SESSION, zipfile.ZIP_STORED), {"filename": "x.bin"}, "session", "session.zip"),
        (tarred(SESSION), {"filename": "session_1.tar"}, "session", "session.tar"),
        (tarred(SESSION, tarfile.GNU_FORMAT), {}, "session", "session.tar"),
        (tarred(SESSION, tarfile.USTAR_FORMAT), {}, "session", "session.tar"),
        (tarred([("s/" + "long" * 60 + ".json", b"{}")]), {}, "session", "session.tar"),
        (tarred([("s/" + "long" * 60 + ".json", b"{}")], tarfile.GNU_FORMAT), {}, "session", "session.tar"),
        (zipped([("b/hash_chain.json", b"{}"), ("b/video.mp4", MOVIE)]), {"filename": "b.zip"}, "video", "bundle.zip"),
        (tarred([("hash_chain.json", b"{}")]), {}, "video", "bundle.tar"),
        (zipped(SESSION), {"kind": "bundle"}, "video", "bundle.zip"),
        (FORM, {"filename": "body.multipart"}, "video", "bundle.multipart"),
        (FORM, {"kind": "bundle"}, "video", "bundle.multipart"),
        (MOVIE, {"filename": "recording_1700000000.mov"}, "movie", "recording_1700000000.mov"),
        (MOVIE, {"filename": "../../video_1700000000.MP4"}, "movie", "video_1700000000.MP4"),
        (MOVIE, {"filename": "IMG_1.MOV"}, "movie", "movie.mov"),
        (MOVIE, {"filename": "IMG_1.mp4"}, "movie", "movie.mp4"),
        (MOVIE, {"kind": "movie", "filename": "video_1.mov/../../x"}, "movie", "movie.mov"),
        (MOVIE, {}, "movie", "movie.mov"),
    ],
)
def test_types(server, body, values, kind, name):
    capture = Tus(server).upload(body, **values)
    assert stored(server, capture) == {name: body}
    assert capture_row(server, capture)[:3] == (kind, "processing", None)


@pytest.mark.parametrize(
    "body,values,reason",
    [
        (b"hello", {"filename": "note.txt"}, "no archive"),
        (b"hello", {"filename": "x.mov"}, "not a movie"),
        (b"hello", {"kind": "bundle"}, "no archive"),
        (b"\x1f\x8b\x08" + bytes(100), {"filename": "s.tgz"}, "compressed as a whole"),
        (zipped(SESSION)[:-10], {"filename": "s.zip"}, "cut off"),
        (tarred(SESSION)[:600], {"filename": "s.tar"}, "cut off"),
        (FORM, {"kind": "session"}, "no archive"),
    ],
)
def test_what_nothing_is_known_of_is_kept_in_quarantine(server, body, values, reason):
    capture = Tus(server).upload(body, **values)
    kind, status, found, _ = capture_row(server, capture)
    assert status == "quarantined" and reason in found
    assert list(stored(server, capture).values()) == [body]
    # Quarantine is not the end: the same bytes with the right kind are a capture of their own where they can be one.
    assert Tus(server).upload(body, **values) == capture


@pytest.mark.parametrize("name", ["../../evil.zip", "/etc/passwd", "a\0b", "x" * 5000, "\u202egpj.exe", "..", "C:\\x\\y.zip"])
def test_names_are_for_people_only(server, name):
    before = {path for path in server.data.parent.rglob("*") if "captures" not in path.parts and "server.sqlite" not in path.name}
    capture = Tus(server).upload(zipped(SESSION), filename=name)
    assert list(stored(server, capture)) == ["session.zip"]
    shown = capture_row(server, capture)[3]
    assert len(shown) <= 200 and not any(character in shown for character in "/\\\0\u202e")
    after = {path for path in server.data.parent.rglob("*") if "captures" not in path.parts and "server.sqlite" not in path.name}
    assert after == before


def many(count):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for number in range(count):
            archive.writestr(f"{number}", b"")
    return out.getvalue()


HOSTILE = [(ZIPS, "above"), (ZIPS, "link"), (ZIPS, "bomb"), (ZIPS, "encrypted"), (TARS, "absolute"), (TARS, "kind-3"), (TARS, "twice")]


@pytest.mark.parametrize("cases,name", HOSTILE)
def test_hostile_archives_are_kept_in_quarantine(server, cases, name):
    """Over tus their bytes are kept, out of the way."""
    make, reason = cases[name]
    capture = Tus(server).upload(make(), filename="s.zip" if cases is ZIPS else "s.tar")
    _, status, found, _ = capture_row(server, capture)
    assert status == "quarantined" and reason in found
    assert stored(server, capture) == {"upload.bin": make()}


def test_a_zip_may_have_more_members_than_fit_into_16_bits(server):
    body = many(65_537)
    capture = Tus(server).upload(body, filename="s.zip")
    assert capture_row(server, capture)[1] == "processing"


def test_random_damage_to_archives_is_survived(server):
    import random

    tus, choice = Tus(server), random.Random(5)
    for body, ending in [(zipped(SESSION), "zip"), (tarred(SESSION), "tar")]:
        for _ in range(60):
            damaged = bytearray(body)
            for _ in range(choice.randint(1, 6)):
                damaged[choice.randrange(len(damaged))] = choice.randrange(256)
            damaged = damaged[: choice.randint(1, len(damaged))] if choice.random() < 0.3 else damaged
            status = tus.session.put(f"{server.url}/api/v1/sessions/{choice.random()}.{ending}", data=bytes(damaged), timeout=300).status_code
            assert status in (200, 201, 422)
    assert server.get("/health").ok
