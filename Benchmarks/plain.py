"""Converts StackCapture sessions (v1 or v2) to HDF5 with a straightforward script.

    python plain.py SESSION OUTPUT.h5
    python plain.py DIRECTORY-OF-SESSIONS DIRECTORY

Takeset is compared with this peer: json, NumPy, SciPy, Pillow and h5py, one process, and the same arrays
under the same names. It does what a careful script does and no more: no digests, no statistics, no resuming.
"""

import argparse
import json
from pathlib import Path

import h5py
import numpy as np
from arrays import (
    create_grid, create_groups, filters, nanoseconds, nearest, stored_size, write_actions, write_points_and_joints, write_small, write_stream)
from PIL import Image
from scipy.spatial.transform import Rotation


def poses_from_matrices(matrices):
    """Camera-to-world matrices as x y z qx qy qz qw, with quaternions that do not change sign from row to row."""
    quaternions = Rotation.from_matrix(matrices[:, :3, :3]).as_quat()
    flips = np.where(np.sum(quaternions[1:] * quaternions[:-1], axis=1) < 0, -1, 1)
    signs = np.concatenate([[1 if quaternions[0, 3] >= 0 else -1], flips]).cumprod()
    return np.hstack([matrices[:, :3, 3], quaternions * signs[:, None]]).astype(np.float32)


def read_picture(path, size):
    with Image.open(path) as image:
        if image.size != size:
            image.draft("RGB", size)  # lets libjpeg decode to a half, a quarter or an eighth
            image = image.convert("RGB").resize(size, Image.Resampling.BILINEAR)
        return np.asarray(image.convert("RGB"))


def write_pictures(obs, files, gzip, is_default):
    with Image.open(files[0]) as image:
        size = stored_size(*image.size, is_default)
    images = create_grid(obs, "camera_image", len(files), (size[1], size[0], 3), np.uint8, **gzip)
    for row, file in enumerate(files):
        images[row] = read_picture(file, size)


def write_depth(obs, folder, size, numbers, rows, gzip):
    width, height = size
    shape = (height, width, 1)
    maps = create_grid(obs, "camera_depth", len(rows), shape, np.float32, **gzip)
    masks = create_grid(obs, "camera_depth_valid", len(rows), shape, np.uint8, **gzip)
    last = None
    for row, sample in enumerate(rows):
        if sample < 0:
            continue  # reads as 0
        if sample != last:
            depth = np.fromfile(folder / f"{numbers[sample]:06d}.bin", "<f4").reshape(shape)
            mask = np.isfinite(depth) & (depth > 0)
            depth = np.where(mask, depth, 0)
            last = sample
        maps[row] = depth
        masks[row] = mask


def convert(session, output, level=4, image_level=0, is_default=False):
    metadata = json.loads((session / "metadata.json").read_text())
    entries = sorted(json.loads((session / "poses.json").read_text()), key=lambda entry: entry["rgbIndex"])
    entries = [entry for entry in entries if (session / f"rgb/{entry['rgbIndex']:06d}.jpg").exists()]
    frames = nanoseconds([entry["timestamp"] for entry in entries])
    numbers = np.array([entry["rgbIndex"] for entry in entries])
    every, gzip = np.arange(len(entries)), filters(level)

    with h5py.File(output, "w") as file:
        obs, meta = create_groups(file, len(entries))
        write_small(meta, "timestamp_ns", frames - frames[0], gzip)
        write_small(meta, "source_index", numbers, gzip)

        matrices = np.array([entry["transform"] for entry in entries])
        write_small(obs, "pose", poses_from_matrices(matrices), gzip)
        if is_default:
            write_actions(obs.parent, matrices, gzip)
        write_stream(meta, "pose", frames, frames, numbers, every, gzip)

        write_pictures(obs, [session / f"rgb/{number:06d}.jpg" for number in numbers], filters(image_level, shuffle=False), is_default)
        write_stream(meta, "camera_image", frames, frames, numbers, every, gzip)

        with_map = [row for row in every if entries[row].get("depthIndex") is not None]
        if with_map:
            times, maps = frames[with_map], np.array([entries[row]["depthIndex"] for row in with_map])
            rows = nearest(times, frames)
            write_depth(obs, session / "depth", metadata.get("depthResolution", [256, 192]), maps, rows, gzip)
            write_stream(meta, "camera_depth", frames, times, maps, rows, gzip)

        encoders = session / "encoders.json"
        readings = json.loads(encoders.read_text()) if encoders.exists() else []
        write_points_and_joints(obs, meta, entries, readings, frames, numbers, gzip)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--compression", type=int, default=4, help="deflate level of everything but images, 0 to 9")
    parser.add_argument("--image-compression", type=int, default=0, help="deflate level of images, 0 to 9")
    parser.add_argument("--default", action="store_true", help="what Takeset's default pipeline makes: smaller images, and actions")
    arguments = parser.parse_args()
    levels = arguments.compression, arguments.image_compression, arguments.default
    if (arguments.input / "poses.json").exists():
        convert(arguments.input, arguments.output, *levels)
    else:
        for session in sorted(arguments.input.iterdir()):
            convert(session, arguments.output / f"{session.name}.h5", *levels)
