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
from pathlib import Path

import torch
import torch._dynamo  # before MuJoCo draws: both bring an LLVM of their own
from loaders import from_list_positions, from_nearest_times, from_takeset, from_truth
from roll_out import animate, interval, roll_out
from train import STEPS, train

HERE = Path(__file__).parent
# Name, what it is, where its rows come from, and whether a policy also learns from its images.
LOADERS = {
    "truth": ("the simulator's own rows", from_truth, "truth", True),
    "takeset": ("Takeset", from_takeset, "dataset", True),
    "no-latency": ("Takeset without `latency`", from_takeset, "dataset-without-latency", False),
    "list": ("by list position, zeros where nothing is near", from_list_positions, "takes", True),
    "start-time": ("nearest times, by the session's start time", from_nearest_times, "takes", False),
}


def convert(takeset, root):
    """The dataset, and one whose pipeline does not know how late the glove is."""
    pipeline = (HERE / "pipeline.yaml").read_text()
    without = pipeline.replace(", latency: {joints: 0.12}", "")
    assert without != pipeline
    (root / "pipeline-without-latency.yaml").write_text(without)
    for file, name in [(HERE / "pipeline.yaml", "dataset"), (root / "pipeline-without-latency.yaml", "dataset-without-latency")]:
        subprocess.run([takeset, "run", root / "takes", "--output", root / name, "--pipeline", file, "--quiet"], check=True, stdout=sys.stderr)


def learn(job):
    """Trains one policy and lets it try. Returns how often it succeeds."""
    root, name, uses_images, seed, share, rollouts = job
    torch.set_num_threads(1)  # another process has the other processor
    _, load, folder, _ = LOADERS[name]
    samples = load(root / folder)
    policy = train(samples, uses_images, round(STEPS[uses_images] * share), seed)
    torch.save(policy, root / f"{name}-{'images' if uses_images else 'state'}-{seed}.pt")
    return {"loader": name, "sees": "images" if uses_images else "state", "seed": seed, "rows": len(samples["actions"]), "successes": int(roll_out(policy, rollouts).sum())}


def table(results, rollouts):
    """Markdown: of each loader the successes by seed, and all together with their interval."""
    lines = ["| rows from | sees | rows | successes by seed | all | 95 % |", "|---|---|--:|--:|--:|--:|"]
    for name, sees in dict.fromkeys((one["loader"], one["sees"]) for one in results):
        found = [one for one in results if (one["loader"], one["sees"]) == (name, sees)]
        successes, count = sum(one["successes"] for one in found), rollouts * len(found)
        low, high = (100 * limit for limit in interval(successes, count))
        by_seed = ", ".join(str(one["successes"]) for one in found)
        lines.append(f"| {LOADERS[name][0]} | {sees} | {found[0]['rows']} | {by_seed} of {rollouts} | {100 * successes / count:.1f} % | {low:.1f} to {high:.1f} % |")
    return "\n".join(lines) + "\n"


def draw(results, rollouts, path):
    """A bar of successes for each loader with its interval, as SVG."""
    keys = list(dict.fromkeys((one["loader"], one["sees"]) for one in results))
    width, left, height = 760, 380, 26
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height * len(keys) + 30}" font-family="sans-serif" font-size="13">']
    parts.append(f'<rect width="{width}" height="{height * len(keys) + 30}" fill="white"/>')
    for row, (name, sees) in enumerate(keys):
        found = [one["successes"] for one in results if (one["loader"], one["sees"]) == (name, sees)]
        share = sum(found) / (rollouts * len(found))
        low, high = interval(sum(found), rollouts * len(found))
        y, scale = 10 + row * height, width - left - 60
        color = {"truth": "#777", "takeset": "#2a7", "no-latency": "#c83"}.get(name, "#c44")
        parts.append(f'<text x="{left - 8}" y="{y + 15}" text-anchor="end">{LOADERS[name][0].replace("`", "")}, {sees}</text>')
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
    # Those that see images take longest, so they come first.
    jobs = [
        (root, name, sees, seed, options.steps, options.rollouts)
        for sees in (True, False) for seed in range(options.seeds) for name, loader in LOADERS.items() if loader[3] or not sees
    ]  # fmt: skip
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        results = []
        for one in pool.imap_unordered(learn, jobs):
            results.append(one)
            say(f"{one['loader']}, {one['sees']}, seed {one['seed']}: {one['successes']} of {options.rollouts}")
    results.sort(key=lambda one: (one["sees"] == "images", list(LOADERS).index(one["loader"]), one["seed"]))
    (root / "results.json").write_text(json.dumps({"rollouts": options.rollouts, "takes": options.takes, "results": results}, indent=1) + "\n")
    (root / "table.md").write_text(table(results, options.rollouts))
    draw(results, options.rollouts, root / "successes.svg")
    animate(torch.load(root / "takeset-state-0.pt", weights_only=False), root / "rollout.webp")
    say("done\n")
    print((root / "table.md").read_text())


if __name__ == "__main__":
    main()
