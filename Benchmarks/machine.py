"""What a result file says of the machine that it is from."""

import datetime
import os
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def command_output(*command):
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT).stdout.strip()


def processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def facts():
    return {
        "date": datetime.date.today().isoformat(), "commit": command_output("git", "rev-parse", "--short", "HEAD"),
        "processor": processor(), "system": f"{platform.system()} {platform.machine()}", "load_average_before": os.getloadavg()[0],
    }  # fmt: skip


# Writes exit code, seconds on the clock and of processors, and peak bytes of a command into a file.
STARTER = """
import resource, subprocess, sys, time
start = time.perf_counter()
code = subprocess.call(sys.argv[2:])
wall = time.perf_counter() - start
used = resource.getrusage(resource.RUSAGE_CHILDREN)
open(sys.argv[1], "w").write(f"{code} {wall} {used.ru_utime + used.ru_stime} {used.ru_maxrss * 1024}")
"""


def starter(cost, command):
    """A command that runs another and writes into the file `cost` what it took. It is small: a process begins with the peak memory of the one that started it."""
    return [sys.executable, "-S", "-c", STARTER, str(cost), *map(str, command)]
