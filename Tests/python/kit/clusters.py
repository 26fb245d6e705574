"""Takes for a cluster, and its workers."""

import json
import os
import shutil
import subprocess
import zlib

from bundles import SMALL, Device, bundle
from chain_checks import final
from command import BINARY

PIPELINE = """\
version: 1
transforms:
  - align
  - verify-hash-chain
  - split-episodes: {at: 0.25}
  - min-frames: {count: 3}
  - split: {valid: 0.3}
"""


def mixed_takes(takeset, root):
    """Takes of several kinds and outcomes: written in parts, rejected and failed ones, an archive, a video, and a file that is no take."""
    for name, seconds, *more in [
        ("t0", 0.5), ("t1", 0.4, "--variant", "v2"), ("short", 0.04), ("t2", 0.3), ("a/t2", 0.3, "--variant", "v2"), ("bad", 0.2),
    ]:
        takeset.simulate(root / name, "--seconds", seconds, "--size", "64x48", "--seed", len(name), *more)
    (root / "bad/poses.json").write_text("{")
    (root / "zips").mkdir()
    shutil.make_archive(root / "zips/packed", "zip", root / "t0")
    signed = bundle(**SMALL)
    signed.metadata["assertion"] = Device(1).assertion(final(signed))
    signed.metadata["device_id"] = "phone-1"
    signed.write(root / "signed")
    return root


def tiny_takes(takeset, root, count):
    for number in range(count):
        takeset.simulate(root / f"take{number:02}", "--variant", "v2", "--seconds", 0.1, "--size", "48x32", "--seed", number)
    return root


def plan(takeset, *inputs, output, arguments=()):
    done = takeset("plan", *inputs, "--output", output, "--tasks", *arguments, check=0)
    return tasks(output), done


def tasks(output):
    return json.loads((output / "tasks.json").read_text())["tasks"]


def worker(output, number, *arguments, **options):
    """A worker that has been started."""
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([BINARY, "convert", output, "--task", str(number), *map(str, arguments)], **quiet | options)


def convert_all(takeset, output, *arguments):
    return takeset("convert", output, "--task", 0, "--count", 10**6, *arguments)


def attempts(output):
    return sorted(path.name for path in output.iterdir() if path.name.startswith("."))


def status(takeset, output):
    return json.loads(takeset("status", output, "--format", "json", check=0).stdout)


def with_other_record(path, old, new):
    """Changes the records of a result and gives its lines the checksums of what they then say."""
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines):
        if line.startswith(b'{"entry":'):
            comma = line.endswith(b",")
            body, _, _ = line.rpartition(b',"crc32":"')
            start, separator, record = body.partition(b',"record":')
            assert old in record
            body = start + separator + record.replace(old, new)
            lines[number] = body + b',"crc32":"%08x"}' % zlib.crc32(body) + (b"," if comma else b"")
    path.write_bytes(b"\n".join(lines))


def environment(**variables):
    return {name: value for name, value in os.environ.items() if "ARRAY" not in name and "JOB_" not in name} | variables
