"""pose-frame: axes, origin, up and body, against 4x4 matrices."""

import json

import numpy as np
import pytest
from geometry_oracle import AXES, Runs, arrays_of, block, matrices, refused, steady, steps_file
from outputs import check_digests, demos, manifest
from scans import POSE, session as scan
from scipy.spatial.transform import Rotation
from session_checks import poses
from stack_sessions import slam_alone, still, synthetic, v1, v2, v3_scaled

SOURCES = {"arkit": still, "depth": v1, "glove": v2, "slam": slam_alone, "claimed": v3_scaled, "scan": lambda: scan(times="time")}
OWN = {"arkit": "arkit", "depth": "arkit", "glove": "arkit", "slam": "opencv", "claimed": "opencv", "scan": "opencv"}
GRAVITY = [name for name in SOURCES if name not in ("slam", "claimed")]
BODY = [0.02, -0.15, 0.08, *Rotation.from_euler("xyz", [25, -40, 70], degrees=True).as_quat().tolist()]
UP = block(Rotation.from_euler("x", 90, degrees=True).as_matrix())  # y up to z up: z becomes -y


def truth(name):
    """Matrices of a take's poses as its files have them, in float64."""
    found = SOURCES[name]()
    if name == "scan":
        return matrices(found.numbers(*POSE))
    return np.array([entry["transform"] for entry in found.poses], "f8")


def axes_change(name, new):
    """What a pose is multiplied by on the right: directions of the new axes in the old ones."""
    return block(AXES[OWN[name]][1].T @ AXES[new][1])


@pytest.fixture(scope="module")
def runs(takeset, tmp_path_factory):
    takes = {name: make() for name, make in SOURCES.items()} | {"robot": synthetic()}
    return Runs(takeset, tmp_path_factory.mktemp("pose-frame"), takes)


def frame(**options):
    return {"pose-frame": options}


def check(demo, expected):
    """Stored poses are these matrices."""
    stored = demo["obs/pose"][:]
    found, bound = matrices(stored), 1e-6 * max(1, np.abs(expected[:, :3, 3]).max())
    assert np.abs(found[:, :3, :3] - expected[:, :3, :3]).max() < 1e-6
    assert np.abs(found[:, :3, 3] - expected[:, :3, 3]).max() < bound
    quaternions = Rotation.from_matrix(expected[:, :3, :3]).as_quat()
    signs = np.sign((quaternions * stored[:, 3:]).sum(1, keepdims=True))
    assert np.abs(quaternions * signs - stored[:, 3:]).max() < 1e-6
    steady(stored)


def same_poses(one, other):
    assert np.abs(one["obs/pose"][:].astype("f8") - other["obs/pose"][:]).max() < 1e-6
    assert dict(one["obs/pose"].attrs) | {"sha256": ""} == dict(other["obs/pose"].attrs) | {"sha256": ""}


# Axes


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("take", SOURCES)
def test_axes(runs, take, axes):
    entry, demo, meta = runs(frame(axes=axes))[take]
    check(demo, truth(take) @ axes_change(take, axes))
    attributes, before = dict(demo["obs/pose"].attrs), dict(runs()[take][1]["obs/pose"].attrs)
    assert attributes["camera_axes"] == AXES[axes][0] and before["camera_axes"] == AXES[OWN[take]][0]
    # The world, its unit and the meaning of the numbers stay.
    assert attributes | {"camera_axes": "", "sha256": ""} == before | {"camera_axes": "", "sha256": ""}
    assert check_digests(demo, meta) > 5


def test_a_camera_by_hand(runs):
    """What an ARKit camera calls up, OpenCV calls -y and ROS z; what it calls back, OpenCV calls -z and ROS -x."""
    source = truth("arkit")
    right, up, back = source[:, :3, 0], source[:, :3, 1], source[:, :3, 2]
    for axes, columns in {"arkit": (right, up, back), "opencv": (right, -up, -back), "ros": (-back, -right, up)}.items():
        found = matrices(runs(frame(axes=axes))["arkit"][1]["obs/pose"][:])
        assert np.abs(found[:, :3, :3] - np.stack(columns, -1)).max() < 1e-6, axes


def test_only_poses_change(runs):
    for take in SOURCES:
        changed, before = arrays_of(*runs(frame(axes="ros"))[take][1:]), arrays_of(*runs()[take][1:])
        different = {path for path in before if not np.array_equal(changed[path], before[path], equal_nan=before[path].dtype.kind == "f")}
        assert different == {"data/obs/pose"}


def test_axes_that_a_take_has_already_change_nothing(runs):
    for take, own in OWN.items():
        one, other = runs(frame(axes=own))[take][1], runs()[take][1]
        assert (one["obs/pose"][:] == other["obs/pose"][:]).all()


def test_poses_of_no_camera_keep_their_axes(runs):
    """A synthetic session says nothing about axes, so nothing can be converted."""
    one, other = runs(frame(axes="opencv"))["robot"][1], runs()["robot"][1]
    assert one["obs/pose"].attrs["camera_axes"] == "arbitrary" and (one["obs/pose"][:] == other["obs/pose"][:]).all()


def test_the_default_pipeline_gives_all_takes_the_same_axes(runs):
    found = runs(default=True)
    for take in SOURCES:
        check(found[take][1], truth(take) @ axes_change(take, "arkit"))
        assert found[take][1]["obs/pose"].attrs["camera_axes"] == AXES["arkit"][0]
    for take, unit in ("slam", "arbitrary"), ("claimed", "m (claimed)"), ("scan", "m"), ("arkit", "m"):
        assert found[take][1]["obs/pose"].attrs["unit"] == unit


# Origin, up and body


@pytest.mark.parametrize("take", SOURCES)
def test_poses_relative_to_the_first(runs, take):
    demo = runs(frame(origin="first-frame"))[take][1]
    source = truth(take)
    check(demo, np.linalg.inv(source[0]) @ source)
    assert np.abs(demo["obs/pose"][0] - [0, 0, 0, 0, 0, 0, 1]).max() < 1e-7
    world, before = demo["obs/pose"].attrs["world_axes"], runs()[take][1]["obs/pose"].attrs["world_axes"]
    assert world and world != before and "gravity" not in world


@pytest.mark.parametrize("take", SOURCES)
def test_poses_relative_to_their_mean(runs, take):
    demo = runs(frame(origin="mean"))[take][1]
    expected = truth(take)
    expected[:, :3, 3] -= expected[:, :3, 3].mean(0)
    check(demo, expected)
    assert np.abs(demo["obs/pose"][:, :3].astype("f8").mean(0)).max() < 1e-6
    assert demo["obs/pose"].attrs["world_axes"] != runs()[take][1]["obs/pose"].attrs["world_axes"]


@pytest.mark.parametrize("take", GRAVITY)
def test_a_world_with_z_up(runs, take):
    demo = runs(frame(up="z"))[take][1]
    source = truth(take)
    check(demo, UP @ source)
    assert np.abs(demo["obs/pose"][:, 2] - source[:, 1, 3]).max() < 1e-6  # heights
    assert "z up" in demo["obs/pose"].attrs["world_axes"] and "y up" not in demo["obs/pose"].attrs["world_axes"]
    assert demo["obs/pose"].attrs["camera_axes"] == AXES[OWN[take]][0]
    same = runs(frame(up="y"), frame(axes=OWN[take]))[take][1]
    assert (same["obs/pose"][:] == runs()[take][1]["obs/pose"][:]).all()


@pytest.mark.parametrize("take", SOURCES)
@pytest.mark.parametrize("axes", [None, "opencv", "ros"])
def test_a_body_is_given_in_the_new_axes(runs, take, axes):
    options = {"body": BODY} | ({"axes": axes} if axes else {})
    expected = truth(take) @ (axes_change(take, axes) if axes else np.eye(4)) @ matrices([BODY])[0]
    check(runs(frame(**options))[take][1], expected)


def test_a_body_by_hand(runs):
    """10 cm in front of a ROS camera is 10 cm along what ARKit calls -z."""
    source = truth("arkit")
    found = runs(frame(axes="ros", body=[0.1, 0, 0, 0, 0, 0, 1]))["arkit"][1]["obs/pose"][:, :3]
    assert np.abs(found - (source[:, :3, 3] - 0.1 * source[:, :3, 2])).max() < 1e-6


@pytest.mark.parametrize("take", SOURCES)
def test_everything_at_once(runs, take):
    body = truth(take) @ axes_change(take, "opencv") @ matrices([BODY])[0]
    check(runs(frame(axes="opencv", body=BODY, origin="first-frame"))[take][1], np.linalg.inv(body[0]) @ body)
    if take in GRAVITY:
        expected = body.copy()
        expected[:, :3, 3] -= body[:, :3, 3].mean(0)
        check(runs(frame(axes="opencv", body=BODY, origin="mean", up="z"))[take][1], UP @ expected)


def test_a_body_whose_quaternion_is_not_quite_a_unit_is_normalized(runs):
    longer = BODY[:3] + [1.0005 * q for q in BODY[3:]]
    check(runs(frame(body=longer))["scan"][1], truth("scan") @ matrices([BODY])[0])


# There and back


@pytest.mark.parametrize("take", SOURCES)
def test_steps_that_undo_each_other(runs, take):
    before, own = runs()[take][1], OWN[take]
    for there in "opencv", "ros", "arkit":
        same_poses(runs(frame(axes=there), frame(axes=own))[take][1], before)
    inverse = np.linalg.inv(matrices([BODY])[0])
    back = [*inverse[:3, 3].tolist(), *Rotation.from_matrix(inverse[:3, :3]).as_quat().tolist()]
    found = runs(frame(body=BODY), frame(body=back))[take][1]["obs/pose"][:]
    assert np.abs(found.astype("f8") - before["obs/pose"][:]).max() < 1e-6
    if take in GRAVITY:
        upright = runs(frame(up="z"), frame(up="y"))[take][1]["obs/pose"]
        assert np.abs(upright[:].astype("f8") - before["obs/pose"][:]).max() < 1e-6
        assert "y up" in upright.attrs["world_axes"]
        assert (runs(frame(up="z"), frame(up="z"))[take][1]["obs/pose"][:] == runs(frame(up="z"))[take][1]["obs/pose"][:]).all()


def test_relative_poses_do_not_depend_on_the_world(runs):
    """Poses from the first frame are the same whatever was done to the world before."""
    for take in GRAVITY:
        one = runs(frame(up="z"), frame(origin="first-frame"))[take][1]
        assert np.abs(one["obs/pose"][:].astype("f8") - runs(frame(origin="first-frame"))[take][1]["obs/pose"][:]).max() < 1e-6


def test_a_plan_foresees_it_and_the_record_has_it(runs, takeset, tmp_path):
    steps = frame(axes="opencv"), frame(origin="mean", body=BODY)
    output = runs.output(*steps)
    takeset("verify", output, check=0)
    planned = json.loads(takeset("plan", runs.inputs, "--json", *steps_file(tmp_path, *steps), check=0).stdout)
    assert {t["id"]: t["frames"] for t in planned["takes"]} == {name: len(demo["obs/pose"]) for name, (demo, _) in demos(output).items()}
    for entry in manifest(output)["record"]["takes"]:
        named = [step for step in entry["steps"] if step["name"] == "pose-frame"]
        assert [step["frames_in"] == step["frames_out"] for step in named] == [True, True]
        assert named[0]["options"]["axes"] == "opencv" and named[1]["options"]["body"] == BODY and named[1]["options"]["origin"] == "mean"


# Real trajectories


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ARKit_camera_pose", "ARKit_camera_pose_LARR_letters"])
def test_real_trajectories(captures, takeset, tmp_path, name):
    """Thousands of poses that ARKit logged on an iPhone."""
    text = captures / f"arkit-trajectories/{name}.txt"
    runs = Runs(takeset, tmp_path, {})
    takeset.simulate(runs.inputs / "real", "--size", "48x36", "--depth-size", "8x6", "--trajectory", text)
    source = np.array([entry["transform"] for entry in poses(runs.inputs / "real")], "f8")
    # The file has six decimals, so that its rotations are orthonormal within 1.6e-6 only; the nearest rotations are meant.
    left, _, right = np.linalg.svd(source[:, :3, :3])
    source[:, :3, :3] = left @ right
    assert len(source) > 1500
    expected = {
        "opencv": source @ block(AXES["opencv"][1]), "ros": source @ block(AXES["ros"][1]), "first": np.linalg.inv(source[0]) @ source,
        "body": source @ block(AXES["opencv"][1]) @ matrices([BODY])[0], "up": UP @ source,
    }
    options = {
        "opencv": {"axes": "opencv"}, "ros": {"axes": "ros"}, "first": {"origin": "first-frame"}, "body": {"axes": "opencv", "body": BODY},
        "up": {"up": "z"},
    }
    for one, matrix in expected.items():
        check(runs(frame(**options[one]))["real"][1], matrix)
    same_poses(runs(frame(axes="opencv"), frame(axes="arkit"))["real"][1], runs()["real"][1])


# Mistakes


@pytest.mark.parametrize("option, value", [
    ("axes", "blender"), ("axes", 3), ("origin", "last-frame"), ("up", "x"), ("up", "-z"), ("body", [0, 0, 0]), ("body", [0] * 8), ("body", 1),
    ("body", [0, 0, 0, 0, 0, 0, 0]), ("body", [0, 0, 0, 0, 0, 0, 2]), ("body", [0, 0, float("nan"), 0, 0, 0, 1]),
    ("body", [0, 0, float("inf"), 0, 0, 0, 1]), ("body", ["a"] * 7), ("axis", "ros"),
])
def test_mistakes_are_refused_by_their_path(runs, takeset, tmp_path, option, value):
    refused(takeset, runs.inputs, tmp_path, f"transforms[1].pose-frame.{option}", {"pose-frame": {option: value}})


def test_a_step_that_does_nothing_is_refused(runs, takeset, tmp_path):
    for options in {}, {"origin": "world"}:
        refused(takeset, runs.inputs, tmp_path, "transforms[1].pose-frame", {"pose-frame": options})
