"""Datasets for the tests of training windows, and what windows of them must be, by h5py, NumPy and SciPy alone."""

import json
import shutil

import h5py
import numpy as np
from geometry_oracle import matrices

from takeset._window_options import WindowOptions
from takeset._windows import WindowReader

V1, V2 = "session_2026-01-31_120000", "session_2026-02-01_130000"
SMALL = dict(observation_horizon=2, action_horizon=4)


def windows(source, split="train", resizes_images=False, **options):
    return WindowReader(source, split, WindowOptions(**{"keys": ("camera_image", "pose"), **options}), resizes_images)


def with_holes(root, takeset, masters):
    """A dataset with two holes in the images of the second take and one in its joints."""
    for master in masters.values():
        shutil.copytree(master, root / "sessions" / master.name)
    take = root / "sessions" / V2
    for number in (20, 21, 22, 23, 24, 40):
        (take / f"rgb/{number:06d}.jpg").unlink()
    encoders = json.loads((take / "encoders.json").read_text())
    (take / "encoders.json").write_text(json.dumps(encoders[:20] + encoders[35:]))
    takeset.convert(root / "sessions", output=root / "out")
    return root / "out"


def with_actions(root, takeset, image="raw", normalize="minmax", count=3, seconds=0.7, missing=()):
    """Small takes of as many days, with joints in their actions, chunks of 4 and normalization; the images `missing` cannot be decoded."""
    for day in range(1, count + 1):
        take = root / f"in/session_2026-03-0{day}_100000"
        takeset.simulate(take, "--variant", "v2", "--seconds", seconds, "--size", "64x48", "--seed", day)
        for number in missing:
            path = take / f"rgb/{number:06d}.jpg"
            path.write_bytes(path.read_bytes()[:300])
    steps = "align, actions: {joints: absolute, horizon: 4}, split: {valid: 0.34, group: day, seed: 1}"
    normalization = f", normalize: {{method: {normalize}}}" if normalize else ""
    (root / "p.yaml").write_text(f"version: 1\ntransforms: [{steps}{normalization}]\nwriter: {{hdf5: {{image: {image}}}}}\n")
    takeset.convert(root / "in", output=root / "out", arguments=["--pipeline", root / "p.yaml"])
    return root / "out"


def tampered(source, target, change):
    """A copy of a dataset whose shards `change` was called on, each with its id and as an open file."""
    shutil.copytree(source, target)
    for shard in sorted((target / "episodes").glob("*.h5")):
        with h5py.File(shard, "r+") as file:
            change(shard.stem, file)
    return target


def with_smaller_images(source, target, id):
    """A copy of a dataset in which the images of one take have half the width and height."""

    def halve(take, file):
        if take == id:
            obs = file["data/demo_0/obs"]
            smaller, attributes = obs["camera_image"][:, ::2, ::2], dict(obs["camera_image"].attrs)
            del obs["camera_image"]
            obs.create_dataset("camera_image", data=smaller, chunks=(1, *smaller.shape[1:])).attrs.update(attributes)

    return tampered(source, target, halve)


def expected_index(path, o, k, stride=1, split=None):
    """Every (episode, t) whose rows t-o+1 … t+k have consecutive frame numbers of the source, tried one by one."""
    with h5py.File(path) as file:
        names = list(file["data"]) if split is None else [n.decode() for n in file["mask"][split]]
        found = []
        for number, name in enumerate(names):
            frames = file["meta"][name]["source_index"][:]
            whole = [
                t
                for t in range(len(frames))
                if t - o + 1 >= 0 and t + k < len(frames) and all(frames[r + 1] - frames[r] == 1 for r in range(t - o + 1, t + k))
            ]
            while whole:
                run = [t for i, t in enumerate(whole) if t == whole[0] + i]
                found += [(number, t) for t in run[::stride]]
                whole = whole[len(run) :]
    return found


def relative(anchor, later, layout="columns"):
    """Nine numbers of each later pose as the anchor sees it."""
    steps = [np.linalg.inv(matrices([anchor])[0]) @ m for m in matrices(later)]
    return np.array([[*m[:3, 3], *(m[:3, :2].T if layout == "columns" else m[:2, :3]).ravel()] for m in steps])


def training_actions(path, steps, joints=False):
    """Every relative action of the training episodes: of each row, and each of these steps ahead of it without a gap between."""
    found = []
    with h5py.File(path) as file:
        for name in (n.decode() for n in file["mask/train"]):
            obs, gaps = file["data"][name]["obs"], file["meta"][name]["gaps"][:, 0]
            poses, angles, valid = obs["pose"][:], obs["joints"][:], obs["joints_valid"][:].all(axis=1)
            for t in range(len(poses)):
                ahead = [t + s for s in steps if t + s < len(poses) and not any(t <= g < t + s for g in gaps)]
                later = [row for row in ahead if valid[row] or not joints]
                if later:
                    motion = relative(poses[t], poses[later])
                    found.append(np.hstack([motion, angles[later]]) if joints else motion)
    return np.concatenate(found)
