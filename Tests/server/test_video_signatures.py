"""The three ways of signing an upload, row 67, and what the policies make of them."""

import base64
import hashlib
import json

import pytest
import requests
from bundles import APP
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from phone import PATH, Phone, capture, error, now, rows

STRICT = ("--policy", "strict", "--app-id", APP)
COMPAT = ("--policy", "compat", "--app-id", APP)


def outcome(answer):
    return 202 if answer.status_code == 202 else error(answer)


def kept(server):
    return rows(server, "SELECT signature, isVerified FROM capture ORDER BY rowid")


INVALID = (401, "SIGNATURE_INVALID")
UNVERIFIED = (403, "DEVICE_UNVERIFIED")
REPLAY = (401, "REPLAY_DETECTED")


MOCK = {"X-Device-Signature": base64.b64encode(b"debug-mock-assertion").decode()}


@pytest.mark.parametrize("policy, level, expected", [
    (STRICT, "secure_enclave", {"s2": (202, 1), "s1": (202, 1), "s0": (INVALID, 0), "mock": (INVALID, 0)}),
    (STRICT, "registered_key", {"s2": (202, 1), "s1": (202, 1), "s0": (INVALID, 0)}),
    (STRICT, "unverified", {"s0": (UNVERIFIED, 0), "s1": (UNVERIFIED, 0), "s2": (UNVERIFIED, 0)}),
    (COMPAT, "secure_enclave", {"s2": (202, 1), "s1": (202, 1), "s0": (202, 0), "mock": (202, 0)}),
    (COMPAT, "unverified", {"s2": (202, 0), "s1": (202, 0), "s0": (202, 0)}),
])
def test_what_a_policy_accepts(start, policy, level, expected):
    """`mock` is what debug builds send, which is never verified."""
    server = start(*policy)
    phone, accepted = Phone(server, level=level), []
    for number, (scheme, (answer, verified)) in enumerate(expected.items()):
        sent = phone.send(capture(number), "s0", headers=MOCK) if scheme == "mock" else phone.send(capture(number), scheme)
        assert outcome(sent) == answer, scheme
        accepted += [(scheme, verified)] if answer == 202 else []
        assert kept(server) == accepted


def test_the_published_placeholder_is_recognized(server):
    """The example of the app's own header, with today's time instead of 1700000000000."""
    text = base64.b64decode(
        "UE9TVAovYXBpL3YxL2NhcHR1cmVzL3ZpZGVvCjE3MDAwMDAwMDAwMDAKNTUwRTg0MDAtRTI5Qi00MUQ0LUE3MTYtNDQ2NjU1NDQwMDAw")
    phone = Phone(server)
    phone.id = "550E8400-E29B-41D4-A716-446655440000"
    rows(server, "UPDATE device SET id = ?", phone.id.lower())
    time = str(now())
    signature = base64.b64encode(text.replace(b"1700000000000", time.encode())).decode()
    assert phone.send(capture(), "s0", headers={"X-Device-Timestamp": time, "X-Device-Signature": signature}).status_code == 202
    assert kept(server) == [("s0", 0)]


def test_the_placeholder_must_be_that_of_this_request(start):
    server = start(*COMPAT)
    phone = Phone(server)
    for changed in ({"path": "/api/v1/captures"}, {"timestamp": now() - 1}):
        headers = {**phone.headers(scheme="s0", **changed), "X-Device-Timestamp": str(now())}
        assert outcome(phone.post(capture().body(), headers)) == INVALID


def forgeries(phone, other, body):
    """Requests (body, headers), each with what is wrong with it."""
    headers, time = phone.headers(body), now()
    for old, new in ((b"video 0", b"video 1"), (b'"video.mp4"', b'"movie.mp4"'), (b'"duration_ms"', b'"duration-ms"')):
        yield f"{new} in the body", body.replace(old, new), headers
    yield "more after the end", body + b"\r\n", headers
    yield "cut off", body[:-2], headers
    yield "another time", body, {**phone.headers(body, timestamp=time - 1000), "X-Device-Timestamp": str(time)}
    for scheme in ("s1", "s2"):
        yield f"{scheme} by another device's key", body, other.headers(body, scheme)
    yield "another app", body, phone.headers(body, app="TEAM123456.org.example.other")
    yield "a counter of zero", body, phone.headers(body, counter=0)
    client = f"{time}|{hashlib.sha256(body).hexdigest()}".encode()
    yield "one hash too few", body, {**phone.headers(body, timestamp=time), "X-Device-Signature": phone.device.assertion(client, once=True)}
    for text in (b"", b"\x50POST", b"\xa0", b"\xbf\xff", b"0" * 70, b"\x30\x06\x02\x01\x01\x02\x01\x01", bytes(64)):
        yield f"{text} is no signature", body, {**headers, "X-Device-Signature": base64.b64encode(text).decode()}


@pytest.mark.parametrize("policy", [STRICT, COMPAT])
def test_forgeries(start, policy):
    server = start(*policy)
    phone, other, body = Phone(server, 1), Phone(server, 2), capture().body()
    other.id = phone.id
    good = phone.headers(body)
    for wrong, changed, headers in forgeries(phone, other, body):
        assert outcome(phone.post(changed, headers)) == INVALID, wrong
        assert kept(server) == [] == list((server.data / "captures").iterdir()) == list((server.data / "staging").iterdir())
    assert outcome(phone.post(body, good)) == 202


def test_without_an_app_id_no_app_is_trusted(server):
    assert outcome(Phone(server).send(capture())) == INVALID


def test_a_raw_signature_of_64_bytes_is_accepted(start):
    server = start(*STRICT)
    phone, time = Phone(server), now()
    der = phone.device.key.sign(f"POST\n{PATH}\n{time}\n{phone.id}".encode(), ec.ECDSA(hashes.SHA256()))
    raw = b"".join(number.to_bytes(32, "big") for number in decode_dss_signature(der))
    headers = {"X-Device-Signature": base64.b64encode(raw).decode()}
    assert outcome(phone.send(capture(), "s1", timestamp=time, headers=headers)) == 202


def test_a_signature_for_the_public_path_behind_a_proxy(start):
    server = start(*STRICT, "--base-url", "https://example.org/captures-of/us")
    phone = Phone(server)
    answer = phone.send(capture(), "s1", path="/captures-of/us" + PATH)
    assert outcome(answer) == 202
    data = answer.json()["data"]
    assert data["verification_url"] == f"https://example.org/captures-of/us/verify/{data['capture_id']}"


class TestReplays:
    def test_a_counter_counts_once_for_each_device(self, start):
        server = start(*STRICT)
        phone = Phone(server)
        assert outcome(phone.send(capture(1), counter=7)) == 202
        assert outcome(phone.send(capture(2), counter=7)) == REPLAY
        server.restart()
        assert outcome(phone.send(capture(2), counter=7)) == REPLAY
        # Uploads that waited arrive out of order.
        assert outcome(phone.send(capture(3), counter=3)) == 202
        assert rows(server, "SELECT counter FROM seenAssertion ORDER BY counter") == [(3,), (7,)]
        assert len(list((server.data / "captures").iterdir())) == 2
        assert outcome(Phone(server, 2).send(capture(2), counter=7)) == 202

    def test_the_same_request_gets_the_same_answer_until_its_capture_is_deleted(self, start):
        server = start(*STRICT)
        phone = Phone(server)
        body = capture().body()
        headers = phone.headers(body)
        answers = [phone.post(body, headers) for _ in range(7)]
        assert {answer.status_code for answer in answers} == {202}
        assert len({answer.text for answer in answers}) == 1
        assert rows(server, "SELECT COUNT(*) FROM capture") == [(1,)]
        assert requests.delete(f"{server.url}/api/v1/captures/{answers[0].json()['data']['capture_id']}").status_code == 204
        assert outcome(phone.post(body, headers)) == REPLAY

    def test_a_signature_by_the_devices_key_counts_once(self, start):
        """It does not cover the body, and would otherwise sign others as well."""
        server = start(*STRICT)
        phone = Phone(server)
        headers = phone.headers(scheme="s1")
        first = phone.post(capture(1).body(), headers)
        assert outcome(first) == 202
        assert outcome(phone.post(capture(2).body(), headers)) == REPLAY
        # Anybody can make up another valid signature from it.
        r, s = decode_dss_signature(base64.b64decode(headers["X-Device-Signature"]))
        order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
        for other in (encode_dss_signature(r, order - s), *(r.to_bytes(32, "big") + s.to_bytes(32, "big") for s in (s, order - s))):
            changed = {**headers, "X-Device-Signature": base64.b64encode(other).decode()}
            assert outcome(phone.post(capture(2).body(), changed)) == REPLAY
        # The same parts in another frame are the same capture.
        again = phone.post(capture(1).body(order=("metadata", "video", "hash_chain", "depth_data")), headers)
        assert again.text == first.text
        # Two captures may be signed in one millisecond.
        time = headers["X-Device-Timestamp"]
        assert outcome(phone.send(capture(2), "s1", timestamp=time)) == 202


def test_what_counted_is_kept_with_the_capture(start):
    """Whoever has the files can check the signature again."""
    server = start(*STRICT)
    phone = Phone(server)
    body, time = capture().body(), now()
    answer = phone.send(body, counter=9, timestamp=time)
    record = json.loads((server.data / "captures" / answer.json()["data"]["capture_id"] / "received.json").read_text())
    assert record["signature"] == {"counter": 9, "scheme": "s2", "verified": True}
    assert record["body_sha256"] == hashlib.sha256(body).hexdigest() and record["body_bytes"] == len(body)
    assert record["headers"]["X-Device-Timestamp"] == str(time) and record["headers"]["X-Device-Id"] == phone.id
    assert record["device_level"] == "secure_enclave" and record["policy"] == "strict" and record["path"] == PATH
    assertion = base64.b64decode(record["headers"]["X-Device-Signature"])
    length = assertion[12]
    signature, data = assertion[13:13 + length], assertion[-37:]
    signed = hashlib.sha256(data + hashlib.sha256(f"{time}|{record['body_sha256']}".encode()).digest()).digest()
    phone.device.key.public_key().verify(signature, signed, ec.ECDSA(hashes.SHA256()))
