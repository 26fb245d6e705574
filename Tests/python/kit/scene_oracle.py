"""Exports of scenes and point clouds: running them, reading their files, and by NumPy what must be in them, from stored arrays
alone."""

import json

import numpy as np
from geometry_oracle import AXES, block, matrices
from room_oracle import rays
from scipy.spatial.transform import Rotation, Slerp

FLIP = np.diag([1.0, -1, -1, 1])  # between OpenGL's and OpenCV's camera axes


def export(takeset, dataset, form, output, *options, check=0, **process):
    """The finished command."""
    return takeset("export", dataset, "--to", form, "--output", output, *options, check=check, **process)


def record(output):
    return json.loads((output / "takeset-export.json").read_text())


def lost(output, take):
    """The sentences about a take."""
    return [sentence for sentence in record(output)["lost"] if sentence.startswith(f"{take}: ")]


def files(directory):
    """Every file by its path, with its content."""
    return {str(p.relative_to(directory)): p.read_bytes() for p in sorted(directory.rglob("*")) if p.is_file()}


# What is stored


def opencv(demo):
    """Camera-to-world matrices of the rows, with OpenCV's camera axes, also where the poses are those of another body."""
    attributes = demo["obs/pose"].attrs
    axes = next(directions for name, directions in AXES.values() if name == attributes["camera_axes"])
    found = matrices(demo["obs/pose"][:])
    if "body" in attributes:
        found = found @ np.linalg.inv(matrices([[float(n) for n in attributes["body"].split()]])[0])
    return found @ block(axes.T @ AXES["opencv"][1])


def times(meta):
    """Whole nanoseconds of the rows: Unix time where it is known, otherwise on the clock of the frames; and the name of the time base."""
    stored = meta["timestamp_ns"]
    if "unix_origin_ns" in stored.attrs:
        return stored[:] + int(stored.attrs["unix_origin_ns"]), "unix"
    return stored[:] + int(stored.attrs["origin_ns"]), f"clock:{stored.attrs['clock']}"


def between(meta, poses, at):
    """Matrices at times since the first row, interpolated between the two rows around each; NaN outside and across gaps."""
    rows = meta["timestamp_ns"][:]
    before = np.clip(np.searchsorted(rows, at, "right") - 1, 0, len(rows) - 2)
    weight = (at - rows[before]) / (rows[before + 1] - rows[before])
    rotations = Rotation.from_matrix(poses[:, :3, :3])
    found = np.tile(np.eye(4), (len(at), 1, 1))
    found[:, :3, :3] = Slerp(rows - rows[0], rotations)(np.clip(at, rows[0], rows[-1]) - rows[0]).as_matrix()
    found[:, :3, 3] = poses[before, :3, 3] + weight[:, None] * (poses[before + 1, :3, 3] - poses[before, :3, 3])
    unknown = (at < rows[0]) | (at > rows[-1]) | (np.isin(before, meta["gaps"][:, 0]) & ~np.isin(at, rows))
    found[unknown] = np.nan
    return found


def meters(demo):
    """Depth maps as 32-bit floats in meters."""
    stored = demo["obs/camera_depth"]
    return stored[..., 0].astype("f4") / np.float32({"m": 1, "mm": 1000}[stored.attrs["unit"]])


def raster(dataset):
    """The matrix from full-size pixels to the pixels of a stream."""
    found = np.array([float(n) for n in dataset.attrs["raster_from_camera"].split()]).reshape(2, 3)
    return np.vstack([found, [0, 0, 1]])


def nearest_pixels(image, depth):
    """Row and column of the depth pixel that the center of each image pixel is in, -1 where it is in none."""
    from_image = raster(depth) @ np.linalg.inv(raster(image))
    return centers(from_image, image.shape[1:3], depth.shape[1:3])


def centers(change, old, new):
    """Row and column in a new grid of the centers of an old one's pixels; -1 outside. Sizes are height and width."""
    y, x = np.mgrid[0 : old[0], 0 : old[1]] + 0.5
    x, y, _ = np.einsum("ij,jkl->ikl", change, np.stack([x, y, np.ones_like(x)]))
    outside = (x < 0) | (y < 0) | (x >= new[1]) | (y >= new[0])
    return [np.where(outside, -1, np.floor(a).astype(int)) for a in (y, x)]


# Files


def read_ply(path):
    """The points of a binary PLY file as a structured array, by its own header."""
    data = path.read_bytes()
    header, _, body = data.partition(b"end_header\n")
    lines = header.decode("ascii").splitlines()
    assert lines[:2] == ["ply", "format binary_little_endian 1.0"]
    (count,) = [int(line.split()[2]) for line in lines if line.startswith("element vertex ")]
    types = {"float": "<f4", "uchar": "u1"}
    kind = np.dtype([(name, types[word]) for word, name in (line.split()[1:] for line in lines if line.startswith("property"))])
    assert len(body) == count * kind.itemsize
    return np.frombuffer(body, kind)


def positions(points):
    return np.stack([points[axis] for axis in "xyz"], 1).astype("f8")


def colors(points):
    return np.stack([points[channel] for channel in ("red", "green", "blue")], 1).astype(int)


def read_colmap(folder):
    """Cameras by number (model, width, height, parameters), and images by name (world-to-camera matrix, number of the camera)."""
    text = {name: (folder / f"sparse/0/{name}.txt").read_text() for name in ("cameras", "images", "points3D")}
    assert all(content.endswith("\n") and content.startswith("# ") for content in text.values())
    cameras = {}
    for line in text["cameras"].splitlines():
        if not line.startswith("#"):
            number, model, width, height, *parameters = line.split(" ")
            cameras[int(number)] = model, int(width), int(height), [float(n) for n in parameters]
    images = {}
    lines = [line for line in text["images"].split("\n")[:-1] if not line.startswith("#")]
    assert len(lines) % 2 == 0 and not any(lines[1::2])
    for number, line in enumerate(lines[::2], 1):
        fields = line.split(" ")
        assert len(fields) == 10 and int(fields[0]) == number
        qw, qx, qy, qz, *translation = [float(n) for n in fields[1:8]]
        images[fields[9]] = block(Rotation.from_quat([qx, qy, qz, qw]).as_matrix(), translation), int(fields[8])
        assert abs(np.linalg.norm([qw, qx, qy, qz]) - 1) < 1e-12 and qw >= 0
    points = [line.split(" ") for line in text["points3D"].splitlines() if not line.startswith("#")]
    return cameras, images, points


# Point clouds


class Cloud:
    """The points of an episode by a dictionary of cubes, from the stored arrays, with operations in the order that rounds the same way."""

    def __init__(self, demo, meta, voxel=0.01, low=0.0, high=5.0, confidence=None, edge=0.05, every=1):
        self.voxel, self.cubes = voxel, {}
        self.counts = dict.fromkeys(("depth_maps", "depth_values", "below_confidence", "out_of_range", "at_edges", "outside_image"), 0)
        poses, depth = opencv(demo), meters(demo)
        sure = demo.get("obs/camera_depth_confidence")
        least = 0 if sure is None else 2 if confidence is None else confidence
        delay, numbers = (meta[f"streams/camera_depth/{name}"][:] for name in ("dt_ns", "source_index"))
        at = between(meta, poses, meta["timestamp_ns"][:] + delay)
        # A frame's image has the frame's pose; only rows that are no frames have images of other times.
        image_delay = meta["streams/camera_image/dt_ns"][:] * (meta["timestamp_ns"].attrs["timeline"] == "resampled")
        of_images = between(meta, poses, meta["timestamp_ns"][:] + image_delay)
        cameras = meta["camera_depth_intrinsics"][:].astype("f8")
        best = {}
        for row in range(0, len(poses), every):
            if numbers[row] >= 0 and (numbers[row] not in best or abs(delay[row]) < abs(delay[best[numbers[row]]])):
                best[numbers[row]] = row
        for row in sorted(best.values()):
            pose = poses[row] if delay[row] == 0 else at[row]
            view = poses[row] if image_delay[row] == 0 else of_images[row]
            if not (np.isfinite(pose).all() and np.isfinite(view).all()):
                continue
            self.counts["depth_maps"] += 1
            self.add(depth[row], None if sure is None else sure[row, ..., 0], pose, cameras[row], least, low, high, edge)
            self.paint(demo, meta, row, view, delay[row] == image_delay[row])

    def add(self, depth, sure, pose, camera, least, low, high, edge):
        valid = depth > 0
        self.counts["depth_values"] += int(valid.sum())
        left = valid & (True if least == 0 else sure >= least)
        self.counts["below_confidence"] += int((valid & ~left).sum())
        near = left & (depth >= np.float32(low)) & (depth <= np.float32(high))
        self.counts["out_of_range"] += int((left & ~near).sum())
        flat = near & ~edges(depth, edge) if edge else near
        self.counts["at_edges"] += int((near & ~flat).sum())
        self.pixels = np.argwhere(flat)
        (fx, fy, cx, cy), (y, x) = camera, self.pixels.T
        z = depth[flat].astype("f8")
        right, down, forward, origin = pose[:3].T
        a, b = (x + 0.5 - cx) / fx * z, (y + 0.5 - cy) / fy * z
        self.points = origin + right * a[:, None] + down * b[:, None] + forward * z[:, None]
        self.size = depth.shape

    def paint(self, demo, meta, row, pose, is_simultaneous):
        """Gives the points of a map their colors and puts them into cubes."""
        image = demo["obs/camera_image"]
        height, width = image.shape[1:3]
        if is_simultaneous:
            change = raster(image) @ np.linalg.inv(raster(demo["obs/camera_depth"]))
            rows, columns = (a[tuple(self.pixels.T)] for a in centers(change, self.size, (height, width)))
        else:
            seen = (self.points - pose[:3, 3]) @ pose[:3, :3]
            fx, fy, cx, cy = meta["intrinsics"][row].astype("f8")
            columns, rows = (np.floor(a).astype(int) for a in (seen[:, 0] / seen[:, 2] * fx + cx, seen[:, 1] / seen[:, 2] * fy + cy))
        inside = (rows >= 0) & (columns >= 0) & (rows < height) & (columns < width)
        self.counts["outside_image"] += int((~inside).sum())
        pixels = image[row][rows[inside], columns[inside]].astype(np.int64)
        scaled = self.points[inside] * (1 / self.voxel) + 2**20
        keys = np.floor(scaled).astype(np.int64)
        fractions = np.floor((scaled - keys) * 65536).astype(np.int64)
        for key, number in zip(map(tuple, keys.tolist()), np.hstack([np.ones((len(keys), 1), np.int64), fractions, pixels]).tolist()):
            sums = self.cubes.setdefault(key, [0] * 7)
            for k in range(7):
                sums[k] += number[k]

    def arrays(self):
        """Cubes, positions and colors in the order of cubes."""
        keys = sorted(self.cubes)
        sums = np.array([self.cubes[key] for key in keys], dtype=object)
        count = sums[:, :1].astype("f8")
        within = (sums[:, 1:4].astype("f8") / count + 0.5) / 65536
        cubes = np.array(keys) - 2**20
        return cubes, (cubes + within) * self.voxel, np.array([[(c + s[0] // 2) // s[0] for c in s[4:]] for s in sums])


def edges(depth, fraction):
    """Where a value differs from one of its four neighbors by more than this fraction of the smaller of the two."""
    found = np.zeros(depth.shape, bool)
    limit = np.float32(fraction)
    for one, other in (np.s_[:-1], np.s_[1:]), (np.s_[:, :-1], np.s_[:, 1:]):
        first, second = depth[one], depth[other]
        differs = (first > 0) & (second > 0) & (np.abs(first - second) > limit * np.minimum(first, second))
        found[one] |= differs
        found[other] |= differs
    return found


def known_points(demo, meta):
    """Points of depth maps, and where the image of another row has them: its row, the points, their pixels, and which count."""
    poses, cameras, depth = opencv(demo), meta["intrinsics"][:].astype("f8"), meters(demo)
    for row, other in (0, len(poses) - 1), (len(poses) - 1, 0), (3, 3):
        far = depth[row].reshape(-1, 1).astype("f8")
        points = (rays(meta["camera_depth_intrinsics"][row].astype("f8"), depth.shape[:0:-1]) * far)[far[:, 0] > 0]
        world = np.c_[points, np.ones(len(points))] @ (poses[row] @ FLIP).T
        x, y, z, _ = np.linalg.inv(poses[other]) @ world.T
        fx, fy, cx, cy = cameras[other]
        pixels = np.stack([fx * x / z + cx, fy * y / z + cy])
        near = (z > 0.1) & (np.abs(pixels) < 1000).all(0)
        assert near.sum() > 500
        yield other, world, pixels, near
