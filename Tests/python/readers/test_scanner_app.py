"""Scans of the 3D Scanner App."""

import json

import numpy as np
import pytest
from geometry_oracle import matrices
from images import frame_code
from outputs import codes, finding, traces
from phone_takes import Takes, absolute, edited, quirks, truth
from PIL import Image

EVERY = 6


@pytest.fixture(scope="module")
def takes(takeset, tmp_path_factory):
    found = {"scan_1": []} | quirks("missing-json", "truncated-json", "no-depth") | WRONG
    found |= {"no image": lambda take: (take / f"frame_{3 * EVERY:05}.jpg").unlink(), "others": with_a_damaged_first_file_and_copies}
    options = ["--seconds", 2, "--size", "96x72", "--depth-size", "64x48"]
    return Takes(takeset, tmp_path_factory.mktemp("scanner"), "3d-scanner-app", options, found)


def test_rows_are_images_and_depth_is_that_of_their_number(takes):
    scan, entry, demo, meta = takes["scan_1"]
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


def test_places_are_not_read(takes):
    assert traces(takes.output, "latitude", "47.4") == []


def test_an_image_without_its_json_has_no_row(takes):
    source, entry, demo, meta = takes["missing-json"]
    assert EVERY not in meta["source_index"][:] and finding(entry, "pose-missing")["count"] == 1
    assert finding(entry, "depth-orphaned")["count"] == 1
    assert np.abs(matrices(demo["obs/pose"][:]) - truth(source)[0][meta["source_index"][:]]).max() < 1e-5


def test_a_damaged_json_costs_its_row(takes):
    _, entry, _, meta = takes["truncated-json"]
    found = [f for f in entry["findings"] if f["code"] == "pose-unusable" and f.get("file") == f"frame_{2 * EVERY:05}.json"]
    assert len(found) == 1 and 2 * EVERY not in meta["source_index"][:] and len(meta["source_index"]) == 9


def test_a_scan_without_depth_has_images_and_poses(takes):
    _, _, demo, _ = takes["no-depth"]
    assert set(demo["obs"]) >= {"pose", "camera_image"} and "camera_depth" not in demo["obs"]


def test_a_missing_image_is_no_row(takes):
    _, _, demo, meta = takes["no image"]
    assert 3 * EVERY not in meta["source_index"][:] and [frame_code(image) for image in demo["obs/camera_image"][:]] == meta["source_index"][:].tolist()


def with_members(change, first=1):
    """Every file is changed from this one on; the first of all says what the folder is."""
    def edit(take):
        for path in sorted(take.glob("frame_*.json"))[first:]:
            edited(path.name, change)(take)

    return edit


WRONG = {
    "no poses": (with_members(lambda members: members.pop("cameraPoseARFrame")), "too-few-poses", ""),
    "poses that are none": (with_members(lambda members: members.update(cameraPoseARFrame=[1] * 16)), "too-few-poses", ""),
    "no times": (with_members(lambda members: members.pop("time"), 0), "too-few-times", ""),
}


def test_scans_without_poses_or_times_fail_with_a_sentence(takes):
    takes.fail()


def with_a_damaged_first_file_and_copies(take):
    (take / "frame_00000.json").write_bytes(b"")
    Image.new("RGB", (10, 10)).save(take / f"frame_{EVERY:05}.small.jpg")
    (take / f"frame_{2 * EVERY:05}.json").write_bytes(b"[" + b"0," * 600_000 + b"0]")


def test_a_damaged_first_file_and_copies_by_other_tools_change_nothing(takes):
    _, _, demo, meta = takes["others"]
    assert meta["source_index"][:].tolist() == list(range(3 * EVERY, 60, EVERY)) or EVERY in meta["source_index"][:]
    assert {0, 2 * EVERY}.isdisjoint(meta["source_index"][:]) and demo["obs/camera_image"].shape[1:3] == (72, 96)


def test_other_numbered_json_is_no_scan(takeset, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/frame_00000.json").write_text('{"pose": 1}')
    done = takeset("run", tmp_path / "in", "--output", tmp_path / "out")
    assert done.returncode != 0 and "no take" in done.stderr
