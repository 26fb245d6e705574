"""tus 1.0: creation, offsets, checksums, expiration, termination - over raw requests."""

import time
from email.utils import parsedate_to_datetime

import pytest
import requests

from devices import add_key
from phone import error, rows
from resumable import CHUNK, SESSION, Tus, checksum, data, metadata, part_file, sha256, stored, zipped

FULL = (507, "QUOTA_EXCEEDED")


def test_options_say_what_the_server_can_do(tus):
    for path in ["/files", "/files/unknown"]:
        answer = tus.send("OPTIONS", path, version=None)
        assert answer.status_code == 204
        assert answer.headers["Tus-Version"] == "1.0.0"
        extensions = set(answer.headers["Tus-Extension"].split(","))
        assert extensions == {"creation", "creation-with-upload", "creation-defer-length", "checksum", "expiration", "termination"}
        assert answer.headers["Tus-Checksum-Algorithm"] == "sha1,sha256"
        assert int(answer.headers["Tus-Max-Size"]) == 64 << 30


def test_what_unfinished_uploads_have_announced_counts(start):
    tus = Tus(start("--project-quota", 1000))
    assert error(tus.send("POST", "/files", Upload_Length=1001)) == FULL
    path = tus.create(600)
    assert error(tus.send("POST", "/files", Upload_Length=401)) == FULL
    small = tus.create(400)
    # What it has announced may come.
    assert tus.patch(path, 0, data(600)).status_code == 204
    assert tus.send("DELETE", small).status_code == 204
    assert tus.send("POST", "/files", Upload_Length=400).status_code == 201


def test_an_upload_without_a_length_counts_as_it_grows(start):
    tus = Tus(start("--project-quota", 1000))
    path = tus.send("POST", "/files", Upload_Defer_Length=1).headers["Location"]
    assert tus.patch(path, 0, data(900)).status_code == 204
    assert error(tus.patch(path, 900, data(200))) == FULL
    assert tus.offset(path) == 900
    assert tus.send("POST", "/files", Upload_Length=101).status_code == 507


def test_an_upload_in_pieces_becomes_a_capture(server, tus):
    session = zipped(SESSION)
    names = metadata(filename="session_1.zip", filetype="application/zip")
    path = tus.create(len(session), Upload_Metadata=names)
    empty = tus.head(path)
    assert (empty.status_code, empty.headers["Upload-Offset"], empty.headers["Upload-Length"]) == (200, "0", str(len(session)))
    assert empty.headers["Cache-Control"] == "no-store"
    assert empty.headers["Upload-Metadata"] == names
    assert "Upload-Defer-Length" not in empty.headers

    first = tus.patch(path, 0, session[:100])
    assert (first.status_code, first.headers["Upload-Offset"], first.content) == (204, "100", b"")
    assert "X-Capture-Id" not in first.headers
    assert tus.offset(path) == 100
    last = tus.patch(path, 100, session[100:])
    assert (last.status_code, last.headers["Upload-Offset"]) == (204, str(len(session)))
    capture = last.headers["X-Capture-Id"]

    after = tus.head(path)
    assert (after.headers["X-Capture-Id"], after.headers["Upload-Offset"]) == (capture, str(len(session)))
    assert "Upload-Expires" not in after.headers
    assert stored(server, capture) == {"session.zip": session}
    assert list((server.data / "uploads").iterdir()) == []
    assert list((server.data / "staging").iterdir()) == []
    # Nothing more fits; saying nothing again is fine.
    assert tus.patch(path, len(session), b"").headers["X-Capture-Id"] == capture
    assert tus.patch(path, len(session), b"x").status_code == 413


def test_the_version_comes_first(tus):
    path = tus.create(5)
    for version in [None, "0.2.2", "1.0.1"]:
        for method, place in [("POST", "/files"), ("HEAD", path), ("PATCH", path), ("DELETE", path)]:
            answer = tus.send(method, place, version=version, Upload_Length=5, Upload_Offset=0, Content_Type=CHUNK)
            assert answer.status_code == 412, (version, method)
            assert answer.headers["Tus-Version"] == "1.0.0"
    assert tus.offset(path) == 0
    for method, place in [("OPTIONS", "/files"), ("GET", "/files"), ("PUT", path), ("DELETE", "/files"), ("PATCH", "/files")]:
        # The client asserts the header with the version.
        tus.send(method, place)
    assert tus.send("POST", path, version="1.0.1", X_HTTP_Method_Override="PATCH").status_code == 412
    assert tus.send("POST", path, version=None, X_HTTP_Method_Override="DELETE").status_code == 412
    assert tus.send("POST", path, version=None, X_HTTP_Method_Override="OPTIONS").status_code == 204


WRONG_LENGTHS = ["-5", "5x", "+5", "1" * 19, ""]
WRONG_METADATA = [
    "filename !!!", "filename YQ== YQ==", "filename YQ==,filename YQ==", metadata(kind="photo"), metadata(sha256="12"), metadata(filename="x" * 9000)]
MALFORMED = [
    {}, {"Upload_Defer_Length": "bad"}, {"Upload_Defer_Length": "2"}, {"Upload_Length": "5", "Upload_Defer_Length": "1"},
    {"Upload_Length": "5", "Content_Type": CHUNK, "Upload_Checksum": "md5 AAAA"},
    *({"Upload_Length": length} for length in WRONG_LENGTHS), *({"Upload_Length": "5", "Upload_Metadata": text} for text in WRONG_METADATA),
]  # fmt: skip


def test_malformed_and_too_large_creations_are_refused_at_once(server, tus):
    for headers in MALFORMED:
        assert error(tus.send("POST", "/files", **headers)) == (400, "VALIDATION_ERROR"), headers
    assert tus.send("POST", "/files", Upload_Length=(64 << 30) + 1).status_code == 413
    assert rows(server, "SELECT COUNT(*) FROM upload") == [(0,)]
    # Reserving so much would leave less than the reserve.
    assert tus.send("POST", "/files", Upload_Length=1 << 36).status_code in (201, 507)


def test_creation_with_upload(server, tus):
    body = data(1000)
    answer = tus.send("POST", "/files", body[:400], Upload_Length=1000, Content_Type=CHUNK)
    assert (answer.status_code, answer.headers["Upload-Offset"]) == (201, "400")
    assert tus.patch(answer.headers["Location"], 400, body[400:]).status_code == 204

    whole = tus.send("POST", "/files", body, Upload_Length=1000, Content_Type=CHUNK, Upload_Checksum=checksum(body))
    assert (whole.status_code, whole.headers["Upload-Offset"]) == (201, "1000")
    assert whole.headers["X-Capture-Id"] == tus.head(answer.headers["Location"]).headers["X-Capture-Id"]

    other_type = tus.send("POST", "/files", body, Upload_Length=1000, Content_Type="application/json")
    assert other_type.status_code == 201 and "Upload-Offset" not in other_type.headers
    assert tus.offset(other_type.headers["Location"]) == 0

    uploads = len(list((server.data / "uploads").iterdir()))
    assert tus.send("POST", "/files", body, Upload_Length=999, Content_Type=CHUNK).status_code == 413
    assert tus.send("POST", "/files", body, Upload_Length=1000, Content_Type=CHUNK, Upload_Checksum=checksum(b"")).status_code == 460
    assert len(list((server.data / "uploads").iterdir())) == uploads


def test_an_empty_upload_is_complete_when_it_is_created(server, tus):
    answer = tus.send("POST", "/files", Upload_Length=0, Upload_Metadata=metadata(filename="nothing.txt"))
    assert answer.status_code == 201
    assert stored(server, answer.headers["X-Capture-Id"]) == {"upload.bin": b""}
    assert tus.offset(answer.headers["Location"]) == 0


def test_a_length_may_come_later(tus):
    body = data(30)
    answer = tus.send("POST", "/files", Upload_Defer_Length=1)
    path = answer.headers["Location"]
    assert answer.status_code == 201
    assert tus.patch(path, 0, body[:10]).status_code == 204
    head = tus.head(path)
    assert (head.headers["Upload-Offset"], head.headers["Upload-Defer-Length"]) == ("10", "1")
    assert "Upload-Length" not in head.headers
    assert tus.patch(path, 10, b"", Upload_Length=9).status_code == 400
    assert tus.patch(path, 10, b"", Upload_Length=(64 << 30) + 1).status_code == 413
    assert tus.patch(path, 10, body[10:20], Upload_Length=30).headers["Upload-Offset"] == "20"
    assert "Upload-Defer-Length" not in tus.head(path).headers
    assert tus.patch(path, 20, body[20:], Upload_Length=31).status_code == 400
    assert "X-Capture-Id" in tus.patch(path, 20, body[20:], Upload_Length=30).headers

    # The length after the last byte.
    path = tus.send("POST", "/files", Upload_Defer_Length=1).headers["Location"]
    assert "X-Capture-Id" not in tus.patch(path, 0, body).headers
    assert "X-Capture-Id" in tus.patch(path, 30, b"", Upload_Length=30).headers


def test_wrong_patches_change_nothing(tus):
    path = tus.create(10)
    assert tus.patch(path, 0, b"hello").status_code == 204
    assert tus.patch(path, 4, b"o....").status_code == 409
    assert tus.patch(path, 6, b"....").status_code == 409
    assert tus.patch(path, -5, b"world").status_code == 400
    assert tus.patch(path, "", b"world").status_code == 400
    assert tus.send("PATCH", path, b"world", Content_Type=CHUNK).status_code == 400
    assert tus.send("PATCH", path, b"world", Upload_Offset=5, Content_Type="text/plain").status_code == 415
    assert tus.send("PATCH", path, b"world", Upload_Offset=5).status_code == 415
    assert tus.patch(path, 5, b"worlds").status_code == 413
    # The same without a declared length: it is noticed on the way.
    assert tus.patch(path, 5, iter([b"wor", b"lds"])).status_code == 413
    assert tus.offset(path) == 5
    assert tus.patch(path, 5, iter([b"wor", b"ld"])).status_code == 204


def test_uploads_that_are_not_there(tus):
    for path in ["/files/00000000-0000-0000-0000-000000000000", "/files/..%2fserver.sqlite", "/files/%2e%2e", "/files/%00"]:
        assert tus.head(path).status_code == 404
        assert tus.head(path).content == b""
        assert tus.patch(path, 0, b"x").status_code == 404
        assert tus.send("DELETE", path).status_code == 404
    assert tus.send("GET", "/files").status_code == 405
    assert tus.send("PUT", "/files/x").status_code == 405
    assert tus.send("POST", "/files/x").status_code == 405


@pytest.mark.parametrize("algorithm", ["sha1", "sha256"])
def test_checksums(server, tus, algorithm):
    body = data(600_000)
    path = tus.create(len(body))
    half = body[:300_000]
    wrong = tus.patch(path, 0, half, Upload_Checksum=checksum(half[1:], algorithm))
    assert (wrong.status_code, wrong.reason) == (460, "Checksum Mismatch")
    assert tus.offset(path) == 0
    assert part_file(server, path).stat().st_size == 0
    assert tus.patch(path, 0, half, Upload_Checksum=checksum(half, algorithm)).status_code == 204
    assert tus.patch(path, 300_000, body[300_000:], Upload_Checksum=checksum(half, algorithm)).status_code == 460
    assert tus.offset(path) == 300_000
    for malformed in ["sha512 AAAA", "sha256", "sha256 !", "sha256 AAAA BBBB"]:
        assert tus.patch(path, 300_000, body[300_000:], Upload_Checksum=malformed).status_code == 400
    last = tus.patch(path, 300_000, body[300_000:], Upload_Checksum=checksum(body[300_000:], algorithm))
    assert list(stored(server, last.headers["X-Capture-Id"]).values()) == [body]


def test_the_whole_upload_must_have_its_announced_digest(server, tus):
    body = data(5000)
    path = tus.create(5000, Upload_Metadata=metadata(filename="a.bin", sha256=sha256(body)))
    assert tus.patch(path, 0, body[:2000]).status_code == 204
    assert tus.patch(path, 2000, bytes(3000)).status_code == 460
    assert tus.offset(path) == 0
    # It can be sent again to the same address.
    assert tus.patch(path, 0, body[:2000]).status_code == 204
    capture = tus.patch(path, 2000, body[2000:]).headers["X-Capture-Id"]
    assert stored(server, capture) == {"upload.bin": body}


def test_the_same_bytes_are_one_capture(server, tus):
    session = zipped(SESSION)
    first = tus.upload(session, filename="a.zip")
    assert tus.upload(session, filename="b.zip", kind="session") == first
    assert tus.upload(session + b"", filename="c") == first
    assert tus.upload(session, filename="bundle.zip", kind="bundle") != first
    assert len(list((server.data / "captures").iterdir())) == 2


def test_termination(server, tus):
    path = tus.create(10)
    assert tus.patch(path, 0, b"hello").status_code == 204
    assert tus.send("DELETE", path).status_code == 204
    assert list((server.data / "uploads").iterdir()) == []
    assert tus.head(path).status_code == 404
    assert tus.send("DELETE", path).status_code == 404
    # A capture outlives its upload.
    path = tus.create(5)
    capture = tus.patch(path, 0, b"world").headers["X-Capture-Id"]
    assert tus.send("DELETE", path).status_code == 204
    assert stored(server, capture) == {"upload.bin": b"world"}


def test_methods_can_be_overridden(tus):
    path = tus.create(5)
    answer = tus.send("POST", path, b"hello", Upload_Offset=0, Content_Type=CHUNK, X_HTTP_Method_Override="PATCH")
    assert (answer.status_code, answer.headers["Upload-Offset"]) == (204, "5")
    assert tus.send("POST", path, X_HTTP_Method_Override="DELETE").status_code == 204
    assert tus.send("POST", path, X_HTTP_Method_Override="HEAD").status_code == 404


def test_uploads_expire(server, tus):
    before = time.time()
    path = tus.create(10)
    assert tus.patch(path, 0, b"hello").status_code == 204
    expires = parsedate_to_datetime(tus.head(path).headers["Upload-Expires"]).timestamp()
    assert before + 7 * 86400 - 2 <= expires <= time.time() + 7 * 86400 + 2
    rows(server, "UPDATE upload SET expiresAt = 1")
    other = tus.create(10)
    assert [tus.head(path).status_code, tus.patch(path, 5, b"x").status_code] == [410, 410]
    assert tus.patch(other, 0, b"hello").status_code == 204
    server.kill()
    part_file(server, "/files/orphan").write_bytes(b"x")
    server.start()
    # Gone, and then unknown: the sweep runs when the server starts. It takes files without an upload, too.
    server.until(lambda: tus.head(path).status_code == 404)
    server.until(lambda: list((server.data / "uploads").iterdir()) == [part_file(server, other)])
    assert tus.offset(other) == 5


def test_an_upload_belongs_to_the_project_of_its_key(start):
    server = start("--require-key")
    one, two = (Tus(server, add_key(server, "--project", project)) for project in ["one", "two"])
    for method in ["POST", "OPTIONS", "HEAD"]:
        answer = requests.request(method, f"{server.url}/files", headers={"Tus-Resumable": "1.0.0", "Upload-Length": "5"}, timeout=300)
        assert answer.status_code == 401
    path = one.create(5, Upload_Metadata=metadata(project="two"))
    assert two.head(path).status_code == 404
    assert two.patch(path, 0, b"hello").status_code == 404
    assert two.send("DELETE", path).status_code == 404
    assert one.patch(path, 0, b"hello").status_code == 204
    # The same bytes in another project are another capture.
    assert two.upload(b"hello") != one.head(path).headers["X-Capture-Id"]
    assert sorted(rows(server, "SELECT project FROM capture")) == [("one",), ("two",)]
