"""Measures what a step in Python costs: runs with and without one, of sessions with images of 480x360.

    python Benchmarks/steps.py [--work DIR] [--takes N] [--seconds S] [--rounds N] [--jobs N ...]

`identity` returns the images that it gets, `number` their mean. Prints a Markdown table: the throughput of each in relation to the run without a step, as the
median of the ratios of the rounds, in which the order changes; the same of processor time and of Takeset's own peak memory; and what the Python process had at its peak. The last line is the
time to start a host that imports NumPy, and of that import alone.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

TAKESET = Path(os.environ.get("TAKESET", Path(__file__).resolve().parent.parent / ".build/release/takeset"))

STEPS = """
import numpy as np
from takeset import steps

@steps.rows(reads=["camera_image"], writes=steps.Image("camera_image"))
def identity(block):
    return block.camera_image

@steps.rows(reads=["camera_image"], writes=steps.Vector("brightness", ["mean"], unit="level"))
def number(block):
    return block.camera_image[:, ::8, ::8].mean(axis=(1, 2, 3))

@steps.rows(reads=["pose"], writes=steps.Vector("height", ["y"], unit="m"))
def pose(block):
    return block.pose[:, 1]
"""


def peak(status):
    return next((int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM")), 0)


class Watch(threading.Thread):
    """The peak memory of a process, and of the largest of its children."""

    def __init__(self, process):
        super().__init__(daemon=True)
        self.process, self.own, self.child = process, 0, 0

    def run(self):
        while self.process.returncode is None:
            try:
                self.own = max(self.own, peak(Path(f"/proc/{self.process.pid}/status").read_text()))
                for task in Path(f"/proc/{self.process.pid}/task").iterdir():
                    for child in (task / "children").read_text().split():
                        self.child = max(self.child, peak(Path(f"/proc/{child}/status").read_text()))
            except OSError:
                pass
            time.sleep(0.01)


def run(takes, output, pipeline, jobs):
    """Seconds on the clock and of processors, and peak bytes of the command and of its largest child."""
    shutil.rmtree(output, ignore_errors=True)
    os.sync()
    command = [TAKESET, "run", takes, "--output", output, "--pipeline", pipeline, "--jobs", jobs, "--progress", "none", "--python", sys.executable]
    started = time.perf_counter()
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    watch = Watch(process)
    watch.start()
    words = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"takeset ended with {process.returncode}: {words}")
    watch.join()
    return wall, usage.ru_utime + usage.ru_stime, watch.own, watch.child


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path)
    parser.add_argument("--takes", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args()
    work = options.work or Path(tempfile.mkdtemp())
    takes = work / "takes"
    for number in range(options.takes):
        if not (takes / f"take{number}").exists():
            command = [TAKESET, "simulate", "stack-session", "--seconds", options.seconds, "--size", "480x360", "--seed", number]
            subprocess.run([*map(str, [*command, "--output", takes / f"take{number}"])], check=True, stdout=subprocess.DEVNULL)
    (work / "steps.py").write_text(STEPS)
    names = ["none", "pose", "number", "identity"]
    for name in names:
        step = "" if name == "none" else f"  - python: {{file: steps.py, function: {name}}}\n"
        (work / f"{name}.yaml").write_text(f"version: 1\ntransforms:\n  - align: {{}}\n{step}")
    print("| jobs | step | wall s | throughput | CPU | memory | of Python, MB |\n|--:|---|--:|--:|--:|--:|--:|")
    for jobs in options.jobs:
        rounds = []
        for number in range(options.rounds + 1):
            shift = number % len(names)
            found = {name: run(takes, work / "out", work / f"{name}.yaml", jobs) for name in names[shift:] + names[:shift]}
            if number:  # The first reads the inputs into the page cache.
                rounds.append(found)
        for name in names:
            ratios = [statistics.median(one["none"][0] / one[name][0] for one in rounds)]
            ratios += [statistics.median(one[name][column] / one["none"][column] for one in rounds) for column in (1, 2)]
            wall = statistics.median(one[name][0] for one in rounds)
            child = statistics.median(one[name][3] for one in rounds) / 1e6
            print(f"| {jobs} | {name} | {wall:.2f} | " + " | ".join(f"{ratio:.2f}" for ratio in ratios) + f" | {child:.0f} |", flush=True)
    plans = [statistics.median(seconds(work, name) for _ in range(9)) for name in ("none", "pose")]
    numpy = statistics.median(imports("import numpy") - imports("") for _ in range(9))
    print(f"\nStarting a host: {plans[1] - plans[0]:.2f} s, of which importing NumPy takes {numpy:.2f} s and Python itself {statistics.median(imports('') for _ in range(9)):.2f} s.")
    if not options.work:
        shutil.rmtree(work)


def seconds(work, name):
    started = time.perf_counter()
    command = [TAKESET, "plan", work / "takes/take0", "--pipeline", work / f"{name}.yaml", "--python", sys.executable]
    subprocess.run([*map(str, command)], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def imports(statement):
    started = time.perf_counter()
    subprocess.run([sys.executable, "-I", "-c", statement], check=True)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
