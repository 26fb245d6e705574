"""Datasets that are exported for LeRobot, and exports read back by pyarrow and Pillow alone."""

import contextlib
import io
import json
import os
import subprocess
import sys

import h5py
import numpy as np
import pyarrow.parquet as pq
import yaml
from command import ROOT
from PIL import Image

if str(ROOT / "python") not in sys.path:  # The package need not be installed.
    sys.path.insert(0, str(ROOT / "python"))

FPS = 30
STEPS = [{"resample": {"rate": FPS}}, {"split-episodes": {"at": "gaps"}}, {"resample-depth": {"unit": "mm"}}]
ACTIONS = [{"pose-frame": {"axes": "arkit", "origin": "first-frame"}}, {"actions": {"last": "drop"}}]
SPLIT = [{"split": {"valid": 0.34, "group": "day", "seed": 0}}]
CAMERA, DEPTH = "observation.images.camera", "observation.images.camera_depth"
NAMES = [f"session_2026-03-0{day}_100000.0" for day in (1, 2, 3)]  # of the episodes of `recordings`
STATISTICS = ("min", "max", "mean", "std", "count", "q01", "q10", "q50", "q90", "q99")


def recordings(takeset, root, size, depth_size, *seconds):
    """Sessions with depth maps in the folder `in`, of as many days, each so long."""
    for day, length in enumerate(seconds, 1):
        take = root / f"in/session_2026-03-0{day}_100000"
        takeset.simulate(take, "--size", size, "--depth-size", depth_size, "--rate", FPS, "--seconds", length, "--seed", day)
    return root


def dataset(takeset, root, *steps, image="jpeg-source", name="dataset", takes="in"):
    """The takes in a folder, converted by align and these steps."""
    pipeline = {"version": 1, "transforms": [{"align": {}}, *steps], "writer": {"hdf5": {"image": image}}}
    (root / f"{name}.yaml").write_text(yaml.safe_dump(pipeline, sort_keys=False))
    takeset.convert(root / takes, output=root / name, arguments=["--pipeline", root / f"{name}.yaml"])
    return root / name


def export(source, output, *arguments, check=0):
    """What `python -m takeset.lerobot` does, in this process, which has the libraries loaded."""
    from takeset.lerobot.__main__ import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([*map(str, (source, output, *arguments))])
        except SystemExit as exit:  # of the parser
            code = exit.code
    assert code == check, f"exit {code}\n{out.getvalue()}\n{err.getvalue()}"
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def command(*arguments):
    """Runs the command as a user does. What it did."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
    words = [sys.executable, "-m", "takeset.lerobot", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=600, env=environment)


def edited(source, shard, change):
    """Changes a shard of a dataset in place, as h5py opens it: demo and meta."""
    with h5py.File(source / f"episodes/{shard}.h5", "r+") as file:
        change(file["data/demo_0"], file["meta/demo_0"])


class Export:
    """An export, read back."""

    def __init__(self, path):
        self.path = path
        self.info = json.loads((path / "meta/info.json").read_text())
        self.stats = json.loads((path / "meta/stats.json").read_text())
        self.record = json.loads((path / "takeset-export.json").read_text())
        self.features = self.info["features"]
        self.files = sorted(path.glob("data/*/*.parquet"))
        self.rows = [row for file in self.files for row in pq.read_table(file).to_pylist()]
        self.episodes = [row for file in sorted(path.glob("meta/episodes/*/*.parquet")) for row in pq.read_table(file).to_pylist()]

    def column(self, name, episode=None):
        """A column of all rows, or of those of an episode."""
        return np.array([row[name] for row in self.rows if episode in (None, row["episode_index"])])

    def images(self, name, episode):
        """Files of a camera of an episode, and their names."""
        found = [row[name] for row in self.rows if row["episode_index"] == episode]
        return [one["bytes"] for one in found], [one["path"] for one in found]

    def of(self, take_id):
        """Numbers of the episodes that were made of an episode of Takeset."""
        return [row["episode_index"] for row in self.episodes if row["takeset/episode_id"] == take_id]


def pixels(data):
    """Pixels of an image file, as LeRobot's reader opens it."""
    with Image.open(io.BytesIO(data)) as image:
        assert image.mode in ("RGB", "I;16"), image.mode
        return np.array(image)


def quantile_error(values, found, part):
    """How far a quantile is from the range between the neighbors that NumPy's lies between, for each column."""
    low, high = (np.quantile(values, part, axis=0, method=method) for method in ("lower", "higher"))
    return np.maximum(np.maximum(low - found, found - high), 0)
