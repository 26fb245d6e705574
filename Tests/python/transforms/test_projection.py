"""Stored pose, intrinsics, depth and images fit together after every change of geometry: points of the simulated room are where they belong,
within half a pixel and 1 % of depth."""

import json

import numpy as np
import pytest
from geometry_oracle import Runs, opengl
from room_oracle import rays, view
from scipy.ndimage import map_coordinates

SIZE, DEPTH = "480x360", "160x120"
PIPELINES = {
    "unchanged": [],
    "crop, then cover": [{"crop": {"box": [37, 23, 401, 302]}}, {"resize-image": {"width": 224, "height": 224, "mode": "cover"}}],
    "cover": [{"resize-image": {"width": 233, "height": 300, "mode": "cover"}}],
    "letterbox": [{"resize-image": {"width": 225, "height": 224, "mode": "letterbox"}}],
    "stretch": [{"resize-image": {"width": 300, "height": 300, "mode": "stretch"}}],
    "rotate 90": [{"rotate": {"degrees": 90}}],
    "rotate 270, then crop": [{"rotate": {"degrees": 270}}, {"crop": {"box": [11, 45, 290, 333]}}],
    "rotate 180": [{"rotate": {"degrees": 180}}],
    "depth on the image's grid": [
        {"resize-image": {"width": 240, "height": 240, "mode": "cover"}}, {"resample-depth": {"to": "image", "method": "edge-aware"}},
    ],
    "coarser depth": [{"resample-depth": {"width": 100, "height": 77, "method": "edge-aware"}}],
    "opencv": [{"pose-frame": {"axes": "opencv"}}],
    "ros": [{"pose-frame": {"axes": "ros"}}],
    "everything": [
        {"crop": {"aspect": 1}}, {"rotate": {"degrees": 90}}, {"resize-image": {"width": 250, "height": 199, "mode": "cover"}},
        {"resample-depth": {"to": "image", "method": "edge-aware", "unit": "mm"}}, {"pose-frame": {"axes": "opencv"}},
    ],
}
QUICK = ["default", "crop, then cover", "letterbox", "rotate 90", "depth on the image's grid", "everything"]
ALL = [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in ["default", *PIPELINES]]


@pytest.fixture(scope="module")
def runs(takeset, tmp_path_factory):
    """A session with meters and ARKit's axes, and a scan with millimeters, OpenCV's axes and intrinsics of each row."""
    found = Runs(takeset, tmp_path_factory.mktemp("projection"), {})
    small = "--seconds", 0.2, "--size", SIZE, "--depth-size", DEPTH
    session = takeset.simulate(found.inputs / "session", *small, "--seed", 4)
    metadata = json.loads((session / "metadata.json").read_text())
    (session / "metadata.json").write_text(json.dumps(metadata | {"cameraIntrinsics": {"fx": 360, "fy": 360, "cx": 240, "cy": 180}}))
    takeset("simulate", "stray-scanner", "--output", found.inputs / "scan", *small, "--seed", 6, check=0)
    return found


def converted(runs, name):
    return runs(default=True) if name == "default" else runs(*PIPELINES[name])


def meters(demo):
    stored = demo["obs/camera_depth"]
    return stored[..., 0] * {"m": 1.0, "mm": 1e-3}[stored.attrs["unit"]]


def ends(meta):
    """The first and the last row whose depth map is its own and not that of the frame before or after it."""
    return np.flatnonzero(meta["streams/camera_depth/dt_ns"][:] == 0)[[0, -1]].tolist()


EVERY = 7  # one of so many pixels is enough to find a shift


def best_shift(measured, which, pose, camera):
    """How far a map of positive numbers, 0 where absent, must be moved along x or y to differ least from the room: depth (0) or brightness (1)."""
    size, pixels = measured.shape[::-1], measured.ravel()[::EVERY].astype("f8")
    steps = [0, 0.25, -0.25, 0.5, -0.5, 0.75, -0.75, 1, -1, 1.5, -1.5]

    def cost(x, y):
        predicted = view(pose, camera, size, (x, y), EVERY)[which]
        return np.abs(pixels - predicted)[pixels > 0].clip(0, pixels.mean()).mean()

    return max(abs(min(steps, key=lambda s: cost(s, 0))), abs(min(steps, key=lambda s: cost(0, s))))


def brightness(demo, row):
    return demo["obs/camera_image"][row].mean(-1) / 255


@pytest.mark.slow
@pytest.mark.parametrize("take", ["session", "scan"])
@pytest.mark.parametrize("name", ALL)
def test_depth_is_that_of_the_room_at_the_stored_camera(runs, take, name):
    _, demo, meta = converted(runs, name)[take]
    depth, poses, cameras = meters(demo), opengl(demo), meta["camera_depth_intrinsics"][:].astype("f8")
    size = depth.shape[2], depth.shape[1]
    for row in ends(meta):
        valid = depth[row] > 0
        assert valid.mean() > (0.5 if name == "letterbox" else 0.9)
        predicted = view(poses[row], cameras[row], size)[0].reshape(valid.shape)
        right = np.abs(depth[row] / predicted - 1)[valid] < 0.01
        assert right.mean() > 0.98, (row, right.mean())
        assert best_shift(depth[row], 0, poses[row], cameras[row]) <= 0.5, row


@pytest.mark.slow
@pytest.mark.parametrize("take", ["session", "scan"])
@pytest.mark.parametrize("name", ALL)
def test_images_are_those_of_the_room_at_the_stored_camera(runs, take, name):
    _, demo, meta = converted(runs, name)[take]
    poses, cameras = opengl(demo), meta["intrinsics"][:].astype("f8")
    for row in 0, len(poses) - 1:
        assert best_shift(brightness(demo, row), 1, poses[row], cameras[row]) <= 0.5, row


@pytest.mark.parametrize("take", ["session", "scan"])
@pytest.mark.parametrize("name", [*ALL, "from the first frame"])
def test_points_of_one_row_are_where_another_row_measures_them(runs, take, name):
    first = [{"crop": {"center": [300, 300]}}, {"pose-frame": {"axes": "opencv", "origin": "first-frame"}}]
    _, demo, meta = (runs(*first) if name == "from the first frame" else converted(runs, name))[take]
    depth, poses, cameras = meters(demo), opengl(demo), meta["camera_depth_intrinsics"][:].astype("f8")
    height, width = depth.shape[1:]
    first, last = ends(meta)
    for one, other in (first, last), (last, first):
        points = rays(cameras[one], (width, height)) * depth[one].reshape(-1, 1)
        points = points[depth[one].ravel() > 0] @ poses[one][:3, :3].T + poses[one][:3, 3]
        x, y, z = ((points - poses[other][:3, 3]) @ poses[other][:3, :3]).T * [[1], [-1], [-1]]
        fx, fy, cx, cy = cameras[other]
        column, row = fx * x / z + cx - 0.5, fy * y / z + cy - 0.5
        inside = (z > 0) & (column >= 0) & (column < width - 1) & (row >= 0) & (row < height - 1)
        known = np.where(depth[other] > 0, depth[other], np.nan)
        there = map_coordinates(known, [row[inside], column[inside]], order=1)
        error = np.abs(there / z[inside] - 1)[np.isfinite(there)]
        assert len(error) > 1000 and np.median(error) < 0.001 and (error < 0.01).mean() > 0.95, (np.median(error), (error < 0.01).mean())


@pytest.mark.slow
def test_the_measure_notices_a_camera_that_is_wrong(runs):
    """A principal point one pixel off, or an axis of the wrong sign, is beyond the bounds of these tests."""
    _, demo, meta = runs()["session"]
    depth, pose, camera = meters(demo)[0], opengl(demo)[0], meta["camera_depth_intrinsics"][0].astype("f8")
    assert best_shift(depth, 0, pose, camera + [0, 0, 1, 0]) == pytest.approx(1, abs=0.3)
    flipped = pose @ np.diag([1.0, -1, -1, 1])
    assert (np.abs(depth.ravel() / view(flipped, camera, depth.shape[::-1])[0] - 1) < 0.01).mean() < 0.5
    assert best_shift(brightness(demo, 0), 1, pose, meta["intrinsics"][0] + [0, 0, 0, -1]) == pytest.approx(1, abs=0.3)
