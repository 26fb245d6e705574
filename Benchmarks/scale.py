"""Measures how time, memory and files grow with the number of takes in one dataset, for docs/scale.md.

    python Benchmarks/scale.py --work DIR [--takes 1000 10000 100000] [--only REGEX] [--again]

Makes tiny takes (two images of 16x12, poses, joints), converts them, and runs every command that reads or writes a whole dataset. What was
measured is kept in DIR/scale.json and not measured again, except with --again, so a long measurement can be continued. Prints Markdown
tables: each command with its processor time (of all threads) and peak memory, and what one take more costs, from the two largest datasets
of each. The time on the clock is in scale.json. 100,000 takes need 8 GB of disk and an hour, most of it for converting them.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import starter

TAKESET = Path(os.environ.get("TAKESET", Path(__file__).resolve().parent.parent / ".build/release/takeset"))
PER_FOLDER = 1000
MASTERS = 16
# Workers convert all of their tasks in the smallest dataset only: it takes as long as the run.
CONVERTED_BY_TASKS = 1000
WATCHED_SECONDS = 60
# One thread: its processor time is that of the work, without waiting for others.
JOBS = 1


def quietly(*command):
    subprocess.run([*map(str, command)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def make_takes(work, count):
    """Folders of sessions, each with poses of its own; its images are hard links to those of a few simulated ones."""
    root = work / f"takes-{count}"
    if root.exists():
        return root
    masters = []
    for seed in range(MASTERS):
        master = work / f"masters/{seed}"
        if not master.exists():
            session = ["--variant", "v2", "--seconds", 0.04, "--size", "16x12", "--seed", seed]
            quietly(TAKESET, "simulate", "stack-session", *session, "--output", master)
        masters.append((master, json.loads((master / "poses.json").read_text())))
    partial = root.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    for number in range(count):
        add_take(partial, number, *masters[number % MASTERS])
    partial.rename(root)
    return root


def add_take(root, number, master, poses):
    day = f"2026-{number // 28 % 12 + 1:02d}-{number % 28 + 1:02d}"
    take = root / f"{number // PER_FOLDER:04d}/session_{day}_{number:07d}"
    (take / "rgb").mkdir(parents=True)
    for pose in poses:
        pose["transform"][0][3] = float(pose["transform"][0][3]) + 1e-5
    (take / "poses.json").write_text(json.dumps(poses))
    for name in ("metadata.json", "encoders.json", "rgb/000000.jpg", "rgb/000001.jpg"):
        os.link(master / name, take / name)


def measured(*command, allowed=(0,)):
    """Seconds on the clock and of processors, and peak bytes, of a command."""
    with tempfile.NamedTemporaryFile("r") as cost:
        subprocess.run(starter(cost.name, command), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        code, wall, processors, peak = cost.read().split()
    if int(code) not in allowed:
        sys.exit(f"{' '.join(map(str, command))} ended with {code}")
    return {"wall": float(wall), "cpu": float(processors), "peak": int(peak)}


def in_python(text, *arguments):
    return measured(sys.executable, "-c", text, *arguments)


H5PY = {
    "h5py: open dataset.h5": "import h5py, sys; h5py.File(sys.argv[1])",
    "h5py: open, len(data), one episode": (
        "import h5py, sys; f = h5py.File(sys.argv[1]); n = len(f['data']); f[f'data/demo_{n - 1:06d}/obs/pose'][:]"
    ),
    "h5py: open, list of all names": "import h5py, sys; list(h5py.File(sys.argv[1])['data'])",
    "h5py: nothing but the import": "import h5py",
}
READ_LINES = """
import json, sys
with open(sys.argv[1], encoding="utf-8") as lines:
    for line in lines:
        if line.startswith('"takes":['):
            break
    outcomes = {}
    for line in lines:
        if line.startswith("]"):
            break
        take = json.loads(line.rstrip(",\\n"))
        outcomes[take["outcome"]] = outcomes.get(take["outcome"], 0) + 1
"""


def watched(takes, dataset, work):
    """Processor seconds that a watch of a converted dataset uses in a minute, and its peak memory."""
    command = [TAKESET, "run", takes, "--output", dataset, "--watch", "--settle", "1", "--progress", "none", "--metrics", work / "metrics"]
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def used():
        fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    try:
        # The first looks compare every take with the dataset.
        last, quiet = used(), 0
        while quiet < 3:
            time.sleep(10)
            now = used()
            quiet = quiet + 1 if now - last < 6 else 0
            last = now
        before, start = used(), time.perf_counter()
        time.sleep(WATCHED_SECONDS)
        wall, processors = time.perf_counter() - start, used() - before
        peak = next(line for line in Path(f"/proc/{process.pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
        return {"wall": wall, "cpu": processors, "peak": int(peak.split()[1]) * 1024}
    finally:
        process.terminate()
        process.wait()


def keys(work):
    if not (work / "key.pem").exists():
        quietly("openssl", "genpkey", "-algorithm", "ed25519", "-out", work / "key.pem")
        quietly("openssl", "pkey", "-in", work / "key.pem", "-pubout", "-out", work / "public.pem")
    return work / "key.pem", work / "public.pem"


def steps(work, count):
    """What is measured, in order: names and functions that measure."""
    takes, dataset = work / f"takes-{count}", work / f"dataset-{count}"
    other = [work / f"{name}-{count}" for name in ("tasks", "first", "second", "merged", "described")]
    tasks, first, second, merged, described = other
    run = [TAKESET, "run", takes, "--output", dataset, "--jobs", JOBS, "--progress", "none"]
    last = f"demo_{count - 1:06d}"
    key, public = keys(work)

    def fresh(path, *command, **options):
        shutil.rmtree(path, ignore_errors=True)
        return measured(TAKESET, *command, **options)

    def one_more():
        """A take more, and gone again afterwards: everything is published, one take converted."""
        add = takes / "more"
        shutil.copytree(next((takes / "0000").iterdir()), add / "session_2027-01-01_0000000")
        try:
            return measured(*run)
        finally:
            shutil.rmtree(add)
            quietly(*run, "--prune")

    def converted():
        return measured(TAKESET, "convert", tasks, "--task", 0, "--count", count, "--jobs", JOBS, "--quiet")

    yield "run, everything new", lambda: fresh(dataset, *run[1:], "--isolate", "never")
    yield "run again, nothing to do", lambda: measured(*run)
    yield "run with one take more", one_more
    yield "plan", lambda: measured(TAKESET, "plan", takes)
    yield "plan --tasks", lambda: fresh(tasks, "plan", takes, "--tasks", "--output", tasks)
    yield "status, nothing converted", lambda: measured(TAKESET, "status", tasks)
    if count <= CONVERTED_BY_TASKS:
        yield "convert, all tasks", converted
        yield "status, all converted", lambda: measured(TAKESET, "status", tasks)
        yield "publish", lambda: measured(TAKESET, "publish", tasks, "--quiet")
    yield "verify --quick", lambda: measured(TAKESET, "verify", dataset, "--quick", "--quiet")
    yield "verify", lambda: measured(TAKESET, "verify", dataset, "--quiet", "--jobs", 2)
    yield "inspect DATASET", lambda: measured(TAKESET, "inspect", dataset)
    yield "trace, last episode", lambda: measured(TAKESET, "trace", dataset, "--episode", last, "--row", 0)
    yield "describe", lambda: fresh(described, "describe", dataset, "--output", described, "--jobs", 2)
    yield "sign", lambda: measured(TAKESET, "sign", dataset, "--key", key, "--replace", "--jobs", 2)
    yield "verify --public-key", lambda: measured(TAKESET, "verify", dataset, "--public-key", public, "--quiet", "--jobs", 2)
    yield "report --json", lambda: measured(TAKESET, "report", dataset, "--json", "--jobs", 2)
    half = "session_2026-0[1-6]*"
    yield "select --link, a half", lambda: fresh(
        first, "select", dataset, "--where", f'id ~ "{half}"', "--link", "--output", first, "--quiet")
    yield "select --link, the other half", lambda: fresh(
        second, "select", dataset, "--where", f'not id ~ "{half}"', "--link", "--output", second, "--quiet")
    yield "merge --link of both halves", lambda: fresh(merged, "merge", first, second, "--link", "--output", merged, "--quiet")
    yield "run --watch, a minute at rest", lambda: watched(takes, dataset, work)
    for name, text in H5PY.items():
        yield name, lambda text=text: in_python(text, dataset / "dataset.h5")
    yield "Python: manifest.json by lines", lambda: in_python(READ_LINES, dataset / "manifest.json")
    package = "import sys; sys.path.insert(0, sys.argv[2]); import takeset; d = takeset.open(sys.argv[1]); "
    python = Path(__file__).resolve().parent.parent / "python"
    yield "takeset.open, one row", lambda: in_python(package + "d[len(d) - 1].group['obs/pose'][0]", dataset, python)
    name = sorted(path.name for path in (takes / "0000").iterdir())[0] if (takes / "0000").exists() else ""
    yield "takeset.open, an episode by its id", lambda: in_python(package + f"d[{name!r}].group['obs/pose'][0]", dataset, python)


def sizes(work, count):
    """Bytes and files of a dataset, each file with the blocks that it takes."""
    dataset = work / f"dataset-{count}"
    shards = [entry.stat() for entry in os.scandir(dataset / "episodes")]
    found = {name: (dataset / name).stat().st_size for name in ("manifest.json", "journal.jsonl", "dataset.h5")}
    found["episodes/*.h5"] = sum(status.st_size for status in shards)
    found["episodes/*.h5, on disk"] = sum(status.st_blocks * 512 for status in shards)
    found["episodes/, the directory"] = (dataset / "episodes").stat().st_size
    return found


def table(results, counts):
    names = list(dict.fromkeys(name for count in counts for name in results.get(str(count), {}) if name != "sizes"))
    lines = ["| what | takes | CPU s | peak MiB |", "|---|--:|--:|--:|"]
    for name in names:
        for count in counts:
            one = results.get(str(count), {}).get(name)
            if one:
                lines.append(f"| {name} | {count:,} | {one['cpu']:.2f} | {one['peak'] / 2**20:.0f} |")
    lines += ["", "| one take more costs | CPU ms | bytes of memory | from, to takes |", "|---|--:|--:|---|"]
    for name in names:
        known = [count for count in counts if name in results.get(str(count), {})][-2:]
        if len(known) < 2:
            continue
        few, many = (results[str(count)][name] for count in known)
        more = known[1] - known[0]
        cpu, memory = (many["cpu"] - few["cpu"]) / more * 1000, (many["peak"] - few["peak"]) / more
        lines.append(f"| {name} | {cpu:.3f} | {memory:.0f} | {known[0]:,}, {known[1]:,} |")
    lines += ["", "| files, bytes per take | " + " | ".join(f"{count:,} takes" for count in counts) + " |", "|---|" + "--:|" * len(counts)]
    known = [results.get(str(count), {}).get("sizes", {}) for count in counts]
    for name in dict.fromkeys(name for one in known for name in one):
        lines.append(f"| {name} | " + " | ".join(f"{one[name] / count:.0f}" if name in one else "" for one, count in zip(known, counts)) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--takes", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--only", default="", help="measure only what matches this regular expression")
    parser.add_argument("--again", action="store_true", help="measure also what was measured before")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    path = options.work / "scale.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    for count in sorted(options.takes):
        make_takes(options.work, count)
        own = results.setdefault(str(count), {})
        for name, measure in steps(options.work, count):
            if not re.search(options.only, name) or name in own and not options.again:
                continue
            own[name] = measure()
            print(f"{count} {name}: {own[name]}", file=sys.stderr, flush=True)
            own["sizes"] = sizes(options.work, count)
            path.write_text(json.dumps(results, indent=1))
    print(table(results, sorted(options.takes)))


if __name__ == "__main__":
    main()
