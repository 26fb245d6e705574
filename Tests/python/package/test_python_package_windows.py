"""Training windows of the Python package: windows without a NaN, and horizons and keys that a dataset does not have."""

import numpy as np
import pytest
from window_datasets import SMALL, V1, V2, tampered, windows

import takeset as package
from takeset import TakesetError, _stream


def observed_nan(found):
    """The numbers of windows whose observations have a NaN."""
    return [i for i in range(len(found)) if any(np.isnan(value).any() for value in found[i]["obs"].values() if value.dtype.kind == "f")]


# What is masked


def test_windows_with_nan_among_their_observations_are_left_out(holes):
    options = dict(keys=("camera_image", "pose", "joints"), **SMALL)
    every, fewer = windows(holes, skip_masked=("actions",), **options), windows(holes, **options)
    lacking = observed_nan(every)
    assert 0 < len(lacking) < len(every) and observed_nan(fewer) == []
    assert fewer.index.tolist() == [row for i, row in enumerate(every.index.tolist()) if i not in lacking]
    assert fewer.skipped == len(lacking) and fewer.skipped_by == {"joints": len(lacking)}
    assert (every.skipped, every.skipped_by) == (0, {})


@pytest.mark.parametrize("keep", [False, (), ("actions",)])
def test_windows_with_nan_are_kept_if_asked_for(holes, keep):
    found = windows(holes, keys=("joints",), skip_masked=keep, **SMALL)
    assert observed_nan(found) and found.skipped == 0


def test_one_joint_that_is_masked_is_enough(holes, tmp_path):
    def lose(take, file):
        if take == V2:
            file["data/demo_0/obs/joints"][44, 2], file["data/demo_0/obs/joints_valid"][44, 2] = np.nan, 0

    changed, options = tampered(holes, tmp_path / "out", lose), dict(keys=("joints",), **SMALL)
    before, after = windows(holes, **options), windows(changed, **options)
    assert [row for row in before.index.tolist() if row not in after.index.tolist()] == [[0, 44], [0, 45]]
    assert windows(changed, skip_masked=("joints",), **options).index.tolist() == after.index.tolist()


def test_a_pose_that_is_nan_is_left_out_although_its_mask_says_that_it_is_there(holes, tmp_path):
    def lose(take, file):
        if take == V1:
            file["data/demo_0/obs/pose"][9, 4] = np.nan

    found = windows(tampered(holes, tmp_path / "out", lose), "valid", keys=("pose",), actions=None, observation_horizon=2)
    assert found.index[:, 1].tolist() == [t for t in range(1, 30) if t not in (9, 10)] and found.skipped_by == {"pose": 2}


def test_joints_of_the_action_rows_can_be_asked_for(holes):
    options = dict(keys=("pose",), **SMALL)
    every, fewer = windows(holes, **options), windows(holes, skip_masked=("actions", "action_joints"), **options)
    lacking = [i for i in range(len(every)) if np.isnan(every[i]["action_joints"]).any()]
    assert 0 < len(lacking) < len(every) and fewer.skipped_by == {"action_joints": len(lacking)}
    assert fewer.index.tolist() == [row for i, row in enumerate(every.index.tolist()) if i not in lacking]
    both = windows(holes, None, skip_masked=("action_joints",), **options)
    assert set(both.index[:, 0]) == {1}  # The other take has no joints.


def test_a_joint_that_is_dead_leaves_nothing_and_says_so(holes, tmp_path):
    def lose(take, file):
        if take == V2:
            file["data/demo_0/obs/joints"][:, 1], file["data/demo_0/obs/joints_valid"][:, 1] = np.nan, 0

    changed = tampered(holes, tmp_path / "out", lose)
    count = len(windows(changed, keys=("joints",), skip_masked=(), **SMALL))
    words = rf"something is masked in each of the {count} windows, so all are left out: joints in {count}; choose other keys"
    with pytest.raises(TakesetError, match=words):
        windows(changed, keys=("joints",), **SMALL)


def test_masks_are_looked_at_without_reading_images(holes, monkeypatch):
    read, stream = [], _stream.Stream._read

    def note(self, *arguments):
        read.append(self.name)
        return stream(self, *arguments)

    monkeypatch.setattr(_stream.Stream, "_read", note)
    for skip in None, True:
        windows(holes, "valid", keys=("camera_image", "camera_depth", "pose"), skip_masked=("actions", "camera_image") if skip else None, **SMALL)
    assert set(read) <= {"pose", "joints"} and "pose" in read


# What is not there


@pytest.mark.parametrize("options, rows, horizons", [
    (dict(observation_horizon=300), 316, "observation_horizon=300 and action_horizon=16"),
    (dict(observation_horizon=301, actions=None), 301, "observation_horizon=301"),
    (dict(action_horizon=30, actions="stored", observation_horizon=1), 31, "observation_horizon=1 and action_horizon=30"),
])  # fmt: skip
def test_horizons_for_which_no_episode_is_long_enough_are_refused(holes, options, rows, horizons):
    words = rf"dataset.h5: no episode has {rows} rows without a gap, as {horizons} need: the longest has 30, in demo_000000 \({V1}\)"
    with pytest.raises(TakesetError, match=words):
        windows(holes, None, keys=("pose",), **options)
    assert len(windows(holes, None, keys=("pose",), pad=True, skip_masked=(), **options)) == 30 + 54


def test_the_longest_run_counts_and_not_the_longest_episode(holes):
    with pytest.raises(TakesetError, match=rf"no episode has 21 rows without a gap, .*: the longest has 20, in demo_000001 \({V2}\)"):
        windows(holes, observation_horizon=2, action_horizon=19, keys=("pose",))


def test_a_key_that_some_takes_lack_comes_with_what_to_do(holes, takeset, tmp_path):
    with pytest.raises(KeyError) as error:
        windows(holes, None, keys=("pose", "joints"), **SMALL)
    said = str(error.value)
    assert said.startswith(f"demo_000000 ({V1}) has no stream joints; it has ") and f"other episodes have it, such as demo_000001 ({V2})" in said
    command = f"takeset select {holes} --where 'streams has joints' --output DIR"
    assert f"choose those that do, by {command}, or split=[...] with their ids" in said
    takeset("select", holes, "--where", "streams has joints", "--output", tmp_path / "out", check=0)
    with package.open(tmp_path / "out") as ds:
        assert [episode.id for episode in ds] == [V2]
    assert len(windows(tmp_path / "out", None, keys=("pose", "joints"), **SMALL)) == len(windows(holes, [V2], keys=("pose", "joints"), **SMALL))


def test_a_key_that_no_take_has_comes_without_a_choice(holes):
    with pytest.raises(KeyError) as error:
        windows(holes, None, keys=("jonts",), **SMALL)
    assert "has no stream jonts; it has " in str(error.value) and "other episodes" not in str(error.value)


def test_a_choice_of_no_episodes_is_refused(holes):
    with pytest.raises(TakesetError, match="no episode has 6 rows without a gap, .*: there are no rows"):
        windows(holes, [], keys=("pose",), **SMALL)
