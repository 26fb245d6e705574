"""Stray Scanner: transforms, statistics, and the commands over scans."""

import json

import h5py
import numpy as np
import pytest
from conversions import converted, pipeline, same_for_all_jobs
from images import numbers
from outputs import dropped, manifest
from scan_checks import (
    absolute, camera_info, confidence_of, convert, depth_of, every_problem, maps, nearest_maps, others, scan_codes,
)
from scans import CAMERA, OLD, confidence_map, depth_map, session
from schemas import STATISTICS, layout, validator


def test_large_images_are_downscaled_and_cameras_follow(takeset, tmp_path):
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
    assert dropped(entry) == {"depth-missing": len(masked)} and demo["obs/camera_depth_valid"][:].any((1, 2, 3)).all()
    assert (meta["intrinsics"][:] == found.numbers("fx", "fy", "cx", "cy")[rows].astype("f4")).all()


def test_statistics_are_in_millimeters_over_what_is_valid(takeset, tmp_path):
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


# The commands


def test_inspect_reports_what_a_run_finds_and_writes_nothing(takeset, tmp_path):
    directory = every_problem().write(tmp_path / "capture")
    before = {p: p.read_bytes() for p in directory.rglob("*") if p.is_file()}
    (reported,) = json.loads(takeset("inspect", directory, "--json", check=0).stdout)["takes"]
    entry, _, _ = converted(takeset, directory)
    assert set(scan_codes(entry)) >= {
        "depth-missing", "depth-undecodable", "confidence-missing", "confidence-undecodable", "pose-unusable",
        "imu-unusable", "intrinsics-unusable", "odometry-truncated"
    }
    assert {(f["code"], f.get("count")) for f in reported["findings"]} == {(f["code"], f.get("count")) for f in entry["findings"]}
    assert (reported["reader"], reported["variant"], reported["would_be"]) == ("stray-scanner", "rgbd", "written")
    assert reported["frames"] == entry["output"]["samples"]
    assert {p: p.read_bytes() for p in directory.rglob("*") if p.is_file()} == before


def test_a_plan_is_what_a_run_writes_and_the_manifest_fits_its_schema(takeset, tmp_path):
    root = tmp_path / "in"
    session(times="time").write(root / "both")
    session(columns=OLD).write(root / "depth")
    session(count=18, times="number", size=(800, 600), maps=False).write(root / "movie")
    every_problem().write(root / "odd")
    session(times="time").zip(root / "packed.zip")
    takeset.convert(root, output=tmp_path / "out")
    document = manifest(tmp_path / "out")
    validator("manifest.schema.json").validate(document)
    totals = document["record"]["totals"]
    assert totals["frames_in"] == totals["frames_out"] + totals["frames_dropped"] and totals["written"] == 5
    plan = {t["id"]: t for t in json.loads(takeset("plan", root, "--json", check=0).stdout)["takes"]}
    for entry in document["record"]["takes"]:
        planned = plan[entry["id"]]
        assert entry["reader"] == "stray-scanner"
        assert planned["frames"] == entry["output"]["samples"]
        assert layout(planned) == layout(entry["output"], without=STATISTICS)
        assert STATISTICS in [d["path"] for d in entry["output"]["datasets"]]


def test_jobs_make_no_difference(takeset, tmp_path):
    every_problem().write(tmp_path / "in/odd")
    session(times="number", codec="hevc").write(tmp_path / "in/numbered")
    session().zip(tmp_path / "in/packed.zip")
    assert same_for_all_jobs(takeset, tmp_path / "in") == 3
