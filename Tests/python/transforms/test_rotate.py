"""rotate: images, depth, confidence, intrinsics and poses, against NumPy and SciPy; upright by gravity."""

import numpy as np
import pytest
from geometry_oracle import AXES, MAPS, Runs, block, different, opengl, rotated, with_camera
from outputs import check_digests, codes
from scans import POSE, session as scan
from scipy.spatial.transform import Rotation
from stack_sessions import slam_alone, still, v1, v2
from videos import video_file

TAKES = ["scan", "v1", "slam", "pour", "glove"]


@pytest.fixture(scope="module")
def runs(takeset, tmp_path_factory):
    takes = {"scan": scan(times="time"), "v1": with_camera(), "slam": slam_alone(), "glove": v2(), "pour.mov": video_file(count=6)}
    return Runs(takeset, tmp_path_factory.mktemp("rotate"), takes)


def rotate(*degrees):
    return [{"rotate": {"degrees": one}} for one in degrees]


@pytest.mark.parametrize("take", TAKES)
def test_images_depth_and_confidence_rotate_clockwise(runs, take):
    (_, demo, meta), (_, whole, _) = runs(*rotate(90))[take], runs()[take]
    names = [name for name in ["camera_image", *MAPS] if name in whole["obs"]]
    assert len(names) == {"scan": 4, "v1": 3}.get(take, 1)
    for name in names:
        assert np.array_equal(demo["obs"][name][:], rotated(whole["obs"][name][:], 90)), name
        assert demo["obs"][name].chunks == (1, *demo["obs"][name].shape[1:])
    assert check_digests(demo, meta) > 5


# Upright


def held(found, roll, pitch=(-12, 15), axes="arkit"):
    """A take by a phone that looks around, from `pitch[0]` to `pitch[1]` degrees above the horizon, rolled counterclockwise about its optical axis."""
    count = len(found.rows if hasattr(found, "rows") else found.poses)
    angles = np.stack([np.linspace(-80, 70, count), np.linspace(*pitch, count), roll + 18 * np.sin(np.arange(count))], 1)
    rotations = Rotation.from_euler("YXZ", angles, degrees=True).as_matrix() @ AXES[axes][1]
    if axes == "opencv":
        for row, quaternion in zip(found.rows, Rotation.from_matrix(rotations).as_quat().tolist()):
            row.update(zip(POSE[3:], map(repr, quaternion)))
    else:
        for entry, rotation in zip(found.poses, rotations):
            entry["transform"] = block(rotation, np.array(entry["transform"])[:3, 3]).tolist()
    return found


@pytest.fixture(scope="module")
def sideways(takeset, tmp_path_factory):
    takes = {f"session {roll}": held(v1(), roll) for roll in (0, 90)} | {"scan 180": held(scan(times="time"), 180, axes="opencv")}
    takes |= {"down": held(still(), 90, (-88, -90)), "up": held(still(), 90, (90, 89))}
    takes |= {"slam": held(slam_alone(), 90), "pour.mov": video_file(count=6)}
    return Runs(takeset, tmp_path_factory.mktemp("sideways"), takes)


@pytest.mark.parametrize("take, degrees", [("session 0", 0), ("session 90", 270), ("scan 180", 180)])
def test_upright_is_the_rotation_that_gravity_asks_for(sideways, take, degrees):
    upright = sideways(*rotate("upright"))[take]
    assert (opengl(upright[1])[:, 1, 1] > 0.7).all()  # the world's y axis in the camera's axes
    assert not different(upright, sideways(*rotate(degrees) if degrees else [])[take])


def test_a_take_without_an_upright_orientation_stays_as_it_is(sideways):
    """A phone that looks straight down or up has none; a video has no poses, and the world of SLAM's poses no gravity."""
    found, before = sideways(*rotate("upright")), sideways()
    for take in "down", "up", "pour", "slam":
        assert not different(found[take], before[take]), take
        assert set(codes(found[take][0])) - set(codes(before[take][0])), take
    for take in "session 0", "session 90", "scan 180":
        assert codes(found[take][0]) == codes(before[take][0]), take


def test_upright_takes_are_valid_and_planned(sideways):
    sideways.is_foreseen(*rotate("upright"))
