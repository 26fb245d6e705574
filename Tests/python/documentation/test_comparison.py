"""What Benchmarks/comparison measures, on rows whose errors are known."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

sys.path.append(str(Path(__file__).resolve().parents[3] / "Benchmarks/comparison"))
from converted_rows import from_scenes, from_takeset  # noqa: E402
from measure import Rows, Truth, edge, errors, summary  # noqa: E402

SHIFT = 5
COMPARISON = Path(__file__).resolve().parents[3] / "Benchmarks/comparison"


@pytest.fixture(scope="module")
def truth(takeset, tmp_path_factory):
    take = tmp_path_factory.mktemp("comparison") / "take"
    takeset("simulate", "stack-session", "--variant", "v2", "--size", "96x72", "--seconds", "1", "--quirk", "frames-dropped", "--output", take, check=0)
    return Truth(take)


def rows(truth, shown, posed, world=np.eye(4), **others):
    images = [np.asarray(Image.open(truth.photos[number])) for number in shown]
    return Rows([edge(image) for image in images], world @ truth.poses[list(posed)], world=world, whole={0: images[0]}, **others)


def test_right_rows_are_off_by_nothing(truth):
    numbers = range(len(truth.poses))
    found = errors([rows(truth, numbers, numbers, seconds=truth.seconds + 7, joints=truth.angles(truth.seconds))], truth)
    assert (found["rows"], found["lost"], found["repeated"], found["unknown images"], found["without joints"]) == (60, 0, 0, 0, 0)
    for key in ("pairing", "position", "rotation", "joints", "time", "gray levels"):
        assert found[key].max() < 1e-4, key


def test_images_of_other_frames_are_seen(truth):
    """Images that are five frames late: by so much time, and what is no longer there is lost."""
    count = len(truth.poses) - SHIFT
    found = errors([rows(truth, range(SHIFT, SHIFT + count), range(count))], truth)
    assert found["pairing"] == pytest.approx(1000 * (truth.seconds[SHIFT:] - truth.seconds[:count]))
    assert found["position"] == pytest.approx(1000 * np.linalg.norm(truth.poses[SHIFT:, :3, 3] - truth.poses[:count, :3, 3], axis=1))
    assert found["lost"] == SHIFT and found["rows"] == count


def test_a_world_that_was_moved_is_no_error(truth):
    """Whether it is known or fitted; and what is fitted still shows a shift."""
    world = np.array([[0, 0, 1, 5], [1, 0, 0, -2], [0, 1, 0, 0.5], [0, 0, 0, 1.0]])
    numbers = range(len(truth.poses))
    known = rows(truth, numbers, numbers, world)
    fitted = rows(truth, numbers, numbers, world)
    fitted.world = None
    assert all(errors([one], truth)["position"].max() < 1e-3 for one in (known, fitted))
    shifted = rows(truth, range(SHIFT, len(truth.poses)), range(len(truth.poses) - SHIFT), world)
    shifted.world = None
    assert errors([shifted], truth)["rotation"].mean() > 0.3


def test_answers_that_are_missing_are_counted(truth):
    numbers = [0, 1, 1, 2]
    joints = truth.angles(truth.seconds[numbers])
    joints[1, 2] = np.nan
    found = summary([errors([rows(truth, numbers, numbers, joints=joints, depth=[None, None, np.zeros((3, 4)), None])], truth), errors([], truth)])
    assert (found["repeated"], found["without joints"], found["without depth"], found["lost"]) == (1, 1, 4, 57 + 60)
    assert found["joints"] == [0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["record3d", "polycam"])
def test_depth_of_another_frame_and_of_another_size_is_seen(takeset, tmp_path, kind):
    take, dataset, scenes = tmp_path / "takes/take", tmp_path / "dataset", tmp_path / "scenes"
    takeset("simulate", kind, "--seconds", "4", "--output", take, *(["--form", "exr", "--rate", "10"] if kind == "record3d" else []))
    steps = tmp_path / "steps.yaml"
    steps.write_text("version: 1\ntransforms:\n  - align\n  - resample-depth: {unit: m}\n")
    takeset("run", take.parent, "--output", dataset, "--pipeline", steps)
    takeset("export", dataset, "--to", "nerfstudio", "--output", scenes)
    truth = Truth(take)
    [part] = from_scenes(".", is_fitted=True)(scenes)["take"]
    assert len(part.edges) == len(truth.poses) > 10
    found = errors([part], truth)
    # Whole millimeters, and before those halves of a 16-bit float's steps, which are 3.91 mm from 4 to 8 m.
    mean, most = (0.25, 0.51) if kind == "polycam" else (0.5, 0.5 + 3.91 / 2 + 0.01)
    assert found["without depth"] == 0 and found["depth"].mean() < mean + 0.01 and 0.4 < found["depth"].max() < most
    enlarged = [np.kron(map, np.ones((4, 4), map.dtype)) for map in part.depth]
    np.testing.assert_array_equal(errors([replace(part, depth=enlarged)], truth)["depth"], found["depth"])
    late = errors([replace(part, depth=[*part.depth[SHIFT:], *part.depth[:SHIFT]])], truth)
    assert late["depth"].mean() > 20
    mirrored = errors([replace(part, depth=[map[:, ::-1] for map in part.depth])], truth)
    assert mirrored["depth"].mean() > 20


def test_a_take_whose_glove_never_came_has_rows_without_joints(takeset, tmp_path):
    take = tmp_path / "takes/take"
    takeset("simulate", "stack-session", "--variant", "v2", "--size", "96x72", "--seconds", "1", "--quirk", "joints-late", "--output", take)
    takeset("run", take.parent, "--output", tmp_path / "dataset")
    found = summary([errors(from_takeset(tmp_path)["take"], Truth(take))])
    assert (found["rows"], found["without joints"], found["joints"], found["lost"]) == (60, 60, None, 0)


def test_two_hands_are_right_through_half_turns_and_each_other_way_is_off(tmp_path):
    subprocess.run([sys.executable, COMPARISON / "two_hands.py", tmp_path, "--seconds", "3"], check=True, capture_output=True)
    means = json.loads((tmp_path / "two-hands.json").read_text())["errors"]
    greatest = {way: {key: pair[1] for key, pair in found.items()} for way, found in means.items()}
    assert greatest["Takeset"]["rotation"] < 0.05 and greatest["Takeset"]["image"] <= 0.5 / 60 + 0.001 and greatest["Takeset"]["width"] < 0.001
    assert greatest["by component"]["rotation"] > 10 and greatest["before"]["image"] > 0.015 and greatest["own start"]["width"] > 0.002
