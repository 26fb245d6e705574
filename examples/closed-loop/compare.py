"""Trains the same policy on what several loaders make of the same takes, and counts how often each does the task.

    python compare.py FOLDER [--takeset COMMAND] [--takes N] [--seeds N] [--rollouts N] [--steps SHARE] [--jobs N]

FOLDER gets the takes, the datasets, results.json, table.md, successes.svg and rollout.webp.
"""

import argparse
import json
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch._dynamo  # before MuJoCo draws: both bring an LLVM of their own
from loaders import KEYS, ByHand, from_takeset, from_truth
from roll_out import animate, roll_out, wilson
from train import STEPS, train

HERE = Path(__file__).parent
BOTH, STATE, IMAGES = ("state", "images"), ("state",), ("images",)


@dataclass(frozen=True)
class Rows:
    """Where rows come from, what policies see of them, and whose successes theirs are compared with."""

    name: str
    load: Callable
    folder: str
    sees: tuple
    beside: str = "hand"


ALL_MISTAKES = ByHand(images="position", clock="first sample", rows="list", missing="zeros", jumps="keep", portrait="as stored")
ROWS = {
    "truth": Rows("the simulator's own rows", from_truth, "truth", BOTH, ""),
    "takeset": Rows("Takeset", from_takeset, "dataset", BOTH, "truth"),
    "hand": Rows("a loader by hand, with care", ByHand(), "takes", BOTH, "truth"),
    "takeset-latency": Rows("Takeset, the glove's latency not given", from_takeset, "dataset-without-latency", STATE, "takeset"),
    "latency": Rows("by hand, the glove's latency not known", ByHand(latency=0), "takes", STATE),
    "start-time": Rows("by hand, clocks related by the start time", ByHand(clock="start time"), "takes", STATE),
    "first-sample": Rows("by hand, clocks related by their first samples", ByHand(clock="first sample"), "takes", STATE),
    "list": Rows("by hand, every third frame that is there", ByHand(rows="list"), "takes", STATE),
    "zeros": Rows("by hand, zeros where joints or state are missing", ByHand(missing="zeros"), "takes", STATE),
    "jumps": Rows("by hand, jumps of the tracking kept", ByHand(jumps="keep"), "takes", STATE),
    "axes": Rows("by hand, axes of the camera taken for OpenCV's", ByHand(axes="OpenCV"), "takes", STATE),
    "portrait": Rows("by hand, phones held upright as stored", ByHand(portrait="as stored"), "takes", BOTH),
    "position": Rows("by hand, the n-th image with the n-th pose", ByHand(images="position"), "takes", IMAGES),
    "all": Rows("by list position: all of these but latency, start time and axes", ALL_MISTAKES, "takes", BOTH),
}


def convert(takeset, root):
    """The dataset, and one whose pipeline does not know how late the glove is."""
    pipeline = (HERE / "pipeline.yaml").read_text()
    without = pipeline.replace(", latency: {joints: 0.12}", "")
    assert without != pipeline
    (root / "pipeline-without-latency.yaml").write_text(without)
    for file, name in [(HERE / "pipeline.yaml", "dataset"), (root / "pipeline-without-latency.yaml", "dataset-without-latency")]:
        subprocess.run([takeset, "run", root / "takes", "--output", root / name, "--pipeline", file, "--quiet"], check=True, stdout=sys.stderr)


def prepare(job):
    """Loads rows once for all policies that learn from them. Returns how many there are."""
    root, name = job
    samples = ROWS[name].load(root / ROWS[name].folder)
    for key in KEYS:
        np.save(root / f"rows/{name}-{key}.npy", samples[key])
    return len(samples["actions"])


def learn(job):
    """Trains one policy and lets it try: whether each attempt succeeds."""
    root, name, sees, seed, share, rollouts = job
    torch.set_num_threads(1)  # another process has the other processor
    samples = {key: np.load(root / f"rows/{name}-{key}.npy") for key in (sees, "joints", "actions")}
    policy = train(samples, sees == "images", round(STEPS * share), seed)
    torch.save(policy, root / f"{name}-{sees}-{seed}.pt")
    return name, sees, seed, roll_out(policy, rollouts)


def interval(first, second=None):
    """Of a share of successes, or of a difference of two, 95 % by bootstrap: both how a policy was trained and which attempts it makes are drawn anew.

    Attempts are arrays (seeds, starts); the starts of both are the same.
    """
    chance, drawn = np.random.default_rng(0), []
    for _ in range(4000):
        starts = chance.integers(first.shape[1], size=first.shape[1])
        shares = [one[chance.integers(len(one), size=len(one))][:, starts].mean() for one in (first, second) if one is not None]
        drawn.append(shares[0] - shares[1] if second is not None else shares[0])
    return np.quantile(drawn, [0.025, 0.975])


def summaries(results):
    """Of each kind of rows and what is seen of them: its name, what it sees, successes by seed, their share, its interval, and the same of its difference in
    points to the rows it is compared with."""
    attempts = {}
    for name, sees in dict.fromkeys((one["rows"], one["sees"]) for one in results):
        attempts[name, sees] = np.array([list(map(int, one["attempts"])) for one in results if (one["rows"], one["sees"]) == (name, sees)])
    for (name, sees), tried in attempts.items():
        # Shares near 0 or 1 are not known better than so many attempts tell.
        low, high = zip(interval(tried), wilson(tried.sum(), tried.size))
        other = attempts.get((ROWS[name].beside, sees))
        difference = None if other is None else (tried.mean() - other.mean(), *interval(tried, other))
        yield name, sees, tried.sum(1), tried.mean(), (min(low), max(high)), difference


def table(results, counts):
    """Markdown: of each kind of rows the successes by seed, all together, and the difference to what they are compared with."""
    lines = ["| rows from | rows | by seed | succeed | 95 % | less or more, in points |", "|---|--:|--:|--:|--:|---|"]
    seen = None
    for name, sees, by_seed, share, (low, high), difference in summaries(results):
        if sees != seen:
            lines.append(f"| **by {sees}** | | | | | |")
            seen = sees
        apart = "" if difference is None else "{:+.1f} ({:+.1f} to {:+.1f}) than {}".format(*(100 * x for x in difference), BESIDE[ROWS[name].beside])
        lines.append(f"| {ROWS[name].name} | {counts[name]} | {', '.join(map(str, by_seed))} | {100 * share:.1f} % | {100 * low:.1f} to {100 * high:.1f} | {apart} |")
    return "\n".join(lines) + "\n"


BESIDE = {"truth": "the truth", "takeset": "Takeset", "hand": "with care"}


def draw(results, path):
    """A bar of successes for each kind of rows with its interval, as SVG."""
    found = list(summaries(results))
    width, left, height = 760, 430, 26
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height * len(found) + 30}" font-family="sans-serif" font-size="13">']
    parts.append(f'<rect width="{width}" height="{height * len(found) + 30}" fill="white"/>')
    for row, (name, sees, _, share, (low, high), _) in enumerate(found):
        y, scale = 10 + row * height, width - left - 60
        color = {"truth": "#777", "takeset": "#2a7", "hand": "#48c"}.get(name, "#c44")
        parts.append(f'<text x="{left - 8}" y="{y + 15}" text-anchor="end">{ROWS[name].name}, {sees}</text>')
        parts.append(f'<rect x="{left}" y="{y + 3}" width="{share * scale:.1f}" height="16" fill="{color}"/>')
        parts.append(f'<path d="M{left + low * scale:.1f} {y + 11}H{left + high * scale:.1f}" stroke="black"/>')
        parts.append(f'<text x="{left + max(share, high) * scale + 6:.1f}" y="{y + 15}">{100 * share:.0f} %</text>')
    Path(path).write_text("\n".join([*parts, "</svg>"]) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--takeset", default="takeset")
    parser.add_argument("--takes", type=int, default=320)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rollouts", type=int, default=200)
    parser.add_argument("--steps", type=float, default=1, help="share of the usual steps of training")
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count())
    options = parser.parse_args()
    root, begun = options.folder, time.monotonic()

    def say(text):
        print(f"{time.monotonic() - begun:5.0f} s  {text}", flush=True)

    subprocess.run([sys.executable, HERE / "record.py", root, "--takes", str(options.takes), "--jobs", str(options.jobs)], check=True)
    say("recorded")
    convert(options.takeset, root)
    say("converted")
    (root / "rows").mkdir()
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        counts = dict(zip(ROWS, pool.map(prepare, [(root, name) for name in ROWS], chunksize=1)))
        say("loaded")
        # Those that see images take longest, so they come first.
        jobs = [
            (root, name, sees, seed, options.steps, options.rollouts)
            for sees in ("images", "state") for seed in range(options.seeds) for name, rows in ROWS.items() if sees in rows.sees
        ]  # fmt: skip
        results = []
        for name, sees, seed, attempts in pool.imap_unordered(learn, jobs):
            results.append({"rows": name, "sees": sees, "seed": seed, "attempts": "".join(str(int(attempt)) for attempt in attempts)})
            say(f"{name}, {sees}, seed {seed}: {attempts.sum()} of {options.rollouts}")
    results.sort(key=lambda one: (one["sees"] == "images", list(ROWS).index(one["rows"]), one["seed"]))
    (root / "results.json").write_text(json.dumps({"takes": options.takes, "counts": counts, "results": results}, indent=1) + "\n")
    (root / "table.md").write_text(table(results, counts))
    draw(results, root / "successes.svg")
    animate(torch.load(root / "takeset-state-0.pt", weights_only=False), root / "rollout.webp")
    say("done\n")
    print((root / "table.md").read_text())


if __name__ == "__main__":
    main()
