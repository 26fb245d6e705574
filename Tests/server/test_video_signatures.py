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
    return rows(server, "SELECT signature, isVerified FROM capture ORDER BY receivedAt")


INVALID = (401, "SIGNATURE_INVALID")
UNVERIFIED = (403, "DEVICE_UNVERIFIED")


@pytest.mark.parametrize("policy, level, scheme, expected, verified", [
    (STRICT, "secure_enclave", "s2", 202, 1), (STRICT, "secure_enclave", "s1", 202, 1), (STRICT, "secure_enclave", "s0", INVALID, 0),
    (STRICT, "registered_key", "s2", 202, 1), (STRICT, "registered_key", "s1", 202, 1), (STRICT, "registered_key", "s0", INVALID, 0),
    (STRICT, "unverified", "s0", UNVERIFIED, 0),
    (COMPAT, "secure_enclave", "s2", 202, 1), (COMPAT, "secure_enclave", "s1", 202, 1), (COMPAT, "secure_enclave", "s0", 202, 0),
    (COMPAT, "unverified", "s2", 202, 0), (COMPAT, "unverified", "s1", 202, 0), (COMPAT, "unverified", "s0", 202, 0),
])
def test_what_a_policy_accepts(start, policy, level, scheme, expected, verified):
    server = start(*policy)
    assert outcome(Phone(server, level=level).send(capture(), scheme)) == expected
    assert kept(server) == ([(scheme, verified)] if expected == 202 else [])


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


@pytest.mark.parametrize("policy, expected", [(STRICT, INVALID), (COMPAT, 202)])
def test_what_debug_builds_send_is_never_verified(start, policy, expected):
    server = start(*policy)
    signature = base64.b64encode(b"debug-mock-assertion").decode()
    assert outcome(Phone(server).send(capture(), "s0", headers={"X-Device-Signature": signature})) == expected
    assert kept(server) == ([("mock", 0)] if expected == 202 else [])


@pytest.mark.parametrize("policy", [STRICT, COMPAT])
class TestForgeries:
    def test_s2_over_another_body(self, start, policy):
        """Any byte: of a part, of a boundary, after the end."""
        server = start(*policy)
        phone = Phone(server)
        body = capture().body()
        headers = phone.headers(body)
        changes = [body.replace(b"video 0", b"video 1"), body.replace(b'"video.mp4"', b'"movie.mp4"'), body + b"\r\n", body[:-2]]
        changes.append(body.replace(b'"duration_ms"', b'"duration-ms"'))
        for changed in changes:
            assert outcome(phone.post(changed, headers)) == INVALID
        assert kept(server) == []
        assert list((server.data / "captures").iterdir()) == list((server.data / "staging").iterdir()) == []
        assert outcome(phone.post(body, headers)) == 202

    def test_s2_of_another_time(self, start, policy):
        phone = Phone(start(*policy))
        body = capture().body()
        headers = {**phone.headers(body, timestamp=now() - 1000), "X-Device-Timestamp": str(now())}
        assert outcome(phone.post(body, headers)) == INVALID

    def test_keys_of_other_devices(self, start, policy):
        server = start(*policy)
        phone, other = Phone(server, 1), Phone(server, 2)
        other.id = phone.id
        for scheme in ("s1", "s2"):
            assert outcome(other.send(capture(), scheme)) == INVALID

    def test_another_app(self, start, policy):
        assert outcome(Phone(start(*policy)).send(capture(), app="TEAM123456.org.example.other")) == INVALID

    def test_a_counter_of_zero(self, start, policy):
        assert outcome(Phone(start(*policy)).send(capture(), counter=0)) == INVALID

    def test_one_hash_too_few(self, start, policy):
        phone = Phone(start(*policy))
        body, time = capture().body(), now()
        client = f"{time}|{hashlib.sha256(body).hexdigest()}".encode()
        headers = {**phone.headers(body, timestamp=time), "X-Device-Signature": phone.device.assertion(client, once=True)}
        assert outcome(phone.post(body, headers)) == INVALID

    @pytest.mark.parametrize("signature", [b"", b"\x50POST", b"\xa0", b"\xbf\xff", b"0" * 70, b"\x30\x06\x02\x01\x01\x02\x01\x01", bytes(64)])
    def test_what_is_no_signature(self, start, policy, signature):
        phone = Phone(start(*policy))
        answer = phone.send(capture(), headers={"X-Device-Signature": base64.b64encode(signature).decode()})
        assert outcome(answer) == INVALID


def test_without_an_app_id_no_app_is_trusted(start):
    assert outcome(Phone(start()).send(capture())) == INVALID


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
    def test_a_counter_counts_once(self, start):
        server = start(*STRICT)
        phone = Phone(server)
        assert outcome(phone.send(capture(1), counter=7)) == 202
        assert outcome(phone.send(capture(2), counter=7)) == (401, "REPLAY_DETECTED")
        # Uploads that waited arrive out of order.
        assert outcome(phone.send(capture(3), counter=3)) == 202
        assert rows(server, "SELECT counter FROM seenAssertion ORDER BY counter") == [(3,), (7,)]
        assert len(list((server.data / "captures").iterdir())) == 2

    def test_counters_are_those_of_a_device(self, start):
        server = start(*STRICT)
        for number in (1, 2):
            assert outcome(Phone(server, number).send(capture(number), counter=7)) == 202

    def test_the_same_request_gets_the_same_answer(self, start):
        server = start(*STRICT)
        phone = Phone(server)
        body = capture().body()
        headers = phone.headers(body)
        answers = [phone.post(body, headers) for _ in range(7)]
        assert {answer.status_code for answer in answers} == {202}
        assert len({answer.text for answer in answers}) == 1
        assert rows(server, "SELECT COUNT(*) FROM capture") == [(1,)]

    def test_a_replay_after_a_restart(self, start):
        server = start(*STRICT)
        phone = Phone(server)
        assert outcome(phone.send(capture(1), counter=7)) == 202
        server.restart()
        assert outcome(phone.send(capture(2), counter=7)) == (401, "REPLAY_DETECTED")

    def test_a_signature_by_the_devices_key_counts_once(self, start):
        """It does not cover the body, and would otherwise sign others as well."""
        server = start(*STRICT)
        phone = Phone(server)
        headers = phone.headers(scheme="s1")
        first = phone.post(capture(1).body(), headers)
        assert outcome(first) == 202
        assert outcome(phone.post(capture(2).body(), headers)) == (401, "REPLAY_DETECTED")
        # Anybody can make up another valid signature from it.
        r, s = decode_dss_signature(base64.b64decode(headers["X-Device-Signature"]))
        order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
        for other in (encode_dss_signature(r, order - s), *(r.to_bytes(32, "big") + s.to_bytes(32, "big") for s in (s, order - s))):
            changed = {**headers, "X-Device-Signature": base64.b64encode(other).decode()}
            assert outcome(phone.post(capture(2).body(), changed)) == (401, "REPLAY_DETECTED")
        # The same parts in another frame are the same capture.
        again = phone.post(capture(1).body(order=("metadata", "video", "hash_chain", "depth_data")), headers)
        assert again.text == first.text
        # Two captures may be signed in one millisecond.
        time = headers["X-Device-Timestamp"]
        assert outcome(phone.send(capture(2), "s1", timestamp=time)) == 202

    def test_a_deleted_capture_cannot_be_replayed(self, start):
        server = start(*STRICT)
        phone = Phone(server)
        body = capture().body()
        headers = phone.headers(body)
        id = phone.post(body, headers).json()["data"]["capture_id"]
        assert requests.delete(f"{server.url}/api/v1/captures/{id}").status_code == 204
        assert outcome(phone.post(body, headers)) == (401, "REPLAY_DETECTED")


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
