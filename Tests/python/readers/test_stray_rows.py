"""Stray Scanner: rows are the lines of odometry.csv, each with its own image, depth, confidence and camera."""

from fractions import Fraction

import numpy as np
import pytest
from images import close, numbers
from outputs import check_digests, dropped
from scan_checks import absolute, confidence_of, convert, depth_of, maps, scan_codes
from scans import LONG, START, confidence_map, decimal, depth_map, session
from videos import decoded


@pytest.mark.parametrize("codec", ["h264", "hevc"])
@pytest.mark.parametrize("times", ["time", "number"])
def test_every_row_has_its_own_image_depth_confidence_and_camera(takeset, tmp_path, codec, times):
    found = session(times=times, codec=codec)
    entry, demo, meta = convert(takeset, tmp_path, found)
    assert (entry["reader"], entry["variant"], entry["id"], entry["outcome"]) == ("stray-scanner", "rgbd", "capture", "written")
    assert scan_codes(entry) == [] and dropped(entry) == {} and entry["details"]["movie_pairing"] == times
    assert meta["source_index"][:].tolist() == list(range(20)) == numbers(demo["obs/camera_image"][:])
    assert times == "time" or entry["details"]["movie_first_row"] == 0
    close(demo["obs/camera_image"][:], decoded(tmp_path / "capture/rgb.mp4"))
    assert absolute(meta) == found.nanoseconds() and meta["timestamp_ns"].attrs["clock"] == "device-uptime"
    assert (depth_of(demo) == maps(depth_map)).all() and (demo["obs/camera_depth_valid"][..., 0] == (maps(depth_map) > 0)).all()
    assert (confidence_of(demo) == maps(confidence_map)).all()
    assert (meta["intrinsics"][:] == found.numbers("fx", "fy", "cx", "cy").astype("f4")).all()
    for name in "camera_image", "camera_depth", "camera_depth_confidence", "pose":
        stream = meta["streams"][name]
        assert stream["source_index"][:].tolist() == list(range(20)) and stream["valid"][:].all(), name
    assert not meta["streams/camera_depth/dt_ns"][:].any()


def test_datasets_have_the_shapes_types_and_units_of_the_layout(takeset, tmp_path):
    _, demo, meta = convert(takeset, tmp_path, session(times="time"))
    expected = {
        "pose": ("<f4", (7,), "m"), "camera_image": ("|u1", (120, 160, 3), None), "camera_depth": ("<u2", (24, 32, 1), "mm"),
        "camera_depth_valid": ("|u1", (24, 32, 1), None), "camera_depth_confidence": ("|u1", (24, 32, 1), "0 low, 1 medium, 2 high"),
    }
    assert set(demo["obs"]) == set(expected)
    for name, (kind, shape, unit) in expected.items():
        data = demo["obs"][name]
        assert (data.dtype.str, data.shape) == (kind, (20, *shape)), name
        assert data.attrs["unit"] == unit if unit else data.attrs["unit"], name
        assert len(shape) == 1 or data.chunks == (1, *shape), name
    assert check_digests(demo, meta) > 20
    for name in "camera_image", "camera_depth", "camera_depth_confidence":
        attributes = demo["obs"][name].attrs
        size, scale = ("160x120", 1) if name == "camera_image" else ("160x120", 0.2)
        assert attributes["kind"] == {"camera_image": "image", "camera_depth": "depth"}.get(name, "confidence")
        assert (attributes["camera"], attributes["camera_size"]) == ("camera", size)
        assert [float(part) for part in attributes["raster_from_camera"].split()] == pytest.approx([scale, 0, 0, 0, scale, 0])
    assert set(meta["streams"]) == {"pose", "camera_image", "camera_depth", "camera_depth_confidence"}
    for name in "intrinsics", "camera_depth_intrinsics":
        assert (meta[name].dtype.str, meta[name].shape) == ("<f4", (20, 4))
    assert demo.attrs["reader"] == "stray-scanner"


# Order and time


def test_steps_of_two_and_three_periods_are_gaps_though_numbers_go_on(takeset, tmp_path):
    found = session(times="time")
    entry, _, meta = convert(takeset, tmp_path, found)
    steps = np.diff(found.nanoseconds())
    assert meta["gaps"][:].tolist() == [[row, steps[row]] for row in LONG] and [round(steps[row] / 1e6, 0) for row in LONG] == [33, 50]
    rates = {s["name"]: s["rate_hz"] for s in entry["streams"]}
    assert rates["pose"] == pytest.approx(60, rel=0.005) and rates["camera_image"] == pytest.approx(60, rel=0.005)


@pytest.mark.parametrize("start", [START, 12_345_678_123_456_789, 7])
def test_times_are_exact_to_the_nanosecond(takeset, tmp_path, start):
    found = session(start=start)
    entry, _, meta = convert(takeset, tmp_path, found)
    assert start != START or found.rows[0]["timestamp"] == "258528.1"
    assert int(meta["timestamp_ns"].attrs["origin_ns"]) == start and absolute(meta) == found.nanoseconds()
    assert entry["streams"][0]["clock"] == "device-uptime"


def test_digits_beyond_the_nanosecond_are_rounded(takeset, tmp_path):
    found = session()
    for number, row in enumerate(found.rows):
        row["timestamp"] = repr(258528.1 + number / 60)
    exact = [Fraction(row["timestamp"]) * 10**9 for row in found.rows]
    _, _, meta = convert(takeset, tmp_path, found)
    for row, time in enumerate(exact):
        assert meta["timestamp_ns"][row] in {round(time) - round(exact[0]), round(time - exact[0])}


def test_lines_are_put_in_the_order_of_their_frame(takeset, tmp_path):
    found = session(times="time")
    expected = found.nanoseconds()
    found.rows = [found.rows[i] for i in np.random.default_rng(2).permutation(20)]
    entry, demo, meta = convert(takeset, tmp_path, found)
    assert "poses-unsorted" in scan_codes(entry, "info") and scan_codes(entry, "warning", "error") == []
    assert meta["source_index"][:].tolist() == list(range(20)) == numbers(demo["obs/camera_image"][:])
    assert absolute(meta) == expected and (depth_of(demo) == maps(depth_map)).all()


@pytest.mark.parametrize("times", ["number", "time"])
def test_one_outlier_time_costs_one_row(takeset, tmp_path, times):
    found = session(times=times)
    found.rows[8]["timestamp"] = decimal(START + 1000 * 10**9)
    entry, demo, meta = convert(takeset, tmp_path, found)
    rows = [n for n in range(20) if n != 8]
    assert "time-not-ascending" in scan_codes(entry) and dropped(entry)["time-not-ascending"] == 1
    assert meta["source_index"][:].tolist() == rows == numbers(demo["obs/camera_image"][:])
    assert (depth_of(demo) == maps(depth_map)[rows]).all()
