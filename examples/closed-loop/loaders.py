"""The same takes as rows for a policy, by several loaders: the simulator's truth, Takeset's, and two that people write by hand.

Each gives a dictionary of arrays: state (n, 8), joints (n, 4), images (n, 48, 64, 3), and actions (n, 13), which are the hand's motion to the next row and its
joints there.
"""

import json
from datetime import datetime
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation
from task import CAMERA_POSITION, CAMERA_ROTATION, row_image

KEYS = ("state", "joints", "images", "actions")
EVERY = 3  # images of the phone for a row: 60 Hz to 20 Hz
JOINTS = ("index_mcp", "index_pip", "three_finger_mcp", "three_finger_pip")


def from_truth(folder):
    """What the simulator knows."""
    takes = [np.load(path) for path in sorted(Path(folder).glob("*.npz"))]
    return {key: np.concatenate([take[key] for take in takes]) for key in KEYS}


def from_takeset(dataset):
    """All windows of one row: those whose state, joints and motion are known."""
    from takeset.torch import Windows, collate
    from torch.utils.data import DataLoader

    windows = Windows(dataset, observation_horizon=1, action_horizon=1, keys=("state", "joints", "camera_image"), joints="append", skip_masked=True)
    (batch,) = DataLoader(windows, batch_size=len(windows), collate_fn=collate)
    obs = {key: value[:, 0].numpy() for key, value in batch["obs"].items()}
    images = obs["camera_image"].transpose(0, 2, 3, 1)
    return {"state": obs["state"], "joints": obs["joints"], "images": images, "actions": batch["actions"][:, 0].numpy()}


def from_list_positions(folder):
    """As in the plan of a data collection: image i has pose i, every clock begins at its own first sample, and a missing sample is zeros."""
    return _rows(folder, _by_position)


def from_nearest_times(folder):
    """Images by their numbers, everything else at the nearest time, with the session's start time as the link between its clocks."""
    return _rows(folder, _by_start_time)


def _rows(folder, pair):
    takes = [_take(Path(take), pair) for take in sorted(Path(folder).iterdir())]
    return {key: np.concatenate([take[key] for take in takes]) for key in KEYS}


def _take(folder, pair):
    poses = sorted(json.loads((folder / "poses.json").read_text()), key=lambda pose: pose["rgbIndex"])
    encoders = json.loads((folder / "encoders.json").read_text())
    table = np.loadtxt(folder / "streams/state.csv", delimiter=",", skiprows=1)
    start = datetime.fromisoformat(json.loads((folder / "metadata.json").read_text())["startTime"]).timestamp()
    angles = np.array([[reading[name] for name in JOINTS] for reading in encoders])
    clock = np.array([reading["timestamp"] for reading in encoders])
    frames, images, times, sensor_zero = pair(folder, poses, start)
    state = _nearest(times, table[:, 0] - (sensor_zero or table[0, 0]), table[:, 1:])
    joints = _nearest(times, clock - (sensor_zero or clock[0]), angles)
    camera = np.array([pose["transform"] for pose in frames])
    rotation = Rotation.from_matrix(camera[:, :3, :3]) * CAMERA_ROTATION.inv()
    position = camera[:, :3, 3] + rotation.apply(-CAMERA_POSITION)
    rows = np.arange(0, len(frames), EVERY)
    a, b = rows[:-1], rows[1:]
    step = rotation[a].inv().apply(position[b] - position[a])
    turn = (rotation[a].inv() * rotation[b]).as_matrix()[:, :, :2].transpose(0, 2, 1).reshape(-1, 6)
    pixels = [row_image(images[row].read_bytes()) for row in a]
    arrays = {"state": state[a], "joints": joints[a], "actions": np.concatenate([step, turn, joints[b]], axis=1)}
    return {"images": np.stack(pixels), **{key: np.float32(value) for key, value in arrays.items()}}


def _by_position(folder, poses, _):
    images = sorted((folder / "rgb").iterdir())
    count = min(len(poses), len(images))
    times = np.array([pose["timestamp"] for pose in poses[:count]])
    return poses[:count], images[:count], times - times[0], None


def _by_start_time(folder, poses, start):
    named = [(pose, folder / f"rgb/{pose['rgbIndex']:06}.jpg") for pose in poses]
    found = [(pose, path) for pose, path in named if path.exists()]
    times = np.array([pose["timestamp"] for pose, _ in found])
    return [pose for pose, _ in found], [path for _, path in found], times - times[0], start


def _nearest(times, known, values):
    """The value nearest in time, or zeros where the nearest is 50 ms away or more."""
    after = np.clip(np.searchsorted(known, times), 1, len(known) - 1)
    nearest = after - (np.abs(known[after - 1] - times) <= np.abs(known[after] - times))
    return np.where((np.abs(known[nearest] - times) < 0.05)[:, None], values[nearest], 0)
