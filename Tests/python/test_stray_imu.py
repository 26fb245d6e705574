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
