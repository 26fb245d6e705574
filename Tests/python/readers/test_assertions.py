"""Assertions of hash chains: which frames a signature verifies."""

import base64
import json

import pytest
from bundles import SMALL, Device, base64_text, bundle, cbor_bytes, cbor_text
from chain_checks import final, in_order, verified
from conversions import pipeline, together
from outputs import codes
from videos import video_file


POSITIONS = [
    {"frame_number": 900_000, "timestamp": 900.0}, {"frame_number": 900_000}, {"frame_number": 46}, {"timestamp": 86_400},
    {"timestamp": 1e308}, {"timestamp": -7.5}, {"timestamp": -1e308}, {"frame_number": -1},
]


def checkpoint(found, number=0):
    return base64.b64decode(found.hash_chain["checkpoints"][number]["hash"])


@pytest.fixture(scope="module")
def signed(takeset, tmp_path_factory, keys):
    """Bundles whose phone signed the chain, or what it had of it at a checkpoint, which may claim another place."""
    found = {name: bundle(**SMALL, checkpoints=(15, 30)) for name in ("final", "final swapped", "checkpoint 0", "checkpoint 1", "absent")}
    for name in "final", "final swapped":
        found[name].metadata["assertion"] = Device(2).assertion(final(found[name]), counter=7, swapped=name.endswith("swapped"))
    for number in 0, 1:
        found[f"checkpoint {number}"].metadata["assertion"] = Device(1).assertion(checkpoint(found[f"checkpoint {number}"], number))
    del found["absent"].metadata["assertion"]
    # The first as if it was recorded at 60 frames a second.
    for number, position in enumerate([{"timestamp": 0.4833}, *POSITIONS]):
        one = found[f"position {number}"] = bundle(**SMALL, checkpoints=(30,))
        one.metadata["assertion"] = Device(1).assertion(checkpoint(one))
        one.hash_chain["checkpoints"][0].update(position)
    entries = together(takeset, tmp_path_factory.mktemp("signed"), found, keys)
    return {name: in_order(entry) for name, entry in entries.items()}


@pytest.mark.parametrize("name", ["final", "final swapped"])
def test_a_signature_over_the_final_hash_is_verified(signed, name):
    assertion, partial = signed[name]["verification"]["assertion"], signed[name]["verification"]["partial"]
    assert (assertion["state"], assertion["covers"], assertion["key"], assertion["counter"]) == ("verified", "final", "phone-2", 7)
    assert partial["state"] == "complete" and partial["verified_frames"] == partial["recorded_frames"] == 45
    assert partial["verified_seconds"] == partial["recorded_seconds"] == pytest.approx(1.5, abs=0.05)


@pytest.mark.parametrize("number", [0, 1])
def test_a_signature_over_a_checkpoint_covers_the_frames_before_it(signed, number):
    entry, frames = signed[f"checkpoint {number}"], [15, 30][number]
    assertion, partial = entry["verification"]["assertion"], entry["verification"]["partial"]
    assert (assertion["state"], assertion["key"]) == ("verified", "phone-1")
    assert (assertion["covers"], assertion["checkpoint"]) == ("checkpoint", number)
    assert partial["state"] == "partial" and partial["verified_frames"] == frames and partial["recorded_frames"] == 45
    assert partial["verified_seconds"] == pytest.approx((frames - 1) / 30)
    assert partial["recorded_seconds"] == pytest.approx(1.5, abs=0.05)


def test_positions_of_checkpoints_are_data(signed):
    partial = signed["position 0"]["verification"]["partial"]
    assert partial["verified_frames"] == 30 and partial["verified_seconds"] == pytest.approx(0.4833)


@pytest.mark.parametrize("number", range(len(POSITIONS)))
def test_a_checkpoint_verifies_no_more_than_was_recorded(signed, number):
    entry = signed[f"position {number + 1}"]
    verification, partial = entry["verification"], entry["verification"]["partial"]
    assert partial["recorded_frames"] == 45
    if verification["chain"]["state"] == "broken":
        assert entry["outcome"] == "rejected" and verification["assertion"]["covers"] == "none"
        assert partial["verified_frames"] == partial["verified_seconds"] == 0
    else:
        assert partial["state"] == "partial" and partial["verified_frames"] == 30
        assert partial["verified_seconds"] == pytest.approx(29 / 30, abs=0.01)


def test_an_assertion_that_is_not_there_is_absent(signed):
    assert signed["absent"]["verification"]["assertion"]["state"] == "absent"


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


INVALID = {  # VerifyHashChainTests and CBORTests have more of them
    "hashed once": lambda found: Device(1).assertion(final(found), once=True),
    "of another app": lambda found: Device(1).assertion(final(found), app="TEAM123456.org.example.other"),
    "by a key that is not known": lambda found: Device(3).assertion(final(found)),
    "over the text of the hash": lambda found: Device(1).assertion(found.hash_chain["final_hash"].encode()),
    "a CBOR list": lambda found: base64_text(b"\x80"),
    "no signature bytes": lambda found: bare(b"", bytes(37)),
    "short data": lambda found: bare(bytes(70), bytes(36)),
    "maps in maps": lambda found: base64_text(b"\xa1\x61a" * 20_000),
}


def test_a_signature_that_does_not_hold_is_invalid(takeset, tmp_path, keys):
    found = {name: bundle(**SMALL) for name in INVALID}
    for name, one in found.items():
        one.metadata["assertion"] = INVALID[name](one)
    for name, entry in together(takeset, tmp_path, found, [*keys, *pipeline(tmp_path, verify_hash_chain={"require": "assertion"})]).items():
        assertion = in_order(entry)["verification"]["assertion"]
        assert assertion["state"] == "invalid" and assertion["covers"] == "none", name
        assert entry["outcome"] == "rejected" and entry["reason"].startswith("verify-hash-chain: "), name


def test_a_plan_with_keys_is_what_a_run_with_them_does(takeset, tmp_path, keys):
    """Where an assertion is required, one of a checkpoint is enough, and one of no chain is not."""
    found = {name: bundle(**SMALL, checkpoints=(30,)) for name in ("signed", "partly", "by-another", "unsigned", "chainless", "empty-chain")}
    for name in "signed", "chainless", "empty-chain":
        found[name].metadata["assertion"] = Device(1).assertion(final(found[name]))
    found["partly"].metadata["assertion"] = Device(1).assertion(checkpoint(found["partly"]))
    found["by-another"].metadata["assertion"] = Device(3).assertion(final(found["by-another"]))
    found["chainless"].hash_chain, found["empty-chain"].hash_chain = None, b""
    steps = pipeline(tmp_path, verify_hash_chain={"require": "assertion"})
    for arguments, written in ((*steps, *keys), {"signed": "final", "partly": "checkpoint"}), (steps, {}):
        root = tmp_path / str(len(written))
        entries = together(takeset, root, found, arguments)
        for name, entry in entries.items():
            assert (entry["outcome"] == "written") == (name in written) and entry["verification"]["assertion"]["covers"] == written.get(name, "none")
            assert name in written or entry["reason"].startswith("verify-hash-chain: ") and entry["verification"]["partial"]["verified_frames"] == 0
        plan = json.loads(takeset("plan", root / "in", "--json", *arguments, check=0).stdout)["takes"]
        assert {t["id"]: (t["outcome"], t["reason"]) for t in plan} == {name: (e["outcome"], e["reason"]) for name, e in entries.items()}
