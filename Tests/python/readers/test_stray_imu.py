"""Stray Scanner: the IMU."""

from fractions import Fraction

import numpy as np
import pytest
from outputs import finding
from scan_checks import absolute, convert, scan_codes
from scans import session


def imu_of(meta):
    return absolute(meta, "imu/timestamp_ns"), np.hstack([meta["imu/accel"][:], meta["imu/gyro"][:]])


IMU_HEADERS = {
    "as written": "timestamp, a_x, a_y, a_z, alpha_x, alpha_y, alpha_z", "short": "timestamp,ax,ay,az,gx,gy,gz",
    "misleading": "Time, alpha_x, alpha_y, alpha_z, a_x, a_y, a_z", "none": None,
}


@pytest.mark.parametrize("name", IMU_HEADERS)
def test_the_imu_is_on_the_frames_timeline_by_column_position(takeset, tmp_path, name):
    found = session()
    found.imu_header = IMU_HEADERS[name]
    entry, _, meta = convert(takeset, tmp_path, found)
    stamps, values = imu_of(meta)
    table = np.array([[float(v) for v in row[1:]] for row in found.imu])
    assert stamps == [round(Fraction(row[0]) * 10**9) for row in found.imu] and (values == table.astype("f4")).all()
    assert meta["imu/timestamp_ns"][0] == 100_000_000 and meta["imu/timestamp_ns"].dtype == np.int64
    attributes = meta["imu/accel"].attrs["unit"], meta["imu/gyro"].attrs["unit"], meta["imu/timestamp_ns"].attrs["clock"]
    assert attributes == ("m/s^2", "rad/s", "device-uptime") and scan_codes(entry) == []
    assert (meta["imu/accel"].dtype.str, meta["imu/accel"].shape) == ("<f4", (len(found.imu), 3))


def in_g(found):
    """The capture with the accelerations of a resting phone in g, as the app writes them since February 2025."""
    rng = np.random.default_rng(6)
    found.imu = [[row[0], *map(repr, (rng.normal(0, 0.05, 3) + [0.1, -1, 0.05]).round(6).tolist()), *row[4:]] for row in found.imu]
    return found


def test_accelerations_in_g_become_meters_per_square_second(takeset, tmp_path):
    found = in_g(session())
    entry, _, meta = convert(takeset, tmp_path, found)
    stamps, values = imu_of(meta)
    table = np.array([[float(v) for v in row[1:]] for row in found.imu])
    assert stamps == [round(Fraction(row[0]) * 10**9) for row in found.imu]
    assert np.allclose(values[:, :3], table[:, :3] * 9.80665, rtol=3e-7) and (values[:, 3:] == table[:, 3:].astype("f4")).all()
    assert scan_codes(entry) == ["acceleration-in-g"] and finding(entry, "acceleration-in-g")["severity"] == "info"
    assert entry["details"]["acceleration_unit"] == "g" and meta["imu/accel"].attrs["unit"] == "m/s^2"


def test_accelerations_without_gravity_are_not_in_g(takeset, tmp_path):
    found = session()
    found.imu = [[row[0], "0.01", "0.02", repr(0.01 * (index % 3)), *row[4:]] for index, row in enumerate(found.imu)]
    entry, _, _ = convert(takeset, tmp_path, found)
    assert entry["details"]["acceleration_unit"] == "m/s^2" and "expected 9.8" in finding(entry, "imu-implausible")["message"]


@pytest.mark.parametrize("norm, unit", [(2.99, "g"), (3.01, "m/s^2")])
def test_the_median_norm_tells_the_unit(takeset, tmp_path, norm, unit):
    found = session()
    found.imu = [[row[0], "0", repr(norm), "0", *row[4:]] for row in found.imu]
    # A few shocks change nothing.
    found.imu[3][1:4] = ["80", "90", "100"]
    entry, _, meta = convert(takeset, tmp_path, found)
    assert entry["details"]["acceleration_unit"] == unit
    assert np.isclose(np.median(meta["imu/accel"][:, 1]), norm * (9.80665 if unit == "g" else 1), rtol=1e-6)


def test_further_columns_are_accepted(takeset, tmp_path):
    found = session()
    found.imu_header += ", temperature, "
    table = np.array([[float(v) for v in row[1:]] for row in found.imu])
    found.imu = [[*row, "21.5", ""] for row in found.imu]
    found.columns = (*found.columns, "distortion_center_x", "distortion_center_y")
    for row in found.rows:
        row |= {"distortion_center_x": "", "distortion_center_y": ""}
    entry, _, meta = convert(takeset, tmp_path, found)
    assert (imu_of(meta)[1] == table.astype("f4")).all() and scan_codes(entry) == []
    assert len(np.unique(meta["camera_depth_intrinsics"][:, 0])) == 20


def test_readings_that_are_not_numbers_are_dropped(takeset, tmp_path):
    found = session()
    whole = list(found.imu)
    no_time, no_number, infinite = ["nan", *whole[0][1:]], [*whole[5][:4], "soon", "1", "2"], [*whole[6][:3], "inf", "0", "0", "0"]
    found.imu = [*whole[:3], no_time, ["?", "?"], *whole[3:6], no_number, infinite, *whole[6:], whole[-1][:4]]
    entry, _, meta = convert(takeset, tmp_path, found)
    stamps, values = imu_of(meta)
    assert stamps == [round(Fraction(row[0]) * 10**9) for row in whole] and np.isfinite(values).all()
    assert scan_codes(entry) == ["imu-unusable"] and finding(entry, "imu-unusable")["count"] == 5


def test_no_imu_is_no_group(takeset, tmp_path):
    found = session()
    found.imu = None
    entry, _, meta = convert(takeset, tmp_path, found)
    assert "imu" not in meta and scan_codes(entry) == []
