"""Converts one StackCapture session (v1 or v2) to HDF5, the way one would by hand.

    python plain.py SESSION OUTPUT.h5

This is the peer that Takeset is measured against: json, NumPy, SciPy, Pillow and h5py, one process, and the same arrays
under the same names. It does what a careful script does and no more: no digests, no statistics, no resuming.
"""

import argparse
import json
from pathlib import Path

import h5py
import numpy as np
from arrays import GZIP, create_grid, create_groups, nearest, stored_size, write_small, write_stream
from PIL import Image
from scipy.spatial.transform import Rotation

JOINTS = ["index_mcp", "index_pip", "three_finger_mcp", "three_finger_pip"]


def nanoseconds(seconds):
    return np.rint(np.asarray(seconds, np.float64) * 1e9).astype(np.int64)


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


def read_joints(path, first_frame):
    """Angles with NaN for failed readings, each joint unwrapped, and their times on the frames' clock.

    No file ties the two clocks together. Both recordings start at once, so the first reading is put at the first frame;
    from there the sender's milliseconds count, since arrival times jitter.
    """
    readings = sorted(json.loads(path.read_text()), key=lambda reading: reading["timestamp"])
    angles = np.array([[reading[joint] for joint in JOINTS] for reading in readings])
    angles[angles == -1] = np.nan
    for channel in angles.T:
        valid = np.isfinite(channel)
        channel[valid] = np.unwrap(channel[valid], period=360)
    sent = np.array([reading["esp_timestamp_ms"] for reading in readings], np.int64)
    return angles.astype(np.float32), first_frame + (sent - sent[0]) * 1_000_000


def write_numbers(obs, name, samples, rows):
    values = np.where((rows >= 0)[:, None], samples[rows], np.nan).astype(np.float32)
    write_small(obs, name, values)
    write_small(obs, f"{name}_valid", np.isfinite(values).astype(np.uint8))


def write_pictures(obs, files):
    with Image.open(files[0]) as image:
        size = stored_size(*image.size)
    pictures = create_grid(obs, "camera_image", len(files), (size[1], size[0], 3), np.uint8)
    for row, file in enumerate(files):
        pictures[row] = read_picture(file, size)


def write_depth(obs, folder, size, numbers, rows):
    width, height = size
    shape = (height, width, 1)
    maps = create_grid(obs, "camera_depth", len(rows), shape, np.float32, **GZIP)
    masks = create_grid(obs, "camera_depth_valid", len(rows), shape, np.uint8, **GZIP)
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


def convert(session, output):
    metadata = json.loads((session / "metadata.json").read_text())
    entries = sorted(json.loads((session / "poses.json").read_text()), key=lambda entry: entry["rgbIndex"])
    entries = [entry for entry in entries if (session / f"rgb/{entry['rgbIndex']:06d}.jpg").exists()]
    frames = nanoseconds([entry["timestamp"] for entry in entries])
    numbers = np.array([entry["rgbIndex"] for entry in entries])
    every = np.arange(len(entries))

    with h5py.File(output, "w") as file:
        obs, meta = create_groups(file, len(entries))
        write_small(meta, "timestamp_ns", frames - frames[0])
        write_small(meta, "source_index", numbers)

        write_small(obs, "pose", poses_from_matrices(np.array([entry["transform"] for entry in entries])))
        write_stream(meta, "pose", frames, frames, numbers, every)

        write_pictures(obs, [session / f"rgb/{number:06d}.jpg" for number in numbers])
        write_stream(meta, "camera_image", frames, frames, numbers, every)

        with_map = [row for row in every if entries[row].get("depthIndex") is not None]
        if with_map:
            times, maps = frames[with_map], np.array([entries[row]["depthIndex"] for row in with_map])
            rows = nearest(times, frames)
            write_depth(obs, session / "depth", metadata.get("depthResolution", [256, 192]), maps, rows)
            write_stream(meta, "camera_depth", frames, times, maps, rows)

        with_point = [row for row in every if entries[row].get("depth") is not None]
        if with_point:
            points = np.array([[entries[row]["depth"]] for row in with_point])
            rows = nearest(frames[with_point], frames)
            write_numbers(obs, "depth_point", points, rows)
            write_stream(meta, "depth_point", frames, frames[with_point], numbers[with_point], rows)

        if (session / "encoders.json").exists():
            angles, times = read_joints(session / "encoders.json", frames[0])
            rows = nearest(times, frames)
            write_numbers(obs, "joints", angles, rows)
            write_stream(meta, "joints", frames, times, np.arange(len(times)), rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("session", type=Path)
    parser.add_argument("output", type=Path)
    arguments = parser.parse_args()
    convert(arguments.session, arguments.output)
