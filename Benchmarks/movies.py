"""Converts movies and uploaded bundles to HDF5 with PyAV and h5py, as fast as Python can.

    python movies.py INPUT OUTPUT [--jobs N]

INPUT is a directory with a movie in it, or with bundles (folders with video.mp4, depth.gz and metadata.json). Each becomes a file
in OUTPUT, with the same arrays under the same names that Takeset writes.

One movie is decoded by N threads; of several, N are converted at a time. Arrays go to the file as finished chunks, past h5py's
filters, and a depth map that several frames share is deflated once. With --plain all of that is left to PyAV and h5py.
"""

import argparse
import json
import zlib
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import av
import h5py
import numpy as np
from arrays import GZIP, create_grid, create_groups, nearest, stored_size, write_small, write_stream
from av.video.reformatter import Interpolation, VideoReformatter

# As Takeset scales.
SCALING = Interpolation.BILINEAR | Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INT | Interpolation.FULL_CHR_H_INP
DEPTH_SHAPE = (192, 256, 1)


def store(dataset, rows, array, is_plain):
    """Stores an array as one or several rows."""
    if is_plain:
        for row in rows:
            dataset[row] = array
        return
    chunk = np.ascontiguousarray(array)
    if dataset.compression:
        if dataset.shuffle:
            chunk = np.ascontiguousarray(chunk.view(np.uint8).reshape(-1, dataset.dtype.itemsize).T)
        chunk = zlib.compress(chunk, dataset.compression_opts)
    for row in rows:
        dataset.id.write_direct_chunk((row, 0, 0, 0), chunk)


def write_pictures(obs, stream, threads):
    """Decodes, shrinks and stores the pictures in one pass. Returns their times in nanoseconds from the first."""
    if threads:
        stream.thread_type = "FRAME"
        stream.codec_context.thread_count = threads
    width, height = stored_size(stream.width, stream.height)
    pictures = create_grid(obs, "camera_image", stream.frames, (height, width, 3), np.uint8)
    reformatter = VideoReformatter()
    ticks = np.zeros(stream.frames, np.int64)
    for row, frame in enumerate(stream.container.decode(stream)):
        ticks[row] = frame.pts
        picture = reformatter.reformat(frame, width, height, "rgb24", interpolation=SCALING, threads=1)
        store(pictures, [row], picture.to_ndarray(), not threads)
    base = stream.time_base
    return (2 * (ticks - ticks[0]) * base.numerator * 10**9 + base.denominator) // (2 * base.denominator)


def read_depth(bundle):
    """The keyframes of a bundle, 0 where there is no distance."""
    count = json.loads((bundle / "metadata.json").read_text())["depth_keyframe_count"]
    inflated = zlib.decompress((bundle / "depth.gz").read_bytes(), -zlib.MAX_WBITS, count * 4 * np.prod(DEPTH_SHAPE))
    maps = np.frombuffer(inflated, "<f4").reshape(count, *DEPTH_SHAPE)
    return np.where(np.isfinite(maps) & (maps > 0), maps, 0)


def write_depth(obs, maps, rows, is_plain):
    depth = create_grid(obs, "camera_depth", len(rows), DEPTH_SHAPE, np.float32, **GZIP)
    valid = create_grid(obs, "camera_depth_valid", len(rows), DEPTH_SHAPE, np.uint8, **GZIP | {"shuffle": False})
    for number, keyframe in enumerate(maps):
        frames = np.flatnonzero(rows == number)
        store(depth, frames, keyframe, is_plain)
        store(valid, frames, (keyframe > 0).astype(np.uint8), is_plain)


def convert(video, output, threads):
    """Converts one movie, with what lies beside it; without threads plainly."""
    with h5py.File(output, "w") as file, av.open(str(video)) as movie:
        stream = movie.streams.video[0]
        obs, meta = create_groups(file, stream.frames)
        times = write_pictures(obs, stream, threads)
        every = np.arange(len(times))
        write_small(meta, "timestamp_ns", times)
        write_small(meta, "source_index", every)
        write_stream(meta, "camera_image", times, times, every, every)
        if (video.parent / "depth.gz").exists():
            maps = read_depth(video.parent)
            keyframes = np.arange(len(maps))
            rows = nearest(times[3 * keyframes], times)  # a keyframe is of every third frame
            write_depth(obs, maps, rows, not threads)
            write_stream(meta, "camera_depth", times, times[3 * keyframes], keyframes, rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--pool", default="thread")
    parser.add_argument("--dt", type=int)
    options = parser.parse_args()
    videos = sorted(options.input.glob("*.mov")) or sorted(options.input.glob("*/video.mp4"))
    if len(videos) == 1:
        convert(videos[0], options.output / f"{videos[0].stem}.h5", 0 if options.plain else (options.dt or options.jobs))
    else:
        threads = 0 if options.plain else 1
        outs = [options.output / f"{v.parent.name}.h5" for v in videos]
        if options.jobs == 1:
            for v, o in zip(videos, outs): convert(v, o, options.dt or threads)
        else:
            with (ThreadPoolExecutor if options.pool == "thread" else ProcessPoolExecutor)(options.jobs) as pool:
                list(pool.map(convert, videos, outs, [options.dt or threads] * len(videos)))
