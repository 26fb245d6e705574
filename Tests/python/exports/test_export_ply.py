"""Point clouds as PLY: against the true surfaces of the simulated room, and point by point against NumPy and a dictionary."""

import json

import numpy as np
import pytest
from command import BINARY, measured
from outputs import demos
from scene_exports import TAKES, SceneExports
from room_oracle import distance_to_room, seen
from scene_oracle import cloud, colors, export, files, lost, opencv, positions, read_ply, record

VOXEL = 0.0137  # of which no wall of the room is a multiple
PIPELINES = ["default", "plain", "ros", "rotated", "cropped", "fewer", "resampled"]


@pytest.fixture(scope="module")
def exported(takeset, tmp_path_factory):
    return SceneExports(takeset, "ply", tmp_path_factory.mktemp("ply"))


@pytest.fixture(scope="module")
def runs(exported):
    return exported.runs


def cubes(points, voxel=VOXEL):
    return np.floor(positions(points) / voxel).astype(int)


def sorted_by_cube(points, voxel=VOXEL):
    """Positions and colors, in the order of cubes."""
    keys = cubes(points, voxel)
    order = np.lexsort(keys.T[::-1])
    return keys[order], positions(points)[order], colors(points)[order]


# Truth


@pytest.mark.parametrize("take", TAKES)
@pytest.mark.parametrize("pipeline", PIPELINES)  # not with finer depth, which cuts corners off the room
def test_points_are_on_the_surfaces_of_the_room(exported, take, pipeline):
    """Also where depth maps are those of other moments than their rows. Depth is exact to the millimeter, poses to the time of a frame."""
    _, output = exported(pipeline, "--voxel", VOXEL, "--confidence", 0)
    points = positions(read_ply(output / f"{take}.ply"))
    away = distance_to_room(points)
    # Means over a cube in which two surfaces meet are off by a part of it. Between rows 50 ms apart, poses are interpolated.
    moves = pipeline == "fewer" and take == "session"
    assert len(points) > 1000 and np.quantile(away, 0.95) < (0.004 if moves else 0.002), np.quantile(away, [0.5, 0.95, 0.99, 1])
    assert away.max() < VOXEL + 0.01


@pytest.mark.parametrize("take", TAKES)
@pytest.mark.parametrize("pipeline", ["default", "fewer", "rotated"])
def test_colors_are_those_of_the_surfaces(exported, take, pipeline):
    dataset, output = exported(pipeline, "--voxel", VOXEL, "--confidence", 0)
    points = read_ply(output / f"{take}.ply")
    origin = opencv(demos(dataset)[take][0])[0, :3, 3]
    far, bright = seen(origin, positions(points) - origin)
    visible = np.abs(far - 1) < 0.005
    error = np.abs(colors(points).mean(1) / 255 - bright)[visible]
    assert visible.mean() > 0.8 and np.median(error) < 0.02 and (error < 0.1).mean() > 0.9, (np.median(error), (error < 0.1).mean())
    # Not merely gray: channels differ where the surfaces' do.
    balls = colors(points)[visible]
    assert (balls.max(1) - balls.min(1)).max() > 60


# The rules, point by point


@pytest.mark.slow
@pytest.mark.parametrize("take", TAKES)
@pytest.mark.parametrize("pipeline, options", [
    ("default", {}), ("default", {"confidence": 0, "edge": 0}), ("default", {"confidence": 1}),
    ("default", {"range": 2.5, "min-range": 2.25, "confidence": 0}),
    ("default", {"every": 4, "confidence": 0}), ("plain", {"confidence": 0}), ("rotated", {"edge": 0.01, "confidence": 1}),
    ("cropped", {"confidence": 0}), ("fewer", {"confidence": 0}), ("resampled", {"confidence": 0}), ("finer depth", {"every": 5}),
    ("default", {"voxel": 0.2, "confidence": 0}), ("default", {"voxel": 9.9, "confidence": 0}),
], ids=str)
def test_points_are_the_means_of_cubes(exported, take, pipeline, options):
    options = {"voxel": VOXEL} | options
    dataset, output = exported(pipeline, *(word for name, value in options.items() for word in (f"--{name}", value)))
    names = {"range": "high", "min-range": "low"}
    counts, keys, where, what = cloud(*demos(dataset)[take], **{names.get(name, name): value for name, value in options.items()})
    found = sorted_by_cube(read_ply(output / f"{take}.ply"), options["voxel"])
    # One point in each cube.
    assert np.array_equal(found[0], keys) and len(np.unique(found[0], axis=0)) == len(keys)
    assert np.abs(found[1] - where).max() < 1e-4 and np.abs(found[1] - where).max() < options["voxel"] / 1000
    assert np.array_equal(found[2], what)
    said = record(output)["clouds"][take]
    assert {name: said[name] for name in counts} == counts and said["points"] == len(keys)
    assert np.abs(np.array([said["minimum"], said["maximum"]]) - [where.min(0), where.max(0)]).max() < 1e-4


def test_each_depth_map_counts_once(exported):
    """A session has fewer depth maps than images."""
    dataset, output = exported("default", "--voxel", VOXEL)
    numbers = demos(dataset)["session"][1]["streams/camera_depth/source_index"][:]
    assert record(output)["clouds"]["session"]["depth_maps"] == len(np.unique(numbers)) < len(numbers) / 2


def test_defaults(exported):
    """One centimeter, up to 5 m, high confidence, no points between the surfaces of an edge; a header that other programs know."""
    dataset, output = exported("default")
    assert record(output)["options"] == {"voxel": 0.01, "min-range": 0, "range": 5, "confidence": None, "edge": 0.05, "every": 1}
    assert set(files(output)) == {"scan.ply", "session.ply", "takeset-export.json"}
    properties = [f"property float {axis}" for axis in "xyz"] + [f"property uchar {c}" for c in ("red", "green", "blue")]
    count = record(output)["clouds"]["scan"]["points"]
    header = (output / "scan.ply").read_bytes().partition(b"end_header\n")[0].decode()
    assert header.splitlines() == ["ply", "format binary_little_endian 1.0", f"element vertex {count}", *properties]
    options = ["--voxel", 0.01, "--range", 5, "--confidence", 2, "--edge", 0.05, "--every", 1, "--min-range", 0]
    assert (exported("default", *options)[1] / "scan.ply").read_bytes() == (output / "scan.ply").read_bytes()


# What is missing


def test_points_without_images_have_no_color(takeset, tmp_path):
    takeset("simulate", "stray-scanner", "--output", tmp_path / "in/dark", "--seconds", 0.1, "--depth-size", "64x48", "--no-movie", check=0)
    takeset.convert(tmp_path / "in", output=tmp_path / "dataset")
    export(takeset, tmp_path / "dataset", "ply", tmp_path / "out", "--confidence", 0)
    points = read_ply(tmp_path / "out/dark.ply")
    assert points.dtype.names == ("x", "y", "z") and np.quantile(distance_to_room(positions(points)), 0.95) < 0.002
    (words,) = lost(tmp_path / "out", "dark")
    assert "no color" in words


def test_depth_beyond_the_grid_is_left_out(exported):
    """A grid has 2^20 cubes along each axis from the origin, which is two meters here."""
    dataset, output = exported("default", "--voxel", 2e-6, "--confidence", 0, "--edge", 0, "--every", 10)
    (words,) = lost(output, "scan")
    found = positions(read_ply(output / "scan.ply"))
    assert 0 < len(found) and np.abs(found).max() <= 2.097153
    reference = positions(read_ply(exported("default", "--voxel", 0.0001, "--confidence", 0, "--edge", 0, "--every", 10)[1] / "scan.ply"))
    inside = (np.abs(reference) < 2.097152).all(1)
    assert abs(inside.sum() - len(found)) < 0.01 * len(found)
    assert f"{record(output)['clouds']['scan']['depth_values'] - len(found)} points are left out" in words


def test_a_session_without_intrinsics_is_refused(dataset, takeset, tmp_path):
    done = export(takeset, dataset, "ply", tmp_path / "out", "--episodes", "session_2026-01-31_120000", check=65)
    assert "session_2026-01-31_120000 has no intrinsics" in done.stderr and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("options, reason", [(["--range", 0.05], "are out of range"), (["--edge", 1e-7], "are at edges")])
def test_no_points_at_all_are_refused_with_the_reason(runs, takeset, tmp_path, options, reason):
    done = export(takeset, runs.output(default=True), "ply", tmp_path / "out", "--episodes", "scan", "--confidence", 0, *options, check=65)
    assert "the point cloud of scan is empty" in done.stderr and reason in done.stderr and list(tmp_path.iterdir()) == []


# Memory


@pytest.mark.slow
def test_memory_follows_the_cloud_and_not_the_depth_maps(takeset, tmp_path):
    """Eight times the depth maps of one place need no more memory."""
    takeset("simulate", "stray-scanner", "--output", tmp_path / "in/scan", "--seconds", 8, "--size", "240x180", check=0)
    takeset.convert(tmp_path / "in", output=tmp_path / "dataset")
    peaks = []
    for every in 8, 1:
        options = "--every", every, "--confidence", 0, "--voxel", 0.05
        code, peak, _ = measured(BINARY, "export", tmp_path / "dataset", "--to", "ply", "--output", tmp_path / f"out{every}", *options)
        assert code == 0
        peaks.append(peak)
    maps = [json.loads((tmp_path / f"out{every}/takeset-export.json").read_text())["clouds"]["scan"]["depth_maps"] for every in (8, 1)]
    assert maps == [60, 480] and peaks[1] < 1.3 * peaks[0], peaks


# Read by Open3D


@pytest.mark.loaders
def test_open3d_reads_it(exported):
    open3d = pytest.importorskip("open3d")
    for take in TAKES:
        path = exported("default")[1] / f"{take}.ply"
        found, expected = open3d.io.read_point_cloud(str(path)), read_ply(path)
        assert np.array_equal(np.asarray(found.points), positions(expected))
        assert np.abs(np.asarray(found.colors) * 255 - colors(expected)).max() < 1e-6
