"""Exports of scenes and point clouds: running them, reading their files, and by NumPy what must be in them, from stored arrays
alone."""

import json

import numpy as np
from geometry_oracle import AXES, block, matrices
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


def nearest_pixels(old, new):
    """Row and column of the pixel of a stream's grid that the center of each pixel of another stream is in, -1 where it is in none."""
    y, x = np.mgrid[0 : old.shape[1], 0 : old.shape[2]] + 0.5
    x, y, _ = np.einsum("ij,jkl->ikl", raster(new) @ np.linalg.inv(raster(old)), np.stack([x, y, np.ones_like(x)]))
    outside = (x < 0) | (y < 0) | (x >= new.shape[2]) | (y >= new.shape[1])
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


def cloud(demo, meta, voxel=0.01, confidence=None, every=1, **limits):
    """The points of an episode from the stored arrays: counts, and cubes in order, with the mean position and color of each.

    Operations are in the order that rounds the same way."""
    counts = dict.fromkeys(("depth_maps", "depth_values", "below_confidence", "out_of_range", "at_edges", "outside_image"), 0)
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
    found = []
    for row in sorted(best.values()):
        pose = poses[row] if delay[row] == 0 else at[row]
        view = poses[row] if image_delay[row] == 0 else of_images[row]
        if np.isfinite(pose).all() and np.isfinite(view).all():
            counts["depth_maps"] += 1
            kept = usable(depth[row], least == 0 or sure[row, ..., 0] >= least, counts, **limits)
            points = unprojected(depth[row], kept, pose, cameras[row])
            inside, pixels = painted(demo, meta, row, kept, None if delay[row] == image_delay[row] else (points, view))
            counts["outside_image"] += int((~inside).sum())
            scaled = points[inside] * (1 / voxel) + 2**20
            keys = np.floor(scaled).astype(np.int64)
            found.append(np.hstack([keys, np.floor((scaled - keys) * 65536).astype(np.int64), pixels]))
    cubes, of_points, size = np.unique(np.concatenate(found)[:, :3], axis=0, return_inverse=True, return_counts=True)
    sums = np.zeros((len(cubes), 6), np.int64)
    np.add.at(sums, of_points.ravel(), np.concatenate(found)[:, 3:])
    size = size[:, None]
    where = (cubes - 2**20 + (sums[:, :3] / size + 0.5) / 65536) * voxel
    return counts, cubes - 2**20, where, (sums[:, 3:] + size // 2) // size


def usable(depth, is_sure, counts, low=0.0, high=5.0, edge=0.05):
    """Which values of a depth map become points; counts why others do not."""
    valid = depth > 0
    counts["depth_values"] += int(valid.sum())
    left = valid & is_sure
    near = left & (depth >= np.float32(low)) & (depth <= np.float32(high))
    flat = near & ~edges(depth, edge) if edge else near
    for name, before, after in ("below_confidence", valid, left), ("out_of_range", left, near), ("at_edges", near, flat):
        counts[name] += int((before & ~after).sum())
    return flat


def unprojected(depth, kept, pose, camera):
    """The points of the values of a depth map that are kept."""
    (fx, fy, cx, cy), (y, x), z = camera, np.nonzero(kept), depth[kept].astype("f8")
    right, down, forward, origin = pose[:3].T
    a, b = (x + 0.5 - cx) / fx * z, (y + 0.5 - cy) / fy * z
    return origin + right * a[:, None] + down * b[:, None] + forward * z[:, None]


def painted(demo, meta, row, kept, seen_from=None):
    """Which points are in the image of a row, and their pixels: by the grids, or where a camera of another time sees them."""
    image = demo["obs/camera_image"]
    height, width = image.shape[1:3]
    if seen_from is None:
        rows, columns = (grid[kept] for grid in nearest_pixels(demo["obs/camera_depth"], image))
    else:
        points, pose = seen_from
        x, y, z = ((points - pose[:3, 3]) @ pose[:3, :3]).T
        fx, fy, cx, cy = meta["intrinsics"][row].astype("f8")
        columns, rows = (np.floor(a).astype(int) for a in (x / z * fx + cx, y / z * fy + cy))
    inside = (rows >= 0) & (columns >= 0) & (rows < height) & (columns < width)
    return inside, image[row][rows[inside], columns[inside]].astype(np.int64)


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
