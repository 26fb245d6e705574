"""A watch that runs beside a test, and what it has logged and published."""

import itertools
import json
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import h5py
from command import BINARY

SETTLE = 0.4


class Watch:
    """`takeset run --watch` with a log in JSON, read as it is written."""

    def __init__(self, *inputs, output, settle=SETTLE, arguments=(), **options):
        self.marks, self.numbers = Path(tempfile.mkdtemp(prefix="marks-")), itertools.count()
        command = [BINARY, "run", *inputs, self.marks, "--output", output, "--watch", "--settle", settle, "--log-format", "json", *arguments]
        self.output, self.settle, self.lines = output, settle, []
        self.process = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **options)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(json.loads(line))

    def __enter__(self):
        self.wait_for(lambda: self.events("watching"), "the start")
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        shutil.rmtree(self.marks, ignore_errors=True)

    def look(self):
        """Waits until the watch has looked at its inputs once more: it names each new link among them, at once."""
        mark = self.marks / f"look{next(self.numbers)}"
        mark.symlink_to("nowhere")
        self.wait_for(lambda: any(str(mark) in event["message"] for event in self.events("note")), "a look")
        mark.unlink()

    def rest(self, seconds=None):
        """Waits until the watch has seen at rest what is there now, and would have given it out; longer is as good."""
        self.look()
        time.sleep(self.settle if seconds is None else seconds)
        for _ in range(3):
            self.look()

    def notes(self):
        """What is said of the inputs themselves."""
        return [event for event in self.events("note") if str(self.marks) not in event["message"]]

    def events(self, name):
        return [line for line in list(self.lines) if line["event"] == name]

    def takes(self, outcome="written"):
        return [line["take"] for line in self.events("take") if line["outcome"] == outcome]

    def wait_for(self, condition, what, seconds=300):
        end = time.monotonic() + seconds
        while not condition():
            assert self.process.poll() is None, f"the watch has ended: {self.lines}"
            assert time.monotonic() < end, f"{what} did not happen in {seconds} s: {self.lines}"
            time.sleep(0.05)

    def wait_until_published(self, takes, seconds=300):
        self.wait_for(lambda: published(self.output) == set(takes), f"publishing {sorted(takes)}", seconds)

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        code = self.process.wait(timeout=300)
        self.reader.join(300)
        return code

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.reader.join(300)

    def resident(self):
        """Resident memory in bytes."""
        with open(f"/proc/{self.process.pid}/status") as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1]) * 1024


def published(output):
    """The takes that both the index and the manifest have; empty while they differ, between the renaming of one and the other."""
    if not (output / "manifest.json").exists():
        return set()
    with h5py.File(output / "dataset.h5", locking=False) as file:
        linked = {demo.attrs["take_id"] for demo in file["data"].values()}
    takes = json.loads((output / "manifest.json").read_text())["record"]["takes"]
    written = {take["id"] for take in takes if take["outcome"] == "written"}
    return written if linked == written else set()


def small_takes(takeset, root, count):
    return [
        takeset.simulate(root / f"t{index}", "--variant", "v2", "--seconds", 0.2, "--size", "64x48", "--seed", index) for index in range(count)
    ]


def arrive(source, target, order, pause=0.0):
    """Copies a take file by file in an order. The longest time in seconds from one file to the next."""
    last, longest = time.monotonic(), 0.0
    for file in order:
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / file, target / file)
        time.sleep(pause)
        last, longest = time.monotonic(), max(longest, time.monotonic() - last)
    return longest


def files_of(take):
    return sorted(str(path.relative_to(take)) for path in take.rglob("*") if path.is_file())
