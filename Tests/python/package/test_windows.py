"""Training windows of the Python package as NumPy arrays, without PyTorch: which there are, and what they hold."""

import multiprocessing
import pickle

import h5py
import numpy as np
import pytest
from window_datasets import SMALL, V1, V2, expected_index, relative, windows

from takeset import TakesetError
from takeset import open as open_dataset


def assert_same(a, b):
    np.testing.assert_equal(a, b)


# Which there are


def test_the_dataset_has_the_holes_that_the_tests_are_about(holes):
    with h5py.File(holes / "dataset.h5") as file:
        assert file["meta/demo_000001/gaps"][:, 0].tolist() == [19, 34]
        assert file["data/demo_000001"].attrs["num_samples"] == 54
        valid = file["data/demo_000001/obs/joints_valid"][:].all(axis=1)
        assert 0 < valid.sum() < len(valid) == 54 and valid[36:].all()


@pytest.mark.parametrize("o, k, stride", [(1, 1, 1), (2, 4, 1), (3, 4, 3), (2, 16, 1), (5, 14, 2), (1, 29, 1)])
@pytest.mark.parametrize("actions", ["relative-6d", "stored"])
def test_there_are_as_many_windows_as_runs_of_frames_allow(holes, o, k, stride, actions):
    found = windows(holes, None, observation_horizon=o, action_horizon=k, keys=("pose",), stride=stride, actions=actions)
    expected = expected_index(holes / "dataset.h5", o, k, stride)
    assert [tuple(row) for row in found.index.tolist()] == expected
    assert len(found) == len(expected) and found.skipped == 0
    with pytest.raises(IndexError):
        found[len(found)]


def test_windows_that_begin_with_the_present_need_one_row_less(holes):
    found = windows(holes, None, keys=("pose",), first_action="current", observation_horizon=2, action_horizon=5)
    assert [tuple(row) for row in found.index.tolist()] == expected_index(holes / "dataset.h5", 2, 4)
    alone = windows(holes, None, keys=("pose",), actions=None, observation_horizon=3)
    assert [tuple(row) for row in alone.index.tolist()] == expected_index(holes / "dataset.h5", 3, 0)
    assert alone[0].keys() == {"obs"}


def test_splits_are_those_of_the_masks(holes):
    with h5py.File(holes / "dataset.h5") as file:
        masks = {split: [n.decode() for n in file["mask"][split]] for split in ("train", "valid", "test")}
    assert sorted(masks["train"] + masks["valid"]) == ["demo_000000", "demo_000001"]
    for split in "train", "valid":
        names = masks[split]
        found = windows(holes, split, keys=("pose",), **SMALL)
        assert found.episodes == names
        assert [tuple(row) for row in found.index.tolist()] == expected_index(holes / "dataset.h5", 2, 4, split=split)
    with pytest.raises(KeyError, match=r"no split holdout; it has train \(1\), valid \(1\), test \(0\)"):
        windows(holes, "holdout")
    with pytest.raises(TakesetError, match="the split test is empty; the episodes of its splits: train 1, valid 1, test 0"):
        windows(holes, "test")


def test_episodes_can_be_chosen_by_their_ids(holes):
    assert windows(holes, [V2], keys=("pose",)).episodes == ["demo_000001"]
    assert windows(holes, [V2, V1, V2], keys=("pose",)).episodes == ["demo_000000", "demo_000001"]
    with pytest.raises(KeyError, match="no episode session_1"):
        windows(holes, ["session_1"])


def test_every_form_of_a_dataset_can_be_read(holes, takeset, tmp_path):
    takeset("pack", holes, "--output", tmp_path / "packed.h5", check=0)
    whole = windows(holes, "valid", **SMALL)
    with open_dataset(holes) as opened:
        others = [windows(holes / "dataset.h5", "valid", **SMALL), windows(opened, "valid", **SMALL)]
    others += [windows(holes / f"episodes/{V1}.h5", None, **SMALL), windows(tmp_path / "packed.h5", "valid", **SMALL)]
    for other in others:  # also after the dataset was closed
        assert len(other) == len(whole) == 30 - 5
        assert_same(other[3], whole[3])


def test_a_dataset_opened_by_a_relative_path_is_found_from_elsewhere(holes, monkeypatch):
    monkeypatch.chdir(holes)
    with open_dataset("dataset.h5") as opened:
        monkeypatch.chdir("/")
        assert_same(windows(opened, "valid", **SMALL)[3], windows(holes, "valid", **SMALL)[3])


def test_a_row_for_every_t_with_padding(holes):
    found = windows(holes, None, keys=("pose",), pad=True, **SMALL)
    with h5py.File(holes / "dataset.h5") as file:
        rows = {name: file["data"][name].attrs["num_samples"] for name in found.episodes}
        assert len(found) == sum(rows.values())
        runs = {"demo_000000": [(0, 30)], "demo_000001": [(0, 20), (20, 35), (35, 54)]}
        for i in range(len(found)):
            name, t = found.episodes[found.index[i, 0]], found.index[i, 1]
            first, end = next(run for run in runs[name] if run[0] <= t < run[1])
            wanted, poses, sample = range(t - 1, t + 5), file["data"][name]["obs/pose"][:], found[i]
            stand_in = [min(max(row, first), end - 1) for row in wanted]
            assert_same(sample["obs"]["pose"], poses[stand_in[:2]])
            np.testing.assert_allclose(sample["actions"], relative(poses[t], poses[stand_in[2:]]), atol=1e-6)
            is_pad = [not first <= row < end for row in wanted]
            assert_same(sample["observation_is_pad"].tolist() + sample["action_is_pad"].tolist(), is_pad)


# Actions


@pytest.mark.parametrize("layout", ["columns", "rows"])
@pytest.mark.parametrize("first", ["next", "current"])
def test_actions_are_the_coming_poses_seen_from_the_present_one(holes, layout, first):
    found = windows(holes, None, keys=("pose",), rotation_layout=layout, first_action=first, **SMALL)
    with h5py.File(holes / "dataset.h5") as file:
        for i in range(0, len(found), 5):
            number, t = found.index[i]
            t += first == "next"
            poses, sample = file["data"][found.episodes[number]]["obs/pose"][:], found[i]
            assert sample["actions"].shape == (4, 9) and sample["actions"].dtype == np.float32
            np.testing.assert_allclose(sample["actions"], relative(poses[found.index[i, 1]], poses[t : t + 4], layout), atol=1e-6)
            assert_same(sample["obs"]["pose"], poses[found.index[i, 1] - 1 : found.index[i, 1] + 1])
            assert sample["actions_valid"].all()
            if first == "current":
                np.testing.assert_allclose(sample["actions"][0], [0, 0, 0, 1, 0, 0, 0, 1, 0], atol=1e-6)


def test_computed_actions_are_those_of_the_file(acting):
    computed = windows(acting, None, keys=("pose",), joints="append", **SMALL)
    stored = windows(acting, None, keys=("pose",), actions="stored", **SMALL)
    chunks = windows(acting, None, keys=("pose",), actions="stored-chunk", observation_horizon=2, action_horizon=3)
    with h5py.File(acting / "dataset.h5") as file:
        for i in range(0, len(computed), 6):
            number, t = computed.index[i]
            demo = file["data"][computed.episodes[number]]
            np.testing.assert_allclose(computed[i]["actions"], demo["action_chunk"][t], atol=1e-6)
            assert_same(stored[i]["actions"], demo["actions"][t : t + 4])
            (same,) = np.flatnonzero((chunks.index == [number, t]).all(axis=1))
            assert_same(chunks[same]["actions"], demo["action_chunk"][t, :3])
            for one in computed[i], stored[i], chunks[same]:
                assert one["actions_valid"].all() and one["actions"].shape[1] == 13 and "action_joints" not in one


def test_stored_actions_must_be_there_and_long_enough(acting, holes):
    with pytest.raises(TakesetError, match=r"action_chunk has 4 actions, and 5 are wanted; put actions: \{horizon: 5\} into the pipeline"):
        windows(acting, actions="stored-chunk", action_horizon=5)
    with pytest.raises(KeyError, match="demo_000001 .* has no action_chunk; put the step actions with a horizon into the pipeline"):
        windows(holes, actions="stored-chunk", action_horizon=1)
    with pytest.raises(TakesetError, match="demo_000000 .* has no .*joints"):
        windows(holes, "valid", joints="append")


# Joints, images, depth


def test_joints_come_with_their_mask_and_are_nan_without(holes):
    found, seen = windows(holes, keys=("joints",), skip_masked=(), **SMALL), set()
    with h5py.File(holes / "dataset.h5") as file:
        obs = file["data"][found.episodes[0]]["obs"]
        for i in range(len(found)):
            t, sample = found.index[i, 1], found[i]
            assert_same(sample["obs"]["joints"], obs["joints"][t - 1 : t + 1])
            assert_same(sample["obs"]["joints_valid"], obs["joints_valid"][t - 1 : t + 1] == 1)
            assert_same(sample["action_joints"], obs["joints"][t + 1 : t + 5])
            assert_same(sample["action_joints_valid"], obs["joints_valid"][t + 1 : t + 5] == 1)
            assert_same(~np.isnan(sample["action_joints"]), sample["action_joints_valid"])
            seen |= set(sample["action_joints_valid"].ravel().tolist())
    assert seen == {True, False}


def test_actions_with_joints_are_masked_where_a_joint_is_missing(holes):
    found, masked = windows(holes, keys=("pose",), joints="append", skip_masked=False, **SMALL), 0
    with h5py.File(holes / "dataset.h5") as file:
        obs = file["data"][found.episodes[0]]["obs"]
        for i in range(len(found)):
            rows, sample = slice(found.index[i, 1] + 1, found.index[i, 1] + 5), found[i]
            valid = obs["joints_valid"][rows].all(axis=1)
            assert_same(sample["actions_valid"], valid)
            assert_same(sample["actions"][valid, 9:], obs["joints"][rows][valid])
            assert not sample["actions"][~valid].any()
            masked += not valid.all()
    skipping = windows(holes, keys=("pose",), joints="append", **SMALL)
    assert masked > 0 and skipping.skipped == masked and len(skipping) == len(found) - masked
    assert all(skipping[i]["actions_valid"].all() for i in range(len(skipping)))


def test_an_episode_without_joints_has_them_masked_next_to_one_with(holes):
    found = windows(holes, None, keys=("pose",), **SMALL)
    sample = found[0]
    assert found.episodes[found.index[0, 0]] == "demo_000000"
    assert sample.keys() == found[len(found) - 1].keys()
    assert np.isnan(sample["action_joints"]).all() and not sample["action_joints_valid"].any()
    assert "action_joints" not in windows(holes, "valid", **SMALL)[0]
    assert "action_joints" not in windows(holes, "train", joints="none", **SMALL)[0]


def test_images_and_depth_come_channels_first_with_a_mask(holes):
    found = windows(holes, "valid", keys=("camera_image", "camera_depth"), **SMALL)
    sample, t = found[7]["obs"], found.index[7, 1]
    with h5py.File(holes / "dataset.h5") as file:
        obs = file["data"][found.episodes[0]]["obs"]
        assert sample["camera_image"].dtype == np.uint8
        assert sample["camera_image"].shape == (2, 3, *obs["camera_image"].shape[1:3])
        assert_same(sample["camera_image"].transpose(0, 2, 3, 1), obs["camera_image"][t - 1 : t + 1])
        assert_same(sample["camera_image_valid"], np.array([True, True]))
        assert_same(sample["camera_depth"][:, 0], obs["camera_depth"][t - 1 : t + 1, :, :, 0])
        assert_same(sample["camera_depth_valid"][:, 0], obs["camera_depth_valid"][t - 1 : t + 1, :, :, 0] == 1)


# Processes


def read(reader, i):
    return reader[i]


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_a_worker_reads_the_same_sample(holes, method):
    found = windows(holes, **SMALL)
    here = [found[i] for i in (0, 11)]  # the file is open now, and must not travel
    with multiprocessing.get_context(method).Pool(1) as pool:
        there = pool.starmap(read, [(found, 0), (found, 11)])
    assert_same(there, here)
    stored = pickle.dumps(found)
    assert len(stored) < 100_000
    assert_same(pickle.loads(stored)[11], here[1])
