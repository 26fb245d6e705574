"""Measures what converting takes in child processes costs: the same run with `--isolate always` and `--isolate never`.

    python Benchmarks/isolation.py [--work DIR] [--takes N] [--seconds S] [--size WxH] [--rounds N] [--jobs N ...]

Prints a Markdown table. The takes are simulated bundles. The two alternate, and each round starts with the other one, so that a disturbance
affects both; ratios are the medians of those of the rounds, and so is the difference in milliseconds of processor time a take. Outputs must
be the same.
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

TAKESET = Path(os.environ.get("TAKESET", Path(__file__).resolve().parent.parent / ".build/release/takeset"))


def run(takes, output, policy, jobs):
    """Seconds on the clock and of processors, children included, and a digest of all episodes."""
    shutil.rmtree(output, ignore_errors=True)
    os.sync()
    started = time.perf_counter()
    command = [TAKESET, "run", takes, "--output", output, "--isolate", policy, "--jobs", jobs, "--progress", "none"]
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit(f"takeset ended with {os.waitstatus_to_exitcode(status)}")
    digest = hashlib.sha256(b"".join(hashlib.sha256(p.read_bytes()).digest() for p in sorted((output / "episodes").iterdir())))
    return wall, usage.ru_utime + usage.ru_stime, digest.hexdigest()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path)
    parser.add_argument("--takes", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--size", default="1280x720")
    options = parser.parse_args()
    work = options.work or Path(tempfile.mkdtemp())
    takes = work / "bundles"
    for number in range(options.takes):
        if not (takes / f"bundle{number}").exists():
            command = [TAKESET, "simulate", "realitycam-bundle", "--seconds", options.seconds, "--size", options.size, "--seed", number]
            subprocess.run([*map(str, [*command, "--output", takes / f"bundle{number}"])], check=True, stdout=subprocess.DEVNULL)
    print("| jobs | never, wall s | always, wall s | ratio | never, CPU s | always, CPU s | ratio | CPU ms a take |\n" + 8 * "|--:" + "|")
    for jobs in options.jobs:
        rounds, digests = [], set()
        for number in range(options.rounds + 1):
            found = {}
            for policy in ["never", "always"][:: 1 if number % 2 else -1]:
                *found[policy], digest = run(takes, work / "out", policy, jobs)
                digests.add(digest)
            if number:  # the first reads the inputs into the page cache
                rounds.append(found)
        if len(digests) != 1:
            sys.exit("the outputs differ")
        cells = []
        for column in range(2):
            cells += [f"{statistics.median(one[policy][column] for one in rounds):.2f}" for policy in ("never", "always")]
            cells.append(f"{statistics.median(one['always'][column] / one['never'][column] for one in rounds):.3f}")
        cells.append(f"{statistics.median(one['always'][1] - one['never'][1] for one in rounds) / options.takes * 1000:.0f}")
        print(f"| {jobs} | " + " | ".join(cells) + " |", flush=True)
    shutil.rmtree(work / "out")
    if not options.work:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
