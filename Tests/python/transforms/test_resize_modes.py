"""resize-image: sizes, pixels and fields of view of its modes, against Pillow and NumPy."""

import io
from fractions import Fraction

import numpy as np
import pytest
from geometry_oracle import MAPS, Runs, boxed, covering, different, fitted, moved, outward, window
from outputs import check_digests
from PIL import Image
from scan_checks import camera_info
from scans import session as scan
from stack_sessions import jpeg, v1
from videos import video_file

SIZES = {"v1": ((200, 150), (64, 48)), "scan": ((160, 120), (32, 24)), "pour": ((160, 120), None)}
WITH_DEPTH = ["v1", "scan"]
BOXES = [(101, 88), (77, 110), (133, 112)]
MODES = ["fit", "cover", "letterbox", "stretch"]
QUICK = [(101, 88)]


def boxes(*found):
    """These boxes as parameters, of which the quick tier has half."""
    return pytest.mark.parametrize("box", [pytest.param(box, marks=[] if box in QUICK else pytest.mark.slow) for box in found], ids=str)


def session():
    found = v1()
    found.rgb = {number: jpeg(number, (200, 150)) for number in found.rgb}
    found.metadata |= {"rgbResolution": [200, 150], "cameraIntrinsics": {"fx": 150.5, "fy": 151.25, "cx": 99.25, "cy": 76.75}}
    return found


@pytest.fixture(scope="module")
def runs(takeset, tmp_path_factory):
    return Runs(takeset, tmp_path_factory.mktemp("resize"), {"v1": session(), "scan": scan(times="time"), "pour.mov": video_file(count=6)})


def placed(size, box, mode):
    """The size to which an image of `size` is scaled, and the box of it that is stored, which may begin before it."""
    if mode == "cover":
        return covering(size, box)
    if mode == "letterbox":
        return boxed(size, box)
    scaled = fitted(size, box) if mode == "fit" else box
    return scaled, (0, 0, *scaled)


def resize(box, mode, **options):
    return {"resize-image": {"width": box[0], "height": box[1], "mode": mode} | options}


def by_pillow(number, scaled):
    image = Image.open(io.BytesIO(jpeg(number, (200, 150))))
    return np.array(image.resize(scaled, Image.Resampling.BILINEAR))


@pytest.mark.parametrize("mode", MODES)
@boxes(*(box for box in BOXES if box[0] > 100 and box[1] > 75))
def test_pixels_are_pillows(runs, mode, box):
    """Boxes larger than half the image, so that no JPEG is decoded at a lower resolution."""
    _, demo, meta = runs(resize(box, mode))["v1"]
    scaled, part = placed((200, 150), box, mode)
    for row in 0, 17, 39:
        expected = window(by_pillow(meta["source_index"][row], scaled)[None], part)[0].astype(int)
        assert np.abs(demo["obs/camera_image"][row].astype(int) - expected).max() <= 1


@pytest.mark.parametrize("take", WITH_DEPTH)
@pytest.mark.parametrize("mode", MODES)
@boxes(*BOXES)
def test_intrinsics_are_exact_and_depth_and_confidence_keep_the_images_field_of_view(runs, take, mode, box):
    (_, demo, meta), (_, whole, before) = runs(resize(box, mode))[take], runs()[take]
    (image, depth), (scaled, part) = SIZES[take], placed(SIZES[take][0], box, mode)
    assert np.allclose(meta["intrinsics"][:], moved(before["intrinsics"][:], image, scaled, part), rtol=1e-6, atol=1e-5)
    around = outward(part, scaled, depth)
    assert demo["obs/camera_image"].shape[1:] == demo["obs/camera_image"].chunks[1:] == (part[3], part[2], 3) and check_digests(demo, meta) > 5
    assert np.allclose(meta["camera_depth_intrinsics"][:], moved(before["camera_depth_intrinsics"][:], depth, depth, around), rtol=1e-6, atol=1e-5)
    assert camera_info(demo)[1] == part[2:] and camera_info(demo, "camera_depth")[1] == around[2:]
    assert around == (0, 0, *depth) or mode in ("cover", "letterbox")
    for name in MAPS:
        if name in whole["obs"]:
            assert np.array_equal(demo["obs"][name][:], window(whole["obs"][name][:], around)), name


# Images smaller than the box


def test_cover_and_stretch_make_exactly_the_size(runs):
    for mode in "cover", "stretch":
        _, demo, _ = runs(resize((220, 230), mode))["v1"]
        scaled, part = placed((200, 150), (220, 230), mode)
        expected = window(by_pillow(7, scaled)[None], part)[0].astype(int)
        assert np.abs(demo["obs/camera_image"][7].astype(int) - expected).max() <= 2


def test_images_that_are_small_enough_keep_their_size(runs):
    """`when-larger-than` holds in every mode: 160x120 stays, 200x150 does not."""
    for mode in MODES:
        found = runs(resize((100, 100), mode, **{"when-larger-than": 160}))
        for take in "scan", "pour":
            assert not different(found[take], runs()[take])
        assert found["v1"][1]["obs/camera_image"].shape[1:3] == placed((200, 150), (100, 100), mode)[1][:1:-1]


def test_jpegs_that_shrink_to_half_or_less_are_close_too(runs):
    """They are decoded at a lower resolution, which costs about one gray level on average."""
    for mode in "cover", "letterbox":
        box = (50, 60)
        _, demo, meta = runs(resize(box, mode))["v1"]
        scaled, part = placed((200, 150), box, mode)
        for row in 0, 20:
            expected = window(by_pillow(meta["source_index"][row], scaled)[None], part)[0].astype(int)
            assert np.abs(demo["obs/camera_image"][row].astype(int) - expected).mean() < 2.5


# Steps after it


def chain(seed):
    """Crops and resizes one after another, that fit both takes."""
    random, steps, (width, height) = np.random.default_rng(seed), [], (160, 120)
    for _ in range(3):
        if random.random() < 0.5:
            size = int(random.integers(8, width)), int(random.integers(8, height))
            box = int(random.integers(0, width - size[0] + 1)), int(random.integers(0, height - size[1] + 1)), *size
            steps.append({"crop": {"box": list(box)}})
        else:
            size = int(random.choice([24, 32, 40, 50, 60, 64, 72])), int(random.choice([18, 24, 30, 36, 45, 54]))
            steps.append(resize(size, str(random.choice(["cover", "letterbox", "stretch"]))))
        width, height = size
    return steps


def after(steps, image, depth):
    """Exactly, by fractions: the size of the image, and the box of the depth map, in its pixels, to which the steps lead."""
    scale, shift, size, box = [Fraction(1)] * 2, [Fraction(0)] * 2, image, (0, 0, *depth)
    for step in steps:
        ((name, options),) = step.items()
        mode = options.get("mode")
        scaled, part = (size, options["box"]) if name == "crop" else placed(size, (options["width"], options["height"]), mode)
        ratio = [Fraction(scaled[k], size[k]) for k in (0, 1)]
        scale, shift = [scale[k] * ratio[k] for k in (0, 1)], [shift[k] * ratio[k] - part[k] for k in (0, 1)]
        size = tuple(part[2:])
        if mode != "stretch":
            view = [-shift[k] / scale[k] for k in (0, 1)] + [size[k] / scale[k] for k in (0, 1)]
            box = outward(view, image, depth)
    return size, box


@pytest.mark.parametrize("seed", range(12))
def test_chains_of_steps_keep_the_exact_field_of_view(runs, seed):
    """No error of rounding adds a row or a column of depth, however often the grids have changed."""
    found = runs(*chain(seed))
    for take in WITH_DEPTH:
        _, demo, meta = found[take]
        size, box = after(chain(seed), *SIZES[take])
        assert demo["obs/camera_image"].shape[1:3] == size[::-1]
        assert demo["obs/camera_depth"].shape[1:3] == box[:1:-1]
        expected = runs()[take][2]["camera_depth_intrinsics"][:] - [0, 0, *box[:2]]
        assert np.allclose(meta["camera_depth_intrinsics"][:], expected, rtol=1e-6, atol=1e-4)


def test_a_plan_foresees_every_size(runs):
    for mode in "cover", "letterbox":
        runs.is_foreseen(resize((101, 88), mode))
