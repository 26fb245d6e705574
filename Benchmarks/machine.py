"""What a result file says of the machine that it is from."""

import datetime
import os
import platform
import subprocess
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
