"""Converts the same simulated recordings with Takeset and with what else people use, and measures the rows against exact truth.

    make comparison
    python Benchmarks/comparison/compare.py WORK [--lerobot PYTHON] [--nerfstudio PYTHON] [--rounds N] [--seconds N] [--output RESULTS.json]
                                            [--sessions DIRECTORY] [--records DIRECTORY] [--scans DIRECTORY]

Then does it again with damaged takes among the others, and killed at several points. Prints Markdown tables; writes all that was measured as JSON.
docs/comparison.md has the results, and what the columns mean. PYTHON has LeRobot or nerfstudio installed; without it, its rows are left out.
The directories have recordings of your own, instead of simulated ones: StackCapture sessions, EXR exports of Record3D, raw data of Polycam. Their truth is not
known, so only rows, time, memory and size are compared.
"""

import argparse
import contextlib
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
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent), str(ROOT / "python")]

from converted_rows import exported_episodes, from_files, from_lerobot, from_scenes, from_takeset, of_plain, of_positions  # noqa: E402
from machine import facts, starter  # noqa: E402
from measure import Truth, errors, summary  # noqa: E402

BINARY = Path(os.environ.get("TAKESET", ROOT / ".build/release/takeset")).resolve()
START = [BINARY, "--version"]
KILLED_AT = (0.3, 0.6, 0.9)  # of the time that a whole run takes

SESSIONS = {  # name: quirks of `takeset simulate stack-session --variant v2`
    "clean_1": [], "clean_2": [], "frames_dropped": ["frames-dropped"], "images_missing": ["images-missing"], "poses_shuffled": ["poses-shuffled"],
    "joints_late": ["joints-late"], "joints_a_little_late": [], "joints_gap": ["joints-gap"],
}  # fmt: skip
LATE = {"joints_a_little_late": 0.3}  # whose glove begins so many seconds after the camera, by less than anything tells
DAMAGED_SESSIONS = {"clean_1": [], "image_cut": ["image-cut"], "poses_cut": ["poses-cut"], "z_clean": []}
RECORDS = {"clean": [], "images_missing": ["missing-images"]}
SCANS = {"clean": [], "depth_missing": ["missing-depth"]}


# The contenders


@dataclass
class Contender:
    name: str
    start: list  # a command that only starts: imports what the steps import
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
    paired = pipeline(work, "paired", "align", small, "actions: {kind: relative-6d, joints: none, horizon: 1}")
    even = pipeline(work, "even", "align", "resample: {rate: 60}", "split-episodes: {at: gaps}", small, "actions: {kind: relative-6d, joints: absolute}")
    run = [BINARY, "run", "{takes}", "--output", "{output}/dataset", "--progress", "none", "--pipeline"]
    plain, positions = HERE.parent / "plain.py", HERE / "by_position.py"
    scripts = [sys.executable, "-c", "import h5py, numpy, PIL.Image, scipy.spatial.transform"]
    yield Contender("Takeset", START, [[*run, paired]], from_takeset)
    yield Contender("Takeset, one thread", START, [[*run, paired, "--jobs", "1"]], from_takeset)
    yield Contender("NumPy and h5py, `plain.py`", scripts, [[sys.executable, plain, "--default", "{takes}", "{output}"]], from_files(of_plain))
    yield Contender("by list position, `by_position.py`", scripts, [[sys.executable, positions, "{takes}", "{output}"]], from_files(of_positions))
    if lerobot:
        export = [BINARY, "export", "{output}/dataset", "--to", "lerobot", "--output", "{output}/lerobot", "--fps", "60", "--task", "look around", "--images", "video"]
        yield Contender("Takeset, `export --to lerobot`", START, [[*run, even], export], from_lerobot(lerobot, exported_episodes), python=lerobot)
        imports = [lerobot, "-c", "import lerobot.datasets.lerobot_dataset, scipy.spatial.transform"]
        for name, mode in [("LeRobot's writer, `lerobot_rows.py`", "write"), ("LeRobot's writer, streaming", "stream")]:
            yield Contender(name, imports, [[lerobot, HERE / "lerobot_rows.py", mode, "{takes}", "{output}/lerobot"]], from_lerobot(lerobot))


def scene_contenders(work, nerfstudio, kind):
    views = pipeline(work, "views", "align", "pose-frame: {axes: opengl}", "resample-depth: {unit: m}")
    views.write_text(views.read_text() + "writer: {hdf5: {image: jpeg}}\n")
    run = [BINARY, "run", "{takes}", "--output", "{output}/dataset", "--progress", "none", "--pipeline", views]
    export = [BINARY, "export", "{output}/dataset", "--to", "nerfstudio", "--output", "{output}/scenes"]
    is_fitted = kind == "polycam"  # whose own world is another
    yield Contender("Takeset, `export --to nerfstudio`", START, [run, export], from_scenes("scenes", is_fitted))
    if nerfstudio:
        program = Path(nerfstudio).parent / "ns-process-data"
        process = [program, kind, "--data", "{take}", "--output-dir", "{output}/{name}", "--num-downscales", "0", "--max-dataset-size", "-1"]
        for options in [[], ["--use-depth"]] if kind == "polycam" else [[]]:
            # Cropped images do not show their number.
            crop = ["--crop-border-pixels", "0"] if kind == "polycam" else []
            yield Contender(" ".join(["`ns-process-data", kind, *options]) + "`", [program, kind, "--help"], [[*process, *crop, *options]], from_scenes(".", is_fitted), each=True)


# Running them


def tree(pid):
    """A process and all that it has started."""
    found = [pid]
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that has ended
            for child in thread.read_text().split():
                found += tree(int(child))
    return found


def kill(process):
    """Kills a process and what it has started, and returns when all are gone: until then they hold their files."""
    pids = tree(process.pid)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        time.sleep(0.01)


def execute(contender, takes, output, limit=600):
    """Runs all commands of a contender, one after another; kills what runs after so many seconds, and then runs no more."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "python"), "TAKESET_PYTHON": contender.python}
    environment["PATH"] = f"{Path(contender.steps[0][0]).parent}:{environment['PATH']}"
    begun, cpu, peak, codes, said = time.perf_counter(), 0.0, 0, [], ""
    for command in contender.commands(takes, output):
        with tempfile.TemporaryDirectory() as folder:
            printed, cost = Path(folder, "printed"), Path(folder, "cost")
            with printed.open("w") as out:
                process = subprocess.Popen(starter(cost, command), stdout=out, stderr=subprocess.STDOUT, env=environment)
                try:
                    process.wait(max(limit - (time.perf_counter() - begun), 0.01))
                except subprocess.TimeoutExpired:
                    kill(process)
            said = (printed.read_text(errors="replace").strip().splitlines() or [""])[-1].replace(f"{output.parent}/", "")
            if not cost.exists():
                codes.append(-signal.SIGKILL)
                break
            code, _, seconds, bytes = cost.read_text().split()
            codes.append(int(code))
            cpu, peak = cpu + float(seconds), max(peak, int(bytes))
    return {"wall": time.perf_counter() - begun, "cpu": cpu, "peak": peak, "codes": codes, "said": said[:200]}


def fresh(output):
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    os.sync()
    return output


def size(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def readable(contender, output):
    """Of each take that can be read from an output, its number of rows."""
    try:
        return {name: sum(len(part.edges) for part in parts) for name, parts in contender.rows(output).items()}
    except Exception as error:  # whatever a reader makes of half an output
        print(f"{contender.name}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
        return {}


def measured(contender, takes, output):
    """Errors of all takes together and of each; a take that is not there has lost its frames. Without truth only how many rows there are."""
    rows, found = contender.rows(output), {}
    for take in sorted(takes.iterdir()):
        parts = rows.get(take.name, [])
        found[take.name] = errors(parts, Truth(take)) if (take / "truth.json").exists() else {"rows": sum(len(part.edges) for part in parts)}
    return {**summary(list(found.values())), "by take": {name: summary([one]) for name, one in found.items()}}


def compare(contenders, takes, damaged, work, rounds, note):
    """Everything about each contender: what a run costs, what its rows are off by, and what damaged takes and a kill leave."""
    contenders = list(contenders)
    results = {contender.name: {"runs": [], "killed": []} for contender in contenders}
    for contender in contenders:  # the first start may read from the disk
        started = [execute(replace(contender, steps=[contender.start]), takes, fresh(work / "output")) for _ in range(4)][1:]
        assert not any(code for one in started for code in one["codes"]), (contender.name, started)
        results[contender.name]["start"] = {key: statistics.median(one[key] for one in started) for key in ("wall", "peak")}
    for turn in range(rounds):
        for contender in contenders[turn % len(contenders) :] + contenders[: turn % len(contenders)]:
            output = fresh(work / "output")
            run = execute(contender, takes, output)
            result = results[contender.name]
            result["runs"].append(run)
            note(f"{contender.name}: {run['wall']:.1f} s, {run['codes']} {run['said'] if any(run['codes']) else ''}")
            if "errors" not in result:
                handed_on = next((output / name for name in ("lerobot", "scenes") if (output / name).exists()), output)
                result.update({"bytes": size(output), "bytes_handed_on": size(handed_on), "errors": measured(contender, takes, output)})
    output = work / "output"
    for contender in contenders:
        result = results[contender.name]
        wall = statistics.median(run["wall"] for run in result["runs"])
        if damaged:
            run = execute(contender, damaged, fresh(output), limit=60 + 2 * wall)
            result["damaged"] = {"codes": run["codes"], "said": run["said"], "takes": readable(contender, output)}
            note(f"{contender.name}: damaged {result['damaged']}")
        for share in KILLED_AT:
            killed = execute(contender, takes, fresh(output), limit=share * wall)
            left = readable(contender, output)
            again = execute(contender, takes, output, limit=60 + 2 * wall)
            result["killed"].append({
                "at": share, "codes": killed["codes"], "takes": left,
                "again": {"codes": again["codes"], "said": again["said"], "wall": again["wall"], "takes": readable(contender, output)},
            })  # fmt: skip
            note(f"{contender.name}: killed {result['killed'][-1]}")
    shutil.rmtree(output)
    return results


# Inputs and the report


def simulate(folder, kind, takes, *options):
    for seed, (name, quirks) in enumerate(takes.items(), 1):
        if not (folder / name / "truth.json").exists():
            shutil.rmtree(folder / name, ignore_errors=True)
            command = [BINARY, "simulate", kind, "--output", folder / name, "--seed", str(seed), *options, *(word for quirk in quirks for word in ("--quirk", quirk))]
            subprocess.run(list(map(str, command)), check=True, capture_output=True)
            if name in LATE:
                begin_later(folder / name, LATE[name])
    return folder


def begin_later(session, seconds):
    """Removes the first readings of a session's glove."""
    readings, about = json.loads((session / "encoders.json").read_text()), json.loads((session / "metadata.json").read_text())
    kept = [reading for reading in readings if reading["timestamp"] >= readings[0]["timestamp"] + seconds]
    (session / "encoders.json").write_text(json.dumps(kept))
    (session / "metadata.json").write_text(json.dumps(about | {"encoderCount": len(kept)}))


def versions(python, *packages):
    code = "import importlib.metadata as m, json, platform, sys; print(json.dumps({'python': platform.python_version()} | {n: m.version(n) for n in sys.argv[1:]}))"
    return json.loads(subprocess.run([python, "-c", code, *packages], check=True, capture_output=True, text=True).stdout)


def pair(value, digits=1):
    """The mean and the greatest."""
    return "–" if value is None else f"{value[0]:.{digits}f}, {value[1]:.{digits}f}"


def takes_and_rows(found):
    return f"{len(found)} take{'s' * (len(found) != 1)}, {sum(found.values())} rows"


def ends(codes):
    return " and ".join(dict.fromkeys("killed" if code == -signal.SIGKILL else f"exit {code}" for code in codes))


def markdown(head, lines):
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in [head, [":--", *["--:"] * (len(head) - 1)], *lines]) + "\n"


def tables(results):
    """Markdown: what rows are off by, what they cost, what damage leaves, and what a kill leaves."""
    off, cost, damaged, killed = [], [], [], []
    for name, result in results.items():
        errors, runs = result["errors"], result["runs"]
        lost = f"{errors['lost']} of {errors['usable frames']}" if "lost" in errors else "–"
        off.append([
            name, pair(errors.get("pairing")), pair(errors.get("position")), pair(errors.get("rotation"), 2), pair(errors.get("joints")), errors.get("without joints", "–"),
            errors.get("without depth", "–"), pair(errors.get("depth")), pair(errors.get("time")), lost, errors.get("repeated", "–"), pair(errors.get("gray levels")),
        ])  # fmt: skip
        wall, cpu, peak = (statistics.median(run[key] for run in runs) for key in ("wall", "cpu", "peak"))
        start = result["start"]
        cost.append([name, ends(runs[0]["codes"]), errors["rows"], f"{wall:.1f}", f"{start['wall']:.1f}", f"{cpu:.1f}", f"{peak / 1e6:.0f}", f"{start['peak'] / 1e6:.0f}", f"{result['bytes_handed_on'] / 1e6:.0f}", f"{result['bytes'] / 1e6:.0f}"])
        if "damaged" in result:
            damaged.append([name, ends(result["damaged"]["codes"]), takes_and_rows(result["damaged"]["takes"])])
        again = [one["again"] for one in result["killed"]]
        left = [str(len(one["takes"])) + ("" if -signal.SIGKILL in one["codes"] else " (had ended)") for one in result["killed"]]
        then = dict.fromkeys(takes_and_rows(one["takes"]) for one in again)
        killed.append([name, ", ".join(left), ", ".join(dict.fromkeys(ends(one["codes"]) for one in again)), ", ".join(f"{one['wall']:.1f}" for one in again), "; ".join(then)])
    head = ["", "pairing, ms", "position, mm", "rotation, degrees", "joints, degrees", "no joints", "no depth", "depth, mm", "stated time, ms", "frames lost", "repeated", "gray levels"]
    parts = [
        markdown(head, off), markdown(["", "ended with", "rows", "seconds", "of them to start", "CPU seconds", "peak MB", "of it to start", "MB handed on", "MB written"], cost),
        markdown(["", "four takes, two damaged", "in the output"], damaged) if damaged else "",
        markdown([f"killed at {', '.join(f'{100 * share:.0f}' for share in KILLED_AT)} %", "takes left", "the same again", "seconds", "then there are"], killed),
    ]
    return "\n".join(part for part in parts if part)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--lerobot", help="a Python that has LeRobot")
    parser.add_argument("--nerfstudio", help="a Python that has nerfstudio")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5, help="of each recording")
    for name in ("sessions", "records", "scans"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--output", type=Path, help="default: Benchmarks/results/comparison-DATE-COMMIT.json")
    options = parser.parse_args()
    work, about = options.work.resolve(), facts()
    work.mkdir(parents=True, exist_ok=True)
    about["versions"] = {"scripts": versions(sys.executable, "h5py", "numpy", "pillow", "scipy")}
    for name, python in [("lerobot", options.lerobot), ("nerfstudio", options.nerfstudio)]:
        if python:
            about["versions"][name] = versions(python, name)
    seconds = ["--seconds", str(options.seconds)]
    sessions = options.sessions or simulate(work / f"sessions-{options.seconds:g}", "stack-session", SESSIONS, *seconds, "--variant", "v2")
    damaged = simulate(work / f"damaged-{options.seconds:g}", "stack-session", DAMAGED_SESSIONS, *seconds, "--variant", "v2")
    records = options.records or simulate(work / f"records-{options.seconds:g}", "record3d", RECORDS, *seconds, "--form", "exr", "--rate", "60", "--size", "726x968")
    scans = options.scans or simulate(work / f"scans-{options.seconds:g}", "polycam", SCANS, "--seconds", str(options.seconds * 3))

    def note(text):
        print(text, file=sys.stderr, flush=True)

    output, results = options.output or HERE.parent / f"results/comparison-{about['date']}-{about['commit']}.json", {}
    for name, contenders, takes, broken in [
        ("StackCapture sessions", robot_contenders(work, options.lerobot), sessions, damaged),
        ("Record3D", scene_contenders(work, options.nerfstudio, "record3d"), records, None),
        ("Polycam", scene_contenders(work, options.nerfstudio, "polycam"), scans, None),
    ]:
        results[name] = compare(contenders, takes, broken, work, options.rounds, note)
        output.write_text(json.dumps({**about, "seconds": options.seconds, "results": results}, indent=1) + "\n")
    for name, found in results.items():
        print(f"## {name}\n\n{tables(found)}")
    print(output)


if __name__ == "__main__":
    main()
