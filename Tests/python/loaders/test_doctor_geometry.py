"""verify --for geometry: depth, poses and intrinsics of every simulated format agree, and every usual mistake is found and named."""

import json
import shutil

import h5py
import numpy as np
import pytest
from outputs import codes, finding, manifest, take
from PIL import Image
from scipy.spatial.transform import Rotation


@pytest.fixture(scope="module")
def dataset(takeset, tmp_path_factory):
    """A take of each format with depth and intrinsics."""
    out = tmp_path_factory.mktemp("geometry") / "out"
    root = out.parent / "in"
    small, maps = ["--size", "96x72"], ["--depth-size", "64x48"]
    takeset.simulate(root / "session", "--seconds", 1, *small, *maps)
    takeset("simulate", "stray-scanner", "--seconds", 1, *small, *maps, "--output", root / "stray", check=0)
    takeset("simulate", "record3d", "--seconds", 1, "--size", "72x96", "--depth-size", "48x64", "--form", "folder", "--output", root / "portrait", check=0)
    takeset("simulate", "record3d", "--seconds", 1, *small, *maps, "--form", "folder", "--output", root / "landscape", check=0)
    takeset("simulate", "3d-scanner-app", "--seconds", 4, *small, *maps, "--output", root / "scan", check=0)
    takeset("simulate", "polycam", "--seconds", 4, *small, *maps, "--output", root / "polycam", check=0)
    takeset("simulate", "iphumi", "--seconds", 1, *small, "--output", root / "umi", check=0)
    takeset("simulate", "transforms-json", "--seconds", 1, *small, *maps, "--quirk", "times", "--output", root / "scene", check=0)
    takeset.convert(root, output=out)
    return out


def checked(takeset, dataset, check):
    return json.loads(takeset("verify", "--for", "geometry", "--json", dataset, check=check).stdout)


def test_what_readers_make_agrees(takeset, dataset):
    assert {take["reader"] for take in manifest(dataset)["record"]["takes"]} >= {"stack-session", "stray-scanner", "record3d", "3d-scanner-app", "polycam", "iphumi"}
    found = checked(takeset, dataset, 0)
    # Sessions have no intrinsics of their depth.
    assert [(one["code"], one["episodes"]) for one in found["diagnoses"]] == [("geometry-unknown", ["session"])], found
    assert found["ready"] and found["episodes"] == 8


def turned(poses, axis, degrees):
    turn = Rotation.from_rotvec(np.deg2rad(degrees) * np.array(axis))
    return np.concatenate([poses[:, :3], (Rotation.from_quat(poses[:, 3:]) * turn).as_quat()], -1).astype("<f4")


def inverted(poses):
    rotation = Rotation.from_quat(poses[:, 3:]).inv()
    return np.concatenate([-rotation.apply(poses[:, :3]), rotation.as_quat()], -1).astype("<f4")


MISTAKES = {
    "clockwise": (lambda poses: turned(poses, (0, 0, 1), -90), "90 degrees clockwise"),
    "counterclockwise": (lambda poses: turned(poses, (0, 0, 1), 90), "90 degrees counterclockwise"),
    "upside down": (lambda poses: turned(poses, (0, 0, 1), 180), "180 degrees"),
    "axes": (lambda poses: turned(poses, (1, 0, 0), 180), "OpenCV's and OpenGL's"),
    "inverse": (inverted, "world to camera"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_every_usual_mistake_is_named(takeset, dataset, tmp_path, name):
    change, words = MISTAKES[name]
    copy = shutil.copytree(dataset, tmp_path / "out")
    for episode in ("stray", "portrait"):
        with h5py.File(copy / f"episodes/{episode}.h5", "r+") as file:
            poses = next(iter(file["data"].values()))["obs/pose"]
            poses[:] = change(poses[:])
    found = checked(takeset, copy, 2)
    wrong = [one for one in found["diagnoses"] if one["code"] == "geometry-contradictory"]
    assert {episode for one in wrong for episode in one["episodes"]} == {"stray", "portrait"} and not found["ready"]
    assert all(words in one["message"] for one in wrong), wrong


def test_the_figures_are_there_whatever_they_say(takeset, dataset):
    found = checked(takeset, dataset, 0)
    assert found["problems"] == [] and set(found["reprojections"]) == {take["id"] for take in manifest(dataset)["record"]["takes"]} - {"session"}
    for one in [found["reprojection"], *found["reprojections"].values()]:
        assert 0 <= one["median_mm"] <= one["p90_mm"] and one["median_mm"] < 30 and one["pairs"] > 0
    assert found["reprojection"]["pairs"] == sum(one["pairs"] for one in found["reprojections"].values())


def along_a_slope(file, turn):
    """The camera looks at a plane that is a meter farther away with each meter to the right, and moves to the right by 10 mm in 15 rows."""
    demo, meta = next(iter(file["data"].values())), next(iter(file["meta"].values()))
    poses, depth, (fx, _, cx, _) = demo["obs/pose"], demo["obs/camera_depth"], meta["camera_depth_intrinsics"][0]
    places = np.arange(len(poses)) * 0.01 / 15
    right = (np.arange(depth.shape[2]) + 0.5 - cx) / fx
    for row, place in enumerate(places):
        depth[row] = np.broadcast_to(((2 + place) / (1 - right))[None, :, None], depth.shape[1:])
    found = np.zeros((len(poses), 7))
    found[:, 0], found[:, 6] = places, 1
    poses[:] = turned(found, (0, 0, 1), turn)


@pytest.mark.parametrize("turn, code", [(0, 0), (90, 2)])
def test_a_wrong_turn_is_found_however_slowly_the_camera_moves(takeset, dataset, tmp_path, turn, code):
    copy = shutil.copytree(dataset, tmp_path / "out")
    with h5py.File(copy / "episodes/stray.h5", "r+") as file:
        along_a_slope(file, turn)
    found = checked(takeset, copy, code)
    assert found["reprojections"]["stray"]["median_mm"] < (30 if turn else 1)
    assert [one["episodes"] for one in found["problems"] if one["code"] == "reprojection"] == ([["stray"]] if turn else [])
    assert not turn or "90 degrees counterclockwise" in found["problems"][0]["message"]


def test_wrong_intrinsics_are_found(takeset, dataset, tmp_path):
    copy = shutil.copytree(dataset, tmp_path / "out")
    with h5py.File(copy / "episodes/stray.h5", "r+") as file:
        meta = next(iter(file["meta"].values()))
        meta["camera_depth_intrinsics"][:] *= [0.5, 0.5, 1, 1]
    found = checked(takeset, copy, 2)
    assert [one["episodes"] for one in found["diagnoses"] if one["code"] == "geometry-contradictory"] == [["stray"]]


def test_takes_of_which_nothing_can_be_said_are_named(takeset, tmp_path):
    takeset("simulate", "anysense", "--seconds", 1, "--size", "72x96", "--output", tmp_path / "in/any", check=0)
    takeset.simulate(tmp_path / "in/joints", "--variant", "v2", "--seconds", 1, "--size", "96x72")
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    found = {one["code"]: one["episodes"] for one in checked(takeset, tmp_path / "out", 2)["diagnoses"]}
    assert found == {"depth-missing": ["joints"], "geometry-unknown": ["any"]}


# While converting


APPS = {
    "stray-scanner": [], "record3d": [], "3d-scanner-app": ["--image-every", 2], "polycam": [], "iphumi": ["--size", "480x360"],
    "transforms-json": ["--quirk", "times"], "arkitscenes": [], "anysense": [],
}


@pytest.mark.slow
def test_takes_that_agree_have_no_finding(takeset, tmp_path):
    for app, options in APPS.items():
        takeset("simulate", app, "--seconds", 1, *options, "--output", tmp_path / "in" / app, check=0)
    takeset.convert(tmp_path / "in", output=tmp_path / "out", check=0)
    entries = {entry["id"]: codes(entry) for entry in manifest(tmp_path / "out")["record"]["takes"]}
    assert set(entries) == set(APPS) and not any("geometry-contradictory" in found for found in entries.values())


def with_poses(folder, change):
    """Record3D's are qx qy qz qw tx ty tz."""
    path = folder / "metadata"
    members = json.loads(path.read_text())
    poses = np.array(members["poses"])
    members["poses"] = np.roll(change(np.roll(poses, 3, axis=1)), -3, axis=1).astype(float).tolist()
    path.write_text(json.dumps(members))


def test_a_mistake_is_a_finding_of_the_take(takeset, tmp_path):
    takeset("simulate", "record3d", "--form", "folder", "--seconds", 2, "--output", tmp_path / "right", check=0)
    for name, (change, _) in MISTAKES.items():
        with_poses(shutil.copytree(tmp_path / "right", tmp_path / "in" / name), change)
    takeset.convert(tmp_path / "in", output=tmp_path / "out", check=0)
    for entry in manifest(tmp_path / "out")["record"]["takes"]:
        found = finding(entry, "geometry-contradictory")
        assert found["severity"] == "warning" and MISTAKES[entry["id"]][1] in found["message"], found
    assert len(manifest(tmp_path / "out")["record"]["takes"]) == len(MISTAKES)


def test_depth_along_the_rays_is_a_finding_of_the_take(takeset, tmp_path):
    takeset("simulate", "arkitscenes", "--seconds", 3, "--output", tmp_path / "in", check=0)
    width, height, fx, fy, cx, cy = [float(value) for value in next((tmp_path / "in").rglob("*.pincam")).read_text().split()]
    for path in (tmp_path / "in/lowres_depth").iterdir():
        depth = np.array(Image.open(path)).astype(float)
        x, y = ((np.arange(count) + 0.5) * side / count for count, side in zip(depth.shape[::-1], (width, height)))
        stretch = np.sqrt(1 + ((x[None] - cx) / fx) ** 2 + ((y[:, None] - cy) / fy) ** 2)
        Image.fromarray((depth * stretch).round().astype(np.uint16)).save(path)
    takeset.convert(tmp_path / "in", output=tmp_path / "out", check=0)
    assert "along the ray" in finding(take(tmp_path / "out", "in"), "geometry-contradictory")["message"]


def test_depth_of_any_unit_is_a_finding_and_no_crash(takeset, tmp_path):
    takeset("simulate", "transforms-json", "--seconds", 1, "--size", "96x72", "--depth-size", "64x48", "--quirk", "times", "--output", tmp_path / "in", check=0)
    path = tmp_path / "in/transforms.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"depth_unit_scale_factor": 1e6}))
    takeset.convert(tmp_path / "in", output=tmp_path / "out", arguments=["--isolate", "never"], check=0)
    assert take(tmp_path / "out", "in")["outcome"] == "written"


def test_intrinsics_of_another_size_are_a_finding_of_the_take(takeset, tmp_path):
    takeset("simulate", "record3d", "--form", "folder", "--seconds", 2, "--output", tmp_path / "in", check=0)
    path = tmp_path / "in/metadata"
    members = json.loads(path.read_text())
    members["K"] = [value * (0.35 if index in (0, 4) else 1) for index, value in enumerate(members["K"])]
    members.pop("perFrameIntrinsicCoeffs", None)
    path.write_text(json.dumps(members))
    takeset.convert(tmp_path / "in", output=tmp_path / "out", check=0)
    assert "mm" in finding(take(tmp_path / "out", "in"), "geometry-contradictory")["message"]
