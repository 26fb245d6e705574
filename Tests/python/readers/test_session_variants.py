"""Simulated sessions of every version of the recorder, and their anomalies."""

import json
import shutil

import h5py
import numpy as np
import pytest
from conversions import PLAIN
from outputs import bits, demos, take
from scipy.spatial.transform import Rotation

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


@pytest.mark.parametrize("name, unit", [("v3-slam", "arbitrary"), ("v3-scaled", "m (claimed)"), ("packed", "arbitrary")])
def test_poses_from_slam_keep_their_axes_with_attributes(variants, name, unit):
    demo, _ = demos(variants / "out")[name]
    pose = demo["obs/pose"]
    assert pose.attrs["unit"] == unit and pose.attrs["camera_axes"] == "x right, y down, z forward"
    matrices = np.array([entry["transform"] for entry in poses(variants / "in" / name)])
    assert np.abs(pose[:, :3] - matrices[:, :3, 3]).max() < 1e-6
    rotated = Rotation.from_quat(pose[:, 3:]).as_matrix()
    assert np.abs(rotated - matrices[:, :3, :3]).max() < 1e-6
    assert take(variants / "out", name)["variant"] == name


def test_a_raw_session_asks_for_slam_and_converts_without_poses(variants):
    record = take(variants / "out", "v3-raw")
    assert (record["outcome"], record["reason"]) == ("rejected", "needs-slam")
    demo, meta = demos(variants / "raw")["v3-raw"]
    assert sorted(demo["obs"]) == ["camera_image", "joints", "joints_valid"] and "imu" in meta
    assert demo.attrs["num_samples"] == 480 and take(variants / "raw", "v3-raw")["variant"] == "v3-raw"


def test_times_of_slam_sessions_are_the_videos(variants):
    truth = json.loads((variants / "in/v3-slam/truth.json").read_text())["frame_time_ns"]
    _, meta = demos(variants / "out")["v3-slam"]
    assert meta["timestamp_ns"].attrs["clock"] == "media-time"
    # The video's time base is 1/600 s.
    assert np.abs(meta["timestamp_ns"][:] - (np.array(truth) - truth[0])).max() <= 1e9 / 600
    assert "times-from-movie" in codes(variants / "out", "v3-slam")


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


def test_the_imu_is_stored_at_its_own_rate_in_si_units(variants):
    readings = json.loads((variants / "in/v3-slam/imu.json").read_text())
    _, meta = demos(variants / "out")["v3-slam"]
    imu = meta["imu"]
    assert np.allclose(imu["accel"][:], np.array([r["accel"] for r in readings]) * 9.80665, atol=1e-5)
    assert np.allclose(imu["gyro"][:], [r["gyro"] for r in readings], atol=1e-6)
    assert (imu["accel"].attrs["unit"], imu["gyro"].attrs["unit"], imu["timestamp_ns"].attrs["clock"]) == ("m/s^2", "rad/s", "media-time")
    steps = np.diff(imu["timestamp_ns"][:])
    assert (steps > 0).all() and abs(steps.mean() - 1e7) < 1e4


def test_intrinsics_follow_packed_images(variants):
    demo, meta = demos(variants / "out")["packed"]
    assert demo["obs/camera_image"].shape[1:] == (224, 224, 3)
    assert np.allclose(meta["intrinsics"][0], [360 * 224 / 480, 360 * 224 / 360, 240 * 224 / 480, 180 * 224 / 360])


def test_synthetic_sessions_are_labelled(variants):
    assert take(variants / "out", "synthetic")["variant"] == "synthetic"
    demo, _ = demos(variants / "out")["synthetic"]
    assert demo["obs/pose"].attrs["unit"] == "arbitrary"


def test_slam_numbers_are_places_in_the_listing(takeset, tmp_path):
    session = takeset.simulate(tmp_path / "s", "--variant", "v3-slam", "--seconds", 1, "--size", "160x120")
    # Image 7 was never written: SLAM numbered those that are there.
    (session / "rgb/000007.jpg").unlink()
    (session / "video.mov").unlink()
    put(session, poses(session)[:-1])
    takeset.convert(session, output=tmp_path / "out")
    _, meta = demos(tmp_path / "out")["s"]
    assert meta["source_index"][:].tolist() == [n for n in range(60) if n != 7]
    assert "slam-ordinals" in codes(tmp_path / "out", "s")


# Depth


@pytest.fixture
def depth_session(takeset, tmp_path):
    return takeset.simulate(tmp_path / "in/s", "--seconds", 0.5, "--size", "160x120")


# Poses


def test_quality_bits_show_the_problems_of_each_frame(depth_session, takeset, tmp_path):
    entries = poses(depth_session)
    for index in 5, 6, 7:
        entries[index]["transform"] = entries[4]["transform"]
    entries[20]["transform"][0][3] += 1
    put(depth_session, entries)
    (depth_session / "rgb/000011.jpg").write_bytes(b"")
    for path in (depth_session / "depth").glob("*.bin"):
        if path.name > "000004.bin":
            path.unlink()
    takeset.convert(depth_session, output=tmp_path / "out")
    _, meta = demos(tmp_path / "out")["s"]
    found = bits(meta)
    assert found["pose-repeated"] == [4, 5, 6, 7] and found["pose-jump"] == [20, 21] and found["image-undecodable"] == [11]
    assert found["pose-interpolated"] == [] and found["joints-missing"] == []
    assert found["depth-missing"] and found["depth-missing"] == list(range(found["depth-missing"][0], 30))
    assert {"pose-repeated", "pose-jump"} <= set(codes(tmp_path / "out", "s"))
    takeset.convert(depth_session, output=tmp_path / "less", arguments=yaml(tmp_path, "align", "drop-frames: {with: [pose-jump, depth-missing]}"))
    _, less = demos(tmp_path / "less")["s"]
    assert less["source_index"][:].tolist() == [n for n in range(30) if n not in (20, 21) and n not in found["depth-missing"]]
    dropped = [(d["reason"], d["count"]) for s in take(tmp_path / "less", "s")["steps"] for d in s["dropped"]]
    assert dropped[0] == ("pose-jump", 2) and dropped[1][0] == "depth-missing"


def test_filled_in_poses_are_marked(takeset, tmp_path):
    session = takeset.simulate(tmp_path / "s", "--variant", "v3-slam", "--seconds", 1, "--size", "160x120")
    entries = poses(session)
    first, last = np.array(entries[10]["transform"]), np.array(entries[30]["transform"])
    for index in range(10, 31):
        matrix = first.copy()
        matrix[:3, 3] += (last - first)[:3, 3] * (index - 10) / 20
        entries[index]["transform"] = matrix.tolist()
        entries[index]["transform"][0][3] += 0.001 * (index - 10)
    put(session, entries)
    (session / "video.mov").unlink()
    (session / "imu.json").unlink()
    takeset.convert(session, output=tmp_path / "out")
    _, meta = demos(tmp_path / "out")["s"]
    assert set(range(11, 30)) <= set(bits(meta)["pose-interpolated"]) <= set(range(9, 32))


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


def test_signs_of_joints_can_be_changed(joint_session, takeset, tmp_path):
    takeset.convert(joint_session, output=tmp_path / "plain")
    takeset.convert(
        joint_session, output=tmp_path / "turned", arguments=yaml(tmp_path, "align", reader="{name: stack-session, joint-signs: ++--}"))
    plain, rotated = (demos(tmp_path / name)["s"][0]["obs/joints"][:] for name in ("plain", "turned"))
    assert (rotated == plain * [1, 1, -1, -1]).all()


@pytest.mark.slow
def test_other_names_of_times_are_understood(joint_session, takeset, tmp_path):
    takeset.convert(joint_session, output=tmp_path / "before")
    changed = [{"local_time": r.pop("timestamp"), "timestamp_ms": r.pop("esp_timestamp_ms"), **r} for r in readings(joint_session)]
    (joint_session / "encoders.json").write_text(json.dumps(changed))
    takeset.convert(joint_session, output=tmp_path / "after")
    before, after = (demos(tmp_path / name)["s"][0]["obs/joints"][:] for name in ("before", "after"))
    assert np.array_equal(before, after, equal_nan=True)


@pytest.mark.parametrize("change, code", [
    (lambda r: r[75:], "joints-late"), (lambda r: r[:40] + r[70:], "joints-gap"),
    (lambda r: r[:60] + [x | {c: (x[c] + 45) % 360 for c in CHANNELS} for x in r[60:]], "joints-recalibrated"),
])
def test_events_of_the_glove_are_findings(joint_session, takeset, tmp_path, change, code):
    (joint_session / "encoders.json").write_text(json.dumps(change(readings(joint_session))))
    takeset.convert(joint_session, output=tmp_path / "out")
    assert code in codes(tmp_path / "out", "s")


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


def test_pose_rows_agree_with_scipy(variants, depth_session, takeset, tmp_path):
    takeset.convert(depth_session, output=tmp_path / "out")
    matrices = np.array([e["transform"] for e in poses(depth_session)])
    expected = Rotation.from_matrix(matrices[:, :3, :3]).as_quat()
    pose = demos(tmp_path / "out")["s"][0]["obs/pose"][:]
    assert np.abs(pose[:, :3] - matrices[:, :3, 3]).max() < 1e-6
    assert np.minimum(np.abs(pose[:, 3:] - expected).max(1), np.abs(pose[:, 3:] + expected).max(1)).max() < 1e-6
    with h5py.File(tmp_path / "out/dataset.h5") as file:
        assert list(file["data"]) == ["demo_000000"]
