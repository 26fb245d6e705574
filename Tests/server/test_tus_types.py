"""What a finished upload becomes, and that nothing hostile leaves its place."""

import io
import random
import tarfile
import zipfile

import pytest
import requests

from phone import rows
from resumable import MOVIE, SESSION, Tus, stored, tarred, zipped
from test_sessions_hostile import TARS, ZIPS

FORM = b'--b\r\nContent-Disposition: form-data; name="video"\r\n\r\nx\r\n--b--\r\n'


@pytest.fixture
def uploaded(common):
    """Uploads bytes: the capture and its row. It is deleted afterwards, for the same bytes would be the same capture in the next test."""
    captures = set()

    def uploaded(body, **values):
        captures.add(capture := Tus(common).upload(body, **values))
        (row,) = rows(common, "SELECT type, status, reason, name FROM capture WHERE id = ?", capture)
        return capture, *row

    yield uploaded
    for capture in captures:
        assert requests.delete(f"{common.url}/api/v1/captures/{capture}", timeout=300).status_code == 204


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
def test_types(common, uploaded, body, values, kind, name):
    capture, *row = uploaded(body, **values)
    assert stored(common, capture) == {name: body}
    assert row[:3] == [kind, "processing", None]


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
def test_what_nothing_is_known_of_is_kept_in_quarantine(common, uploaded, body, values, reason):
    capture, _, status, found, _ = uploaded(body, **values)
    assert status == "quarantined" and reason in found
    assert list(stored(common, capture).values()) == [body]
    # Quarantine is not the end: the same bytes with the right kind are a capture of their own where they can be one.
    assert uploaded(body, **values)[0] == capture


@pytest.mark.parametrize("name", ["../../evil.zip", "/etc/passwd", "a\0b", "x" * 5000, "\u202egpj.exe", "..", "C:\\x\\y.zip"])
def test_names_are_for_people_only(common, uploaded, name):
    def others():
        return {path for path in common.data.parent.rglob("*") if "captures" not in path.parts and "server.sqlite" not in path.name}

    before = others()
    capture, *_, shown = uploaded(zipped(SESSION), filename=name)
    assert list(stored(common, capture)) == ["session.zip"]
    assert len(shown) <= 200 and not any(character in shown for character in "/\\\0\u202e")
    assert others() == before


HOSTILE = [(ZIPS, "above"), (ZIPS, "link"), (ZIPS, "bomb"), (ZIPS, "encrypted"), (TARS, "absolute"), (TARS, "kind-3"), (TARS, "twice")]


@pytest.mark.parametrize("cases,name", HOSTILE)
def test_hostile_archives_are_kept_in_quarantine(common, uploaded, cases, name):
    """Over tus their bytes are kept, out of the way."""
    make, reason = cases[name]
    capture, _, status, found, _ = uploaded(make(), filename="s.zip" if cases is ZIPS else "s.tar")
    assert status == "quarantined" and reason in found
    assert stored(common, capture) == {"upload.bin": make()}


def test_a_zip_may_have_more_members_than_fit_into_16_bits(uploaded):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for number in range(65_537):
            archive.writestr(f"{number}", b"")
    assert uploaded(out.getvalue(), filename="s.zip")[2] == "processing"


def test_random_damage_to_archives_is_survived(server):
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
