"""Measures how fast MCAP recordings are converted, compared with a StackCapture session of the same images and poses.

    pip install mcap lz4 zstandard
    python Benchmarks/recordings.py [--work DIR] [--seconds S] [--rounds N] [--jobs N ...]

Prints a Markdown table. The session is simulated and exported to MCAP; the copies in LZ4 and Zstandard are written by the library mcap, in
chunks of 1 MiB. All are converted with the same pipeline, alternately, and each round starts with another one; ratios are the medians of those
of the rounds. Images must be the same.
"""

import argparse
import hashlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py
from mcap.reader import NonSeekingReader
from mcap.writer import CompressionType, Writer

TAKESET = Path(os.environ.get("TAKESET", Path(__file__).resolve().parent.parent / ".build/release/takeset"))
STEPS = "transforms: [align, {select: {streams: [camera_image, pose]}}, {resize-image: {width: 320, height: 240}}, actions]\n"
OWN = "a StackCapture session"


def run(*command):
    done = subprocess.run([*map(str, (TAKESET, *command))], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr[-2000:]}")


def copied(source, target, compression):
    """The same messages in compressed chunks."""
    with source.open("rb") as file, target.open("wb") as output:
        writer, schemas, channels = Writer(output, compression=compression, chunk_size=1 << 20), {0: 0}, {}
        writer.start(library="takeset")
        for schema, channel, message in NonSeekingReader(file).iter_messages(log_time_order=False):
            if schema is not None and schema.id not in schemas:
                schemas[schema.id] = writer.register_schema(schema.name, schema.encoding, schema.data)
            if channel.id not in channels:
                channels[channel.id] = writer.register_channel(channel.topic, channel.message_encoding, schemas[schema.id if schema else 0], channel.metadata)
            writer.add_message(channels[channel.id], message.log_time, message.data, message.publish_time, message.sequence)
        writer.finish()


def converted(take, output, pipeline, jobs):
    """Seconds on the clock and of processors, and a digest of the images."""
    shutil.rmtree(output, ignore_errors=True)
    os.sync()
    started = time.perf_counter()
    command = [TAKESET, "run", take, "--output", output, "--pipeline", pipeline, "--jobs", jobs, "--progress", "none"]
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit(f"takeset ended with {os.waitstatus_to_exitcode(status)} on {take}")
    with h5py.File(output / "dataset.h5") as file:
        return wall, usage.ru_utime + usage.ru_stime, hashlib.sha256(file["data/demo_000000/obs/camera_image"][:]).hexdigest()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args()
    work = options.work or Path(tempfile.mkdtemp())
    work.mkdir(parents=True, exist_ok=True)
    takes, pipeline = {OWN: work / "session", "MCAP": work / "none.mcap", "MCAP, LZ4": work / "lz4.mcap", "MCAP, Zstandard": work / "zstd.mcap"}, work / "p.yaml"
    pipeline.write_text("version: 1\n" + STEPS)
    if not all(take.exists() for take in takes.values()):
        run("simulate", "stack-session", "--variant", "v2", "--seconds", options.seconds, "--size", "480x360", "--output", takes[OWN])
        (work / "whole.yaml").write_text("version: 1\ntransforms: [align, {select: {streams: [camera_image, pose]}}]\nwriter: {hdf5: {image: jpeg-source}}\n")
        run("run", takes[OWN], "--output", work / "whole", "--pipeline", work / "whole.yaml", "--progress", "none", "--replace")
        run("export", work / "whole", "--to", "mcap", "--output", work / "exported")
        shutil.move(next((work / "exported").glob("*.mcap")), takes["MCAP"])
        copied(takes["MCAP"], takes["MCAP, LZ4"], CompressionType.LZ4)
        copied(takes["MCAP"], takes["MCAP, Zstandard"], CompressionType.ZSTD)
    names = list(takes)
    print("| jobs | take | wall s | CPU s | of the session, wall | CPU |\n|--:|---|--:|--:|--:|--:|")
    for jobs in options.jobs:
        rounds = []
        for number in range(options.rounds + 1):
            found = {name: converted(takes[name], work / "out", pipeline, jobs) for name in names[number % 4 :] + names[: number % 4]}
            if len({one[2] for one in found.values()}) != 1:
                sys.exit("the images differ")
            if number:  # the first reads the inputs into the page cache
                rounds.append(found)
        for name in names:
            middle = [statistics.median(one[name][column] for one in rounds) for column in range(2)]
            ratios = [statistics.median(one[OWN][column] / one[name][column] for one in rounds) for column in range(2)]
            print(f"| {jobs} | {name} | {middle[0]:.2f} | {middle[1]:.2f} | {ratios[0]:.2f} | {ratios[1]:.2f} |", flush=True)
    if not options.work:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
