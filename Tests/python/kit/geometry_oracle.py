"""Geometry by NumPy, independent of Takeset: grids of pixels and axes of cameras; and takes that are converted by one pipeline after another."""

import json
import math
from fractions import Fraction

import numpy as np
import yaml
from outputs import demos, manifest
from scans import POSE, session as scan
from scipy.spatial.transform import Rotation
from stack_sessions import slam_alone, still, v1, v2, v3_scaled

MAPS = ["camera_depth", "camera_depth_valid", "camera_depth_confidence"]
CAMERA = {"fx": 72.5, "fy": 73.25, "cx": 47.75, "cy": 36.5}

# Conversions


def with_camera():
    """A session with depth maps and with intrinsics."""
    found = v1()
    found.metadata["cameraIntrinsics"] = CAMERA
    return found


def steps_file(directory, *steps, writer=None, reader="auto", name="pipeline"):
    """The arguments for a pipeline file of align and these steps, which may repeat, and options of the writer."""
    document = {"version": 1, "reader": reader, "transforms": [{"align": {}}, *steps]}
    if writer:
        document["writer"] = {"hdf5": writer}
    path = directory / f"{name}.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return ["--pipeline", path]


class Runs:
    """The same takes, converted once for each pipeline."""

    def __init__(self, takeset, root, takes):
        """Takes by name, which write themselves; a take that is bytes is one file, named with its suffix."""
        self.takeset, self.root, self.found = takeset, root, {}
        self.inputs = root / "in"
        self.inputs.mkdir(parents=True)
        for name, one in takes.items():
            if isinstance(one, bytes):
                (self.inputs / name).write_bytes(one)
            elif one is not None:
                one.write(self.inputs / name)

    def output(self, *steps, writer=None, default=False, check=0):
        """The dataset of these steps, or of the default pipeline."""
        key = json.dumps([steps, writer, default])
        if key not in self.found:
            number = len(self.found)
            output = self.root / f"out{number}"
            arguments = [] if default else steps_file(self.root, *steps, writer=writer, name=f"p{number}")
            self.takeset.convert(self.inputs, output=output, arguments=arguments, check=check)
            self.found[key] = output
        return self.found[key]

    def __call__(self, *steps, **options):
        """Entry, demo and meta of every take by its id; demo and meta are None where it was not written."""
        output = self.output(*steps, **options)
        written = demos(output)
        return {entry["id"]: (entry, *written.get(entry["id"], (None, None))) for entry in manifest(output)["record"]["takes"]}

    def is_foreseen(self, *steps):
        """The dataset of these steps is sound, and a plan foresees the shapes of its images and maps. The dataset."""
        output = self.output(*steps)
        self.takeset("verify", output, check=0)
        arguments = steps_file(self.root, *steps, name="planned")
        planned = json.loads(self.takeset("plan", self.inputs, "--json", *arguments, check=0).stdout)
        shapes = {t["id"]: {d["path"]: d["shape"] for d in t["datasets"]} for t in planned["takes"]}
        for name, (demo, _) in demos(output).items():
            for one in ["camera_image", *MAPS]:
                if one in demo["obs"]:
                    assert tuple(shapes[name][f"/data/demo_0/obs/{one}"]) == demo["obs"][one].shape, (name, one)
        return output


def refused(takeset, takes, root, path, *steps, writer=None):
    """run and plan refuse the pipeline by this path, with exit 64, and create nothing."""
    arguments = steps_file(root, *steps, writer=writer)
    for command in ["run", takes, "--output", root / "refused"], ["plan", takes]:
        done = takeset(*command, *arguments)
        assert done.returncode == 64 and path in done.stderr, (done.returncode, done.stderr)
    assert not (root / "refused").exists()


def fails_everywhere(takeset, takes, root, name, *steps, writer=None):
    """The take fails in run and in plan, with exit 3 and the same sentence; the other takes are written. The entry."""
    arguments = steps_file(root, *steps, writer=writer)
    done = takeset("run", takes, "--output", root / "failing", "--progress", "plain", *arguments, check=3)
    entries = {entry["id"]: entry for entry in manifest(root / "failing")["record"]["takes"]}
    assert {other for other, entry in entries.items() if entry["outcome"] == "failed"} == {name}
    assert entries[name]["reason"] in done.stderr and len(entries[name]["reason"].split()) > 4
    planned = {t["id"]: t for t in json.loads(takeset("plan", takes, "--json", *arguments, check=3).stdout)["takes"]}
    assert {other for other, one in planned.items() if one["outcome"] == "failed"} == {name}
    assert planned[name]["reason"] == entries[name]["reason"]
    return entries[name]


def arrays_of(demo, meta):
    """Every array of an episode by its path, but for digests, checksums and statistics."""
    found = {}
    for root, group in ("data", demo), ("meta", meta):
        group.visititems(lambda name, item: found.update({f"{root}/{name}": item[()]}) if hasattr(item, "shape") else None)
    return {path: a for path, a in found.items() if not path.startswith(("meta/row_sha256/", "meta/chunk_crc32", "meta/statistics"))}


def different(one, other):
    """The paths of the arrays that two conversions of a take, each an entry with its demo and meta, have not in common."""
    one, other = arrays_of(*one[1:]), arrays_of(*other[1:])
    assert one.keys() >= other.keys()
    return {path for path in other if not np.array_equal(one[path], other[path], equal_nan=other[path].dtype.kind == "f")}


# Grids of pixels; boxes are x, y, width, height


def half_up(value):
    return math.floor(Fraction(value) + Fraction(1, 2))


def fitted(size, box):
    """The largest size of the same aspect ratio within a box that does not enlarge."""
    scale = min(Fraction(box[0], size[0]), Fraction(box[1], size[1]), 1)
    return tuple(max(1, half_up(side * scale)) for side in size)


def covering(size, box):
    """The scaled size that covers a box, and the centered box of whole pixels in it; an odd pixel is cut at the end."""
    scale = max(Fraction(box[0], size[0]), Fraction(box[1], size[1]))
    scaled = tuple(half_up(side * scale) for side in size)
    return scaled, ((scaled[0] - box[0]) // 2, (scaled[1] - box[1]) // 2, *box)


def boxed(size, box):
    """The fitted size, and the box around it in its pixels, which begins before the image; an odd pixel is added at the end."""
    scaled = fitted(size, box)
    return scaled, (-((box[0] - scaled[0]) // 2), -((box[1] - scaled[1]) // 2), *box)


def outward(box, grid, other):
    """The smallest box of whole pixels of another grid, of the same field of view, that contains a box of a grid."""
    (x, y, width, height), (a, b) = box, (Fraction(other[0], grid[0]), Fraction(other[1], grid[1]))
    left, top = math.floor(x * a), math.floor(y * b)
    return left, top, math.ceil((x + width) * a) - left, math.ceil((y + height) * b) - top


def window(images, box):
    """A box of arrays of rows, height, width and channels, with 0 where it extends beyond them."""
    x, y, width, height = box
    found = np.zeros((len(images), height, width, images.shape[3]), images.dtype)
    rows, columns = images.shape[1:3]
    top, left, bottom, right = max(y, 0), max(x, 0), min(y + height, rows), min(x + width, columns)
    found[:, top - y : bottom - y, left - x : right - x] = images[:, top:bottom, left:right]
    return found


def moved(cameras, grid, scaled, box):
    """fx fy cx cy of a grid, after scaling to a size and cutting out a box."""
    a, b = scaled[0] / grid[0], scaled[1] / grid[1]
    return np.asarray(cameras, "f8") * [a, b, a, b] - [0, 0, box[0], box[1]]


def rotated(images, degrees):
    """Arrays of rows, height and width, rotated clockwise."""
    return np.rot90(images, -degrees // 90, axes=(1, 2))


# Poses

AXES = {  # names, and the axes' directions in OpenGL's axes (x right, y up, z back) as columns
    "arkit": ("x right, y up, z back", np.eye(3)),
    "opengl": ("x right, y up, z back", np.eye(3)),
    "opencv": ("x right, y down, z forward", np.diag([1.0, -1, -1])),
    "ros": ("x forward, y left, z up", np.array([[0.0, -1, 0], [0, 0, 1], [-1, 0, 0]])),
}


# Takes with poses, and the axes of their cameras.
POSED = {"arkit": still, "depth": v1, "glove": v2, "slam": slam_alone, "claimed": v3_scaled, "scan": lambda: scan(times="time")}
OWN = {"arkit": "arkit", "depth": "arkit", "glove": "arkit", "slam": "opencv", "claimed": "opencv", "scan": "opencv"}
BODY = [0.02, -0.15, 0.08, *Rotation.from_euler("xyz", [25, -40, 70], degrees=True).as_quat().tolist()]


def poses_of_source(name, axes):
    """Matrices of a take's poses as its files have them, in float64, with these axes of the camera."""
    found = POSED[name]()
    own = matrices(found.numbers(*POSE)) if name == "scan" else np.array([entry["transform"] for entry in found.poses], "f8")
    return own @ block(AXES[OWN[name]][1].T @ AXES[axes][1])


def matrices(poses):
    """4x4 matrices of x y z qx qy qz qw."""
    poses = np.asarray(poses, "f8")
    found = np.tile(np.eye(4), (len(poses), 1, 1))
    found[:, :3, :3], found[:, :3, 3] = Rotation.from_quat(poses[:, 3:]).as_matrix(), poses[:, :3]
    return found


def block(rotation, position=(0, 0, 0)):
    """A 4x4 matrix of a rotation matrix and a position."""
    found = np.eye(4)
    found[:3, :3], found[:3, 3] = rotation, position
    return found


def opengl(demo):
    """Matrices of a demo's stored poses with OpenGL's camera axes, by the attribute that names their own."""
    stored = demo["obs/pose"].attrs["camera_axes"]
    axes = next(directions for name, directions in AXES.values() if name == stored)
    return matrices(demo["obs/pose"][:]) @ block(axes.T)


def steady(poses):
    """Checks that quaternions have length 1 and continuous signs, the first with qw >= 0."""
    quaternions = np.asarray(poses, "f8")[:, 3:]
    assert np.abs(np.linalg.norm(quaternions, axis=1) - 1).max() < 1e-6
    assert quaternions[0, 3] >= 0 and (quaternions[1:] * quaternions[:-1]).sum(1).min() > 0
