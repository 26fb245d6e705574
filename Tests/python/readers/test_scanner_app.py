"""Scans of the 3D Scanner App."""

import json
import shutil

import numpy as np
import pytest
from images import frame_code
from outputs import codes, finding, traces
from phone_takes import absolute, converted, matrices, problem, truth
from PIL import Image
from system import share

EVERY = 6


def simulated(takeset, output, *arguments):
    takeset("simulate", "3d-scanner-app", "--seconds", 2, "--size", "96x72", "--depth-size", "64x48", "--output", output, *arguments, check=0)
    return output


@pytest.fixture(scope="module")
def scan(takeset, tmp_path_factory):
    return simulated(takeset, tmp_path_factory.mktemp("scanner") / "scan_1")


def test_rows_are_images_and_depth_is_that_of_their_number(takeset, scan, tmp_path):
    entry, demo, meta = converted(takeset, tmp_path, scan)
    expected, times = truth(scan)
    rows = np.arange(0, len(expected), EVERY)
    assert entry["reader"] == "3d-scanner-app" and meta["source_index"][:].tolist() == rows.tolist()
    assert np.abs(matrices(demo["obs/pose"][:]) - expected[rows]).max() < 1e-5
    assert [frame_code(image) for image in demo["obs/camera_image"][:]] == rows.tolist()
    seconds = [json.loads((scan / f"frame_{row:05}.json").read_text())["time"] for row in rows]
    assert np.abs(absolute(meta) / 1e9 - seconds).max() < 1e-4 and meta["timestamp_ns"].attrs["clock"] == "device-uptime"
    assert np.array_equal(meta["timestamp_ns"][:], times[rows] - times[0])
    for row, number in enumerate(rows):
        stored = np.asarray(Image.open(scan / f"depth_{number:05}.png"))
        assert np.array_equal(demo["obs/camera_depth"][row, ..., 0], stored) and stored.any()
        assert np.array_equal(demo["obs/camera_depth_confidence"][row, ..., 0], np.asarray(Image.open(scan / f"conf_{number:05}.png")))
        k = json.loads((scan / f"frame_{number:05}.json").read_text())["intrinsics"]
        assert meta["intrinsics"][row].tolist() == pytest.approx([k[0], k[4], k[2], k[5]], rel=1e-6)
    # Maps of moments without an image are no orphans, and their poses miss nothing.
    assert not {"depth-orphaned", "image-missing"} & set(codes(entry))


def test_places_are_not_read(takeset, scan, tmp_path):
    converted(takeset, tmp_path, scan)
    assert traces(tmp_path / "out", "latitude", "47.4") == []


def test_an_image_without_its_json_has_no_row(takeset, tmp_path):
    source = simulated(takeset, tmp_path / "in", "--quirk", "missing-json")
    entry, demo, meta = converted(takeset, tmp_path, source)
    assert EVERY not in meta["source_index"][:] and finding(entry, "pose-missing")["count"] == 1
    assert finding(entry, "depth-orphaned")["count"] == 1
    assert np.abs(matrices(demo["obs/pose"][:]) - truth(source)[0][meta["source_index"][:]]).max() < 1e-5


def test_a_damaged_json_costs_its_row(takeset, tmp_path):
    source = simulated(takeset, tmp_path / "in", "--quirk", "truncated-json")
    entry, _, meta = converted(takeset, tmp_path, source)
    found = [f for f in entry["findings"] if f["code"] == "pose-unusable" and f.get("file") == f"frame_{2 * EVERY:05}.json"]
    assert len(found) == 1 and 2 * EVERY not in meta["source_index"][:] and len(meta["source_index"]) == 9


def test_a_scan_without_depth_has_images_and_poses(takeset, tmp_path):
    source = simulated(takeset, tmp_path / "in", "--quirk", "no-depth")
    _, demo, _ = converted(takeset, tmp_path, source)
    assert set(demo["obs"]) >= {"pose", "camera_image"} and "camera_depth" not in demo["obs"]


def test_a_missing_image_is_no_row(takeset, scan, tmp_path):
    source = shutil.copytree(scan, tmp_path / "scan")
    (source / f"frame_{3 * EVERY:05}.jpg").unlink()
    _, demo, meta = converted(takeset, tmp_path, source)
    assert 3 * EVERY not in meta["source_index"][:] and [frame_code(image) for image in demo["obs/camera_image"][:]] == meta["source_index"][:].tolist()


@pytest.mark.parametrize("change, code", [
    (lambda m: m.pop("cameraPoseARFrame"), "too-few-poses"), (lambda m: m.update(cameraPoseARFrame=[1] * 16), "too-few-poses"), (lambda m: m.pop("time"), "too-few-times"),
])
def test_scans_without_poses_or_times_fail_with_a_sentence(takeset, scan, tmp_path, change, code):
    source = shutil.copytree(scan, tmp_path / "scan")
    for path in source.glob("frame_*.json"):
        members = json.loads(path.read_text())
        change(members)
        path.write_text(json.dumps(members))
    if code == "too-few-poses":  # the first file still says what the folder is
        (source / "frame_00000.json").write_text((scan / "frame_00000.json").read_text())
    assert problem(converted(takeset, tmp_path, source, check=3))["code"] == code


def test_a_damaged_first_file_and_copies_by_other_tools_change_nothing(takeset, scan, tmp_path):
    source = shutil.copytree(scan, tmp_path / "scan")
    (source / "frame_00000.json").write_bytes(b"")
    Image.new("RGB", (10, 10)).save(source / f"frame_{EVERY:05}.small.jpg")
    (source / f"frame_{2 * EVERY:05}.json").write_bytes(b"[" + b"0," * 600_000 + b"0]")
    entry, demo, meta = converted(takeset, tmp_path, source)
    assert meta["source_index"][:].tolist() == list(range(3 * EVERY, 60, EVERY)) or EVERY in meta["source_index"][:]
    assert {0, 2 * EVERY}.isdisjoint(meta["source_index"][:]) and demo["obs/camera_image"].shape[1:3] == (72, 96)


def test_other_numbered_json_is_no_scan(takeset, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/frame_00000.json").write_text('{"pose": 1}')
    done = takeset("run", tmp_path / "in", "--output", tmp_path / "out")
    assert done.returncode != 0 and "no take" in done.stderr


@pytest.mark.slow
def test_damaged_files_harm_nothing_else(takeset, scan, tmp_path):
    """Scans, in each of which a few files are damaged."""
    chance = np.random.default_rng(1)
    files = sorted(path.name for path in scan.iterdir() if path.name.startswith(("frame_0000", "depth_0000", "conf_0000")))
    for number in range(share(1000)):
        folder = tmp_path / f"in/scan_{number:04}"
        folder.mkdir(parents=True)
        for name in files:
            data = bytearray((scan / name).read_bytes())
            if number % 100 and chance.random() < 0.2:
                for _ in range(3):
                    data[chance.integers(len(data))] = chance.integers(256)
                if chance.random() < 0.3:
                    del data[chance.integers(len(data)) :]
            (folder / name).write_bytes(data)
    done = takeset("run", tmp_path / "in", "--output", tmp_path / "out", "--progress", "none")
    assert done.returncode == 3, done.stderr[-2000:]
    assert takeset("verify", tmp_path / "out").returncode == 0
