"""Registration and the list of devices."""

import datetime
import json
import socket

import attestations
import devices
import phone
import pytest
import requests
from attestations import Attested, b64, key_named, point
from cryptography.hazmat.primitives.asymmetric import ec
from devices import REAL, add_key, begin, running  # noqa: F401 - fixtures

POLICIES = pytest.mark.parametrize("policy", ["strict", "compat"])


@POLICIES
@pytest.mark.parametrize("challenge", [b64(bytes(31)), b64(bytes(33)), b64(b""), "", "?", b64(bytes(32))[:-4], "A" * 4000])
def test_a_challenge_of_a_wrong_length_is_refused_in_both_policies(running, policy, challenge):
    server = running(policy)
    body = Attested(REAL, bytes(32)).body()
    body["attestation"]["challenge"] = challenge
    assert devices.failure(devices.register(server, body)) == (401, "CHALLENGE_INVALID")
    flat = Attested(REAL, bytes(32)).flat(challenge=challenge)
    assert devices.failure(devices.register(server, flat)) == (401, "CHALLENGE_INVALID")


@POLICIES
def test_a_key_is_registered_once(begin, policy):
    server = begin(policy)
    assert devices.register(server, Attested(REAL, devices.challenge(server)).body()).status_code == 201
    again = Attested(REAL, devices.challenge(server))
    assert devices.failure(devices.register(server, again.body())) == (409, "DEVICE_ALREADY_REGISTERED")
    # Also where the id is written without padding, and in the other form.
    third = Attested(REAL, devices.challenge(server), key_id=b64(again.id).rstrip("=").replace("+", "-").replace("/", "_"))
    assert devices.failure(devices.register(server, third.flat())) == (409, "DEVICE_ALREADY_REGISTERED")


def test_a_name_without_proof_does_not_block_the_key(begin):
    server = begin("compat")
    squatter = devices.register(server, Attested(REAL, bytes(32)).body())
    assert squatter.json()["data"]["attestation_level"] == "unverified"
    assert devices.failure(devices.register(server, Attested(REAL, bytes(32)).body())) == (409, "DEVICE_ALREADY_REGISTERED")
    genuine = devices.device_row(server, devices.register(server, Attested(REAL, devices.challenge(server)).body()))
    assert genuine["level"] == "secure_enclave" and genuine["id"] != squatter.json()["data"]["device_id"]
    assert devices.device_row(server, squatter)["keyID"] is None
    assert devices.failure(devices.register(server, Attested(REAL, bytes(32)).body())) == (409, "DEVICE_ALREADY_REGISTERED")


@pytest.mark.parametrize("case", ["both", "key id", "attestation"])
def test_values_of_debug_builds_are_mock_and_never_verified(running, case):
    mock = {"key_id": "debug-mock-key-1B671A64-40D5-491E-99B0-DA01FF1F3341", "attestation_object": "ZGVidWctbW9jay1hdHRlc3RhdGlvbg=="}
    for policy in ("strict", "compat"):
        server = running(policy)
        phone.rows(server, "DELETE FROM device")
        body = Attested(REAL, devices.challenge(server), key=key_named(case)).body()
        before = devices.log_size(server)
        if case != "attestation":
            body["attestation"]["key_id"] = mock["key_id"]
        if case != "key id":
            body["attestation"]["attestation_object"] = mock["attestation_object"]
        answer = devices.register(server, body)
        if policy == "strict":
            assert devices.failure(answer) == (401, "ATTESTATION_FAILED")
        else:
            row = devices.device_row(server, answer)
            assert (row["level"], row["publicKey"]) == ("mock", None)
            assert answer.json()["data"]["attestation_level"] == "mock"
        assert "mock: the attestation of a debug build" in devices.logged(server, before)


@POLICIES
def test_phones_without_app_attest_prove_nothing(running, policy):
    server = running(policy)
    answer = devices.register(server, Attested(REAL, devices.challenge(server), key=key_named("android")).body(platform="android"))
    assert answer.status_code == (401 if policy == "strict" else 201)
    assert policy == "strict" or answer.json()["data"]["attestation_level"] == "unverified"


ATTESTATION = {"key_id": b64(bytes(32)), "attestation_object": b64(b"x"), "challenge": b64(bytes(32))}


@POLICIES
@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"nothing", b"[]", b"7", b"null", b'"text"', b"\xff\xfe\x00", b"[" * 100_000, b'{"a":' * 50_000, b"\0" * 1000,
        b'{"platform":"ios"', {}, {"platform": "ios"}, {"platform": "ios", "model": "x"},
        {"platform": "windows", "model": "x", "attestation": ATTESTATION},
        {"platform": 7, "model": "x", "attestation": ATTESTATION},
        {"platform": "ios", "attestation": ATTESTATION},
        {"platform": "ios", "model": ["x"], "attestation": ATTESTATION},
        {"platform": "ios", "model": "", "attestation": ATTESTATION},
        {"platform": "ios", "model": "x" * 201, "attestation": ATTESTATION},
        {"platform": "ios", "model": "x\ny", "attestation": ATTESTATION},
        {"platform": "ios", "model": "x\u202ey", "attestation": ATTESTATION},
        {"platform": "ios", "model": "x", "has_lidar": "yes", "attestation": ATTESTATION},
        {"platform": "ios", "model": "x", "attestation": "text"},
        {"platform": "ios", "model": "x", "attestation": {}},
        *({"platform": "ios", "model": "x", "attestation": {k: v for k, v in ATTESTATION.items() if k != missing}} for missing in ATTESTATION),
        {"platform": "ios", "model": "x", "attestation": ATTESTATION | {"key_id": "k" * 201}},
        {"platform": "ios", "model": "x", "attestation": ATTESTATION | {"key_id": ""}},
        {"device_id": ATTESTATION["key_id"], "challenge": ATTESTATION["challenge"]},
    ],
    ids=lambda body: str(body)[:60].replace("/", "") if isinstance(body, (bytes, dict)) else None,
)  # fmt: skip
def test_what_is_no_registration_is_400(running, policy, body):
    assert devices.failure(devices.register(running(policy), body)) == (400, "VALIDATION_ERROR")


def test_a_body_has_at_most_256_kib(running):
    server = running("strict")
    body = json.dumps(Attested(REAL, devices.challenge(server), key=key_named("long")).body()).encode()
    url = f"{server.url}/api/v1/devices/register"
    over = body.ljust((256 << 10) + 1)
    assert devices.failure(requests.post(url, data=over, timeout=300)) == (413, "PAYLOAD_TOO_LARGE")
    assert devices.failure(requests.post(url, data=iter([over[:200_000], over[200_000:]]), timeout=300)) == (413, "PAYLOAD_TOO_LARGE")
    # Refused by its length alone, before any of it is sent.
    with socket.create_connection(("127.0.0.1", server.port), timeout=300) as raw:
        raw.sendall(b"POST /api/v1/devices/register HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n")
        assert raw.recv(4096).startswith(b"HTTP/1.1 413 ")
    assert requests.post(url, data=body.ljust(256 << 10), timeout=300).status_code == 201


def test_a_disk_below_the_reserve_registers_nobody(begin):
    server = begin("compat", "--reserve", 1 << 60)
    answer = devices.register(server, Attested(REAL, bytes(32)).body())
    assert devices.failure(answer) == (507, "STORAGE_ERROR")
    assert devices.failure(devices.session().get(f"{server.url}/api/v1/devices/challenge")) == (507, "STORAGE_ERROR")


# Keys of scripts and simulated phones


def simulated(key, **changes):
    return {"platform": "simulated", "model": "script", "public_key": b64(point(key))} | changes


@POLICIES
def test_a_script_with_an_api_key_registers_its_own_key(running, policy):
    server, key = running(policy), key_named("script")
    secret = add_key(server, "--project", "lab")
    for headers in ({}, {"Authorization": f"Bearer {secret}x"}, {"Authorization": "Bearer "}, {"Authorization": secret}):
        answer = devices.register(server, simulated(key), headers=headers)
        assert answer.status_code == 401 and "WWW-Authenticate" in answer.headers
    answer = devices.register(server, simulated(key, has_lidar=True), headers={"Authorization": f"Bearer {secret}"})
    row = devices.device_row(server, answer)
    assert answer.json()["data"] == {"device_id": row["id"], "attestation_level": "registered_key", "has_lidar": True}
    assert (row["publicKey"], row["keyID"], row["project"]) == (point(key), b64(attestations.sha256(point(key))), "lab")
    with devices.database(server) as found:
        assert found.execute("SELECT COUNT(*) FROM device WHERE platform = 'simulated'").fetchone()[0] == 1
    again = devices.register(server, simulated(key), headers={"Authorization": f"Bearer {secret}"})
    assert devices.failure(again) == (409, "DEVICE_ALREADY_REGISTERED")


def test_a_registered_key_must_be_a_point_of_the_curve(running):
    server = running("strict")
    headers = {"Authorization": f"Bearer {add_key(server)}"}
    good = point(key_named("script"))
    off = good[:-1] + bytes([good[-1] ^ 1])
    compressed = bytes([2 + good[-1] % 2]) + good[1:33]
    for wrong in (b64(off), b64(good[:64]), b64(good + b"\0"), b64(compressed), b64(b"\4" + bytes(64)), b64(b"\5" + good[1:]), b64(b""),
                  "?", b64(point(key_named("p384", ec.SECP384R1())))):  # fmt: skip
        answer = devices.register(server, simulated(key_named("script"), public_key=wrong), headers=headers)
        assert devices.failure(answer) == (400, "VALIDATION_ERROR"), wrong
    missing = {"platform": "simulated", "model": "script"}
    assert devices.failure(devices.register(server, missing, headers=headers)) == (400, "VALIDATION_ERROR")


def test_an_api_key_verifies_no_attestation(running):
    """A public key in the form of a phone is ignored, whoever sends it."""
    server = running("compat")
    headers = {"Authorization": f"Bearer {add_key(server)}"}
    body = Attested(REAL, bytes(32), key=key_named("vouched")).body(public_key=b64(point(key_named("script"))))
    row = devices.device_row(server, devices.register(server, body, headers=headers))
    assert (row["level"], row["publicKey"]) == ("unverified", None)


# The list


def test_devices_are_listed_the_newest_first(begin):
    server = begin("compat")
    secret, began = add_key(server), datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=1)
    levels = ["secure_enclave", "unverified", "registered_key"]
    first = devices.register(server, Attested(REAL, devices.challenge(server)).body())
    second = devices.register(server, Attested(REAL, bytes(32), key=key_named("b")).body(model="iPad13,4", has_lidar=False))
    third = devices.register(server, simulated(key_named("script")), headers={"Authorization": f"Bearer {secret}"})
    listed = server.get("/api/v1/devices").json()
    assert listed["meta"] == {}
    assert [entry["attestation_level"] for entry in listed["data"]] == levels[::-1]
    assert [entry["device_id"] for entry in listed["data"]] == [answer.json()["data"]["device_id"] for answer in (third, second, first)]
    registered = [datetime.datetime.fromisoformat(entry.pop("registered_at")) for entry in listed["data"]]
    assert all(began <= time <= datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=1) for time in registered)
    assert listed["data"][1] == {
        "device_id": second.json()["data"]["device_id"], "attestation_level": "unverified", "platform": "ios", "model": "iPad13,4",
        "has_lidar": False, "project": "default"}  # fmt: skip


def test_the_list_comes_in_pages(server):
    with devices.database(server) as found:
        found.executemany(
            "INSERT INTO device VALUES (?, NULL, 'ios', 'x', FALSE, 'unverified', NULL, 'default', ?)",
            [(f"{n:036}", 1_700_000_000_000 + n // 3) for n in range(250)])
    seen, cursor = [], None
    for expected in (100, 100, 50):
        page = server.get("/api/v1/devices", params={"cursor": cursor} if cursor else {}).json()
        assert len(page["data"]) == expected
        seen += [int(entry["device_id"]) for entry in page["data"]]
        cursor = page["meta"].get("next")
    assert cursor is None and seen == [*range(249, -1, -1)]
    assert len(server.get("/api/v1/devices?limit=7").json()["data"]) == 7
    for wrong in ("limit=0", "limit=501", "limit=x", "limit=-1", "cursor=x", "cursor=_", "cursor=1_", "cursor=1e9_a", "cursor=99999999999999999999_a"):
        assert devices.failure(server.get(f"/api/v1/devices?{wrong}")) == (400, "VALIDATION_ERROR")


def test_the_list_needs_a_key_where_keys_are_needed(begin):
    server = begin("compat", "--require-key")
    lab, other = add_key(server, "--project", "lab"), add_key(server, "--project", "other")
    assert devices.failure(server.get("/api/v1/devices")) == (401, "KEY_REQUIRED")
    # Phones have no key: challenge and registration stay open.
    assert devices.register(server, Attested(REAL, devices.challenge(server)).body()).status_code == 201
    devices.register(server, simulated(key_named("script")), headers={"Authorization": f"Bearer {lab}"})
    levels = {}
    for name, secret in (("lab", lab), ("other", other), ("default", add_key(server))):
        listed = server.get("/api/v1/devices", headers={"Authorization": f"Bearer {secret}"}).json()["data"]
        levels[name] = [entry["attestation_level"] for entry in listed]
    assert levels == {"lab": ["registered_key"], "other": [], "default": ["secure_enclave"]}


def test_other_methods_are_no_routes(running):
    server = running("strict")
    assert {requests.delete(f"{server.url}/api/v1/devices/{path}", timeout=300).status_code for path in ("challenge", "register", "")} <= {404, 405}
    assert server.get("/api/v1/devices/register").status_code in (404, 405)
