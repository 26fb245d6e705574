"""Stray Scanner: poses."""

import numpy as np
import pytest
from conversions import fails
from images import numbers
from outputs import dropped, finding
from scan_checks import Scans, absolute, convert, scan_codes
from scans import OLD, POSE, session
from scipy.spatial.transform import Rotation


def test_poses_are_those_of_the_file_with_steady_signs(takeset, tmp_path):
    found = session()
    # A rotation through a half circle, so that no rule for a single row keeps the signs.
    rotated = Rotation.from_rotvec(np.outer(2.6 + 0.1 * np.arange(20), [0.6, 0.0, 0.8])).as_quat()
    rotated *= np.random.default_rng(4).choice([-1, 1], 20)[:, None] * 1.004
    for row, quaternion in zip(found.rows, rotated.tolist()):
        row.update(zip(OLD[5:], map(repr, quaternion)))
    found.rows[7]["y"] = "-3.5e-05"
    _, demo, _ = convert(takeset, tmp_path, found)
    pose = demo["obs/pose"][:].astype("f8")
    assert (pose[:, :3] == found.numbers("x", "y", "z").astype("f4")).all() and pose[7, 1] == np.float32(-3.5e-05)
    unit = rotated / 1.004
    assert np.minimum(np.abs(pose[:, 3:] - unit).max(1), np.abs(pose[:, 3:] + unit).max(1)).max() < 1e-6
    assert pose[0, 6] >= 0 > pose[-1, 6] and (pose[1:, 3:] * pose[:-1, 3:]).sum(1).min() > 0.9
    assert np.abs(np.linalg.norm(pose[:, 3:], axis=1) - 1).max() < 1e-6
    attributes = dict(demo["obs/pose"].attrs)
    assert attributes["camera_axes"] == "x right, y down, z forward" and attributes["unit"] == "m"
    assert attributes["transform"] == "camera_to_world" and attributes["quaternion_order"] == "xyzw" and attributes["world_axes"]


def scaled(factor):
    return lambda row: row.update({c: repr(float(row[c]) * factor) for c in POSE[3:]})


def one(column, text):
    return lambda row: row.update({column: text})


UNUSABLE = {
    "not a number": one("x", "nan"), "infinite": one("z", "-inf"), "quaternion not a number": one("qy", "NaN"), "too long": scaled(1.012),
    "too short": scaled(0.988), "zero": scaled(0), "beyond 32-bit floats": one("y", "1e39"), "beyond 64-bit floats": one("y", "1e400"),
}


def with_unusable(name):
    found = session(times="number")
    for number in 0, 6:
        UNUSABLE[name](found.rows[number])
    return found


@pytest.fixture(scope="module")
def unusable(takeset, tmp_path_factory):
    return Scans(takeset, tmp_path_factory.mktemp("unusable"), {name: with_unusable(name) for name in UNUSABLE})


@pytest.mark.parametrize("name", UNUSABLE)
def test_an_invalid_pose_costs_its_row(unusable, name):
    found = with_unusable(name)
    entry, demo, meta = unusable[name]
    rows = [n for n in range(20) if n not in (0, 6)]
    assert finding(entry, "pose-unusable")["count"] == 2 and dropped(entry) == {"pose-unusable": 2}
    assert meta["source_index"][:].tolist() == rows == numbers(demo["obs/camera_image"][:])
    assert absolute(meta) == [found.nanoseconds()[n] for n in rows] and meta["timestamp_ns"][0] == 0
    assert (meta["intrinsics"][:] == found.numbers("fx", "fy", "cx", "cy")[rows].astype("f4")).all()
    assert np.isfinite(demo["obs/pose"][:]).all()


@pytest.mark.parametrize("factor", [0.991, 1.009])
def test_a_quaternion_within_one_part_in_a_hundred_is_normalized(takeset, tmp_path, factor):
    found = session()
    scaled(factor)(found.rows[6])
    entry, demo, _ = convert(takeset, tmp_path, found)
    assert scan_codes(entry) == [] and abs(np.linalg.norm(demo["obs/pose"][6, 3:].astype("f8")) - 1) < 1e-6


def test_more_than_a_fifth_of_unusable_poses_fail_the_take(takeset, tmp_path):
    found = session()
    for row in found.rows[:4]:
        row["x"] = "nan"
    entry, _, meta = convert(takeset, tmp_path / "fifth", found)
    assert len(meta["source_index"]) == 16 and dropped(entry) == {"pose-unusable": 4}
    found.rows[4]["x"] = "nan"
    fails(takeset, found.write(tmp_path / "bad"), "too-few-poses", "odometry.csv", 5, 20)
