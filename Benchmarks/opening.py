"""Measures fixed costs: start-up, opening and sealing a take, a session of 36,000 poses, and directories of 10,000 takes.

    python Benchmarks/opening.py [--work DIR] [--takes N]

Prints a Markdown table. The peer of the long session is this file called with `--peer poses.json`: orjson and NumPy, from the file to
positions and quaternions. Images are hard links to one file, and takes are small: only the takes that `run` converts once are decoded.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TAKESET = Path(__file__).resolve().parent.parent / ".build/release/takeset"


def peer(path):
    import numpy
    import orjson

    entries = orjson.loads(Path(path).read_bytes())
    matrices = numpy.array([entry["transform"] for entry in entries])
    times = numpy.rint(numpy.array([entry["timestamp"] for entry in entries]) * 1e9).astype(numpy.int64)
    # Quaternion of a rotation from its diagonal; signs from the off-diagonal elements.
    m = matrices[:, :3, :3]
    d = m[:, [0, 1, 2], [0, 1, 2]]
    w = numpy.sqrt(numpy.maximum(0, 1 + d.sum(1))) / 2
    xyz = numpy.sqrt(numpy.maximum(0, 1 + 2 * d - d.sum(1)[:, None])) / 2
    xyz = numpy.copysign(xyz, numpy.stack([m[:, 2, 1] - m[:, 1, 2], m[:, 0, 2] - m[:, 2, 0], m[:, 1, 0] - m[:, 0, 1]], 1))
    poses = numpy.hstack([matrices[:, :3, 3], xyz, w[:, None]]).astype(numpy.float32)
    return len(poses), int(times[-1] - times[0])


def measure(command, times=5):
    runs = []
    for _ in range(times):
        started = time.perf_counter()
        process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        if os.waitstatus_to_exitcode(status) != 0:
            sys.exit(f"{command[0]} ended with {os.waitstatus_to_exitcode(status)}")
        runs.append((wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024))
    return [statistics.median(column) for column in zip(*runs)]


def simulated(path, seconds, size):
    shutil.rmtree(path, ignore_errors=True)
    command = [TAKESET, "simulate", "stack-session", "--variant", "v2", "--seconds", str(seconds), "--size", size, "--output", path]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return path


def long_session(work, poses):
    """A session that repeats the poses of a short one, with times and numbers that continue."""
    path = work / f"session_{poses}"
    if path.exists():
        return path
    short = simulated(work / "short", 10, "64x48")
    entries = json.loads((short / "poses.json").read_text())
    (path / "rgb").mkdir(parents=True)
    start = entries[0]["timestamp"]
    lines = []
    for number in range(poses):
        entry = dict(entries[number % len(entries)], rgbIndex=number, timestamp=round(start + number / 60, 9))
        entry["transform"] = [[float(value) for value in row] for row in entry["transform"]]
        lines.append(json.dumps(entry, indent=1))
        os.link(short / "rgb/000000.jpg", path / f"rgb/{number:06d}.jpg")
    (path / "poses.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")
    shutil.copy(short / "metadata.json", path)
    return path


def each_take(work, out, count=200):
    """The fixed cost of a take: many takes of 6 frames, minus one take of as many frames in total, per take. One thread."""
    takes, one = many_takes(work, count), work / "as_long"
    if not one.exists():
        simulated(one, count / 10, "32x24")
    medians = []
    for path in (takes, one):
        runs = []
        for _ in range(5):
            shutil.rmtree(out, ignore_errors=True)
            runs.append(measure([TAKESET, "run", path, "--output", out, "--jobs", "1", "--progress", "none"], 1))
        medians.append([statistics.median(column) for column in zip(*runs)])
    (many_wall, many_cpu, rss), (one_wall, one_cpu, _) = medians
    return (many_wall - one_wall) / count, (many_cpu - one_cpu) / count, rss


def many_takes(work, count):
    path = work / f"takes_{count}"
    if path.exists():
        return path
    one = simulated(work / "tiny", 0.1, "32x24")
    for number in range(count):
        shutil.copytree(one, path / f"session_2026-01-{number % 28 + 1:02d}_{number:06d}", copy_function=os.link)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--takes", type=int, default=10_000)
    parser.add_argument("--poses", type=int, default=36_000)
    parser.add_argument("--peer", metavar="POSES.JSON")
    options = parser.parse_args()
    if options.peer:
        print(*peer(options.peer))
        return
    work = options.work or Path(tempfile.mkdtemp(prefix="takeset-opening-"))
    work.mkdir(parents=True, exist_ok=True)
    rows = [("takeset --version", measure([TAKESET, "--version"], 21)), ("python -c pass", measure([sys.executable, "-c", "pass"], 21))]
    session = long_session(work, options.poses)
    rows.append((f"takeset plan, {options.poses} poses", measure([TAKESET, "plan", session])))
    rows.append((f"orjson and NumPy, {options.poses} poses", measure([sys.executable, __file__, "--peer", session / "poses.json"])))
    rows.append(("of that, importing NumPy and orjson", measure([sys.executable, "-c", "import numpy, orjson"])))
    takes, out = many_takes(work, options.takes), work / "out"
    for path, frames in [(work / "short", 600), (session, options.poses)]:
        command = [TAKESET, "run", path, "--output", out, "--progress", "none"]
        shutil.rmtree(out, ignore_errors=True)
        rows.append((f"takeset run, {frames} frames of 64x48", measure(command, 1)))
    rows.append((f"takeset plan, {options.takes} takes", measure([TAKESET, "plan", takes], 3)))
    rows.append(("each further take: found, opened, sealed, recorded", each_take(work, out)))
    shutil.rmtree(out, ignore_errors=True)
    run = [TAKESET, "run", takes, "--output", out, "--progress", "none"]
    rows.append((f"takeset run, {options.takes} takes of 6 frames", measure(run, 1)))
    rows.append(("the same again: nothing to do", measure(run, 3)))
    print("| what | wall s | CPU s | peak MiB |\n|---|--:|--:|--:|")
    for name, (wall, cpu, rss) in rows:
        print(f"| {name} | {wall:.4f} | {cpu:.4f} | {rss:.0f} |")
    if not options.work:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
