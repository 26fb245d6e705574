"""Converting bundles with hash chains and assertions, and what must hold for all of them."""

import base64
import hashlib
import json

from bundles import SMALL, base64_text, bundle, chain
from conversions import pipeline
from outputs import record
from videos import video_file

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
    fields = {"checkpoints": checkpoints, "video": video_file(count=160, size=(96, 72)), "resolution": {"width": 96, "height": 72}}
    return bundle(count=160, **SMALL, **fields, **metadata)


def replace(key, value):
    return lambda found: found.hash_chain.update({key: value})


def remove(key):
    return lambda found: found.hash_chain.pop(key)


def changing(function):
    """A change of the chain, after which its last hash is again that of chain and metadata."""
    def change(found):
        function(found.hash_chain)
        hashes = found.hash_chain["frame_hashes"]
        found.hash_chain["final_hash"] = found.metadata["hash_chain_final"] = hashes[-1] if hashes else ""

    return change


def resized(count, said=None):
    def change(found):
        found.hash_chain = chain(count)
        found.metadata.update(hash_chain_final=found.hash_chain["final_hash"], frame_count=said or 45)

    return change


def checkpoint(hash_, number=15):
    return replace("checkpoints", [{"index": 0, "frame_number": number, "timestamp": number / 30, "hash": hash_}])


OTHER = base64_text(hashlib.sha256(b"another").digest())
INVALID_CHAINS = {
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


def invalid_chain(name):
    found = bundle(**SMALL)
    INVALID_CHAINS[name](found)
    return found
