"""What converted rows are off by, against the exact truth of `takeset simulate`.

Which frame an image shows is read from the image: the simulator draws its number along the top edge. Which frame a pose is of is read from the pose: the
nearest true one.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.spatial.transform import Rotation

sys.path.append(str(Path(__file__).resolve().parents[2] / "Tests/python/kit"))
from images import frame_code  # noqa: E402
from room_oracle import view  # noqa: E402

WHOLE = 20  # of so many images one is compared with its source, and of a fourth as many depth maps one with the truth
FILTERS = [Image.Resampling.BOX, Image.Resampling.BILINEAR, Image.Resampling.HAMMING, Image.Resampling.BICUBIC, Image.Resampling.LANCZOS, Image.Resampling.NEAREST]


@dataclass
class Rows:
    """Rows of one take, or of a part of it."""

    edges: list  # the top of each image, (height / 40, width, 3), which tells its frame
    poses: np.ndarray  # camera to world, (n, 4, 4)
    joints: np.ndarray | None = None  # degrees (n, 4), NaN where the output says that there are none
    seconds: np.ndarray | None = None  # stated time of each row (n)
    depth: list | None = None  # of each row its depth map in mm (height, width), 0 where it has no value; None where it has no map
    whole: dict | None = None  # of every WHOLE-th row the image
    world: np.ndarray | None = None  # what moves the true world to that of the poses (4, 4); None: that which fits best


def edge(image):
    pixels = np.asarray(image)
    return pixels[: max(len(pixels) // 40, 1)].copy()  # a view would keep the whole image


def matrices(poses):
    """Camera to world (n, 4, 4) of x y z qx qy qz qw."""
    result = np.tile(np.eye(4), (len(poses), 1, 1))
    result[:, :3, :3], result[:, :3, 3] = Rotation.from_quat(poses[:, 3:7]).as_matrix(), poses[:, :3]
    return result


class Truth:
    """What a take of `takeset simulate` really is."""

    def __init__(self, take):
        self.take, truth = Path(take), json.loads((Path(take) / "truth.json").read_text())
        self.in_room = np.reshape(truth["camera_to_world"], (-1, 4, 4)).astype(float)  # poses in the world of the simulated room
        self.poses = np.reshape(truth.get("corrected_camera_to_world") or truth["camera_to_world"], (-1, 4, 4)).astype(float)
        times = np.array(truth["frame_time_ns"])
        if (self.take / "poses.json").exists():  # also when the camera paused, of which the truth does not know
            for pose in json.loads((self.take / "poses.json").read_text()):
                times[pose["rgbIndex"]] = round(pose["timestamp"] * 1e9)
        self.seconds = (times - times[0]) / 1e9
        self.photos = self._photos()
        # Polycam keeps some frames only, and the truth is that of those.
        numbers = range(len(self.poses)) if len(self.poses) > max(self.photos) else sorted(self.photos)
        self.place = {number: place for place, number in enumerate(numbers)}

    def angles(self, seconds):
        """The simulated glove's joints in degrees (n, 4): sines of different periods."""
        joint = np.arange(4)
        return np.array([2.0, 40, 120, 200]) - (15 + 5 * joint) * np.sin(2 * np.pi * seconds[:, None] / (2.5 + 0.4 * joint))

    def off(self, number, depth):
        """How far a depth map is from the room that the frame of this number shows, in mm: at the centers of the recording's depth pixels."""
        camera, (width, height) = self._depth_camera(number)
        rows, columns = (((np.arange(size) + 0.5) * of / size).astype(int) for size, of in zip((height, width), depth.shape))
        values = depth[np.ix_(rows, columns)].ravel().astype(float)
        expected = 1000 * view(self.in_room[self.place[number]], camera, (width, height))[0]
        return np.abs(values - expected)[values > 0]

    def _depth_camera(self, number):
        """The focal lengths and the principal point of a frame in pixels of the recording's depth maps, and their size."""
        if (self.take / "metadata.json").exists():  # of Record3D
            about = json.loads((self.take / "metadata.json").read_text())
            size, of = (about["dw"], about["dh"]), (about["w"], about["h"])
            camera = [about["K"][place] for place in (0, 4, 6, 7)]
        else:  # of Polycam
            photo = self.photos[number]
            about = json.loads((photo.parents[1] / photo.parent.name.replace("images", "cameras") / f"{photo.stem}.json").read_text())
            size, of = Image.open(next((photo.parents[1] / "depth").iterdir())).size, (about["width"], about["height"])
            camera = [about[key] for key in ("fx", "fy", "cx", "cy")]
        return [value * size[index % 2] / of[index % 2] for index, value in enumerate(camera)], size

    def _photos(self):
        """The file of each frame's image, by the frame's number."""
        if (self.take / "poses.json").exists():
            return {int(file.stem): file for file in (self.take / "rgb").iterdir()}
        images = [path for path in sorted(self.take.rglob("*.jpg")) if path.parent.name in ("rgb", "images", "corrected_images")]
        return {frame_code(edge(Image.open(path))): path for path in images}

    def usable(self):
        """Numbers of the frames that have an image and a pose."""
        poses = self.take / "poses.json"
        return set(self.photos) & ({pose["rgbIndex"] for pose in json.loads(poses.read_text())} if poses.exists() else set(self.photos))


def errors(parts, truth):
    """Of one take, whose rows are in parts: how far they are from what their images show. Lengths in mm, times in ms, angles in degrees."""
    usable, shown, found = truth.usable(), [], []
    for rows in parts:
        numbers = [frame_code(edge) for edge in rows.edges]
        known = [index for index, number in enumerate(numbers) if number in truth.photos]
        shown += [numbers[index] for index in known]
        if known:
            found.append(_errors(rows, np.array(known), [numbers[index] for index in known], truth))
    count = sum(len(rows.edges) for rows in parts)
    merged = {
        "rows": count, "usable frames": len(usable), "lost": len(usable - set(shown)), "repeated": len(shown) - len(set(shown)), "unknown images": count - len(shown),
    }  # fmt: skip
    for key in dict.fromkeys(key for one in found for key in one):
        values = [one[key] for one in found if key in one]
        merged[key] = np.concatenate(values) if isinstance(values[0], np.ndarray) else sum(values)
    return merged


def _errors(rows, known, shown, truth):
    of_image = np.array([truth.place[number] for number in shown])
    poses, expected = rows.poses[known], truth.poses[of_image]
    world = rows.world if rows.world is not None else _fitted(expected, poses)
    poses = np.linalg.inv(world) @ poses
    apart = np.linalg.norm(poses[:, None, :3, 3] - truth.poses[None, :, :3, 3], axis=2) + np.abs(poses[:, None, :3, :3] - truth.poses[None, :, :3, :3]).mean((2, 3))
    of_pose = apart.argmin(1)
    found = {
        "pairing": 1000 * np.abs(truth.seconds[of_image] - truth.seconds[of_pose]),
        "position": 1000 * np.linalg.norm(poses[:, :3, 3] - expected[:, :3, 3], axis=1),
        "rotation": np.degrees((Rotation.from_matrix(poses[:, :3, :3]).inv() * Rotation.from_matrix(expected[:, :3, :3])).magnitude()),
    }  # fmt: skip
    if rows.joints is not None:
        off = np.abs((rows.joints[known] - truth.angles(truth.seconds[of_image]) + 180) % 360 - 180)
        found["joints"] = off[np.isfinite(off).all(1)].max(1)
        found["without joints"] = len(off) - len(found["joints"])
    if rows.seconds is not None:
        stated = rows.seconds[known]
        found["time"] = 1000 * np.abs((stated - stated[0]) - (truth.seconds[of_image] - truth.seconds[of_image[0]]))
    if rows.depth is not None:
        maps = [rows.depth[index] for index in known]
        there = [index for index, map in enumerate(maps) if map is not None and map.any()]
        found["without depth"] = len(maps) - len(there)
        if there:
            found["depth"] = np.concatenate([truth.off(shown[index], maps[index]) for index in there[:: WHOLE // 4]])
    numbers, levels = dict(zip(known.tolist(), shown)), []
    for index, image in (rows.whole or {}).items():
        if index in numbers:
            with Image.open(truth.photos[numbers[index]]) as photo:
                sizes = [photo.convert("RGB").resize(image.shape[1::-1], filter) for filter in FILTERS]
            levels.append(min(np.abs(np.asarray(scaled, int) - image).mean() for scaled in sizes))
    if levels:
        found["gray levels"] = np.array(levels)
    return found


def _fitted(expected, poses):
    """The rigid motion from the true world to that of the poses, by least squares of the rotations, then of the positions."""
    u, _, v = np.linalg.svd(np.einsum("nij,nkj->ik", poses[:, :3, :3], expected[:, :3, :3]))
    world = np.eye(4)
    world[:3, :3] = u @ np.diag([1, 1, np.linalg.det(u @ v)]) @ v
    world[:3, 3] = (poses[:, :3, 3] - expected[:, :3, 3] @ world[:3, :3].T).mean(0)
    return world


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
