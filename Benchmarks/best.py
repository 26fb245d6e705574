"""Converts StackCapture sessions (v1 or v2) to HDF5, with the fastest Python that we could write.

    python best.py SESSION OUTPUT.h5 [--jobs N] [--compression 0-9] [--image-compression 0-9] [--fast]
    python best.py DIRECTORY-OF-SESSIONS DIRECTORY [...]

The arrays are those of plain.py. JSON is read by orjson, images by libjpeg-turbo (simplejpeg) at the smallest size that its
inverse DCT offers, and downscaled by Pillow; maps are shuffled by NumPy and deflated once for all frames that share one, by
libdeflate, or with --fast by ISA-L. Chunks are written without h5py's filters. One session is cut into blocks of adjacent frames
for N threads, since all of these libraries release Python's lock; several sessions are converted by N processes, one at a time each.
"""

import argparse
import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import deflate
import h5py
import numpy as np
import orjson
import simplejpeg
from arrays import (
    create_grid, create_groups, filters, nanoseconds, nearest, stored_size, write_actions, write_points_and_joints, write_small, write_stream)
from isal import isal_zlib
from PIL import Image

BLOCK = 8


def poses_from_matrices(matrices):
    """Camera-to-world matrices as x y z qx qy qz qw, with quaternions that do not change sign from row to row."""
    m = np.moveaxis(matrices[:, :3, :3], 0, 2)
    # Four times the products of a quaternion's components; the row of the greatest component is the quaternion times that component.
    products = np.empty((4, 4, len(matrices)))
    trace = m[0, 0] + m[1, 1] + m[2, 2]
    products[3, 3] = 1 + trace
    for i, j, k in [(0, 1, 2), (1, 2, 0), (2, 0, 1)]:
        products[i, i] = 1 + 2 * m[i, i] - trace
        products[i, j] = products[j, i] = m[i, j] + m[j, i]
        products[i, 3] = products[3, i] = m[k, j] - m[j, k]
    every = np.arange(len(matrices))
    quaternions = products[np.einsum("iin->in", products).argmax(0), :, every]
    quaternions /= np.linalg.norm(quaternions, axis=1)[:, None]
    flips = np.where(np.sum(quaternions[1:] * quaternions[:-1], axis=1) < 0, -1, 1)
    signs = np.concatenate([[1 if quaternions[0, 3] >= 0 else -1], flips]).cumprod()
    return np.hstack([matrices[:, :3, 3], quaternions * signs[:, None]]).astype(np.float32)


class Grid:
    """An array of images or maps, one per chunk, filtered here and not by libhdf5."""

    def __init__(self, obs, name, rows, shape, type, level, shuffle, fast):
        self.level, self.shuffle, self.fast = level, shuffle, fast
        self.id = create_grid(obs, name, rows, shape, type, **filters(level, shuffle)).id

    def store(self, rows, array):
        """Stores an array as each of these rows, filtered once."""
        chunk = array
        if self.level and self.shuffle:
            chunk = np.ascontiguousarray(array.view(np.uint8).reshape(-1, array.itemsize).T)
        if self.level:
            chunk = isal_zlib.compress(chunk, 1) if self.fast else deflate.zlib_compress(chunk.data, self.level)
        for row in rows:
            self.id.write_direct_chunk((row, 0, 0, 0), chunk)


class Pictures:
    def __init__(self, files, obs, options):
        self.files = files
        height, width, *_ = simplejpeg.decode_jpeg_header(Path(files[0]).read_bytes())
        self.size = stored_size(width, height, options.default)
        self.minimum = (self.size[1], self.size[0]) if self.size != (width, height) else (0, 0)
        shape = (self.size[1], self.size[0], 3)
        self.grid = Grid(obs, "camera_image", len(files), shape, np.uint8, options.image_compression, False, options.fast)

    def convert(self, rows):
        for row in rows:
            with open(self.files[row], "rb", buffering=0) as file:
                data = file.read()
            self.grid.store([row], self.reduced(data) if self.minimum[0] else simplejpeg.decode_jpeg(data))

    def reduced(self, data):
        # Four bytes per pixel are Pillow's own format, which saves a copy.
        decoded = simplejpeg.decode_jpeg(data, "RGBX", min_height=self.minimum[0], min_width=self.minimum[1], min_factor=2)
        image = Image.frombuffer("RGBX", decoded.shape[1::-1], decoded, "raw", "RGBX", 0, 1)
        return np.ascontiguousarray(np.asarray(image.resize(self.size, Image.Resampling.BILINEAR))[:, :, :3])


class Maps:
    def __init__(self, files, rows, size, obs, options):
        self.files, self.rows, self.shape = files, rows, (size[1], size[0], 1)
        self.depth, self.valid = (
            Grid(obs, name, len(rows), self.shape, type, options.compression, shuffle, options.fast)
            for name, type, shuffle in [("camera_depth", np.float32, True), ("camera_depth_valid", np.uint8, False)])

    def convert(self, rows):
        start = rows.start
        while start < rows.stop:
            sample, stop = self.rows[start], start + 1
            while stop < rows.stop and self.rows[stop] == sample:
                stop += 1
            if sample >= 0:  # else it reads as 0
                self.convert_one(self.files[sample], range(start, stop))
            start = stop

    def convert_one(self, file, rows):
        depth = np.fromfile(file, "<f4").reshape(self.shape)
        mask = (depth > 0) & (depth < np.inf)
        if not mask.all():
            depth[~mask] = 0
        self.depth.store(rows, depth)
        self.valid.store(rows, mask.view(np.uint8))


def blocks(rows):
    """Blocks of about BLOCK adjacent frames; frames that share a map stay together."""
    changes = np.flatnonzero(np.diff(rows)) + 1
    wanted = np.searchsorted(changes, np.arange(BLOCK, len(rows), BLOCK))
    cuts = np.unique([0, *changes[wanted[wanted < len(changes)]], len(rows)]).tolist()
    return [range(start, stop) for start, stop in zip(cuts, cuts[1:])]


def convert(session, output, options, jobs=1):
    entries = sorted(orjson.loads((session / "poses.json").read_bytes()), key=lambda entry: entry["rgbIndex"])
    present = set(os.listdir(session / "rgb"))
    entries = [entry for entry in entries if f"{entry['rgbIndex']:06d}.jpg" in present]
    frames = nanoseconds([entry["timestamp"] for entry in entries])
    numbers = np.array([entry["rgbIndex"] for entry in entries])
    every, gzip = np.arange(len(entries)), filters(options.compression)

    with h5py.File(output, "w") as file:
        obs, meta = create_groups(file, len(entries))
        write_small(meta, "timestamp_ns", frames - frames[0], gzip)
        write_small(meta, "source_index", numbers, gzip)

        matrices = np.array([entry["transform"] for entry in entries])
        write_small(obs, "pose", poses_from_matrices(matrices), gzip)
        if options.default:
            write_actions(obs.parent, matrices, gzip)
        write_stream(meta, "pose", frames, frames, numbers, every, gzip)
        grids = [Pictures([f"{session}/rgb/{number:06d}.jpg" for number in numbers], obs, options)]
        write_stream(meta, "camera_image", frames, frames, numbers, every, gzip)
        rows = every

        with_map = [row for row, entry in enumerate(entries) if entry.get("depthIndex") is not None]
        if with_map:
            times, maps = frames[with_map], np.array([entries[row]["depthIndex"] for row in with_map])
            rows = nearest(times, frames)
            size = orjson.loads((session / "metadata.json").read_bytes()).get("depthResolution", [256, 192])
            grids.append(Maps([f"{session}/depth/{number:06d}.bin" for number in maps], rows, size, obs, options))
            write_stream(meta, "camera_depth", frames, times, maps, rows, gzip)

        encoders = session / "encoders.json"
        readings = orjson.loads(encoders.read_bytes()) if encoders.exists() else []
        write_points_and_joints(obs, meta, entries, readings, frames, numbers, gzip)

        with ThreadPoolExecutor(jobs) as pool:
            run = pool.map if jobs > 1 else map
            list(run(lambda block: [grid.convert(block) for grid in grids], blocks(rows)))


def convert_all(source, target, options):
    sessions = sorted(source.iterdir())
    outputs = [target / f"{session.name}.h5" for session in sessions]
    if options.jobs == 1:
        for session, output in zip(sessions, outputs):
            convert(session, output, options)
    else:
        with multiprocessing.get_context("fork").Pool(min(options.jobs, len(sessions))) as pool:
            pool.starmap(partial(convert, options=options), zip(sessions, outputs), chunksize=1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--compression", type=int, default=4, help="deflate level of everything but images, 0 to 9")
    parser.add_argument("--image-compression", type=int, default=0, help="deflate level of images, 0 to 9")
    parser.add_argument("--fast", action="store_true", help="deflate with ISA-L at its level 1 in place of every level above zero")
    parser.add_argument("--default", action="store_true", help="what Takeset's default pipeline makes: smaller images, and actions")
    arguments = parser.parse_args()
    if (arguments.input / "poses.json").exists():
        convert(arguments.input, arguments.output, arguments, arguments.jobs)
    else:
        convert_all(arguments.input, arguments.output, arguments)
