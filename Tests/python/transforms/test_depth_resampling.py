"""resample-depth on takes with holes. Swift tests compare every method and mask with the reference (`DepthResamplerTests`)."""

import json

import numpy as np
import pytest
from geometry_oracle import Axis, Runs, resampled
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


def millimeters(seed=11):
    """A scan whose maps have holes and whose confidence is random."""
    found, random = scan(times="time"), np.random.default_rng(seed)
    for number in found.depth:
        depth, valid = scene(number, DEPTH["scan"], random)
        found.depth[number] = np.where(valid, np.round(1000 * depth), 0).astype(np.uint16)
    return found


def meters(holes=(0.0,)):
    """A session with a map of 32-bit floats for each frame, and an intrinsic camera. `holes`: the values of pixels without depth, in turn."""
    found, random = v1(tuple(range(40))), np.random.default_rng(12)
    width, height = DEPTH["meters"]
    found.metadata |= {"depthResolution": [width, height], "cameraIntrinsics": {"fx": 72.5, "fy": 73.25, "cx": 47.75, "cy": 36.5}}
    for number in found.depth:
        depth, valid = scene(number, (width, height), random)
        depth[~valid] = np.resize(np.array(holes), (~valid).sum())
        found.depth[number] = depth.astype("<f4").tobytes()
    return found


def source(demo):
    """Maps of the unchanged take in float64 and their unit, which pixels are valid, and confidence or None."""
    confidence = demo["obs/camera_depth_confidence"][..., 0] if "camera_depth_confidence" in demo["obs"] else None
    depth = demo["obs/camera_depth"]
    return depth[..., 0].astype("f8"), depth[..., 0] > 0, confidence, depth.attrs["unit"]


@pytest.fixture(scope="module")
def runs(takeset, tmp_path_factory):
    return Runs(takeset, tmp_path_factory.mktemp("depth"), {"scan": millimeters(), "meters": meters()})


def resample(**options):
    return {"resample-depth": {name.replace("_", "-"): value for name, value in options.items()}}


def check(whole, demo, x, y, method, unit=None, least=0, reach=np.inf, edge=0.05):
    """All maps of a demo are those of the unchanged one, on the grid of these axes."""
    depth, valid, confidence, old_unit = source(whole)
    unit = unit or old_unit
    scale = {"m": 1, "mm": 1000}[unit] / {"m": 1, "mm": 1000}[old_unit]
    stored, mask = demo["obs/camera_depth"], demo["obs/camera_depth_valid"][..., 0]
    assert stored.dtype.str == {"m": "<f4", "mm": "<u2"}[unit] and stored.attrs["unit"] == unit
    assert stored.shape == (len(depth), len(y.nearest), len(x.nearest), 1)
    used = valid & (depth <= reach * {"m": 1, "mm": 1000}[old_unit])
    if confidence is not None:
        used &= confidence >= least
    for row in range(len(depth)):
        values, there, trusted = resampled(depth[row], used[row], None if confidence is None else confidence[row], x, y, method, edge)
        found = stored[row, ..., 0].astype("f8")
        assert (mask[row] == there).all(), (row, np.argwhere(mask[row] != there)[:5].tolist())
        assert (found[~there] == 0).all()
        expected = (values * scale)[there]
        if unit == "mm":
            # Weights of a bilinear mean are not exact, so a value just between two whole millimeters may become either.
            between = np.abs(expected % 1 - 0.5) < 1e-6
            assert (np.abs(found[there] - expected)[between] < 0.51).all()
            expected = np.where(between, found[there], np.floor(expected + 0.5))
        assert np.allclose(found[there], expected, rtol=1e-6, atol=0), np.abs(found[there] / expected - 1).max()
        if confidence is not None:
            assert (demo["obs/camera_depth_confidence"][row, ..., 0][there] == trusted[there]).all(), row


def axes(take, grid):
    (width, height), (columns, rows) = DEPTH[take], grid or DEPTH[take]
    return Axis(width, columns), Axis(height, rows)


@pytest.mark.parametrize("take", TAKES)
@pytest.mark.parametrize("options", [{"min_confidence": 2, "unit": "m"}, {"max_range": 2.0003}], ids=str)
def test_without_a_size_the_grid_stays(runs, take, options):
    _, demo, meta = runs(resample(**options))[take]
    limits = {"least": options.get("min_confidence", 0), "reach": options.get("max_range", np.inf)}
    check(runs()[take][1], demo, *axes(take, None), "nearest", unit=options.get("unit"), **limits)
    assert (meta["camera_depth_intrinsics"][:] == runs()[take][2]["camera_depth_intrinsics"][:]).all()


@pytest.mark.parametrize("method", ["area", "bilinear", "edge-aware"])
def test_a_map_of_another_size_and_unit(runs, method):
    """With the error that the record states: of each depth value and the new one at its place."""
    entry, demo, _ = runs(resample(width=16, height=12, method=method, unit="m"))["scan"]
    check(runs()["scan"][1], demo, Axis(32, 16), Axis(24, 12), method, unit="m")
    depth, valid, _, _ = source(runs()["scan"][1])
    new, there, _, _ = source(demo)
    rows, columns = Axis(12, 24).nearest, Axis(16, 32).nearest
    new, there = new[:, rows][:, :, columns], there[:, rows][:, :, columns]
    differences = np.abs(new - depth / 1000)[valid & there]
    stated = entry["details"]["depth_resampling"]
    assert stated["maps"] == len(depth) and stated["mean_m"] == pytest.approx(differences.mean(), rel=1e-3)
    assert stated["max_m"] == pytest.approx(differences.max(), rel=1e-3)
    assert stated["lost_fraction"] == pytest.approx((valid & ~there).sum() / valid.sum(), abs=1e-6)


@pytest.mark.parametrize("take", TAKES)
def test_depth_on_the_images_grid(runs, take, method="nearest"):
    _, demo, meta = runs(resample(to="image", unit="m"))[take]
    assert demo["obs/camera_depth"].shape[:3] == demo["obs/camera_image"].shape[:3] == (len(demo["obs/pose"]), *IMAGE[take][::-1])
    check(runs()[take][1], demo, *axes(take, IMAGE[take]), method, unit="m")
    assert np.allclose(meta["camera_depth_intrinsics"][:], meta["intrinsics"][:], rtol=1e-6)
    info = json.loads(demo.attrs["camera_info"])
    assert [info["camera_depth"][side] for side in ("width", "height")] == [info["camera_image"][side] for side in ("width", "height")]
    assert np.allclose(info["camera_depth"]["intrinsics"], info["camera_image"]["intrinsics"], rtol=1e-6)
