"""Hash chains: what can be checked is checked, what cannot is never claimed."""

import base64

import pytest
from bundles import SMALL, Device, bundle, chain, keys_file
from chain_checks import INVALID_CHAINS, MOCK, final, in_order, invalid_chain, replace, resized, verified
from conversions import together
from outputs import codes, manifest
from schemas import validator


@pytest.fixture(scope="module")
def rejected(takeset, tmp_path_factory):
    root = tmp_path_factory.mktemp("broken")
    found = together(takeset, root, {name: invalid_chain(name) for name in INVALID_CHAINS})
    assert list((root / "out/episodes").iterdir()) == []
    return found


@pytest.mark.parametrize("name", INVALID_CHAINS)
def test_an_invalid_chain_is_a_rejection(rejected, name):
    entry = in_order(rejected[name])
    assert entry["outcome"] == "rejected" and entry["reason"].startswith("verify-hash-chain: ")
    assert entry["verification"]["chain"]["state"] == "broken" and entry["verification"]["chain"]["reason"]


@pytest.mark.parametrize("name", ["not JSON", "another final hash in metadata", "a checkpoint's hash that is nowhere"])
def test_an_invalid_chain_is_a_warning_when_none_is_required(takeset, tmp_path, name):
    entry = verified(takeset, tmp_path, invalid_chain(name), require="none")
    assert entry["outcome"] == "written" and "chain-broken" in codes(entry, "warning")
    assert entry["verification"]["chain"]["state"] == "broken"


def test_final_matches_metadata_shows_which_is_wrong(takeset, tmp_path):
    entry = verified(takeset, tmp_path, invalid_chain("another final hash in metadata"))
    assert entry["verification"]["chain"]["final_matches_metadata"] is False


def test_every_state_fits_the_schema(takeset, tmp_path):
    found = {"sound": bundle(**SMALL), "broken": invalid_chain("not JSON"), "mock": bundle(**SMALL, assertion=MOCK, is_partial=True)}
    found["partial"] = bundle(**SMALL, checkpoints=(15,))
    found["partial"].metadata["assertion"] = Device().assertion(base64.b64decode(found["partial"].hash_chain["checkpoints"][0]["hash"]))
    together(takeset, tmp_path, found, ["--keys", keys_file(tmp_path / "keys.json", {"phone": Device()})])
    validator("manifest.schema.json").validate(manifest(tmp_path / "out"))


def in_hex(found):
    found.hash_chain["frame_hashes"] = [base64.b64decode(text).hex() for text in found.hash_chain["frame_hashes"]]
    found.hash_chain["final_hash"] = found.hash_chain["frame_hashes"][-1]


def metadata_in(encode):
    return lambda found: found.metadata.update(hash_chain_final=encode(final(found)))


SOUND = {
    "hex": (in_hex, []),
    "metadata in hex": (metadata_in(bytes.hex), []),
    "metadata in upper-case hex": (metadata_in(lambda data: data.hex().upper()), []),
    "metadata in base64 for URLs": (metadata_in(lambda data: base64.urlsafe_b64encode(data).decode().rstrip("=")), []),
    "without counts": (lambda found: [found.hash_chain.pop(key) for key in ("frame_count", "checkpoint_count")], []),
    "with unknown keys": (replace("version", 2), []),
    "1024 hashes": (resized(1024, said=1024), ["frame-count-mismatch"]),
    "5 hashes fewer than frames": (resized(40), ["chain-short"]),
    "1 hash fewer than frames": (resized(44), ["chain-short"]),
    "another declared frame count": (replace("frame_count", 44), ["chain-count-mismatch"]),
    "another declared checkpoint count": (replace("checkpoint_count", 2), ["chain-count-mismatch"]),
    "a checkpoint at another place": (lambda found: found.hash_chain.update(chain(45, [15])), ["checkpoint-spacing"]),
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
