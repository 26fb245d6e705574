"""Stray Scanner: rows are the lines of odometry.csv, each with its own picture, depth, confidence and camera; what is odd is told."""

import hashlib
import json
import os
import re
from fractions import Fraction

import bundles
import h5py
import numpy as np
import pytest
from bundles import (
    close, converted, decoded, failed_with, input_digest, measured, numbers, only, pipeline, record, same_for_all_jobs,
)
from conftest import BINARY, ROOT, check_digests, demos, digest, manifest, take
from PIL import Image
from scipy.ndimage import map_coordinates
from scipy.spatial.transform import Rotation
from stray import (
    CAMERA, LONG, NEW, OLD, POSE, START, confidence_map, decimal, depth_map, flood, matrix_file, movie, periods, png, session, wrong_crc,
)
from test_record import STATISTICS, layout, validator


def convert(takeset, tmp_path, found, arguments=(), name="capture"):
    """The record, demo and meta of one capture."""
    entry, demo, meta = converted(takeset, found.write(tmp_path / name), arguments)
    assert entry["reader"] == demo.attrs["reader"] == "stray-scanner"
    return entry, demo, meta


def fails(takeset, tmp_path, found, code, *words):
    """The take fails with this code and these words; the good one beside it is written."""
    root = tmp_path / "in"
    found.write(root / "bad")
    session(depth_size=(8, 6)).write(root / "good")
    takeset.convert(root, output=tmp_path / "out", check=3)
    failed_with(take(tmp_path / "out", "bad"), code, *words)
    assert list(demos(tmp_path / "out")) == ["good"]
    return take(tmp_path / "out", "bad")


def codes(entry, *severities):
    """The codes of its findings, but for the one of the steps that are drawn into most captures here."""
    return [code for code in bundles.codes(entry, *severities) if code != "frames-dropped"]


def finding(entry, code):
    (found,) = [f for f in entry["findings"] if f["code"] == code]
    return found


def dropped(entry, step=0):
    return {d["reason"]: d["count"] for d in entry["steps"][step]["dropped"]}


def absolute(meta, path="timestamp_ns"):
    """Times on the source's own clock."""
    return (meta[path][:] + int(meta["timestamp_ns"].attrs["origin_ns"])).tolist()


def depth_of(demo):
    return demo["obs/camera_depth"][..., 0]


def confidence_of(demo):
    return demo["obs/camera_depth_confidence"][..., 0]


def maps(make, count=20, size=(32, 24)):
    return np.stack([make(n, size) for n in range(count)])


def nearest_maps(stamps, present, tolerance=50_000_000):
    """For each row the number of the nearest map within the tolerance, of two equally near the earlier; -1 for none."""
    best = [min(present, key=lambda n: (abs(stamps[n] - t), stamps[n])) for t in stamps]
    return [n if abs(stamps[n] - t) <= tolerance else -1 for n, t in zip(best, stamps)]


# Rows


@pytest.mark.parametrize("codec", ["h264", "hevc"])
@pytest.mark.parametrize("times", ["time", "number"])
def test_every_row_has_its_own_picture_depth_confidence_and_camera(takeset, tmp_path, codec, times):
    found = session(times=times, codec=codec)
    entry, demo, meta = convert(takeset, tmp_path, found)
    assert (entry["reader"], entry["variant"], entry["id"], entry["outcome"]) == ("stray-scanner", "rgbd", "capture", "written")
    assert codes(entry) == [] and dropped(entry) == {} and entry["details"]["movie_pairing"] == times
    assert meta["source_index"][:].tolist() == list(range(20)) == numbers(demo["obs/camera_image"][:])
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
        assert (data.attrs["sha256_of"], data.attrs["sha256"]) == digest(data)[:2], name
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


def test_variants_are_told_by_what_is_there(takeset, tmp_path):
    root = tmp_path / "in"
    session(times="time").write(root / "both")
    session().write(root / "depth")
    session(times="time", maps=False).write(root / "movie")
    takeset.convert(root, output=tmp_path / "out")
    obs = {name: list(demo["obs"]) for name, (demo, _) in demos(tmp_path / "out").items()}
    depth, image = ["camera_depth", "camera_depth_confidence", "camera_depth_valid"], ["camera_image"]
    assert obs == {"both": [*depth, *image, "pose"], "depth": [*depth, "pose"], "movie": [*image, "pose"]}
    assert [take(tmp_path / "out", name)["variant"] for name in ("both", "depth", "movie")] == ["rgbd", "depth-only", "rgb-only"]
    assert all(codes(entry) == [] for entry in manifest(tmp_path / "out")["record"]["takes"])


def test_what_makes_a_directory_a_take(takeset, tmp_path):
    found = session(times="time")
    files = found.files()
    for name, marker in ("movie", "rgb.mp4"), ("matrix", "camera_matrix.csv"), ("maps", "depth/000003.png"):
        for file in "odometry.csv", marker:
            (tmp_path / "in/deep" / name / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "in/deep" / name / file).write_bytes(files[file])
    takeset.convert(tmp_path / "in", output=tmp_path / "out", check=None)
    takes = manifest(tmp_path / "out")["record"]["takes"]
    assert [(t["id"], t["reader"]) for t in takes] == [(name, "stray-scanner") for name in ("maps", "matrix", "movie")]
    # Of poses alone there may be no episode, but then a reason.
    assert takes[0]["outcome"] == takes[2]["outcome"] == "written" and (takes[1]["outcome"] == "written" or takes[1]["reason"])
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone/odometry.csv").write_bytes(files["odometry.csv"])
    takeset.convert(tmp_path / "alone", output=tmp_path / "none", check=3)
    assert record(tmp_path / "none")["findings"][0]["code"] == "no-take-found"


def test_inputs_have_their_roles_and_other_files_are_listed_as_ignored(takeset, tmp_path):
    found = session(count=18, times="time")
    found.others = {"notes.txt": b"a note", "viz/000000.png": png(depth_map(0, (8, 8)))}
    entry, _, _ = convert(takeset, tmp_path, found)
    files = {name: data for name, data in found.files().items() if name not in found.others}
    roles = {
        "odometry.csv": "poses", "camera_matrix.csv": "calibration", "imu.csv": "imu", "rgb.mp4": "movie", "depth": "depth",
        "confidence": "confidence"
    }
    assert {i["path"]: i["role"] for i in entry["inputs"]} == {name: roles[name.split("/")[0]] for name in files}
    assert all(i["bytes"] == len(files[i["path"]]) and i["sha256"] == hashlib.sha256(files[i["path"]]).hexdigest() for i in entry["inputs"])
    assert entry["input_sha256"] == input_digest(files)
    assert entry["details"]["ignored"] == ["notes.txt", "viz/"]


# Order and time


def test_lines_are_put_in_the_order_of_their_frame(takeset, tmp_path):
    found = session(times="time")
    expected = found.nanoseconds()
    found.rows = [found.rows[i] for i in np.random.default_rng(2).permutation(20)]
    entry, demo, meta = convert(takeset, tmp_path, found)
    assert "poses-unsorted" in codes(entry, "info") and codes(entry, "warning", "error") == []
    assert meta["source_index"][:].tolist() == list(range(20)) == numbers(demo["obs/camera_image"][:])
    assert absolute(meta) == expected and (depth_of(demo) == maps(depth_map)).all()


def test_what_is_said_twice_is_said_once_and_of_two_that_differ_the_first_holds(takeset, tmp_path):
    found = session()
    found.rows.insert(5, dict(found.rows[4]))
    entry, _, meta = convert(takeset, tmp_path, found, name="same")
    assert codes(entry) == [] and meta["source_index"][:].tolist() == list(range(20))
    found.rows[5]["x"] = "9.0"
    root = tmp_path / "other"
    entry, demo, meta = convert(takeset, root, found, name="differ")
    assert finding(entry, "poses-duplicate")["count"] == 1 and meta["source_index"][:].tolist() == list(range(20))
    assert demo["obs/pose"][:, 0].max() < 1


@pytest.mark.parametrize("times", ["number", "time"])
def test_one_wild_time_costs_one_row(takeset, tmp_path, times):
    found = session(times=times)
    found.rows[8]["timestamp"] = decimal(START + 1000 * 10**9)
    entry, demo, meta = convert(takeset, tmp_path, found)
    rows = [n for n in range(20) if n != 8]
    assert "time-not-ascending" in codes(entry) and dropped(entry)["time-not-ascending"] == 1
    assert meta["source_index"][:].tolist() == rows == numbers(demo["obs/camera_image"][:])
    assert (depth_of(demo) == maps(depth_map)[rows]).all()


def test_times_of_which_more_than_a_fifth_do_not_ascend(takeset, tmp_path):
    found = session()
    for row in found.rows[10:]:
        row["timestamp"] = found.rows[3]["timestamp"]
    fails(takeset, tmp_path, found, "too-few-times", "odometry.csv")


# Poses


def test_poses_are_those_of_the_file_with_steady_signs(takeset, tmp_path):
    found = session()
    # A turn through a half circle, so that no rule for a single row keeps the signs.
    turned = Rotation.from_rotvec(np.outer(2.6 + 0.1 * np.arange(20), [0.6, 0.0, 0.8])).as_quat()
    turned *= np.random.default_rng(4).choice([-1, 1], 20)[:, None] * 1.004
    for row, quaternion in zip(found.rows, turned.tolist()):
        row.update(zip(OLD[5:], map(repr, quaternion)))
    found.rows[7]["y"] = "-3.5e-05"
    _, demo, _ = convert(takeset, tmp_path, found)
    pose = demo["obs/pose"][:].astype("f8")
    assert (pose[:, :3] == found.numbers("x", "y", "z").astype("f4")).all() and pose[7, 1] == np.float32(-3.5e-05)
    unit = turned / 1.004
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


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_pose_that_is_none_costs_its_row(takeset, tmp_path, name):
    found = session(times="number")
    for number in 0, 6:
        UNUSABLE[name](found.rows[number])
    entry, demo, meta = convert(takeset, tmp_path, found)
    rows = [n for n in range(20) if n not in (0, 6)]
    assert finding(entry, "pose-unusable")["count"] == 2 and dropped(entry) == {"pose-unusable": 2}
    assert meta["source_index"][:].tolist() == rows == numbers(demo["obs/camera_image"][:])
    assert absolute(meta) == [found.nanoseconds()[n] for n in rows] and meta["timestamp_ns"][0] == 0
    assert (meta["intrinsics"][:] == found.numbers("fx", "fy", "cx", "cy")[rows].astype("f4")).all()
    assert np.isfinite(demo["obs/pose"][:]).all()


@pytest.mark.parametrize("factor", [0.991, 1.009])
def test_a_quaternion_within_one_part_in_a_hundred_is_normalised(takeset, tmp_path, factor):
    found = session()
    scaled(factor)(found.rows[6])
    entry, demo, _ = convert(takeset, tmp_path, found)
    assert codes(entry) == [] and abs(np.linalg.norm(demo["obs/pose"][6, 3:].astype("f8")) - 1) < 1e-6


def test_more_than_a_fifth_of_unusable_poses_fail_the_take(takeset, tmp_path):
    found = session()
    for row in found.rows[:4]:
        row["x"] = "nan"
    entry, _, meta = convert(takeset, tmp_path / "fifth", found)
    assert len(meta["source_index"]) == 16 and dropped(entry) == {"pose-unusable": 4}
    found.rows[4]["x"] = "nan"
    fails(takeset, tmp_path, found, "too-few-poses", "odometry.csv", 5, 20)


# The movie


AT = periods(20, LONG)


def others(*gone):
    return [n for n in range(20) if n not in gone]


def film(gone=(), extra=()):
    """A movie in true time of the rows that are not gone, and of pictures 700, 701, … in periods of their own. And which it shows."""
    shown = sorted([(AT[n], n) for n in others(*gone)] + [(at, 700 + k) for k, at in enumerate(extra)])
    pictures = tuple(n for _, n in shown)
    return movie(tuple(10 * (at - shown[0][0]) for at, _ in shown), pictures), pictures


FILMS = {
    "one missing": ([8], []), "one missing beside a gap": ([6], []), "first missing": ([0], []), "last missing": ([19], []),
    "several missing": ([0, 1, 8, 14, 15], []), "one more in a gap": ([], [AT[11] + 1]), "one more before": ([], [-1]),
    "two more behind": ([], [AT[19] + 1, AT[19] + 2]), "one missing and one more": ([8], [AT[11] + 2]),
}


@pytest.mark.parametrize("name", FILMS)
def test_a_movie_in_true_time_is_paired_by_time(takeset, tmp_path, name):
    gone, extra = FILMS[name]
    found = session(times="time")
    found.video, shown = film(gone, extra)
    entry, demo, meta = convert(takeset, tmp_path, found)
    rows = others(*gone)
    assert entry["details"]["movie_pairing"] == "time"
    assert meta["source_index"][:].tolist() == rows == numbers(demo["obs/camera_image"][:])
    assert meta["streams/camera_image/source_index"][:].tolist() == [shown.index(n) for n in rows]
    assert np.abs(meta["streams/camera_image/dt_ns"][:]).max() <= 1e9 / 120
    expected = {"image-missing": len(gone), "pose-missing": len(extra)}
    assert dropped(entry) == {reason: count for reason, count in expected.items() if count}
    assert ("movie-count-mismatch" in codes(entry)) == (len(gone) != len(extra))
    assert (entry["steps"][0]["frames_in"], entry["steps"][0]["frames_out"]) == (20 + len(extra), len(rows))
    assert (depth_of(demo) == maps(depth_map)[rows]).all()


@pytest.mark.parametrize("samples, lost", [(17, {"image-missing": 3}), (22, {"pose-missing": 2}), (11, {"image-missing": 9})])
def test_a_movie_of_numbers_is_paired_by_number(takeset, tmp_path, samples, lost):
    found = session(times="number")
    found.video = movie(tuple(range(0, 10 * samples, 10)))
    entry, demo, meta = convert(takeset, tmp_path, found)
    rows = list(range(min(samples, 20)))
    assert entry["details"]["movie_pairing"] == "number" and dropped(entry) == lost
    assert meta["source_index"][:].tolist() == rows == numbers(demo["obs/camera_image"][:])
    message = finding(entry, "movie-count-mismatch")["message"]
    assert "20" in message and str(samples) in message


def test_lines_that_are_missing_do_not_shift_pictures(takeset, tmp_path):
    for times in "number", "time":
        found = session(times=times)
        found.rows = [row for row in found.rows if int(row["frame"]) not in (0, 9, 13)]
        entry, demo, meta = convert(takeset, tmp_path / times, found)
        rows = others(0, 9, 13)
        assert meta["source_index"][:].tolist() == rows == numbers(demo["obs/camera_image"][:]), times
        assert dropped(entry) == {"pose-missing": 3} and "movie-count-mismatch" in codes(entry)
        assert (depth_of(demo) == maps(depth_map)[rows]).all()


def test_a_steady_recording_needs_no_gaps_to_be_paired_by_time(takeset, tmp_path):
    entry, demo, meta = convert(takeset, tmp_path, session(times="time", long={}))
    assert entry["details"]["movie_pairing"] == "time" and bundles.codes(entry) == []
    assert meta["source_index"][:].tolist() == list(range(20)) == numbers(demo["obs/camera_image"][:]) and meta["gaps"].shape == (0, 2)


def test_pictures_are_in_the_order_they_are_shown(takeset, tmp_path):
    for times in "number", "time":
        entry, demo, _ = convert(takeset, tmp_path / times, session(times=times, b_frames=3))
        assert numbers(demo["obs/camera_image"][:]) == list(range(20)) and entry["details"]["movie_pairing"] == times


def test_fewer_than_half_of_the_pictures(takeset, tmp_path):
    found = session(times="number")
    found.video = movie(tuple(range(0, 90, 10)))
    fails(takeset, tmp_path, found, "too-few-images", 9, 20)


@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"no movie", lambda data: b""])
def test_a_movie_that_cannot_be_read_fails_its_take_alone(takeset, tmp_path, damage):
    found = session(times="time")
    found.video = damage(found.video)
    root = tmp_path / "in"
    found.write(root / "bad")
    session(depth_size=(8, 6)).write(root / "good")
    takeset.convert(root, output=tmp_path / "out", check=3)
    entry = take(tmp_path / "out", "bad")
    assert entry["outcome"] == "failed" and "rgb.mp4" in entry["reason"] and list(demos(tmp_path / "out")) == ["good"]


# Depth and confidence


@pytest.mark.parametrize("gone", [[5], [0], [19], [5, 6, 7, 8, 9, 10, 11, 12, 13], [0, 1, 2, 3, 4, 5]])
def test_a_missing_map_is_the_nearest_other_within_the_tolerance(takeset, tmp_path, gone):
    found = session()
    for number in gone:
        del found.depth[number]
    entry, demo, meta = convert(takeset, tmp_path, found)
    stamps = found.nanoseconds()
    expected = nearest_maps(stamps, others(*gone))
    stream = meta["streams/camera_depth"]
    assert finding(entry, "depth-missing")["count"] == len(gone) and len(meta["source_index"]) == 20
    assert stream["source_index"][:].tolist() == expected and stream["valid"][:].tolist() == [int(n >= 0) for n in expected]
    assert (-1 in expected) == (len(gone) > 1)
    for row, number in enumerate(expected):
        if number >= 0:
            assert stream["dt_ns"][row] == stamps[number] - stamps[row]
            assert (depth_of(demo)[row] == depth_map(number, (32, 24))).all()
            assert (confidence_of(demo)[row] == confidence_map(number, (32, 24))).all()
        else:
            assert not depth_of(demo)[row].any() and not demo["obs/camera_depth_valid"][row].any() and not confidence_of(demo)[row].any()
    confidence = meta["streams/camera_depth_confidence"]
    assert confidence["source_index"][:].tolist() == expected and confidence["valid"][:].tolist() == [int(n >= 0) for n in expected]


SMALL_MAP = depth_map(0, (16, 12))
BROKEN = {
    "cut": lambda data: data[: len(data) // 2], "checksum": wrong_crc, "empty": lambda data: b"", "text": lambda data: b"<html></html>",
    "8-bit": lambda data: png(depth_map(0, (32, 24)).astype(np.uint8)), "RGB": lambda data: png(np.zeros((24, 32, 3), np.uint8)),
    "size": lambda data: png(SMALL_MAP), "turned": lambda data: png(depth_map(0, (24, 32))), "flood": lambda data: flood(60000),
    "endless": lambda data: flood(2**31 - 1), "header only": lambda data: data[:33],
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_map_masks_its_row(takeset, tmp_path, name):
    found = session()
    for number in 3, 11:
        found.depth[number] = BROKEN[name](png(found.depth[number]))
    entry, demo, meta = convert(takeset, tmp_path, found)
    assert finding(entry, "depth-undecodable")["count"] == 2 and finding(entry, "depth-undecodable")["file"] == "depth/000003.png"
    valid = meta["streams/camera_depth/valid"][:]
    assert valid.tolist() == [int(n not in (3, 11)) for n in range(20)]
    expected = maps(depth_map) * valid[:, None, None]
    assert (depth_of(demo) == expected).all() and (demo["obs/camera_depth_valid"][..., 0] == (expected > 0)).all()
    assert codes(entry) == ["depth-undecodable"]


@pytest.mark.parametrize("name", ["text", "cut", "checksum"])
def test_a_broken_first_map_leaves_the_others(takeset, tmp_path, name):
    found = session()
    found.depth[0] = BROKEN[name](png(found.depth[0]))
    entry, demo, meta = convert(takeset, tmp_path, found)
    assert meta["streams/camera_depth/valid"][:].tolist() == [0] + [1] * 19 and finding(entry, "depth-undecodable")["count"] == 1
    assert (depth_of(demo)[1:] == maps(depth_map)[1:]).all()


def test_a_header_that_claims_a_flood_costs_no_memory(tmp_path):
    found = session()
    found.depth = {n: flood(60000) if n else data for n, data in found.depth.items()}
    found.confidence = {n: flood(60000) if n else data for n, data in found.confidence.items()}
    code, peak, seconds = measured(BINARY, "run", found.write(tmp_path / "capture"), "--output", tmp_path / "out")
    assert code in (0, 3) and peak < 300 << 20 and seconds < 20
    assert "depth-undecodable" in codes(record(tmp_path / "out"))


def test_depth_is_whole_millimetres_of_any_height(takeset, tmp_path):
    found = session()
    found.depth[4] = np.linspace(0, 65535, 32 * 24).astype(np.uint16).reshape(24, 32)
    found.depth[5] = np.zeros((24, 32), np.uint16)
    entry, demo, meta = convert(takeset, tmp_path, found)
    assert (depth_of(demo)[4] == found.depth[4]).all() and not depth_of(demo)[5].any()
    # A map without a distance is a map.
    assert meta["streams/camera_depth/valid"][:].all() and not demo["obs/camera_depth_valid"][5].any() and codes(entry) == []


BROKEN_CONFIDENCE = {
    "cut": BROKEN["cut"], "checksum": wrong_crc, "empty": BROKEN["empty"], "text": BROKEN["text"], "RGB": BROKEN["RGB"],
    "16-bit": lambda data: png(depth_map(0, (32, 24))), "size": lambda data: png(confidence_map(0, (16, 12))),
    "flood": BROKEN["flood"],
}


@pytest.mark.parametrize("name", ["missing", *BROKEN_CONFIDENCE])
def test_confidence_that_is_missing_or_broken_is_told_and_nothing_else_suffers(takeset, tmp_path, name):
    found = session()
    for number in 3, 11:
        data = found.confidence.pop(number)
        if name != "missing":
            found.confidence[number] = BROKEN_CONFIDENCE[name](png(data))
    entry, demo, meta = convert(takeset, tmp_path, found)
    code = "confidence-missing" if name == "missing" else "confidence-undecodable"
    assert codes(entry) == [code] and finding(entry, code)["count"] == 2
    valid = meta["streams/camera_depth_confidence/valid"][:]
    assert valid.tolist() == [int(n not in (3, 11)) for n in range(20)]
    assert (confidence_of(demo) == maps(confidence_map) * valid[:, None, None]).all()
    assert (depth_of(demo) == maps(depth_map)).all() and meta["streams/camera_depth/valid"][:].all()


def test_confidence_belongs_to_the_map_that_is_used(takeset, tmp_path):
    found = session()
    del found.depth[5], found.confidence[4]
    entry, demo, meta = convert(takeset, tmp_path, found)
    # Row 5 gets map 4, the nearer one, which has no confidence; map 5's own stays out.
    assert meta["streams/camera_depth/source_index"][5] == 4 and not confidence_of(demo)[4:6].any()
    assert meta["streams/camera_depth_confidence/valid"][:].tolist() == [int(n not in (4, 5)) for n in range(20)]
    assert {"depth-missing", "confidence-missing"} == set(codes(entry))


def test_confidence_beyond_its_range_is_none(takeset, tmp_path):
    found = session()
    found.confidence[6] = found.confidence[6].copy()
    found.confidence[6][2, 3:5] = [3, 255]
    entry, demo, meta = convert(takeset, tmp_path, found)
    assert codes(entry) == ["confidence-undecodable"] and not confidence_of(demo)[6].any() and (confidence_of(demo)[7] == found.confidence[7]).all()
    assert meta["streams/camera_depth_confidence/valid"][:].tolist() == [int(n != 6) for n in range(20)]


def test_a_recording_without_confidence_has_none(takeset, tmp_path):
    found = session()
    found.confidence = {}
    entry, demo, meta = convert(takeset, tmp_path, found)
    assert set(demo["obs"]) == {"pose", "camera_depth", "camera_depth_valid"} and codes(entry) == []
    assert set(meta["streams"]) == {"pose", "camera_depth"}


def test_one_confidence_map_is_enough_for_the_dataset(takeset, tmp_path):
    found = session()
    found.confidence = {7: found.confidence[7]}
    entry, demo, meta = convert(takeset, tmp_path, found)
    assert meta["streams/camera_depth_confidence/valid"][:].tolist() == [int(n == 7) for n in range(20)]
    assert (confidence_of(demo)[7] == found.confidence[7]).all() and finding(entry, "confidence-missing")["count"] == 19


# Intrinsics


def camera_info(demo, name="camera_image"):
    found = json.loads(demo.attrs["camera_info"])[name]
    (fx, a, cx), (b, fy, cy), last = found["intrinsics"]
    assert a == b == 0 and last == [0, 0, 1]
    return [fx, fy, cx, cy], (found["width"], found["height"])


@pytest.mark.parametrize("separator", [",", ", "])
def test_an_older_recording_has_one_camera_for_all_rows(takeset, tmp_path, separator):
    found = session(times="time", columns=OLD)
    found.camera = matrix_file(CAMERA, separator)
    entry, demo, meta = convert(takeset, tmp_path, found)
    assert (meta["intrinsics"][:] == np.float32(CAMERA)).all() and meta["intrinsics"].shape == (20, 4)
    assert np.allclose(meta["camera_depth_intrinsics"][:], np.array(CAMERA) / 5, rtol=1e-6)
    assert camera_info(demo) == (list(CAMERA), (160, 120))
    assert entry["details"]["cameras"]["camera_matrix.csv"] == dict(zip(("fx", "fy", "cx", "cy", "width", "height"), (*CAMERA, 160, 120)))


def test_cameras_of_single_rows_come_first_and_the_matrix_is_kept(takeset, tmp_path):
    found = session(times="time")
    entry, demo, meta = convert(takeset, tmp_path, found)
    each = found.numbers("fx", "fy", "cx", "cy")
    assert (meta["intrinsics"][:] == each.astype("f4")).all() and len(np.unique(meta["intrinsics"][:, 0])) == 20
    assert np.allclose(meta["camera_depth_intrinsics"][:], each / 5, rtol=1e-6)
    assert camera_info(demo)[0] == list(CAMERA)
    assert entry["details"]["cameras"]["camera_matrix.csv"]["fx"] == CAMERA[0]


def test_without_a_matrix_the_median_stands_for_it(takeset, tmp_path):
    found = session(count=21, times="time")
    found.camera = None
    entry, demo, meta = convert(takeset, tmp_path, found)
    each = found.numbers("fx", "fy", "cx", "cy")
    assert camera_info(demo)[0] == np.median(each, 0).tolist() and (meta["intrinsics"][:] == each.astype("f4")).all()
    assert "camera_matrix.csv" not in entry["details"].get("cameras", {}) and codes(entry) == []


def test_without_a_movie_cameras_are_of_the_full_picture(takeset, tmp_path):
    found = session(columns=OLD, depth_size=(256, 192), long={}, count=18)
    entry, demo, meta = convert(takeset, tmp_path, found)
    full = np.array(CAMERA) * 12
    assert np.allclose(meta["camera_depth_intrinsics"][:], full / 7.5, rtol=1e-6) and len(meta["camera_depth_intrinsics"]) == 18
    expected = dict(zip(("fx", "fy", "cx", "cy", "width", "height"), (*full.tolist(), 1920, 1440)))
    assert entry["details"]["cameras"]["camera_matrix.csv"] == expected
    assert np.allclose(camera_info(demo, "camera_depth")[0], full / 7.5, rtol=1e-6)


UNUSABLE_MATRICES = {
    "empty": b"", "text": b"no matrix", "zeros": b"\0" * 60, "four columns": b"1,0,0,0\n0,1,0,0\n0,0,1,0",
    "two rows": matrix_file(CAMERA).rpartition(b"\n")[0], "no focal length": matrix_file((0, *CAMERA[1:])),
    "negative": matrix_file((CAMERA[0], -5.0, *CAMERA[2:])), "not a number": matrix_file(("nan", *CAMERA[1:])),
    "infinite": matrix_file((*CAMERA[:2], "inf", CAMERA[3])), "word": matrix_file(("wide", *CAMERA[1:])),
}


@pytest.mark.parametrize("name", UNUSABLE_MATRICES)
def test_a_camera_matrix_that_cannot_be(takeset, tmp_path, name):
    old, new = session(times="time", columns=OLD), session(times="time")
    old.camera = new.camera = UNUSABLE_MATRICES[name]
    old.write(tmp_path / "in/old")
    new.write(tmp_path / "in/new")
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    found = demos(tmp_path / "out")
    assert all(codes(take(tmp_path / "out", n)) == ["intrinsics-unusable"] for n in ("old", "new"))
    demo, meta = found["old"]
    assert "intrinsics" not in meta and "camera_depth_intrinsics" not in meta and "camera_info" not in demo.attrs
    each = new.numbers("fx", "fy", "cx", "cy")
    assert (found["new"][1]["intrinsics"][:] == each.astype("f4")).all()


def test_nothing_is_invented_where_nothing_is_known(takeset, tmp_path):
    found = session(times="time", columns=OLD)
    found.camera = None
    entry, demo, meta = convert(takeset, tmp_path, found)
    assert "intrinsics" not in meta and "camera_depth_intrinsics" not in meta and "camera_info" not in demo.attrs and codes(entry) == []


# The IMU


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
    assert attributes == ("m/s^2", "rad/s", "device-uptime") and codes(entry) == []
    assert (meta["imu/accel"].dtype.str, meta["imu/accel"].shape) == ("<f4", (len(found.imu), 3))


def test_readings_that_are_no_numbers_are_left_out(takeset, tmp_path):
    found = session()
    whole = list(found.imu)
    no_time, no_number, infinite = ["nan", *whole[0][1:]], [*whole[5][:4], "soon", "1", "2"], [*whole[6][:3], "inf", "0", "0", "0"]
    found.imu = [*whole[:3], no_time, ["?", "?"], *whole[3:6], no_number, infinite, *whole[6:], whole[-1][:4]]
    entry, _, meta = convert(takeset, tmp_path, found)
    stamps, values = imu_of(meta)
    assert stamps == [round(Fraction(row[0]) * 10**9) for row in whole] and np.isfinite(values).all()
    assert codes(entry) == ["imu-unusable"] and finding(entry, "imu-unusable")["count"] == 5


def test_no_imu_is_no_group(takeset, tmp_path):
    found = session()
    found.imu = None
    entry, _, meta = convert(takeset, tmp_path, found)
    assert "imu" not in meta and codes(entry) == []


# odometry.csv


FORMS = {
    "as written": {}, "no spaces": dict(separator=","), "CRLF": dict(newline="\r\n"), "mark": dict(mark="\ufeff"),
    "mark and CRLF": dict(mark="\ufeff", newline="\r\n", separator=","), "numbers without zeros": dict(padded=False),
    "no newline at the end": dict(last_newline=False), "header without blanks": dict(blank_header=False), "one blank": dict(blanks=[""]),
}


def test_every_form_of_the_table_gives_the_same_rows(takeset, tmp_path):
    for columns, age in (OLD, "old"), (NEW, "new"):
        for name, form in FORMS.items():
            # Whether the last field of a line without an end is whole shows only behind other columns.
            if age == "old" and name == "no newline at the end":
                continue
            found = session(columns=columns)
            found.odometry = found.table(**form)
            found.write(tmp_path / "in" / f"{age} {name}")
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    entries = manifest(tmp_path / "out")["record"]["takes"]
    assert len(entries) == 2 * len(FORMS) - 1
    digests = {"old": set(), "new": set()}
    for entry in entries:
        assert entry["outcome"] == "written" and codes(entry) == [], (entry["id"], entry["reason"], codes(entry))
        digests[entry["id"][:3]].add(json.dumps(sorted((d["path"], d["sha256"]) for d in entry["output"]["datasets"])))
    assert {age: len(found) for age, found in digests.items()} == {"old": 1, "new": 1}


def test_columns_go_by_their_names(takeset, tmp_path):
    found = session()
    found.columns = ("frame", "timestamp", *NEW[9:], *NEW[2:9])
    entry, demo, meta = convert(takeset, tmp_path, found)
    assert absolute(meta) == found.nanoseconds() and (demo["obs/pose"][:, :3] == found.numbers("x", "y", "z").astype("f4")).all()
    assert (depth_of(demo) == maps(depth_map)).all() and codes(entry) == []


@pytest.mark.parametrize("columns", [OLD, NEW])
def test_a_last_line_that_is_cut_short_is_left_out_wherever_it_is_cut(takeset, tmp_path, columns):
    found = session(columns=columns, depth_size=(8, 6))
    found.depth, found.confidence, found.imu = {0: found.depth[0]}, {}, None
    whole = found.table()
    line = whole.rindex(b"\n", 0, -1) + 1
    end = whole.rindex(found.rows[-1][columns[-1]].encode())
    for cut in range(line + 1, end, 3):
        found.odometry = whole[:cut]
        found.write(tmp_path / "in" / f"cut-{cut:04d}")
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    entries = manifest(tmp_path / "out")["record"]["takes"]
    assert len(entries) > 30 and all(entry["outcome"] == "written" for entry in entries)
    used = {int(entry["id"][4:]): whole[line : int(entry["id"][4:])] for entry in entries if entry["output"]["samples"] != 19}
    assert not used, f"lines that were used though they are cut: {used}"
    assert all(finding(entry, "odometry-truncated")["file"] == "odometry.csv" for entry in entries)


def test_a_cut_line_takes_its_picture_and_depth_along(takeset, tmp_path):
    found = session(times="number")
    found.odometry = found.table()[:-60]
    entry, demo, meta = convert(takeset, tmp_path, found)
    assert meta["source_index"][:].tolist() == list(range(19)) == numbers(demo["obs/camera_image"][:])
    assert dropped(entry).get("pose-missing") == 1 and "odometry-truncated" in codes(entry)


BAD_FIELDS = {
    "timestamp": ["soon", "", "nan", "1e30"], "frame": ["-1", "1.5", "seven", "", "99999999999999999999"], "x": ["far"], "y": [""],
    "z": ["0x10"], "qx": ["0.1.2"], "qy": ["--1"], "qz": ["1 2"], "qw": ['"1"x'], "fx": ["wide"], "cy": ["60.25px"],
}


def test_a_bad_field_fails_the_take_by_line_and_column(takeset, tmp_path):
    cases = [(column, text) for column, texts in BAD_FIELDS.items() for text in texts]
    for index, (column, text) in enumerate(cases):
        found = session(depth_size=(8, 6))
        found.rows[6][column] = text
        found.write(tmp_path / "in" / f"bad-{index:02d}")
    session(depth_size=(8, 6)).write(tmp_path / "in/good")
    done = takeset.convert(tmp_path / "in", output=tmp_path / "out", check=3)
    entries = [take(tmp_path / "out", f"bad-{index:02d}") for index in range(len(cases))]
    accepted = [case for case, entry in zip(cases, entries) if entry["outcome"] != "failed"]
    assert not accepted, f"taken for values: {accepted}"
    for (column, _), entry in zip(cases, entries):
        failed_with(entry, "csv-invalid", "odometry.csv", "line 8")
        assert re.search(rf"\b{column}\b", entry["reason"]), entry["reason"]
        assert entry["reason"] in done.stderr
    assert list(demos(tmp_path / "out")) == ["good"]


@pytest.mark.parametrize("line", [b"258528.5, 000006, 0.1, 0.2", b"<html>", b"258528.5; 000006; 0; 0; 0; 0; 0; 0; 1"])
def test_a_line_of_other_columns_fails_the_take(takeset, tmp_path, line):
    found = session(columns=OLD)
    lines = found.table().split(b"\n")
    lines[7] = line
    found.odometry = b"\n".join(lines)
    fails(takeset, tmp_path, found, "csv-invalid", "odometry.csv", "line 8")


HEADERS = {
    "semicolons": ("; ".join(OLD), None), "no time": (", ".join(OLD[1:]), "timestamp"), "no qw": (", ".join(OLD[:-1]), "qw"),
    "no frame": (", ".join([OLD[0], *OLD[2:]]), "frame"), "other": ("a, b, c", None), "none": (None, None), "binary": ("\0\1\2", None),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_without_the_columns_fails_the_take(takeset, tmp_path, name):
    header, missing = HEADERS[name]
    found = session(columns=OLD)
    lines = found.table().split(b"\n")[1:]
    found.odometry = b"\n".join(([header.encode()] if header else []) + lines)
    fails(takeset, tmp_path, found, "csv-invalid", "odometry.csv", *([missing] if missing else []))


@pytest.mark.parametrize("columns", [OLD, NEW])
def test_a_table_without_rows(takeset, tmp_path, columns):
    found = session(columns=columns)
    found.rows = []
    fails(takeset, tmp_path, found, "no-frames", "odometry.csv")


def test_an_empty_table_fails_with_a_reason(takeset, tmp_path):
    found = session()
    found.write(tmp_path / "capture")
    (tmp_path / "capture/odometry.csv").write_bytes(b"")
    takeset.convert(tmp_path / "capture", output=tmp_path / "out", check=3)
    entry = record(tmp_path / "out")
    assert entry["findings"][-1]["code"] in ("csv-invalid", "no-frames") and "odometry.csv" in entry["reason"]


@pytest.mark.parametrize("name", ["odometry.csv", "imu.csv"])
def test_a_table_over_the_limit_is_refused_by_its_size(takeset, tmp_path, name):
    session().write(tmp_path / "capture")
    os.truncate(tmp_path / "capture" / name, (64 << 20) + 1)
    takeset.convert(tmp_path / "capture", output=tmp_path / "out", check=3)
    failed_with(record(tmp_path / "out"), "input-too-large", name)


def test_links_are_not_followed(takeset, tmp_path):
    directory = session().write(tmp_path / "capture")
    (directory / "depth/000003.png").rename(tmp_path / "elsewhere")
    (directory / "depth/000003.png").symlink_to(tmp_path / "elsewhere")
    takeset.convert(directory, output=tmp_path / "out", check=3)
    failed_with(record(tmp_path / "out"), "not-a-regular-file", "depth/000003.png")


# Archives


def test_an_archive_gives_what_its_folder_gives(takeset, tmp_path):
    found = session(times="time")
    found.write(tmp_path / "in/folder")
    paths = [
        found.zip(tmp_path / "in/a.zip"), found.zip(tmp_path / "in/b.zip", "c0ffee/"), found.tar(tmp_path / "in/c.tar"),
        found.tar(tmp_path / "in/d.tar", "c0ffee/")
    ]
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    takes = {t["id"]: t for t in manifest(tmp_path / "out")["record"]["takes"]}
    assert list(takes) == ["a", "b", "c", "d", "folder"] and all(t["reader"] == "stray-scanner" for t in takes.values())

    def digests(entry):
        return {d["path"]: d["sha256"] for d in entry["output"]["datasets"]}

    for path in paths:
        entry = takes[path.stem]
        assert entry["outcome"] == "written" and codes(entry) == [] and entry["variant"] == "rgbd"
        assert digests(entry) == digests(takes["folder"])
        (only_input,) = entry["inputs"]
        data = path.read_bytes()
        assert only_input == {"path": path.name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "role": "archive"}


def test_oddities_are_the_same_in_an_archive(takeset, tmp_path):
    found = session(times="number")
    del found.depth[5]
    found.depth[9] = wrong_crc(png(found.depth[9]))
    found.confidence[2] = b""
    found.rows[14]["qw"] = "nan"
    found.write(tmp_path / "in/folder")
    found.zip(tmp_path / "in/packed.zip", "0123abcd/")
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    folder, packed = take(tmp_path / "out", "folder"), take(tmp_path / "out", "packed")
    keys = "code", "severity", "file", "count"
    assert [[f.get(k) for k in keys] for f in folder["findings"]] == [[f.get(k) for k in keys] for f in packed["findings"]]
    assert set(codes(folder)) == {"depth-missing", "depth-undecodable", "confidence-undecodable", "pose-unusable"}
    assert dropped(folder) == dropped(packed) == {"pose-unusable": 1}


# The whole pipeline


def test_large_pictures_are_made_smaller_and_cameras_follow(takeset, tmp_path):
    found = session(count=18, times="time", size=(800, 600))
    entry, demo, meta = convert(takeset, tmp_path, found)
    assert demo["obs/camera_image"].shape == (18, 240, 320, 3) and demo["obs/camera_depth"].shape == (18, 24, 32, 1)
    assert numbers(demo["obs/camera_image"][:]) == list(range(18))
    each = found.numbers("fx", "fy", "cx", "cy")
    assert np.allclose(meta["intrinsics"][:], each * 0.4, rtol=1e-6)
    assert np.allclose(meta["camera_depth_intrinsics"][:], each / 25, rtol=1e-6)
    assert np.allclose(camera_info(demo)[0], np.array(CAMERA) * 2, rtol=1e-6) and camera_info(demo)[1] == (320, 240)
    assert entry["details"]["cameras"]["camera_matrix.csv"]["width"] == 800


def test_depth_and_confidence_are_resampled_alike(takeset, tmp_path):
    found = session(times="time")
    _, demo, meta = convert(takeset, tmp_path, found, pipeline(tmp_path, resample_depth={"width": 20, "height": 48}))
    rows, columns = ((np.arange(48) + 0.5) * 24 / 48).astype(int), ((np.arange(20) + 0.5) * 32 / 20).astype(int)
    assert (depth_of(demo) == maps(depth_map)[:, rows][:, :, columns]).all()
    assert (confidence_of(demo) == maps(confidence_map)[:, rows][:, :, columns]).all()
    assert (demo["obs/camera_depth_valid"][:] == (demo["obs/camera_depth"][:] > 0)).all()
    scale = np.array([20 / 160, 48 / 120, 20 / 160, 48 / 120])
    assert np.allclose(meta["camera_depth_intrinsics"][:], found.numbers("fx", "fy", "cx", "cy") * scale, rtol=1e-6)
    assert (meta["intrinsics"][:] == found.numbers("fx", "fy", "cx", "cy").astype("f4")).all()


def test_decimating_keeps_each_rows_own_things(takeset, tmp_path):
    found = session(times="time")
    _, demo, meta = convert(takeset, tmp_path, found, pipeline(tmp_path, decimate={"every": 3}))
    rows = list(range(0, 20, 3))
    assert meta["source_index"][:].tolist() == rows == numbers(demo["obs/camera_image"][:])
    assert absolute(meta) == [found.nanoseconds()[n] for n in rows]
    assert (depth_of(demo) == maps(depth_map)[rows]).all() and (confidence_of(demo) == maps(confidence_map)[rows]).all()
    assert (meta["intrinsics"][:] == found.numbers("fx", "fy", "cx", "cy")[rows].astype("f4")).all()
    assert (demo["obs/pose"][:, :3] == found.numbers("x", "y", "z")[rows].astype("f4")).all()
    assert len(meta["imu/timestamp_ns"]) == len(found.imu)


def test_frames_without_depth_can_be_dropped(takeset, tmp_path):
    found = session(times="time")
    gone = list(range(5, 14))
    for number in gone:
        del found.depth[number]
    masked = [row for row, number in enumerate(nearest_maps(found.nanoseconds(), others(*gone))) if number < 0]
    entry, demo, meta = convert(takeset, tmp_path, found, pipeline(tmp_path, drop_frames={"with": ["depth-missing"]}))
    rows = others(*masked)
    assert masked and meta["source_index"][:].tolist() == rows == numbers(demo["obs/camera_image"][:])
    assert dropped(entry, 2) == {"depth-missing": len(masked)} and demo["obs/camera_depth_valid"][:].any((1, 2, 3)).all()
    assert (meta["intrinsics"][:] == found.numbers("fx", "fy", "cx", "cy")[rows].astype("f4")).all()


def test_stretches_between_gaps_are_numbered(takeset, tmp_path):
    _, _, meta = convert(takeset, tmp_path, session(times="time"), pipeline(tmp_path, split_at_gaps={}))
    assert meta["segment"][:].tolist() == [0] * 6 + [1] * 6 + [2] * 8


def test_statistics_are_in_millimetres_over_what_is_valid(takeset, tmp_path):
    found = session(times="time")
    found.depth[9] = found.confidence[4] = found.confidence[9] = b""
    convert(takeset, tmp_path, found)
    depth, confidence = maps(depth_map)[others(9)], maps(confidence_map)[others(4, 9)]
    expected = {"camera_depth": depth[depth > 0].astype("f8"), "camera_depth_confidence": confidence.ravel().astype("f8")}
    with h5py.File(tmp_path / "out/dataset.h5") as f:
        assert set(f["stats"]) == {"pose", "camera_image", "camera_depth", "camera_depth_confidence"}
        for key, values in expected.items():
            stats = {name: data[0] for name, data in f["stats"][key].items()}
            assert (stats["count"], stats["min"], stats["max"]) == (len(values), values.min(), values.max()), key
            assert stats["mean"] == pytest.approx(values.mean(), rel=1e-9) and stats["std"] == pytest.approx(values.std(), rel=1e-6), key
            for q, name in (0.01, "q01"), (0.99, "q99"):
                assert stats[name] == pytest.approx(np.quantile(values, q), rel=2**-11, abs=1e-6), (key, name)


def everything_odd():
    found = session(times="time")
    found.video, _ = film([8])
    del found.depth[5]
    found.depth[9] = wrong_crc(png(found.depth[9]))
    found.depth[10] = BROKEN["8-bit"](b"")
    del found.confidence[1]
    found.confidence[2] = b""
    found.confidence[3] = np.full((24, 32), 9, np.uint8)
    found.rows[14]["qw"] = "nan"
    found.imu[2][3] = "?"
    found.camera = b"?"
    found.odometry = found.table()[:-70]
    return found


def test_inspect_tells_what_a_run_finds_and_writes_nothing(takeset, tmp_path):
    directory = everything_odd().write(tmp_path / "capture")
    before = {p: p.read_bytes() for p in directory.rglob("*") if p.is_file()}
    (told,) = json.loads(takeset("inspect", directory, "--json", check=0).stdout)["takes"]
    entry, _, _ = converted(takeset, directory)
    assert set(codes(entry)) >= {
        "depth-missing", "depth-undecodable", "confidence-missing", "confidence-undecodable", "pose-unusable",
        "imu-unusable", "intrinsics-unusable", "odometry-truncated"
    }
    assert {(f["code"], f.get("count")) for f in told["findings"]} == {(f["code"], f.get("count")) for f in entry["findings"]}
    assert (told["reader"], told["variant"], told["would_be"]) == ("stray-scanner", "rgbd", "written")
    assert told["frames"] == entry["output"]["samples"]
    assert {p: p.read_bytes() for p in directory.rglob("*") if p.is_file()} == before


def test_every_finding_is_in_the_documents(takeset, tmp_path):
    entry, _, _ = convert(takeset, tmp_path, everything_odd())
    listed = set(re.findall(r"^\| `([a-z0-9-]+)` \|", (ROOT / "docs/findings.md").read_text(), re.M))
    assert set(bundles.codes(entry)) <= listed
    assert {"confidence-missing", "confidence-undecodable", "odometry-truncated", "csv-invalid"} <= listed


def test_the_manifest_fits_its_schema(takeset, tmp_path):
    everything_odd().write(tmp_path / "in/odd")
    session().write(tmp_path / "in/depth")
    bad = session()
    bad.rows[3]["x"] = "?"
    bad.write(tmp_path / "in/bad")
    session(times="time").zip(tmp_path / "in/packed.zip")
    takeset.convert(tmp_path / "in", output=tmp_path / "out", check=3)
    document = manifest(tmp_path / "out")
    validator("manifest.schema.json").validate(document)
    totals = document["record"]["totals"]
    assert totals["frames_in"] == totals["frames_out"] + totals["frames_dropped"] and (totals["written"], totals["failed"]) == (3, 1)


def test_a_plan_is_what_a_run_writes(takeset, tmp_path):
    root = tmp_path / "in"
    session(times="time").write(root / "both")
    session(columns=OLD).write(root / "depth")
    session(count=18, times="number", size=(800, 600), maps=False).write(root / "movie")
    everything_odd().write(root / "odd")
    takeset.convert(root, output=tmp_path / "out")
    plan = {t["id"]: t for t in json.loads(takeset("plan", root, "--json", check=0).stdout)["takes"]}
    for entry in manifest(tmp_path / "out")["record"]["takes"]:
        planned = plan[entry["id"]]
        assert entry["reader"] == "stray-scanner"
        assert planned["frames"] == entry["output"]["samples"]
        assert layout(planned) == layout(entry["output"], without=STATISTICS)
        assert STATISTICS in [d["path"] for d in entry["output"]["datasets"]]


def test_verify_names_what_changed(takeset, tmp_path):
    convert(takeset, tmp_path, session(times="time"))
    takeset("verify", tmp_path / "out", "--inputs", check=0)
    assert "nothing to do" in takeset.convert(tmp_path / "capture", output=tmp_path / "out").stdout
    (tmp_path / "capture/confidence/000004.png").write_bytes(png(confidence_map(5, (32, 24))))
    assert "confidence/000004.png" in takeset("verify", tmp_path / "out", "--inputs", check=2).stdout
    takeset.convert(tmp_path / "capture", output=tmp_path / "out")
    assert (confidence_of(only(tmp_path / "out")[1])[4] == confidence_map(5, (32, 24))).all()


def test_jobs_make_no_difference(takeset, tmp_path):
    everything_odd().write(tmp_path / "in/odd")
    session(times="number", codec="hevc").write(tmp_path / "in/numbered")
    session().zip(tmp_path / "in/packed.zip")
    assert same_for_all_jobs(takeset, tmp_path / "in") == 3


def test_the_reader_can_be_named(takeset, tmp_path):
    entry, _, _ = convert(takeset, tmp_path, session(), pipeline(tmp_path, reader={"name": "stray-scanner"}))
    assert entry["outcome"] == "written"
    assert "stray-scanner (reader)" in takeset("steps", "stray-scanner", check=0).stdout


# Simulated recordings


SIMULATED = ["--size", "160x120", "--depth-size", "64x48", "--rate", 30]


@pytest.fixture(scope="module")
def simulated(takeset, tmp_path_factory):
    root = tmp_path_factory.mktemp("simulated")
    for name, options in ("both", []), ("depth", ["--no-movie"]), ("old", ["--old-csv"]):
        takeset("simulate", "stray-scanner", "--output", root / "in" / name, *SIMULATED, "--seconds", 1, "--seed", 4, *options, check=0)
    takeset.convert(root / "in", output=root / "out")
    return root


def table(path):
    header, *lines = path.read_text().splitlines()
    return [c.strip() for c in header.split(",")], [[f.strip() for f in line.split(",")] for line in lines]


@pytest.mark.parametrize("name", ["both", "depth", "old"])
def test_a_simulation_has_the_form_of_a_recording(simulated, name):
    source = simulated / "in" / name
    columns, rows = table(source / "odometry.csv")
    expected = [*OLD] if name == "old" else [*NEW, "", ""]
    assert columns == expected and len(rows) == 30 and all(len(row) == len(expected) for row in rows)
    assert [row[1] for row in rows] == [f"{n:06d}" for n in range(30)] and b", " in (source / "odometry.csv").read_bytes()
    assert (source / "rgb.mp4").exists() == (name != "depth")
    for folder, bits in ("depth", 16), ("confidence", 8):
        assert sorted(p.name for p in (source / folder).iterdir()) == [f"{n:06d}.png" for n in range(30)]
        assert np.array(Image.open(source / folder / "000007.png")).shape == (48, 64)
        assert (source / folder / "000007.png").read_bytes()[24:26] == bytes([bits, 0])  # of the header: bit depth, grey
    assert set(np.unique(np.array(Image.open(source / "confidence/000007.png")))) <= {0, 1, 2}
    matrix = (source / "camera_matrix.csv").read_bytes()
    assert not matrix.endswith(b"\n") and [len(line.split(b",")) for line in matrix.split(b"\n")] == [3, 3, 3]
    stamps = [float(row[0]) for row in table(source / "imu.csv")[1]]
    assert len(table(source / "imu.csv")[0]) == 7 and np.diff(stamps).mean() == pytest.approx(0.01, rel=0.05)


@pytest.mark.parametrize("name", ["both", "depth", "old"])
def test_a_simulation_converts_cleanly_to_what_it_holds(simulated, name):
    source, entry = simulated / "in" / name, take(simulated / "out", name)
    demo, meta = demos(simulated / "out")[name]
    columns, rows = table(source / "odometry.csv")
    column = {c: [row[i] for row in rows] for i, c in enumerate(columns) if c}
    assert entry["reader"] == "stray-scanner" and entry["variant"] == ("depth-only" if name == "depth" else "rgbd") and codes(entry) == []
    assert meta["source_index"][:].tolist() == list(range(30))
    assert absolute(meta) == [round(Fraction(t) * 10**9) for t in column["timestamp"]]
    assert (demo["obs/pose"][:, :3] == np.array([[float(v) for v in column[c]] for c in "xyz"]).T.astype("f4")).all()
    for obs, folder in ("camera_depth", "depth"), ("camera_depth_confidence", "confidence"):
        expected = np.stack([np.array(Image.open(source / folder / f"{n:06d}.png")) for n in range(30)])
        assert (demo["obs"][obs][..., 0] == expected).all()
    if name != "depth":
        assert numbers(demo["obs/camera_image"][:]) == list(range(30))
    # Rows of their own where the newer form has them.
    assert (len(np.unique(meta["camera_depth_intrinsics"][:], axis=0)) == 1) or name != "old"


def test_simulated_depth_poses_and_camera_describe_one_room(simulated):
    """Points seen by the first frame are where the last one measures them; with other axes they are not."""
    demo, meta = demos(simulated / "out")["both"]
    depth, pose = depth_of(demo) / 1000, demo["obs/pose"][:].astype("f8")
    cameras = meta["camera_depth_intrinsics"][:].astype("f8")
    v, u = np.mgrid[0:48, 0:64]

    def error(axes):
        (fx, fy, cx, cy), (gx, gy, hx, hy) = cameras[0], cameras[-1]
        rays = np.stack([(u + 0.5 - cx) / fx, (v + 0.5 - cy) / fy, np.ones(u.shape)], -1) * depth[0][..., None]
        world = Rotation.from_quat(pose[0, 3:]).apply(rays.reshape(-1, 3) * axes) + pose[0, :3]
        x, y, z = (Rotation.from_quat(pose[-1, 3:]).inv().apply(world - pose[-1, :3]) * axes).T
        column, row = x / z * gx + hx - 0.5, y / z * gy + hy - 0.5
        inside = (z > 0) & (column > 0) & (column < 63) & (row > 0) & (row < 47)
        there = map_coordinates(depth[-1], [row[inside], column[inside]], order=1)
        return np.median(np.abs(there - z[inside])) if inside.sum() > 300 else np.inf

    right = error([1, 1, 1])
    assert right < 0.01 and error([1, -1, -1]) > 10 * right


def test_the_same_seed_simulates_the_same_bytes(takeset, tmp_path):
    def made(name, seed):
        takeset("simulate", "stray-scanner", "--output", tmp_path / name, *SIMULATED, "--seconds", 0.3, "--seed", seed, check=0)
        return {p.relative_to(tmp_path / name).as_posix(): p.read_bytes() for p in (tmp_path / name).rglob("*") if p.is_file()}

    first, again, other = made("a", 5), made("b", 5), made("c", 6)
    assert first == again and first["odometry.csv"] != other["odometry.csv"] and len(first["rgb.mp4"]) > 1000
