"""Sessions: sizes and counts in the metadata that cannot be used."""

import json
import shutil

import numpy as np
import pytest
from bundles import bundle
from conversions import Together
from outputs import demos, record_text, take
from stack_sessions import v2


@pytest.mark.parametrize("field", ["rgbResolution", "depthResolution"])
def test_an_unusable_resolution_is_reported_and_not_used(takeset, masters, tmp_path, field):
    """Swift's StackSessionTests have more that is unusable."""
    metadata = json.loads((masters["v1"] / "metadata.json").read_text())
    del metadata[field]
    for name, said in ("without", {}), ("unusable", {field: [640, "480"]}):
        shutil.copytree(masters["v1"], tmp_path / "in" / name)
        (tmp_path / "in" / name / "metadata.json").write_text(json.dumps(metadata | said))
    takeset.convert(tmp_path / "in", output=tmp_path / "out", check=0)
    record = take(tmp_path / "out", "unusable")
    (finding,) = [f for f in record["findings"] if f["code"] == "resolution-unusable"]
    assert (finding["severity"], finding["file"], finding["field"]) == ("warning", "metadata.json", f".{field}")
    assert "expected [width, height]" in finding["message"]
    assert record["outcome"] == "written" and record["output"]["samples"] == 30
    (found, _), (expected, _) = (demos(tmp_path / "out")[name] for name in ("unusable", "without"))
    for dataset in found["obs"]:
        assert np.array_equal(found["obs"][dataset][:], expected["obs"][dataset][:]), dataset
    (inspected,) = json.loads(takeset("inspect", tmp_path / "in/unusable", "--json", check=0).stdout)["takes"]
    assert [f["code"] for f in inspected["findings"]].count("resolution-unusable") == 1


# Numbers that JSON readers cannot hold


HUGE = [2**53, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 1e300]


def whole_numbers(text):
    """Every number without fraction or exponent."""
    found = []
    json.loads(text, parse_int=lambda digits: found.append(int(digits)))
    return found


COUNTS = ["imuCount", "encoderCount", "poseCount", "frameCount", "rgbFrameCount", "depthFrameCount", "seed", "other"]
BUNDLE_COUNTS = ["frame_count", "depth_keyframe_count", "duration_ms", "resolution"]


@pytest.fixture(scope="module")
def huge_counts(takeset, tmp_path_factory):
    """A session and a bundle for each key and each value, with a dataset that is valid."""
    found = {}
    for value in HUGE:
        for key in COUNTS:
            found[f"{key}-{value}"] = v2()
            found[f"{key}-{value}"].metadata[key] = value
        for key in BUNDLE_COUNTS:
            found[f"{key}-{value}"] = bundle(count=12, **{key: {"width": value, "height": 120} if key == "resolution" else value})
    batch = Together(takeset, tmp_path_factory.mktemp("counts"), found, check=None)
    takeset("verify", batch.inputs.parent / "out", check=0)
    return batch


def test_no_number_beyond_doubles_is_anywhere_else_in_the_record(huge_counts):
    found = whole_numbers(record_text((huge_counts.inputs.parent / "out/manifest.json").read_text()))
    assert found and max(map(abs, found)) < 2**53
