"""Measures how fast random windows of images are read: 16 frames in a row, and single frames, from Takeset and from other formats.

    pip install -r Benchmarks/requirements-windows.txt
    python Benchmarks/windows.py [--quick] [--sizes 320x240 128x96] [--output Benchmarks/results/windows-NAME.json] [--work DIR]

Simulates two sessions of each size, converts them, writes their images in every format, checks that all return the same frames, and
reads windows at random. Prints Markdown tables and writes every single measurement as JSON. README.md next to this file has the results.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

os.environ["SVT_LOG"] = "1"  # errors only, of the AV1 encoder

import av  # noqa: E402
import h5py  # noqa: E402
import numcodecs  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
import torchcodec  # noqa: E402
import zarr  # noqa: E402
from machine import command_output, facts  # noqa: E402

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
TAKESET = ROOT / ".build/release/takeset"
sys.path.insert(0, str(ROOT / "python"))

import takeset  # noqa: E402
from takeset.torch import Windows  # noqa: E402

FRAMES, RATE, SECONDS, TAKES = 16, 60, 10, 2
OURS = "Takeset, takeset.open"
PIPELINE = "version: 1\ntransforms: [align]\nwriter: {hdf5: {image: %s}}\n"


# The formats. Each opens its files once, and returns (count, H, W, 3) frames of an episode from a row on.


class Takeset:
    """Streams of the package."""

    def __init__(self, path):
        self.streams = [episode["camera_image"] for episode in takeset.open(path)]

    def __call__(self, episode, row, count):
        return self.streams[episode][row : row + count]


class TorchWindows:
    """Samples of takeset.torch: images with their mask, as tensors, in a dictionary."""

    def __init__(self, path):
        self.windows = {
            count: Windows(path, split=None, observation_horizon=count, keys=("camera_image",), actions=None) for count in (1, FRAMES)}
        self.places = {count: {tuple(place): i for i, place in enumerate(one.index.tolist())} for count, one in self.windows.items()}

    def __call__(self, episode, row, count):
        sample = self.windows[count][self.places[count][episode, row + count - 1]]
        return sample["obs"]["camera_image"].movedim(1, 3).numpy()


class HDF5:
    """A dataset for each episode, as h5py writes it with these options."""

    def __init__(self, path, frames=None, **options):
        if frames is not None:
            with h5py.File(path, "w") as file:
                for number, images in enumerate(frames):
                    file.create_dataset(f"demo_{number}/obs/camera_image", data=images, **options)
        file = h5py.File(path, "r")
        self.arrays = [file[f"demo_{number}/obs/camera_image"] for number in range(len(file))]

    def __call__(self, episode, row, count):
        return self.arrays[episode][row : row + count]


class Zarr:
    """One array of all episodes one after the other, in format 2, as diffusion policy's replay buffer has it."""

    def __init__(self, path, frames, chunk, compressor):
        images = np.concatenate(frames)
        # The compressor that the replay buffer uses by default.
        codec = numcodecs.Blosc("lz4", clevel=5, shuffle=numcodecs.Blosc.NOSHUFFLE) if compressor else None
        array = zarr.open(str(path), mode="w", shape=images.shape, chunks=(chunk, *images.shape[1:]), dtype=images.dtype, compressor=codec)
        array[:] = images
        self.array = zarr.open(str(path), mode="r")
        self.starts = np.cumsum([0, *map(len, frames)])

    def __call__(self, episode, row, count):
        first = int(self.starts[episode]) + row
        return self.array[first : first + count]


class Video:
    """A video of each episode, encoded as LeRobot does: a keyframe every other frame, and AV1 at rate factor 30."""

    encoders = {"av1": ("libsvtav1", {"crf": "30", "g": "2", "preset": "12"}), "h264": ("libx264", {"crf": "23", "g": "2", "bf": "0"})}

    def __init__(self, path, frames, codec):
        self.paths = []
        for number, images in enumerate(frames):
            self.paths.append(path / f"{codec}-{number}.mp4")
            name, options = self.encoders[codec]
            with av.open(str(self.paths[-1]), "w") as container:
                stream = container.add_stream(name, rate=RATE, options=options)
                stream.height, stream.width, stream.pix_fmt = *images.shape[1:3], "yuv420p"
                for image in images:
                    container.mux(stream.encode(av.VideoFrame.from_ndarray(image)))
                container.mux(stream.encode())


class PyAV(Video):
    """Seeks to the keyframe before the first frame and decodes up to the last, as `decode_video_frames` of LeRobot does with PyAV."""

    def __init__(self, path, frames, codec):
        super().__init__(path, frames, codec)
        self.streams = [av.open(str(path)).streams.video[0] for path in self.paths]
        for stream in self.streams:
            stream.codec_context.thread_count = 1

    def __call__(self, episode, row, count):
        stream, found = self.streams[episode], []
        stream.container.seek(round(Fraction(row, RATE) / stream.time_base), stream=stream)
        for frame in stream.container.decode(stream):
            number = round(frame.pts * stream.time_base * RATE)
            if number >= row:
                found.append(frame.to_ndarray(format="rgb24"))
            if number >= row + count - 1:
                return np.stack(found)


class TorchCodec(Video):
    """Frames by their times, by LeRobot's default decoder, which stays open."""

    def __init__(self, path, frames, codec):
        super().__init__(path, frames, codec)
        self.decoders = [
            torchcodec.decoders.VideoDecoder(str(path), seek_mode="approximate", dimension_order="NHWC", num_ffmpeg_threads=1)
            for path in self.paths]  # fmt: skip

    def __call__(self, episode, row, count):
        return self.decoders[episode].get_frames_at(indices=list(range(row, row + count))).data.numpy()


def contenders(work, size):
    """All formats of one size by name, each with the bytes of its images, and how much its frames may differ from the raw ones."""
    raw, jpeg = (converted(work, size, image) for image in ("raw", "jpeg"))
    frames = [episode["camera_image"][:] for episode in takeset.open(raw)]
    height, width = frames[0].shape[1:3]
    two_megabytes = max(1, 2_000_000 // (height * width * 3))
    found = {}

    def add(name, files, reader, tolerance=0):
        found[name] = reader, sum(path.stat().st_size for path in files() if path.is_file()), tolerance

    def hdf5(name, **options):
        path = work / f"{size}-{name}.h5"
        return (lambda: [path]), HDF5(path, frames, **options)

    def zarray(name, chunk, compressor=True):
        path = work / f"{size}-{name}.zarr"
        return (lambda: path.rglob("*")), Zarr(path, frames, chunk, compressor)

    def video(reader, codec):
        path = work / f"{size}-video"
        path.mkdir(exist_ok=True)
        return (lambda: path.glob(f"{codec}-*")), reader(path, frames, codec), 12

    add(OURS, (raw / "episodes").iterdir, Takeset(raw))
    add("Takeset, takeset.torch.Windows", (raw / "episodes").iterdir, TorchWindows(raw))
    add("Takeset, h5py alone", (raw / "episodes").iterdir, Linked(raw))
    add("Takeset, images as JPEG", (jpeg / "episodes").iterdir, Takeset(jpeg), 12)
    add("h5py, auto-chunked gzip", *hdf5("auto", chunks=True, compression="gzip"))
    add("h5py, gzip, one frame per chunk", *hdf5("frame", chunks=(1, height, width, 3), compression="gzip"))
    add("h5py, contiguous", *hdf5("contiguous"))
    add("zarr, lz4, one frame per chunk", *zarray("one", 1))
    add("zarr, lz4, chunks of 2 MB", *zarray("two", two_megabytes))
    add("zarr, uncompressed, one frame per chunk", *zarray("plain", 1, compressor=False))
    add("LeRobot, AV1, PyAV", *video(PyAV, "av1"))
    add("LeRobot, AV1, torchcodec", *video(TorchCodec, "av1"))
    add("LeRobot, H.264, PyAV", *video(PyAV, "h264"))
    add("LeRobot, H.264, torchcodec", *video(TorchCodec, "h264"))
    return frames, found


class Linked(HDF5):
    """The same files by h5py."""

    def __init__(self, path):
        file = h5py.File(path / "dataset.h5", "r")
        self.arrays = [demo["obs/camera_image"] for demo in file["data"].values()]


def converted(work, size, image):
    sessions, output = work / f"{size}-sessions", work / f"{size}-{image}"
    for number in range(1, TAKES + 1):
        take = sessions / f"session_2026-01-0{number}_120000"
        if not (take / "truth.json").exists():
            shutil.rmtree(take, ignore_errors=True)
            options = ["--variant", "v2", "--seconds", str(SECONDS), "--size", size, "--seed", str(number), "--output", take]
            subprocess.run([TAKESET, "simulate", "stack-session", *options], check=True, stdout=subprocess.DEVNULL)
    pipeline = work / f"{image}.yaml"
    pipeline.write_text(PIPELINE % image)
    command = [TAKESET, "run", sessions, "--output", output, "--pipeline", pipeline, "--progress", "none", "--replace"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return output


# Measuring


def check(frames, found):
    """Everybody returns the same frames, the lossy ones nearly."""
    chance = random.Random(0)
    for name, (reader, _, tolerance) in found.items():
        for count in (1, FRAMES):
            for _ in range(5):
                episode = chance.randrange(len(frames))
                row = chance.randrange(len(frames[episode]) - count + 1)
                difference = np.abs(reader(episode, row, count).astype(int) - frames[episode][row : row + count])
                if difference.mean() > tolerance:
                    sys.exit(f"{name}: frame {row} of episode {episode} is {difference.mean():.1f} gray levels off on average")


def measure(reader, frames, count, seed, seconds):
    """Microseconds of wall and of processor time for a random read: the medians of the reads that some seconds allow."""
    chance, reads = random.Random(seed), []
    ends = time.perf_counter() + seconds
    while not reads or time.perf_counter() < ends:
        episode = chance.randrange(len(frames))
        row = chance.randrange(len(frames[episode]) - count + 1)
        wall, processor = time.perf_counter(), time.process_time()
        reader(episode, row, count)
        reads.append((time.perf_counter() - wall, time.process_time() - processor))
    return [statistics.median(column) * 1e6 for column in zip(*reads)]


def rounds(frames, found, number, seconds):
    """Every measurement, by contender and number of frames; contenders alternate, and each round starts with another."""
    names = list(found)
    results = {name: {count: [] for count in (1, FRAMES)} for name in names}
    for one in range(number):
        for name in names[one % len(names) :] + names[: one % len(names)]:
            for count in (1, FRAMES):
                results[name][count].append(measure(found[name][0], frames, count, one, seconds))
    return results


def table(size, found, results):
    def cell(name, count):
        wall = statistics.median(run[0] for run in results[name][count])
        ours = statistics.median(run[0] for run in results[OURS][count])
        return f"{wall:.0f} | {wall / ours:.{1 if wall / ours < 100 else 0}f}x"

    lines = [f"| {size} | us per frame | | us per window of {FRAMES} | | MB |", "|---|--:|--:|--:|--:|--:|"]
    for name, (_, size_in_bytes, _) in found.items():
        lines.append(f"| {name} | {cell(name, 1)} | {cell(name, FRAMES)} | {size_in_bytes / 1e6:.1f} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--sizes", nargs="+", default=["320x240", "128x96"], help="WIDTHxHEIGHT of the images")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--work", type=Path, help="keep the files here")
    options = parser.parse_args()
    # Every contender has one core, as in a worker of a data loader.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    numcodecs.blosc.set_nthreads(1)
    work = options.work or Path(tempfile.mkdtemp(prefix="takeset-windows-"))
    work.mkdir(parents=True, exist_ok=True)
    packages = ("h5py", "numpy", "zarr", "numcodecs", "av", "torch", "torchcodec", "pillow", "simplejpeg")
    result = facts() | {
        "versions": {
            "takeset": command_output(TAKESET, "--version"), "python": platform.python_version(), "h5py's hdf5": h5py.version.hdf5_version,
            **{name: importlib.metadata.version(name) for name in packages},
        },
        "frames": FRAMES, "rounds": 1 if options.quick else 5, "sizes": {},
    }  # fmt: skip
    try:
        for size in options.sizes:
            frames, found = contenders(work, size)
            check(frames, found)  # which also brings all files into the page cache
            results = rounds(frames, found, result["rounds"], 0.1 if options.quick else 0.5)
            result["sizes"][size] = {
                name: {"bytes": found[name][1], "wall_us": {k: [run[0] for run in v] for k, v in one.items()},
                       "cpu_us": {k: [run[1] for run in v] for k, v in one.items()}}
                for name, one in results.items()}  # fmt: skip
            print(table(size, found, results), end="\n\n", flush=True)
    finally:
        if not options.work:
            shutil.rmtree(work)
    output = options.output or HERE / "results" / f"windows-{result['date']}-{result['commit'] or 'unknown'}.json"
    output.write_text(json.dumps(result, indent=1) + "\n")
    print(f"wrote {output}", file=sys.stderr)


if __name__ == "__main__":
    main()
