"""What Benchmarks/comparison measures, on rows whose errors are known."""

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

sys.path.append(str(Path(__file__).resolve().parents[3] / "Benchmarks/comparison"))
from measure import Rows, Truth, edge, errors, summary  # noqa: E402

SHIFT = 5


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
    has_depth = np.array([True, False, True, True])
    found = summary([errors([rows(truth, numbers, numbers, joints=joints, has_depth=has_depth)], truth), errors([], truth)])
    assert (found["repeated"], found["without joints"], found["without depth"], found["lost"]) == (1, 1, 1, 57 + 60)
    assert found["joints"] == [0, 0]
