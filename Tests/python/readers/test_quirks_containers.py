"""Quirks of sessions, rows 1 to 9: versions of the app and ways of delivery."""


import numpy as np
import pytest
from images import frame_code
from outputs import finding, warnings
from quirks import (
    ASSUMED, alone, arkit_with_depth_maps, arkit_with_depth_values, packed_folder, pipeline, quirk, slam_with_a_scale, synthetic_session,
)
from session_checks import depth_is, joints_are, named_maps, nanoseconds, rows_are, times_are
from stack_sessions import COUNT, depth_map, packed, readings, slam_alone, slam_poses, synthetic, v1, v2, v3_raw, v3_slam


def test_row_01_arkit_with_depth_maps_in_full(batch):
    entry, demo, meta = batch(arkit_with_depth_maps)
    session = v1()
    assert entry["variant"] == "v1" and entry["details"]["evidence"]
    rows_are(demo, meta, range(COUNT))
    assert (demo["obs/pose"].attrs["camera_axes"], demo["obs/pose"].attrs["unit"]) == ("x right, y up, z back", "m")
    times = [e["timestamp"] for e in session.poses]
    times_are(meta, times)
    maps = {index: depth_map(index) for index in session.depth}
    assert depth_is(demo, meta, times, named_maps(session), maps) == list(range(COUNT))


def test_row_02_arkit_with_one_depth_value_per_frame(batch):
    entry, demo, meta = batch(arkit_with_depth_values)
    session = arkit_with_depth_values()
    assert entry["variant"] == "v2"
    rows_are(demo, meta, range(COUNT))
    times = [nanoseconds(e["timestamp"]) for e in session.poses]
    measured = [i for i, e in enumerate(session.poses) if "depth" in e]
    nearest = [min(measured, key=lambda i: (abs(times[i] - t), i)) for t in times]
    expected = [0.5 + i / 64 if abs(times[i] - t) <= 50_000_000 else np.nan for i, t in zip(nearest, times)]
    assert np.array_equal(demo["obs/depth_point"][:, 0], expected, equal_nan=True)
    assert np.array_equal(demo["obs/depth_point_valid"][:, 0], np.isfinite(expected))
    assert 0 < np.isnan(expected).sum() < 14


@quirk(3, outcome="rejected")
def raw_without_poses():
    return v3_raw()


def test_row_03_a_raw_session_asks_for_slam(batch):
    entry, demo, _ = batch(raw_without_poses)
    assert entry["reason"].startswith("needs-slam") and demo is None


def test_row_03_a_rejected_session_has_its_variant(batch):
    entry, _, _ = batch(raw_without_poses)
    assert entry["variant"] == batch.inspected[entry["id"]]["variant"] == "v3-raw"


def test_row_03_a_raw_session_converts_without_poses(takeset, batch, tmp_path):
    entry, demo, meta = alone(takeset, batch, raw_without_poses, tmp_path / "out", pipeline(tmp_path, poses="optional"))
    assert (entry["outcome"], entry["variant"]) == ("written", "v3-raw")
    assert sorted(demo["obs"]) == ["camera_image", "joints", "joints_valid"]
    assert [frame_code(image) for image in demo["obs/camera_image"][:]] == list(range(COUNT))
    times_are(meta, np.arange(COUNT) / 60, tolerance=1)
    assert len(meta["imu/timestamp_ns"]) == len(v3_raw().imu)
    joints_are(demo, meta, readings(late=0.003), 0.003 + np.arange(len(readings())) / 50)


@quirk(4, "scale-arbitrary")
def slam_without_a_scale():
    return v3_slam()


@quirk(4, "scale-arbitrary", of=v3_slam)
def slam_with_an_unusable_scale(session):
    session.metadata["scale_factor"] = 0


@pytest.mark.parametrize("build", [slam_without_a_scale, slam_with_an_unusable_scale])
def test_row_04_poses_from_slam_have_an_arbitrary_unit(batch, build):
    entry, demo, meta = batch(build)
    assert entry["variant"] == "v3-slam" and demo["obs/pose"].attrs["unit"] == "arbitrary"
    assert demo["obs/pose"].attrs["camera_axes"] == "x right, y down, z forward" and "scale_factor" not in entry["details"]
    rows_are(demo, meta, range(COUNT))
    times_are(meta, np.arange(COUNT) / 60, tolerance=1)
    joints_are(demo, meta, readings(late=0.003), 0.003 + np.arange(len(readings())) / 50)


def test_row_05_a_claimed_scale_is_recorded_and_not_applied_again(batch):
    entry, demo, meta = batch(slam_with_a_scale)
    assert entry["variant"] == "v3-scaled" and demo["obs/pose"].attrs["unit"] == "m (claimed)"
    rows_are(demo, meta, range(COUNT))


def test_row_05_the_claimed_factor_is_in_the_record(batch):
    entry, _, _ = batch(slam_with_a_scale)
    assert entry["details"]["scale_factor"] == 2.625


@quirk(6, *ASSUMED, of=slam_alone)
def slam_of_the_first_kind(session):
    """As DROID-SLAM wrote it: every image from the first, and a calibration that was assumed."""
    session.calib = "300 300 240 180"


@quirk(6, *ASSUMED, "pose-missing", of=slam_alone)
def slam_of_the_second_kind(session):
    session.poses = slam_poses(range(4, 37))


def test_row_06_which_slam_it_was_makes_no_difference(batch):
    first, demo, meta = batch(slam_of_the_first_kind)
    rows_are(demo, meta, range(COUNT))
    times_are(meta, np.arange(COUNT) / 60)
    assert meta["timestamp_ns"].attrs["clock"] == "frame-number"
    second, demo, meta = batch(slam_of_the_second_kind)
    rows_are(demo, meta, range(4, 37))
    assert first["variant"] == second["variant"] == "v3-slam"


def test_row_06_the_program_is_recorded_as_unknown(batch):
    for build in slam_of_the_first_kind, slam_of_the_second_kind:
        entry, _, _ = batch(build)
        assert entry["details"]["slam_backend"] == "unknown"
    assert "slam_backend" not in batch.entries["clean-v1"]["details"]


@quirk(7, *ASSUMED, "packed-without")
def packed_tar():
    return {".tar": packed()}


@pytest.mark.parametrize("build", [packed_folder, packed_tar])
def test_row_07_packed_sessions_keep_their_size_and_scale_the_calibration(batch, build):
    entry, demo, meta = batch(build)
    assert entry["variant"] == "packed" and demo["obs/camera_image"].shape == (COUNT, 224, 224, 3)
    rows_are(demo, meta, range(COUNT))
    assert np.allclose(meta["intrinsics"][:], [360 * 224 / 480, 360 * 224 / 360, 112, 112])
    camera = entry["details"]["cameras"]["calib.txt"]
    assert [camera[k] for k in ("fx", "fy", "cx", "cy", "width", "height")] == [360, 360, 240, 180, 480, 360]
    assert "imu" not in meta


@pytest.mark.parametrize("build", [packed_folder, packed_tar])
def test_row_07_a_finding_says_that_video_and_imu_are_missing(batch, build):
    entry, _, _ = batch(build)
    found = finding(entry, "packed-without")
    assert found["file"] == "metadata.json" and "hasVideo" in found["message"] and "imuCount" in found["message"]


@quirk(8, "count-mismatch", "clock-unaligned", of=synthetic)
def synthetic_miscounted(session):
    session.metadata["frameCount"] = 77


def test_row_08_synthetic_sessions_are_labelled(batch):
    entry, demo, meta = batch(synthetic_session)
    assert entry["variant"] == "synthetic" and demo["obs/pose"].attrs["unit"] == "arbitrary"
    rows_are(demo, meta, range(COUNT))
    assert "unix_origin_ns" not in meta["timestamp_ns"].attrs


def test_row_08_their_frame_count_goes_by_another_name(batch):
    entry, _, _ = batch(synthetic_miscounted)
    assert "77" in finding(entry, "count-mismatch")["message"] and entry["details"]["declared"]["frameCount"] == 77


@quirk(9)
def folder_and_another_zip():
    return {"": v2(), ".zip": arkit_with_depth_values()}


def test_row_09_a_folder_next_to_another_archive_of_its_name(batch):
    entry, _, _ = batch(folder_and_another_zip)
    pair = [entry, batch.entries[entry["id"] + "-2"]]
    assert [entry["outcome"] for entry in pair] == ["written", "written"]
    assert [("duplicate-id" in warnings(entry)) for entry in pair] == [False, True]
