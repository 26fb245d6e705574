"""resample-depth: every method, mask and unit against an oracle in exact and 64-bit arithmetic; holes never leak into values."""

import json
from fractions import Fraction

import numpy as np
import pytest
from geometry_oracle import Axis, Runs, fails_everywhere, moved, outward, refused, resampled, steps_file
from outputs import check_digests, demos, manifest
from scans import session as scan
from scipy.ndimage import map_coordinates
from stack_sessions import v1

IMAGE, DEPTH = {"scan": (160, 120), "meters": (96, 72)}, {"scan": (32, 24), "meters": (28, 21)}
TAKES = ["scan", "meters"]
METHODS = ["nearest", "area", "bilinear", "edge-aware"]
GRIDS = {"down": (20, 18), "half": (16, 12), "far down": (7, 5), "up": (45, 40), "one side": (32, 18), "same": (32, 24), "one pixel": (1, 1)}
# In the quick tier a coarser, a finer and the coarsest grid are enough.
MANY_GRIDS = [pytest.param(grid, marks=[] if grid in ("down", "up", "one pixel") else pytest.mark.slow) for grid in GRIDS]
EDGE = 0.0503  # no whole millimeters differ by just this share


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
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("grid", MANY_GRIDS)
def test_every_method_on_every_grid(runs, take, method, grid):
    width, height = GRIDS[grid]
    _, demo, meta = runs(resample(width=width, height=height, method=method, edge=EDGE, unit="m"))[take]
    check(runs()[take][1], demo, *axes(take, (width, height)), method, unit="m", edge=EDGE)
    cameras = moved(runs()[take][2]["camera_depth_intrinsics"][:], DEPTH[take], (width, height), (0, 0))
    assert np.allclose(meta["camera_depth_intrinsics"][:], cameras, rtol=1e-6)
    assert check_digests(demo, meta) > 5


@pytest.mark.parametrize("take", TAKES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("options", [
    {"min_confidence": 2}, {"max_range": 2.0003}, {"min_confidence": 1, "max_range": 1.5003, "unit": "m"},
    pytest.param({"min_confidence": 1}, marks=pytest.mark.slow), pytest.param({"min_confidence": 0, "unit": "m"}, marks=pytest.mark.slow),
], ids=str)
def test_masks(runs, take, method, options):
    """Confidence that a take lacks masks nothing."""
    _, demo, _ = runs(resample(width=20, height=18, method=method, edge=EDGE, **options))[take]
    limits = {"least": options.get("min_confidence", 0), "reach": options.get("max_range", np.inf)}
    check(runs()[take][1], demo, *axes(take, (20, 18)), method, unit=options.get("unit"), edge=EDGE, **limits)


@pytest.mark.parametrize("take", TAKES)
@pytest.mark.parametrize("options", [
    {"min_confidence": 2, "unit": "m"}, {"max_range": 2.0003}, {"unit": "m"}, {"unit": "mm", "max_range": 60},
], ids=str)
def test_without_a_size_the_grid_stays(runs, take, options):
    _, demo, meta = runs(resample(**options))[take]
    limits = {"least": options.get("min_confidence", 0), "reach": options.get("max_range", np.inf)}
    check(runs()[take][1], demo, *axes(take, None), "nearest", unit=options.get("unit"), **limits)
    assert (meta["camera_depth_intrinsics"][:] == runs()[take][2]["camera_depth_intrinsics"][:]).all()


@pytest.mark.parametrize("edge", [0, 0.0103, 0.2003, 0.9])
def test_the_edge(runs, edge):
    for take in TAKES:
        _, demo, _ = runs(resample(width=45, height=40, method="edge-aware", edge=edge, unit="m"))[take]
        check(runs()[take][1], demo, *axes(take, (45, 40)), "edge-aware", unit="m", edge=edge)


def test_edge_aware_values_stay_near_the_surface_that_they_belong_to(runs):
    """Averages across the steps of the scene exist with bilinear weights, and not with edge-aware ones."""
    def between(method):
        _, demo, _ = runs(resample(width=45, height=40, method=method, unit="m"))["scan"]
        depth, valid, _, _ = source(runs()["scan"][1])
        x, y = axes("scan", (45, 40))
        near = depth[:, y.nearest][:, :, x.nearest] / 1000
        found = demo["obs/camera_depth"][..., 0]
        return (np.abs(found - near)[found > 0] > 0.051 * near[found > 0]).mean()

    assert between("bilinear") > 0.05 and between("edge-aware") == between("nearest") == 0


# Units


def test_millimeters_are_rounded_half_up(takeset, tmp_path):
    found = scan(times="time")
    for number in found.depth:
        found.depth[number] = (1000 + number + np.arange(24)[:, None] % 2 + np.zeros((24, 32), int)).astype(np.uint16)
    runs = Runs(takeset, tmp_path, {"scan": found})
    for options in {}, {"unit": "mm"}:
        _, demo, _ = runs(resample(width=32, height=12, method="area", **options))["scan"]
        depth = demo["obs/camera_depth"]
        assert depth.dtype == np.uint16 and depth.attrs["unit"] == "mm"
        assert (depth[..., 0] == 1001 + np.arange(20)[:, None, None]).all()  # the mean of n and n + 1
    exact = runs(resample(width=32, height=12, method="area", unit="m"))["scan"][1]["obs/camera_depth"][..., 0]
    assert np.allclose(exact, 1.0005 + np.arange(20)[:, None, None] / 1000, rtol=1e-6)


def test_meters_that_no_millimeters_represent_are_absent(takeset, tmp_path):
    """Neither wrapped nor cut: 16 bits end at 65.535 m, and 0 means no value."""
    found = meters()
    values = np.full((21, 28), 1.5, "<f4")
    values[0, :6] = [65.5349, 65.536, 70, 1e30, 0.0004, 0.0006]
    found.depth[0] = values.tobytes()
    _, demo, _ = Runs(takeset, tmp_path, {"meters": found})(resample(unit="mm"))["meters"]
    assert demo["obs/camera_depth"][0, 0, :7, 0].tolist() == [65535, 0, 0, 0, 0, 1, 1500]
    assert demo["obs/camera_depth_valid"][0, 0, :7, 0].tolist() == [1, 0, 0, 0, 0, 1, 1]


def test_a_dataset_has_one_unit_by_default(runs, takeset):
    output = runs.output(default=True)
    found = demos(output)
    assert {demo["obs/camera_depth"].attrs["unit"] for demo, _ in found.values()} == {"m"}
    for take in TAKES:
        check(runs()[take][1], found[take][0], *axes(take, None), "nearest", unit="m")
        assert found[take][0]["obs/camera_depth_valid"].attrs["sha256"] == runs()[take][1]["obs/camera_depth_valid"].attrs["sha256"]
    takeset("verify", output, check=0)


# On the image's grid


@pytest.mark.parametrize("take", TAKES)
@pytest.mark.parametrize("method", ["nearest", pytest.param("area", marks=pytest.mark.slow), "bilinear", "edge-aware"])
def test_depth_on_the_images_grid(runs, take, method):
    _, demo, meta = runs(resample(to="image", method=method, edge=EDGE, unit="m"))[take]
    assert demo["obs/camera_depth"].shape[:3] == demo["obs/camera_image"].shape[:3] == (len(demo["obs/pose"]), *IMAGE[take][::-1])
    check(runs()[take][1], demo, *axes(take, IMAGE[take]), method, unit="m", edge=EDGE)
    assert np.allclose(meta["camera_depth_intrinsics"][:], meta["intrinsics"][:], rtol=1e-6)
    info = json.loads(demo.attrs["camera_info"])
    assert [info["camera_depth"][side] for side in ("width", "height")] == [info["camera_image"][side] for side in ("width", "height")]
    assert np.allclose(info["camera_depth"]["intrinsics"], info["camera_image"]["intrinsics"], rtol=1e-6)


@pytest.mark.parametrize("take", TAKES)
@pytest.mark.parametrize("method", METHODS)
def test_after_a_crop_the_sub_pixel_offset_counts(runs, take, method):
    """The depth map's box is larger than the image's by parts of a pixel, which the image's grid cuts off again."""
    box = 13, 7, 61, 50
    _, demo, meta = runs({"crop": {"box": list(box)}}, resample(to="image", method=method, edge=EDGE, unit="m"))[take]
    _, cropped, _ = runs({"crop": {"box": list(box)}})[take]
    around = outward(box, IMAGE[take], DEPTH[take])
    ratio = [Fraction(DEPTH[take][k], IMAGE[take][k]) for k in (0, 1)]
    x, y = (Axis(around[2 + k], box[2 + k], ratio[k], box[k] * ratio[k] - around[k]) for k in (0, 1))
    check(cropped, demo, x, y, method, unit="m", edge=EDGE)
    assert np.allclose(meta["camera_depth_intrinsics"][:], meta["intrinsics"][:], rtol=1e-6)


def test_beyond_the_field_of_view_there_is_no_depth(runs):
    """The padding of a letterbox has no depth, even where the depth map's own padding begins outside of it."""
    letterbox = {"resize-image": {"width": 90, "height": 91, "mode": "letterbox"}}
    for method in METHODS:
        for take in TAKES:
            _, demo, meta = runs(letterbox, resample(to="image", method=method, unit="m"))[take]
            valid, image = demo["obs/camera_depth_valid"][..., 0], demo["obs/camera_image"]
            inside = image[:].any((0, 2, 3))
            top, height = int(inside.argmax()), int(inside.sum())
            assert valid.shape == image.shape[:3] and valid[:, top : top + height].any()
            assert not valid[:, :top].any() and not valid[:, top + height :].any()
            assert np.allclose(meta["camera_depth_intrinsics"][:], meta["intrinsics"][:], rtol=1e-6)


def test_without_intrinsics_there_is_no_grid_of_the_image(takeset, tmp_path):
    """The depth maps are not read: they would not decode."""
    unknown = meters()
    del unknown.metadata["cameraIntrinsics"]
    unknown.depth = {number: b"too short" for number in unknown.depth}
    unknown.write(tmp_path / "in/unknown")
    meters().write(tmp_path / "in/known")
    entry = fails_everywhere(takeset, tmp_path / "in", tmp_path, "unknown", resample(to="image"))
    assert "intrinsics" in entry["reason"] and entry["findings"][-1]["severity"] == "error"


# Nothing leaks


def garbage_scan(seed):
    """A scan whose pixels of confidence 0 have random depth, and whose holes have random confidence; all else is the same for all seeds."""
    found, random = millimeters(), np.random.default_rng(seed)
    for number, depth in found.depth.items():
        confidence = found.confidence[number].copy()
        depth[confidence == 0] = random.integers(0, 65536, (confidence == 0).sum())
        hole = (depth == 0) & (confidence > 0)
        confidence[hole] = random.integers(1, 3, hole.sum())
        found.confidence[number] = confidence
    return found


@pytest.fixture(scope="module")
def garbage(takeset, tmp_path_factory):
    takes = {"scan a": garbage_scan(1), "scan b": garbage_scan(2), "meters a": meters()}
    takes["meters b"] = meters((np.nan, -1, np.inf, -np.inf, -0.0, -1e30))
    return Runs(takeset, tmp_path_factory.mktemp("garbage"), takes)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("options", [
    {"width": 20, "height": 18}, {"to": "image"}, {"unit": "m", "max_range": 2.0},
    pytest.param({"width": 45, "height": 40}, marks=pytest.mark.slow), pytest.param({"unit": "mm"}, marks=pytest.mark.slow),
], ids=str)
def test_no_value_depends_on_an_invalid_pixel(garbage, method, options):
    found = garbage(resample(method=method, min_confidence=1, **options))
    for take in TAKES:
        (_, one, _), (_, other, _) = found[f"{take} a"], found[f"{take} b"]
        assert one["obs/camera_depth_valid"][:].any() and not one["obs/camera_depth_valid"][:].all()
        for name in "camera_depth", "camera_depth_valid":
            assert one["obs"][name].attrs["sha256"] == other["obs"][name].attrs["sha256"] and (one["obs"][name][:] == other["obs"][name][:]).all()
        if take == "scan":
            valid = one["obs/camera_depth_valid"][:] > 0
            a, b = (demo["obs/camera_depth_confidence"][:][valid] for demo in (one, other))
            assert (a == b).all() and a.min() >= 1


def test_beyond_the_range_values_do_not_matter(takeset, tmp_path):
    near, far = millimeters(), millimeters()
    for number in far.depth:
        far.depth[number] = np.where(far.depth[number] > 2000, 60000, far.depth[number]).astype(np.uint16)
    runs = Runs(takeset, tmp_path, {"near": near, "far": far})
    for method in METHODS:
        found = runs(resample(width=20, height=18, method=method, max_range=2.0005))
        one, other = found["near"][1]["obs"], found["far"][1]["obs"]
        assert (one["camera_depth"][:] == other["camera_depth"][:]).all() and (one["camera_depth_valid"][:] == other["camera_depth_valid"][:]).all()


# The record


def error(whole, demo):
    """Of each depth value and the new one at its place: the mean and the largest difference in meters, and how many have no new one."""
    depth, valid, _, unit = source(whole)
    new, there, _, new_unit = source(demo)
    scales = {"m": 1, "mm": 1000}
    rows, columns = (Axis(new.shape[k], depth.shape[k]).nearest for k in (1, 2))
    new, there = new[:, rows][:, :, columns], there[:, rows][:, :, columns]
    differences = np.abs(new / scales[new_unit] - depth / scales[unit])[valid & there]
    return {"maps": len(depth), "mean_m": differences.mean(), "max_m": differences.max(), "lost_fraction": (valid & ~there).sum() / valid.sum()}


def stated(runs, take, **options):
    """What the record says of a step, and the demo that it made."""
    entry, demo, _ = runs(resample(**options))[take]
    return entry["details"]["depth_resampling"], demo


@pytest.mark.parametrize("take", TAKES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("grid", MANY_GRIDS)
def test_the_record_states_the_error(runs, take, method, grid):
    width, height = GRIDS[grid]
    found, demo = stated(runs, take, width=width, height=height, method=method, edge=EDGE, unit="m")
    assert found == pytest.approx(error(runs()[take][1], demo), rel=1e-5, abs=1e-7)


def test_the_record_of_a_changed_unit(runs):
    """In millimeters nothing is lost, and rounding costs at most half of one, a quarter on average."""
    found, demo = stated(runs, "meters", unit="mm")
    assert found == pytest.approx(error(runs()["meters"][1], demo), rel=1e-4)
    assert 0.0004 < found["max_m"] <= 0.000501 and found["mean_m"] == pytest.approx(0.00025, rel=0.1) and found["lost_fraction"] == 0
    assert stated(runs, "scan", unit="m")[0]["max_m"] < 1e-6
    # Nothing was resampled.
    assert "depth_resampling" not in runs()["scan"][0].get("details", {})


def test_averages_across_steps_are_farther_from_the_source(runs):
    across, beside = (stated(runs, "scan", width=45, height=40, method=method)[0] for method in ("bilinear", "edge-aware"))
    assert across["mean_m"] > 2 * beside["mean_m"] and across["max_m"] > 0.3


def test_a_plan_foresees_it(runs, takeset, tmp_path):
    step = resample(to="image", method="area", unit="mm", min_confidence=1)
    output = runs.output(step)
    takeset("verify", output, check=0)
    planned = json.loads(takeset("plan", runs.inputs, "--json", *steps_file(tmp_path, step), check=0).stdout)
    for entry in planned["takes"]:
        (depth,) = [d for d in entry["datasets"] if d["path"] == "/data/demo_0/obs/camera_depth"]
        assert depth["dtype"] == "<u2" and tuple(depth["shape"]) == demos(output)[entry["id"]][0]["obs/camera_depth"].shape
    assert all(entry["outcome"] == "written" for entry in manifest(output)["record"]["takes"])


# The oracle


def test_the_oracle_agrees_with_others_where_nothing_is_missing():
    depth, there = np.random.default_rng(1).uniform(1, 3, (24, 32)), np.ones((24, 32), bool)
    halves, _, _ = resampled(depth, there, None, Axis(32, 16), Axis(24, 12), "area")
    assert np.allclose(halves, depth.reshape(12, 2, 16, 2).mean((1, 3)))
    values, valid, _ = resampled(depth, there, None, Axis(32, 45), Axis(24, 40), "bilinear")
    rows, columns = ((np.arange(40) + 0.5) * 24 / 40 - 0.5)[:, None], (np.arange(45) + 0.5) * 32 / 45 - 0.5
    expected = map_coordinates(depth, np.broadcast_arrays(rows, columns), order=1, mode="nearest")
    assert np.allclose(values, expected) and valid.all()
    aware, _, _ = resampled(depth, there, None, Axis(32, 45), Axis(24, 40), "edge-aware", edge=10)
    assert np.allclose(aware, expected)


def test_the_oracle_by_hand():
    """Two pixels of which one is a hole: half of the area is enough, a third is not."""
    depth, valid = np.array([[2.0, 9.0]]), np.array([[True, False]])
    confidence = np.array([[1, 0]])
    one = Axis(1, 1)
    assert [a.tolist() for a in resampled(depth, valid, confidence, Axis(2, 1), one, "area")] == [[[2.0]], [[True]], [[1]]]
    third = Axis(2, 1, Fraction(3, 4), Fraction(1, 2))  # from 0.5 to 1.25: two thirds are of the first
    assert resampled(depth, valid, confidence, third, one, "area")[1].all() and not resampled(depth, ~valid, confidence, third, one, "area")[1].any()
    values, there, least = resampled(depth, valid, confidence, Axis(2, 4), one, "bilinear")
    assert there.tolist() == [[True, True, False, False]] and values[0, :2].tolist() == [2, 2] and least[0, :2].tolist() == [1, 1]


# Mistakes

MISTAKES = [
    ({}, ""), ({"width": 20}, ""), ({"height": 20}, ""), ({"to": "image", "width": 20, "height": 18}, ""), ({"to": "image", "height": 18}, ""),
    ({"unit": "cm"}, ".unit"), ({"min-confidence": 3}, ".min-confidence"), ({"min-confidence": -1}, ".min-confidence"),
    ({"min-confidence": 1.5}, ".min-confidence"), ({"method": "cubic", "unit": "m"}, ".method"), ({"max-range": 0}, ".max-range"),
    ({"max-range": float("nan")}, ".max-range"), ({"max-range": -2}, ".max-range"), ({"width": 0, "height": 5}, ".width"),
    ({"width": 5, "height": 8193}, ".height"), ({"to": "pose"}, ".to"), ({"edge": -0.1, "unit": "m"}, ".edge"), ({"size": 5}, ".size"),
]


@pytest.mark.parametrize("options, path", MISTAKES, ids=str)
def test_mistakes_are_refused_by_their_path(runs, takeset, tmp_path, options, path):
    refused(takeset, runs.inputs, tmp_path, f"transforms[1].resample-depth{path}", {"resample-depth": options})
