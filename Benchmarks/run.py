"""Measures Takeset against Python scripts on takes that it makes itself.

    python Benchmarks/run.py [--quick] [--only REGEX] [--output Benchmarks/results/NAME.json] [--work DIR]

Prints Markdown tables and writes every single measurement as JSON. README.md beside this file says what is measured and
how. Only the standard library is imported here: on Linux a child's peak memory is never reported below what its parent
had when it started it, so this process has to stay small.
"""

import argparse
import contextlib
import datetime
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()

SESSION, MOVIE, BUNDLE = "stack-session", "slow-motion-video", "realitycam-bundle"
# Name, what the table calls it, and by folder the arguments of `takeset simulate`. What --work keeps is known by its name, so the
# name says what is in it.
WORKLOADS = [
    ("v1_480x360_10s", "v1, 480x360 + depth 256x192", {"": [SESSION, "--seconds", "10", "--size", "480x360"]}),
    ("v1_1920x1440_4s", "v1, 1920x1440 to 320x240 + depth 256x192", {"": [SESSION, "--seconds", "4"]}),
    ("v2_480x360_10s", "v2, 480x360 + joints", {"": [SESSION, "--variant", "v2", "--seconds", "10"]}),
    ("h264_1920x1080_30fps_15s", "H.264, 1920x1080 to 320x180, 30 fps", {"": [MOVIE, "--seconds", "15", "--rate", "30"]}),
    ("hevc_1920x1080_30fps_15s", "HEVC, 1920x1080 to 320x180, 30 fps",
        {"": [MOVIE, "--seconds", "15", "--rate", "30", "--codec", "hevc"]}),
    ("h264_1920x1080_120fps_5s", "H.264, 1920x1080 to 320x180, 120 fps", {"": [MOVIE, "--seconds", "5", "--rate", "120"]}),
    ("h264_640x360_120fps_5s", "H.264, 640x360, 120 fps", {"": [MOVIE, "--seconds", "5", "--rate", "120", "--size", "640x360"]}),
    ("bundles_1920x1080_8x2s", "8 bundles, H.264 as above, 30 fps + depth 256x192",
        {f"bundle_{number}": [BUNDLE, "--seconds", "2"] for number in range(1, 9)}),
]
LENGTHS = [
    ("v1_480x360_6s", {"": [SESSION, "--seconds", "6", "--size", "480x360"]}),
    ("v1_480x360_60s", {"": [SESSION, "--seconds", "60", "--size", "480x360"]}),
]
# One process means one thread: NumPy's BLAS would start idle ones that only cost time.
ENVIRONMENT = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="measure once instead of three times")
    parser.add_argument("--only", metavar="REGEX", help="measure only the workloads in whose name this is found")
    parser.add_argument("--output", type=Path, help="the JSON file; by default results/DATE-COMMIT.json here")
    parser.add_argument("--work", type=Path, help="keep the simulated takes here, and use them when they are there")
    parser.add_argument("--takeset", type=Path, default=HERE.parent / ".build/release/takeset")
    options = parser.parse_args()
    if not options.takeset.exists():
        sys.exit("there is no release binary; make it with: swift build -c release")
    if options.work:
        options.work.mkdir(parents=True, exist_ok=True)
    keep = contextlib.nullcontext(options.work) if options.work else tempfile.TemporaryDirectory(prefix="takeset-bench-")
    with keep as work:
        result = measure_all(Path(work).resolve(), options.takeset, rounds=1 if options.quick else 3, only=options.only)
    name = f"{result['date']}-{result['commit'] or 'unknown'}.json"
    output = options.output or HERE / "results" / name
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=1) + "\n")
    print(tables(result))


def measure_all(work, takeset, rounds, only):
    shutil.copy2(takeset, work / "takeset-measured")  # a copy, so that a build in the meantime changes nothing
    home = Path.cwd()
    os.chdir(work)  # so that commands, and what they may complain of, name no directory of this machine
    try:
        return Bench(rounds).run(only)
    finally:
        os.chdir(home)


class Bench:
    """Everything is in the current directory."""

    def __init__(self, rounds):
        self.rounds = rounds
        self.libraries = {}

    def run(self, only=None):
        result = self.circumstances()
        result["workloads"] = [self.measure(*workload) for workload in WORKLOADS if not only or re.search(only, workload[0])]
        result["versions"] |= {f"takeset's {name}": version for name, version in self.libraries.items()}
        if not only:
            result["memory"] = self.measure_memory()
        result["load_average_after"] = round(os.getloadavg()[0], 2)
        return result

    @staticmethod
    def peers(takes):
        """Each contender of Takeset's, and the peer that it is compared with."""
        is_session = any(SESSION in arguments for arguments in takes.values())
        return {f"takeset --jobs {jobs}": "plain.py" if is_session else f"movies.py --jobs {jobs}" for jobs in sorted({1, CORES})}

    @staticmethod
    def command(contender, takes, out):
        program, *options = contender.split()
        if program == "takeset":
            return ["./takeset-measured", "run", takes, "--output", out, *options, "--progress", "none"]
        return [sys.executable, HERE / program, takes, out / f"{takes}.h5" if program == "plain.py" else out, *options]

    def circumstances(self):
        packages = ["av", "h5py", "numpy", "pillow", "scipy"]
        try:
            versions = {name: importlib.metadata.version(name) for name in packages}
        except importlib.metadata.PackageNotFoundError as error:
            sys.exit(f"the peers need {', '.join(packages)}; {error.name} is not installed for this Python")
        return {
            "date": datetime.date.today().isoformat(),
            "commit": git("rev-parse", "--short", "HEAD"),
            "has_uncommitted_changes": bool(git("status", "--porcelain", "--", ":/Sources", ":/Package.swift")),
            "binary_predates_sources": Path("takeset-measured").stat().st_mtime < newest(HERE.parent / "Sources"),
            "binary_sha256": digest_of("takeset-measured"),
            "processor": processor(), "cores": CORES, "system": f"{platform.system()} {platform.machine()}",
            "versions": {
                "takeset": text(["./takeset-measured", "--version"]).removeprefix("takeset "),
                "python": platform.python_version(), **versions, **libraries()},
            "rounds": self.rounds, "load_average_before": round(os.getloadavg()[0], 2),
            "peak_rss_floor_bytes": execute(["true"])["peak_rss_bytes"],
        }

    # MARK: Inputs

    def simulated(self, name, takes):
        """A directory of simulated takes, made unless it is there; what was interrupted is made again."""
        path = Path(name)
        if not path.exists():
            note(f"simulating {name}")
            partial = Path(f"{name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            for seed, (folder, arguments) in enumerate(takes.items(), 7):
                command = ["./takeset-measured", "simulate", *arguments, "--output", partial / folder, "--seed", str(seed)]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            partial.rename(path)
        return path

    @staticmethod
    def warm(path):
        """Reads every input once, so that none is read from the disk while the clock runs."""
        for file in path.rglob("*"):
            if file.is_file():
                with file.open("rb") as stream:
                    while stream.read(1 << 20):
                        pass

    # MARK: Measuring

    def measure(self, name, title, takes):
        path = self.simulated(name, takes)
        peers = self.peers(takes)
        frames, agreement = self.check_agreement(path, peers)
        self.warm(path)
        runs = {contender: [] for contender in [*peers, *dict.fromkeys(peers.values())]}
        for number in range(self.rounds):
            # Interleaved, and each round starts with another contender.
            order = list(runs)
            order = order[number % len(order):] + order[:number % len(order)]
            for contender in order:
                note(f"{name}, round {number + 1}: {contender}")
                with self.fresh_output() as out:
                    run = execute(self.command(contender, path, out))
                    run["output_bytes"] = size_of(out)
                run["frames_per_second"] = round(frames / run["wall_seconds"], 1)
                runs[contender].append(run)
        return {"name": name, "title": title, "frames": frames, "peers": peers, "agreement": agreement,
                "median": {contender: median(values) for contender, values in runs.items()}, "runs": runs}

    def check_agreement(self, path, peers):
        """All outputs must hold the same before it means anything which was made sooner. Frames, and the differences found."""
        frames, differences = 0, {}
        for takeset, peer in peers.items():
            with self.fresh_output() as out:
                (out / "peer").mkdir()
                execute(self.command(peer, path, out / "peer"))
                execute(self.command(takeset, path, out / "takeset"))
                check = subprocess.run(
                    [sys.executable, HERE / "agree.py", out / "peer", out / "takeset/episodes"], capture_output=True, text=True)
                self.libraries = json.loads((out / "takeset/manifest.json").read_text())["record"]["tool"]["libraries"]
            if check.returncode != 0:
                sys.exit(f"{path}: {peer} and {takeset} disagree\n{check.stdout}{check.stderr}")
            found = json.loads(check.stdout)
            frames = found["frames"]
            differences = {key: max(value, differences.get(key, 0)) for key, value in found["differences"].items()}
        return frames, differences

    def measure_memory(self):
        """Peak memory on a session and on one ten times as long."""
        sessions = [self.simulated(*length) for length in LENGTHS]
        runs = {str(session): [] for session in sessions}
        for number in range(self.rounds):
            for session in sessions:
                note(f"memory, round {number + 1}: {session}")
                with self.fresh_output() as out:
                    runs[str(session)].append(execute(self.command(f"takeset --jobs {CORES}", session, out)))
        rows = [
            {"name": str(session), "frames": len(list((session / "rgb").iterdir())), **median(runs[str(session)])}
            for session in sessions
        ]
        return {"jobs": CORES, "sessions": rows, "runs": runs,
                "ratio": round(rows[1]["peak_rss_bytes"] / rows[0]["peak_rss_bytes"], 3)}

    @contextlib.contextmanager
    def fresh_output(self):
        """An empty directory on the inputs' file system, with nothing of earlier runs left to be written back."""
        with tempfile.TemporaryDirectory(prefix="output-", dir=".") as out:
            os.sync()
            yield Path(os.path.relpath(out))


def execute(command):
    """Runs a command to its end and says what it took, itself and all its threads and children."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENVIRONMENT)
    errors = process.stderr.read().decode(errors="replace")
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        last = (errors.strip().splitlines() or ["without a word"])[-1]
        sys.exit(f"{Path(command[0]).name} ended with {process.returncode}: {last}")
    return {
        "wall_seconds": round(wall, 3),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 3),
        "system_seconds": round(usage.ru_stime, 3),
        "peak_rss_bytes": usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
    }


def median(runs):
    """The median of each number by itself."""
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def newest(directory):
    return max(file.stat().st_mtime for file in directory.rglob("*.swift"))


def size_of(directory):
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())


def libraries():
    """The C libraries inside the Python packages, which do most of the peers' work."""
    code = "import av, h5py, PIL.features as f; print(h5py.version.hdf5_version, f.version('libjpeg_turbo'), av.ffmpeg_version_info)"
    return dict(zip(["h5py's hdf5", "pillow's libjpeg-turbo", "av's ffmpeg"], text([sys.executable, "-c", code]).split()))


def digest_of(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def text(command):
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def git(*arguments):
    try:
        return text(["git", "-C", HERE, *arguments]) or None
    except FileNotFoundError:
        return None


def processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def note(message):
    print(message, file=sys.stderr, flush=True)


# MARK: Tables


def tables(result):
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    commit = f"commit {result['commit']}"
    if result["has_uncommitted_changes"]:
        commit += " with uncommitted changes"
    if result["binary_predates_sources"]:
        commit += " (the binary is older than the sources)"
    lines = [
        f"{result['date']}, {commit}, "
        f"{result['cores']} cores of {result['processor']}, {result['system']}; {versions}. "
        f"Median of {result['rounds']}; in brackets the peer over Takeset, for movies the peer of as many threads.",
        "",
        "| takes | converter | wall s | frames/s | CPU s | peak MB | output MB |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for workload in result["workloads"]:
        for contender, values in workload["median"].items():
            def cell(key, digits, unit=1, inverted=False):
                number = f"{values[key] / unit:.{digits}f}"
                if contender not in workload["peers"]:
                    return number
                peer = workload["median"][workload["peers"][contender]]
                ratio = values[key] / peer[key] if inverted else peer[key] / values[key]
                return f"{number} ({ratio:.2f}x)"

            lines.append(
                f"| {workload['title']}, {workload['frames']} frames | {contender} | {cell('wall_seconds', 2)} "
                f"| {cell('frames_per_second', 0, inverted=True)} | {cell('cpu_seconds', 2)} "
                f"| {cell('peak_rss_bytes', 0, 1e6)} | {cell('output_bytes', 1, 1e6)} |")
    if "memory" in result:
        lines += memory_table(result["memory"])
    return "\n".join(lines)


def memory_table(memory):
    lines = ["", f"| takeset --jobs {memory['jobs']}, v1 480x360 | peak MB | wall s |", "|---|--:|--:|"]
    for row in memory["sessions"]:
        lines.append(f"| {row['frames']} frames | {row['peak_rss_bytes'] / 1e6:.1f} | {row['wall_seconds']:.2f} |")
    return [*lines, f"| ratio | {memory['ratio']:.2f} | |"]


if __name__ == "__main__":
    main()
