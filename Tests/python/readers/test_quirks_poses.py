"""Quirks of sessions, rows 20 to 28: poses and their times."""

import numpy as np
import pytest
from outputs import bits, dropped, finding
from quirks import ASSUMED, alone, pipeline, quirk
from scipy.spatial.transform import Rotation, Slerp
from session_checks import nanoseconds, rows_are, same, same_rotations
from stack_sessions import COUNT, matrices, numbered_images, slam_alone, still, uptimes


def spoil(session, count):
    """Makes poses unusable; in which ways they can be is in Swift's PoseTests."""
    numbers = list(range(2, 2 + 4 * count, 4))
    for number in numbers:
        matrix = np.array(session.poses[number]["transform"])
        matrix[:3, :3] *= 1.005
        session.poses[number]["transform"] = matrix.tolist()
    return session, numbers


@quirk(20, "pose-unusable")
def poses_that_are_invalid():
    return spoil(still(), 8)[0]


@quirk(20, "too-few-poses", outcome="failed")
def too_many_poses_that_are_invalid():
    return spoil(still(), 9)[0]


def test_row_20_an_invalid_pose_costs_its_own_frame(batch):
    entry, demo, meta = batch(poses_that_are_invalid)
    _, numbers = spoil(still(), 8)
    rows_are(demo, meta, [i for i in range(COUNT) if i not in numbers])
    assert finding(entry, "pose-unusable")["count"] == 8 and dropped(entry) == {"pose-unusable": 8}


def test_row_20_above_a_fifth_the_take_fails(batch):
    entry, _, _ = batch(too_many_poses_that_are_invalid)
    assert "9 of 40" in entry["reason"]


def nearly_rotations():
    """Rotations that are off by less than a thousandth, and the nearest true ones."""
    found = matrices()
    found[:, :3, :3] += np.random.default_rng(11).uniform(-2e-4, 2e-4, (COUNT, 3, 3))
    u, _, v = np.linalg.svd(found[:, :3, :3])
    return found, u @ v


@quirk(21, of=still)
def poses_of_little_precision(session):
    for entry, matrix in zip(session.poses, nearly_rotations()[0]):
        entry["transform"] = matrix.tolist()


def test_row_21_the_nearest_rotation_is_taken(batch):
    _, demo, _ = batch(poses_of_little_precision)
    given, nearest = nearly_rotations()
    assert np.abs(given[:, :3, :3] - nearest).max() > 1e-4
    pose = demo["obs/pose"][:].astype("f8")
    same_rotations(pose[:, 3:], nearest, tolerance=5e-7)
    assert np.abs(np.linalg.norm(pose[:, 3:], axis=1) - 1).max() < 1e-6


@quirk(22, of=still)
def sixteen_numbers(session):
    for entry in session.poses:
        entry["transform"] = np.array(entry["transform"]).reshape(-1).tolist()


@quirk(22, "poses-transposed", of=still)
def column_by_column(session):
    for entry in session.poses:
        entry["transform"] = np.array(entry["transform"]).T.tolist()


def from_the_origin():
    found = matrices()
    found[:, :3, 3] -= found[0, :3, 3]
    return found


@quirk(22, "poses-transposed", of=still)
def column_by_column_from_the_origin(session):
    for entry, matrix in zip(session.poses, from_the_origin()):
        entry["transform"] = matrix.T.tolist()


@pytest.mark.parametrize("build", [sixteen_numbers, column_by_column])
def test_row_22_matrices_in_other_orders_are_the_same(batch, build):
    _, demo, meta = batch(build)
    rows_are(demo, meta, range(COUNT))
    same((demo, meta), batch.demos["clean-still"])


def test_row_22_a_pose_at_the_origin_is_transposed_with_the_others(batch):
    entry, demo, _ = batch(column_by_column_from_the_origin)
    truth = from_the_origin()
    pose = demo["obs/pose"][:].astype("f8")
    assert not pose[0, :3].any() and np.abs(pose[:, :3] - truth[:, :3, 3]).max() < 1e-6
    same_rotations(pose[:, 3:], truth[:, :3, :3])


def two_rotations():
    """720 degrees about an axis, beginning where scipy's scalar part is negative."""
    angles = np.radians(200 + np.arange(91) * 8)
    found = np.tile(np.eye(4), (91, 1, 1))
    found[:, :3, :3] = Rotation.from_rotvec(angles[:, None] * np.array([[0.6, 0, 0.8]])).as_matrix()
    return found


@quirk(23, "pose-missing", of=still)
def rotating_twice(session):
    session.poses = [{"rgbIndex": i, "timestamp": t, "transform": m.tolist()} for i, (t, m) in enumerate(zip(uptimes(91), two_rotations()))]
    session.rgb = numbered_images(range(91))
    del session.poses[30:36]


def test_row_23_quaternions_keep_their_sign(batch):
    _, demo, meta = batch(rotating_twice)
    pose = demo["obs/pose"][:].astype("f8")
    same_rotations(pose[:, 3:], two_rotations()[meta["source_index"][:], :3, :3])
    assert pose[0, 6] >= 0 and ((pose[1:, 3:] * pose[:-1, 3:]).sum(1) > 0).all()
    assert (pose[:, 6] < 0).any()


@quirk(24, of=still)
def arkit_by_the_later_app(session):
    session.metadata |= {"captureSource": "iphone_arkit"}


@quirk(24, *ASSUMED, of=slam_alone)
def slam_detected_from_times_alone(session):
    for key in "captureSource", "slamProcessed":
        del session.metadata[key]


def test_row_24_axes_are_those_of_the_source(batch):
    first, arkit, meta = batch(arkit_by_the_later_app)
    rows_are(arkit, meta, range(COUNT))
    second, slam, meta = batch(slam_detected_from_times_alone)
    rows_are(slam, meta, range(COUNT))
    assert (first["variant"], second["variant"]) == ("v2", "v3-slam")
    assert arkit["obs/pose"].attrs["camera_axes"] == "x right, y up, z back"
    assert slam["obs/pose"].attrs["camera_axes"] == "x right, y down, z forward"
    assert "gravity" in arkit["obs/pose"].attrs["world_axes"] and "arbitrary" in slam["obs/pose"].attrs["world_axes"]
    assert np.abs(arkit["obs/pose"][:] - slam["obs/pose"][:]).max() < 1e-6


@quirk(25, "pose-repeated", "pose-jump", of=still)
def tracking_lost(session):
    found = matrices()
    found[6:8] = found[5]
    found[13] = found[12]
    found[20:, 0, 3] += 1
    found[30:, :3, :3] = found[30:, :3, :3] @ Rotation.from_rotvec([0, 0.4, 0]).as_matrix()
    found[34:, 1, 3] += 0.05
    for entry, matrix in zip(session.poses, found):
        entry["transform"] = matrix.tolist()


@quirk(25, "pose-repeated", "pose-jump", of=still)
def tracking_not_yet_begun(session):
    for entry in session.poses[:4]:
        entry["transform"] = np.eye(4).tolist()


def test_row_25_lost_tracking_sets_bits_and_drops_nothing(batch):
    entry, demo, meta = batch(tracking_lost)
    found = bits(meta)
    assert found["pose-repeated"] == [5, 6, 7] and found["pose-jump"] == [20, 30] and demo.attrs["num_samples"] == COUNT
    assert (finding(entry, "pose-repeated")["count"], finding(entry, "pose-jump")["count"]) == (3, 2)


def test_row_25_identities_at_the_start_are_marked(batch):
    _, _, meta = batch(tracking_not_yet_begun)
    assert bits(meta)["pose-repeated"] == [0, 1, 2, 3]


def filled_in():
    """Poses as SLAM's filler makes them: keyframes after six frames each, but none between 12 and 24."""
    found = matrices()
    keyframes = [k for k in range(0, COUNT, 6) if k != 18] + [COUNT - 1]
    rotations = Slerp(keyframes, Rotation.from_matrix(found[keyframes, :3, :3]))
    for k in range(COUNT):
        found[k, :3, 3] = [np.interp(k, keyframes, found[keyframes, axis, 3]) for axis in range(3)]
    found[:, :3, :3] = rotations(np.arange(COUNT)).as_matrix()
    return found


@quirk(26, "pose-interpolated", *ASSUMED, of=slam_alone)
def long_unregistered(session):
    for entry, matrix in zip(session.poses, filled_in()):
        entry["transform"] = matrix.tolist()


def test_row_26_filled_in_poses_are_marked(batch):
    entry, demo, meta = batch(long_unregistered)
    found = bits(meta)["pose-interpolated"]
    assert set(range(13, 24)) <= set(found) <= set(range(12, 25)) and demo.attrs["num_samples"] == COUNT
    assert finding(entry, "pose-interpolated")["count"] == len(found)


def times_changed(**changed):
    session = still()
    for number, time in changed.items():
        session.poses[int(number[1:])]["timestamp"] = time
    return session


@quirk(27, "time-not-ascending")
def times_that_go_back():
    return times_changed(_20=uptimes()[15], _30=uptimes()[0] - 1000)


@quirk(27, "time-not-ascending")
def a_time_that_repeats():
    return times_changed(_10=uptimes()[9])


@quirk(27, "time-not-ascending")
def a_time_just_before_the_last():
    return times_changed(_10=round(uptimes()[9] - 1e-3, 6))


@pytest.mark.parametrize("build, left_out", [
    (times_that_go_back, [(20, 30)]), (a_time_that_repeats, [(9,), (10,)]), (a_time_just_before_the_last, [(9,), (10,)]),
])
def test_row_27_times_that_do_not_ascend_cost_their_frames(batch, build, left_out):
    """Either of two contradicting frames may be dropped; the camera dropped none."""
    entry, demo, meta = batch(build)
    kept = meta["source_index"][:].tolist()
    assert kept in [[i for i in range(COUNT) if i not in some] for some in left_out]
    rows_are(demo, meta, kept)
    assert (np.diff(meta["timestamp_ns"][:]) > 0).all()
    count = len(left_out[0])
    assert finding(entry, "time-not-ascending")["count"] == count and dropped(entry) == {"time-not-ascending": count}


def slow_times():
    """A step of two periods, one of three, and one of 1.4."""
    return [round(t + (i > 9) / 60 + (i > 19) / 30 + (i > 29) * 0.4 / 60, 6) for i, t in enumerate(uptimes())]


@quirk(28, "frames-dropped", of=still)
def frames_dropped_by_the_phone(session):
    for entry, time in zip(session.poses, slow_times()):
        entry["timestamp"] = time


@quirk(28, "frames-dropped", "pose-unusable", "image-missing", "time-not-ascending", of=frames_dropped_by_the_phone)
def frames_dropped_and_others_left_out(session):
    """Where a frame is unusable there is a gap too, but no frame that the camera dropped."""
    session.poses[5]["transform"][0][0] = 7
    del session.rgb[15]
    session.poses[25]["timestamp"] = np.nan


@quirk(28, "frames-dropped", of=still)
def frames_never_written(session):
    """Neither image nor pose of some numbers."""
    session.poses = [entry for entry in session.poses if entry["rgbIndex"] not in (12, 13)]
    session.rgb = {number: data for number, data in session.rgb.items() if number not in (12, 13)}


def test_row_28_dropped_frames_are_gaps(takeset, batch, tmp_path):
    entry, demo, meta = batch(frames_dropped_by_the_phone)
    rows_are(demo, meta, range(COUNT))
    times = [nanoseconds(t) for t in slow_times()]
    assert meta["gaps"][:].tolist() == [[9, times[10] - times[9]], [19, times[20] - times[19]]]
    assert batch.inspected[entry["id"]]["gaps"] == 2
    _, _, meta = alone(takeset, batch, frames_dropped_by_the_phone, tmp_path / "out", pipeline(tmp_path, "split-at-gaps"))
    assert meta["segment"][:].tolist() == [0] * 10 + [1] * 10 + [2] * 20


@pytest.mark.parametrize("build, left_out, count, gaps", [
    (frames_dropped_by_the_phone, [], 2, 2), (frames_dropped_and_others_left_out, [5, 15, 25], 2, 5), (frames_never_written, [12, 13], 1, 1),
])
def test_row_28_dropped_frames_are_a_finding(batch, build, left_out, count, gaps):
    entry, demo, meta = batch(build)
    rows_are(demo, meta, [i for i in range(COUNT) if i not in left_out])
    assert finding(entry, "frames-dropped")["count"] == count and len(meta["gaps"]) == gaps
