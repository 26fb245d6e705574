"""Row 69: each step of an attestation's verification: what is right passes, and each single thing that is wrong is refused for that reason."""

import datetime
import random
import subprocess

import conftest
import devices
import pytest
from attestations import APP, DAY, DEVELOPMENT, PRODUCTION, Attested, Authority, b64, cbor, der, key_named, nonce_extension
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ObjectIdentifier
from devices import REAL, clock, running  # noqa: F401 - fixtures

OTHER = Authority("other")


@pytest.mark.parametrize("policy", ["strict", "compat"])
@pytest.mark.parametrize("form", ["body", "flat"])
def test_a_genuine_phone_is_registered_with_its_key(running, policy, form):
    server = running(policy)
    attested = Attested(REAL, devices.challenge(server), key=key_named(f"{policy} {form}"))
    answer = devices.register(server, getattr(attested, form)())
    row = devices.device_row(server, answer)
    assert answer.json()["data"] == {"device_id": row["id"], "attestation_level": "secure_enclave", "has_lidar": form == "body"}
    assert (row["level"], row["publicKey"], row["keyID"]) == ("secure_enclave", attested.point, b64(attested.id))
    assert row["platform"] == "ios" and row["model"] == ("iPhone16,1" if form == "body" else "unknown")


CRITICAL = x509.UnrecognizedExtension(ObjectIdentifier("1.2.3.4"), b"\x05\x00")
# What is wrong; how the attestation is made; what the log says.
WRONG = {
    "expired leaf": (dict(leaf=dict(since=-3 * DAY, until=-DAY)), "expire"),
    "leaf of the future": (dict(leaf=dict(since=DAY)), "chain of certificates is not valid"),
    "expired intermediate": (dict(authority=Authority(intermediate_until=-DAY)), "expire"),
    "intermediate of the future": (dict(authority=Authority(intermediate_since=DAY)), "chain of certificates is not valid"),
    "wrong root": (dict(authority=Authority("other", "Another Root", "Another CA")), "do not lead to a configured root"),
    "wrong root of the same name": (dict(authority=OTHER), "do not lead to a configured root"),
    "leaf of another intermediate of the same name": (dict(leaf=dict(issuer_key=OTHER.key)), "do not lead to a configured root"),
    "leaf signed by itself": (dict(leaf=dict(issuer_key=key_named("phone"))), "do not lead to a configured root"),
    "extra certificate": (dict(chain=lambda leaf, made: [der(leaf), der(made.intermediate), der(made.root)]), "number of certificates: 3"),
    "extra copy": (dict(chain=lambda leaf, made: [der(leaf), der(leaf), der(made.intermediate)]), "number of certificates: 3"),
    "no intermediate": (dict(chain=lambda leaf, made: [der(leaf)]), "number of certificates: 1"),
    "no certificate": (dict(chain=lambda leaf, made: []), "number of certificates: 0"),
    "intermediate first": (dict(chain=lambda leaf, made: [der(made.intermediate), der(leaf)]), "not leaf, intermediate and root"),
    "leaf of the root": (dict(leaf=dict(issuer=REAL.root_name, issuer_key=REAL.root_key)), "not leaf, intermediate and root"),
    "root in place of the intermediate": (
        dict(leaf=dict(issuer=REAL.root_name, issuer_key=REAL.root_key), chain=lambda leaf, made: [der(leaf), der(made.root)]),
        "not leaf, intermediate and root"),
    "certificate that is no byte string": (dict(chain=lambda leaf, made: [der(leaf), 7]), "not byte strings"),
    "certificate with bytes behind it": (dict(chain=lambda leaf, made: [der(leaf) + b"\0", der(made.intermediate)]), "leaf certificate cannot be read"),
    "certificate that is none": (dict(chain=lambda leaf, made: [der(leaf), b"\x30\x03\x02\x01\x01"]), "intermediate certificate cannot be read"),
    "intermediate that is no authority": (dict(authority=Authority(is_authority=False)), "not marked as a CA"),
    "intermediate that may not sign certificates": (dict(authority=Authority(signs_certificates=False)), "not for signing certificates"),
    "leaf that is an authority": (dict(leaf=dict(is_authority=True)), "leaf certificate is an authority"),
    "leaf that may not sign": (dict(leaf=dict(signs=False)), "not for signatures"),
    "unknown critical extension": (dict(leaf=dict(more=[(CRITICAL, True)])), "critical"),
    "wrong nonce": (dict(nonce=bytes(32)), "wrong nonce: the attestation"),
    "nonce of another challenge": (dict(body_challenge=True), "wrong nonce: the attestation"),
    "short nonce": (dict(extension=lambda nonce: nonce_extension(nonce[:31])), "wrong nonce: the attestation"),
    "no nonce": (dict(extension=lambda nonce: None), "wrong nonce: the leaf certificate has none"),
    "nonce and more": (dict(extension=lambda nonce: nonce_extension(nonce, b"\x05\x00")), "wrong nonce: the leaf certificate's extension"),
    "nonce without its frame": (dict(extension=lambda nonce: b"\x04\x20" + nonce), "wrong nonce: the leaf certificate's extension"),
    "other key id": (dict(key_id=b64(bytes(32))), "wrong key id: it is not the digest"),
    "key id that is no base64": (dict(key_id="not base64!"), "wrong key id: it is not base64"),
    "short key id": (dict(key_id=b64(bytes(31))), "wrong key id: it is not base64"),
    "other app": (dict(app="ABCDE12345.com.example.other"), "wrong app"),
    "no credential": (dict(flags=0), "no attested credential"),
    "counter 1": (dict(counter=1), "the counter is 1"),
    "counter of four bytes": (dict(counter=1 << 24), "the counter is 16777216"),
    "development build": (dict(environment=DEVELOPMENT), "development build"),
    "another authenticator": (dict(environment=b"appattest" + b"\0\0\0\0\0\0\1"), "not App Attest"),
    "other credential id": (dict(credential=bytes(32)), "wrong credential id"),
    "empty credential id": (dict(credential=b""), "wrong credential id"),
    "other credential key": (dict(cose=key_named("someone")), "wrong credential key"),
    "key of another kind": (dict(cose_changes={1: 1}), "not an ES256 key"),
    "key on another curve": (dict(cose_changes={-1: 2}), "not an ES256 key"),
    "key for another algorithm": (dict(cose_changes={3: -35}), "not an ES256 key"),
    "short coordinate": (dict(cose_changes={-2: bytes(31)}), "coordinates of 32 bytes"),
    "trailing bytes in the data": (dict(data_tail=b"\0"), "bytes follow the value"),
    "short data": (dict(data=lambda data: data[:54]), "authenticator data has 54 bytes"),
    "data that ends in the credential": (dict(data=lambda data: data[:80]), "ends within the credential"),
    "data without a key": (dict(data=lambda data: data[:87]), "ends within the credential"),
    "trailing bytes": (dict(tail=b"\0"), "bytes follow the value"),
    "other format": (dict(form="packed"), "format is not apple-appattest"),
    "leaf key on another curve": (dict(key=key_named("phone", ec.SECP384R1())), "not on P-256"),
}


def wrong(case, challenge):
    changes = dict(WRONG[case][0])
    authority = changes.pop("authority", REAL)
    signed = bytes(32) if changes.pop("body_challenge", False) else challenge
    attested = Attested(authority, signed, **changes)
    attested.challenge = challenge
    return attested


@pytest.mark.parametrize("case", WRONG)
def test_each_single_fault_is_refused_for_its_reason(running, case):
    """And with compat, each of them is registered without a key."""
    server, reason = running("strict"), WRONG[case][1]
    attested = wrong(case, devices.challenge(server))
    before = devices.log_size(server)
    answer = devices.register(server, attested.body())
    assert devices.failure(answer) == (401, "ATTESTATION_FAILED")
    assert answer.json()["error"]["message"] == "The attestation could not be verified"
    assert reason in devices.logged(server, before) and answer.json()["meta"]["request_id"] in devices.logged(server, before)
    with devices.database(server) as found:
        assert not found.execute("SELECT COUNT(*) FROM device WHERE keyID = ?", [attested.key_id]).fetchone()[0]

    server = running("compat")
    attested = wrong(case, devices.challenge(server))
    before = devices.log_size(server)
    with devices.database(server) as found:
        found.execute("DELETE FROM device")
    row = devices.device_row(server, devices.register(server, attested.body()))
    assert (row["level"], row["publicKey"]) == ("unverified", None)
    assert reason in devices.logged(server, before)


def test_several_roots_and_where_that_is_allowed_development_builds(start, tmp_path):
    roots = tmp_path / "roots.pem"
    roots.write_text(Authority("older", "Older Root", "Older CA").pem() + OTHER.pem() + REAL.pem())
    server = start("--policy", "strict", "--app-attest-root", roots, "--app-id", f"X.other,{APP}", "--allow-development")
    for number, (authority, environment) in enumerate([(OTHER, PRODUCTION), (REAL, DEVELOPMENT), (REAL, PRODUCTION)]):
        attested = Attested(authority, devices.challenge(server), key=key_named(f"build {number}"), environment=environment)
        assert devices.device_row(server, devices.register(server, attested.body()))["level"] == "secure_enclave"


@pytest.mark.parametrize(("authority", "reason"), [
    (Authority("old", root_until=-DAY), "expire"), (Authority("no authority", root_is_authority=False), "not marked as a CA"),
], ids=["expired", "no authority"])
def test_a_root_must_be_good_though_it_is_configured(start, tmp_path, authority, reason):
    server = start("--policy", "strict", "--app-attest-root", devices.roots(tmp_path, authority), "--app-id", APP)
    assert devices.failure(devices.register(server, Attested(authority, devices.challenge(server)).body())) == (401, "ATTESTATION_FAILED")
    assert reason in devices.logged(server, 0)


def test_without_roots_nothing_is_verified(start):
    for policy, status in (("strict", 401), ("compat", 201)):
        server = start("--policy", policy)
        answer = devices.register(server, Attested(REAL, devices.challenge(server)).body())
        assert answer.status_code == status and "secure_enclave" not in answer.text
        assert "no roots are configured" in devices.logged(server, 0)


def test_certificates_must_be_valid_at_the_time_of_the_server(start, tmp_path, clock):
    later = datetime.datetime.now(datetime.UTC) + 2000 * DAY
    options = ["--policy", "strict", "--app-attest-root", devices.roots(tmp_path, REAL), "--app-id", APP]
    server = start(*options, environment=clock(2000 * 86_400))
    of_today = Attested(REAL, devices.challenge(server))
    assert devices.register(server, of_today.body()).status_code == 401
    then = Attested(REAL, devices.challenge(server), leaf=dict(now=later))
    assert devices.device_row(server, devices.register(server, then.body()))["level"] == "secure_enclave"


def test_no_changed_bit_of_an_attestation_passes(running):
    server = running("strict")
    dice = random.Random(15)
    challenges = devices.plant(server, 250, "bits")
    length = len(Attested(REAL, challenges[0], key=key_named("bits"), receipt=None).object)
    for challenge, place in zip(challenges, dice.sample(range(length), 250), strict=True):
        whole = Attested(REAL, challenge, key=key_named("bits"), receipt=None)
        changed = bytearray(whole.object)
        changed[place % len(changed)] ^= 1 << dice.randrange(8)
        whole.object = bytes(changed)
        assert devices.failure(devices.register(server, whole.body())) == (401, "ATTESTATION_FAILED"), place
    good = Attested(REAL, devices.challenge(server), key=key_named("bits"), receipt=None)
    assert devices.register(server, good.body()).status_code == 201


def _hostile():
    dice = random.Random(68)
    yield from (dice.randbytes(dice.randrange(600)) for _ in range(120))
    whole = Attested(REAL, bytes(32)).object
    yield from (whole[: dice.randrange(len(whole))] for _ in range(40))
    for opening in (b"\x81", b"\xa1\x01", b"\xa1", b"\xc0", b"\x9f", b"\xbf", b"\xd9\xd9\xf7", b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff"):
        yield opening * (150_000 // len(opening))
    yield b"\x5b\x7f\xff\xff\xff\xff\xff\xff\xff" + bytes(10)  # a byte string of 2^63 - 1
    yield b"\x5b\xff\xff\xff\xff\xff\xff\xff\xff"
    yield b"\xbb\xff\xff\xff\xff\xff\xff\xff\xff"
    yield b"\xba\x00\x01\x00\x00" + b"\x00\x00" * 65_536  # a map of 65,536 members
    yield b"\x98\xff" + b"\x00" * 255
    yield b"\x62\xff\xfe"
    yield b""
    yield cbor({"fmt": "apple-appattest", "attStmt": {"x5c": [b"", b""]}, "authData": b""})
    yield cbor({"fmt": "apple-appattest", "attStmt": [], "authData": b""})
    yield cbor({"fmt": 7, "attStmt": {"x5c": {}}, "authData": []})
    # DER that is nested, or that claims more than there is.
    yield cbor({"fmt": "apple-appattest", "attStmt": {"x5c": [b"\x30\x80" * 40_000, b"\x30\x84\xff\xff\xff\xff"]}, "authData": bytes(200)})
    nested = b"\x05\x00"
    for _ in range(5000):
        length = len(nested)
        nested = b"\x30" + (bytes([length]) if length < 128 else b"\x83" + length.to_bytes(3)) + nested
    yield cbor({"fmt": "apple-appattest", "attStmt": {"x5c": [nested, nested]}, "authData": bytes(200)})


def test_hostile_attestations_are_refused_and_leave_the_server_well(running):
    server = running("strict")
    hostile = [*_hostile()]
    process = server.process.pid
    for challenge, value in zip(devices.plant(server, len(hostile), "hostile"), hostile, strict=True):
        body = Attested(REAL, challenge).body()
        body["attestation"]["attestation_object"] = b64(value)
        assert devices.failure(devices.register(server, body)) == (401, "ATTESTATION_FAILED"), value[:40].hex()
    assert server.process.poll() is None and server.process.pid == process
    assert server.get("/health").json() == {"status": "ok"}
    assert server.memory() < 300 << 20


def test_hostile_credentials_in_a_genuine_frame_are_refused(running):
    """The key in the authenticator data is CBOR too, and its nonce is right."""
    server = running("strict")
    hostile = [b"\x81" * 5000, b"\xa1\x01" * 5000, b"\xc0" * 5000, b"\xbf" * 100, b"\x5b" + b"\xff" * 8, b"\xa0", b"\xf6", random.Random(1).randbytes(500)]
    for challenge, value in zip(devices.plant(server, len(hostile), "credentials"), hostile, strict=True):
        attested = Attested(REAL, challenge, data=lambda data: data[:87] + value)
        before = devices.log_size(server)
        assert devices.failure(devices.register(server, attested.body())) == (401, "ATTESTATION_FAILED")
        assert "credential's key" in devices.logged(server, before)


def test_names_in_certificates_write_no_lines_into_the_log(running):
    server = running("strict")
    authority = Authority("liar", "Root\nERROR forged line", "CA\r\nERROR forged line")
    before = devices.log_size(server)
    devices.register(server, Attested(authority, devices.challenge(server)).body())
    lines = devices.logged(server, before).splitlines()
    assert lines and not any(line.startswith("ERROR") for line in lines)


@pytest.mark.parametrize(
    ("text", "options", "sentence"),
    [
        (None, ["--app-id", APP], "cannot be read"),
        ("", ["--app-id", APP], "no certificate in it"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", ["--app-id", APP], "expected certificates in PEM"),
        (REAL.pem(), [], "--app-attest-root needs --app-id"),
    ],
)
def test_a_server_with_useless_roots_does_not_start(tmp_path, text, options, sentence):
    path = tmp_path / "roots.pem"
    if text is not None:
        path.write_text(text)
    command = [conftest.BINARY, "serve", "--data", tmp_path / "data", "--listen", "127.0.0.1:0", "--app-attest-root", path, *options]
    ended = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 1 and sentence in ended.stderr, ended.stderr
