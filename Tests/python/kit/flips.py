"""Single flipped bits in the files of a dataset, and what verify reports."""

import os
import random
import select
import signal
import struct
import subprocess

import h5py
import numpy as np
from command import BINARY
from strange_takes import children

FLIPS = int(os.environ.get("TAKESET_FLIPS", 100))


def flipped(path, offset, bit):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1 << bit]))


def chunks(path):
    """Where the chunks of a shard are: offset, size, and what a change there is to be called."""
    found = []

    def visit(name, item):
        if not isinstance(item, h5py.Dataset) or not item.chunks:
            return
        for index in range(item.id.get_num_chunks()):
            info = item.id.get_chunk_info(index)
            one_row = item.chunks == (1, *item.shape[1:]) and item.attrs["sha256_of"] == "rows"
            row = f"[{info.chunk_offset[0]}]" if one_row else ""
            found.append((info.byte_offset, info.size, f"episodes/{path.name}:/{name}{row}:"))

    with h5py.File(path) as file:
        file.visititems(visit)
    return sorted(found)


def files(directory):
    return [*sorted((directory / "episodes").glob("*.h5")), directory / "dataset.h5", directory / "manifest.json"]


def some_bit(path, taken, lottery):
    """An offset and a bit; as often outside of chunks, where the library's own structures are, as anywhere."""
    anywhere = lottery.random() < 0.5
    while True:
        offset = lottery.randrange(path.stat().st_size)
        if anywhere or not any(start <= offset < start + count for start, count, _ in taken):
            return offset, lottery.randrange(8)


def listed(found):
    """Undetected flips, one per line."""
    return f"{len(found)} missed:\n" + "\n".join(map(str, found))


def ends(process, seconds=120):
    """Whether a process, given by its descriptor, ends within this time."""
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def verified(directory, seconds=300):
    """The exit code and output of verify; of one that does not end, "endless"."""
    process = subprocess.Popen(
        [BINARY, "verify", directory], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, errors = process.communicate(timeout=seconds)
        return process.returncode, out, errors
    except subprocess.TimeoutExpired:
        for child in children(process.pid):
            os.kill(child, signal.SIGKILL)
        process.kill()
        return "endless", *process.communicate()


def harm(path, offset, bit, original):
    """The effect of an undetected flip on a reader: none if every value of the shard is read as before."""

    def values(path):
        found = {}
        with h5py.File(path) as file:
            file.visititems(lambda name, item: found.update({name: (dict(item.attrs), item[()] if isinstance(item, h5py.Dataset) else 0)}))
            return repr({name: (str(attributes), np.asarray(value).tolist()) for name, (attributes, value) in found.items()})

    if path.parent.name != "episodes":
        return "unknown"
    flipped(path, offset, bit)
    child = os.fork()
    if child == 0:  # the library may crash or never come back
        signal.alarm(10)
        try:
            os._exit(values(path) != values(original))
        except Exception:
            os._exit(2)
    status = os.waitpid(child, 0)[1]
    flipped(path, offset, bit)
    return {0: "none", 1: "other values", 2: "unreadable"}.get(os.waitstatus_to_exitcode(status), "crash or no end")


def misses(takeset, directory, original, count, seed):
    """Flips that verify does not answer with exit 2 and the name of the file, and what harm they do."""
    lottery = random.Random(seed)
    places = [(path, chunks(path) if path.parent.name == "episodes" else []) for path in files(directory)]
    found = []
    for number in range(count):
        path, taken = places[number % len(places)]
        offset, bit = some_bit(path, taken, lottery)
        flipped(path, offset, bit)
        code, out, errors = verified(directory)
        flipped(path, offset, bit)
        if code != 2 or path.name not in out:
            effect = harm(path, offset, bit, original / path.relative_to(directory))
            found.append((path.name, offset, bit, code, effect, out, errors))
    takeset("verify", directory, check=0)
    return found


def lengths_of_texts(data):
    """Where the lengths of the objects of every global heap are (HDF5 file format, III.E), but that of free space."""
    found, heap = [], data.find(b"GCOL")
    while heap >= 0:
        end, at = heap + struct.unpack_from("<Q", data, heap + 8)[0], heap + 16
        while at + 16 <= end:
            number, _, size = struct.unpack_from("<HH4xQ", data, at)
            if number == 0:
                break
            found.append(at + 8)
            at += 16 + -(-size // 8) * 8
        heap = data.find(b"GCOL", end)
    return found


def of_take(directory, name):
    return directory / "episodes" / f"{name}.h5"
