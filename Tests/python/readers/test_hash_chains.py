"""Hash chains: what can be checked is checked, what cannot is never claimed."""

import base64
import hashlib

import pytest
from bundles import SMALL, Device, base64_text, bundle, chain, keys_file
from chain_checks import final, in_order
from conversions import pipeline, together
from outputs import codes, manifest
from schemas import validator


OTHER = base64_text(hashlib.sha256(b"another").digest())


def changed(key, value):
    return lambda found: found.hash_chain.update({key: value})


def resized(count):
    """A chain of so many hashes for 45 frames."""
    def change(found):
        found.hash_chain = chain(count)
        found.metadata["hash_chain_final"] = found.hash_chain["final_hash"]

    return change


INVALID = {
    "not JSON": lambda found: setattr(found, "hash_chain", b'{"frame_hashes": ['),
    "nested deeply": lambda found: setattr(found, "hash_chain", b'{"frame_hashes":' + b"[" * 500_000),
    "a final hash that is not the last": changed("final_hash", OTHER),
    "another final hash in metadata": lambda found: found.metadata.update(hash_chain_final=OTHER),
    "a checkpoint's hash that is nowhere": changed("checkpoints", [{"index": 0, "frame_number": 15, "timestamp": 0.5, "hash": OTHER}]),
    "a hash more than frames": resized(46),
}


def invalid(name):
    found = bundle(**SMALL)
    INVALID[name](found)
    return found


@pytest.fixture(scope="module")
def rejected(takeset, tmp_path_factory):
    root = tmp_path_factory.mktemp("broken")
    found = together(takeset, root, {name: invalid(name) for name in INVALID})
    assert list((root / "out/episodes").iterdir()) == []
    return found


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_chain_is_a_rejection(rejected, name):
    """HashChainTests have more of them."""
    entry = in_order(rejected[name])
    assert entry["outcome"] == "rejected" and entry["reason"].startswith("verify-hash-chain: ")
    assert entry["verification"]["chain"]["state"] == "broken" and entry["verification"]["chain"]["reason"]
    assert (entry["verification"]["chain"]["final_matches_metadata"] is False) == (name == "another final hash in metadata")


def test_an_invalid_chain_is_a_warning_when_none_is_required(takeset, tmp_path):
    none = pipeline(tmp_path, verify_hash_chain={"require": "none"})
    for entry in together(takeset, tmp_path, {name: invalid(name) for name in INVALID}, none).values():
        assert entry["outcome"] == "written" and "chain-broken" in codes(entry, "warning")
        assert in_order(entry)["verification"]["chain"]["state"] == "broken"


def test_every_state_fits_the_schema(takeset, tmp_path):
    mock = "ZGVidWctbW9jay1hc3NlcnRpb24="
    found = {"sound": bundle(**SMALL), "broken": invalid("not JSON"), "mock": bundle(**SMALL, assertion=mock, is_partial=True)}
    found["partial"] = bundle(**SMALL, checkpoints=(15,))
    found["partial"].metadata["assertion"] = Device().assertion(base64.b64decode(found["partial"].hash_chain["checkpoints"][0]["hash"]))
    together(takeset, tmp_path, found, ["--keys", keys_file(tmp_path / "keys.json", {"phone": Device()})])
    validator("manifest.schema.json").validate(manifest(tmp_path / "out"))


def in_hex(found):
    found.hash_chain["frame_hashes"] = [base64.b64decode(text).hex() for text in found.hash_chain["frame_hashes"]]
    found.hash_chain["final_hash"] = found.hash_chain["frame_hashes"][-1]


SOUND = {
    "hex": (in_hex, []),
    "metadata in hex": (lambda found: found.metadata.update(hash_chain_final=final(found).hex()), []),
    "without counts": (lambda found: [found.hash_chain.pop(key) for key in ("frame_count", "checkpoint_count")], []),
    "with unknown keys": (changed("version", 2), []),
    "5 hashes fewer than frames": (resized(40), ["chain-short"]),
    "another declared frame count": (changed("frame_count", 44), ["chain-count-mismatch"]),
    "two checkpoints at other places": (lambda found: found.hash_chain.update(chain(45, [15, 30])), ["checkpoint-spacing"]),
}


@pytest.fixture(scope="module")
def accepted(takeset, tmp_path_factory):
    found = {name: bundle(**SMALL) for name in SOUND}
    for name, (change, _) in SOUND.items():
        change(found[name])
    return together(takeset, tmp_path_factory.mktemp("sound"), found)


@pytest.mark.parametrize("name", SOUND)
def test_a_chain_with_an_anomaly_is_still_valid(accepted, name):
    entry, (_, expected) = in_order(accepted[name]), SOUND[name]
    assert entry["verification"]["chain"]["state"] == "sound" and entry["outcome"] == "written"
    assert entry["verification"]["chain"]["final_matches_metadata"] is True
    assert set(codes(entry, "warning", "info")) - {"hash-encoding", "metadata-range"} == set(expected)
