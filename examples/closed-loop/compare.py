"""Trains the same policy on what several loaders make of the same takes, and counts how often each does the task.

    python compare.py FOLDER [--mistakes] [--takeset COMMAND] [--takes N] [--seeds N] [--rollouts N] [--steps SHARE] [--jobs N]

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
from loaders import ByHand, from_takeset, from_truth
from roll_out import animate, roll_out, wilson
from scipy.stats import t
from train import STEPS, train

HERE = Path(__file__).parent
STATE, IMAGES = ("state",), ("images",)


@dataclass(frozen=True)
class Rows:
    """Where rows come from, what policies see of them, always or only with --mistakes, and whose successes theirs are compared with."""

    name: str
    load: Callable
    folder: str
    always: tuple = ()
    more: tuple = ()
    beside: str = "hand"


ALL_MISTAKES = ByHand(images="position", clock="first sample", rows="list", missing="zeros", jumps="keep", portrait="as stored")
ROWS = {
    "truth": Rows("the simulator's own rows", from_truth, "truth", STATE + IMAGES, beside=""),
    "takeset": Rows("Takeset", from_takeset, "dataset", STATE + IMAGES, beside="truth"),
    "hand": Rows("a loader by hand, with care", ByHand(), "takes", STATE, IMAGES, beside="truth"),
    "takeset-latency": Rows("Takeset, not told how late the glove is", from_takeset, "dataset-without-latency", STATE, beside="takeset"),
    "latency": Rows("by hand, without knowing how late the glove is", ByHand(latency=0), "takes", (), STATE),
    "start-time": Rows("by hand, clocks related by the start time", ByHand(clock="start time"), "takes", STATE),
    "first-sample": Rows("by hand, clocks related by their first samples", ByHand(clock="first sample"), "takes", (), STATE),
    "list": Rows("by hand, every third frame that is there", ByHand(rows="list"), "takes", (), STATE),
    "zeros": Rows("by hand, zeros where joints or state are missing", ByHand(missing="zeros"), "takes", (), STATE),
    "jumps": Rows("by hand, jumps of the tracking kept", ByHand(jumps="keep"), "takes", (), STATE),
    "axes": Rows("by hand, axes of the camera taken for OpenCV's", ByHand(axes="OpenCV"), "takes", (), STATE),
    "portrait": Rows("by hand, phones held upright as stored", ByHand(portrait="as stored"), "takes", (), STATE + IMAGES),
    "position": Rows("by hand, the n-th image with the n-th pose", ByHand(images="position"), "takes", IMAGES),
    "all": Rows("by list position: six of these mistakes at once", ALL_MISTAKES, "takes", STATE, IMAGES),
}
BESIDE = {"truth": "the truth", "takeset": "Takeset", "hand": "with care"}


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
    root, name, sees = job
    samples = ROWS[name].load(root / ROWS[name].folder, "images" in sees)
    for key in samples:
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


def interval(by_seed, tries):
    """95 % of a share of successes that each seed of a training gives in so many tries: Student's over the seeds, and at least Wilson's over the tries of
    one, because all seeds begin from the same starts."""
    low, high = wilson(np.mean(by_seed), tries)
    shares = np.array(by_seed) / tries
    half = student(shares)
    return max(min(low, shares.mean() - half), 0.0), min(max(high, shares.mean() + half), 1.0)


def difference(by_seed, others, tries):
    """What a share is more than another, and 95 %: Student's over the differences of each seed, and at least Newcombe's over the tries of one."""
    shares, other_shares = np.array(by_seed) / tries, np.array(others) / tries
    middle, half = (shares - other_shares).mean(), student(shares - other_shares)
    (low, high), (other_low, other_high) = (wilson(np.mean(found), tries) for found in (by_seed, others))
    share, other = shares.mean(), other_shares.mean()
    below, above = np.hypot(share - low, other_high - other), np.hypot(high - share, other - other_low)
    return middle, max(middle - max(half, below), -1.0), min(middle + max(half, above), 1.0)


def student(values):
    return t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0


def summaries(results, tries):
    """Of each kind of rows and what is seen of them: its name, what it sees, successes by seed, their share, its interval, and the difference to the rows
    that it is compared with, with its interval and their name."""
    successes = {}
    for one in results:
        successes.setdefault((one["rows"], one["sees"]), []).append(one["attempts"].count("1"))
    for (name, sees), by_seed in successes.items():
        beside = ROWS[name].beside if (ROWS[name].beside, sees) in successes else "takeset" if name != "truth" else None
        apart = (*difference(by_seed, successes[beside, sees], tries), BESIDE[beside]) if beside else None
        yield name, sees, by_seed, np.mean(by_seed) / tries, interval(by_seed, tries), apart


def table(results, counts, tries):
    """Markdown: of each kind of rows the successes by seed, all together, and the difference to what they are compared with."""
    lines = ["| rows from | rows | successes by seed | all | 95 % | difference, in points |", "|---|--:|--:|--:|--:|---|"]
    seen = None
    for name, sees, by_seed, share, (low, high), apart in summaries(results, tries):
        if sees != seen:
            lines.append(f"| **by {sees}** | | | | | |")
            seen = sees
        apart = "{:+.1f} ({:+.1f} to {:+.1f}) than {}".format(*(100 * x for x in apart[:3]), apart[3]) if apart else ""
        lines.append(f"| {ROWS[name].name} | {counts[name]} | {', '.join(map(str, by_seed))} | {100 * share:.1f} % | {100 * low:.1f} to {100 * high:.1f} | {apart} |")
    return "\n".join(lines) + "\n"


def draw(results, tries, path):
    """A bar of successes for each kind of rows with its interval, as SVG."""
    found = list(summaries(results, tries))
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
    parser.add_argument("--mistakes", action="store_true", help="also each mistake alone, which takes twice as long")
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
        wanted = {name: rows.always + (rows.more if options.mistakes else ()) for name, rows in ROWS.items()}
        wanted = {name: sees for name, sees in wanted.items() if sees}
        counts = dict(zip(wanted, pool.map(prepare, [(root, *one) for one in wanted.items()], chunksize=1)))
        say("loaded")
        # Those that see images take longest, so they come first.
        jobs = [
            (root, name, sees, seed, options.steps, options.rollouts)
            for sees in ("images", "state") for seed in range(options.seeds) for name, wants in wanted.items() if sees in wants
        ]  # fmt: skip
        results = []
        for name, sees, seed, attempts in pool.imap_unordered(learn, jobs):
            results.append({"rows": name, "sees": sees, "seed": seed, "attempts": "".join(str(int(attempt)) for attempt in attempts)})
            say(f"{name}, {sees}, seed {seed}: {attempts.sum()} of {options.rollouts}")
    results.sort(key=lambda one: (one["sees"] == "images", list(ROWS).index(one["rows"]), one["seed"]))
    (root / "results.json").write_text(json.dumps({"takes": options.takes, "counts": counts, "results": results}, indent=1) + "\n")
    (root / "table.md").write_text(table(results, counts, options.rollouts))
    draw(results, options.rollouts, root / "successes.svg")
    animate(torch.load(root / "takeset-state-0.pt", weights_only=False), root / "rollout.webp")
    say("done\n")
    print((root / "table.md").read_text())


if __name__ == "__main__":
    main()
