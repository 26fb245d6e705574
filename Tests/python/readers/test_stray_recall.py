"""Stray Scanner: what inspect and verify say of datasets that earlier versions made."""

import json
import re

from outputs import manifest
from scans import scan_video, session


def as_before(output):
    """Makes a dataset look as one of Takeset 0.2.0, which did not write these members; the manifest's digests then differ, too."""
    found = manifest(output)
    for entry in found["record"]["takes"]:
        for key in "movie_first_row", "acceleration_unit":
            entry["details"].pop(key, None)
        entry["findings"].append({"code": "samples-hidden", "severity": "info", "message": "samples that the edit list hides are skipped", "count": 1})
    (output / "manifest.json").write_text(json.dumps(found, indent=1))


def test_a_dataset_of_an_earlier_version_is_named(takeset, tmp_path):
    found = session(times="number")
    found.video = scan_video(tuple(range(0, 200, 10)), hides=True)
    found.write(tmp_path / "scan")
    takeset.convert(tmp_path / "scan", output=tmp_path / "out")
    for command in "inspect", "verify":
        assert "0.2.0" not in takeset(command, tmp_path / "out", check=0).stdout
    as_before(tmp_path / "out")
    text = takeset("inspect", tmp_path / "out", check=0).stdout
    assert re.search("warning: .*pose of the frame before it, in scan; .*--replace", text) and re.search("warning: .* g since .*scan", text)
    notes = json.loads(takeset("inspect", tmp_path / "out", "--json", check=0).stdout)["notes"]
    assert len(notes) == 2 and all(note in text for note in notes)
    # The edited manifest differs from its digest; the notes do not depend on that.
    text = takeset("verify", tmp_path / "out", check=2).stdout
    assert all(f"note: manifest.json: {note}" in text for note in notes)
