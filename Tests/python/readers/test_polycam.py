"""Raw data of Polycam."""

import json
import shutil

import numpy as np
import pytest
from images import frame_code
from outputs import codes, finding
from phone_takes import absolute, converted, matrices, problem, truth
from PIL import Image
from system import share


def simulated(takeset, output, *arguments):
    takeset("simulate", "polycam", "--seconds", 3, "--size", "96x72", "--depth-size", "64x48", "--output", output, *arguments, check=0)
    return output


def numbers(folder):
    return json.loads((folder / "truth.json").read_text())["frames"]


@pytest.fixture(scope="module")
def capture(takeset, tmp_path_factory):
    return simulated(takeset, tmp_path_factory.mktemp("polycam") / "capture_1")


@pytest.mark.parametrize("cameras", ["auto", "corrected", "raw"])
def test_keyframes_are_paired_by_their_time(takeset, capture, tmp_path, cameras):
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
def test_worlds_are_never_mixed(takeset, tmp_path, quirk):
    source = simulated(takeset, tmp_path / "in", "--quirk", quirk)
    entry, demo, _ = converted(takeset, tmp_path, source)
    assert entry["variant"] == "raw" and np.abs(matrices(demo["obs/pose"][:]) - truth(source)[0]).max() < 1e-5
    assert entry["details"]["corrected_keyframes"] == (0 if quirk == "not-corrected" else len(numbers(source)) // 2)


def test_corrected_cameras_that_are_not_there_are_asked_for(takeset, tmp_path):
    source = simulated(takeset, tmp_path / "in", "--quirk", "not-corrected")
    entry = converted(takeset, tmp_path, source, check=3, reader="{name: polycam, cameras: corrected}")
    assert problem(entry)["code"] == "poses-missing" and "no corrected cameras" in problem(entry)["message"]


def test_a_keyframe_without_depth_is_masked(takeset, tmp_path):
    source = simulated(takeset, tmp_path / "in", "--quirk", "missing-depth")
    entry, demo, meta = converted(takeset, tmp_path, source)
    assert finding(entry, "depth-missing")["count"] == 1 and meta["streams/camera_depth/valid"][2] == 0
    assert not demo["obs/camera_depth"][2].any() and demo["obs/camera_depth"][3].any()


def test_a_damaged_camera_costs_its_keyframe(takeset, capture, tmp_path):
    source = shutil.copytree(capture, tmp_path / "capture")
    path = sorted((source / "keyframes/corrected_cameras").iterdir())[3]
    path.write_text(path.read_text()[:50])
    entry, _, meta = converted(takeset, tmp_path, source)
    assert int(path.stem) not in meta["source_index"][:] and any(f["code"] == "pose-unusable" and f.get("file") for f in entry["findings"])


def test_without_usable_cameras_it_fails_with_a_sentence(takeset, capture, tmp_path):
    source = shutil.copytree(capture, tmp_path / "capture")
    for path in (source / "keyframes/corrected_cameras").iterdir():
        path.write_text(json.dumps({**json.loads(path.read_text()), "t_00": 5}))
    found = problem(converted(takeset, tmp_path, source, check=3))
    assert found["code"] == "too-few-poses" and "unusable" in found["message"]


def test_corrected_cameras_without_their_images_are_not_taken(takeset, capture, tmp_path):
    source = shutil.copytree(capture, tmp_path / "capture")
    for path in sorted((source / "keyframes/corrected_images").iterdir())[2:]:
        path.unlink()
    entry, demo, _ = converted(takeset, tmp_path, source)
    assert entry["variant"] == "raw" and len(demo["obs/pose"]) == len(numbers(capture))


@pytest.mark.slow
def test_damaged_files_harm_nothing_else(takeset, capture, tmp_path):
    """A thousand captures, in each of which a few files are damaged."""
    chance = np.random.default_rng(1)
    stems = sorted(path.stem for path in (capture / "keyframes/cameras").iterdir())[:4]
    files = [path for path in sorted((capture / "keyframes").rglob("*.*")) if path.stem in stems]
    for number in range(share(1000)):
        for path in files:
            data = bytearray(path.read_bytes())
            if number % 100 and chance.random() < 0.1:
                for _ in range(3):
                    data[chance.integers(len(data))] = chance.integers(256)
                if chance.random() < 0.3:
                    del data[chance.integers(len(data)) :]
            target = tmp_path / f"in/c{number:04}" / path.relative_to(capture)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    done = takeset("run", tmp_path / "in", "--output", tmp_path / "out", "--progress", "none")
    assert done.returncode == 3, done.stderr[-2000:]
    assert takeset("verify", tmp_path / "out").returncode == 0
