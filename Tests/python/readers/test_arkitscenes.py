"""Scenes of ARKitScenes."""

import shutil

import numpy as np
import pytest
from images import frame_code
from outputs import codes, finding, only
from phone_takes import STREAMS, absolute, converted, matrices, problem, same, truth
from PIL import Image
from scipy.spatial.transform import Rotation, Slerp
from system import share

OPENCV_TO_ARKIT = np.diag([1.0, -1, -1, 1])


def simulated(takeset, output, *arguments):
    takeset("simulate", "arkitscenes", "--seconds", 2, "--size", "96x72", "--output", output, *arguments, check=0)
    return output


@pytest.fixture(scope="module")
def scene(takeset, tmp_path_factory):
    return simulated(takeset, tmp_path_factory.mktemp("arkitscenes") / "47333462_frames")


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


def test_rows_are_images_at_the_interpolated_pose(takeset, scene, tmp_path):
    entry, demo, meta = converted(takeset, tmp_path, scene)
    expected, times = truth(scene)
    rows = absolute(meta)
    assert entry["reader"] == "arkitscenes" and entry["id"] == "47333462" and entry["variant"] == "vga_wide"
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


def test_depth_and_intrinsics_are_those_of_the_moment(takeset, scene, tmp_path):
    _, demo, meta = converted(takeset, tmp_path, scene)
    maps, levels, cameras = files(scene, "lowres_depth"), files(scene, "confidence"), files(scene, "vga_wide_intrinsics")
    for row, number in enumerate(meta["source_index"][:]):
        stored = np.asarray(Image.open(maps[number]))
        assert np.array_equal(demo["obs/camera_depth"][row, ..., 0], stored) and stored.any()
        assert np.array_equal(demo["obs/camera_depth_confidence"][row, ..., 0], np.asarray(Image.open(levels[number])))
        assert meta["intrinsics"][row].tolist() == pytest.approx(np.loadtxt(cameras[number])[2:].tolist(), rel=1e-6)


def test_the_default_pipeline_has_the_axes_of_arkit_and_meters(takeset, scene, tmp_path):
    takeset.convert(scene, output=tmp_path / "out", check=0)
    _, demo, meta = only(tmp_path / "out")
    assert demo["obs/pose"].attrs["camera_axes"] == "x right, y up, z back" and demo["obs/pose"].attrs["unit"] == "m"
    assert np.abs(matrices(demo["obs/pose"][:]) - interpolated(scene, absolute(meta)) @ OPENCV_TO_ARKIT).max() < 1e-5


def test_geometry_holds(takeset, scene, tmp_path):
    converted(takeset, tmp_path, scene)
    done = takeset("verify", "--for", "geometry", tmp_path / "out")
    assert done.returncode == 0, done.stdout + done.stderr


def test_names_of_intrinsics_may_be_a_millisecond_off(takeset, scene, tmp_path):
    source = simulated(takeset, tmp_path / "in", "--quirk", "late-intrinsics")
    _, _, meta = converted(takeset, tmp_path, source)
    (tmp_path / "other").mkdir()
    _, _, other = converted(takeset, tmp_path / "other", scene)
    assert np.array_equal(meta["intrinsics"][:], other["intrinsics"][:])


def test_a_gap_of_the_trajectory_is_filled_no_farther_than_the_option_says(takeset, tmp_path):
    source = simulated(takeset, tmp_path / "in", "--quirk", "pose-gap")
    entry, demo, meta = converted(takeset, tmp_path, source)
    assert np.abs(matrices(demo["obs/pose"][:]) - interpolated(source, absolute(meta))).max() < 1e-5
    (tmp_path / "near").mkdir()
    near, _, other = converted(takeset, tmp_path / "near", source, reader="{name: arkitscenes, max-pose-gap: 0.12}")
    assert 0 < len(meta["source_index"]) - len(other["source_index"]) == finding(near, "pose-missing")["count"] - finding(entry, "pose-missing")["count"]
    trajectory = np.loadtxt(source / "lowres_wide.traj")[:, 0] * 1e9
    for time in absolute(other):
        assert trajectory[trajectory <= time + 1].max() > time - 0.12e9 - 1 and trajectory[trajectory >= time - 1].min() < time + 0.12e9 + 1


def test_a_cut_line_and_missing_depth_cost_only_themselves(takeset, tmp_path):
    source = simulated(takeset, tmp_path / "in", "--quirk", "cut-line", "--quirk", "no-depth")
    entry, demo, _ = converted(takeset, tmp_path, source)
    assert finding(entry, "poses-unreadable")["count"] == 1 and "camera_depth" not in demo["obs"]


def test_the_largest_images_are_read_unless_the_option_says_otherwise(takeset, scene, tmp_path):
    source = shutil.copytree(scene, tmp_path / "scene")
    (source / "lowres_wide").mkdir()
    for path in (scene / "vga_wide").iterdir():
        Image.open(path).resize((64, 48)).save(source / "lowres_wide" / path.name)
    entry, demo, _ = converted(takeset, tmp_path, source)
    assert entry["variant"] == "vga_wide" and not any(one["path"].startswith("lowres_wide/") for one in entry["inputs"])
    (tmp_path / "small").mkdir()
    entry, demo, meta = converted(takeset, tmp_path / "small", source, reader="{name: arkitscenes, images: lowres-wide}")
    assert demo["obs/camera_image"].shape[1:3] == (48, 64) and entry["variant"] == "lowres_wide"
    # There are no intrinsics of these images, so those of the others would be wrong.
    assert "intrinsics" not in meta


@pytest.mark.parametrize("change, code", [
    (lambda s: (s / "lowres_wide.traj").write_text(""), "poses-missing"),
    (lambda s: (s / "lowres_wide.traj").write_text("1 2 3\nnan nan 0 0 0 0 0\n"), "poses-missing"),
    (lambda s: shutil.rmtree(s / "vga_wide"), "no-frames"),
    (lambda s: (s / "lowres_wide.traj").write_text("1 0 0 0 0 0 0\n2 0 0 0 0 0 0\n"), "no-frames"),
])
def test_scenes_without_poses_or_images_fail_with_a_sentence(takeset, scene, tmp_path, change, code):
    source = shutil.copytree(scene, tmp_path / "scene")
    change(source)
    assert problem(converted(takeset, tmp_path, source, check=3))["code"] == code


def test_a_name_of_no_time_is_no_file_of_the_scene(takeset, scene, tmp_path):
    source = shutil.copytree(scene, tmp_path / "scene")
    image = next((source / "vga_wide").iterdir())
    for name in ("47333462_999999999999.999.png", "47333462_-1.000.png", "47333462_1e3.000.png"):
        shutil.copy(image, source / "vga_wide" / name)
    assert takeset("inspect", source).returncode == 0
    _, demo, _ = converted(takeset, tmp_path, source)
    (tmp_path / "other").mkdir()
    _, other, _ = converted(takeset, tmp_path / "other", scene)
    assert same(demo, other, STREAMS)


def test_a_scene_whose_depth_is_all_damaged_fails(takeset, scene, tmp_path):
    source = shutil.copytree(scene, tmp_path / "scene")
    for path in (source / "lowres_depth").iterdir():
        path.write_bytes(b"x")
    found = problem(converted(takeset, tmp_path, source, check=3))
    assert found["code"] == "unreadable" and "depth maps" in found["message"] and found["file"] == "lowres_depth"


def test_damaged_intrinsics_are_a_finding(takeset, scene, tmp_path):
    source = shutil.copytree(scene, tmp_path / "scene")
    cameras = sorted((source / "vga_wide_intrinsics").iterdir())
    for path, text in zip(cameras[20:24], ["", "96 72 nan 1 2 3", "1e300 72 50 50 48 36", "9" * 5000], strict=True):
        path.write_text(text)
    entry, _, _ = converted(takeset, tmp_path, source)
    assert finding(entry, "intrinsics-unusable")["count"] == 4 and "pose-unusable" not in codes(entry)


@pytest.mark.slow
def test_damaged_files_harm_nothing_else(takeset, scene, tmp_path):
    """A thousand scenes, in each of which a few files are damaged."""
    chance = np.random.default_rng(1)
    kept = [path for path in sorted(scene.rglob("*")) if path.is_file() and path.name != "truth.json"]
    moments = {path.name.split("_")[-1].rsplit(".", 1)[0] for path in sorted((scene / "vga_wide").iterdir())[8:12]}
    kept = [path for path in kept if path.suffix == ".traj" or path.name.split("_")[-1].rsplit(".", 1)[0] in moments]
    for number in range(share(1000)):
        folder = tmp_path / f"in/{number:04}"
        for path in kept:
            data = bytearray(path.read_bytes())
            if number % 100 and chance.random() < 0.2:
                for _ in range(3):
                    data[chance.integers(len(data))] = chance.integers(256)
                if chance.random() < 0.3:
                    del data[chance.integers(len(data)) :]
            target = folder / path.relative_to(scene)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    done = takeset("run", tmp_path / "in", "--output", tmp_path / "out", "--progress", "none")
    assert done.returncode == 3, done.stderr[-2000:]
    assert takeset("verify", tmp_path / "out").returncode == 0
