"""Converting bundles with hash chains and assertions, and what must hold for all of them."""

import base64
import json

from outputs import record


def verified(takeset, tmp_path, found, *arguments):
    """The entry of a bundle, in order."""
    takeset.convert(found.write(tmp_path / "take"), output=tmp_path / "out", arguments=arguments)
    return in_order(record(tmp_path / "out"))


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
