"""Quirks of sessions, rows 10 to 19: numbers of frames, counts, and files that are missing or damaged."""

import copy
import json

import numpy as np
import pytest
from outputs import dropped, finding, warnings
from quirks import ASSUMED, SLAM, alone, pipeline, quirk
from session_checks import all_joints_masked, depth_is, joints_are, methods, named_maps, nanoseconds, rows_are, times_are
from stack_sessions import (
    COUNT, Session, depth_map, inertial, numbered_images, readings, slam_alone, slam_poses, still, uptimes, v1, v2, v3_slam,
)


@quirk(10, of=still)
def one_swap(session):
    session.poses[7], session.poses[8] = session.poses[8], session.poses[7]


@quirk(10, of=still)
def shuffled(session):
    order = np.random.default_rng(5).permutation(COUNT)
    session.poses = [session.poses[i] for i in order]


@pytest.mark.parametrize("build", [one_swap, shuffled])
def test_row_10_poses_are_sorted_by_their_numbers(batch, build):
    entry, demo, meta = batch(build)
    rows_are(demo, meta, range(COUNT))
    times_are(meta, uptimes())
    found = finding(entry, "poses-unsorted")
    assert found["severity"] == "info" and (found["count"] == 1 if build is one_swap else found["count"] > 1)


@quirk(11, of=still)
def equal_duplicates(session):
    session.poses[9:9] = [copy.deepcopy(session.poses[9])]
    session.metadata["poseCount"] = COUNT


@quirk(11, "poses-duplicate", of=still)
def duplicates_that_differ(session):
    for number in 5, 30:
        other = copy.deepcopy(session.poses[number])
        other["transform"][0][3] += 0.01
        session.poses.append(other)
    session.metadata["poseCount"] = COUNT


def test_row_11_equal_duplicates_count_once(batch):
    _, demo, meta = batch(equal_duplicates)
    rows_are(demo, meta, range(COUNT))


def test_row_11_of_two_that_differ_the_first_is_used(batch):
    entry, demo, meta = batch(duplicates_that_differ)
    rows_are(demo, meta, range(COUNT))
    assert finding(entry, "poses-duplicate")["count"] == 2


@quirk(12, "pose-missing", of=still)
def more_images_than_poses(session):
    session.poses = [e for e in session.poses if e["rgbIndex"] not in (12, 13, 14, 39)]


def test_row_12_images_without_a_pose_are_dropped_and_counted(batch):
    entry, demo, meta = batch(more_images_than_poses)
    rows_are(demo, meta, [i for i in range(COUNT) if i not in (12, 13, 14, 39)])
    assert finding(entry, "pose-missing")["count"] == 4 and dropped(entry) == {"pose-missing": 4}
    times = uptimes()
    assert meta["gaps"][:].tolist() == [[11, nanoseconds(times[15]) - nanoseconds(times[11])]]


@quirk(13, "image-missing", of=still)
def more_poses_than_images(session):
    for number in 0, 17, 18:
        del session.rgb[number]


def test_row_13_poses_without_an_image_shift_nothing(batch):
    entry, demo, meta = batch(more_poses_than_images)
    rows_are(demo, meta, [i for i in range(COUNT) if i not in (0, 17, 18)])
    assert finding(entry, "image-missing")["count"] == 3 and dropped(entry) == {"image-missing": 3}
    assert "partial-upload" not in warnings(entry)


@quirk(14, "pose-missing", *SLAM, of=v3_slam)
def slam_found_the_middle_only(session):
    session.poses = slam_poses(range(9, 36))


def test_row_14_time_does_not_start_at_the_first_pose(batch):
    entry, demo, meta = batch(slam_found_the_middle_only)
    rows_are(demo, meta, range(9, 36))
    times_are(meta, np.arange(9, 36) / 60, tolerance=1)
    assert dropped(entry) == {"pose-missing": COUNT - 27}
    joints_are(demo, meta, readings(late=0.003), 0.003 + np.arange(len(readings())) / 50 - 9 / 60)


LOST = (0, 7, 20, 21)


@quirk(15, "slam-ordinals", *ASSUMED, of=slam_alone)
def slam_of_numbers_with_gaps(session):
    session.rgb = {number: data for number, data in session.rgb.items() if number not in LOST}
    session.poses = slam_poses(range(COUNT - len(LOST)))


def test_row_15_slam_counts_images_in_the_listing(batch):
    _, demo, meta = batch(slam_of_numbers_with_gaps)
    numbers = [n for n in range(COUNT) if n not in LOST]
    rows_are(demo, meta, numbers, pose_of={number: place for place, number in enumerate(numbers)})


@quirk(16, "count-mismatch", *SLAM, of=v3_slam)
def slam_miscounted(session):
    session.metadata |= {"rgbFrameCount": 99, "poseCount": 98, "encoderCount": 97, "imuCount": 96}


@quirk(16, "count-mismatch", of=v1)
def depth_miscounted(session):
    session.metadata["depthFrameCount"] = 95


@pytest.mark.parametrize("build, key, declared, true", [
    (slam_miscounted, "rgbFrameCount", 99, COUNT), (slam_miscounted, "poseCount", 98, COUNT), (depth_miscounted, "depthFrameCount", 95, 16),
    (slam_miscounted, "encoderCount", 97, len(readings())), (slam_miscounted, "imuCount", 96, len(inertial())),
])
def test_row_16_counts_that_disagree_are_both_reported(batch, build, key, declared, true):
    entry, demo, _ = batch(build)
    assert demo.attrs["num_samples"] == COUNT and entry["details"]["declared"][key] == declared
    (message,) = [f["message"] for f in entry["findings"] if f["code"] == "count-mismatch" and f["field"] == f".{key}"]
    assert str(declared) in message and str(true) in message


@quirk(17, "metadata-missing", "clock-unaligned", of=v2)
def no_metadata(session):
    session.metadata = None


@quirk(17, "metadata-missing", of=v1)
def no_metadata_but_depth(session):
    """Depth maps are assumed to be 256x192 without evidence of their size."""
    session.metadata = None
    session.depth = {index: depth_map(index, (256, 192)).tobytes() for index in session.depth}


@quirk(17, "poses-missing", outcome="failed")
def images_alone():
    return Session(None, None, numbered_images())


def test_row_17_without_metadata_the_files_decide(batch):
    entry, demo, meta = batch(no_metadata)
    rows_are(demo, meta, range(COUNT))
    assert entry["variant"] == "v2" and "unix_origin_ns" not in meta["timestamp_ns"].attrs
    assert all_joints_masked(demo, meta) and "unaligned" in methods(entry)["joints"]


def test_row_17_without_metadata_depth_is_256x192(batch):
    entry, demo, meta = batch(no_metadata_but_depth)
    session = no_metadata_but_depth()
    assert entry["variant"] == "v1"
    maps = {index: depth_map(index, (256, 192)) for index in session.depth}
    assert depth_is(demo, meta, uptimes(), named_maps(session), maps) == list(range(COUNT))


def test_row_17_images_alone_need_slam_first(batch):
    entry, _, _ = batch(images_alone)
    assert "SLAM" in entry["reason"] and finding(entry, "poses-missing")["severity"] == "error"


@quirk(18, outcome="rejected", of=v3_slam)
def slam_without_poses(session):
    session.poses = None
    session.metadata["poseCount"] = COUNT


@quirk(18, "poses-missing", outcome="failed", of=v2)
def arkit_without_poses(session):
    session.poses = None
    session.metadata["poseCount"] = COUNT


def cut(session, entries, rest):
    """The text of the poses up to this many complete entries, and the beginning of the next one."""
    texts = [json.dumps(entry) for entry in session.poses]
    session.metadata["poseCount"] = len(session.poses)
    session.poses = "[" + ", ".join(texts[:entries]) + (", " + texts[entries])[:rest]
    return session


@quirk(18, "poses-truncated", "count-mismatch", "pose-missing")
def poses_cut_inside_an_entry():
    return cut(still(), 30, 80)


@quirk(18, "poses-truncated", "count-mismatch", "pose-missing")
def poses_cut_between_entries():
    return cut(still(), 30, 0)


@quirk(18, outcome="rejected", of=v3_slam)
def slam_with_nothing_to_salvage(session):
    session.metadata["poseCount"] = COUNT
    session.poses = '[{"timestamp": 0.0, "rgbIn'


@quirk(18, "json-invalid", outcome="failed", of=still)
def arkit_with_nothing_to_salvage(session):
    session.metadata["poseCount"] = COUNT
    session.poses = '[{"timestamp": 81234.5, "rgbIn'


@pytest.mark.parametrize("build", [slam_without_poses, slam_with_nothing_to_salvage])
def test_row_18_without_poses_a_later_session_is_as_raw(takeset, batch, tmp_path, build):
    entry, _, _ = batch(build)
    assert entry["reason"].startswith("needs-slam") and entry["variant"] == "v3-raw"
    entry, demo, _ = alone(takeset, batch, build, tmp_path / "out", pipeline(tmp_path, poses="optional"))
    assert demo.attrs["num_samples"] == COUNT and "pose" not in demo["obs"] and entry["variant"] == "v3-raw"
    assert warnings(entry) == (set() if build is slam_without_poses else {"poses-unreadable"})


def test_row_18_without_poses_a_session_of_arkit_is_lost(batch):
    entry, _, _ = batch(arkit_without_poses)
    assert str(COUNT) in entry["reason"]
    entry, _, _ = batch(arkit_with_nothing_to_salvage)
    assert entry["reason"].startswith("poses.json")


@pytest.mark.parametrize("build", [poses_cut_inside_an_entry, poses_cut_between_entries])
def test_row_18_complete_entries_before_the_cut_are_used(batch, build):
    entry, demo, meta = batch(build)
    rows_are(demo, meta, range(30))
    assert dropped(entry) == {"pose-missing": 10}


@quirk(19, "pose-unusable", of=v2)
def poses_that_are_not_numbers(session):
    session.poses[5]["transform"] = np.full((4, 4), np.nan).tolist()
    session.poses[9]["transform"][0][3] = np.inf
    session.poses[12]["transform"][1][1] = -np.inf
    session.poses[20]["depth"] = np.nan


@quirk(19, "time-not-ascending", of=still)
def a_time_that_is_not_a_number(session):
    session.poses[15]["timestamp"] = np.nan


@quirk(19, "joint-read-failed", of=v2)
def angles_that_are_not_numbers(session):
    session.encoders[10]["index_pip"] = np.nan
    session.encoders[20]["three_finger_pip"] = np.inf


@quirk(19, "imu-unusable", *SLAM, of=v3_slam)
def gyro_that_is_not_numbers(session):
    session.imu[10]["gyro"][1] = np.nan
    session.imu[11]["accel"][2] = -np.inf


def test_row_19_poses_that_are_not_numbers_cost_their_own_frame(batch):
    assert "NaN" in poses_that_are_not_numbers().contents()["poses.json"].decode()
    entry, demo, meta = batch(poses_that_are_not_numbers)
    rows_are(demo, meta, [i for i in range(COUNT) if i not in (5, 9, 12)])
    assert finding(entry, "pose-unusable")["count"] == 3 and dropped(entry) == {"pose-unusable": 3}
    row = meta["source_index"][:].tolist().index(20)
    assert meta["streams/depth_point/source_index"][row] in (19, 21) and np.isfinite(demo["obs/depth_point"][row, 0])


def test_row_19_a_time_that_is_not_a_number_costs_its_frame(batch):
    entry, demo, meta = batch(a_time_that_is_not_a_number)
    rows_are(demo, meta, [i for i in range(COUNT) if i != 15])
    assert finding(entry, "time-not-ascending")["count"] == 1


def test_row_19_angles_that_are_not_numbers_are_masked(batch):
    _, demo, meta = batch(angles_that_are_not_numbers)
    found = readings()
    found[10]["index_pip"] = found[20]["three_finger_pip"] = None
    joints_are(demo, meta, found, np.arange(len(found)) / 50)
    assert (demo["obs/joints_valid"][:] == 0).any(0).tolist() == [False, True, False, True]


def test_row_19_imu_readings_that_are_not_numbers_are_dropped(batch):
    entry, _, meta = batch(gyro_that_is_not_numbers)
    kept = [r for i, r in enumerate(inertial()) if i not in (10, 11)]
    assert np.allclose(meta["imu/gyro"][:], [r["gyro"] for r in kept], atol=1e-6)
    assert finding(entry, "imu-unusable")["count"] == 2
