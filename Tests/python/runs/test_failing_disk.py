"""A disk that fails or is slow below its file system, where the kernel notices late and a failed write is not tried again.

The disk is memory behind nbdkit, an image through nbdfuse, and ext4 on it.
"""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from strange_takes import halted
from system import calls, mount_image, stopping, take_image, until

NEEDED = ["nbdkit", "nbdfuse", "mkfs.ext4"]
pytestmark = [
    pytest.mark.torture,
    pytest.mark.skipif(os.geteuid() != 0 or any(shutil.which(name) is None for name in NEEDED),
                       reason="needs root and nbdkit, nbdfuse, mkfs.ext4: apt-get install nbdkit libnbd-bin e2fsprogs"),
]


class Disk:
    """A file system at `place` on a disk with filters of nbdkit. Reads or writes fail as long as the file `broken` exists."""

    def __init__(self, root, *options):
        root.mkdir()
        self.place, self.broken = root / "disk", root / "broken"
        self.image, self.socket = root / "image", root / "socket"
        self.image.touch()
        options = [option.replace("BROKEN", str(self.broken)) for option in options]
        self.programs = [self._start("nbdkit", "--foreground", "--unix", self.socket, *options)]
        self._until(self.socket.exists)
        self.programs.append(self._start("nbdfuse", self.image, "--unix", self.socket))
        self._until(lambda: self.image.stat().st_size > 0)
        subprocess.run(["mkfs.ext4", "-q", "-F", self.image], check=True, capture_output=True)

    def __enter__(self):
        self.unmount = mount_image(self.image, self.place)
        return self

    def __exit__(self, *_):
        self.repair()
        self.unmount()
        subprocess.run(["umount", "-l", self.image], capture_output=True)
        for program in self.programs:
            program.kill()
            program.wait()

    def fail(self):
        self.broken.touch()

    def repair(self):
        self.broken.unlink(missing_ok=True)

    def is_writable(self):
        subprocess.run(["sync", "-f", self.place], capture_output=True)
        try:
            (self.place / "probe").touch()
        except OSError:
            return False
        return True

    @staticmethod
    def _start(*command):
        return subprocess.Popen([*map(str, command)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def _until(self, condition):
        until(lambda: condition() or any(program.poll() is not None for program in self.programs), "a disk")
        assert all(program.poll() is None for program in self.programs)


def begun_until(whole, library, kind, below, number, turn, output):
    """A run that has stopped at a call of itself, or that has ended."""
    process = whole.begun(output, "--isolate", ["always", "never"][turn % 2], "--jobs", "1", env=stopping(library, kind, below, number))
    halted(process)
    return process


def test_a_disk_whose_writes_fail_at_any_moment(whole, failing_look, tmp_path):
    """For good, or for a moment after which it works again. What counts is what the disk holds, not what the kernel still remembers."""
    count = calls(whole.takeset, failing_look, "change", tmp_path / "counted/out", *whole.arguments(tmp_path / "counted/out", "--isolate", "never"))
    stopped, continued = 0, 0
    for number in range(20):
        with Disk(tmp_path / f"{number}", "--filter=error", "memory", "48M", "error-pwrite=EIO", "error-pwrite-rate=100%", "error-pwrite-file=BROKEN") as disk:
            output = disk.place / "out"
            # A run whose children write makes few changes itself.
            process = begun_until(whole, failing_look, "change", output, 1 + number * (count if number % 2 else count // 4) // 20, number, output)
            disk.fail()
            process.send_signal(signal.SIGCONT)
            if number % 3 == 2:
                subprocess.run(["sync", "-f", disk.place], capture_output=True)  # it returns once a write has failed
                disk.repair()
            _, told = process.communicate()
            assert process.returncode in (0, 1), told
            if process.returncode:
                stopped += 1
                assert "Input/output error" in told or "Read-only file system" in told, told
            disk.repair()
            copy, after = tmp_path / f"copy{number}", tmp_path / f"after{number}"
            take_image(disk.image, copy)
            unmount = mount_image(copy, after)
            try:
                episodes = whole.has_no_half_files(after / "out")
                assert process.returncode or episodes == 5
                whole.resumes(after / "out")
            finally:
                unmount()
                copy.unlink()
            if disk.is_writable():
                continued += 1
                whole.resumes(output)
                take_image(disk.image, copy)
                unmount = mount_image(copy, after := tmp_path / f"continued{number}")
                try:
                    assert whole.has_no_half_files(after / "out") == 5
                    whole.resumes(after / "out")
                finally:
                    unmount()
                    copy.unlink()
    assert stopped >= 5 and continued >= 2
    print(f"20 disks of which writes fail: {stopped} runs stopped, {continued} continued on the same disk, all finished on a copy of it")


def test_a_disk_whose_reads_fail_at_any_moment(whole, failing_look, tmp_path):
    """Takes cost what they cost when a file cannot be read, until the disk works again."""
    takes, outcomes = whole.takes, []
    count = calls(whole.takeset, failing_look, "open", takes, *whole.arguments(tmp_path / "counted", "--isolate", "never"))
    for number in range(20):
        with Disk(tmp_path / f"{number}", "--filter=error", "memory", "48M", "error-pread=EIO", "error-pread-rate=100%", "error-pread-file=BROKEN") as disk:
            shutil.copytree(takes, disk.place / takes.name)
            subprocess.run(["sync", "-f", disk.place], check=True)
            Path("/proc/sys/vm/drop_caches").write_text("3")
            output, whole.takes = tmp_path / f"out{number}", disk.place / takes.name
            try:
                process = begun_until(whole, failing_look, "open", whole.takes, 1 + number * count // 20, number, output)
                disk.fail()
                process.send_signal(signal.SIGCONT)
                _, told = process.communicate()
                assert process.returncode in (0, 1, 3), told
                assert process.returncode == 0 or "Input/output error" in told, told
                outcomes.append(process.returncode)
                whole.has_no_half_files(output)
                disk.repair()
                whole.resumes(output)
            finally:
                whole.takes = takes
    assert len({*outcomes} & {1, 3}) > 0
    print(f"20 disks of which reads fail: {outcomes.count(3)} runs lost takes until the next run, {outcomes.count(1)} stopped")


def test_a_slow_disk_changes_nothing(whole, tmp_path):
    with Disk(tmp_path / "slow", "--filter=delay", "memory", "48M", "wdelay=30ms", "rdelay=5ms") as disk:
        whole.resumes(disk.place / "out")
