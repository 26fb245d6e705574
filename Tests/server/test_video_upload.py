"""Bundles, rows 51, 53, 54 and 55: which bodies are accepted, what is kept of them, and what the answers say."""

import hashlib
import itertools
import json
import re
import socket
import uuid

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


def test_an_accepted_capture_survives_a_kill(server):
    found = capture()
    id = Phone(server).send(found, "s1").json()["data"]["capture_id"]
    server.restart()
    assert files(server, id) == {FILES[name]: data for name, data in found.parts().items()}


@pytest.mark.parametrize("order", [("metadata", "hash_chain", "depth_data", "video"), ("hash_chain", "video", "metadata", "depth_data")])
def test_parts_may_come_in_any_order(server, order):
    found = capture()
    id = Phone(server).send(found.body(order), "s1").json()["data"]["capture_id"]
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


def test_a_part_may_hold_what_looks_like_a_boundary(server):
    video = f"\r\n--{BOUNDARY[:-1]}X\r\n--RialVideo\r\n\r\n--".encode() * 999
    id = Phone(server).send(capture(video=video), "s1").json()["data"]["capture_id"]
    assert files(server, id)["video.mp4"] == video


@pytest.mark.parametrize("name", list(LIMITS))
def test_all_four_parts_are_needed(server, name):
    phone = Phone(server)
    for data, said in ((None, "Missing required part"), (b"", "Empty part")):
        answer = phone.send(capture(**{name: data}), "s1")
        assert error(answer) == INVALID
        assert answer.json()["error"]["message"] == f"Validation error: {said}: {name}"
    assert nothing_is_kept(server)


class TestMetadata:
    @pytest.mark.parametrize("text, named", [
        (b"[]", "object"), (b"{", "metadata"), (b"\xff\xfe", "metadata"), (b"[" * 50_000, "metadata"), (b'{"a":1}', "started_at"),
    ])
    def test_what_is_no_metadata(self, server, text, named):
        answer = Phone(server).send(capture(metadata=text), "s1")
        assert error(answer) == INVALID and named in answer.json()["error"]["message"]
        assert nothing_is_kept(server)

    @pytest.mark.parametrize("field", [
        "started_at", "ended_at", "duration_ms", "frame_count", "depth_keyframe_count", "resolution", "codec", "device_model",
        "attestation_level", "hash_chain_final",
    ])
    def test_a_field_that_is_missing(self, server, field):
        metadata = capture().metadata
        metadata.pop(field)
        answer = Phone(server).send(capture(metadata=metadata), "s1")
        assert error(answer) == INVALID and field in answer.json()["error"]["message"]

    def test_odd_values_are_for_the_converter(self, server):
        metadata = {**capture().metadata, "frame_count": 100_000, "codec": "av1", "assertion": None, "more": {"deep": []}}
        assert Phone(server).send(capture(metadata=metadata), "s1").status_code == 202


def test_a_tampered_chain_is_for_the_converter(server):
    chain = capture().hash_chain
    chain["final_hash"] = chain["frame_hashes"][0]
    assert Phone(server).send(capture(hash_chain=chain), "s1").status_code == 202


PARTS = list(capture().parts().items())


@pytest.mark.parametrize("policy", ["compat", "strict"])
@pytest.mark.parametrize("extra", [("thumbnail", b"jpeg"), ("", b"x")])
def test_other_parts(start, policy, extra):
    server = start("--policy", policy)
    answer = Phone(server).send(body(extra, *PARTS, extra), "s1")
    if policy == "strict":
        assert error(answer) == INVALID and nothing_is_kept(server)
    else:
        assert set(files(server, answer.json()["data"]["capture_id"])) == set(FILES.values())


@pytest.mark.parametrize("policy", ["compat", "strict"])
def test_a_part_without_a_name(start, policy):
    server = start("--policy", policy)
    unnamed = f"--{BOUNDARY}\r\nContent-Type: text/plain\r\n\r\nhello\r\n".encode()
    answer = Phone(server).send(unnamed + body(*PARTS), "s1")
    assert answer.status_code == (400 if policy == "strict" else 202)


@pytest.mark.parametrize("policy", ["compat", "strict"])
@pytest.mark.parametrize("name", list(LIMITS))
def test_two_parts_of_one_name(start, policy, name):
    """The last one wins, where that is accepted, also over one that is longer."""
    server = start("--policy", policy)
    answer = Phone(server).send(body((name, b"another one " * 99), *PARTS), "s1")
    if policy == "strict":
        assert error(answer) == INVALID and nothing_is_kept(server)
    else:
        assert files(server, answer.json()["data"]["capture_id"]) == {FILES[name]: data for name, data in PARTS}


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


NESTED = b'--B\r\nContent-Disposition: form-data; name="video"\r\nContent-Type: multipart/mixed; boundary=C\r\n\r\n--C--\r\n\r\n'


@pytest.mark.parametrize("data", [
    b"", b"hello", body(*PARTS, end=b""), body(*PARTS)[:-8], body(*PARTS).replace(BOUNDARY.encode(), b"X"), END,
    b"preamble\r\n" + body(*PARTS), f"--{BOUNDARY}\r\nX: ".encode() + b"y" * (10 << 20) + b"\r\n\r\n" + END,
    body(*[("part", b"x")] * 100_000), body(*PARTS).replace(b"application/octet-stream", b"multipart/mixed; boundary=C", 1),
    f"--{BOUNDARY}\rContent".encode() + END,
], ids=["empty", "text", "no end", "half an end", "other boundary", "no part", "preamble", "header of 10 MB", "100,000 parts", "nested", "odd line end"])
def test_malformed_bodies(server, data):
    assert error(Phone(server).send(data, "s1")) == INVALID
    assert nothing_is_kept(server)
    assert server.get("/health").ok


@pytest.mark.parametrize("kind", [
    "multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=" + "x" * 71, "application/json",
    "multipart/mixed; boundary=x", None,
])
def test_requests_without_a_boundary(server, kind):
    """As the apps' server answers them: in plain text."""
    answer = Phone(server).send(capture(), "s1", headers={"Content-Type": kind})
    assert answer.status_code == 400 and answer.headers["Content-Type"].startswith("text/plain") and answer.text
    assert nothing_is_kept(server)


def test_a_quoted_boundary(server):
    headers = {"Content-Type": f'multipart/form-data; charset=utf-8; boundary="{BOUNDARY}"'}
    assert Phone(server).send(capture(), "s1", headers=headers).status_code == 202


class TestLimits:
    @pytest.mark.parametrize("name", ["depth_data", "hash_chain"])
    def test_a_part_may_be_as_large_as_its_limit(self, server, name):
        assert Phone(server).send(capture(**{name: bytes(LIMITS[name])}), "s1").status_code == 202

    @pytest.mark.parametrize("name", ["depth_data", "hash_chain", "metadata"])
    def test_a_part_that_is_a_byte_too_large(self, server, name):
        answer = Phone(server).send(capture(**{name: b" " * (LIMITS[name] + 1)}), "s1")
        assert error(answer) == (413, "PAYLOAD_TOO_LARGE")
        assert nothing_is_kept(server)

    def test_the_limits_hold_for_each_of_two_parts_of_one_name(self, server):
        data = body(("hash_chain", b" " * 700_000), ("hash_chain", b" " * 700_000), *PARTS)
        assert Phone(server).send(data, "s1").status_code == 202

    def test_a_length_over_the_limit_is_refused_at_once(self, server):
        phone = Phone(server)
        for length in (BODY_LIMIT + 1, 10 ** 17):
            answer = exchange(server, head({**phone.headers(scheme="s1"), "Content-Length": length}))
            assert answer.startswith(b"HTTP/1.1 413") and b'"PAYLOAD_TOO_LARGE"' in answer

    @pytest.mark.parametrize("name", ["video", "thumbnail"])
    def test_a_chunked_body_over_a_limit_is_refused_when_it_passes_it(self, server, name):
        """A known part passes its own limit, an ignored one that of the whole body. The sender never comes to its end."""
        phone = Phone(server)
        headers = {**phone.headers(scheme="s1"), "Transfer-Encoding": "chunked"}
        start = form_part(BOUNDARY, name, "x", "video/mp4", b"")[:-2]
        answer = exchange(server, head(headers), [chunk(start)], itertools.repeat(chunk(bytes(1 << 20))))
        assert answer.startswith(b"HTTP/1.1 413") and b'"PAYLOAD_TOO_LARGE"' in answer
        assert str(LIMITS["video"] if name == "video" else BODY_LIMIT).encode() in answer
        assert nothing_is_kept(server)

    def test_many_parts_over_the_limit_of_the_body(self, server):
        phone = Phone(server)
        headers = {**phone.headers(scheme="s1"), "Transfer-Encoding": "chunked"}
        part = form_part(BOUNDARY, "other", "x", "x/y", bytes(4 << 20))
        answer = exchange(server, head(headers), itertools.repeat(chunk(part)))
        assert answer.startswith(b"HTTP/1.1 413")
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
