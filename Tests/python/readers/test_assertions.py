"""Assertions of hash chains: which frames a signature verifies."""

import base64
import json

import pytest
from bundles import SMALL, Device, base64_text, bundle, cbor_bytes, cbor_text
from chain_checks import final, in_order, long_bundle, verified
from conversions import pipeline, together
from outputs import codes
from videos import video_file


@pytest.mark.parametrize("swapped", [False, True])
def test_a_signature_over_the_final_hash_is_verified(takeset, tmp_path, keys, swapped):
    found = long_bundle()
    found.metadata["assertion"] = Device(2).assertion(final(found), counter=7, swapped=swapped)
    entry = verified(takeset, tmp_path, found, *keys)
    assertion = entry["verification"]["assertion"]
    assert (assertion["state"], assertion["covers"], assertion["key"], assertion["counter"]) == ("verified", "final", "phone-2", 7)
    partial = entry["verification"]["partial"]
    assert partial["state"] == "complete" and partial["verified_frames"] == partial["recorded_frames"] == 160
    assert partial["verified_seconds"] == partial["recorded_seconds"] == pytest.approx(160 / 30, abs=0.05)


@pytest.mark.parametrize("number", [0, 1])
def test_a_signature_over_a_checkpoint_covers_the_frames_before_it(takeset, tmp_path, keys, number):
    found = bundle(**SMALL, checkpoints=(15, 30))
    checkpoint = found.hash_chain["checkpoints"][number]
    found.metadata["assertion"] = Device(1).assertion(base64.b64decode(checkpoint["hash"]))
    entry = verified(takeset, tmp_path, found, *keys)
    assertion, partial = entry["verification"]["assertion"], entry["verification"]["partial"]
    assert (assertion["state"], assertion["key"]) == ("verified", "phone-1")
    assert (assertion["covers"], assertion["checkpoint"]) == ("checkpoint", number)
    assert partial["state"] == "partial" and partial["verified_frames"] == checkpoint["frame_number"] and partial["recorded_frames"] == 45
    assert partial["verified_seconds"] == pytest.approx(checkpoint["timestamp"])
    assert partial["recorded_seconds"] == pytest.approx(1.5, abs=0.05)


def test_positions_of_checkpoints_are_data(takeset, tmp_path, keys):
    found = long_bundle()
    found.hash_chain["checkpoints"][0].update(timestamp=2.4833)  # recorded at 60 frames a second
    found.metadata["assertion"] = Device(1).assertion(base64.b64decode(found.hash_chain["checkpoints"][0]["hash"]))
    partial = verified(takeset, tmp_path, found, *keys)["verification"]["partial"]
    assert partial["verified_frames"] == 150 and partial["verified_seconds"] == pytest.approx(2.4833)


@pytest.mark.parametrize("position", [
    {"frame_number": 900_000, "timestamp": 900.0}, {"frame_number": 900_000}, {"frame_number": 46}, {"timestamp": 86_400},
    {"timestamp": 1e308}, {"timestamp": -7.5}, {"timestamp": -1e308}, {"frame_number": -1},
])
def test_a_checkpoint_verifies_no_more_than_was_recorded(takeset, tmp_path, keys, position):
    found = bundle(**SMALL, checkpoints=(30,))
    checkpoint = found.hash_chain["checkpoints"][0]
    found.metadata["assertion"] = Device(1).assertion(base64.b64decode(checkpoint["hash"]))
    checkpoint.update(position)
    entry = verified(takeset, tmp_path, found, *keys)
    verification, partial = entry["verification"], entry["verification"]["partial"]
    assert partial["recorded_frames"] == 45
    if verification["chain"]["state"] == "broken":
        assert entry["outcome"] == "rejected" and verification["assertion"]["covers"] == "none"
        assert partial["verified_frames"] == partial["verified_seconds"] == 0
    else:
        assert partial["state"] == "partial" and partial["verified_frames"] == 30
        assert partial["verified_seconds"] == pytest.approx(29 / 30, abs=0.01)


@pytest.mark.slow
def test_a_video_that_is_longer_than_its_chain_is_partial(takeset, tmp_path, keys):
    found = bundle(**SMALL, video=video_file(count=300, size=(96, 72)))
    found.metadata["assertion"] = Device(1).assertion(final(found))
    entry = verified(takeset, tmp_path, found, *keys)
    assert entry["verification"]["assertion"]["covers"] == "final" and "frame-count-mismatch" in codes(entry)
    partial = entry["verification"]["partial"]
    assert (partial["state"], partial["verified_frames"], partial["recorded_frames"]) == ("partial", 45, 300)
    assert partial["verified_seconds"] == pytest.approx(1.5, abs=0.05) and partial["recorded_seconds"] == pytest.approx(10, abs=0.05)


def bare(signature, data):
    return base64_text(b"\xa2" + cbor_text("signature") + cbor_bytes(signature) + cbor_text("authenticatorData") + cbor_bytes(data))


INVALID = {
    "hashed once": lambda found: Device(1).assertion(final(found), once=True),
    "of another app": lambda found: Device(1).assertion(final(found), app="TEAM123456.org.example.other"),
    "counter 0": lambda found: Device(1).assertion(final(found), counter=0),
    "by a key that is not known": lambda found: Device(3).assertion(final(found)),
    "over something else": lambda found: Device(1).assertion(b"something else"),
    "over the text of the hash": lambda found: Device(1).assertion(found.hash_chain["final_hash"].encode()),
    "over a hash of no checkpoint": lambda found: Device(1).assertion(base64.b64decode(found.hash_chain["frame_hashes"][3])),
    "no base64": lambda found: "not an assertion!",
    "no CBOR": lambda found: base64_text(bytes(40)),
    "CBOR that is cut": lambda found: base64_text(base64.b64decode(Device(1).assertion(final(found)))[:60]),
    "a CBOR list": lambda found: base64_text(b"\x80"),
    "a map that lacks the signature": lambda found: base64_text(b"\xa1" + cbor_text("authenticatorData") + cbor_bytes(bytes(37))),
    "no signature bytes": lambda found: bare(b"", bytes(37)),
    "short data": lambda found: bare(bytes(70), bytes(36)),
    "an endless length": lambda found: base64_text(b"\xa2\x69signature\x5b" + b"\xff" * 8),
    "maps in maps": lambda found: base64_text(b"\xa1\x61a" * 20_000),
}


@pytest.fixture(scope="module")
def doubted(takeset, tmp_path_factory, keys):
    """Bundles with these assertions, taken as they are and where an assertion is required."""
    found = {name: bundle(**SMALL) for name in INVALID}
    for name, one in found.items():
        one.metadata["assertion"] = INVALID[name](one)
    root = tmp_path_factory.mktemp("invalid")
    strict = pipeline(root, verify_hash_chain={"require": "assertion"})
    return [together(takeset, root / str(n), found, [*keys, *more]) for n, more in enumerate([[], strict])]


@pytest.mark.parametrize("name", INVALID)
def test_a_signature_that_does_not_hold_is_invalid(doubted, name):
    for found in doubted:
        assertion = in_order(found[name])["verification"]["assertion"]
        assert assertion["state"] == "invalid" and assertion["covers"] == "none"
    entry = doubted[1][name]
    assert entry["outcome"] == "rejected" and entry["reason"].startswith("verify-hash-chain: ")


def test_an_assertion_that_is_not_there_is_absent(takeset, tmp_path, keys):
    found = bundle(**SMALL)
    del found.metadata["assertion"]
    assert verified(takeset, tmp_path, found, *keys)["verification"]["assertion"]["state"] == "absent"


@pytest.mark.parametrize("covers", ["final", "checkpoint"])
def test_an_assertion_that_is_required_and_verified_is_enough(takeset, tmp_path, keys, covers):
    found = bundle(**SMALL, checkpoints=(30,))
    signed = final(found) if covers == "final" else base64.b64decode(found.hash_chain["checkpoints"][0]["hash"])
    found.metadata["assertion"] = Device(1).assertion(signed)
    entry = verified(takeset, tmp_path, found, *keys, require="assertion")
    assert entry["outcome"] == "written" and entry["verification"]["assertion"]["covers"] == covers


@pytest.mark.parametrize("hash_chain", [None, b""])
def test_a_signature_of_no_chain_is_not_enough_when_an_assertion_is_required(takeset, tmp_path, keys, hash_chain):
    found = bundle(**SMALL)
    found.metadata["assertion"] = Device(1).assertion(final(found))
    found.hash_chain = hash_chain
    entry = verified(takeset, tmp_path, found, *keys, require="assertion")
    assert entry["outcome"] == "rejected" and entry["reason"].startswith("verify-hash-chain: ")
    assert entry["verification"]["assertion"]["covers"] == "none" and entry["verification"]["partial"]["verified_frames"] == 0


def test_a_plan_with_keys_is_what_a_run_with_them_does(takeset, tmp_path, keys):
    found = {name: bundle(**SMALL) for name in ("signed", "by-another", "unsigned", "chainless")}
    for name in "signed", "chainless":
        found[name].metadata["assertion"] = Device(1).assertion(final(found[name]))
    found["by-another"].metadata["assertion"] = Device(3).assertion(final(found["by-another"]))
    found["chainless"].hash_chain = None
    steps = pipeline(tmp_path, verify_hash_chain={"require": "assertion"})
    for arguments, written in ((*steps, *keys), {"signed"}), (steps, set()):
        root = tmp_path / str(len(written))
        entries = together(takeset, root, found, arguments)
        assert {name for name, entry in entries.items() if entry["outcome"] == "written"} == written
        plan = json.loads(takeset("plan", root / "in", "--json", *arguments, check=0).stdout)["takes"]
        assert {t["id"]: (t["outcome"], t["reason"]) for t in plan} == {name: (e["outcome"], e["reason"]) for name, e in entries.items()}
