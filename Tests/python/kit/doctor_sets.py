"""Datasets for the tests of `verify --for`: clean ones, and ones with a defect that a pipeline, a take or another program has made."""

import json
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import yaml
from outputs import demos
from sealing import seal

FIRST, SECOND = "session_2026-03-01_100000", "session_2026-03-02_100000"
DEMO, META = "data/demo_0", "meta/demo_0"
SPLIT = {"split": {"valid": 0.5, "group": "take"}}
# What a clean dataset of each loader is made with.
PIPELINES = {
    "robomimic": ["align", {"select": {"streams": ["pose", "camera_image"]}}, {"pose-frame": {"origin": "first-frame"}},
                  {"actions": {"next-obs": True}}, SPLIT],
    "aloha": ["align", {"select": {"streams": ["pose", "camera_image"]}}, {"pose-frame": {"origin": "first-frame"}},
              {"actions": {"kind": "absolute-quat"}}, SPLIT],
    "lerobot": ["align", {"resample": {"rate": 30}}, {"select": {"streams": ["pose", "camera_image"]}},
                {"pose-frame": {"origin": "first-frame"}}, "actions", SPLIT],
    "diffusion-policy": ["align", {"resample": {"rate": 59.94}}, {"trim": {"start-frames": 6, "end-frames": 6}},
                         {"select": {"streams": ["pose", "camera_image", "joints"]}},
                         {"resize-image": {"width": 224, "height": 224, "mode": "stretch"}}, "actions", SPLIT],
    "nerfstudio": ["align", {"resample-depth": {"unit": "m"}}, "actions", SPLIT],
}

# ACT's chunk of 100 rows is longer than the takes here.
WINDOWS = {"aloha": ["--window", 40]}


def simulated(takeset, directory, *arguments, reader="stack-session", names=(FIRST, SECOND), common=("--seconds", 1.8, "--size", "64x48")):
    """Two small takes of two days, with joints, or with depth and intrinsics (Stray Scanner)."""
    for seed, name in enumerate(names, 1):
        variant = ["--variant", "v2"] if reader == "stack-session" else ["--depth-size", "16x12"]
        takeset("simulate", reader, "--output", directory / name, *common, *variant, "--seed", seed, *arguments, check=0)
    return directory


def converted(takeset, takes, output, steps, check=0, **writer):
    """A dataset of a pipeline's steps."""
    pipeline = {"version": 1, "transforms": steps} | ({"writer": {"hdf5": writer}} if writer else {})
    path = output.parent / f"{output.name}.yaml"
    path.write_text(yaml.safe_dump(pipeline, sort_keys=False))
    takeset.convert(*([takes] if isinstance(takes, Path) else takes), output=output, arguments=["--pipeline", path, "--task", "pick up the cup"], check=check)
    return output


def changed(steps, *others, without=()):
    """Steps with others in the place of those of the same name, or, in their order, after align."""
    name = lambda step: step if isinstance(step, str) else next(iter(step))
    given = {name(step): step for step in others}
    kept = [given.pop(name(step), step) for step in steps if name(step) not in without]
    return [*kept[:1], *given.values(), *kept[1:]]


def edited(dataset, copy, edit, shards=1):
    """A copy of a dataset of which another program has changed some shards: `edit` gets each shard, open."""
    shutil.copytree(dataset, copy)
    for path in sorted((copy / "episodes").iterdir())[:shards]:
        with h5py.File(path, "r+") as file:
            edit(file)
    seal(copy)
    return copy


def replaced(group, name, values):
    """Puts other values in the place of an array, with its attributes."""
    attributes = dict(group[name].attrs)
    del group[name]
    group.create_dataset(name, data=values).attrs.update(attributes)


# Edits of a shard


def without_actions(file):
    del file[DEMO]["actions"]


def without_columns(file):
    replaced(file[DEMO], "actions", file[DEMO]["actions"][:, 0])


def too_long(file):
    replaced(file[DEMO], "actions", np.repeat(file[DEMO]["actions"][:], 2, axis=0))


def too_short(file):
    replaced(file[DEMO], "actions", file[DEMO]["actions"][:-3])


def with_narrow_actions(file):
    replaced(file[DEMO], "actions", file[DEMO]["actions"][:, :5])


def without_pose(file):
    del file[DEMO]["obs/pose"]


def with_nan(file):
    file[DEMO]["obs/pose"][7, 2] = np.nan


def with_masked_actions(file):
    file[DEMO]["actions_valid"][5:8] = 0


def beyond_one(file):
    file[DEMO]["actions"][9, 0] = -1.53


def with_jitter(file):
    stamps = file[META]["timestamp_ns"]
    stamps[1::2] += (stamps[1] - stamps[0]) // 5


# What is said


@dataclass
class Checkup:
    """What `verify --for` says as JSON, and its exit code."""

    code: int
    report: dict

    @property
    def ready(self):
        return self.report["ready"]

    @property
    def codes(self):
        return Counter(one["code"] for one in self.report["diagnoses"])

    @property
    def breaks(self):
        return {one["code"] for one in self.report["diagnoses"] if one["severity"] == "breaks"}

    def __getitem__(self, code):
        (found,) = [one for one in self.report["diagnoses"] if one["code"] == code]
        return found


def checkup(takeset, loader, dataset, *arguments):
    done = takeset("verify", "--for", loader, dataset, "--json", *(arguments or WINDOWS.get(loader, [])))
    assert done.returncode in (0, 2), done.stderr
    found = Checkup(done.returncode, json.loads(done.stdout))
    assert found.ready == (done.returncode == 0) == (not found.breaks)
    assert found.report["for"] == loader and found.report["dataset"] == str(dataset)
    if Path(dataset).is_dir() and "episode-unreadable" not in found.codes:
        opened = demos(dataset)
        assert found.report["episodes"] == len(opened)
        assert found.report["rows"] == sum(int(demo.attrs["num_samples"]) for demo, _ in opened.values())
    return found
