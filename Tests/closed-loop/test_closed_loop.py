"""The closed loop of examples/closed-loop, small: does a policy that learns from Takeset's rows do the task as one that learns from the simulator's?"""

import json
import os
import re
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
    """What `compare.py` makes of 48 takes, its table, and the successes by rows and by what the policy sees."""
    root = tmp_path_factory.mktemp("loop")
    command = [sys.executable, EXAMPLE / "compare.py", root, "--takeset", os.environ["TAKESET"], "--takes", "48", "--seeds", "1", "--rollouts", str(ROLLOUTS), "--steps", "0.4"]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((root / "results.json").read_text())["results"]
    return root, done.stdout, {(one["rows"], one["sees"]): one["attempts"].count("1") for one in results}


def test_a_policy_learns_from_the_rows_as_from_the_truth(loop):
    _, _, successes = loop
    for sees in ("state", "images"):
        truth, ours = successes["truth", sees], successes["takeset", sees]
        # Two shares of 60 attempts differ by a quarter with a chance below one in a hundred.
        assert ours > 0.4 * ROLLOUTS and abs(ours - truth) < 0.25 * ROLLOUTS, successes


def test_mistakes_cost_attempts(loop):
    _, _, successes = loop
    for other in ("takeset-latency", "start-time", "all"):
        assert successes[other, "state"] < successes["takeset", "state"] - 0.15 * ROLLOUTS, successes
    assert successes["position", "images"] < successes["takeset", "images"] - 0.15 * ROLLOUTS, successes


def test_care_by_hand_gives_the_rows_of_the_simulator(loop):
    """The loader that mistakes are put into makes none: else what they cost would say nothing."""
    from loaders import ByHand
    from record import GAP, JUMP, LATE, PORTRAIT, has

    root, _, _ = loop
    for fault in (None, GAP, JUMP, LATE, PORTRAIT):
        faults = [one for one in (GAP, JUMP, LATE, PORTRAIT) if one != fault]
        number = next(number for number in range(48) if (fault is None or has(fault, number)) and not any(has(one, number) for one in faults))
        rows = ByHand().take(root / f"takes/session_{number:04}")
        truth = np.load(root / f"truth/session_{number:04}.npz")
        same = rows.pop("frames") // 3
        least = {None: 0.75, GAP: 0.55, JUMP: 0.7, LATE: 0.55, PORTRAIT: 0.75}[fault]
        assert len(same) > least * len(truth["actions"]), fault
        apart = {key: np.abs(rows[key].astype(float) - truth[key][same]) for key in rows}
        assert apart["actions"][:, :9].max() < 1e-4 and apart["joints"].mean() < 1.5 and apart["images"].mean() < 1 and apart["state"].mean() < 0.003, fault


def test_a_mistake_changes_what_it_names(loop):
    """Each field of the loader by hand, beside care, on a take that has the fault."""
    from loaders import ByHand
    from record import GAP, JUMP, LATE, PORTRAIT

    root, _, _ = loop
    for mistake, fault, changed in [
        ({"latency": 0}, (1, 0), {"joints", "actions"}), ({"clock": "start time"}, (1, 0), {"joints", "actions", "state"}), ({"clock": "first sample"}, LATE, {"joints", "actions", "state"}),
        ({"images": "position"}, (1, 0), {"images"}), ({"portrait": "as stored"}, PORTRAIT, {"images", "actions"}), ({"axes": "OpenCV"}, (1, 0), {"actions"}),
    ]:  # fmt: skip
        take = root / f"takes/session_{fault[1] if fault[0] > 1 else 1:04}"
        care, other = ByHand().take(take), ByHand(**mistake).take(take)
        _, a, b = np.intersect1d(care["frames"], other["frames"], return_indices=True)
        assert {key for key in ("state", "joints", "images", "actions") if not np.array_equal(care[key][a], other[key][b])} == changed, mistake
    # These keep rows that care leaves out.
    for mistake, fault in [({"missing": "zeros"}, LATE), ({"jumps": "keep"}, JUMP), ({"rows": "list"}, GAP)]:
        take = root / f"takes/session_{fault[1]:04}"
        care, other = ByHand().take(take), ByHand(**mistake).take(take)
        assert set(other["frames"]) - set(care["frames"]), mistake


def test_the_rows_are_those_of_the_simulator(loop):
    """Beside the truth, row by row: the hand's motion within a millimeter on average, joints within a degree, state within 3 mm; and hardly any row far off."""
    import takeset
    from record import GAP, has

    root, _, _ = loop
    count, compared, cut, truths = 0, 0, set(), {}
    errors = {"state": [], "joints": [], "actions": [], "rotations": [], "next joints": []}
    starts = {}
    for episode in takeset.open(root / "dataset"):
        truth = truths.setdefault(episode.take_id, np.load(root / f"truth/{episode.take_id}.npz"))
        times = episode.origin_ns + episode.times_ns
        # Across a gap nothing is interpolated, neither a row nor an action.
        before = np.flatnonzero(np.diff(times) > 2e8)
        assert not episode["actions"].valid[:].reshape(len(episode), -1)[before].any(), episode.id
        cut |= {episode.take_id} if len(before) else set()
        places = (times - starts.setdefault(episode.take_id, times[0])) / 5e7
        rows = np.round(places).astype(int)
        # After a jump, rows begin at another frame: every third of those is at a time of the truth.
        here = (rows < len(truth["state"])) & (np.abs(places - rows) < 0.01)
        errors["state"].append(np.abs(episode["state"][:][here] - truth["state"][rows[here]]).max(1))
        errors["joints"].append(np.abs(episode["joints"][:][here] - truth["joints"][rows[here]]).max(1))
        actions, expected = episode["actions"][:][here], truth["actions"][rows[here]]
        known = actions[:, 3:9].any(1)  # a masked action is zeros
        count, compared = count + len(episode), compared + known.sum()
        apart = np.abs(actions - expected)[known]
        errors["actions"].append(apart[:, :3].max(1))
        errors["rotations"].append(apart[:, 3:9].max(1))
        errors["next joints"].append(apart[:, 9:].max(1))
    assert len(truths) == 48 and count > 0.9 * sum(len(truth["actions"]) for truth in truths.values()) and compared > 0.85 * count, (count, compared)
    assert {f"session_{number:04}" for number in range(48) if has(GAP, number)} <= cut
    means = {key: float(np.nanmean(np.concatenate(found))) for key, found in errors.items()}
    assert means["state"] < 0.003 and means["joints"] < 1 and means["actions"] < 0.001 and means["rotations"] < 0.01 and means["next joints"] < 1.5, means
    most = {key: float(np.nanquantile(np.concatenate(found), 0.99)) for key, found in errors.items()}
    assert most["state"] < 0.02 and most["joints"] < 5 and most["actions"] < 0.003 and most["rotations"] < 0.01 and most["next joints"] < 5, most


def test_the_table_the_plot_and_the_animation_are_there(loop):
    from PIL import Image

    root, said, _ = loop
    assert (root / "table.md").read_text().strip() in said and said.count("| Takeset |") == 2
    assert "</svg>" in (root / "successes.svg").read_text()
    with Image.open(root / "rollout.webp") as animation:
        assert animation.n_frames > 30 and (root / "rollout.webp").stat().st_size < 1 << 20


def test_takes_of_record3d_have_the_same_motion_and_depth(tmp_path):
    """Hand's motion beside the truth; and depth moved by the poses is the depth of other rows."""
    import takeset

    subprocess.run([sys.executable, EXAMPLE / "record.py", tmp_path, "--form", "record3d", "--takes", "4", "--jobs", "2"], check=True)
    steps = "version: 1\ntransforms:\n  - align: {method: linear}\n  - resample: {rate: 20}\n"
    (tmp_path / "camera.yaml").write_text(steps)
    body = next(line for line in (EXAMPLE / "pipeline.yaml").read_text().splitlines() if "pose-frame" in line)
    (tmp_path / "hand.yaml").write_text(f"{steps}{body}\n  - actions: {{kind: relative-6d, joints: none}}\n")
    for name in ("camera", "hand"):
        run = ["run", tmp_path / "takes", "--output", tmp_path / name, "--pipeline", tmp_path / f"{name}.yaml", "--quiet"]
        subprocess.run([os.environ["TAKESET"], *map(str, run)], check=True)
    checked = subprocess.run([os.environ["TAKESET"], "verify", str(tmp_path / "camera"), "--for", "geometry"], capture_output=True, text=True)
    assert checked.returncode == 0 and "geometry-" not in checked.stdout and "ready for geometry; 4 episodes" in checked.stdout, checked.stdout
    for episode in takeset.open(tmp_path / "hand"):
        truth = np.load(tmp_path / f"truth/{episode.take_id}.npz")["actions"]
        rows = np.round((episode.times_ns - episode.times_ns[0]) / 5e7).astype(int)
        known = episode["actions"].valid[:].reshape(len(episode), -1).all(1) & (rows < len(truth))
        apart = np.abs(episode["actions"][:][known] - truth[rows[known], :9])
        # Between images that the app left out, a pose is interpolated.
        assert known.sum() > 30 and np.median(apart) < 1e-4 and apart.max() < 0.02, episode.take_id


def test_a_policy_is_trained_and_tried_by_the_commands_of_the_readme(loop, tmp_path):
    root, _, _ = loop
    places = {"build/closed-loop": root, "policy.pt": tmp_path / "policy.pt", "rollout.webp": tmp_path / "rollout.webp"}
    commands = re.findall(r"`(examples/closed-loop/(?:train|roll_out)\.py [^`]*)`", (EXAMPLE / "README.md").read_text())
    for command, quick in zip(commands, (["--steps", "20"], ["--count", "2"]), strict=True):
        for name, place in places.items():
            command = command.replace(name, str(place))
        done = subprocess.run([sys.executable, *command.split(), *quick], capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, done.stderr
    assert "of 2 succeed" in done.stdout
