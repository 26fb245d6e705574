"""Compares Takeset with Python scripts, and with the minimal cost of sessions, on takes that it simulates.

    python Benchmarks/run.py [--quick] [--only REGEX] [--output Benchmarks/results/NAME.json] [--work DIR]

Prints Markdown tables (report.py) and writes every single measurement as JSON. README.md next to this file explains what is measured
and how. Only the standard library is imported here: on Linux a child's peak memory is never reported below what its parent
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
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from machine import processor
from report import tables

HERE = Path(__file__).resolve().parent
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
THREADS = sorted({1, CORES})

SESSION, MOVIE, BUNDLE = "stack-session", "slow-motion-video", "realitycam-bundle"
# What the peers do, too, unless they are asked for the default pipeline: pairing and downscaling, without actions (docs/pipeline.md).
PIPELINE = """\
version: 1
reader: auto
transforms:
  - align: {tolerance: 0.05, method: nearest}
  - resize-image: {width: 320, height: 240, when-larger-than: 640}
  - split: {valid: 0.1, test: 0, group: day, seed: 0}
  - verify-hash-chain: {require: structure}
writer:
  hdf5: {compression: %s, image: raw, image-compression: %d}
"""


@dataclass
class Workload:
    name: str  # --work keeps takes under this name, so it describes them
    title: str
    takes: dict  # arguments of `takeset simulate` by folder
    inputs: str = None  # the directory of the takes when several workloads share it
    stored_size: tuple = None  # size of stored images, for sessions only
    compression: int | str = 4
    image_compression: int = 0
    is_default: bool = False  # whether the pipeline is Takeset's own

    def __post_init__(self):
        self.inputs = self.inputs or self.name
        self.is_session = self.stored_size is not None

    @property
    def level(self):
        return 1 if self.compression == "fast" else self.compression


SMALL = {"": [SESSION, "--seconds", "10", "--size", "480x360"]}
WORKLOADS = [
    Workload("v1_480x360_10s", "v1, 480x360 + depth 256x192", SMALL, stored_size=(480, 360)),
    Workload("v1_480x360_10s_deflated", "the same, images deflated too", SMALL, "v1_480x360_10s", (480, 360), image_compression=4),
    Workload("v1_480x360_10s_fast", "the same, compression: fast", SMALL, "v1_480x360_10s", (480, 360), compression="fast"),
    Workload("v1_480x360_10s_default", "v1, 480x360 to 320x240, default pipeline", SMALL, "v1_480x360_10s", (320, 240), is_default=True),
    Workload("v1_480x360_40x0.5s", "40 takes of v1, 480x360 + depth 256x192",
        {f"take_{number:02d}": [SESSION, "--seconds", "0.5", "--size", "480x360"] for number in range(1, 41)}, stored_size=(480, 360)),
    Workload("v1_1920x1440_4s", "v1, 1920x1440 to 320x240 + depth 256x192", {"": [SESSION, "--seconds", "4"]}, stored_size=(320, 240)),
    Workload("v1_1920x1440_4s_default", "v1, 1920x1440 to 320x240, default pipeline", {"": [SESSION, "--seconds", "4"]},
        "v1_1920x1440_4s", (320, 240), is_default=True),
    Workload("v2_480x360_10s", "v2, 480x360 + joints", {"": [SESSION, "--variant", "v2", "--seconds", "10"]}, stored_size=(480, 360)),
    Workload("h264_1920x1080_30fps_15s", "H.264, 1920x1080 to 320x180, 30 fps", {"": [MOVIE, "--seconds", "15", "--rate", "30"]}),
    Workload("hevc_1920x1080_30fps_15s", "HEVC, 1920x1080 to 320x180, 30 fps",
        {"": [MOVIE, "--seconds", "15", "--rate", "30", "--codec", "hevc"]}),
    Workload("h264_1920x1080_120fps_5s", "H.264, 1920x1080 to 320x180, 120 fps", {"": [MOVIE, "--seconds", "5", "--rate", "120"]}),
    Workload("h264_640x360_120fps_5s", "H.264, 640x360, 120 fps",
        {"": [MOVIE, "--seconds", "5", "--rate", "120", "--size", "640x360"]}),
    Workload("bundles_1920x1080_8x2s", "8 bundles, H.264 as above, 30 fps + depth 256x192",
        {f"bundle_{number}": [BUNDLE, "--seconds", "2"] for number in range(1, 9)}),
]
LENGTHS = [
    Workload(f"v1_480x360_{seconds}s", "v1, 480x360", {"": [SESSION, "--seconds", str(seconds), "--size", "480x360"]}, stored_size=(480, 360))
    for seconds in (6, 60)
]
# One thread per process: NumPy's BLAS would start idle threads that only cost time.
ENVIRONMENT = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="measure once instead of three times")
    parser.add_argument("--only", metavar="REGEX", help="measure only the workloads whose name matches this")
    parser.add_argument("--output", type=Path, help="the JSON file; by default results/DATE-COMMIT.json here")
    parser.add_argument("--work", type=Path, help="keep the simulated takes here, and reuse existing ones")
    parser.add_argument("--takeset", type=Path, default=HERE.parent / ".build/release/takeset")
    options = parser.parse_args()
    if not options.takeset.exists():
        sys.exit("there is no release binary; build it with: make build")
    if options.work:
        options.work.mkdir(parents=True, exist_ok=True)
    keep = contextlib.nullcontext(options.work) if options.work else tempfile.TemporaryDirectory(prefix="takeset-bench-")
    with keep as work:
        result = measure_all(Path(work).resolve(), options)
    print(tables(result))


def save(result, output):
    """Writes the measurements so far."""
    output = output or HERE / "results" / f"{result['date']}-{result['commit'] or 'unknown'}.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=1) + "\n")


def measure_all(work, options):
    output = options.output and options.output.resolve()
    shutil.copy2(options.takeset, work / "takeset-measured")  # a copy, so that a concurrent build has no effect
    home = Path.cwd()
    os.chdir(work)  # so that commands and their messages contain no directory of this machine
    try:
        return Bench(1 if options.quick else 3).run(options.only, lambda result: save(result, output))
    finally:
        os.chdir(home)


class Bench:
    """The measurements; all files are in the current directory."""

    def __init__(self, rounds):
        self.rounds = rounds
        self.libraries = {}
        self.has_limit = compile_limit()

    def run(self, only, save):
        result = self.circumstances()
        result["workloads"] = []
        for workload in WORKLOADS:
            if not only or re.search(only, workload.name):
                result["workloads"].append(self.measure(workload))
                save(result)
        result["versions"] |= {f"takeset's {name}": version for name, version in self.libraries.items()}
        if not only:
            result["memory"] = self.measure_memory()
        result["load_average_after"] = round(os.getloadavg()[0], 2)
        save(result)
        return result

    @staticmethod
    def peers(workload):
        """Each peer, and the Takeset contender that it is compared with."""
        script = "best.py" if workload.is_session else "movies.py"
        peers = {f"{script} --jobs {jobs}": f"takeset --jobs {jobs}" for jobs in THREADS}
        return {"plain.py": "takeset --jobs 1", **peers} if workload.is_session else peers

    def command(self, contender, workload, out):
        program, *options = contender.split()
        takes = workload.inputs
        is_single = "" in workload.takes
        if program == "limit" and not workload.is_session:
            return decoding(Path(takes), int(options[1]))
        if program == "limit":
            sessions = [Path(takes) / folder for folder in workload.takes]
            return ["./limit-measured", options[1], workload.level, workload.image_compression, *workload.stored_size, *sessions]
        if program == "takeset":
            pipeline = [] if workload.is_default else ["--pipeline", self.pipeline(workload)]
            return ["./takeset-measured", "run", takes, "--output", out, *options, *pipeline, "--progress", "none"]
        if program == "movies.py":
            return [sys.executable, HERE / program, takes, out, *options]
        options += ["--compression", workload.level, "--image-compression", workload.image_compression]
        options += ["--fast"] if program == "best.py" and workload.compression == "fast" else []
        options += ["--default"] if workload.is_default else []
        return [sys.executable, HERE / program, takes, out / f"{takes}.h5" if is_single else out, *options]

    @staticmethod
    def pipeline(workload):
        path = Path(f"{workload.name}.yaml")
        path.write_text(PIPELINE % (workload.compression, workload.image_compression))
        return path

    def circumstances(self):
        packages = ["av", "deflate", "h5py", "isal", "numpy", "orjson", "pillow", "scipy", "simplejpeg"]
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
            "peak_rss_floor_bytes": execute(["true"])[0]["peak_rss_bytes"],
        }

    # MARK: Inputs

    def simulated(self, workload):
        """A directory of simulated takes, created unless it exists; interrupted ones are simulated again."""
        path = Path(workload.inputs)
        if not path.exists():
            note(f"simulating {path}")
            partial = Path(f"{path}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            for seed, (folder, arguments) in enumerate(workload.takes.items(), 7):
                command = ["./takeset-measured", "simulate", *arguments, "--output", partial / folder, "--seed", str(seed)]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            partial.rename(path)
        return path

    @staticmethod
    def warm(path):
        """Reads every input once, so that none is read from the disk during a measurement."""
        for file in path.rglob("*"):
            if file.is_file():
                with file.open("rb") as stream:
                    while stream.read(1 << 20):
                        pass

    # MARK: Measuring

    def measure(self, workload):
        path = self.simulated(workload)
        peers = self.peers(workload)
        frames, agreement = self.check_agreement(workload, peers)
        self.warm(path)
        has_limit = self.has_limit if workload.is_session else shutil.which("ffmpeg")
        limits = [f"limit --jobs {jobs}" for jobs in THREADS] if has_limit else []
        runs = {contender: [] for contender in [*dict.fromkeys(peers.values()), *peers, *limits]}
        for number in range(self.rounds):
            # Interleaved; each round starts with another contender.
            order = list(runs)
            order = order[number % len(order):] + order[:number % len(order)]
            for contender in order:
                note(f"{workload.name}, round {number + 1}: {contender}")
                runs[contender].append(self.run_once(contender, workload, frames))
        return {"name": workload.name, "title": workload.title, "frames": frames, "peers": peers, "agreement": agreement,
                "median": {contender: median(values) for contender, values in runs.items()}, "runs": runs}

    def run_once(self, contender, workload, frames):
        with self.fresh_output() as out:
            run, printed = execute(self.command(contender, workload, out))
            if contender.startswith("limit"):
                return json.loads(printed) if workload.is_session else {
                    f"{name}_{kind}_seconds": run[f"{kind}_seconds"] for name in ("codec", "floor") for kind in ("cpu", "wall")}
            return run | {"output_bytes": size_of(out), "frames_per_second": round(frames / run["wall_seconds"], 1)}

    def check_agreement(self, workload, peers):
        """Checks that all outputs agree, without which times mean nothing. Returns frames, and the differences found."""
        frames, differences = 0, {}
        for peer, takeset in peers.items():
            with self.fresh_output() as out:
                (out / "peer").mkdir()
                execute(self.command(peer, workload, out / "peer"))
                execute(self.command(takeset, workload, out / "takeset"))
                check = subprocess.run(
                    [sys.executable, HERE / "agree.py", out / "peer", out / "takeset/episodes"], capture_output=True, text=True)
                self.libraries = json.loads((out / "takeset/manifest.json").read_text())["record"]["tool"]["libraries"]
            if check.returncode != 0:
                sys.exit(f"{workload.name}: {peer} and {takeset} disagree\n{check.stdout}{check.stderr}")
            found = json.loads(check.stdout)
            frames = found["frames"]
            differences = {key: max(value, differences.get(key, 0)) for key, value in found["differences"].items()}
        return frames, differences

    def measure_memory(self):
        """Peak memory on a session and on one ten times as long."""
        sessions = {workload.name: self.simulated(workload) for workload in LENGTHS}
        runs = {workload.name: [] for workload in LENGTHS}
        for number in range(self.rounds):
            for workload in LENGTHS:
                note(f"memory, round {number + 1}: {workload.name}")
                with self.fresh_output() as out:
                    runs[workload.name].append(execute(self.command(f"takeset --jobs {CORES}", workload, out))[0])
        rows = [
            {"name": name, "frames": len(list((path / "rgb").iterdir())), **median(runs[name])} for name, path in sessions.items()
        ]
        return {"jobs": CORES, "sessions": rows, "runs": runs,
                "ratio": round(rows[1]["peak_rss_bytes"] / rows[0]["peak_rss_bytes"], 3)}

    @contextlib.contextmanager
    def fresh_output(self):
        """An empty directory on the inputs' file system, after all writes of earlier runs have reached the disk."""
        with tempfile.TemporaryDirectory(prefix="output-", dir=".") as out:
            os.sync()
            yield Path(os.path.relpath(out))


def execute(command):
    """Runs a command to its end; returns its cost, including all threads and children, and its output."""
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        process = subprocess.Popen([str(part) for part in command], stdout=printed, stderr=errors, env=ENVIRONMENT)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        for file in (printed, errors):
            file.seek(0)
        if process.returncode != 0:
            last = (errors.read().decode(errors="replace").strip().splitlines() or ["no message"])[-1]
            sys.exit(f"{Path(command[0]).name} ended with {process.returncode}: {last}")
        return {
            "wall_seconds": round(wall, 3),
            "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 3),
            "system_seconds": round(usage.ru_stime, 3),
            "peak_rss_bytes": usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
        }, printed.read()


def decoding(takes, threads):
    """A command with which FFmpeg only decodes the videos: a single one in as many threads, several as many at a time."""
    movies = sorted(file for file in takes.rglob("*") if file.suffix in {".mov", ".mp4"})
    assert movies, f"no video in {takes}"
    at_a_time, each = (1, threads) if len(movies) == 1 else (threads, 1)
    decode = ["ffmpeg", "-nostdin", "-v", "error", "-threads", str(each), "-i", "{}", "-f", "null", "-"]
    names = shlex.join(["printf", "%s\\n", *map(str, movies)])
    return ["sh", "-c", f"{names} | {shlex.join(['xargs', '-P', str(at_a_time), '-I{}', *decode])}"]


def compile_limit():
    """Compiles limit.c if there is a C compiler with the libraries' headers; returns whether it was compiled."""
    command = ["cc", "-O3", "-march=native", "-o", "limit-measured", HERE / "limit.c"]
    try:
        subprocess.run([*command, "-lturbojpeg", "-ldeflate", "-lcrypto", "-lpthread", "-lm"], check=True, capture_output=True)
        return True
    except (FileNotFoundError, subprocess.CalledProcessError):
        note("limit.c could not be compiled (it needs cc, and headers of libturbojpeg, libdeflate and OpenSSL); continuing without it")
        return False


def median(runs):
    """The median of each number separately."""
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def newest(directory):
    return max(file.stat().st_mtime for file in directory.rglob("*.swift"))


def size_of(directory):
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())


def libraries():
    """Versions of the C libraries inside the Python packages, which do most of the peers' work."""
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


def note(message):
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
