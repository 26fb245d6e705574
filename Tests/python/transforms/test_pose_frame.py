"""pose-frame: axes, origin, up and body, against 4x4 matrices."""

import json

import numpy as np
import pytest
from geometry_oracle import AXES, Runs, block, different, matrices, steady, steps_file
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


# Axes


@pytest.mark.parametrize("axes", ["opencv", "ros"])
@pytest.mark.parametrize("take", SOURCES)
def test_axes(runs, take, axes):
    entry, demo, meta = runs(frame(axes=axes))[take]
    check(demo, truth(take) @ axes_change(take, axes))
    attributes, before = dict(demo["obs/pose"].attrs), dict(runs()[take][1]["obs/pose"].attrs)
    assert attributes["camera_axes"] == AXES[axes][0] and before["camera_axes"] == AXES[OWN[take]][0]
    # The world, its unit and the meaning of the numbers stay.
    assert attributes | {"camera_axes": "", "sha256": ""} == before | {"camera_axes": "", "sha256": ""}
    assert check_digests(demo, meta) > 5


def test_only_poses_change(runs):
    for take in SOURCES:
        assert different(runs(frame(axes="ros"))[take], runs()[take]) == {"data/obs/pose"}


def test_axes_that_a_take_has_already_change_nothing(runs):
    for take, own in OWN.items():
        one, other = runs(frame(axes=own))[take][1], runs()[take][1]
        assert (one["obs/pose"][:] == other["obs/pose"][:]).all()


# Origin, up and body


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
    one, other = (found["real"][1]["obs/pose"] for found in (runs(frame(axes="opencv"), frame(axes="arkit")), runs()))
    assert np.abs(one[:].astype("f8") - other[:]).max() < 1e-6
    assert dict(one.attrs) | {"sha256": ""} == dict(other.attrs) | {"sha256": ""}
