"""Hash chains: what can be checked is checked, what cannot is never claimed."""

import base64
import hashlib

import pytest
from bundles import SMALL, Device, base64_text, bundle, keys_file
from chain_checks import in_order
from conversions import pipeline, together
from outputs import codes, manifest
from schemas import validator


OTHER = base64_text(hashlib.sha256(b"another").digest())


INVALID = {  # HashChainTests have more of them
    "not JSON": lambda found: setattr(found, "hash_chain", b'{"frame_hashes": ['),
    "nested deeply": lambda found: setattr(found, "hash_chain", b'{"frame_hashes":' + b"[" * 500_000),
    "another final hash in metadata": lambda found: found.metadata.update(hash_chain_final=OTHER),
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
