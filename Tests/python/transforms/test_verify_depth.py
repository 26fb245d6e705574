"""The step verify-depth: whether depth is that of a real scene."""

import gzip

import numpy as np
import pytest
from bundles import SMALL, bundle, rldp
from conversions import converted, pipeline, together
from outputs import codes, record

X, Y = np.meshgrid(np.arange(32, dtype=np.float32), np.arange(24, dtype=np.float32))
SCENES = {
    "uniform": lambda i: np.full((24, 32), 2.0),
    "gradual": lambda i: 2 + 0.01 * i + 2 * X / 32 + 0.5 * Y / 24,
    "a splice": lambda i: (2 if i < 7 else 10) + X / 32 + 0.5 * Y / 24,
    "an insert": lambda i: (8 if i == 5 else 2) + 0.5 * X / 32,
}
# Of each scene: consistency, coherence, stability, suspicious keyframes, real. `DepthMetricsTests` have them of every tenth keyframe, too.
METRICS = [(1, 1, 1, [], True), (0.995660, 1, 1, [], True), (0.933333, 0.923077, 0.928571, [7], False), (0.866667, 1, 0.857143, [5, 6], False)]


def scene(name, count=43):
    found = bundle(count=count, **SMALL)
    found.metadata["depth_keyframe_count"] = 15
    found.depth_data = gzip.compress(rldp(np.stack([SCENES[name](i) for i in range(15)]).astype("<f4")))
    return found


def test_depth_is_measured_as_the_app_measures_it(takeset, tmp_path):
    entries = together(takeset, tmp_path, {name: scene(name) for name in SCENES}, pipeline(tmp_path, verify_depth={"every": 1}))
    for name, (*figures, suspicious, real) in zip(SCENES, METRICS, strict=True):
        entry = entries[name]
        found = entry["details"]["depth_metrics"]
        assert found["samples"] == 15 and found["suspicious_keyframes"] == suspicious and found["is_likely_real_scene"] is real
        assert [found["depth_consistency"], found["motion_coherence"], found["scene_stability"]] == pytest.approx(figures, abs=6e-7)
        assert ("depth-suspicious" in codes(entry)) is (not real) and entry["outcome"] == "written"


def test_depth_is_measured_at_every_keyframe_by_default_and_only_when_asked(takeset, tmp_path):
    directory = scene("an insert", count=45).write(tmp_path / "take")
    entry, _, _ = converted(takeset, directory)
    assert "depth_metrics" not in entry["details"]
    takeset.convert(directory, output=tmp_path / "measured", arguments=pipeline(tmp_path, verify_depth={}))
    assert record(tmp_path / "measured")["details"]["depth_metrics"]["suspicious_keyframes"] == [5, 6]


@pytest.mark.parametrize("options, rejected", [
    ({}, ["a splice", "an insert"]), ({"consistency": 0, "coherence": 0, "stability": 0}, ["a splice", "an insert"]),
    ({"consistency": 0.999}, ["gradual", "a splice", "an insert"])], ids=str)
def test_depth_of_no_real_scene_may_be_rejected(takeset, tmp_path, options, rejected):
    found = together(takeset, tmp_path, {name: scene(name) for name in SCENES}, pipeline(tmp_path, verify_depth={"on-miss": "reject"} | options))
    assert [name for name in SCENES if found[name]["outcome"] == "rejected"] == rejected
    assert all(found[name]["reason"].startswith("verify-depth: ") for name in rejected)
    assert found["a splice"]["details"]["depth_metrics"]["suspicious_keyframes"] == [7]
