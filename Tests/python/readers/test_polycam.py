"""Raw data of Polycam."""

import json

import numpy as np
import pytest
from geometry_oracle import matrices
from images import frame_code
from outputs import codes, finding
from phone_takes import Takes, absolute, converted, problem, quirks, truth
from PIL import Image


def numbers(folder):
    return json.loads((folder / "truth.json").read_text())["frames"]


def without_the_end_of_a_camera(take):
    path = sorted((take / "keyframes/corrected_cameras").iterdir())[3]
    path.write_text(path.read_text()[:50])


def without_usable_cameras(take):
    for path in (take / "keyframes/corrected_cameras").iterdir():
        path.write_text(json.dumps({**json.loads(path.read_text()), "t_00": 5}))


def without_most_corrected_images(take):
    for path in sorted((take / "keyframes/corrected_images").iterdir())[2:]:
        path.unlink()


@pytest.fixture(scope="module")
def takes(takeset, tmp_path_factory):
    found = {"capture_1": []} | quirks("not-corrected", "half-corrected", "missing-depth")
    found |= {"cut camera": without_the_end_of_a_camera, "few images": without_most_corrected_images, "no cameras": (without_usable_cameras, "too-few-poses", "unusable")}
    options = ["--seconds", 3, "--size", "96x72", "--depth-size", "64x48"]
    return Takes(takeset, tmp_path_factory.mktemp("polycam"), "polycam", options, found)


@pytest.mark.parametrize("cameras", ["auto", "corrected", "raw"])
def test_keyframes_are_paired_by_their_time(takeset, takes, tmp_path, cameras):
    capture = takes.inputs / "capture_1"
    entry, demo, meta = converted(takeset, tmp_path, capture, reader=f"{{name: polycam, cameras: {cameras}}}")
    key = "camera_to_world" if cameras == "raw" else "corrected_camera_to_world"
    expected, times = truth(capture, key)
    assert entry["reader"] == "polycam" and entry["variant"] == ("raw" if cameras == "raw" else "corrected")
    assert np.abs(matrices(demo["obs/pose"][:]) - expected).max() < 1e-5
    assert (meta["source_index"][:] * 1000 == times).all() and (absolute(meta) == times).all()
    assert [frame_code(image) for image in demo["obs/camera_image"][:]] == numbers(capture)
    for row, stem in enumerate(meta["source_index"][:]):
        assert np.array_equal(demo["obs/camera_depth"][row, ..., 0], np.asarray(Image.open(capture / f"keyframes/depth/{stem}.png")))
        stored = np.asarray(Image.open(capture / f"keyframes/confidence/{stem}.png"))
        assert set(np.unique(stored)) <= {0, 127, 255}
        assert np.array_equal(demo["obs/camera_depth_confidence"][row, ..., 0], np.searchsorted([0, 127, 255], stored))
        camera = json.loads((capture / f"keyframes/cameras/{stem}.json").read_text())
        assert meta["intrinsics"][row].tolist() == pytest.approx([camera[name] for name in ("fx", "fy", "cx", "cy")], rel=1e-6)
    assert finding(entry, "keyframes-only") and "frames-dropped" not in codes(entry)


@pytest.mark.parametrize("quirk", ["not-corrected", "half-corrected"])
def test_worlds_are_never_mixed(takes, quirk):
    source, entry, demo, _ = takes[quirk]
    assert entry["variant"] == "raw" and np.abs(matrices(demo["obs/pose"][:]) - truth(source)[0]).max() < 1e-5
    assert entry["details"]["corrected_keyframes"] == (0 if quirk == "not-corrected" else len(numbers(source)) // 2)


def test_corrected_cameras_that_are_not_there_are_asked_for(takeset, takes, tmp_path):
    entry = converted(takeset, tmp_path, takes.inputs / "not-corrected", check=3, reader="{name: polycam, cameras: corrected}")
    assert problem(entry)["code"] == "poses-missing" and "no corrected cameras" in problem(entry)["message"]


def test_a_keyframe_without_depth_is_masked(takes):
    _, entry, demo, meta = takes["missing-depth"]
    assert finding(entry, "depth-missing")["count"] == 1 and meta["streams/camera_depth/valid"][2] == 0
    assert not demo["obs/camera_depth"][2].any() and demo["obs/camera_depth"][3].any()


def test_a_damaged_camera_costs_its_keyframe(takes):
    source, entry, _, meta = takes["cut camera"]
    path = sorted((source / "keyframes/corrected_cameras").iterdir())[3]
    assert int(path.stem) not in meta["source_index"][:] and any(f["code"] == "pose-unusable" and f.get("file") for f in entry["findings"])


def test_without_usable_cameras_it_fails_with_a_sentence(takes):
    takes.fail()


def test_corrected_cameras_without_their_images_are_not_taken(takes):
    source, entry, demo, _ = takes["few images"]
    assert entry["variant"] == "raw" and len(demo["obs/pose"]) == len(numbers(source))
