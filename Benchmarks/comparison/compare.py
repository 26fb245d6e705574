"""Converts the same simulated recordings with Takeset and with what else people use, and measures the rows against exact truth.

    make comparison
    python Benchmarks/comparison/compare.py WORK [--lerobot PYTHON] [--nerfstudio PYTHON] [--rounds N] [--seconds N] [--output RESULTS.json]

Then does it again with damaged takes among the others, and once more, killed half way. Prints Markdown tables; writes all that was measured as JSON.
docs/comparison.md has the results, and what the columns mean. PYTHON has LeRobot or nerfstudio installed; without it, its rows are left out.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from PIL import Image

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent), str(ROOT / "python")]

import takeset  # noqa: E402
from machine import facts  # noqa: E402
from measure import Rows, Truth, edge, errors, matrices, summary  # noqa: E402

BINARY = Path(os.environ.get("TAKESET", ROOT / ".build/release/takeset")).resolve()
WHOLE = 20  # of so many images one is compared with its source

SESSIONS = {  # name: quirks of `takeset simulate stack-session --variant v2`
    "clean_1": [], "clean_2": [], "frames_dropped": ["frames-dropped"], "images_missing": ["images-missing"], "poses_shuffled": ["poses-shuffled"],
    "joints_late": ["joints-late"], "joints_gap": ["joints-gap"],
}  # fmt: skip
DAMAGED_SESSIONS = {"clean_1": [], "image_cut": ["image-cut"], "poses_cut": ["poses-cut"], "z_clean": []}
RECORDS = {"clean": [], "images_missing": ["missing-images"]}
SCANS = {"clean": [], "depth_missing": ["missing-depth"]}


# Reading what was written: rows of each take, in parts


def of_images(images, **others):
    return Rows([edge(image) for image in images], whole={index: images[index] for index in range(0, len(images), WHOLE)}, **others)


def from_takeset(output, takes):
    found = {}
    for episode in takeset.open(output / "dataset"):
        joints = episode["joints"]
        angles = np.where(joints.valid[:].reshape(len(episode), -1).all(1)[:, None], joints[:], np.nan)
        seen = np.flatnonzero(episode["camera_image"].valid[:])
        rows = of_images(
            list(episode["camera_image"][:][seen]), poses=matrices(episode["pose"][:][seen].astype(float)), joints=angles[seen],
            seconds=episode.times_ns[seen] / 1e9,
        )  # fmt: skip
        found.setdefault(episode.take_id, []).append(rows)
    return found


def from_plain(output, takes):
    found = {}
    for path in sorted(output.glob("*.h5")):
        with h5py.File(path) as file:
            obs = file["data/demo_0/obs"]
            seconds = file["meta/demo_0/timestamp_ns"][:] / 1e9
            found[path.stem] = [of_images(obs["camera_image"][:], poses=matrices(obs["pose"][:].astype(float)), joints=obs["joints"][:], seconds=seconds)]
    return found


def from_positions(output, takes):
    found = {}
    for path in sorted(output.glob("*.h5")):
        with h5py.File(path) as file:
            obs = file["observations"]
            found[path.stem] = [of_images(obs["images/camera"][:], poses=matrices(obs["pose"][:]), joints=obs["joints"][:])]
    return found


def from_lerobot(python, episodes=None):
    """Rows of a LeRobot dataset; `episodes` says which take an episode is of, and otherwise each is the next take."""

    def rows(output, takes):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([python, HERE / "lerobot_rows.py", "read", output / "lerobot", f"{folder}/rows.npz"], check=True, capture_output=True)
            stored = dict(np.load(f"{folder}/rows.npz"))
        names = episodes(output) if episodes else sorted(take.name for take in takes.iterdir())
        found = {}
        for number in np.unique(stored["episode"]):
            here = np.flatnonzero(stored["episode"] == number)
            whole = {int(index * WHOLE - here[0]): stored["whole"][index] for index in range(len(stored["whole"])) if index * WHOLE in here}
            state = stored["state"][here].astype(float)
            rows = Rows(list(stored["edges"][here]), matrices(state[:, :7]), state[:, 7:11], stored["seconds"][here], whole=whole)
            found.setdefault(names[number], []).append(rows)
        return found

    return rows


def exported_episodes(output):
    takes = {episode.id: episode.take_id for episode in takeset.open(output / "dataset")}
    record = json.loads((output / "lerobot/takeset-export.json").read_text())
    return [takes[episode["id"]] for episode in record["episodes"] for _ in episode["exported"]]


def from_scenes(folder):
    """Rows of transforms.json, as nerfstudio reads it."""

    def rows(output, takes):
        found = {}
        for scene in sorted((output / folder).iterdir()):
            if not (scene / "transforms.json").exists():
                continue
            frames = json.loads((scene / "transforms.json").read_text())["frames"]
            images = [np.asarray(Image.open(scene / frame["file_path"]).convert("RGB")) for frame in frames]
            depth = [frame.get("depth_file_path") for frame in frames]
            maps = [np.asarray(Image.open(scene / path)) if path else None for path in depth]
            found[scene.name] = [of_images(images, poses=np.array([frame["transform_matrix"] for frame in frames], float), depth=[map if map is not None and map.any() else None for map in maps])]
        return found

    return rows


# The contenders


@dataclass
class Contender:
    name: str
    steps: list  # commands; {takes} and {output} are folders
    rows: Callable
    each: bool = False  # once for each take: {take} is its folder, {name} its name
    python: str = "python3"  # which has what `takeset export` needs

    def commands(self, takes, output):
        for step in self.steps:
            for take in sorted(takes.iterdir()) if self.each else [None]:
                yield [str(part).format(takes=takes, output=output, take=take, name=take and take.name) for part in step]


def pipeline(work, name, *steps):
    path = work / f"{name}.yaml"
    path.write_text("version: 1\ntransforms:\n" + "".join(f"  - {step}\n" for step in steps))
    return path


def robot_contenders(work, lerobot):
    small = "resize-image: {width: 320, height: 240, mode: fit}"
    paired = pipeline(work, "paired", "align", small)
    even = pipeline(
        work, "even", "align", "resample: {rate: 60}", "split-episodes: {at: gaps}", small, "actions: {kind: relative-6d, joints: absolute}",
        "pose-frame: {axes: arkit}",
    )  # fmt: skip
    run = [BINARY, "run", "{takes}", "--output", "{output}/dataset", "--progress", "none", "--pipeline"]
    yield Contender("Takeset", [[*run, paired]], from_takeset)
    yield Contender("NumPy and h5py with care (`plain.py`)", [[sys.executable, HERE.parent / "plain.py", "{takes}", "{output}"]], from_plain)
    yield Contender("by list position (`by_position.py`)", [[sys.executable, HERE / "by_position.py", "{takes}", "{output}"]], from_positions)
    if lerobot:
        export = [BINARY, "export", "{output}/dataset", "--to", "lerobot", "--output", "{output}/lerobot", "--fps", "60", "--task", "look around", "--images", "video"]
        yield Contender("Takeset, `export --to lerobot`", [[*run, even], export], from_lerobot(lerobot, exported_episodes), python=lerobot)
        yield Contender("LeRobot's writer, with care (`lerobot_rows.py`)", [[lerobot, HERE / "lerobot_rows.py", "write", "{takes}", "{output}/lerobot"]], from_lerobot(lerobot))


def scene_contenders(work, nerfstudio, kind):
    views = pipeline(work, "views", "align", "pose-frame: {axes: opengl}", "resample-depth: {unit: m}")
    views.write_text(views.read_text() + "writer: {hdf5: {image: jpeg}}\n")
    run = [BINARY, "run", "{takes}", "--output", "{output}/dataset", "--progress", "none", "--pipeline", views]
    export = [BINARY, "export", "{output}/dataset", "--to", "nerfstudio", "--output", "{output}/scenes"]
    yield Contender("Takeset, `export --to nerfstudio`", [run, export], from_scenes("scenes"))
    if nerfstudio:
        process = [Path(nerfstudio).parent / "ns-process-data", kind, "--data", "{take}", "--output-dir", "{output}/{name}", "--num-downscales", "0", "--max-dataset-size", "-1"]
        yield Contender(f"`ns-process-data {kind}`", [[*process, *(["--use-depth"] if kind == "polycam" else [])]], from_scenes("."), each=True)


# Running them


def execute(contender, takes, output, kill_after=None):
    """Runs all commands of a contender, as processes of their own; kills what runs after so many seconds."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "python"), "TAKESET_PYTHON": contender.python}
    environment["PATH"] = f"{Path(contender.steps[0][0]).parent}:{environment['PATH']}"
    begun, cpu, peak, codes, said = time.perf_counter(), 0.0, 0, [], ""
    for command in contender.commands(takes, output):
        with tempfile.TemporaryFile() as printed:
            process = subprocess.Popen(command, stdout=printed, stderr=subprocess.STDOUT, env=environment, start_new_session=True)
            if kill_after is not None:
                try:
                    process.wait(max(kill_after - (time.perf_counter() - begun), 0.01))
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                    codes.append("killed")
                    break
                codes.append(process.returncode)
                continue
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            codes.append(process.returncode)
            cpu, peak = cpu + usage.ru_utime + usage.ru_stime, max(peak, usage.ru_maxrss * 1024)
            printed.seek(0)
            said = (printed.read().decode(errors="replace").strip().splitlines() or [""])[-1]
    return {"wall": time.perf_counter() - begun, "cpu": cpu, "peak": peak, "codes": codes, "said": said[:200]}


def fresh(output):
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    os.sync()
    return output


def size(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def readable(contender, output, takes):
    """Of each take that can be read from an output, its number of rows; none where nothing can be read."""
    try:
        return {name: sum(len(part.edges) for part in parts) for name, parts in contender.rows(output, takes).items()}
    except Exception as error:  # whatever a reader makes of half an output
        return {"error": f"{type(error).__name__}: {error}"[:200]}


def measured(contender, takes, output):
    found = []
    rows = contender.rows(output, takes)
    for take in sorted(takes.iterdir()):
        parts = rows.get(take.name)
        if parts is not None:
            found.append({"take": take.name, **errors(parts, Truth(take))})
    return {"takes": len(found), **summary([{key: value for key, value in take.items() if key != "take"} for take in found]), "by take": {
        take["take"]: summary([{key: value for key, value in take.items() if key != "take"}]) for take in found
    }}  # fmt: skip


def compare(contenders, takes, damaged, work, rounds, note):
    """Everything about each contender: what a run costs, what its rows are off by, and what damaged takes and a kill leave."""
    contenders = list(contenders)
    results = {contender.name: {"runs": []} for contender in contenders}
    for turn in range(rounds):
        for contender in contenders[turn % len(contenders) :] + contenders[: turn % len(contenders)]:
            output = fresh(work / "output")
            run = execute(contender, takes, output)
            result = results[contender.name]
            result["runs"].append(run)
            note(f"{contender.name}: {run['wall']:.1f} s, {run['codes']} {run['said'] if any(run['codes']) else ''}")
            if turn == 0:
                result["bytes"] = size(output / "lerobot" if (output / "lerobot").exists() else output / "scenes" if (output / "scenes").exists() else output)
                result["errors"] = measured(contender, takes, output)
    for contender in contenders:
        result, output = results[contender.name], work / "output"
        if damaged:
            run = execute(contender, damaged, fresh(output))
            result["damaged"] = {"codes": run["codes"], "said": run["said"], "takes": readable(contender, output, damaged)}
        killed = execute(contender, takes, fresh(output), kill_after=statistics.median(run["wall"] for run in result["runs"]) * 0.6)
        left = readable(contender, output, takes)
        again = execute(contender, takes, output)
        result["killed"] = {"codes": killed["codes"], "takes": left, "again": {"codes": again["codes"], "said": again["said"], "wall": again["wall"], "takes": readable(contender, output, takes)}}
        note(f"{contender.name}: damaged {result.get('damaged')}, killed {result['killed']}")
    shutil.rmtree(work / "output")
    return results


# Inputs and the report


def simulate(folder, kind, takes, *options):
    for seed, (name, quirks) in enumerate(takes.items(), 1):
        if not (folder / name / "truth.json").exists():
            shutil.rmtree(folder / name, ignore_errors=True)
            command = [BINARY, "simulate", kind, "--output", folder / name, "--seed", str(seed), *options, *(word for quirk in quirks for word in ("--quirk", quirk))]
            subprocess.run(list(map(str, command)), check=True, capture_output=True)
    return folder


def pair(value, digits=1):
    return "–" if value is None else f"{value[0]:.{digits}f}, {value[1]:.{digits}f}"


def table(results):
    """Markdown: a line for each contender."""
    lines = [
        "| | pairing, ms | pose, mm | pose, degrees | joints, degrees | stated time, ms | frames lost | rows invented | gray levels | seconds | CPU | MB of memory | MB |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, result in results.items():
        off, runs = result["errors"], result["runs"]
        cost = {key: statistics.median(run[key] for run in runs) for key in ("wall", "cpu", "peak")}
        cells = [
            name, pair(off.get("pairing")), pair(off.get("position")), pair(off.get("rotation")), pair(off.get("joints")), pair(off.get("time")),
            f"{off.get('lost', '–')} of {off.get('usable frames', '–')}", off.get("invented", "–"), pair(off.get("gray levels")), f"{cost['wall']:.1f}",
            f"{cost['cpu']:.1f}", round(cost["peak"] / 1e6), round(result["bytes"] / 1e6),
        ]  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--lerobot", help="a Python that has LeRobot")
    parser.add_argument("--nerfstudio", help="a Python that has nerfstudio")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10, help="of each recording")
    parser.add_argument("--output", type=Path, help="default: Benchmarks/results/comparison-DATE-COMMIT.json")
    options = parser.parse_args()
    work, about = options.work.resolve(), facts()
    work.mkdir(parents=True, exist_ok=True)
    seconds = ["--seconds", str(options.seconds)]
    sessions = simulate(work / "sessions", "stack-session", SESSIONS, *seconds, "--variant", "v2")
    damaged = simulate(work / "damaged", "stack-session", DAMAGED_SESSIONS, *seconds, "--variant", "v2")
    records = simulate(work / "records", "record3d", RECORDS, *seconds, "--form", "exr", "--rate", "60", "--size", "726x968")
    scans = simulate(work / "scans", "polycam", SCANS, "--seconds", str(options.seconds * 3))

    def note(text):
        print(text, file=sys.stderr, flush=True)

    results = {
        "StackCapture sessions": compare(robot_contenders(work, options.lerobot), sessions, damaged, work, options.rounds, note),
        "Record3D": compare(scene_contenders(work, options.nerfstudio, "record3d"), records, None, work, options.rounds, note),
        "Polycam": compare(scene_contenders(work, options.nerfstudio, "polycam"), scans, None, work, options.rounds, note),
    }
    output = options.output or HERE.parent / f"results/comparison-{about['date']}-{about['commit']}.json"
    output.write_text(json.dumps({**about, "results": results}, indent=1) + "\n")
    for name, found in results.items():
        print(f"## {name}\n\n{table(found)}\n")
    print(output)


if __name__ == "__main__":
    main()
