"""Changes to the system around the command."""

import ctypes
import os
import subprocess

import pytest


def mount_tmpfs(path, size):
    path.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", str(path).encode(), b"tmpfs", 0, f"size={size}".encode()) != 0:
        pytest.skip("mounting a tmpfs is not allowed here")
    return lambda: libc.umount2(str(path).encode(), 2)


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
