"""Numbers, names and paths of a transforms.json that say what is not so: never a value that is made up, and never silence."""

import json
import math
import shutil

import numpy as np
import pytest
from geometry_oracle import matrices
from images import frame_code
from outputs import codes, finding
from phone_takes import Takes, edited, truth
from PIL import Image

OPTIONS = ["--seconds", 0.7, "--size", "96x72", "--depth-size", "48x36"]
COUNT = 21


def scene(change):
    return edited("transforms.json", change)


def each(change):
    return scene(lambda found: [change(frame, place) for place, frame in enumerate(found["frames"])])


def with_member(**members):
    return scene(lambda found: found.update(members))


def of_frame(number, **members):
    return scene(lambda found: found["frames"][number].update(members))


SCALES = {"zero": 0, "negative": -1, "text": "2", "tiny": 1e-40, "infinite": math.inf, "huge": 1e300, "not a number": math.nan}
WRONG = {f"{key} {name}": (with_member(**{key: value}), "json-type", "expected a number") for key in ("applied_scale", "depth_unit_scale_factor") for name, value in SCALES.items()}
WRONG |= {
    "focal length of text": (with_member(fl_x="72"), "json-type", "the text"),
    "width of a frame of text": (of_frame(3, w="96", h=72), "json-type", "the text"),
    "half a pixel": (with_member(w=96.5), "json-type", "whole pixels"),
    "time of text": (of_frame(2, timestamp="0.1"), "json-type", "the text"),
    "path that is a number": (of_frame(4, file_path=4), "json-type", "expected text"),
    "one image for all": (each(lambda frame, _: frame.update(file_path="images/frame_1.jpg")), "too-few-images", "name an image that an earlier one names"),
    "another kind": (each(lambda frame, _: frame.update(file_path=frame["file_path"].replace("jpg", "webp"))), "too-few-images", "neither JPEG nor PNG"),
    "deep": (each(lambda frame, _: frame.update(file_path="data/" + frame["file_path"][2:])), "too-few-images", "a folder within a folder"),
    "copies": (each(lambda frame, _: frame.update(file_path=frame["file_path"].replace("images", "images_2"))), "too-few-images", "smaller copies"),
    "letters": (each(lambda frame, _: frame.update(file_path=frame["file_path"].upper())), "too-few-images", "upper and lower case"),
    "absolute": (each(lambda frame, _: frame.update(file_path="C:\\" + frame["file_path"])), "too-few-images", "do not begin at transforms.json"),
    "outside": (each(lambda frame, _: frame.update(file_path="../other/1.jpg")), "too-few-images", "lead out"),
    "no paths": (each(lambda frame, _: frame.pop("file_path")), "too-few-images", "missing or empty"),
    "damaged depth": (lambda take: [path.write_bytes(b"no PNG") for path in (take / "depth").iterdir()], "depth-undecodable", "none of its 21 depth maps"),
    "divided": (lambda take: divided(take), "format-unsupported", "transforms_test.json, transforms_train.json"),
    "UTF-16": (lambda take: recoded(take, "utf-16"), "json-invalid", "UTF-16"),
}


def divided(take):
    found = json.loads((take / "transforms.json").read_text())
    for part in "train", "test":
        (take / f"transforms_{part}.json").write_text(json.dumps(found))
    (take / "transforms.json").unlink()


def recoded(take, encoding):
    path = take / "transforms.json"
    path.write_bytes(path.read_text().encode(encoding))


def with_own_sizes(found):
    for frame in found["frames"]:
        del frame["depth_file_path"]
    for frame in found["frames"][1::2]:
        frame.update({key: 2 * found[key] for key in ("w", "h", "fl_x", "fl_y", "cx", "cy")})


def without_sizes(found):
    focal = found.pop("fl_x")
    found["camera_angle_x"] = 2 * math.atan(found["w"] / 2 / focal)
    for key in ("fl_y", "cx", "cy", "w", "h", "camera_model"):
        found.pop(key)


def moved(factor, offset):
    def change(frame, _):
        for axis, row in enumerate(frame["transform_matrix"][:3]):
            row[3] = row[3] * factor + offset[axis]

    return each(change)


def with_upscaled_depth(take):
    for path in (take / "depth").iterdir():
        Image.fromarray(np.asarray(Image.open(path)).repeat(30, 0).repeat(30, 1)).save(path)


def only_some(found, frames=(3, 7)):
    for place in frames:
        found["frames"][place]["file_path"] = found["frames"][place]["file_path"].replace("jpg", "webp")
        found["frames"][place + 1]["depth_file_path"] = "../depth.png"


MAP = (465_912.25, 5_247_310.5, 408)
CHANGES = {
    "twice": scene(lambda found: found["frames"][5].update(file_path=found["frames"][4]["file_path"])),
    "backslashes": each(lambda frame, _: frame.update(file_path=frame["file_path"].replace("/", "\\"), depth_file_path=frame["depth_file_path"].replace("/", "\\"))),
    "mark": lambda take: recoded(take, "utf-8-sig"),
    "own sizes": scene(with_own_sizes), "angle only": scene(without_sizes), "fisheye": with_member(camera_model="OPENCV_FISHEYE"),
    "equirectangular": with_member(camera_model="EQUIRECTANGULAR"), "fisheye of instant-ngp": with_member(is_fisheye=True, camera_model=None),
    "no center": with_member(cx=0, cy=0), "half a camera": scene(lambda found: found.pop("cx")), "millimeters": moved(1000, (0, 0, 0)), "on a map": moved(1, MAP),
    "nowhere": scene(lambda found: found["frames"][6]["transform_matrix"][1].__setitem__(3, 1e30)),
    "identity": each(lambda frame, _: frame.update(transform_matrix=np.eye(4).tolist())), "upscaled": with_upscaled_depth, "some": scene(only_some),
    "another size": with_member(w=192, h=144), "three quarters": with_member(fl_x=54, fl_y=54, cx=36, cy=27),
}


@pytest.fixture(scope="module")
def takes(takeset, tmp_path_factory):
    return Takes(takeset, tmp_path_factory.mktemp("scenes"), "transforms-json", OPTIONS, {"plain": []} | CHANGES | WRONG, reader="{name: transforms-json, fps: 30}")


def images(demo):
    return [frame_code(image) for image in demo["obs/camera_image"][:]]


def test_wrong_scenes_fail_with_the_cause(takes):
    takes.fail()


@pytest.mark.parametrize("name", ["plain", "backslashes", "mark"])
def test_a_sound_scene_has_no_finding_of_these(takes, name):
    _, entry, demo, meta = takes[name]
    assert set(codes(entry)) == {"times-assumed", "scale-claimed"} and images(demo) == list(range(COUNT)) == meta["source_index"][:].tolist()
    assert np.array_equal(demo["obs/camera_depth"][:], takes["plain"][2]["obs/camera_depth"][:])


def test_an_image_that_two_frames_name_is_used_once(takes):
    _, entry, demo, meta = takes["twice"]
    assert finding(entry, "poses-duplicate")["count"] == 1 and meta["source_index"][:].tolist() == [n for n in range(COUNT) if n != 5]
    assert images(demo) == meta["source_index"][:].tolist()


def test_intrinsics_of_a_frame_are_for_its_own_size(takes):
    _, entry, _, meta = takes["own sizes"]
    assert finding(entry, "intrinsics-scaled")["count"] == COUNT // 2
    assert np.allclose(np.reshape(meta["intrinsics"][:], (-1, 4)), [72, 72, 48, 36])


def test_intrinsics_of_another_size_are_scaled(takes):
    assert np.ravel(takes["another size"][3]["intrinsics"][:])[:4].tolist() == pytest.approx([36, 36, 24, 18])


def test_an_angle_needs_no_size(takes):
    _, entry, _, meta = takes["angle only"]
    assert np.ravel(meta["intrinsics"][:])[:4].tolist() == pytest.approx([72, 72, 48, 36]) and "intrinsics-absent" not in codes(entry)


@pytest.mark.parametrize("name", ["fisheye", "equirectangular", "fisheye of instant-ngp", "no center", "half a camera"])
def test_numbers_that_are_no_pinhole_are_said(takes, name):
    _, entry, _, meta = takes[name]
    assert "intrinsics" not in meta and finding(entry, "intrinsics-unusable")


def test_a_center_away_from_the_middle_is_said(takes):
    assert finding(takes["three quarters"][1], "intrinsics-implausible")


def test_millimeters_beside_meters_are_a_jump(takes):
    assert finding(takes["millimeters"][1], "pose-jump")["count"] > COUNT / 2


def test_positions_on_a_map_keep_their_motion(takes):
    _, entry, demo, _ = takes["on a map"]
    found, expected = demo["obs/pose"][:, :3].astype(float), truth(takes.inputs / "plain")[0][:, :3, 3]
    assert np.abs((found - found[0]) - (expected - expected[0])).max() < 1e-5
    assert np.abs(found + np.round(MAP) - expected - MAP).max() < 3 and finding(entry, "positions-far")


def test_a_position_that_is_none_costs_its_frame(takes):
    _, entry, demo, meta = takes["nowhere"]
    assert 6 not in meta["source_index"][:] and finding(entry, "pose-unusable")["count"] == 1 and np.isfinite(demo["obs/pose"][:]).all()


def test_poses_that_nobody_measured_are_not_written(takes):
    _, entry, demo, _ = takes["identity"]
    assert "pose" not in demo["obs"] and "identity" in finding(entry, "pose-unusable")["message"] and images(demo) == list(range(COUNT))


def test_depth_of_the_size_of_images_is_read(takes):
    source, _, demo, _ = takes["upscaled"]
    stored = np.asarray(Image.open(source / "depth/frame_8.png"))
    assert stored.shape == (1080, 1440) and np.array_equal(demo["obs/camera_depth"][7, ..., 0], stored)


def test_every_path_that_is_not_read_has_its_cause(takes):
    _, entry, _, meta = takes["some"]
    found = finding(entry, "image-missing")
    assert found["count"] == 2 and "2 paths of files that are neither JPEG nor PNG, such as frames[3]" in found["message"]
    found = finding(entry, "depth-missing")
    assert found["count"] == 2 and "2 paths that lead out of the folder" in found["message"] and {3, 7}.isdisjoint(meta["source_index"][:])


def test_no_pose_is_infinite_whatever_was_said(takes):
    for name in CHANGES:
        demo = takes[name][2]
        assert "pose" not in demo["obs"] or np.isfinite(matrices(demo["obs/pose"][:])).all(), name


def test_a_divided_scene_in_a_zip_is_named(takeset, takes, tmp_path):
    folder = tmp_path / "lego"
    shutil.copytree(takes.inputs / "divided", folder)
    archive = shutil.make_archive(tmp_path / "lego", "zip", folder)
    done = takeset("run", archive, "--output", tmp_path / "out", check=3)
    assert "transforms_train.json" in done.stdout + done.stderr
