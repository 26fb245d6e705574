"""crop: pixels, depth and intrinsics of the box, against slices of the uncropped dataset."""

import json

import numpy as np
import pytest
from command import ROOT
from geometry_oracle import Runs, arrays_of, fails_everywhere, moved, outward, refused, steps_file, window
from outputs import check_digests, codes, demos, manifest
from scan_checks import camera_info
from scans import session as scan
from stack_sessions import v1
from videos import video_file

SIZES = {"scan": ((160, 120), (32, 24)), "v1": ((96, 72), (64, 48)), "pour": ((160, 120), None)}
TAKES = list(SIZES)
WITH_DEPTH = ["scan", "v1"]
CAMERA = {"fx": 72.5, "fy": 73.25, "cx": 47.75, "cy": 36.5}
MAPS = ["camera_depth", "camera_depth_valid", "camera_depth_confidence"]

# Options of crop, and the box that they mean in an image of this width and height.
CROPS = {
    "box": ({"box": [13, 7, 61, 50]}, lambda w, h: (13, 7, 61, 50)),
    "box on the depth's grid": ({"box": [30, 15, 60, 45]}, lambda w, h: (30, 15, 60, 45)),
    "corner": ({"box": [95, 71, 1, 1]}, lambda w, h: (95, 71, 1, 1)),
    "everything of the small image": ({"box": [0, 0, 96, 72]}, lambda w, h: (0, 0, 96, 72)),
    "center": ({"center": [50, 40]}, lambda w, h: ((w - 50) // 2, (h - 40) // 2, 50, 40)),
    # Half a pixel does not exist: the odd one is cut at the end.
    "odd center": ({"center": [51, 37]}, lambda w, h: ((w - 51) // 2, (h - 37) // 2, 51, 37)),
    "square": ({"aspect": 1}, lambda w, h: ((w - h) // 2, 0, h, h)),
    "wide": ({"aspect": 1.6}, lambda w, h: (0, (h - round(w / 1.6)) // 2, w, round(w / 1.6))),
    "tall": ({"aspect": 0.75}, lambda w, h: ((w - h * 3 // 4) // 2, 0, h * 3 // 4, h)),
    "not whole": ({"aspect": 1.7}, lambda w, h: (0, (h - int(w / 1.7 + 0.5)) // 2, w, int(w / 1.7 + 0.5))),
    "as it is": ({"aspect": 4 / 3}, lambda w, h: (0, 0, w, h)),
}


def session():
    found = v1()
    found.metadata["cameraIntrinsics"] = CAMERA
    return found


@pytest.fixture(scope="module")
def runs(takeset, tmp_path_factory):
    takes = {"scan": scan(times="time"), "v1": session(), "pour.mov": video_file(count=6)}
    return Runs(takeset, tmp_path_factory.mktemp("crop"), takes)


def crop(runs, name, take):
    """What a crop makes of a take, the box in its image, and the uncropped take."""
    options, box = CROPS[name]
    return runs({"crop": options})[take], box(*SIZES[take][0]), runs()[take]


@pytest.mark.parametrize("take", TAKES)
@pytest.mark.parametrize("name", CROPS)
def test_images_are_the_box_of_the_uncropped_ones(runs, name, take):
    (_, demo, meta), (x, y, width, height), (_, whole, _) = crop(runs, name, take)
    images = demo["obs/camera_image"]
    assert images.shape[1:] == images.chunks[1:] == (height, width, 3)
    assert (images[:] == whole["obs/camera_image"][:, y : y + height, x : x + width]).all()
    assert check_digests(demo, meta) > 5


@pytest.mark.parametrize("take", WITH_DEPTH)
@pytest.mark.parametrize("name", CROPS)
def test_depth_and_confidence_are_the_same_field_of_view_in_whole_pixels(runs, name, take):
    (_, demo, _), box, (_, whole, _) = crop(runs, name, take)
    around = outward(box, *SIZES[take])
    names = [n for n in MAPS if n in whole["obs"]]
    assert len(names) == (3 if take == "scan" else 2)
    for one in names:
        stored = demo["obs"][one][:]
        assert stored.shape[1:] == (around[3], around[2], 1) and (stored == window(whole["obs"][one][:], around)).all(), one


@pytest.mark.parametrize("take, box, depth", [
    ("scan", [13, 7, 61, 50], (2, 1, 13, 11)), ("scan", [30, 15, 60, 45], (6, 3, 12, 9)), ("v1", [13, 7, 61, 50], (8, 4, 42, 34)),
    ("v1", [95, 71, 1, 1], (63, 47, 1, 1)),
])
def test_the_box_of_the_depth_map_by_hand(runs, take, box, depth):
    """13 / 5 = 2.6 and 74 / 5 = 14.8: columns 2 to 14."""
    _, demo, _ = runs({"crop": {"box": box}})[take]
    x, y, width, height = depth
    assert (demo["obs/camera_depth"][:] == runs()[take][1]["obs/camera_depth"][:, y : y + height, x : x + width]).all()
    assert demo["obs/camera_depth"].shape[1:3] == (height, width)


@pytest.mark.parametrize("take", WITH_DEPTH)
@pytest.mark.parametrize("name", CROPS)
def test_intrinsics_shift_exactly(runs, name, take):
    (_, demo, meta), box, (_, _, whole) = crop(runs, name, take)
    image, depth = SIZES[take]
    # All of these numbers are multiples of 1/32, so that 32-bit floats represent them and the difference.
    assert np.array_equal(meta["intrinsics"][:], whole["intrinsics"][:] - np.float32([0, 0, *box[:2]]))
    around = outward(box, image, depth)
    expected = moved(whole["camera_depth_intrinsics"][:], depth, depth, around)
    assert np.allclose(meta["camera_depth_intrinsics"][:], expected, rtol=1e-6, atol=2e-6)
    assert np.ptp(meta["intrinsics"][:, 0]) > 0 or take == "v1"
    assert camera_info(demo)[1] == box[2:] and camera_info(demo, "camera_depth")[1] == around[2:]
    principal = np.array(camera_info(runs()[take][1])[0]) - [0, 0, *box[:2]]
    assert np.allclose(camera_info(demo)[0], principal, rtol=1e-9)


@pytest.mark.parametrize("take", WITH_DEPTH)
def test_a_depth_map_keeps_its_sub_pixel_offset_to_the_image(runs, take):
    """A ray meets the image and the depth map where it met them before the crop, whatever is cut off."""
    image, depth = SIZES[take]
    for name in CROPS:
        (_, _, meta), box, _ = crop(runs, name, take)
        around = outward(box, image, depth)
        x, y = meta["intrinsics"][:, 2:].T.astype("f8") + np.array(box[:2])[:, None]
        u, v = meta["camera_depth_intrinsics"][:, 2:].T.astype("f8") + np.array(around[:2])[:, None]
        assert np.allclose([u * image[0], v * image[1]], [x * depth[0], y * depth[1]], rtol=1e-6)


@pytest.mark.parametrize("take", TAKES)
def test_a_crop_of_a_crop_is_one_crop(runs, take):
    twice = runs({"crop": {"box": [11, 5, 83, 61]}}, {"crop": {"box": [7, 9, 40, 31]}})[take]
    once = runs({"crop": {"box": [18, 14, 40, 31]}})[take]
    assert_same(arrays_of(*twice[1:]), arrays_of(*once[1:]))


def assert_same(one, other):
    assert one.keys() == other.keys() and len(one) > 8
    for path, array in one.items():
        assert np.array_equal(array, other[path], equal_nan=array.dtype.kind == "f"), path


def test_nothing_else_changes(runs):
    for take in TAKES:
        cropped, whole = (arrays_of(*found[take][1:]) for found in (runs({"crop": {"center": [50, 40]}}), runs()))
        changed = {path for path in whole if not np.array_equal(cropped[path], whole[path], equal_nan=whole[path].dtype.kind == "f")}
        expected = {f"data/obs/{name}" for name in ["camera_image", *MAPS] if f"data/obs/{name}" in whole}
        assert changed == expected | {f"meta/{name}" for name in ("intrinsics", "camera_depth_intrinsics") if f"meta/{name}" in whole}


def test_the_dataset_is_valid_and_a_plan_foresees_it(runs, takeset, tmp_path):
    steps = {"crop": CROPS["box"][0]}
    output = runs.output(steps)
    takeset("verify", output, check=0)
    planned = json.loads(takeset("plan", runs.inputs, "--json", *steps_file(tmp_path, steps), check=0).stdout)
    shapes = {t["id"]: {d["path"]: d["shape"] for d in t["datasets"]} for t in planned["takes"]}
    for name, (demo, _) in demos(output).items():
        for one in ["camera_image", *MAPS]:
            if one in demo["obs"]:
                assert tuple(shapes[name][f"/data/demo_0/obs/{one}"]) == demo["obs"][one].shape
    (step,) = [s for s in manifest(output)["record"]["pipeline"]["transforms"] if "crop" in json.dumps(s)]
    assert "61" in json.dumps(step)


# Boxes that do not fit

OUTSIDE = {
    "too wide": {"box": [90, 0, 7, 10]}, "too high": {"box": [0, 70, 10, 3]}, "elsewhere": {"box": [96, 72, 1, 1]},
    "larger": {"center": [97, 10]}, "higher": {"center": [10, 73]}, "huge": {"box": [0, 0, 8192, 8192]},
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_box_that_does_not_fit_fails_the_take(takeset, tmp_path, name):
    """The images of the larger take contain the box; those of the smaller one would not decode, which is not found out."""
    small = session()
    small.rgb = {number: data if number == 0 else data[:200] for number, data in small.rgb.items()}
    small.write(tmp_path / "in/small")
    if name != "huge":
        scan(times="time").write(tmp_path / "in/large")
    entry = fails_everywhere(takeset, tmp_path / "in", tmp_path, "small", {"crop": OUTSIDE[name]})
    assert entry["findings"][-1]["code"] == "crop-outside" and entry["findings"][-1]["severity"] == "error"
    assert "96x72" in entry["reason"] or "96" in entry["reason"] and "72" in entry["reason"]
    assert not {"image-undecodable", "images-undecodable"} & {f["code"] for f in entry["findings"]}
    arguments = steps_file(tmp_path, {"crop": OUTSIDE[name]})
    (inspected,) = json.loads(takeset("inspect", tmp_path / "in/small", "--json", *arguments, check=3).stdout)["takes"]
    assert inspected["would_be"] == "failed" and "crop-outside" in codes(inspected)  # and what it finds by decoding images


def test_undecodable_images_are_found_by_a_crop_that_fits(takeset, tmp_path):
    """The other side of the test above: within the box, the same images fail the take for another reason."""
    small = session()
    small.rgb = {number: data if number == 0 else data[:200] for number, data in small.rgb.items()}
    small.write(tmp_path / "in/small")
    takeset.convert(tmp_path / "in", output=tmp_path / "out", check=3, arguments=steps_file(tmp_path, {"crop": {"center": [96, 72]}}))
    (entry,) = manifest(tmp_path / "out")["record"]["takes"]
    assert entry["outcome"] == "failed" and entry["findings"][-1]["code"] != "crop-outside"


def test_the_finding_is_documented(takeset):
    assert "`crop-outside`" in (ROOT / "docs/findings.md").read_text()
    assert "crop" in takeset("explain", "crop-outside", check=0).stdout


def test_a_box_is_in_pixels_of_the_image_as_it_is_by_then(runs):
    """After a resize to 80x60, a box of 80 pixels is everything, and the field of view is the whole image's."""
    small = {"resize-image": {"width": 80, "height": 60}}
    for take in WITH_DEPTH:
        cropped, resized = runs(small, {"crop": {"box": [0, 0, 80, 60]}})[take], runs(small)[take]
        assert_same(arrays_of(*cropped[1:]), arrays_of(*resized[1:]))
        half = runs(small, {"crop": {"box": [40, 0, 40, 60]}})[take][1]
        depth = resized[1]["obs/camera_depth"][:]
        assert (half["obs/camera_depth"][:] == depth[:, :, depth.shape[2] // 2 :]).all()
        assert (half["obs/camera_image"][:] == resized[1]["obs/camera_image"][:, :, 40:]).all()


# Mistakes

MISTAKES = {
    "nothing": {}, "two": {"center": [10, 10], "aspect": 1}, "box and center": {"box": [0, 0, 9, 9], "center": [9, 9]},
    "all": {"box": [0, 0, 9, 9], "center": [9, 9], "aspect": 1}, "three numbers": {"box": [0, 0, 10]}, "five numbers": {"box": [0, 0, 10, 10, 10]},
    "no numbers": {"box": []}, "no width": {"box": [0, 0, 0, 10]}, "no height": {"box": [0, 0, 10, 0]}, "before the image": {"box": [-1, 0, 10, 10]},
    "negative": {"box": [0, 0, -10, 10]}, "half a pixel": {"box": [0.5, 0, 10, 10]}, "words": {"box": ["a", "b", "c", "d"]}, "one number": {"box": 5},
    "one side": {"center": [10]}, "three sides": {"center": [10, 10, 10]}, "empty center": {"center": [0, 10]}, "flat": {"aspect": 0},
    "negative aspect": {"aspect": -1.5}, "aspect in words": {"aspect": "4:3"}, "no number": {"aspect": float("nan")},
    "endless": {"aspect": float("inf")}, "unknown": {"left": 3}, "enormous": {"box": [0, 0, 10**19, 10]},
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_refused_by_their_path(runs, takeset, tmp_path, name):
    refused(takeset, runs.inputs, tmp_path, "transforms[1].crop", {"crop": MISTAKES[name]})


@pytest.mark.parametrize("option, value", [("box", [0, 0, 0, 10]), ("center", [10]), ("aspect", 0)])
def test_the_option_is_named(runs, takeset, tmp_path, option, value):
    refused(takeset, runs.inputs, tmp_path, f"transforms[1].crop.{option}", {"crop": {option: value}})
