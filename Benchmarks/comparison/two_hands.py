"""Three ways in which scripts put two phones into one row, each by itself, beside Takeset's rows and the truth.

    python Benchmarks/comparison/two_hands.py WORK [--seconds N]

The ways are written anew here after what other pipelines for two grippers do; it is none of their code. They get the true poses, widths and times of a
simulated session, so that nothing but the way is off:

    by component   rotations as rotation vectors, of which each number is interpolated by itself
    before         the last image before a row
    own start      widths at the seconds since each phone's own start, as if both had started at once

The session is turned by half a turn, as one is whose first phone looked the other way when it began: its world is as good as any other. Prints a Markdown
table and writes two-hands.json.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
from scipy.spatial.transform import Rotation, Slerp

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("TAKESET", ROOT / ".build/release/takeset")).resolve()
SKEWS = {"left": 0.08, "right": 0.0}
RATE = 60


def simulate(work, seconds):
    """A session whose world is turned about its vertical axis, so that both cameras look around half a turn from its axes."""
    folder = work / "takes/demo"
    if not (folder / "truth.json").exists():
        skews = [word for side, skew in SKEWS.items() for word in ("--skew", f"{side}={skew}")]
        command = [BINARY, "simulate", "iphumi", "-o", folder, "--phones", ",".join(SKEWS), "--seconds", seconds, "--size", "640x480", *skews]
        subprocess.run([str(word) for word in command], check=True, capture_output=True)
        truth = json.loads((folder / "truth.json").read_text())
        for side in SKEWS:
            poses = np.array(truth[side]["camera_to_world"]).reshape(-1, 4, 4)
            # The middle of the path is then at half a turn.
            turn = np.eye(4)
            turn[:3, :3] = (Rotation.from_euler("y", 180, degrees=True) * Rotation.from_matrix(poses[len(poses) // 2, :3, :3]).inv()).as_matrix()
            truth[side]["camera_to_world"] = (turn @ poses).reshape(-1, 16).tolist()
            file = folder / f"{side}.json"
            file.write_text(json.dumps({**json.loads(file.read_text()), "poseTransforms": (turn @ poses).tolist()}))
        (folder / "truth.json").write_text(json.dumps(truth))
    return folder


class Phone:
    """The truth of a phone, at any Unix time in seconds since the first of both has started."""

    def __init__(self, truth, origin):
        self.times = (truth["start_unix_ns"] - origin + np.array(truth["frame_time_ns"])) / 1e9
        self.poses = np.array(truth["camera_to_world"]).reshape(-1, 4, 4)
        self.rotations = Rotation.from_matrix(self.poses[:, :3, :3])
        self.at = Slerp(self.times, self.rotations)
        widths = np.array([np.nan if width is None else width for width in truth["gripper_width"]])
        self.seen = ~np.isnan(widths)
        self.width = lambda times: np.interp(times, self.times[self.seen], widths[self.seen])
        self.widths = widths


def takeset(folder, work):
    """Rows of Takeset: times, rotations, times of the images, and widths, by side."""
    output = work / "dataset"
    pipeline = work / "hands.yaml"
    steps = ["align", {"resample": {"rate": RATE}}]
    steps += [{"python": {"file": "gripper_width.py", "member": side, "options": {"ids": [6, 7] if side == "left" else [0, 1]}}} for side in SKEWS]
    pipeline.write_text(json.dumps({"version": 1, "join": {"members": {side: f"*-{side}" for side in SKEWS}}, "transforms": steps}))
    (work / "gripper_width.py").write_text((ROOT / "examples/steps/gripper_width.py").read_text())
    subprocess.run([BINARY, "run", folder, "-o", output, "--pipeline", pipeline, "--replace", "--progress", "none", "--python", sys.executable], check=True)
    with h5py.File(output / "dataset.h5") as file:
        data, meta = file["data/demo_000000"], file["meta/demo_000000"]
        times = meta["timestamp_ns"][:] + meta["timestamp_ns"].attrs["unix_origin_ns"]
        found = {}
        for side in SKEWS:
            late = meta[f"streams/{side}_camera_image/dt_ns"][:]
            shown = np.where(meta[f"streams/{side}_camera_image/source_index"][:] >= 0, (times + late), -1)
            found[side] = data[f"obs/{side}_pose"][:], shown, data[f"obs/{side}_gripper"][:, 0]
    return times, found


def degrees(one, other):
    return np.degrees((one.inv() * other).magnitude())


def pair(values, digits):
    return f"{np.mean(values):.{digits}f}, {np.max(values):.{digits}f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    folder = simulate(work, options.seconds)
    truth = json.loads((folder / "truth.json").read_text())
    origin = min(truth[side]["start_unix_ns"] for side in SKEWS)
    phones = {side: Phone(truth[side], origin) for side in SKEWS}
    begin = max(phone.times[0] for phone in phones.values())
    end = min(phone.times[-1] for phone in phones.values())

    rows, found = takeset(folder, work)
    rows = (rows - origin) / 1e9
    within = (rows >= begin) & (rows <= end)
    off = {"Takeset": {"rotation": [], "image": [], "width": []}}
    for side, phone in phones.items():
        poses, shown, widths = found[side]
        use = within & np.isfinite(poses[:, 0])
        off["Takeset"]["rotation"] += [*degrees(phone.at(rows[use]), Rotation.from_quat(poses[use, 3:]))]
        off["Takeset"]["image"] += [*np.abs((shown[use & (shown >= 0)] - origin) / 1e9 - rows[use & (shown >= 0)])]
        use &= np.isfinite(widths)
        # A width is that of the image, as the image is that of its own time.
        off["Takeset"]["width"] += [*np.abs(widths[use] - phone.width((shown[use] - origin) / 1e9))]

    grid = np.arange(begin, end, 1 / RATE)
    ways = {"by component": {"rotation": []}, "before": {"image": []}, "own start": {"width": []}}
    for phone in phones.values():
        vectors = phone.rotations.as_rotvec()
        between = np.stack([np.interp(grid, phone.times, vectors[:, axis]) for axis in range(3)], axis=1)
        ways["by component"]["rotation"] += [*degrees(phone.at(grid), Rotation.from_rotvec(between))]
        before = phone.times[np.searchsorted(phone.times, grid, side="right") - 1]
        ways["before"]["image"] += [*(grid - before)]
        since_start = phone.times - phone.times[0]
        use = phone.seen
        ways["own start"]["width"] += [*np.abs(np.interp(grid - begin, since_start[use], phone.widths[use]) - phone.width(grid))]
    off.update(ways)

    print("| | rotation, degrees | image and row apart, ms | width, mm |\n| :-- | --: | --: | --: |")
    for name, errors in off.items():
        cells = [pair(errors[key], digits) if key in errors else "–" for key, digits in (("rotation", 2),)]
        cells += [pair(1000 * np.array(errors[key]), 1) if key in errors else "–" for key in ("image", "width")]
        print(f"| {name} | {' | '.join(cells)} |")
    figures = {name: {key: [float(np.mean(values)), float(np.max(values))] for key, values in errors.items()} for name, errors in off.items()}
    (work / "two-hands.json").write_text(json.dumps({"seconds": options.seconds, "skew": SKEWS, "errors": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
