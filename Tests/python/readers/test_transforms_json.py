"""Captures with a transforms.json: of nerfstudio, of NeRFCapture, and of Takeset's own export."""

import json

import numpy as np
import pytest
from geometry_oracle import matrices
from images import frame_code
from outputs import demos, finding
from phone_takes import Takes, broken, converted, edited, problem, quirks, truth
from PIL import Image

FPS = "{name: transforms-json, fps: 30}"


OPTIONS = ["--seconds", 0.7, "--size", "96x72", "--depth-size", "64x48"]


def simulated(takeset, output, *arguments):
    takeset("simulate", "transforms-json", *OPTIONS, "--output", output, *arguments, check=0)
    return output


@pytest.fixture(scope="module")
def takes(takeset, tmp_path_factory):
    found = {"plain": []} | quirks("shuffled", "camera-angle+no-depth", "distortion", "finer-depth") | WRONG | {"no image": without_an_image}
    found |= {name: edited("transforms.json", change) for name, change in EDITED.items()}
    return Takes(takeset, tmp_path_factory.mktemp("scenes"), "transforms-json", OPTIONS, found, reader=FPS)


@pytest.mark.parametrize("order", ["plain", "shuffled"])
def test_frames_at_a_rate_are_in_the_order_of_their_names(takes, order):
    source, entry, demo, meta = takes[order]
    expected, _ = truth(source)
    count = len(expected)
    assert entry["reader"] == "transforms-json" and entry["variant"] == "nerfstudio" and finding(entry, "times-assumed")
    assert [frame_code(image) for image in demo["obs/camera_image"][:]] == list(range(count))
    assert np.abs(matrices(demo["obs/pose"][:]) - expected).max() < 1e-5
    frames = json.loads((source / "transforms.json").read_text())["frames"]
    places = [next(place for place, one in enumerate(frames) if one["file_path"].endswith(f"frame_{n + 1}.jpg")) for n in range(count)]
    assert meta["source_index"][:].tolist() == places and (order == "plain") == (places == list(range(count)))
    assert np.abs(meta["timestamp_ns"][:] - np.arange(count) * 1e9 / 30).max() < 1
    for row in range(count):
        assert np.array_equal(demo["obs/camera_depth"][row, ..., 0], np.asarray(Image.open(source / f"depth/frame_{row + 1}.png")))
    assert meta["intrinsics"][0].tolist() == pytest.approx([72, 72, 48, 36])
    assert demo["obs/pose"].attrs["world_axes"] == "that of transforms.json" and demo["obs/pose"].attrs["unit"] == "m (claimed)"


def test_no_clock_is_made_up(takeset, takes, tmp_path):
    found = problem(converted(takeset, tmp_path, takes.inputs / "plain", check=3))
    assert found["code"] == "times-missing" and "fps" in found["message"] and found["file"] == "transforms.json"


def test_frames_with_times_are_in_their_order(takeset, tmp_path):
    source = simulated(takeset, tmp_path / "in", "--quirk", "times", "--quirk", "shuffled")
    _, demo, meta = converted(takeset, tmp_path, source)
    expected, times = truth(source)
    assert np.abs(meta["timestamp_ns"][:] - times).max() <= 20 and np.abs(matrices(demo["obs/pose"][:]) - expected).max() < 1e-5


def test_captures_of_nerfcapture_have_no_metric_depth(takeset, tmp_path):
    source = simulated(takeset, tmp_path / "in", "--form", "nerfcapture")
    entry, demo, meta = converted(takeset, tmp_path, source)
    expected, times = truth(source)
    assert entry["variant"] == "nerfcapture" and finding(entry, "depth-not-metric") and "camera_depth" not in demo["obs"]
    assert [frame_code(image) for image in demo["obs/camera_image"][:]] == list(range(len(expected)))
    assert np.abs(matrices(demo["obs/pose"][:]) - expected).max() < 1e-5 and np.abs(meta["timestamp_ns"][:] - times).max() <= 20
    assert sorted(meta["source_index"][:]) == list(range(len(expected))) and meta["source_index"][:].tolist() != list(range(len(expected)))
    assert "y up" in demo["obs/pose"].attrs["world_axes"] and demo["obs/pose"].attrs["unit"] == "m"


def test_the_camera_may_be_an_angle(takes):
    _, entry, demo, meta = takes["camera-angle+no-depth"]
    assert meta["intrinsics"][0].tolist() == pytest.approx([72, 72, 48, 36]) and demo["obs/pose"].attrs["unit"] == "arbitrary"
    assert finding(entry, "scale-arbitrary")


def test_distortion_is_said(takes):
    for name, word in ("distortion", "k1"), ("distortion of a frame", "p1"):
        _, entry, _, _ = takes[name]
        assert word in finding(entry, "distortion-ignored")["message"]


def test_depth_may_have_another_unit(takes):
    source, _, demo, _ = takes["finer-depth"]
    stored = np.asarray(Image.open(source / "depth/frame_1.png"))
    assert np.allclose(demo["obs/camera_depth"][0, ..., 0], stored * 1e-4, rtol=1e-6) and demo["obs/camera_depth"].attrs["unit"] == "m"


def test_what_the_export_writes_reads_back(takeset, tmp_path):
    takeset("simulate", "record3d", "--seconds", 0.7, "--size", "96x128", "--depth-size", "48x64", "--form", "folder", "--output", tmp_path / "take", check=0)
    takeset.convert(tmp_path / "take", output=tmp_path / "first")
    takeset("export", tmp_path / "first", "--to", "nerfstudio", "--output", tmp_path / "export", check=0)
    (tmp_path / "again").mkdir()
    entry, demo, meta = converted(takeset, tmp_path / "again", tmp_path / "export/take")
    ((first, first_meta),) = demos(tmp_path / "first").values()
    turn = np.eye(4)
    turn[:3, :3] = [[0, 0, 1], [1, 0, 0], [0, 1, 0]]
    assert np.abs(matrices(demo["obs/pose"][:]) - turn @ matrices(first["obs/pose"][:])).max() < 1e-5
    assert demo["obs/pose"].attrs["world_axes"].startswith("z up")
    assert np.array_equal(np.diff(meta["timestamp_ns"][:]), np.diff(first_meta["timestamp_ns"][:]))
    assert np.allclose(meta["intrinsics"][:], first_meta["intrinsics"][:], rtol=1e-6)
    assert np.abs(demo["obs/camera_depth"][:].astype(float) / 1000 - first["obs/camera_depth"][:]).max() < 6e-4


def with_intrinsics_of_each_frame(found):
    for place, frame in enumerate(found["frames"]):
        frame["fl_x"], frame["fl_y"], frame["cx"], frame["cy"] = 70 + place, 71 + place, 47, 35


def with_half_the_scale(found):
    found["applied_scale"] = 0.5
    for frame in found["frames"]:
        for row in frame["transform_matrix"][:3]:
            row[3] *= 0.5


def as_of_instant_ngp(found):
    found["integer_depth_scale"] = 0.0005
    for frame in found["frames"]:
        frame["depth_path"] = frame.pop("depth_file_path")


EDITED = {
    "intrinsics": with_intrinsics_of_each_frame, "half the scale": with_half_the_scale, "instant-ngp": as_of_instant_ngp,
    "distortion of a frame": lambda found: found["frames"][3].update(p1=0.01),
}


def test_intrinsics_of_each_frame_come_first(takes):
    _, _, _, meta = takes["intrinsics"]
    assert meta["intrinsics"][5].tolist() == [75, 76, 47, 35]


def test_a_scale_that_was_applied_is_undone(takes):
    _, _, demo, _ = takes["half the scale"]
    assert np.abs(matrices(demo["obs/pose"][:]) - truth(takes.inputs / "plain")[0]).max() < 1e-5


def test_depth_of_instant_ngp_is_not_taken_for_meters(takes):
    _, entry, demo, _ = takes["instant-ngp"]
    assert entry["variant"] == "nerfstudio" and "camera_depth" not in demo["obs"] and "instant-ngp" in finding(entry, "depth-not-metric")["message"]
    assert demo["obs/pose"].attrs["unit"] == "arbitrary"


WRONG = broken("transforms.json") | {
    "no frames": (edited("transforms.json", lambda f: f.pop("frames")), "json-type", "the key is missing"),
    "an empty list": (edited("transforms.json", lambda f: f.update(frames=[])), "no-frames", "the list of frames is empty"),
    "frames of text": (edited("transforms.json", lambda f: f.update(frames="x")), "json-type", "expected a list"),
    "matrices of nine": (edited("transforms.json", lambda f: [one.update(transform_matrix=[[1, 0, 0]] * 3) for one in f["frames"]]), "too-few-poses", "unusable"),
    "paths out": (edited("transforms.json", lambda f: [one.update(file_path="../" + one["file_path"]) for one in f["frames"]]), "too-few-images", "at least half"),
    "absolute paths": (edited("transforms.json", lambda f: [one.update(file_path="/etc/passwd") for one in f["frames"]]), "too-few-images", "at least half"),
}


def test_wrong_takes_fail_with_a_sentence(takes):
    takes.fail()


def without_an_image(take):
    (take / "images/frame_4.jpg").unlink()


def test_a_missing_image_costs_its_frame(takes):
    _, entry, demo, meta = takes["no image"]
    assert 3 not in meta["source_index"][:] and finding(entry, "image-missing")["count"] == 1
    assert [frame_code(image) for image in demo["obs/camera_image"][:]] == meta["source_index"][:].tolist()
