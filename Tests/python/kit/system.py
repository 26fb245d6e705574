"""Changes to the system around the command."""

import contextlib
import ctypes
import hashlib
import os
import pty
import resource
import subprocess
import time

import pytest


def until(condition, what, seconds=300):
    """What a condition returns once that is true. The limit is a safety net: what is waited for happens, or never does."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, what
        time.sleep(0.01)
    return found


def processor_seconds(process):
    """What a process has used so far; nothing if it has ended."""
    try:
        with open(f"/proc/{process}/stat") as file:
            user, system = file.read().rpartition(")")[2].split()[11:13]
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def shown_on_terminal(command, **options):
    """The exit code of a command, and all that it writes to a terminal that is its standard error."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([*map(str, command)], stderr=theirs, stdout=subprocess.DEVNULL, **options)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while part := os.read(ours, 1 << 16):
            shown += part
    os.close(ours)
    return process.wait(), shown.decode()


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


def share(count):
    """How many to try of so many damaged takes, kills or files: a fifth, or all with TAKESET_ALL=1, as `make nightly` does."""
    return count if os.environ.get("TAKESET_ALL") else count // 5


def spread(count, most):
    """As many numbers as `count`, evenly from 1 to `most`, without repeats."""
    return sorted({1 + round(number * (most - 1) / max(1, count - 1)) for number in range(count)})


def limited(what, most):
    """For `preexec_fn`: the command starts with this limit, such as resource.RLIMIT_FSIZE."""
    return lambda: resource.setrlimit(what, (most, most))


def as_nobody():
    """For `preexec_fn`: the command runs as a user without rights."""
    os.setgid(65534)
    os.setuid(65534)


BEGUN = []  # processes that a test may leave stopped when it fails


def begun(process):
    """The process, which is killed at the end of the test if it is still there."""
    BEGUN.append(process)
    return process


def failing(library, where, kind, below, number, code):
    """The environment of a command in which this call of a kind below a directory fails; `where` is "parent", or "child" for each process that converts a take."""
    prefix = {"parent": "", "child": "LD_CHILD_"}[where]
    values = {"KIND": kind, "BELOW": below, "AT": number, "ERRNO": code}
    return os.environ | {"LD_PRELOAD": str(library)} | {f"{prefix}FAIL_{name}": str(value) for name, value in values.items()}


def stopping(library, kind, below, number, where="parent"):
    """The environment of a command that stops itself before this call of a kind below a directory."""
    return failing(library, where, kind, below, number, 0)


def stopped(command, library, kind, below, number, **options):
    """A process that has stopped itself before this call of a kind below a directory, or that has ended without making so many."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = begun(subprocess.Popen([*map(str, command)], env=stopping(library, kind, below, number), **quiet | options))
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        process.returncode = os.waitstatus_to_exitcode(status)
    return process
