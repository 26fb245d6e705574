"""What must hold for converted sessions of the StackCapture app."""

import json

import numpy as np
from images import frame_code
from scipy.spatial.transform import Rotation
from stack_sessions import CHANNELS, matrices


def methods(entry):
    return {a["stream"]: a["method"] for a in entry["alignment"]}


def nanoseconds(seconds):
    """A time of at most six decimals in nanoseconds."""
    return round(seconds * 10**6) * 1000


def same(one, other):
    """Checks that two takes are equal in every dataset."""

    def digests(take):
        found = {}
        for group in take:
            group.visititems(lambda name, item: found.update({name: item.attrs["sha256"]}) if "sha256" in item.attrs else None)
        return found

    assert digests(one) == digests(other) and len(digests(one)) > 8


def same_rotations(quaternions, rotations, tolerance=1e-6):
    expected = Rotation.from_matrix(rotations).as_quat()
    difference = np.minimum(np.abs(quaternions - expected).max(1), np.abs(quaternions + expected).max(1))
    assert difference.max() < tolerance, difference.argmax()


def rows_are(demo, meta, numbers, pose_of=None):
    """Checks that the image, the pose and the number of each row match."""
    numbers = list(numbers)
    assert meta["source_index"][:].tolist() == numbers
    assert [frame_code(image) for image in demo["obs/camera_image"][:]] == numbers
    truth = matrices(max(numbers) + 1)[[(pose_of or {}).get(n, n) for n in numbers]]
    pose = demo["obs/pose"][:].astype("f8")
    assert np.abs(pose[:, :3] - truth[:, :3, 3]).max() < 1e-6
    same_rotations(pose[:, 3:], truth[:, :3, :3])
    assert pose[0, 6] >= 0 and ((pose[1:, 3:] * pose[:-1, 3:]).sum(1) > 0).all()


def times_are(meta, seconds, tolerance=0):
    found = meta["timestamp_ns"][:] + int(meta["timestamp_ns"].attrs["origin_ns"])
    assert np.abs(found - np.array([round(s * 1e9) for s in seconds])).max() <= tolerance


def unwrapped(found):
    """Angles without the jumps of 360 degrees, channel by channel, from within (-180, 180]; NaN where absent."""
    angles = np.array([[np.nan if r[c] is None else r[c] for c in CHANNELS] for r in found], "f8")
    angles[angles == -1] = np.nan
    for column in angles.T:
        valid = np.isfinite(column)
        if valid.any():
            continuous = np.unwrap(column[valid], period=360)
            column[valid] = continuous - np.ceil((continuous[0] - 180) / 360) * 360
    return angles


def joints_are(demo, meta, found, seconds, tolerance=0.05):
    """Each row has the nearest reading; `seconds` are the readings' times after the first frame's, as they truly are."""
    frames = meta["timestamp_ns"][:] / 1e9
    steps = np.abs(np.array(seconds)[None] - frames[:, None])
    nearest = steps.argmin(1)
    near = steps.min(1) <= tolerance
    stream = meta["streams/joints"]
    assert stream["source_index"][:].tolist() == np.where(near, nearest, -1).tolist()
    expected = np.where(near[:, None], unwrapped(found)[nearest], np.nan)
    assert np.allclose(demo["obs/joints"][:], expected, atol=1e-4, rtol=0, equal_nan=True)
    assert np.array_equal(demo["obs/joints_valid"][:], np.isfinite(expected))
    deltas = np.where(near, np.array(seconds)[nearest] - frames, 0) * 1e9
    assert np.abs(stream["dt_ns"][:] - deltas).max() < 1e5
    return near


def all_joints_masked(demo, meta):
    return not demo["obs/joints_valid"][:].any() and not meta["streams/joints/valid"][:].any() and np.isnan(demo["obs/joints"][:]).all()


def depth_is(demo, meta, times, named, maps):
    """Each row has the nearest of the maps within 50 ms, of two equally near the earlier. `named`: frame to map. The rows that have one."""
    index, dt = meta["streams/camera_depth/source_index"][:], meta["streams/camera_depth/dt_ns"][:]
    valid = []
    for row, frame in enumerate(meta["source_index"][:]):
        time = nanoseconds(times[frame])
        nearest = min(named, key=lambda f: (abs(nanoseconds(times[f]) - time), f))
        step = nanoseconds(times[nearest]) - time
        if abs(step) <= 50_000_000:
            valid.append(row)
            assert (index[row], dt[row]) == (named[nearest], step)
            assert np.array_equal(demo["obs/camera_depth"][row, ..., 0], maps[named[nearest]])
        else:
            assert index[row] == -1 and not demo["obs/camera_depth"][row].any() and not demo["obs/camera_depth_valid"][row].any()
    assert meta["streams/camera_depth/valid"][:].nonzero()[0].tolist() == valid
    return valid


def named_maps(session):
    return {e["rgbIndex"]: e["depthIndex"] for e in session.poses if e.get("depthIndex") is not None}


def poses(session):
    return sorted(json.loads((session / "poses.json").read_text()), key=lambda p: p["rgbIndex"])
