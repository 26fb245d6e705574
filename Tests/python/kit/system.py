"""Changes to the system around the command."""

import ctypes
import hashlib
import os
import subprocess

import pytest


def mount_tmpfs(path, size):
    path.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", str(path).encode(), b"tmpfs", 0, f"size={size}".encode()) != 0:
        pytest.skip("mounting a tmpfs is not allowed here")
    return lambda: libc.umount2(str(path).encode(), 2)


def mount_image(image, place):
    place.mkdir()
    done = subprocess.run(["mount", "-o", "loop,commit=60,noauto_da_alloc", image, place], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"mounting an image is not allowed here: {done.stderr.strip()}")
    return lambda: subprocess.run(["umount", "-l", place], check=True, capture_output=True)


def take_image(image, copy):
    """Copies the image as it is at one moment: until nothing has been written meanwhile."""
    before = None
    for _ in range(100):
        subprocess.run(["cp", "--sparse=always", image, copy], check=True)
        found = hashlib.sha256(copy.read_bytes()).digest()
        if found == before:
            return
        before = found
    raise AssertionError("the image does not come to rest")


def calls(takeset, library, kind, below, *arguments):
    """The number of calls of a kind below a directory in a run that succeeds."""
    path = below.parent / "calls"
    path.parent.mkdir(exist_ok=True)
    takeset(*arguments, check=0, env=os.environ | {"LD_PRELOAD": str(library), "FAIL_KIND": kind, "FAIL_BELOW": str(below), "FAIL_COUNT": str(path)})
    return int(path.read_text())


def stopped(command, library, kind, below, number, **options):
    """A process that has stopped itself before this call of a kind below a directory, or that has ended without making so many."""
    environment = {"LD_PRELOAD": str(library), "FAIL_KIND": kind, "FAIL_BELOW": str(below), "FAIL_AT": str(number), "FAIL_ERRNO": "0"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([*map(str, command)], env=os.environ | environment, **quiet | options)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        process.returncode = os.waitstatus_to_exitcode(status)
    return process
