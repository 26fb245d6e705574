"""resample-depth on takes with holes. Swift tests compare every method and mask with the reference on any grid (`DepthResamplerTests`)."""

import json

import numpy as np
import pytest
from geometry_oracle import CAMERA, Runs
from scans import session as scan
from stack_sessions import v1

IMAGE, DEPTH = {"scan": (160, 120), "meters": (96, 72)}, {"scan": (32, 24), "meters": (28, 21)}
TAKES = ["scan", "meters"]


def scene(number, size, random):
    """Meters: slopes with steps, and a mask with holes as single pixels and areas."""
    width, height = size
    y, x = np.mgrid[0:height, 0:width]
    depth = 0.9 + 0.02 * x + 0.013 * y + 0.01 * number + 1.3 * ((x // 9 + y // 7) % 2) + random.normal(0, 0.01, (height, width))
    holes = random.random((height, width)) < 0.25
    top, left = number % (height - 4), 3 * number % (width - 6)
    holes[top : top + 4, left : left + 6] = True
    return depth, ~holes


def millimeters():
    """A scan whose maps have holes and whose confidence is random."""
    found, random = scan(times="time"), np.random.default_rng(11)
    for number in found.depth:
        depth, valid = scene(number, DEPTH["scan"], random)
        found.depth[number] = np.where(valid, np.round(1000 * depth), 0).astype(np.uint16)
    return found


def meters():
    """A session with a map of 32-bit floats for each frame, and an intrinsic camera."""
    found, random = v1(tuple(range(40))), np.random.default_rng(12)
    width, height = DEPTH["meters"]
    found.metadata |= {"depthResolution": [width, height], "cameraIntrinsics": CAMERA}
    for number in found.depth:
        depth, valid = scene(number, (width, height), random)
        depth[~valid] = 0
        found.depth[number] = depth.astype("<f4").tobytes()
    return found


def source(demo):
    """Maps of a take in meters, which pixels are valid, confidence or None, and the unit that is stored."""
    confidence = demo["obs/camera_depth_confidence"][..., 0] if "camera_depth_confidence" in demo["obs"] else None
    depth = demo["obs/camera_depth"]
    return depth[..., 0].astype("f8") / {"m": 1, "mm": 1000}[depth.attrs["unit"]], depth[..., 0] > 0, confidence, depth.attrs["unit"]


@pytest.fixture(scope="module")
def runs(takeset, tmp_path_factory):
    return Runs(takeset, tmp_path_factory.mktemp("depth"), {"scan": millimeters(), "meters": meters()})


def resample(**options):
    return {"resample-depth": {name.replace("_", "-"): value for name, value in options.items()}}


def check(demo, meters_there, there, confidence, unit="m"):
    """All maps of a demo have these meters where they are valid, and this confidence, or None."""
    stored, mask = demo["obs/camera_depth"], demo["obs/camera_depth_valid"][..., 0]
    assert stored.dtype.str == {"m": "<f4", "mm": "<u2"}[unit] and stored.attrs["unit"] == unit
    found = stored[..., 0].astype("f8") / {"m": 1, "mm": 1000}[unit]
    assert stored.shape == (*there.shape, 1) and np.array_equal(mask, there) and (found[~there] == 0).all()
    assert np.allclose(found[there], meters_there[there], rtol=1e-6, atol=0), np.abs(found[there] / meters_there[there] - 1).max()
    if confidence is not None:
        assert (demo["obs/camera_depth_confidence"][..., 0][there] == confidence[there]).all()


def under(old, new):
    """The old pixel under the center of each new one."""
    return (2 * np.arange(new) + 1) * old // (2 * new)


@pytest.mark.parametrize("take", TAKES)
@pytest.mark.parametrize("options", [{"min_confidence": 2, "unit": "m"}, {"max_range": 2.0003}], ids=str)
def test_without_a_size_the_grid_stays(runs, take, options):
    _, demo, meta = runs(resample(**options))[take]
    depth, valid, confidence, unit = source(runs()[take][1])
    valid = valid & (depth <= options.get("max_range", np.inf))
    if confidence is not None:
        valid &= confidence >= options.get("min_confidence", 0)
    check(demo, depth, valid, confidence, options.get("unit", unit))
    assert (meta["camera_depth_intrinsics"][:] == runs()[take][2]["camera_depth_intrinsics"][:]).all()


@pytest.mark.parametrize("take", TAKES)
def test_depth_on_the_images_grid(runs, take):
    entry, demo, meta = runs(resample(to="image", unit="m"))[take]
    assert entry["details"]["depth_resampling"]["maps"] == len(demo["obs/camera_depth"])
    assert demo["obs/camera_depth"].shape[:3] == demo["obs/camera_image"].shape[:3] == (len(demo["obs/pose"]), *IMAGE[take][::-1])
    columns, rows = (under(old, new) for old, new in zip(DEPTH[take], IMAGE[take]))
    check(demo, *(array if array is None else array[:, rows][:, :, columns] for array in source(runs()[take][1])[:3]))
    assert np.allclose(meta["camera_depth_intrinsics"][:], meta["intrinsics"][:], rtol=1e-6)
    info = json.loads(demo.attrs["camera_info"])
    assert [info["camera_depth"][side] for side in ("width", "height")] == [info["camera_image"][side] for side in ("width", "height")]
    assert np.allclose(info["camera_depth"]["intrinsics"], info["camera_image"]["intrinsics"], rtol=1e-6)
