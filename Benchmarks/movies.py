"""Converts videos and uploaded bundles to HDF5 with PyAV and h5py, with the fastest Python that we could write.

    python movies.py INPUT OUTPUT [--jobs N]

INPUT is a directory of videos, or of bundles: folders of video.mp4, depth.gz and metadata.json. Each becomes a file in
OUTPUT that holds the same arrays under the same names as Takeset's. One video is cut at keyframes into N parts that are decoded
at a time; of several videos, N are converted at a time. Chunks are encoded here and written without h5py's filters, so a depth
map that several frames share is deflated once.
"""

import argparse
import json
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import av
import h5py
import numpy as np
from arrays import GZIP, create_grid, create_groups, nearest, stored_size, write_small, write_stream

# Takeset's flags. A graph scales as fast as VideoFrame.reformat, and assumes the same chroma location as Takeset.
SCALING = "flags=bilinear+accurate_rnd+full_chroma_int+full_chroma_inp"
DEPTH_SHAPE = (192, 256, 1)


def scaler(stream, width, height):
    """A graph that converts decoded frames to RGB at their final size in one pass."""
    graph = av.filter.Graph()
    graph.threads = 1
    scale = graph.add("scale", f"{width}:{height}:{SCALING}")
    graph.link_nodes(graph.add_buffer(template=stream), scale, graph.add("format", "rgb24"), graph.add("buffersink")).configure()
    return graph


def index(movie):
    """Presentation times of the frames in ticks, and the rows at which decoding can start."""
    packets = [(packet.pts, packet.is_keyframe) for packet in movie.demux(video=0) if packet.pts is not None]
    ticks = np.sort([tick for tick, _ in packets])
    return ticks, np.searchsorted(ticks, [tick for tick, is_key in packets if is_key])


def write_part(images, video, ticks, rows):
    """Decodes, downscales and stores the frames of these rows, of which the first is a keyframe."""
    with av.open(str(video)) as movie:
        stream = movie.streams.video[0]
        stream.thread_type, stream.codec_context.thread_count = "FRAME", 1
        graph = scaler(stream, images.shape[2], images.shape[1])
        movie.seek(int(ticks[rows.start]), stream=stream)
        for frame in movie.decode(stream):
            row = int(np.searchsorted(ticks, frame.pts))
            if row >= rows.stop:
                break
            if row >= rows.start:
                graph.vpush(frame)
                store(images, [row], graph.vpull().to_ndarray())


def write_pictures(obs, movie, video, jobs):
    """Stores all frames, and returns their times in nanoseconds from the first."""
    stream = movie.streams.video[0]
    width, height = stored_size(stream.width, stream.height)
    ticks, starts = index(movie)
    images = create_grid(obs, "camera_image", len(ticks), (height, width, 3), np.uint8)
    cuts = [int(starts[np.abs(starts - part * len(ticks) / jobs).argmin()]) for part in range(jobs)] + [len(ticks)]
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(lambda start, stop: write_part(images, video, ticks, range(start, stop)), cuts, cuts[1:]))
    unit = stream.time_base
    return (2 * (ticks - ticks[0]) * unit.numerator * 10**9 + unit.denominator) // (2 * unit.denominator)


def store(dataset, rows, array):
    """Stores an array as each of these rows, filtered once."""
    chunk = np.ascontiguousarray(array)
    if dataset.shuffle:
        chunk = np.ascontiguousarray(chunk.view(np.uint8).reshape(-1, chunk.itemsize).T)
    if dataset.compression:
        chunk = zlib.compress(chunk, dataset.compression_opts)
    for row in rows:
        dataset.id.write_direct_chunk((row, 0, 0, 0), chunk)


def read_depth(bundle):
    """The depth keyframes of a bundle, 0 where they have no depth value."""
    count = json.loads((bundle / "metadata.json").read_text())["depth_keyframe_count"]
    inflated = zlib.decompress((bundle / "depth.gz").read_bytes(), -zlib.MAX_WBITS, count * np.prod(DEPTH_SHAPE) * 4)
    maps = np.frombuffer(inflated, "<f4").reshape(count, *DEPTH_SHAPE)
    return np.where(np.isfinite(maps) & (maps > 0), maps, 0)


def write_depth(obs, maps, rows):
    depth = create_grid(obs, "camera_depth", len(rows), DEPTH_SHAPE, np.float32, **GZIP)
    valid = create_grid(obs, "camera_depth_valid", len(rows), DEPTH_SHAPE, np.uint8, **GZIP | {"shuffle": False})
    for number, keyframe in enumerate(maps):
        frames = np.flatnonzero(rows == number)
        store(depth, frames, keyframe)
        store(valid, frames, keyframe > 0)


def convert(video, output, jobs=1):
    """Converts one video, with the depth next to it if there is any."""
    with h5py.File(output, "w") as file, av.open(str(video)) as movie:
        obs, meta = create_groups(file, movie.streams.video[0].frames)
        times = write_pictures(obs, movie, video, jobs)
        every = np.arange(len(times))
        write_small(meta, "timestamp_ns", times)
        write_small(meta, "source_index", every)
        write_stream(meta, "camera_image", times, times, every, every)
        if (video.parent / "depth.gz").exists():
            maps = read_depth(video.parent)
            third = times[::3][: len(maps)]  # a keyframe belongs to every third frame
            rows = nearest(third, times)
            write_depth(obs, maps, rows)
            write_stream(meta, "camera_depth", times, third, every, rows)


def convert_all(source, target, jobs):
    outputs = {video: target / f"{video.stem}.h5" for video in source.glob("*.mov")}
    outputs |= {video: target / f"{video.parent.name}.h5" for video in source.glob("*/video.mp4")}
    if jobs == 1 or len(outputs) == 1:
        for video, output in outputs.items():
            convert(video, output, jobs)
    else:
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(convert, outputs.keys(), outputs.values()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    convert_all(arguments.input, arguments.output, arguments.jobs)
