"""The closed loop of examples/closed-loop, small: does a policy that learns from Takeset's rows do the task as one that learns from the simulator's?"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/closed-loop"
os.environ["PYTHONPATH"] = str(ROOT / "python")
sys.path[:0] = [str(ROOT / "python"), str(EXAMPLE)]
ROLLOUTS = 60


@pytest.fixture(scope="module")
def loop(tmp_path_factory):
    """What `compare.py` makes of 48 takes, its table, and the successes by loader and by what the policy sees."""
    root = tmp_path_factory.mktemp("loop")
    command = [sys.executable, EXAMPLE / "compare.py", root, "--takeset", os.environ["TAKESET"], "--takes", "48", "--seeds", "1", "--rollouts", str(ROLLOUTS), "--steps", "0.34"]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((root / "results.json").read_text())["results"]
    return root, done.stdout, {(one["loader"], one["sees"]): one["successes"] for one in results}


def test_a_policy_learns_from_the_rows_as_from_the_truth(loop):
    _, _, successes = loop
    for sees, least in (("state", 0.4), ("images", 0.2)):
        truth, ours = successes["truth", sees], successes["takeset", sees]
        # Two shares of 60 attempts differ by a quarter with a chance below one in a hundred.
        assert ours > least * ROLLOUTS and abs(ours - truth) < 0.25 * ROLLOUTS, successes


def test_each_defect_costs_attempts(loop):
    _, _, successes = loop
    ours = successes["takeset", "state"]
    for other in ("no-latency", "list", "start-time"):
        assert successes[other, "state"] < ours - 0.15 * ROLLOUTS, successes
    assert successes["list", "images"] < successes["takeset", "images"], successes


def test_the_rows_are_those_of_the_simulator(loop):
    """Beside the truth, row by row: the hand's motion within a millimeter on average, joints within a degree, state within 3 mm."""
    import takeset

    root, _, _ = loop
    errors = {"state": [], "joints": [], "actions": [], "rotations": [], "next joints": []}
    for episode in takeset.open(root / "dataset"):
        if episode.part != 0:
            continue
        truth = np.load(root / f"truth/{episode.take_id}.npz")
        rows = np.round((episode.times_ns - episode.times_ns[0]) / 5e7).astype(int)
        here = rows < len(truth["state"])
        errors["state"].append(np.abs(episode["state"][:][here] - truth["state"][rows[here]]).max(1))
        errors["joints"].append(np.abs(episode["joints"][:][here] - truth["joints"][rows[here]]).max(1))
        actions, expected = episode["actions"][:][here], truth["actions"][rows[here]]
        known = actions[:, 3:9].any(1)  # a masked action is zeros
        apart = np.abs(actions - expected)[known]
        errors["actions"].append(apart[:, :3].max(1))
        errors["rotations"].append(apart[:, 3:9].max(1))
        errors["next joints"].append(apart[:, 9:].max(1))
    means = {key: float(np.nanmean(np.concatenate(found))) for key, found in errors.items()}
    assert means["state"] < 0.003 and means["joints"] < 1 and means["actions"] < 0.001 and means["rotations"] < 0.01 and means["next joints"] < 1.5, means


def test_the_table_the_plot_and_the_animation_are_there(loop):
    from PIL import Image

    root, said, _ = loop
    assert (root / "table.md").read_text().strip() in said and said.count("| Takeset |") == 2
    assert "</svg>" in (root / "successes.svg").read_text()
    with Image.open(root / "rollout.webp") as animation:
        assert animation.n_frames > 30 and (root / "rollout.webp").stat().st_size < 1 << 20
