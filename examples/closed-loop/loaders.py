"""The same takes as rows for a policy: the simulator's truth, Takeset's, and those of a loader by hand, with care or with one mistake.

Each gives a dictionary of arrays: state (n, 8), joints (n, 4), images (n, 48, 64, 3), and actions (n, 13), which are the hand's motion to the next row and its
joints there.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
from record import JOINTS, LATENCY, interpolated
from scipy.spatial.transform import Rotation
from task import CAMERA_POSITION, CAMERA_ROTATION, RATE, row_image

KEYS = ("state", "joints", "images", "actions")
EVERY = 3  # images of the phone for a row: 60 Hz to 20 Hz


def from_truth(folder, with_images=True):
    """What the simulator knows."""
    takes = [np.load(path) for path in sorted(Path(folder).glob("*.npz"))]
    return {key: np.concatenate([take[key] for take in takes]) for key in KEYS if with_images or key != "images"}


def from_takeset(dataset, with_images=True):
    """All windows of one row: those whose state, joints and motion are known."""
    from takeset.torch import Windows, collate
    from torch.utils.data import DataLoader

    windows = Windows(dataset, observation_horizon=1, action_horizon=1, keys=("state", "joints", *["camera_image"] * with_images), joints="append", skip_masked=True)
    (batch,) = DataLoader(windows, batch_size=len(windows), collate_fn=collate)
    obs = {key: value[:, 0].numpy() for key, value in batch["obs"].items()}
    samples = {"state": obs["state"], "joints": obs["joints"], "actions": batch["actions"][:, 0].numpy()}
    return samples | ({"images": obs["camera_image"].transpose(0, 2, 3, 1)} if with_images else {})


@dataclass(frozen=True)
class ByHand:
    """A script for these takes. As it stands it makes no mistake that its author could have known of; each field can bring one."""

    images: str = "number"  # which a frame has: the one of its pose's number, or of its "position" in the sorted list
    clock: str = "gyroscope"  # what relates the clock of all else to that of the frames, or "start time", or "first sample" of each file
    latency: float = LATENCY  # of the glove, in seconds
    rows: str = "numbers"  # every third frame by its number, or of the "list" of those that are there
    missing: str = "drop"  # rows without joints or state, or fill them with "zeros"
    jumps: str = "drop"  # steps that no hand makes, or "keep" them
    portrait: str = "upright"  # image and pose of a phone held so, or both "as stored"
    axes: str = "ARKit"  # of the camera: -z looks ahead, or "OpenCV": z does

    def __call__(self, folder, with_images=True):
        takes = [self.take(Path(take), with_images) for take in sorted(Path(folder).iterdir())]
        return {key: np.concatenate([take[key] for take in takes]) for key in KEYS if key in takes[0]}

    def take(self, folder, with_images=True):
        """Rows of one take, and the number of each row's frame."""
        def read(name):
            return json.loads((folder / f"{name}.json").read_text())

        poses, metadata = sorted(read("poses"), key=lambda pose: pose["rgbIndex"]), read("metadata")
        numbers = np.array([pose["rgbIndex"] for pose in poses])
        times = np.array([pose["timestamp"] for pose in poses])
        camera = np.array([pose["transform"] for pose in poses])
        rotation = Rotation.from_matrix(camera[:, :3, :3])
        start = datetime.fromisoformat(metadata["startTime"]).timestamp()
        turned = metadata["rgbResolution"][0] < metadata["rgbResolution"][1] and self.portrait == "upright"

        # Joints and state, on the clock of the poses.
        encoders, table = read("encoders"), np.loadtxt(folder / "streams/state.csv", delimiter=",", skiprows=1)
        angles = np.array([[reading[name] for name in JOINTS] for reading in encoders])
        sent = np.array([reading["esp_timestamp_ms"] / 1000 for reading in encoders])
        measured = sent + np.min([reading["timestamp"] - at for reading, at in zip(encoders, sent)])  # the fastest packet's delay for all
        if self.clock == "first sample":
            to_joints, to_state = measured[0] - times[0], table[0, 0] - times[0]
        else:
            to_joints = to_state = start - times[0] if self.clock == "start time" else _offset(times, rotation, read("imu"), start)
        joints, has_joints = _interpolated(times, measured - to_joints - self.latency, angles)
        state, has_state = _interpolated(times, table[:, 0] - to_state, table[:, 1:])

        # The hand of each pose.
        if self.axes == "OpenCV":
            rotation = rotation * Rotation.from_euler("x", 180, degrees=True)
        if turned:
            rotation = rotation * Rotation.from_euler("z", -90, degrees=True)
        rotation = rotation * CAMERA_ROTATION.inv()
        position = camera[:, :3, 3] + rotation.apply(-CAMERA_POSITION)

        # Each row's frame and the next row's.
        files = sorted((folder / "rgb").iterdir())
        if self.images == "number":
            by_number = {int(file.stem): file for file in files}
            found = [by_number.get(number) for number in numbers]
        else:
            found = [*files, *[None] * len(poses)][: len(poses)]
        if self.rows == "numbers":
            place = {number: index for index, number in enumerate(numbers)}
            pairs = [(place[k], place[k + EVERY]) for k in range(numbers[0], numbers[-1], EVERY) if k in place and k + EVERY in place and found[place[k]]]
        else:
            kept = [index for index, file in enumerate(found) if file][::EVERY]
            pairs = list(zip(kept, kept[1:]))
        a, b = np.array(pairs).T
        step = rotation[a].inv().apply(position[b] - position[a])
        if self.missing == "drop":
            good = has_joints[a] & has_joints[b] & has_state[a]
        else:
            good = np.ones(len(a), bool)
        if self.jumps == "drop":
            good &= np.linalg.norm(step, axis=1) < 0.1
        a, b, step = a[good], b[good], step[good]
        turn = (rotation[a].inv() * rotation[b]).as_matrix()[:, :, :2].transpose(0, 2, 1).reshape(-1, 6)
        arrays = {"state": state[a], "joints": joints[a], "actions": np.concatenate([step, turn, joints[b]], axis=1)}
        samples = {"frames": numbers[a], **{key: np.float32(value) for key, value in arrays.items()}}
        if with_images:
            samples["images"] = np.stack([row_image(found[row].read_bytes(), turned) for row in a])
        return samples


def _interpolated(times, known, values):
    """Values between two neighbors that are less than 0.1 s apart, and where there are such; zeros elsewhere."""
    after = np.searchsorted(known, times).clip(1, len(known) - 1)
    inside = (known[0] <= times) & (times <= known[-1]) & (known[after] - known[after - 1] < 0.1)
    return np.where(inside[:, None], interpolated(times, known, values), 0), inside


def _offset(times, rotation, imu, start):
    """Seconds from the clock of the poses to that of the IMU: where both turn at the same speed. The start time tells it within a second."""
    gyro_times = np.array([reading["timestamp"] for reading in imu])
    gyro = np.linalg.norm([reading["gyro"] for reading in imu], axis=1)
    middle, speed = (times[:-1] + times[1:]) / 2, (rotation[:-1].inv() * rotation[1:]).magnitude() / np.diff(times)
    steady = speed < 5  # radians per second, or tracking jumped
    grid = np.arange(0, times[-1] - times[0], 0.002)
    camera = np.interp(grid, middle[steady] - times[0], speed[steady])
    lags = np.arange(-0.1, 1.1, 0.002)
    errors = [np.mean((np.interp(start + lag + grid, gyro_times, gyro) - camera) ** 2) for lag in lags]
    return start + lags[int(np.argmin(errors))] - times[0]
