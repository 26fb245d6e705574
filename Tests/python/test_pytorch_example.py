"""examples/pytorch against the files it reads. Only the tests marked `loaders` need PyTorch."""

import json
import multiprocessing
import os
import pickle
import re
import shutil
import subprocess
import sys

import h5py
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from command import BINARY, ROOT

sys.path.insert(0, str(ROOT / "examples/pytorch"))
import takeset_windows  # noqa: E402
from takeset_windows import Windows  # noqa: E402

SMALL = dict(observation_horizon=2, action_horizon=4)
V1, V2 = "session_2026-01-31_120000", "session_2026-02-01_130000"


@pytest.fixture(scope="module")
def with_holes(tmp_path_factory, takeset, masters):
    """A dataset with two holes in the images of the second take and one in its joints."""
    root = tmp_path_factory.mktemp("broken")
    for master in masters.values():
        shutil.copytree(master, root / "sessions" / master.name)
    take = root / "sessions" / V2
    for number in (20, 21, 22, 23, 24, 40):
        (take / f"rgb/{number:06d}.jpg").unlink()
    encoders = json.loads((take / "encoders.json").read_text())
    (take / "encoders.json").write_text(json.dumps(encoders[:20] + encoders[35:]))
    takeset.convert(root / "sessions", output=root / "out")
    return root / "out"


def as_numpy(value):
    return {k: as_numpy(v) for k, v in value.items()} if isinstance(value, dict) else np.asarray(value)


def read(windows, i):
    return as_numpy(windows[i])


def assert_same(a, b):
    np.testing.assert_equal(a, b)


def expected_index(path, o, k, stride=1, split=None):
    """Every (episode, t) whose rows carry consecutive frame numbers of the source, tried one by one."""
    with h5py.File(path) as file:
        names = list(file["data"]) if split is None else [n.decode() for n in file["mask"][split]]
        found = []
        for number, name in enumerate(names):
            frames = file["meta"][name]["source_index"][:]
            whole = [
                t
                for t in range(len(frames))
                if t - o + 1 >= 0 and t + k < len(frames) and all(frames[r + 1] - frames[r] == 1 for r in range(t - o + 1, t + k))
            ]
            while whole:
                run = [t for i, t in enumerate(whole) if t == whole[0] + i]
                found += [(number, t) for t in run[::stride]]
                whole = whole[len(run) :]
    return found


def test_the_dataset_has_the_holes_that_the_tests_are_about(with_holes):
    with h5py.File(with_holes / "dataset.h5") as file:
        assert file["meta/demo_000001/gaps"][:, 0].tolist() == [19, 34]
        assert file["data/demo_000001"].attrs["num_samples"] == 54
        valid = file["data/demo_000001/obs/joints_valid"][:]
        assert 0 < valid.sum() < valid.size


@pytest.mark.parametrize("o, k, stride", [(1, 1, 1), (2, 4, 1), (3, 4, 3), (2, 16, 1), (5, 14, 2), (1, 40, 1)])
def test_there_are_as_many_windows_as_runs_of_frames_allow(with_holes, o, k, stride):
    windows = Windows(with_holes / "dataset.h5", split=None, observation_horizon=o, action_horizon=k, keys=("pose",), stride=stride)
    expected = expected_index(with_holes / "dataset.h5", o, k, stride)
    assert [tuple(row) for row in windows.index.tolist()] == expected
    assert len(windows) == len(expected)


def test_no_window_crosses_a_gap_or_an_episode(with_holes):
    windows = Windows(with_holes / "dataset.h5", split=None, keys=("pose",), **SMALL)
    with h5py.File(with_holes / "dataset.h5") as file:
        for i in range(len(windows)):
            name, t = windows.episodes[windows.index[i, 0]], windows.index[i, 1]
            rows = slice(t - 1, t + 5)
            poses, times = file["data"][name]["obs/pose"][rows], file["meta"][name]["timestamp_ns"][rows]
            assert len(times) == 6
            assert np.diff(times).max() < 1.5 * 1e9 / 60
            assert_same(np.asarray(windows[i]["obs"]["pose"]), poses[:2])


def test_a_run_shorter_than_a_window_gives_none(with_holes):
    windows = Windows(with_holes / "dataset.h5", split="train", observation_horizon=2, action_horizon=19, keys=("pose",))
    assert len(windows) == 0  # the runs of that take have 20, 15 and 19 frames, and a window needs 21
    with pytest.raises(IndexError):
        windows[0]


def test_splits_are_those_of_the_masks(with_holes):
    with h5py.File(with_holes / "dataset.h5") as file:
        masks = {split: [n.decode() for n in file["mask"][split]] for split in ("train", "valid", "test")}
    assert sorted(masks["train"] + masks["valid"]) == ["demo_000000", "demo_000001"]
    for split, names in masks.items():
        windows = Windows(with_holes / "dataset.h5", split=split, keys=("pose",), **SMALL)
        assert windows.episodes == names
        assert [tuple(row) for row in windows.index.tolist()] == expected_index(with_holes / "dataset.h5", 2, 4, split=split)
    with pytest.raises(KeyError, match="no /mask/holdout"):
        Windows(with_holes / "dataset.h5", split="holdout")


def test_a_single_shard_can_be_read_too(with_holes):
    windows = Windows(with_holes / f"episodes/{V1}.h5", split=None, **SMALL)
    whole = Windows(with_holes / "dataset.h5", split="valid", **SMALL)
    assert len(windows) == len(whole) == 30 - 5
    assert_same(read(windows, 3), read(whole, 3))


def test_actions_are_the_coming_poses_seen_from_the_present_one(with_holes):
    windows = Windows(with_holes / "dataset.h5", split=None, keys=("pose",), **SMALL)
    with h5py.File(with_holes / "dataset.h5") as file:
        for i in range(0, len(windows), 5):
            number, t = windows.index[i]
            poses = file["data"][windows.episodes[number]]["obs/pose"][t : t + 5].astype(float)
            matrices = np.tile(np.eye(4), (5, 1, 1))
            matrices[:, :3, :3] = Rotation.from_quat(poses[:, 3:]).as_matrix()
            matrices[:, :3, 3] = poses[:, :3]
            steps = [np.linalg.inv(matrices[0]) @ m for m in matrices[1:]]
            expected = [[*m[:3, 3], *m[:3, 0], *m[:3, 1]] for m in steps]
            actions = np.asarray(windows[i]["actions"])
            assert actions.shape == (4, 9) and actions.dtype == np.float32
            np.testing.assert_allclose(actions, expected, atol=1e-6)


def test_actions_are_the_motion_of_the_simulated_camera(with_holes, masters):
    truth = json.loads((masters["v2"] / "truth.json").read_text())
    truth = np.array(truth["camera_to_world"]).reshape(-1, 4, 4)
    windows = Windows(with_holes / "dataset.h5", split="train", keys=("pose",), **SMALL)
    with h5py.File(with_holes / "dataset.h5") as file:
        frames = file["meta"][windows.episodes[0]]["source_index"][:]
    for i in range(0, len(windows), 7):
        t = windows.index[i, 1]
        steps = [np.linalg.inv(truth[frames[t]]) @ truth[frames[t + n]] for n in range(1, 5)]
        assert np.linalg.norm(steps[-1][:3, 3]) > 0.001, "the camera moves, or this test says nothing"
        expected = [[*m[:3, 3], *m[:3, 0], *m[:3, 1]] for m in steps]
        np.testing.assert_allclose(np.asarray(windows[i]["actions"]), expected, atol=1e-5)


def test_actions_are_those_of_the_file(takeset, masters, tmp_path):
    (tmp_path / "p.yaml").write_text("version: 1\ntransforms: [align, actions: {horizon: 4}]\n")
    takeset.convert(masters["v2"], output=tmp_path / "out", arguments=["--pipeline", tmp_path / "p.yaml"])
    windows = Windows(tmp_path / "out/dataset.h5", split=None, keys=("pose",), **SMALL)
    with h5py.File(tmp_path / "out/dataset.h5") as file:
        demo = file["data/demo_000000"]
        assert len(windows) == 60 - 5 and demo["action_chunk"].shape == (60, 4, 9)
        for i in range(0, len(windows), 6):
            actions, t = np.asarray(windows[i]["actions"]), windows.index[i, 1]
            np.testing.assert_allclose(actions, demo["action_chunk"][t], atol=1e-6)
            np.testing.assert_allclose(actions[0], demo["actions"][t], atol=1e-6)


def test_joints_come_with_their_mask_and_are_nan_without(with_holes):
    windows = Windows(with_holes / "dataset.h5", split="train", keys=("joints",), **SMALL)
    seen = set()
    with h5py.File(with_holes / "dataset.h5") as file:
        obs = file["data"][windows.episodes[0]]["obs"]
        for i in range(len(windows)):
            t, sample = windows.index[i, 1], read(windows, i)
            assert_same(sample["obs"]["joints"], obs["joints"][t - 1 : t + 1])
            assert_same(sample["obs"]["joints_valid"], obs["joints_valid"][t - 1 : t + 1] == 1)
            assert_same(sample["action_joints"], obs["joints"][t + 1 : t + 5])
            assert_same(sample["action_joints_valid"], obs["joints_valid"][t + 1 : t + 5] == 1)
            assert_same(~np.isnan(sample["action_joints"]), sample["action_joints_valid"])
            seen |= set(sample["action_joints_valid"].ravel().tolist())
    assert seen == {True, False}


def test_an_episode_without_joints_has_them_masked_next_to_one_with(with_holes):
    windows = Windows(with_holes / "dataset.h5", split=None, keys=("pose",), **SMALL)
    sample = read(windows, 0)
    assert windows.episodes[windows.index[0, 0]] == "demo_000000"
    assert sample.keys() == read(windows, len(windows) - 1).keys()
    assert np.isnan(sample["action_joints"]).all() and not sample["action_joints_valid"].any()
    assert "action_joints" not in Windows(with_holes / "dataset.h5", split="valid", **SMALL)[0]


def test_images_and_depth_come_channels_first_with_a_mask(with_holes):
    windows = Windows(with_holes / "dataset.h5", split="valid", keys=("camera_image", "camera_depth"), **SMALL)
    sample, t = read(windows, 7)["obs"], windows.index[7, 1]
    with h5py.File(with_holes / "dataset.h5") as file:
        obs = file["data"][windows.episodes[0]]["obs"]
        assert sample["camera_image"].dtype == np.uint8
        assert sample["camera_image"].shape == (2, 3, *obs["camera_image"].shape[1:3])
        assert_same(sample["camera_image"].transpose(0, 2, 3, 1), obs["camera_image"][t - 1 : t + 1])
        assert_same(sample["camera_image_valid"], np.array([True, True]))
        assert_same(sample["camera_depth"][:, 0], obs["camera_depth"][t - 1 : t + 1, :, :, 0])
        assert_same(sample["camera_depth_valid"][:, 0], obs["camera_depth_valid"][t - 1 : t + 1, :, :, 0] == 1)


def test_what_does_not_fit_in_one_batch_is_refused_at_once(with_holes):
    with pytest.raises(KeyError, match=f"demo_000000 .{V1}.: obs/joints is not there"):
        Windows(with_holes / "dataset.h5", split=None, keys=("joints",))
    with pytest.raises(ValueError, match="at least 1"):
        Windows(with_holes / "dataset.h5", stride=0)


def test_episodes_with_images_of_two_sizes_are_refused(tmp_path, with_holes):
    shutil.copytree(with_holes, tmp_path / "out")
    with h5py.File(tmp_path / f"out/episodes/{V1}.h5", "r+") as file:
        obs = file["data/demo_0/obs"]
        smaller = obs["camera_image"][:, ::2, ::2]
        del obs["camera_image"]
        obs["camera_image"] = smaller
    with pytest.raises(ValueError, match="resize to one size"):
        Windows(tmp_path / "out/dataset.h5", split=None)


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_a_worker_reads_the_same_sample(with_holes, method):
    windows = Windows(with_holes / "dataset.h5", **SMALL)
    here = [read(windows, i) for i in (0, 11)]  # the file is open now, and must not travel
    with multiprocessing.get_context(method).Pool(1) as pool:
        there = pool.starmap(read, [(windows, 0), (windows, 11)])
    assert_same(there, here)
    assert_same(read(pickle.loads(pickle.dumps(windows)), 11), here[1])


def test_a_forked_worker_opens_the_file_itself_and_keeps_the_parents_open(with_holes, monkeypatch):
    opened, real = [], h5py.File
    monkeypatch.setattr(takeset_windows.h5py, "File", lambda path: opened.append(os.getpid()) or real(path))
    context = multiprocessing.get_context("fork")
    windows, answers = Windows(with_holes / "dataset.h5", **SMALL), context.Queue()
    here = read(windows, 5)
    opened.clear()

    # Given to a forked process as it is, not pickled: the worker inherits the open handle.
    worker = context.Process(target=lambda: answers.put(([read(windows, i) for i in (5, 6)], opened)))
    worker.start()
    there, opened_there = answers.get(timeout=30)
    worker.join()
    assert opened_there == [worker.pid]
    assert_same(there[0], here)
    assert_same(read(windows, 6), there[1])
    assert opened == []


@pytest.mark.loaders
def test_a_data_loader_makes_batches(with_holes):
    from torch.utils import data

    windows = Windows(with_holes / "dataset.h5", **SMALL)
    windows[0]
    for context in ("fork", "spawn"):
        loader = data.DataLoader(windows, batch_size=8, num_workers=2, multiprocessing_context=context)
        batches = [as_numpy(batch) for batch in loader]
        assert sum(len(batch["actions"]) for batch in batches) == len(windows)
        for i, sample in enumerate(batches[1]["actions"]):
            assert_same(sample, np.asarray(windows[8 + i]["actions"]))
        assert batches[0]["obs"]["camera_image"].shape == (8, 2, 3, 240, 320)


@pytest.mark.loaders
def test_the_readme_shows_what_its_snippet_prints(tmp_path, takeset):
    import torch  # noqa: F401, the snippet needs it

    readme = (ROOT / "examples/pytorch/README.md").read_text()
    snippet = re.search(r"```python\n(.*?)```", readme, re.S)[1]
    printed = re.search(r"```text\n(.*?)```", readme, re.S)[1]
    subprocess.run([ROOT / "scripts/make-examples", BINARY, tmp_path / "sessions"], check=True)
    takeset.convert(tmp_path / "sessions", output=tmp_path / "build/dataset")
    (tmp_path / "train.py").write_text(snippet)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "examples/pytorch")}
    done = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed
