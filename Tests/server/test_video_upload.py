"""Bundles, rows 51, 53, 54 and 55: which bodies are accepted, what is kept of them, and what the answers say."""

import hashlib
import itertools
import json
import re
import socket
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from bundles import form_part
from phone import BODY_LIMIT, LIMITS, Phone, capture, error, exchange, head, rows

BOUNDARY = "RialVideo-0E36A7E2-6B4B-4BC2-A86C-6E1E5A1A8F10"
END = f"--{BOUNDARY}--\r\n".encode()
FILES = {"video": "video.mp4", "depth_data": "depth.gz", "hash_chain": "hash_chain.json", "metadata": "metadata.json"}
INVALID = (400, "VALIDATION_ERROR")


def folders(server):
    return [path.name for path in (server.data / "captures").iterdir()]


def files(server, id):
    return {path.name: path.read_bytes() for path in (server.data / "captures" / id).iterdir() if path.name != "received.json"}


def body(*parts, end=END):
    """Parts: name, data, and their header's other fields."""
    return b"".join(form_part(BOUNDARY, name, "file", "application/octet-stream", data) for name, data in parts) + end


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


def nothing_is_kept(server):
    return folders(server) == [] and list((server.data / "staging").iterdir()) == [] and rows(server, "SELECT id FROM capture") == []


def test_a_capture_is_accepted_and_kept(server):
    phone, found = Phone(server), capture()
    answer = phone.send(found, "s1", headers={"X-Request-Id": "7F0C0CF5-6A22-47F5-A6C9-4DB5C5C3A3A7"})
    assert answer.status_code == 202 and answer.headers["Content-Type"] == "application/json"
    id = answer.json()["data"]["capture_id"]
    assert str(uuid.UUID(id)) == id
    assert answer.json() == {
        "data": {"capture_id": id, "type": "video", "status": "processing", "verification_url": f"{server.url}/verify/{id}"},
        "meta": {"request_id": "7f0c0cf5-6a22-47f5-a6c9-4db5c5c3a3a7", "timestamp": answer.json()["meta"]["timestamp"]},
    }
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", answer.json()["meta"]["timestamp"])
    assert files(server, id) == {FILES[name]: data for name, data in found.parts().items()}
    assert sorted(rows(server, "SELECT name, bytes, sha256 FROM file WHERE name != 'received.json'")) == sorted(
        (FILES[name], len(data), hashlib.sha256(data).hexdigest()) for name, data in found.parts().items())
    record = json.loads((server.data / "captures" / id / "received.json").read_text())
    assert {name: part["sha256"] for name, part in record["parts"].items()} == {
        name: hashlib.sha256(data).hexdigest() for name, data in found.parts().items()}
    assert rows(server, "SELECT type, status, device, bytes FROM capture") == [
        ("video", "processing", phone.id.lower(), sum(map(len, found.parts().values())))]
    assert rows(server, "SELECT capture, state FROM conversion") == [(id, "waiting")]
    assert list((server.data / "staging").iterdir()) == []


def test_bodies_of_other_forms(server):
    """The parts in another order, one that holds what looks like a boundary, and a quoted boundary."""
    phone = Phone(server)
    quoted = {"Content-Type": f'multipart/form-data; charset=utf-8; boundary="{BOUNDARY}"'}
    for found, order, headers in [
        (capture(1), ("metadata", "hash_chain", "depth_data", "video"), {}), (capture(2), ("hash_chain", "video", "metadata", "depth_data"), {}),
        (capture(3, video=f"\r\n--{BOUNDARY[:-1]}X\r\n--RialVideo\r\n\r\n--".encode() * 999), list(FILES), {}), (capture(4), list(FILES), quoted),
    ]:
        id = phone.send(found.body(order), "s1", headers=headers).json()["data"]["capture_id"]
        assert files(server, id) == {FILES[name]: data for name, data in found.parts().items()}


def test_a_body_in_single_bytes(server):
    """Chunked, a byte a chunk: each boundary is cut everywhere."""
    phone, found = Phone(server), capture()
    data = found.body()
    headers = {**phone.headers(data, "s1"), "Transfer-Encoding": "chunked", "Connection": "close"}
    chunks = b"".join(chunk(bytes([byte])) for byte in data) + b"0\r\n\r\n"
    answer = exchange(server, head(headers), [chunks])
    assert answer.startswith(b"HTTP/1.1 202")
    assert files(server, folders(server)[0]) == {FILES[name]: data for name, data in found.parts().items()}


def test_all_four_parts_are_needed(server):
    phone = Phone(server)
    for name in LIMITS:
        for data, said in ((None, "Missing required part"), (b"", "Empty part")):
            answer = phone.send(capture(**{name: data}), "s1")
            assert error(answer) == INVALID
            assert answer.json()["error"]["message"] == f"Validation error: {said}: {name}"
    assert nothing_is_kept(server)


NO_METADATA = [(b"[]", "object"), (b"{", "metadata"), (b"\xff\xfe", "metadata"), (b"[" * 50_000, "metadata"), (b'{"a":1}', "started_at")]
FIELDS = [
    "started_at", "ended_at", "duration_ms", "frame_count", "depth_keyframe_count", "resolution", "codec", "device_model", "attestation_level", "hash_chain_final"]


def test_what_is_no_metadata_or_lacks_a_field(server):
    phone = Phone(server)
    lacking = [({name: value for name, value in capture().metadata.items() if name != field}, field) for field in FIELDS]
    for metadata, named in NO_METADATA + lacking:
        answer = phone.send(capture(metadata=metadata), "s1")
        assert error(answer) == INVALID and named in answer.json()["error"]["message"], named
    assert nothing_is_kept(server)


def test_odd_metadata_and_a_tampered_chain_are_for_the_converter(server):
    phone, chain = Phone(server), capture().hash_chain
    metadata = {**capture().metadata, "frame_count": 100_000, "codec": "av1", "assertion": None, "more": {"deep": []}}
    assert phone.send(capture(metadata=metadata), "s1").status_code == 202
    chain["final_hash"] = chain["frame_hashes"][0]
    assert phone.send(capture(hash_chain=chain), "s1").status_code == 202


PARTS = list(capture().parts().items())


@pytest.mark.parametrize("policy", ["compat", "strict"])
def test_parts_that_are_none_of_the_four_or_come_twice(start, policy):
    """Of two parts of one name the last one wins, where that is accepted, also over one that is longer."""
    server = start("--policy", policy)
    unnamed = f"--{BOUNDARY}\r\nContent-Type: text/plain\r\n\r\nhello\r\n".encode() + body(*PARTS)
    others = [body(extra, *PARTS, extra) for extra in (("thumbnail", b"jpeg"), ("", b"x"))]
    twice = [body((name, b"another one " * 99), *PARTS) for name in LIMITS]
    for number, data in enumerate([unnamed, *others, *twice], 1):
        answer = Phone(server, number).send(data, "s1")
        if policy == "strict":
            assert error(answer) == INVALID and nothing_is_kept(server), data
        else:
            assert files(server, answer.json()["data"]["capture_id"]) == {FILES[name]: data for name, data in PARTS}, data


@pytest.mark.parametrize("filename", ["../../x", "/etc/passwd", "a\\0b", "x" * 4096, "‮gpj.exe", "", 'a"; name="metadata'])
def test_names_of_files_are_ignored(server, filename):
    quoted = filename.replace('"', '\\"')
    data = body(*PARTS).replace(b'filename="file"', f'filename="{quoted}"'.encode())
    id = Phone(server).send(data, "s1").json()["data"]["capture_id"]
    assert files(server, id) == {FILES[name]: data for name, data in PARTS}
    assert sorted(path.name for path in server.data.iterdir() if not path.name.startswith("server.")) == sorted(
        ["captures", "conversions", "datasets", "staging", "uploads"])
    assert set((server.data / "captures" / id).iterdir()) == {
        server.data / "captures" / id / name for name in [*FILES.values(), "received.json"]}


MALFORMED = [
    b"", b"hello", body(*PARTS, end=b""), body(*PARTS)[:-8], body(*PARTS).replace(BOUNDARY.encode(), b"X"), END,
    b"preamble" + body(*PARTS), b"x" * 9000 + b"\r\n" + body(*PARTS), f"--{BOUNDARY}\r\nX: ".encode() + b"y" * (10 << 20) + b"\r\n\r\n" + END,
    body(*[("part", b"x")] * 100_000), body(*PARTS).replace(b"application/octet-stream", b"multipart/mixed; boundary=C", 1),
    f"--{BOUNDARY}\rContent".encode() + END,
]
NO_BOUNDARY = [
    "multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=" + "x" * 71, "application/json", "multipart/mixed; boundary=x", None]


def test_malformed_bodies(server):
    phone = Phone(server)
    for number, data in enumerate(MALFORMED):
        assert error(phone.send(data, "s1")) == INVALID, number
        assert nothing_is_kept(server) and server.get("/health").ok, number
    # Without a boundary: as the apps' server answers them, in plain text.
    for kind in NO_BOUNDARY:
        answer = phone.send(capture(), "s1", headers={"Content-Type": kind})
        assert answer.status_code == 400 and answer.headers["Content-Type"].startswith("text/plain") and answer.text, kind
        assert nothing_is_kept(server), kind


class TestLimits:
    def test_a_part_may_be_as_large_as_its_limit_and_not_a_byte_larger(self, server):
        phone = Phone(server)
        for name in ("depth_data", "hash_chain", "metadata"):
            assert error(phone.send(capture(**{name: b" " * (LIMITS[name] + 1)}), "s1")) == (413, "PAYLOAD_TOO_LARGE")
            assert nothing_is_kept(server)
        for name in ("depth_data", "hash_chain"):
            assert phone.send(capture(**{name: bytes(LIMITS[name])}), "s1").status_code == 202
        # It is the limit of each of two parts of one name.
        data = body(("hash_chain", b" " * 700_000), ("hash_chain", b" " * 700_000), *PARTS)
        assert phone.send(data, "s1").status_code == 202

    def test_a_length_over_the_limit_is_refused_at_once(self, server):
        phone = Phone(server)
        for length in (BODY_LIMIT + 1, 10 ** 17):
            answer = exchange(server, head({**phone.headers(scheme="s1"), "Content-Length": length}))
            assert answer.startswith(b"HTTP/1.1 413") and b'"PAYLOAD_TOO_LARGE"' in answer

    def test_a_chunked_body_over_a_limit_is_refused_when_it_passes_it(self, server):
        """A known part passes its own limit, an ignored one and many together that of the whole body. The senders never come to their ends."""
        phone = Phone(server)

        def answer(first, more):
            headers = {**phone.headers(scheme="s1"), "Transfer-Encoding": "chunked"}
            return exchange(server, head(headers), [chunk(first)], itertools.repeat(chunk(more)))

        video, ignored = (form_part(BOUNDARY, name, "x", "video/mp4", b"")[:-2] for name in ("video", "thumbnail"))
        other = form_part(BOUNDARY, "other", "x", "x/y", bytes(4 << 20))
        with ThreadPoolExecutor(3) as pool:
            answers = pool.map(answer, [video, ignored, other], [bytes(1 << 20), bytes(1 << 20), other])
        for found, limit in zip(answers, [LIMITS["video"], BODY_LIMIT, BODY_LIMIT], strict=True):
            assert found.startswith(b"HTTP/1.1 413") and b'"PAYLOAD_TOO_LARGE"' in found and str(limit).encode() in found
        assert nothing_is_kept(server)


@pytest.mark.parametrize("half_close", [True, False])
def test_a_client_that_vanishes_leaves_nothing(server, half_close):
    phone = Phone(server)
    data = capture(video=bytes(3 << 20)).body()
    headers = {**phone.headers(data, "s1"), "Content-Length": len(data)}
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(head(headers) + data[:2 << 20])
        server.until(lambda: list((server.data / "staging").iterdir()))
        if half_close:
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(100)[:12] in (b"HTTP/1.1 400", b"")
    server.until(lambda: nothing_is_kept(server))
    assert phone.send(capture(), "s1").status_code == 202
