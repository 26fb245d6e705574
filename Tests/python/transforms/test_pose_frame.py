"""pose-frame: axes, origin, up and body, against 4x4 matrices."""

import json

import numpy as np
import pytest
from geometry_oracle import AXES, BODY, OWN, POSED, Runs, block, different, matrices, poses_of_source, steady, steps_file
from outputs import check_digests, demos, manifest
from scipy.spatial.transform import Rotation
from stack_sessions import synthetic

GRAVITY = [name for name in POSED if name not in ("slam", "claimed")]
UP = block(Rotation.from_euler("x", 90, degrees=True).as_matrix())  # y up to z up: z becomes -y


@pytest.fixture(scope="module")
def runs(takeset, tmp_path_factory):
    takes = {name: make() for name, make in POSED.items()} | {"robot": synthetic()}
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


# Origin, up and body


@pytest.mark.parametrize("take", POSED)
def test_everything_at_once(runs, take):
    body = poses_of_source(take, "opencv") @ matrices([BODY])[0]
    _, demo, meta = changed = runs(frame(axes="opencv", body=BODY, origin="first-frame"))[take]
    check(demo, np.linalg.inv(body[0]) @ body)
    assert demo["obs/pose"].attrs["camera_axes"] == AXES["opencv"][0] and runs()[take][1]["obs/pose"].attrs["camera_axes"] == AXES[OWN[take]][0]
    assert different(changed, runs()[take]) == {"data/obs/pose"} and check_digests(demo, meta) > 5
    if take in GRAVITY:
        expected = body.copy()
        expected[:, :3, 3] -= body[:, :3, 3].mean(0)
        check(runs(frame(axes="opencv", body=BODY, origin="mean", up="z"))[take][1], UP @ expected)


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
