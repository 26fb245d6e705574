"""The built command, and how much memory and time it needs."""

import os
import resource
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BINARY = Path(os.environ.get("TAKESET", ROOT / ".build/release/takeset"))


class Takeset:
    """Runs the real command; keeps no state."""

    def __call__(self, *arguments, check=None, env=None, **options):
        command = [str(BINARY), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=env, **options)
        if check is not None:
            assert done.returncode == check, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def simulate(self, output, *arguments):
        self("simulate", "stack-session", "--output", output, *arguments, check=0)
        return Path(output)

    def convert(self, *inputs, output, check=0, arguments=()):
        return self("run", *inputs, "--output", output, "--progress", "plain", *arguments, check=check)


def measured(*command, timeout=600):
    """Exit code, peak resident bytes and processor seconds of a command, started by a process so small that its own size does not count.

    Processor time and not time on the clock, so that other processes do not matter."""
    text = (
        "import resource, subprocess, sys\n"
        "code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(code, used.ru_maxrss * 1024, used.ru_utime + used.ru_stime)\n"
    )
    done = subprocess.run([sys.executable, "-S", "-c", text, *map(str, command)], capture_output=True, text=True, check=True, timeout=timeout)
    code, peak, seconds = done.stdout.split()
    return int(code), int(peak), float(seconds)


def little_memory():
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
