"""What converted rows are off by, against the exact truth of `takeset simulate`.

Which frame an image shows is read from the image: the simulator draws its number along the top edge. Which frame a pose is of is read from the pose: the
nearest true one.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.spatial.transform import Rotation


@dataclass
class Rows:
    """Rows of one take. Images are RGB bytes, only their top edge is read for all; some are kept whole."""

    edges: list  # the top of each image, (height / 40, width, 3)
    poses: np.ndarray  # camera to world, (n, 4, 4)
    joints: np.ndarray | None = None  # degrees (n, 4), NaN where the output says that there are none
    seconds: np.ndarray | None = None  # stated time of each row (n)
    depth: list | None = None  # of each row a depth map in meters, 0 where unknown, or None
    whole: dict | None = None  # of some rows the image


def edge(image):
    pixels = np.asarray(image)
    return pixels[: max(len(pixels) // 40, 1)]


def frame_number(edge):
    """The number in a row of 24 black and white blocks: 20 bits, then the parity of each five. None where the parity is wrong."""
    row = edge.mean(axis=(0, 2))
    bits = [row[int((k + 0.25) * len(row) / 24) : int((k + 0.75) * len(row) / 24)].mean() > 128 for k in range(24)]
    if any(sum(bits[group * 5 : group * 5 + 5]) % 2 != bits[20 + group] for group in range(4)):
        return None
    return sum(int(bit) << (19 - k) for k, bit in enumerate(bits[:20]))


def matrices(poses):
    """Camera to world (n, 4, 4) of x y z qx qy qz qw."""
    result = np.tile(np.eye(4), (len(poses), 1, 1))
    result[:, :3, :3], result[:, :3, 3] = Rotation.from_quat(poses[:, 3:7]).as_matrix(), poses[:, :3]
    return result


class Truth:
    """What a take of `takeset simulate` really is."""

    def __init__(self, take):
        self.take, truth = Path(take), json.loads((Path(take) / "truth.json").read_text())
        self.poses = np.reshape(truth["camera_to_world"], (-1, 4, 4)).astype(float)
        self.seconds = (np.array(truth["frame_time_ns"]) - truth["frame_time_ns"][0]) / 1e9

    def angles(self, seconds):
        """The simulated glove's joints in degrees (n, 4): sines of different periods."""
        joint = np.arange(4)
        return np.array([2.0, 40, 120, 200]) - (15 + 5 * joint) * np.sin(2 * np.pi * seconds[:, None] / (2.5 + 0.4 * joint))

    def usable(self):
        """Numbers of the frames that have an image that decodes and a pose."""
        if (self.take / "poses.json").exists():
            posed = {pose["rgbIndex"] for pose in json.loads((self.take / "poses.json").read_text())}
            files = {int(file.stem): file for file in (self.take / "rgb").iterdir()}
        else:
            images = [path for path in self.take.rglob("*.jpg") if path.parent.name in ("rgb", "images")]
            files = {frame_number(edge(Image.open(path))): path for path in images}
            posed = set(range(len(self.poses)))
        return {number: file for number, file in files.items() if number in posed}


def errors(parts, truth):
    """Of one take, whose rows are in parts: how far they are from what their images show. Lengths in mm, times in ms, angles in degrees."""
    usable, shown, found = truth.usable(), [], []
    for rows in parts:
        numbers = [frame_number(edge) for edge in rows.edges]
        shown += [number for number in numbers if number is not None]
        found.append(_errors(rows, numbers, truth, usable))
    counts = {"rows": sum(len(rows.edges) for rows in parts), "usable frames": len(usable), "lost": len(set(usable) - set(shown)), "invented": len(shown) - len(set(shown))}
    merged = {}
    for key in dict.fromkeys(key for one in found for key in one):
        values = [one[key] for one in found if key in one]
        merged[key] = np.concatenate(values) if isinstance(values[0], np.ndarray) else sum(values)
    return counts | merged


def _errors(rows, numbers, truth, usable):
    known = [index for index, number in enumerate(numbers) if number is not None and number < len(truth.poses)]
    of_image = np.array([numbers[index] for index in known])
    poses = rows.poses[known]
    # The world may have been turned and moved: the first row says how.
    poses = truth.poses[of_image[0]] @ np.linalg.inv(poses[0]) @ poses
    expected = truth.poses[of_image]
    apart = np.linalg.norm(poses[:, None, :3, 3] - truth.poses[None, :, :3, 3], axis=2) + np.abs(poses[:, None, :3, :3] - truth.poses[None, :, :3, :3]).mean((2, 3))
    of_pose = apart.argmin(1)
    found = {
        "unreadable images": len(numbers) - len(known),
        "pairing": 1000 * np.abs(truth.seconds[of_image] - truth.seconds[of_pose]),
        "position": 1000 * np.linalg.norm(poses[:, :3, 3] - expected[:, :3, 3], axis=1),
        "rotation": np.degrees((Rotation.from_matrix(poses[:, :3, :3]).inv() * Rotation.from_matrix(expected[:, :3, :3])).magnitude()),
    }  # fmt: skip
    if rows.joints is not None:
        off = np.abs((rows.joints[known] - truth.angles(truth.seconds[of_image]) + 180) % 360 - 180)
        found["joints"] = off[np.isfinite(off).all(1)].max(1)
    if rows.seconds is not None:
        stated = rows.seconds[known]
        found["time"] = 1000 * np.abs((stated - stated[0]) - (truth.seconds[of_image] - truth.seconds[of_image[0]]))
    if rows.whole:
        gray = []
        for index, image in rows.whole.items():
            with Image.open(usable[numbers[index]]) as source:
                gray.append(np.abs(np.asarray(source.convert("RGB").resize(image.shape[1::-1], Image.Resampling.BOX), int) - image).mean())
        found["gray levels"] = np.array(gray)
    if rows.depth is not None:
        found["without depth"] = sum(depth is None for depth in rows.depth)
    return found


def summary(takes):
    """One line for all takes: sums of counts; of everything else the mean and the greatest."""
    result = {}
    for key in dict.fromkeys(key for take in takes for key in take):
        values = [take[key] for take in takes if key in take]
        if isinstance(values[0], np.ndarray):
            values = np.concatenate(values)
            result[key] = [round(float(values.mean()), 4), round(float(values.max()), 4)] if len(values) else None
        else:
            result[key] = sum(values)
    return result
