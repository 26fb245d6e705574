"""crop: pixels, depth and intrinsics of the box, against slices of the uncropped dataset."""

import json

import pytest
from geometry_oracle import MAPS, Runs, different, fails_everywhere, outward, steps_file, window, with_camera
from outputs import check_digests, codes, manifest
from scans import session as scan
from videos import video_file

SIZES = {"scan": ((160, 120), (32, 24)), "v1": ((96, 72), (64, 48)), "pour": ((160, 120), None)}
TAKES = list(SIZES)
WITH_DEPTH = ["scan", "v1"]

# Swift's CropTests have boxes by their center or aspect ratio.
BOX = (13, 7, 61, 50)
CROP = {"crop": {"box": list(BOX)}}


@pytest.fixture(scope="module")
def runs(takeset, tmp_path_factory):
    takes = {"scan": scan(times="time"), "v1": with_camera(), "pour.mov": video_file(count=6)}
    return Runs(takeset, tmp_path_factory.mktemp("crop"), takes)


@pytest.mark.parametrize("take", TAKES)
def test_images_are_the_box_of_the_uncropped_ones(runs, take):
    (_, demo, meta), (_, whole, _), (x, y, width, height) = runs(CROP)[take], runs()[take], BOX
    images = demo["obs/camera_image"]
    assert images.shape[1:] == images.chunks[1:] == (height, width, 3)
    assert (images[:] == whole["obs/camera_image"][:, y : y + height, x : x + width]).all()
    assert check_digests(demo, meta) > 5


@pytest.mark.parametrize("take", WITH_DEPTH)
def test_depth_and_confidence_are_the_same_field_of_view_in_whole_pixels(runs, take):
    (_, demo, _), (_, whole, _) = runs(CROP)[take], runs()[take]
    around = outward(BOX, *SIZES[take])
    names = [n for n in MAPS if n in whole["obs"]]
    assert len(names) == (3 if take == "scan" else 2)
    for one in names:
        stored = demo["obs"][one][:]
        assert stored.shape[1:] == (around[3], around[2], 1) and (stored == window(whole["obs"][one][:], around)).all(), one


def test_nothing_else_changes(runs):
    for take in TAKES:
        _, demo, meta = whole = runs()[take]
        expected = {f"data/obs/{name}" for name in ["camera_image", *MAPS] if name in demo["obs"]}
        expected |= {f"meta/{name}" for name in ("intrinsics", "camera_depth_intrinsics") if name in meta}
        assert different(runs({"crop": {"center": [50, 40]}})[take], whole) == expected


def test_the_dataset_is_valid_and_a_plan_foresees_it(runs):
    output = runs.is_foreseen(CROP)
    (step,) = [s for s in manifest(output)["record"]["pipeline"]["transforms"] if "crop" in json.dumps(s)]
    assert "61" in json.dumps(step)


# Boxes that do not fit


def write_small(directory):
    """A session whose images do not decode, but for the first."""
    small = with_camera()
    small.rgb = {number: data if number == 0 else data[:200] for number, data in small.rgb.items()}
    small.write(directory)


@pytest.mark.parametrize("options", [{"box": [90, 0, 7, 10]}, {"center": [10, 73]}, {"box": [0, 0, 8192, 8192]}], ids=str)
def test_a_box_that_does_not_fit_fails_the_take(takeset, tmp_path, options):
    """The images of the larger take contain the box; those of the smaller one would not decode, which is not found out."""
    write_small(tmp_path / "in/small")
    if options.get("box") != [0, 0, 8192, 8192]:
        scan(times="time").write(tmp_path / "in/large")
    entry = fails_everywhere(takeset, tmp_path / "in", tmp_path, "small", {"crop": options})
    assert entry["findings"][-1]["code"] == "crop-outside" and entry["findings"][-1]["severity"] == "error"
    assert "96x72" in entry["reason"] or "96" in entry["reason"] and "72" in entry["reason"]
    assert not {"image-undecodable", "images-undecodable"} & {f["code"] for f in entry["findings"]}
    arguments = steps_file(tmp_path, {"crop": options})
    (inspected,) = json.loads(takeset("inspect", tmp_path / "in/small", "--json", *arguments, check=3).stdout)["takes"]
    assert inspected["would_be"] == "failed" and "crop-outside" in codes(inspected)  # and what it finds by decoding images


def test_undecodable_images_are_found_by_a_crop_that_fits(takeset, tmp_path):
    """The other side of the test above: within the box, the same images fail the take for another reason."""
    write_small(tmp_path / "in/small")
    takeset.convert(tmp_path / "in", output=tmp_path / "out", check=3, arguments=steps_file(tmp_path, {"crop": {"center": [96, 72]}}))
    (entry,) = manifest(tmp_path / "out")["record"]["takes"]
    assert entry["outcome"] == "failed" and entry["findings"][-1]["code"] != "crop-outside"
