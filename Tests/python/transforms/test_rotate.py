"""rotate: images, depth, confidence, intrinsics and poses, against NumPy and SciPy; upright by gravity."""

import json

import numpy as np
import pytest
from geometry_oracle import AXES, Runs, arrays_of, block, matrices, opengl, refused, rotated, rotated_cameras, steady, steps_file
from images import numbers
from outputs import check_digests, codes, demos
from scan_checks import camera_info
from scans import POSE, session as scan
from scipy.spatial.transform import Rotation
from stack_sessions import slam_alone, still, v1, v2
from videos import video_file

SIZES = {"scan": ((160, 120), (32, 24)), "v1": ((96, 72), (64, 48))}
MAPS = ["camera_depth", "camera_depth_valid", "camera_depth_confidence"]
DEGREES = [90, 180, 270]
TAKES = ["scan", "v1", "slam", "pour", "glove"]


def session():
    found = v1()
    found.metadata["cameraIntrinsics"] = {"fx": 72.5, "fy": 73.25, "cx": 47.75, "cy": 36.5}
    return found


@pytest.fixture(scope="module")
def runs(takeset, tmp_path_factory):
    takes = {"scan": scan(times="time"), "v1": session(), "slam": slam_alone(), "glove": v2(), "pour.mov": video_file(count=6)}
    return Runs(takeset, tmp_path_factory.mktemp("rotate"), takes)


def rotate(*degrees):
    return [{"rotate": {"degrees": one}} for one in degrees]


@pytest.mark.parametrize("take", TAKES)
@pytest.mark.parametrize("degrees", DEGREES)
def test_images_depth_and_confidence_rotate_clockwise(runs, take, degrees):
    (_, demo, meta), (_, whole, _) = runs(*rotate(degrees))[take], runs()[take]
    names = [name for name in ["camera_image", *MAPS] if name in whole["obs"]]
    assert len(names) == {"scan": 4, "v1": 3}.get(take, 1)
    for name in names:
        assert np.array_equal(demo["obs"][name][:], rotated(whole["obs"][name][:], degrees)), name
        assert demo["obs"][name].chunks == (1, *demo["obs"][name].shape[1:])
    assert check_digests(demo, meta) > 5


def test_the_top_of_an_image_is_on_the_right_after_90_degrees(runs):
    """The blocks with the frame's number are along the top edge."""
    images = runs(*rotate(90))["v1"][1]["obs/camera_image"][:]
    assert images.shape[1:3] == (96, 72)
    assert numbers(images, 90) == numbers(runs()["v1"][1]["obs/camera_image"][:]) == list(range(40))


@pytest.mark.parametrize("take", SIZES)
@pytest.mark.parametrize("degrees", DEGREES)
def test_intrinsics_rotate_exactly(runs, take, degrees):
    (_, demo, meta), (_, _, whole) = runs(*rotate(degrees))[take], runs()[take]
    for name, size in zip(("intrinsics", "camera_depth_intrinsics"), SIZES[take]):
        assert np.allclose(meta[name][:], rotated_cameras(whole[name][:], size, degrees), rtol=1e-6, atol=2e-6), name
    width, height = SIZES[take][0]
    assert camera_info(demo)[1] == ((width, height) if degrees == 180 else (height, width))


def test_the_camera_by_hand(runs):
    """fx 72.5, fy 73.25, cx 47.75, cy 36.5 of 96x72: after 90 degrees, what was 36.5 below the top is 35.5 from the left."""
    expected = {90: (73.25, 72.5, 35.5, 47.75), 180: (72.5, 73.25, 48.25, 35.5), 270: (73.25, 72.5, 36.5, 48.25)}
    for degrees, camera in expected.items():
        assert (runs(*rotate(degrees))["v1"][2]["intrinsics"][:] == np.float32(camera)).all()


@pytest.mark.parametrize("take", ["scan", "v1", "slam", "glove"])
@pytest.mark.parametrize("degrees", DEGREES)
def test_poses_are_those_of_the_rotated_camera(runs, take, degrees):
    (_, demo, _), (_, whole, _) = runs(*rotate(degrees))[take], runs()[take]
    pose = demo["obs/pose"]
    assert dict(pose.attrs) | {"sha256": ""} == dict(whole["obs/pose"].attrs) | {"sha256": ""}
    assert (pose[:, :3] == whole["obs/pose"][:, :3]).all()
    # Seen along OpenGL's axes, the camera rolled counterclockwise when its image rotates clockwise: its new right was up.
    expected = opengl(whole) @ block(Rotation.from_euler("z", degrees, degrees=True).as_matrix())
    assert np.abs(opengl(demo) - expected).max() < 1e-6
    steady(pose[:])


@pytest.mark.parametrize("degrees, right", [(90, "up"), (180, "left"), (270, "down")])
def test_the_new_right_is_an_old_direction(runs, degrees, right):
    for take in "scan", "v1":
        old, new = opengl(runs()[take][1]), opengl(runs(*rotate(degrees))[take][1])
        direction = {"up": old[:, :3, 1], "left": -old[:, :3, 0], "down": -old[:, :3, 1]}[right]
        assert np.abs(new[:, :3, 0] - direction).max() < 1e-6 and np.abs(new[:, :3, 2] - old[:, :3, 2]).max() < 1e-6


@pytest.mark.parametrize("axes", ["opencv", "ros"])
def test_poses_with_other_axes_rotate_about_the_optical_axis(runs, axes):
    for take in "scan", "v1":
        one = opengl(runs({"pose-frame": {"axes": axes}}, *rotate(90))[take][1])
        other = opengl(runs(*rotate(90), {"pose-frame": {"axes": axes}})[take][1])
        assert np.abs(one - other).max() < 1e-6
        assert np.abs(one - opengl(runs(*rotate(90))[take][1])).max() < 1e-6


@pytest.mark.parametrize("take", TAKES)
@pytest.mark.parametrize("several, one", [((90, 90, 90, 90), []), ((180, 180), []), ((90, 270), []), ((90, 90), [180]), ((270, 180), [90])])
def test_rotations_add_up(runs, take, several, one):
    found, expected = arrays_of(*runs(*rotate(*several))[take][1:]), arrays_of(*runs(*rotate(*one))[take][1:])
    assert found.keys() == expected.keys()
    for path, array in expected.items():
        if path in ("data/obs/pose", "meta/intrinsics", "meta/camera_depth_intrinsics"):
            assert np.allclose(found[path], array, rtol=0, atol=1e-6 if path == "data/obs/pose" else 1e-4), path
        else:
            assert np.array_equal(found[path], array, equal_nan=array.dtype.kind == "f"), path


def test_a_crop_after_it_is_in_pixels_of_the_rotated_image(runs):
    x, y, width, height = 10, 15, 50, 70
    for take, ((_, old_height), _) in SIZES.items():
        _, demo, meta = runs(*rotate(90), {"crop": {"box": [x, y, width, height]}})[take]
        assert demo["obs/camera_image"].shape[1:3] == (height, width)
        _, whole, whole_meta = runs(*rotate(90))[take]
        assert (demo["obs/camera_image"][:] == whole["obs/camera_image"][:, y : y + height, x : x + width]).all()
        assert np.allclose(meta["intrinsics"][:], whole_meta["intrinsics"][:] - [0, 0, x, y], atol=1e-5)
        # The same part of the scene, cropped first and then rotated.
        first = {"crop": {"box": [y, old_height - x - width, height, width]}}
        one, other = arrays_of(demo, meta), arrays_of(*runs(first, *rotate(90), check=None)[take][1:])  # smaller images have no such box
        assert all(np.allclose(one[path], other[path], rtol=0, atol=1e-4, equal_nan=True) for path in one)


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


# How far an image must rotate clockwise to be upright, by the phone's roll counterclockwise.
ROLLS = {0: 0, 90: 270, 180: 180, -90: 90, 70: 270, -110: 90, 20: 0, 200: 180}


@pytest.fixture(scope="module")
def sideways(takeset, tmp_path_factory):
    takes = {f"session {roll}": held(v1(), roll) for roll in ROLLS}
    takes |= {f"scan {roll}": held(scan(times="time"), roll, axes="opencv") for roll in (0, 90, -90, 180)}
    takes |= {"down": held(still(), 90, (-88, -90)), "up": held(still(), 90, (90, 89))}
    takes |= {"slam": held(slam_alone(), 90), "pour.mov": video_file(count=6)}
    return Runs(takeset, tmp_path_factory.mktemp("sideways"), takes)


@pytest.mark.parametrize("take", [*(f"session {roll}" for roll in ROLLS), *(f"scan {roll}" for roll in (0, 90, -90, 180))])
def test_upright_rotates_so_that_up_in_the_world_is_up_in_the_image(sideways, take):
    _, demo, meta = sideways(*rotate("upright"))[take]
    degrees = ROLLS[int(take.split()[1])]
    _, whole, _ = sideways()[take]
    up = opengl(demo)[:, 1, :3]  # the world's y axis in the camera's axes
    assert (up[:, 1] > 0.7).all() and (opengl(whole)[:, 1, 1] > 0.7).all() == (degrees == 0)
    for name in ["camera_image", *MAPS]:
        if name in whole["obs"]:
            expected = whole["obs"][name][:] if degrees == 0 else rotated(whole["obs"][name][:], degrees)
            assert np.array_equal(demo["obs"][name][:], expected), name
    # All that an explicit rotation does, upright does.
    one, other = arrays_of(demo, meta), arrays_of(*sideways(*rotate(degrees) if degrees else [])[take][1:])
    assert all(np.array_equal(one[path], other[path], equal_nan=one[path].dtype.kind == "f") for path in other)


def test_a_take_without_an_upright_orientation_stays_as_it_is(sideways):
    """A phone that looks straight down or up has none; a video has no poses, and the world of SLAM's poses no gravity."""
    found, before = sideways(*rotate("upright")), sideways()
    for take in "down", "up", "pour", "slam":
        one, other = arrays_of(*found[take][1:]), arrays_of(*before[take][1:])
        assert all(np.array_equal(one[path], other[path], equal_nan=one[path].dtype.kind == "f") for path in other), take
        assert set(codes(found[take][0])) - set(codes(before[take][0])), take
    for take in "session 0", "session 90", "scan 180":
        assert codes(found[take][0]) == codes(before[take][0]), take


def test_upright_takes_are_valid_and_planned(sideways, takeset, tmp_path):
    output = sideways.output(*rotate("upright"))
    takeset("verify", output, check=0)
    planned = json.loads(takeset("plan", sideways.inputs, "--json", *steps_file(tmp_path, *rotate("upright")), check=0).stdout)
    shapes = {t["id"]: {d["path"]: d["shape"] for d in t["datasets"]} for t in planned["takes"]}
    for name, (demo, _) in demos(output).items():
        assert tuple(shapes[name]["/data/demo_0/obs/camera_image"]) == demo["obs/camera_image"].shape


@pytest.mark.parametrize("value", [0, 45, 360, -90, 90.5, "90 degrees", "sideways", None, [90], True])
def test_mistakes_are_refused_by_their_path(runs, takeset, tmp_path, value):
    refused(takeset, runs.inputs, tmp_path, "transforms[1].rotate.degrees", {"rotate": {"degrees": value}})


def test_degrees_are_needed(runs, takeset, tmp_path):
    refused(takeset, runs.inputs, tmp_path, "transforms[1].rotate", {"rotate": {}})


def test_the_oracle_rotates_matrices_as_it_rotates_images():
    """A point to the right of the center is below it after 90 degrees clockwise; in the rotated camera's axes, too."""
    image = np.zeros((1, 5, 7))
    image[0, 2, 6] = 1
    assert np.argwhere(rotated(image, 90)[0]).tolist() == [[6, 2]]
    pose = np.eye(4) @ block(Rotation.from_euler("z", 90, degrees=True).as_matrix())
    point = np.linalg.inv(pose) @ [1, 0, -1, 1]
    assert np.allclose(point[:2], [0, -1]) and np.allclose(matrices([[0, 0, 0, 0, 0, 0, 1]]), np.eye(4))
