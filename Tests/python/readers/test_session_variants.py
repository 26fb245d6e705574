"""Simulated sessions of every version of the recorder, and their anomalies."""

import json
import shutil

import numpy as np
import pytest
from conversions import PLAIN
from outputs import demos, take

SMALL = ["--seconds", 8, "--size", "160x120"]


@pytest.fixture(scope="module")
def variants(takeset, tmp_path_factory):
    root = tmp_path_factory.mktemp("variants")
    for name in "v3-raw", "v3-slam", "v3-scaled", "synthetic":
        takeset.simulate(root / "in" / name, "--variant", name, *SMALL, "--seed", 3)
    takeset.simulate(root / "in/packed", "--variant", "packed", "--seconds", 1)
    takeset.convert(root / "in", output=root / "out", arguments=PLAIN)
    pipeline = root / "optional.yaml"
    pipeline.write_text("version: 1\nreader: {name: stack-session, poses: optional}\ntransforms: [align, split]\n")
    takeset.convert(root / "in/v3-raw", output=root / "raw", arguments=["--pipeline", pipeline])
    return root


def codes(output, take_id):
    return [finding["code"] for finding in take(output, take_id)["findings"]]


def poses(path):
    return json.loads((path / "poses.json").read_text())


def put(path, entries):
    (path / "poses.json").write_text(json.dumps(entries))


def yaml(directory, *transforms, reader="auto"):
    path = directory / "pipeline.yaml"
    path.write_text(f"version: 1\nreader: {reader}\ntransforms: [{', '.join(transforms)}]\n")
    return ["--pipeline", path]


# Versions


def test_without_a_video_times_are_assumed_with_a_finding(variants, takeset, tmp_path):
    for name, gone, code in ("a", ["video.mov"], "times-from-imu"), ("b", ["video.mov", "imu.json"], "times-assumed"):
        shutil.copytree(variants / "in/v3-slam", tmp_path / "in" / name)
        for file in gone:
            (tmp_path / "in" / name / file).unlink()
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    assert "times-from-imu" in codes(tmp_path / "out", "a") and "times-assumed" in codes(tmp_path / "out", "b")
    _, meta = demos(tmp_path / "out")["b"]
    assert meta["timestamp_ns"].attrs["clock"] == "frame-number"
    assert (meta["timestamp_ns"][:] == np.round(np.arange(480) * 1e9 / 60)).all()


# Depth


@pytest.fixture
def depth_session(takeset, tmp_path):
    return takeset.simulate(tmp_path / "in/s", "--seconds", 0.5, "--size", "160x120")


# Poses


def test_segments_between_gaps_are_numbered(depth_session, takeset, tmp_path):
    put(depth_session, [e for e in poses(depth_session) if e["rgbIndex"] not in (5, 6, 20)])
    takeset.convert(depth_session, output=tmp_path / "out", arguments=yaml(tmp_path, "align", "split-at-gaps: {min-frames: 6}"))
    _, meta = demos(tmp_path / "out")["s"]
    assert meta["source_index"][:].tolist() == [*range(7, 20), *range(21, 30)]
    assert meta["segment"][:].tolist() == [0] * 13 + [1] * 9
    takeset.convert(depth_session, output=tmp_path / "one", arguments=yaml(tmp_path, "align", "split-at-gaps: {keep: longest}"))
    assert demos(tmp_path / "one")["s"][1]["source_index"][:].tolist() == list(range(7, 20))


# Joints


@pytest.fixture
def joint_session(takeset, tmp_path):
    return takeset.simulate(tmp_path / "in/s", "--variant", "v2", "--seconds", 3, "--size", "160x120")


def readings(session):
    return json.loads((session / "encoders.json").read_text())


CHANNELS = ["index_mcp", "index_pip", "three_finger_mcp", "three_finger_pip"]


def test_reference_compatible_joints_are_those_of_the_recorders_loader(joint_session, takeset, tmp_path):
    found = readings(joint_session)
    del found[40:60]
    (joint_session / "encoders.json").write_text(json.dumps(found))
    takeset.convert(joint_session, output=tmp_path / "out", arguments=yaml(tmp_path, "align: {reference-compatible: true}"))
    frames = np.array([e["timestamp"] for e in poses(joint_session)])
    times = np.array([r["timestamp"] for r in found])
    frames, times = frames - frames[0], times - times[0]
    values = np.array([[r[c] for c in CHANNELS] for r in found])
    nearest = np.abs(times[None] - frames[:, None]).argmin(1)
    close = np.abs(times[nearest] - frames) < 0.05
    expected = np.unwrap(np.where(close[:, None], values[nearest], 0), axis=0, period=360)
    assert not close.all()
    joints = demos(tmp_path / "out")["s"][0]["obs/joints"][:]
    assert np.abs(joints - expected).max() < 1e-3
