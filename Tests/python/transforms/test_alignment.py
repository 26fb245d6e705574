"""Alignment: synchronized clocks, and values between two samples."""

import json

import numpy as np
import pytest
from outputs import check_digests, take
from session_checks import unwrapped
from session_faults import converted, pipeline
from stack_sessions import COUNT, EPOCH, v2

SMALL = ["--seconds", 8, "--size", "160x120"]


def test_linear_alignment_names_both_samples_and_the_weight(takeset, tmp_path):
    """The value is (1 - w) a + w b of the two named readings, at the row's own time; images and poses are not blended."""
    session = v2()
    del session.encoders[9:23]  # a pause in which there is nothing to blend
    entry, demo, meta = converted(takeset, session, tmp_path, arguments=pipeline(tmp_path, "transforms: [align: {method: linear}]\n"))
    stream = meta["streams/joints"]
    first, second, weight, dt, valid = (stream[name][:] for name in ("source_index", "next_index", "weight", "dt_ns", "valid"))
    frames = meta["timestamp_ns"][:] / 1e9
    times = np.array([reading["timestamp"] for reading in session.encoders]) - EPOCH
    angles = unwrapped(session.encoders)
    blended = valid == 1
    between = blended & (first != second)
    assert between.sum() > COUNT / 3 and (valid == 0).any()
    assert (second[between] == first[between] + 1).all() and (dt[between] == 0).all()
    assert (weight[between] > 0).all() and (weight[between] < 1).all()
    single = blended & ~between
    assert (weight[single] == 0).all()
    w = weight[blended, None].astype("f8")
    expected = (1 - w) * angles[first[blended]] + w * angles[second[blended]]
    assert np.abs(demo["obs/joints"][:][blended] - expected).max() < 1e-3
    true_weight = (frames[between] - times[first[between]]) / (times[second[between]] - times[first[between]])
    assert np.abs(weight[between] - true_weight).max() < 1e-3
    # No row is made up: both readings are within the tolerance of the row.
    assert (np.abs(times[first[between]] - frames[between]) <= 0.05 + 1e-4).all()
    assert (np.abs(times[second[between]] - frames[between]) <= 0.05 + 1e-4).all()
    masked = ~blended
    assert (first[masked] == -1).all() and (second[masked] == -1).all() and not weight[masked].any()
    assert not demo["obs/joints_valid"][:][masked].any() and not dt[blended].any()
    for name in "camera_image", "pose":
        stream = meta[f"streams/{name}"]
        assert (stream["next_index"][:] == stream["source_index"][:]).all() and not stream["weight"][:].any()
    check_digests(demo, meta)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
def test_motion_synchronizes_the_clocks_within_5_ms(takeset, tmp_path, seed):
    session = takeset.simulate(tmp_path / "s", "--variant", "v3-slam", *SMALL, "--seed", seed)
    truth = json.loads((session / "truth.json").read_text())
    expected = -(truth["frame_time_ns"][0] + int(truth["clock_offset_ns"]))
    # As if the IMU had been armed late: the motion is the only evidence.
    readings = json.loads((session / "imu.json").read_text())[70:]
    (session / "imu.json").write_text(json.dumps(readings))
    takeset.convert(session, output=tmp_path / "out")
    for alignment in take(tmp_path / "out", "s")["alignment"]:
        assert "motion-correlation" in alignment["method"]
        assert abs(int(alignment["offset_ns"]) - expected) < 5e6
        assert 0 < alignment["residual_ns"] < 20e6
