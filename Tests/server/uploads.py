"""Runs `takeset upload`, and makes what it sends."""

import hashlib
import json
import os
import random
import subprocess
from pathlib import Path

from conftest import TAKESET

QUICK = ["--first-pause", "0.02"]


def random_bytes(count, seed=1):
    return random.Random(seed).randbytes(count)


def digest(data):
    return hashlib.sha256(data).hexdigest()


class Client:
    """An uploader with a queue of its own."""

    def __init__(self, folder):
        self.state = Path(folder) / "queue/uploads.sqlite"

    def command(self, *arguments):
        return [str(TAKESET), "upload", "--state", str(self.state), *map(str, arguments)]

    def environment(self, extra=None):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("TAKESET_")}
        return {**clean, **(extra or {})}

    def run(self, *arguments, environment=None, timeout=300):
        return subprocess.run(
            self.command(*arguments), capture_output=True, text=True, timeout=timeout, env=self.environment(environment)
        )

    def start(self, *arguments):
        return subprocess.Popen(
            self.command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment()
        )

    def send(self, stub, *arguments, **options):
        return self.run(*arguments, "--to", stub.url, *QUICK, **options)

    def items(self):
        lines = self.run("--list", "--json").stdout.splitlines()
        return {Path(item["path"]).name: item for item in map(json.loads, lines)}


def movie(folder, name="video_1771446000.mov", count=3_000_000, seed=1):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(random_bytes(count, seed))
    return path


def session(folder, name="session_1", files=3, seed=2):
    """The names of a StackCapture session; the contents are not looked at."""
    root = folder / name
    (root / "rgb").mkdir(parents=True)
    (root / "poses.json").write_text('{"poses":[]}')
    (root / "metadata.json").write_text('{"poseCount":0}')
    for number in range(files):
        (root / "rgb" / f"{number:06d}.jpg").write_bytes(random_bytes(5000 + number, seed + number))
    return root


def bundle(folder, name="bundle_1", seed=3):
    root = folder / name
    root.mkdir(parents=True)
    for part, count in {"video.mp4": 40_000, "depth.gz": 9_000, "hash_chain.json": 700}.items():
        (root / part).write_bytes(random_bytes(count, seed))
    (root / "metadata.json").write_text('{"hash_chain_final":"","depth_keyframe_count":1}')
    return root
