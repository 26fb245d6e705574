"""Runs of pipelines with steps in Python."""

import json
import os
import sys

ENVIRONMENT = {**os.environ, "TAKESET_PYTHON": sys.executable}


def three_takes(takeset, root):
    """Sessions a, b and c of 30 rows, with small images and depth maps."""
    for seed, name in enumerate(("a", "b", "c")):
        takeset.simulate(root / name, "--seconds", 0.5, "--size", "64x48", "--depth-size", "16x12", "--seed", seed)
    return root


def run(takeset, takes, output, file, *arguments, check=0, env=ENVIRONMENT):
    return takeset("run", takes, "--output", output, "--pipeline", file, "--progress", "none", *arguments, check=check, env=env)


def content(output):
    """The bytes of the episodes, and the record of the manifest."""
    shards = {path.name: path.read_bytes() for path in sorted((output / "episodes").glob("*.h5"))}
    return shards, json.loads((output / "manifest.json").read_text())["record"]
