"""Captures with a transforms.json: of nerfstudio, of NeRFCapture, and of Takeset's own export."""

import json
import shutil

import numpy as np
import pytest
from images import frame_code
from outputs import demos, finding
from phone_takes import converted, matrices, problem, truth
from PIL import Image
from system import share

FPS = "{name: transforms-json, fps: 30}"


def simulated(takeset, output, *arguments, form="nerfstudio"):
    sizes = ["--size", "96x72", "--depth-size", "64x48"]
    takeset("simulate", "transforms-json", "--form", form, "--seconds", 0.7, *sizes, "--output", output, *arguments, check=0)
    return output


@pytest.fixture(scope="module")
def scene(takeset, tmp_path_factory):
    return simulated(takeset, tmp_path_factory.mktemp("scene") / "scene_1")


def edited(folder, change):
    path = folder / "transforms.json"
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))
    return folder


@pytest.mark.parametrize("order", ["plain", "shuffled"])
def test_frames_at_a_rate_are_in_the_order_of_their_names(takeset, tmp_path, order):
    source = simulated(takeset, tmp_path / "in", *(["--quirk", "shuffled"] if order == "shuffled" else []))
    entry, demo, meta = converted(takeset, tmp_path, source, reader=FPS)
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


def test_no_clock_is_made_up(takeset, scene, tmp_path):
    found = problem(converted(takeset, tmp_path, scene, check=3))
    assert found["code"] == "times-missing" and "fps" in found["message"] and found["file"] == "transforms.json"


def test_frames_with_times_are_in_their_order(takeset, tmp_path):
    source = simulated(takeset, tmp_path / "in", "--quirk", "times", "--quirk", "shuffled")
    _, demo, meta = converted(takeset, tmp_path, source)
    expected, times = truth(source)
    assert np.abs(meta["timestamp_ns"][:] - times).max() <= 20 and np.abs(matrices(demo["obs/pose"][:]) - expected).max() < 1e-5


def test_captures_of_nerfcapture_have_no_metric_depth(takeset, tmp_path):
    source = simulated(takeset, tmp_path / "in", form="nerfcapture")
    entry, demo, meta = converted(takeset, tmp_path, source)
    expected, times = truth(source)
    assert entry["variant"] == "nerfcapture" and finding(entry, "depth-not-metric") and "camera_depth" not in demo["obs"]
    assert [frame_code(image) for image in demo["obs/camera_image"][:]] == list(range(len(expected)))
    assert np.abs(matrices(demo["obs/pose"][:]) - expected).max() < 1e-5 and np.abs(meta["timestamp_ns"][:] - times).max() <= 20
    assert sorted(meta["source_index"][:]) == list(range(len(expected))) and meta["source_index"][:].tolist() != list(range(len(expected)))
    assert "y up" in demo["obs/pose"].attrs["world_axes"] and demo["obs/pose"].attrs["unit"] == "m"


def test_the_camera_may_be_an_angle(takeset, tmp_path):
    source = simulated(takeset, tmp_path / "in", "--quirk", "camera-angle", "--quirk", "no-depth")
    entry, demo, meta = converted(takeset, tmp_path, source, reader=FPS)
    assert meta["intrinsics"][0].tolist() == pytest.approx([72, 72, 48, 36]) and demo["obs/pose"].attrs["unit"] == "arbitrary"
    assert finding(entry, "scale-arbitrary")


def test_distortion_is_said(takeset, tmp_path):
    source = simulated(takeset, tmp_path / "in", "--quirk", "distortion")
    entry, _, _ = converted(takeset, tmp_path, source, reader=FPS)
    assert "k1" in finding(entry, "distortion-ignored")["message"]


def test_depth_may_have_another_unit(takeset, tmp_path):
    source = simulated(takeset, tmp_path / "in", "--quirk", "finer-depth")
    _, demo, _ = converted(takeset, tmp_path, source, reader=FPS)
    stored = np.asarray(Image.open(source / "depth/frame_1.png"))
    assert np.allclose(demo["obs/camera_depth"][0, ..., 0], stored * 1e-4, rtol=1e-6) and demo["obs/camera_depth"].attrs["unit"] == "m"


def test_intrinsics_of_each_frame_come_first(takeset, scene, tmp_path):
    def change(found):
        for place, frame in enumerate(found["frames"]):
            frame["fl_x"], frame["fl_y"], frame["cx"], frame["cy"] = 70 + place, 71 + place, 47, 35

    source = edited(shutil.copytree(scene, tmp_path / "scene"), change)
    _, _, meta = converted(takeset, tmp_path, source, reader=FPS)
    assert meta["intrinsics"][5].tolist() == [75, 76, 47, 35]


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


def test_a_scale_that_was_applied_is_undone(takeset, scene, tmp_path):
    def change(found):
        found["applied_scale"] = 0.5
        for frame in found["frames"]:
            for row in frame["transform_matrix"][:3]:
                row[3] *= 0.5

    _, demo, _ = converted(takeset, tmp_path, edited(shutil.copytree(scene, tmp_path / "scene"), change), reader=FPS)
    assert np.abs(matrices(demo["obs/pose"][:]) - truth(scene)[0]).max() < 1e-5


def test_depth_of_instant_ngp_is_not_taken_for_meters(takeset, scene, tmp_path):
    def change(found):
        found["integer_depth_scale"] = 0.0005
        for frame in found["frames"]:
            frame["depth_path"] = frame.pop("depth_file_path")

    entry, demo, _ = converted(takeset, tmp_path, edited(shutil.copytree(scene, tmp_path / "scene"), change), reader=FPS)
    assert entry["variant"] == "nerfstudio" and "camera_depth" not in demo["obs"] and "instant-ngp" in finding(entry, "depth-not-metric")["message"]
    assert demo["obs/pose"].attrs["unit"] == "arbitrary"


def test_distortion_of_a_frame_is_said(takeset, scene, tmp_path):
    source = edited(shutil.copytree(scene, tmp_path / "scene"), lambda found: found["frames"][3].update(p1=0.01))
    entry, _, _ = converted(takeset, tmp_path, source, reader=FPS)
    assert "p1" in finding(entry, "distortion-ignored")["message"]


WRONG = {
    "no frames": (lambda f: f.pop("frames"), "json-type", "the key is missing"),
    "an empty list": (lambda f: f.update(frames=[]), "no-frames", "the list of frames is empty"),
    "frames of text": (lambda f: f.update(frames="x"), "json-type", "expected a list"),
    "matrices of nine": (lambda f: [one.update(transform_matrix=[[1, 0, 0]] * 3) for one in f["frames"]], "too-few-poses", "unusable"),
    "paths that lead out": (lambda f: [one.update(file_path="../" + one["file_path"]) for one in f["frames"]], "too-few-images", "at least half"),
    "absolute paths": (lambda f: [one.update(file_path="/etc/passwd") for one in f["frames"]], "too-few-images", "at least half"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_files_fail_with_a_sentence(takeset, scene, tmp_path, name):
    change, code, words = WRONG[name]
    source = edited(shutil.copytree(scene, tmp_path / "scene"), change)
    found = problem(converted(takeset, tmp_path, source, check=3, reader=FPS))
    assert found["code"] == code and words in found["message"], found


@pytest.mark.parametrize("data", [b"", b"{", b"[1, 2]", b"\xff" * 100], ids=["empty", "cut", "list", "bytes"])
def test_a_damaged_file_fails_with_a_sentence(takeset, scene, tmp_path, data):
    source = shutil.copytree(scene, tmp_path / "scene")
    (source / "transforms.json").write_bytes(data)
    assert problem(converted(takeset, tmp_path, source, check=3, reader=FPS))["code"] in ("json-invalid", "json-type", "file-empty")


def test_a_missing_image_costs_its_frame(takeset, scene, tmp_path):
    source = shutil.copytree(scene, tmp_path / "scene")
    (source / "images/frame_4.jpg").unlink()
    entry, demo, meta = converted(takeset, tmp_path, source, reader=FPS)
    assert 3 not in meta["source_index"][:] and finding(entry, "image-missing")["count"] == 1
    assert [frame_code(image) for image in demo["obs/camera_image"][:]] == meta["source_index"][:].tolist()


@pytest.mark.slow
def test_damaged_files_harm_nothing_else(takeset, tmp_path):
    """A thousand captures, in each of which a few files are damaged."""
    chance = np.random.default_rng(1)
    source = tmp_path / "source"
    takeset("simulate", "transforms-json", "--seconds", 0.1, "--size", "64x48", "--depth-size", "8x6", "--quirk", "times", "--output", source, check=0)
    files = [path for path in sorted(source.rglob("*.*")) if path.is_file() and path.name != "truth.json"]
    for number in range(share(1000)):
        for path in files:
            data = bytearray(path.read_bytes())
            if number % 100 and chance.random() < 0.3:
                for _ in range(3):
                    data[chance.integers(len(data))] = chance.integers(256)
                if chance.random() < 0.3:
                    del data[chance.integers(len(data)) :]
            target = tmp_path / f"in/c{number:04}" / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    done = takeset("run", tmp_path / "in", "--output", tmp_path / "out", "--progress", "none")
    assert done.returncode == 3, done.stderr[-2000:]
    assert takeset("verify", tmp_path / "out").returncode == 0
