"""Sessions: times and clocks that cannot be right shift nothing."""

import json
import shutil

import numpy as np
import pytest
from outputs import codes, demos, finding, take
from session_checks import all_joints_masked, poses
from session_faults import V1, V2, converted, fails
from stack_sessions import COUNT, v2


def test_a_lost_beginning_does_not_shift_joints(takeset, sessions, tmp_path):
    session = sessions / V2
    takeset.convert(session, output=tmp_path / "whole")
    for number in range(30):
        (session / f"rgb/{number:06d}.jpg").unlink()
    takeset.convert(session, output=tmp_path / "cut")
    (whole, _), (cut, _) = demos(tmp_path / "whole")[V2], demos(tmp_path / "cut")[V2]
    assert np.array_equal(whole["obs/joints"][30:], cut["obs/joints"][:], equal_nan=True)


def test_an_outlier_timestamp_does_not_shift_joints(takeset, sessions, tmp_path):
    session = sessions / V2
    takeset.convert(session, output=tmp_path / "whole")
    entries = json.loads((session / "poses.json").read_text())
    entries[7]["timestamp"] -= 1000
    (session / "poses.json").write_text(json.dumps(entries))
    takeset.convert(session, output=tmp_path / "wild")
    (whole, _), (outlier, meta) = demos(tmp_path / "whole")[V2], demos(tmp_path / "wild")[V2]
    rows = meta["source_index"][:]
    assert len(rows) == 59 and 7 not in rows
    assert np.array_equal(whole["obs/joints"][:][rows], outlier["obs/joints"][:], equal_nan=True)


@pytest.mark.parametrize("late", [9, 18])
def test_joints_are_not_shifted_by_poses_that_begin_late(takeset, tmp_path, late):
    """The encoders' first reading is at the recording's start, which is the first image and not the first pose."""
    session = v2()
    session.poses = session.poses[late:]
    entry, demo, meta = converted(takeset, session, tmp_path)
    rows = meta["source_index"][:]
    assert rows.tolist() == list(range(late, COUNT))
    (alignment,) = [a for a in entry["alignment"] if a["stream"] == "joints"]
    residual = alignment["residual_ns"] / 1e9
    assert 0 < residual <= 0.05 and not all_joints_masked(demo, meta)
    true_times = rows / 60
    stream = meta["streams/joints"]
    index = stream["source_index"][:]
    assert (index >= 0).sum() > len(rows) * 0.8
    used = index >= 0
    # A reading is the nearest to a time whose error is at most the residual, plus half a period of 50 Hz.
    apart = np.abs(index[used] / 50 - true_times[used])
    assert apart.max() <= residual + 0.01 + 1e-3, apart.max()
    stored = demo["obs/joints"][:].astype("f8")
    for joint, center in enumerate([1, 40, 120, 200]):
        swing = 8 + 4 * joint
        truth = center - swing * np.sin(4 * true_times + joint)
        difference = (stored[:, joint] - truth + 180) % 360 - 180
        assert np.abs(difference[used]).max() <= 4 * swing * (residual + 0.011) + 0.1, (joint, np.abs(difference[used]).max())


def test_a_sender_clock_that_runs_off_is_not_used(takeset, sessions, tmp_path):
    takeset.simulate(tmp_path / "long", "--variant", "v2", "--seconds", 8, "--size", "32x24")
    readings = json.loads((tmp_path / "long/encoders.json").read_text())
    for reading in readings:
        reading["esp_timestamp_ms"] = round(reading["esp_timestamp_ms"] * 1.03)
    (tmp_path / "long/encoders.json").write_text(json.dumps(readings))
    takeset.convert(tmp_path / "long", output=tmp_path / "out")
    record = take(tmp_path / "out", "long")
    assert "sender-clock-unusable" in [f["code"] for f in record["findings"]]
    assert [a["method"] for a in record["alignment"] if a["stream"] == "joints"] == ["first-sample+nearest"]


def test_one_outlier_timestamp_costs_one_frame(takeset, sessions, tmp_path):
    entries = json.loads((sessions / V1 / "poses.json").read_text())
    entries[5]["timestamp"] += 1000
    (sessions / V1 / "poses.json").write_text(json.dumps(entries))
    takeset.convert(sessions, output=tmp_path / "out")
    _, meta = demos(tmp_path / "out")[V1]
    assert list(meta["source_index"][:]) == [i for i in range(30) if i != 5]
    assert finding(take(tmp_path / "out", V1), "time-not-ascending")["count"] == 1
    for entry in entries:
        entry["timestamp"] = 7.0
    (sessions / V1 / "poses.json").write_text(json.dumps(entries))
    fails(takeset, sessions, tmp_path / "out2", "too-few-times", "29 of 30 timestamps")


def test_start_times_that_are_not_valid(takeset, masters, tmp_path):
    metadata = json.loads((masters["v1"] / "metadata.json").read_text())
    for number, text in enumerate(["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "yesterday", "1969-12-31T23:59:59Z"]):
        shutil.copytree(masters["v1"], tmp_path / f"in/{number}")
        (tmp_path / f"in/{number}/metadata.json").write_text(json.dumps({**metadata, "startTime": text}))
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    for number in range(4):
        assert "start-time-unreadable" in codes(take(tmp_path / "out", str(number))), number
    takeset("inspect", tmp_path / "in", check=0)


def test_times_at_the_ends_of_the_range(sessions, takeset, tmp_path):
    session = sessions / "session_2026-02-01_130000"
    entries, readings = poses(session), json.loads((session / "encoders.json").read_text())
    entries[0]["timestamp"], entries[-1]["timestamp"] = -1.1e9, 4.6e9
    readings[0]["timestamp"], readings[-1]["timestamp"] = -1.1e9, 4.6e9
    for index, reading in enumerate(readings):
        reading["esp_timestamp_ms"] = 2**32 - 1 if index % 2 else 0
    (session / "poses.json").write_text(json.dumps(entries))
    (session / "encoders.json").write_text(json.dumps(readings))
    takeset.convert(session, output=tmp_path / "out")
    _, meta = demos(tmp_path / "out")[session.name]
    assert meta["timestamp_ns"][-1] == 5_700_000_000 * 10**9
    # What is no time costs its frame.
    entries[0]["timestamp"] = 9.2e9
    (session / "poses.json").write_text(json.dumps(entries))
    takeset.convert(session, output=tmp_path / "out2")
    (reason,) = [d for d in take(tmp_path / "out2", session.name)["steps"][0]["dropped"]]
    assert reason == {"reason": "time-not-ascending", "count": 1}
