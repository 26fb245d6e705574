"""Hash chains and assertions: what can be checked is checked, what cannot is never claimed."""

import base64
import hashlib
import json
import struct

import pytest
from bundles import (
    APP, Device, base64_text, bundle, cbor_bytes, cbor_text, chain, codes, keys_file, linked, maps, movie, pipeline, record, together,
    traces,
)
from conftest import manifest
from test_record import validator

SMALL = {"container": "gzip", "layout": "rldp", "size": (8, 6)}
PLACEHOLDER = base64_text(b"POST\n/api/v1/captures/video\n1700000000000\n550E8400-E29B-41D4-A716-446655440000")
MOCK = "ZGVidWctbW9jay1hc3NlcnRpb24="


def verified(takeset, tmp_path, found, *arguments, require=None, name="take", check=0):
    """The entry of a bundle, in order."""
    if require:
        arguments = (*arguments, *pipeline(tmp_path, verify_hash_chain={"require": require}))
    output = tmp_path / f"out-{name}-{require}"
    directory = tmp_path / name
    if not directory.exists():
        found.write(directory)
    takeset.convert(directory, output=output, arguments=arguments, check=check)
    return in_order(record(output))


def in_order(entry):
    """The entry, after a look at what must hold for all."""
    assert "frames verified" not in json.dumps(entry).lower()
    levels = ["bytes-sealed-at-ingest"]
    levels += ["chain-structure-ok"] * (entry["verification"]["chain"]["state"] == "sound")
    levels += ["assertion-ok"] * (entry["verification"]["assertion"]["state"] == "verified")
    assert entry["verification"]["levels"] == levels
    assert len(entry["verification"]["not_verified"]) >= 1
    return entry


def final(found):
    return base64.b64decode(found.hash_chain["final_hash"])


def long_bundle(checkpoints=(150,), **metadata):
    """A capture of 160 frames, with a checkpoint where the app makes one."""
    fields = {"checkpoints": checkpoints, "video": movie(count=160, size=(96, 72)), "resolution": {"width": 96, "height": 72}}
    return bundle(count=160, **SMALL, **fields, **metadata)


# Chains


def test_the_worked_chain(takeset, tmp_path):
    depth = maps(1, 3, 2)[0]
    depth.flat[:] = [0.5, 1, 1.5, 2, 2.5, 3]
    stamps = [struct.pack("<d", n / 30) for n in range(3)]
    frames = [bytes(range(0x10 * n, 0x10 * n + 16)) + (depth.tobytes() if n != 1 else b"") + stamps[n] for n in range(3)]
    digests = linked(frames)
    assert [d.hex() for d in digests] == [
        "414de6306096e3cfe432ef83132793ad7c4bb476a5734358bf2f4aad2a64078c",
        "279f83061c2d7b1f999b0b85dbf94fdee9dc7079fd6dd037d1c4f326687f5a9a",
        "0c99536dad281ed224d5d852178099388b757c97f46c2d88de898296adfabf65",
    ]
    assert hashlib.sha256(digests[2]).hexdigest() == "283577eda3f497f46eb86db4ba20b161150543d6781d41bd6780efdbf6c84bfd"
    texts = [base64_text(d) for d in digests]
    assert texts[2] == "DJlTba0oHtIk1dhSF4CZOIt1fJf0bC2I3omClq36v2U="
    found = bundle(count=3, **SMALL, hash_chain_final=texts[2], assertion=Device().assertion(digests[2]))
    found.hash_chain = {"checkpoint_count": 0, "checkpoints": [], "final_hash": texts[2], "frame_count": 3, "frame_hashes": texts}
    entry = verified(takeset, tmp_path, found, "--keys", keys_file(tmp_path / "keys.json", {"phone": Device()}))
    assert entry["verification"]["chain"] == {"state": "sound", "frames": 3, "checkpoints": 0, "final_matches_metadata": True}
    assert entry["verification"]["assertion"]["state"] == "verified" and codes(entry) == []


def test_a_sound_chain(takeset, tmp_path):
    entry = verified(takeset, tmp_path, long_bundle())
    assert entry["verification"]["chain"] == {"state": "sound", "frames": 160, "checkpoints": 1, "final_matches_metadata": True}
    assert entry["outcome"] == "written" and codes(entry) == []


def changing(function):
    """A change of the chain, after which its last hash is again that of chain and metadata."""
    def change(found):
        function(found.hash_chain)
        hashes = found.hash_chain["frame_hashes"]
        found.hash_chain["final_hash"] = found.metadata["hash_chain_final"] = hashes[-1] if hashes else ""

    return change


def replace(key, value):
    return lambda found: found.hash_chain.update({key: value})


def remove(key):
    return lambda found: found.hash_chain.pop(key)


def resized(count, said=None):
    def change(found):
        found.hash_chain = chain(count)
        found.metadata.update(hash_chain_final=found.hash_chain["final_hash"], frame_count=said or 45)

    return change


def checkpoint(hash_, number=15):
    return replace("checkpoints", [{"index": 0, "frame_number": number, "timestamp": number / 30, "hash": hash_}])


OTHER = base64_text(hashlib.sha256(b"another").digest())

BROKEN = {
    "not JSON": lambda found: setattr(found, "hash_chain", b'{"frame_hashes": ['),
    "not JSON at all": lambda found: setattr(found, "hash_chain", b"\xff\xfe\0"),
    "a list": lambda found: setattr(found, "hash_chain", b"[]"),
    "nested deeply": lambda found: setattr(found, "hash_chain", b'{"frame_hashes":' + b"[" * 500_000),
    "no frame_hashes": remove("frame_hashes"),
    "no checkpoints": remove("checkpoints"),
    "no final_hash": remove("final_hash"),
    "frame_hashes that are text": replace("frame_hashes", "AAAA"),
    "a hash that is a number": changing(lambda c: c["frame_hashes"].__setitem__(3, 7)),
    "a hash that is no base64": changing(lambda c: c["frame_hashes"].__setitem__(3, "?" * 44)),
    "a hash of 31 bytes": changing(lambda c: c["frame_hashes"].__setitem__(3, base64_text(bytes(31)))),
    "a hash of 33 bytes": changing(lambda c: c["frame_hashes"].__setitem__(3, base64_text(bytes(33)))),
    "a hash of 31 bytes in hex": changing(lambda c: c["frame_hashes"].__setitem__(3, "ab" * 31)),
    "an empty hash": changing(lambda c: c["frame_hashes"].__setitem__(3, "")),
    "a checkpoint's hash of 16 bytes": checkpoint(base64_text(bytes(16))),
    "a final hash that is not the last": replace("final_hash", OTHER),
    "a final hash that is the first": lambda found: found.hash_chain.update(final_hash=found.hash_chain["frame_hashes"][0]),
    "another final hash in metadata": lambda found: found.metadata.update(hash_chain_final=OTHER),
    "a checkpoint's hash that is nowhere": checkpoint(OTHER),
    "a checkpoint beyond the end": checkpoint(OTHER, 150),
    "no hashes": lambda found: found.hash_chain.update(frame_hashes=[], frame_count=0),
    "1025 hashes": resized(1025, said=1025),
    "a hash more than frames": resized(46),
    "6 hashes fewer than frames": resized(39),
}


def broken(name):
    found = bundle(**SMALL)
    BROKEN[name](found)
    return found


@pytest.fixture(scope="module")
def rejected(takeset, tmp_path_factory):
    root = tmp_path_factory.mktemp("broken")
    found = together(takeset, root, {name: broken(name) for name in BROKEN})
    assert list((root / "out/episodes").iterdir()) == []
    return found


@pytest.mark.parametrize("name", BROKEN)
def test_a_chain_that_is_broken_is_a_rejection(rejected, name):
    entry = in_order(rejected[name])
    assert entry["outcome"] == "rejected" and entry["reason"].startswith("verify-hash-chain: ")
    assert entry["verification"]["chain"]["state"] == "broken" and entry["verification"]["chain"]["reason"]


@pytest.mark.parametrize("name", ["not JSON", "another final hash in metadata", "a checkpoint's hash that is nowhere"])
def test_a_broken_chain_is_a_warning_when_none_is_required(takeset, tmp_path, name):
    entry = verified(takeset, tmp_path, broken(name), require="none")
    assert entry["outcome"] == "written" and "chain-broken" in codes(entry, "warning")
    assert entry["verification"]["chain"]["state"] == "broken"


def test_final_matches_metadata_tells_which_is_wrong(takeset, tmp_path):
    entry = verified(takeset, tmp_path, broken("another final hash in metadata"))
    assert entry["verification"]["chain"]["final_matches_metadata"] is False


def test_every_state_fits_the_schema(takeset, tmp_path):
    found = {"sound": bundle(**SMALL), "broken": broken("not JSON"), "mock": bundle(**SMALL, assertion=MOCK, is_partial=True)}
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
def test_a_chain_that_is_odd_is_still_sound(accepted, name):
    entry, (_, expected) = in_order(accepted[name]), SOUND[name]
    assert entry["verification"]["chain"]["state"] == "sound" and entry["outcome"] == "written"
    assert entry["verification"]["chain"]["final_matches_metadata"] is True
    assert set(codes(entry, "warning", "info")) - {"hash-encoding", "metadata-range"} == set(expected)


def test_a_checkpoints_hash_at_another_place_is_told(takeset, tmp_path):
    found = long_bundle()
    hashes = found.hash_chain["frame_hashes"]
    hashes[148:151] = [hashes[149], hashes[148], hashes[150]]
    entry = verified(takeset, tmp_path, found)
    assert entry["verification"]["chain"]["state"] == "sound" and codes(entry) == ["chain-reordered"]


@pytest.mark.parametrize("hash_chain", [None, b""])
@pytest.mark.parametrize("final_hash", ["", OTHER])
def test_a_chain_that_is_absent_is_a_warning(takeset, tmp_path, hash_chain, final_hash):
    found = bundle(**SMALL, hash_chain_final=final_hash)
    found.hash_chain = hash_chain
    entry = verified(takeset, tmp_path, found)
    assert entry["outcome"] == "written" and codes(entry, "warning") == ["chain-absent"]
    assert entry["verification"]["chain"]["state"] == "absent"


# Assertions


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """Arguments that name the keys of two phones."""
    return "--keys", keys_file(tmp_path_factory.mktemp("keys") / "keys.json", {"phone-1": Device(1), "phone-2": Device(2)})


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


def test_a_movie_that_is_longer_than_its_chain_is_partial(takeset, tmp_path, keys):
    found = bundle(**SMALL, video=movie(count=300, size=(96, 72)))
    found.metadata["assertion"] = Device(1).assertion(final(found))
    entry = verified(takeset, tmp_path, found, *keys)
    assert entry["verification"]["assertion"]["covers"] == "final" and "frame-count-mismatch" in codes(entry)
    partial = entry["verification"]["partial"]
    assert (partial["state"], partial["verified_frames"], partial["recorded_frames"]) == ("partial", 45, 300)
    assert partial["verified_seconds"] == pytest.approx(1.5, abs=0.05) and partial["recorded_seconds"] == pytest.approx(10, abs=0.05)


def test_metadata_that_says_partial_does_not_outweigh_the_final_hash(takeset, tmp_path, keys):
    found = bundle(**SMALL, is_partial=True)
    found.metadata["assertion"] = Device(1).assertion(final(found))
    entry = verified(takeset, tmp_path, found, *keys)
    assert entry["verification"]["partial"]["state"] == "complete" and entry["verification"]["assertion"]["covers"] == "final"


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


def test_a_flipped_bit_anywhere_in_the_signed_data_is_invalid(takeset, tmp_path, keys):
    found = bundle(count=3, **SMALL)
    sound = base64.b64decode(Device(1).assertion(final(found)))
    for place in sound.index(b"authenticatorData") + 19, len(sound) - 5, len(sound) - 1:
        flipped = bytearray(sound)
        flipped[place] ^= 1
        found.metadata["assertion"] = base64_text(bytes(flipped))
        entry = verified(takeset, tmp_path, found, *keys, name=f"take-{place}")
        assert entry["verification"]["assertion"]["state"] == "invalid"


OTHERWISE = {"mock": MOCK, "placeholder": PLACEHOLDER, "absent": "", "absent, blank": "  ", "absent, null": None}


@pytest.mark.parametrize("with_keys", [True, False])
def test_what_is_no_signature_is_called_by_its_name(takeset, tmp_path, keys, with_keys):
    found = {name: bundle(**SMALL, assertion=text) for name, text in OTHERWISE.items()}
    for name, entry in together(takeset, tmp_path, found, keys if with_keys else ()).items():
        assertion = in_order(entry)["verification"]["assertion"]
        assert (assertion["state"], assertion["covers"]) == (name.split(",")[0], "none"), name
        assert entry["outcome"] == "written" and entry["verification"]["partial"]["state"] == "unknown"


def test_an_assertion_that_is_not_there_is_absent(takeset, tmp_path, keys):
    found = bundle(**SMALL)
    del found.metadata["assertion"]
    assert verified(takeset, tmp_path, found, *keys)["verification"]["assertion"]["state"] == "absent"


@pytest.mark.parametrize("is_partial, state", [(None, "unknown"), (False, "unknown"), (True, "partial")])
def test_without_a_key_nothing_is_verified(takeset, tmp_path, is_partial, state):
    found = bundle(**SMALL, **({} if is_partial is None else {"is_partial": is_partial}))
    found.metadata["assertion"] = Device(1).assertion(final(found))
    entry = verified(takeset, tmp_path, found)
    assert entry["verification"]["assertion"]["state"] == "no-key" and entry["outcome"] == "written"
    assert entry["verification"]["partial"]["state"] == state
    if state == "partial":
        assert entry["verification"]["partial"]["verified_frames"] == 0


@pytest.mark.parametrize("state", ["no-key", "mock", "placeholder", "absent"])
def test_an_assertion_that_is_required_and_not_verified_is_a_rejection(takeset, tmp_path, state):
    found = bundle(**SMALL)
    texts = {"no-key": Device(1).assertion(final(found)), "mock": MOCK, "placeholder": PLACEHOLDER, "absent": ""}
    found.metadata["assertion"] = texts[state]
    entry = verified(takeset, tmp_path, found, require="assertion")
    assert entry["outcome"] == "rejected" and entry["reason"].startswith("verify-hash-chain: ")
    assert entry["verification"]["assertion"]["state"] == state


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


def test_a_broken_chain_is_rejected_when_an_assertion_is_required(takeset, tmp_path, keys):
    assert verified(takeset, tmp_path, broken("not JSON"), *keys, require="assertion")["outcome"] == "rejected"


# Keys


@pytest.mark.parametrize("device, folder, signer, state", [
    ("phone-1", "take", 1, "verified"),
    ("phone-1", "take", 2, "invalid"),  # the named phone's key decides, not any that fits
    ("phone-9", "take", 1, "no-key"),
    (None, "phone-2", 2, "verified"),
    (None, "phone-2", 1, "invalid"),
    (None, "take", 2, "verified"),
])
def test_the_phone_is_known_from_metadata_or_folder(takeset, tmp_path, keys, device, folder, signer, state):
    found = bundle(**SMALL, **({"device_id": device} if device else {}))
    found.metadata["assertion"] = Device(signer).assertion(final(found))
    assertion = verified(takeset, tmp_path, found, *keys, name=folder)["verification"]["assertion"]
    assert assertion["state"] == state
    if state == "verified":
        assert assertion["key"] == f"phone-{signer}"


def test_several_apps_may_be_trusted(takeset, tmp_path):
    found = bundle(**SMALL)
    found.metadata["assertion"] = Device(1).assertion(final(found), app="FB2HXC7FGF.app.rial.ios")
    path = keys_file(tmp_path / "keys.json", {"phone": Device(1)}, apps=[APP, "FB2HXC7FGF.app.rial.ios"])
    assert verified(takeset, tmp_path, found, "--keys", path)["verification"]["assertion"]["state"] == "verified"


def test_no_known_phone_is_no_key(takeset, tmp_path):
    found = bundle(**SMALL)
    found.metadata["assertion"] = Device(1).assertion(final(found))
    path = keys_file(tmp_path / "keys.json", {})
    assert verified(takeset, tmp_path, found, "--keys", path)["verification"]["assertion"]["state"] == "no-key"


POINT = Device(1).point


def key(data):
    return json.dumps({"app_ids": [APP], "devices": {"phone": data if isinstance(data, str) else base64_text(data)}}).encode()


BAD_KEYS = {
    "not JSON": b"{",
    "empty": b"",
    "a list": b"[]",
    "no devices": json.dumps({"app_ids": [APP]}).encode(),
    "no app_ids": json.dumps({"devices": {"phone": base64_text(POINT)}}).encode(),
    "app_ids that are text": json.dumps({"app_ids": APP, "devices": {}}).encode(),
    "devices that are a list": json.dumps({"app_ids": [APP], "devices": []}).encode(),
    "a key that is no base64": key("?"),
    "a key of 64 bytes": key(POINT[1:]),
    "a compressed key": key(b"\x02" + POINT[1:33]),
    "a point that is not on the curve": key(POINT[:-1] + bytes([POINT[-1] ^ 1])),
}


@pytest.mark.parametrize("name", BAD_KEYS)
def test_a_bad_file_of_keys_is_a_mistake_of_the_command(takeset, tmp_path, name):
    (tmp_path / "keys.json").write_bytes(BAD_KEYS[name])
    directory = bundle(count=3, **SMALL).write(tmp_path / "take")
    done = takeset("run", directory, "--output", tmp_path / "out", "--keys", tmp_path / "keys.json")
    assert done.returncode == 64 and "keys.json" in done.stderr, done.stderr
    assert not (tmp_path / "out").exists()


def test_a_file_of_keys_that_is_not_there_is_a_mistake_of_the_command(takeset, tmp_path):
    directory = bundle(count=3, **SMALL).write(tmp_path / "take")
    done = takeset("run", directory, "--output", tmp_path / "out", "--keys", tmp_path / "keys.json")
    assert done.returncode == 64 and "keys.json" in done.stderr


def test_other_keys_verify_again_and_the_same_keys_do_nothing(takeset, tmp_path):
    found = bundle(**SMALL)
    found.metadata["assertion"] = Device(1).assertion(final(found))
    directory, output = found.write(tmp_path / "take"), tmp_path / "out"
    steps = pipeline(tmp_path, verify_hash_chain={"require": "assertion"})
    seen = []
    for devices in {}, {"phone": Device(1)}, {"phone": Device(2)}, {"phone": Device(1)}:
        arguments = [*steps, "--keys", keys_file(tmp_path / "keys.json", devices)]
        takeset.convert(directory, output=output, arguments=arguments)
        entry = record(output)
        seen.append((entry["verification"]["assertion"]["state"], entry["outcome"]))
        assert "nothing to do" in takeset.convert(directory, output=output, arguments=arguments).stdout
        assert record(output) == entry
        takeset("verify", output, check=0)
    assert seen == [("no-key", "rejected"), ("verified", "written"), ("invalid", "rejected"), ("verified", "written")]


def test_other_keys_leave_other_takes_alone(takeset, tmp_path):
    found = bundle(**SMALL)
    found.metadata["assertion"] = Device(1).assertion(final(found))
    (tmp_path / "pour.mov").write_bytes(movie(count=6))
    inputs, output = [found.write(tmp_path / "take"), tmp_path / "pour.mov"], tmp_path / "out"
    takeset.convert(*inputs, output=output)
    before = (output / "episodes/pour.h5").stat()
    takeset.convert(*inputs, output=output, arguments=["--keys", keys_file(tmp_path / "keys.json", {"phone": Device(1)})])
    after = (output / "episodes/pour.h5").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert [t["verification"]["levels"][-1] for t in manifest(output)["record"]["takes"] if t["id"] == "take"] == ["assertion-ok"]


def test_the_report_of_a_bundle_does_not_depend_on_when_it_was_verified(takeset, tmp_path, keys):
    found = bundle(**SMALL)
    found.metadata["assertion"] = Device(1).assertion(final(found))
    directory = found.write(tmp_path / "take")
    takeset.convert(directory, output=tmp_path / "late")
    takeset.convert(directory, output=tmp_path / "late", arguments=keys)
    takeset.convert(directory, output=tmp_path / "at-once", arguments=keys)
    assert manifest(tmp_path / "late")["record"] == manifest(tmp_path / "at-once")["record"]


@pytest.mark.parametrize("with_keys", [True, False])
def test_what_metadata_call_phone_and_codec_does_not_reach_the_output(takeset, tmp_path, keys, with_keys):
    found = bundle(**SMALL, device_id="Ada Example's iPhone", codec="of Ada Example, 48.1374")
    found.metadata["assertion"] = Device(1).assertion(final(found))
    entry = verified(takeset, tmp_path, found, *(keys if with_keys else ()))
    assert {"codec-mismatch", "metadata-range"} <= set(codes(entry)) and entry["verification"]["assertion"]["state"] == "no-key"
    assert traces(tmp_path / "out-take-None", "Ada Example", "ada example", "48.13") == []


def test_keys_do_not_reach_the_output(takeset, tmp_path, keys):
    verified(takeset, tmp_path, bundle(**SMALL), *keys)
    text = (tmp_path / "out-take-None/manifest.json").read_text()
    assert base64_text(Device(1).point) not in text
