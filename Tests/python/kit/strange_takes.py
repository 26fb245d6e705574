"""Takes at which the preloaded decoders of `strange_decoder.c` do something strange, and what a run over them leaves."""

import contextlib
import os
import struct
import subprocess
import time

from command import BINARY
from outputs import manifest
from run_outputs import outputs
from stack_sessions import jpeg, v2, write
from videos import BT709, ENCODERS, made, yuv_image

# User data in the first packet, as encoders leave it there.
MARK = ["-bsf:v", "h264_metadata=sei_user_data=086f3693-b7b3-4f2c-9653-21492feee5b8+STRANGE"]


def session(path, marked=None, count=8):
    """A session of small images; the one of a number has the mark in a comment."""
    found = v2(count)
    found.rgb = {number: jpeg(number, (48, 36)) for number in range(count)}
    found.metadata["rgbResolution"] = [48, 36]
    if marked is not None:
        data = found.rgb[marked]
        found.rgb[marked] = data[:2] + struct.pack(">BBH", 0xFF, 0xFE, 9) + b"STRANGE" + data[2:]
    write(path, found.contents())
    return path


def movie(path, is_marked=False, count=12):
    path.parent.mkdir(parents=True, exist_ok=True)
    arguments = ["-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", "64x48", "-r", 30, "-i", "-", *ENCODERS["h264"], "-threads", 1, *BT709]
    images = b"".join(yuv_image(number, 64, 48) for number in range(count))
    path.write_bytes(made(".mov", *arguments, *(MARK if is_marked else []), contents=images))
    return path


def batch(root):
    """Four good takes and two marked ones, in the middle of their names' order."""
    for name in "a", "z":
        session(root / f"{name}-session")
        movie(root / f"{name}-movie.mov")
    session(root / "strange-session", marked=3)
    movie(root / "strange-movie.mov", is_marked=True)
    return root


GOOD = {"a-movie", "a-session", "z-movie", "z-session"}


def preloaded(library, what="", **more):
    """The environment in which decoders, or calls of the system, are strange. Child processes get variables whose names start with LD_."""
    return os.environ | {"LD_PRELOAD": str(library), "LD_STRANGE": what} | {f"LD_{k.upper()}": str(v) for k, v in more.items()}


def entries(output):
    return {entry["id"]: entry for entry in manifest(output)["record"]["takes"]}


def unfinished(directory):
    """Files and directories of attempts, and names that no finished file has."""
    return [path for path in directory.rglob("*") if path.name.startswith(".") or "partial" in path.name]


def children(process):
    """Ids of the processes that a process has started and not ended; none of one that has ended."""
    found = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in os.listdir(f"/proc/{process}/task"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{process}/task/{task}/children") as file:
                found += map(int, file.read().split())
    return found


def started(environment, takes, output, *arguments, **options):
    """A run in which children convert, that has been started."""
    command = [*map(str, [BINARY, "run", takes, "--output", output, "--isolate", "always", *arguments])]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=environment, start_new_session=True, **pipes | options)


def waiting(process, besides=(), seconds=300):
    """The children of a run once there is one that waits in its decoder."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert process.poll() is None, process.stderr.read()
        found = [child for child in children(process.pid) if child not in besides and _sleeps(child)]
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("no child waits")


def _sleeps(process):
    """Whether a thread of a process is in pause(2)."""
    try:
        for task in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{task}/syscall") as file:
                if file.read().split()[0] == "34":
                    return True
    except (FileNotFoundError, ProcessLookupError):
        pass
    return False


def is_running(process):
    try:
        return _state(process) not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def halted(process, seconds=300):
    """The run and its children that have stopped themselves, once there is one; none if the run ended before."""
    deadline = time.monotonic() + seconds
    while process.poll() is None:
        assert time.monotonic() < deadline, "nothing has stopped"
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found = [one for one in [process.pid, *children(process.pid)] if _state(one) == "T"]
            if found:
                return found
        time.sleep(0.005)
    return []


def _state(process):
    with open(f"/proc/{process}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


def is_stopped(process):
    return _state(process) == "T"


def assert_same(first, second):
    """Two datasets are the same, byte for byte, and nothing unfinished is left in them."""
    one, two = outputs(first), outputs(second)
    assert one.keys() == two.keys()
    assert [name for name in one if one[name] != two[name]] == []
    assert unfinished(first) == unfinished(second) == []
