"""Scenes of ARKitScenes."""

import shutil

import numpy as np
import pytest
from geometry_oracle import matrices
from images import frame_code
from outputs import codes, finding, only
from phone_takes import STREAMS, Takes, absolute, converted, problem, quirks, same, truth
from PIL import Image
from scipy.spatial.transform import Rotation, Slerp

OPENCV_TO_ARKIT = np.diag([1.0, -1, -1, 1])


@pytest.fixture(scope="module")
def takes(takeset, tmp_path_factory):
    found = {"scene": []} | quirks("late-intrinsics", "pose-gap", "cut-line+no-depth") | WRONG
    found |= {"other names": with_names_of_no_time, "damaged intrinsics": with_damaged_intrinsics, "two sizes": with_small_images}
    found |= {"two poses": with_two_poses_at_a_time, "other order": with_lines_in_another_order}
    return Takes(takeset, tmp_path_factory.mktemp("arkitscenes"), "arkitscenes", ["--seconds", 2, "--size", "96x72"], found)


def files(folder, name):
    """Files by their time in milliseconds."""
    return {round(float(path.stem.split("_")[1]) * 1000): path for path in sorted((folder / name).iterdir())}


def interpolated(folder, times):
    """The trajectory at times in nanoseconds, camera to world in OpenCV's axes: by SciPy, from the inverses of its lines."""
    rows = np.loadtxt(folder / "lowres_wide.traj")
    rotations = Rotation.from_rotvec(rows[:, 1:4]).inv()
    centers = -rotations.apply(rows[:, 4:])
    seconds = times / 1e9
    found = np.tile(np.eye(4), (len(times), 1, 1))
    found[:, :3, :3] = Slerp(rows[:, 0], rotations)(seconds).as_matrix()
    found[:, :3, 3] = np.stack([np.interp(seconds, rows[:, 0], centers[:, axis]) for axis in range(3)], 1)
    return found


def test_rows_are_images_at_the_interpolated_pose(takes):
    scene, entry, demo, meta = takes["scene"]
    expected, times = truth(scene)
    rows = absolute(meta)
    assert entry["reader"] == "arkitscenes" and entry["variant"] == "vga_wide"
    # The images before the first pose and after the last have no row.
    first, last = np.loadtxt(scene / "lowres_wide.traj")[[0, -1], 0] * 1e9
    inside = np.flatnonzero((times >= first - 0.5) & (times <= last + 0.5))
    assert 0 < inside[0] and rows.tolist() == times[inside].tolist() and meta["source_index"][:].tolist() == (times[inside] // 1_000_000).tolist()
    assert finding(entry, "pose-missing")["count"] == len(times) - len(inside)
    assert [frame_code(image) for image in demo["obs/camera_image"][:]] == (2 * inside).tolist()
    found = matrices(demo["obs/pose"][:])
    assert np.abs(found - interpolated(scene, rows)).max() < 1e-5
    # Between poses of a tenth of a second, the path itself is a few millimeters away.
    assert np.abs(found @ OPENCV_TO_ARKIT - expected[inside]).max() < 0.01
    assert demo["obs/pose"].attrs["world_axes"].startswith("z up") and meta["timestamp_ns"].attrs["clock"] == "device-uptime"


def test_depth_and_intrinsics_are_those_of_the_moment(takes):
    scene, _, demo, meta = takes["scene"]
    maps, levels, cameras = files(scene, "lowres_depth"), files(scene, "confidence"), files(scene, "vga_wide_intrinsics")
    for row, number in enumerate(meta["source_index"][:]):
        stored = np.asarray(Image.open(maps[number]))
        assert np.array_equal(demo["obs/camera_depth"][row, ..., 0], stored) and stored.any()
        assert np.array_equal(demo["obs/camera_depth_confidence"][row, ..., 0], np.asarray(Image.open(levels[number])))
        assert meta["intrinsics"][row].tolist() == pytest.approx(np.loadtxt(cameras[number])[2:].tolist(), rel=1e-6)


def test_the_default_pipeline_has_the_axes_of_arkit_and_meters(takeset, takes, tmp_path):
    scene = shutil.copytree(takes.inputs / "scene", tmp_path / "47333462_frames")
    takeset.convert(scene, output=tmp_path / "out", check=0)
    entry, demo, meta = only(tmp_path / "out")
    assert entry["id"] == "47333462"
    assert demo["obs/pose"].attrs["camera_axes"] == "x right, y up, z back" and demo["obs/pose"].attrs["unit"] == "m"
    assert np.abs(matrices(demo["obs/pose"][:]) - interpolated(scene, absolute(meta)) @ OPENCV_TO_ARKIT).max() < 1e-5


def test_geometry_holds(takeset, takes, tmp_path):
    converted(takeset, tmp_path, takes.inputs / "scene")
    done = takeset("verify", "--for", "geometry", tmp_path / "out")
    assert done.returncode == 0, done.stdout + done.stderr


def test_names_of_intrinsics_may_be_a_millisecond_off(takes):
    (*_, meta), (*_, other) = takes["late-intrinsics"], takes["scene"]
    assert np.array_equal(meta["intrinsics"][:], other["intrinsics"][:])


def test_a_gap_of_the_trajectory_is_filled_no_farther_than_the_option_says(takeset, takes, tmp_path):
    source, entry, demo, meta = takes["pose-gap"]
    assert np.abs(matrices(demo["obs/pose"][:]) - interpolated(source, absolute(meta))).max() < 1e-5
    near, _, other = converted(takeset, tmp_path, source, reader="{name: arkitscenes, max-pose-gap: 0.12}")
    assert 0 < len(meta["source_index"]) - len(other["source_index"]) == finding(near, "pose-missing")["count"] - finding(entry, "pose-missing")["count"]
    trajectory = np.loadtxt(source / "lowres_wide.traj")[:, 0] * 1e9
    for time in absolute(other):
        assert trajectory[trajectory <= time + 1].max() > time - 0.12e9 - 1 and trajectory[trajectory >= time - 1].min() < time + 0.12e9 + 1


def test_a_cut_line_and_missing_depth_cost_only_themselves(takes):
    _, entry, demo, _ = takes["cut-line+no-depth"]
    assert finding(entry, "poses-unreadable")["count"] == 1 and "camera_depth" not in demo["obs"]


def with_small_images(take):
    (take / "lowres_wide").mkdir()
    for path in (take / "vga_wide").iterdir():
        Image.open(path).resize((64, 48)).save(take / "lowres_wide" / path.name)


def test_the_largest_images_are_read_unless_the_option_says_otherwise(takeset, takes, tmp_path):
    source, entry, _, _ = takes["two sizes"]
    assert entry["variant"] == "vga_wide" and not any(one["path"].startswith("lowres_wide/") for one in entry["inputs"])
    entry, demo, meta = converted(takeset, tmp_path, source, reader="{name: arkitscenes, images: lowres-wide}")
    assert demo["obs/camera_image"].shape[1:3] == (48, 64) and entry["variant"] == "lowres_wide"
    # There are no intrinsics of these images, so those of the others would be wrong.
    assert "intrinsics" not in meta


def edited(change):
    def edit(take):
        path = take / "lowres_wide.traj"
        path.write_text("".join(change(path.read_text().splitlines(keepends=True))))

    return edit


@edited
def with_two_poses_at_a_time(lines):
    """Line 3 once more as it is, and line 5 with another pose."""
    time, rest = lines[5].split(" ", 1)
    return [*lines[:4], lines[3], *lines[4:6], f"{time} 0.1 0.2 0.3 4 5 6\n", *lines[6:]]


@edited
def with_lines_in_another_order(lines):
    return [*lines[:4], lines[5], lines[4], *lines[6:]]


def test_a_time_with_two_poses_has_the_first_and_is_told(takes):
    _, whole, demo, _ = takes["scene"]
    for name, count in ("two poses", 2), ("other order", 1):
        _, entry, changed, _ = takes[name]
        found = finding(entry, "time-not-ascending")
        assert (found["count"], found["file"]) == (count, "lowres_wide.traj") and "time-not-ascending" not in codes(whole)
        assert np.array_equal(changed["obs/pose"][:], demo["obs/pose"][:])


def with_trajectory(text):
    return lambda take: (take / "lowres_wide.traj").write_text(text)


def with_damaged_depth(take):
    for path in (take / "lowres_depth").iterdir():
        path.write_bytes(b"x")


WRONG = {
    "no trajectory": (with_trajectory(""), "poses-missing", ""),
    "no numbers": (with_trajectory("1 2 3\nnan nan 0 0 0 0 0\n"), "poses-missing", ""),
    "other times": (with_trajectory("1 0 0 0 0 0 0\n2 0 0 0 0 0 0\n"), "no-frames", ""),
    "no images": (lambda take: shutil.rmtree(take / "vga_wide"), "no-frames", ""),
    "damaged depth": (with_damaged_depth, "depth-undecodable", "depth maps"),
}


def test_wrong_scenes_fail_with_a_sentence(takes):
    takes.fail()
    assert problem(takes.entries["damaged depth"])["file"].startswith("lowres_depth/")


def with_names_of_no_time(take):
    image = next((take / "vga_wide").iterdir())
    for name in ("47333462_999999999999.999.png", "47333462_-1.000.png", "47333462_1e3.000.png"):
        shutil.copy(image, take / "vga_wide" / name)


def test_a_name_of_no_time_is_no_file_of_the_scene(takeset, takes):
    source, _, demo, _ = takes["other names"]
    assert takeset("inspect", source).returncode == 0 and same(demo, takes["scene"][2], STREAMS)


def with_damaged_intrinsics(take):
    cameras = sorted((take / "vga_wide_intrinsics").iterdir())
    for path, text in zip(cameras[20:24], ["", "96 72 nan 1 2 3", "1e300 72 50 50 48 36", "9" * 5000], strict=True):
        path.write_text(text)


def test_damaged_intrinsics_are_a_finding(takes):
    _, entry, _, _ = takes["damaged intrinsics"]
    assert finding(entry, "intrinsics-unusable")["count"] == 4 and "pose-unusable" not in codes(entry)
