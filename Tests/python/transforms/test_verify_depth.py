"""The step verify-depth: whether depth is that of a real scene."""

import gzip

import numpy as np
import pytest
from bundle_checks import convert
from bundles import SMALL, bundle, rldp
from conversions import converted, pipeline
from outputs import codes, record

X, Y = np.meshgrid(np.arange(32, dtype=np.float32), np.arange(24, dtype=np.float32))
SCENES = {
    "uniform": lambda i: np.full((24, 32), 2.0),
    "gradual": lambda i: 2 + 0.01 * i + 2 * X / 32 + 0.5 * Y / 24,
    "a splice": lambda i: (2 if i < 7 else 10) + X / 32 + 0.5 * Y / 24,
    "an insert": lambda i: (8 if i == 5 else 2) + 0.5 * X / 32,
}
METRICS = {  # scene, every: samples, consistency, coherence, stability, suspicious keyframes, real
    ("uniform", 1): (15, 1, 1, 1, [], True), ("uniform", 10): (2, 1, 1, 1, [], True),
    ("gradual", 1): (15, 0.995660, 1, 1, [], True), ("gradual", 10): (2, 0.982422, 1, 1, [], True),
    ("a splice", 1): (15, 0.933333, 0.923077, 0.928571, [7], False), ("a splice", 10): (2, 0.5, 1, 0, [10], False),
    ("an insert", 1): (15, 0.866667, 1, 0.857143, [5, 6], False), ("an insert", 10): (2, 1, 1, 1, [], True),
}


def scene(name, count=43):
    found = bundle(count=count, **SMALL)
    found.metadata["depth_keyframe_count"] = 15
    found.depth_data = gzip.compress(rldp(np.stack([SCENES[name](i) for i in range(15)]).astype("<f4")))
    return found


@pytest.mark.parametrize("name, every", METRICS)
def test_depth_is_measured_as_the_app_measures_it(takeset, tmp_path, name, every):
    steps = pipeline(tmp_path, verify_depth={"every": every})
    entry, _, _ = convert(takeset, tmp_path, scene(name), arguments=steps)
    found, (count, consistency, coherence, stability, suspicious, real) = entry["details"]["depth_metrics"], METRICS[name, every]
    assert found["samples"] == count and found["suspicious_keyframes"] == suspicious and found["is_likely_real_scene"] is real
    measured_values = [found["depth_consistency"], found["motion_coherence"], found["scene_stability"]]
    assert measured_values == pytest.approx([consistency, coherence, stability], abs=6e-7)
    assert ("depth-suspicious" in codes(entry)) is (not real) and entry["outcome"] == "written"


def test_depth_is_measured_at_every_keyframe_by_default_and_only_when_asked(takeset, tmp_path):
    directory = scene("an insert", count=45).write(tmp_path / "take")
    entry, _, _ = converted(takeset, directory)
    assert "depth_metrics" not in entry["details"]
    takeset.convert(directory, output=tmp_path / "measured", arguments=pipeline(tmp_path, verify_depth={}))
    assert record(tmp_path / "measured")["details"]["depth_metrics"]["suspicious_keyframes"] == [5, 6]


@pytest.mark.parametrize("options", [{"on-miss": "reject"}, {"on-miss": "reject", "consistency": 0, "coherence": 0, "stability": 0}])
def test_depth_of_no_real_scene_may_be_rejected(takeset, tmp_path, options):
    arguments = pipeline(tmp_path, verify_depth=options)
    takeset.convert(scene("a splice").write(tmp_path / "take"), output=tmp_path / "out", arguments=arguments, check=0)
    entry = record(tmp_path / "out")
    assert entry["outcome"] == "rejected" and entry["reason"].startswith("verify-depth: ")
    assert entry["details"]["depth_metrics"]["suspicious_keyframes"] == [7]


def test_a_threshold_may_be_higher(takeset, tmp_path):
    arguments = pipeline(tmp_path, verify_depth={"consistency": 0.999, "on-miss": "reject"})
    takeset.convert(scene("gradual").write(tmp_path / "take"), output=tmp_path / "out", arguments=arguments, check=0)
    assert record(tmp_path / "out")["outcome"] == "rejected"
