"""Sessions: sizes and counts in the metadata that cannot be used."""

import json
import shutil

import numpy as np
import pytest
from bundles import bundle
from conversions import Together
from outputs import demos, record_text, take
from stack_sessions import v2


RESOLUTIONS = ["big", [640], [640, 480, 3], [640, "480"], [0, 480], [-640, 480], [640.5, 480], [1e300, 480], {"width": 640}, True, [1e9, 1e9], [2**63, 1]]


@pytest.fixture(scope="module")
def unusable_resolutions(takeset, masters, tmp_path_factory):
    """Copies of a session without each resolution and with each unusable one: the dataset, and what inspect reports."""
    root = tmp_path_factory.mktemp("resolutions")
    intact = json.loads((masters["v1"] / "metadata.json").read_text())
    for field in "rgbResolution", "depthResolution":
        found = {f"{field}-without": {key: one for key, one in intact.items() if key != field}}
        found |= {f"{field}-{k}": intact | {field: value} for k, value in enumerate(RESOLUTIONS)}
        for name, metadata in found.items():
            shutil.copytree(masters["v1"], root / "in" / name)
            (root / "in" / name / "metadata.json").write_text(json.dumps(metadata))
    takeset.convert(root / "in", output=root / "out", check=0)
    inspected = json.loads(takeset("inspect", root / "in", "--json", check=0).stdout)["takes"]
    return root / "out", {one["id"]: one for one in inspected}


@pytest.mark.parametrize("field", ["rgbResolution", "depthResolution"])
@pytest.mark.parametrize("value", RESOLUTIONS)
def test_an_unusable_resolution_is_reported_and_not_used(unusable_resolutions, field, value):
    output, inspected = unusable_resolutions
    name = f"{field}-{RESOLUTIONS.index(value)}"
    record = take(output, name)
    (finding,) = [f for f in record["findings"] if f["code"] == "resolution-unusable"]
    assert (finding["severity"], finding["file"], finding["field"]) == ("warning", "metadata.json", f".{field}")
    assert "expected [width, height]" in finding["message"]
    assert record["outcome"] == "written" and record["output"]["samples"] == 30
    (found, _), (expected, _) = demos(output)[name], demos(output)[f"{field}-without"]
    for dataset in found["obs"]:
        assert np.array_equal(found["obs"][dataset][:], expected["obs"][dataset][:]), dataset
    assert [f["code"] for f in inspected[name]["findings"]].count("resolution-unusable") == 1


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


@pytest.mark.parametrize("value", HUGE)
@pytest.mark.parametrize("key", COUNTS + BUNDLE_COUNTS)
def test_counts_beyond_doubles_are_nowhere_in_the_record(huge_counts, key, value):
    found = whole_numbers(json.dumps(huge_counts.entries[f"{key}-{value}"]))
    assert found and max(map(abs, found)) < 2**53


def test_no_number_beyond_doubles_is_anywhere_else_in_the_record(huge_counts):
    found = whole_numbers(record_text((huge_counts.inputs.parent / "out/manifest.json").read_text()))
    assert found and max(map(abs, found)) < 2**53
