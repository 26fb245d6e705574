"""Measures how many training samples per second loaders give: two images, and the 16 actions that follow, from the same episodes.

    pip install -r Benchmarks/requirements-windows.txt -r Benchmarks/requirements-training.txt
    pip install --no-deps robomimic==0.3.0 lerobot==0.4.4
    python Benchmarks/training.py [--quick] [--sizes 320x240 84x84] [--output Benchmarks/results/training-NAME.json] [--work DIR]

Simulates sessions, converts them once with raw and once with JPEG images, exports them for LeRobot, checks that all loaders give the same samples, and
draws shuffled batches through PyTorch's DataLoader, without workers and with two. Then compares a batch's time with the step of the model of
examples/pytorch. Prints Markdown tables and writes every single measurement as JSON. README.md next to this file has the results.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "SVT_LOG": "1"}

import h5py  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from machine import command_output, facts  # noqa: E402

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
TAKESET = Path(os.environ.get("TAKESET", ROOT / ".build/release/takeset"))
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "examples/pytorch")]

from takeset.torch import Loader, Windows, collate  # noqa: E402

OBSERVED, AHEAD, RATE, SECONDS, TAKES, BATCH = 2, 16, 30, 30, 4, 32
OURS = "Takeset, raw images"


# The loaders. Each has a PyTorch dataset; `images` and `actions` name the values of a sample for the check.


class Ours:
    def __init__(self, path):
        self.dataset = Windows(path, split=None, observation_horizon=OBSERVED, action_horizon=AHEAD, keys=("camera_image", "pose"), actions="stored")
        self.collate = collate
        self.rows = [tuple(place) for place in self.dataset.index.tolist()]

    def sample(self, episode, row):
        sample = self.dataset[self.rows.index((episode, row))]
        return sample["obs"]["camera_image"].movedim(1, 3).numpy(), sample["actions"].numpy()


class Threads(Ours):
    """The same windows by threads of this process: one where the others have no workers, two where they have two."""

    def batches(self, workers):
        return Loader(self.dataset, BATCH, max(workers, 1))


class PlainHDF5(torch.utils.data.Dataset):
    """What one writes first: each worker opens the file once, and each sample slices its arrays."""

    collate = None

    def __init__(self, path):
        self.path, self.opened_by, self.dataset = path / "dataset.h5", None, self
        with h5py.File(self.path) as file:
            lengths = [int(demo.attrs["num_samples"]) for demo in file["data"].values()]
        self.rows = [(episode, row) for episode, length in enumerate(lengths) for row in range(OBSERVED - 1, length - AHEAD + 1)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        if self.opened_by != os.getpid():
            self.opened_by, self.demos = os.getpid(), list(h5py.File(self.path)["data"].values())
        episode, row = self.rows[index]
        demo, seen = self.demos[episode], slice(row - OBSERVED + 1, row + 1)
        return {
            "camera_image": torch.from_numpy(demo["obs/camera_image"][seen]).movedim(3, 1), "pose": torch.from_numpy(demo["obs/pose"][seen]),
            "actions": torch.from_numpy(demo["actions"][row : row + AHEAD]),
        }  # fmt: skip

    def sample(self, episode, row):
        sample = self[self.rows.index((episode, row))]
        return sample["camera_image"].movedim(1, 3).numpy(), sample["actions"].numpy()


class Robomimic:
    """Its SequenceDataset, with images on disk. It reads the images of all 16 rows of a sequence."""

    collate = None

    def __init__(self, path):
        import robomimic.utils.obs_utils as observations
        from robomimic.utils.dataset import SequenceDataset

        observations.initialize_obs_utils_with_obs_specs({"obs": {"low_dim": ["pose"], "rgb": ["camera_image"]}})
        self.dataset = SequenceDataset(
            str(path / "dataset.h5"), obs_keys=("camera_image", "pose"), dataset_keys=("actions",), frame_stack=OBSERVED, seq_length=AHEAD,
            hdf5_cache_mode="low_dim", hdf5_use_swmr=False, load_next_obs=False,
        )  # fmt: skip
        with h5py.File(path / "dataset.h5") as file:
            self.starts = np.cumsum([0] + [int(demo.attrs["num_samples"]) for demo in file["data"].values()])

    def sample(self, episode, row):
        sample = self.dataset[int(self.starts[episode]) + row]
        return sample["obs"]["camera_image"][:OBSERVED], sample["actions"][OBSERVED - 1 :][:AHEAD]


class LeRobot:
    collate = None

    def __init__(self, path):
        from lerobot.datasets.lerobot_dataset import LeRobotDataset

        deltas = {"observation.images.camera": [step / RATE for step in range(1 - OBSERVED, 1)], "observation.state": [-1 / RATE, 0], "action": [step / RATE for step in range(AHEAD)]}
        self.dataset = LeRobotDataset("local/takes", root=path, delta_timestamps=deltas)
        self.starts = [episode["dataset_from_index"] for episode in self.dataset.meta.episodes]

    def sample(self, episode, row):
        sample = self.dataset[self.starts[episode] + row]
        return (sample["observation.images.camera"].movedim(1, 3) * 255).round().byte().numpy(), sample["action"].numpy()


# Its inputs


def run(*command):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr[-3000:]}")


def contenders(work, size):
    """All loaders by name, each with how many gray levels its images may differ on average."""
    sessions, (width, height) = work / "sessions", size.split("x")
    for number in range(1, TAKES + 1):
        take = sessions / f"session_2026-01-0{number}_120000"
        if not (take / "truth.json").exists():
            shutil.rmtree(take, ignore_errors=True)
            run(TAKESET, "simulate", "stack-session", "--variant", "v2", "--seconds", SECONDS, "--size", "640x480", "--rate", RATE, "--seed", number, "--output", take)

    def converted(image):
        pipeline, output = work / f"{size}-{image}.yaml", work / f"{size}-{image}"
        steps = ["align", f"resample: {{rate: {RATE}}}", "split-episodes: {at: gaps}", "select: {streams: [pose, camera_image]}",
                 f"resize-image: {{width: {width}, height: {height}, mode: cover}}", "pose-frame: {axes: arkit, origin: first-frame}",
                 "actions: {kind: relative-6d, joints: none, horizon: 1}"]  # fmt: skip
        pipeline.write_text("version: 1\ntransforms:\n" + "".join(f"  - {step}\n" for step in steps) + f"writer: {{hdf5: {{image: {image}}}}}\n")
        run(TAKESET, "run", sessions, "--output", output, "--pipeline", pipeline, "--progress", "none", "--replace")
        return output

    raw, jpeg = converted("raw"), converted("jpeg")
    exported = work / f"{size}-lerobot"
    found = {
        OURS: (Ours(raw), 0), "Takeset's Loader, raw images": (Threads(raw), 0), "Takeset, images as JPEG": (Ours(jpeg), 6),
        "Takeset's Loader, images as JPEG": (Threads(jpeg), 6), "a plain h5py dataset, raw images": (PlainHDF5(raw), 0),
        "robomimic's SequenceDataset, raw images": (Robomimic(raw), 0),
    }  # fmt: skip
    if importlib.util.find_spec("lerobot") is None:
        print("LeRobot is not installed, so it is left out", file=sys.stderr)
        return found
    if not exported.exists():
        run(sys.executable, "-m", "takeset.lerobot", raw, exported)
    return found | {"LeRobotDataset, video": (LeRobot(exported), 12)}


def check(found):
    """All loaders give the same samples, the lossy ones nearly."""
    for place in ((0, 1), (1, 17), (TAKES - 1, 100)):
        images, actions = found[OURS][0].sample(*place)
        for name, (loader, tolerance) in found.items():
            others, moves = loader.sample(*place)
            difference = np.abs(others.astype(int) - images).mean()
            if others.shape != images.shape or difference > tolerance:
                sys.exit(f"{name}: the images of {place} are {others.shape} and {difference:.1f} gray levels off")
            if np.abs(moves - actions[: len(moves)]).max() > 1e-6:
                sys.exit(f"{name}: the actions of {place} are others")


# Measuring


def loaded(loader, workers):
    if hasattr(loader, "batches"):
        return loader.batches(workers)
    return torch.utils.data.DataLoader(
        loader.dataset, batch_size=BATCH, shuffle=True, drop_last=True, num_workers=workers, collate_fn=loader.collate, persistent_workers=workers > 0)


def rate(loader, workers, seconds):
    """Samples per second, once the workers have started and their first batches are there."""
    batches = loaded(loader, workers)
    count, begins = -2 * max(workers, 1), None
    while True:
        for _ in batches:
            count += 1
            if count == 0:
                begins = time.perf_counter()
            elif count > 0 and time.perf_counter() - begins > seconds:
                return count * BATCH / (time.perf_counter() - begins)


def model(path, seconds):
    """Milliseconds of a training step of examples/pytorch on batches that are there, and of each batch by two workers."""
    import train

    windows = Windows(
        path, split=None, observation_horizon=OBSERVED, action_horizon=AHEAD, keys=("camera_image", "pose"), image_size=train.SIZE, crop=train.CROP,
        random_crop=True, image_floats=True, normalize=["actions"], normalization="gaussian",
    )  # fmt: skip

    class Loader:
        dataset, collate = windows, staticmethod(collate)

    batch = next(iter(loaded(Loader, 0)))
    policy = train.Policy(actions=batch["actions"].shape[-1])
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3)
    joints = torch.zeros(BATCH, OBSERVED, 4)  # the poses' takes have none
    steps = []
    ends = time.perf_counter() + seconds
    while time.perf_counter() < ends:
        begins = time.perf_counter()
        loss = train.loss_of(policy, {**batch, "obs": {**batch["obs"], "joints": joints}})
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps.append(time.perf_counter() - begins)
    return statistics.median(steps) * 1e3, BATCH / rate(Loader, 2, seconds) * 1e3


def table(size, results):
    lines = [f"| {size} | samples/s, no workers | | two workers | |", "|---|--:|--:|--:|--:|"]
    for name, one in results.items():
        cells = []
        for workers in ("0", "2"):
            value, ours = (statistics.median(results[who][workers]) for who in (name, OURS))
            cells.append(f"{value:.0f} | {value / ours:.2f}x")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--sizes", nargs="+", default=["320x240", "84x84"], help="WIDTHxHEIGHT of the images")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--work", type=Path, help="keep the files here")
    options = parser.parse_args()
    torch.set_num_threads(1)
    work = options.work or Path(tempfile.mkdtemp(prefix="takeset-training-"))
    work.mkdir(parents=True, exist_ok=True)
    rounds, seconds = (1, 1) if options.quick else (3, 4)
    packages = ("h5py", "numpy", "torch", "robomimic", "lerobot", "torchcodec", "simplejpeg")
    result = facts() | {
        "versions": {"takeset": command_output(TAKESET, "--version"), "python": platform.python_version(),
                     **{name: importlib.metadata.version(name) for name in packages if importlib.util.find_spec(name)}},
        "batch": BATCH, "observed": OBSERVED, "ahead": AHEAD, "samples_per_second": {},
    }  # fmt: skip
    try:
        for size in options.sizes:
            found = contenders(work, size)
            check(found)
            names, results = list(found), {name: {"0": [], "2": []} for name in found}
            for one in range(rounds):
                for name in names[one % len(names) :] + names[: one % len(names)]:
                    for workers in (0, 2):
                        results[name][str(workers)].append(rate(found[name][0], workers, seconds))
            result["samples_per_second"][size] = results
            print(table(size, results), end="\n\n", flush=True)
        measured = [model(work / f"{options.sizes[0]}-{image}", seconds) for image in ("raw", "jpeg")]
        result["model_step_and_batch_ms"] = dict(zip(("raw", "jpeg"), measured))
        for image, (step, batch) in zip(("raw", "jpeg"), measured):
            print(f"{options.sizes[0]} {image}: a step of the model {step:.0f} ms, a batch by two workers {batch:.0f} ms")
    finally:
        if not options.work:
            shutil.rmtree(work)
    output = options.output or HERE / "results" / f"training-{result['date']}-{result['commit'] or 'unknown'}.json"
    output.write_text(json.dumps(result, indent=1) + "\n")
    print(f"wrote {output}", file=sys.stderr)


if __name__ == "__main__":
    main()
