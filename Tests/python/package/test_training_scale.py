"""Long takes made ready to learn from: statistics of every key against NumPy, and memory that follows the chunk and not the recording."""

import shutil

import h5py
import numpy as np
import pytest
from action_oracle import Expected, statistics_are, summaries, train
from command import BINARY, measured
from conversions import pipeline

pytestmark = pytest.mark.slow

SMALL = ["--size", "64x48"]
STEPS = {"resample_depth": {"unit": "m"}, "pose_frame": {"axes": "arkit"}, "actions": {"horizon": 8}}


@pytest.fixture(scope="module")
def long_takes(takeset, tmp_path_factory):
    """Four minutes with a glove, two without, and a short one, at 60 Hz."""
    root = tmp_path_factory.mktemp("long") / "in"
    takeset.simulate(root / "glove", *SMALL, "--variant", "v2", "--seconds", 240, "--seed", 11)
    takeset.simulate(root / "depth", *SMALL, "--depth-size", "32x24", "--seconds", 120, "--seed", 12)
    takeset.simulate(root / "short", *SMALL, "--variant", "v2", "--seconds", 5, "--seed", 13, "--quirk", "frames-dropped")
    return root


def valid_columns(name, demo, meta):
    """The values of a key, channel by channel, without what is masked."""
    group, _, part = name.rpartition("/")
    if group == "action_dict":
        _, valid = Expected(demo, meta).dictionary()[part]
        return list(demo[name][:][valid].T)
    if name == "camera_depth":
        return [demo["obs/camera_depth"][:][demo["obs/camera_depth_valid"][:] == 1]]
    if name in demo["obs"]:
        values = demo["obs"][name][:]
        mask = demo["obs"][f"{name}_valid"][:] == 1 if f"{name}_valid" in demo["obs"] else np.ones(values.shape, bool)
        return [column[seen] for column, seen in zip(values.T, mask.T)]
    values = demo[name][:][demo[f"{name}_valid"][:] == 1]
    return list(values.reshape(-1, values.shape[-1]).T)


def image_counts(demo, meta):
    """How often each level of each channel occurs in the images that could be read."""
    counts = np.zeros((3, 256), int)
    images, valid = demo["obs/camera_image"], meta["streams/camera_image/valid"][:] == 1
    for first in range(0, len(images), 2000):
        block = images[first : first + 2000][valid[first : first + 2000]]
        counts += [np.bincount(block[..., channel].ravel(), minlength=256) for channel in range(3)]
    return counts


def image_statistics_are(group, counts):
    levels = np.arange(256.0)
    for channel, count in enumerate(counts):
        total = count.sum()
        mean = (levels * count).sum() / total
        deviation = np.sqrt((count * (levels - mean) ** 2).sum() / total)
        found = {name: group[name][channel] for name in ("count", "mean", "std", "min", "max", "q01", "q99")}
        assert found["count"] == total and (found["min"], found["max"]) == (*count.nonzero()[0][[0, -1]],)
        assert found["mean"] == pytest.approx(mean, rel=1e-6) and found["std"] == pytest.approx(deviation, rel=1e-6)
        for name, share in ("q01", 0.01), ("q99", 0.99):
            place = share * (total - 1)
            below, above = np.searchsorted(count.cumsum(), [int(place) + 1, min(int(place) + 2, total)])
            assert found[name] == pytest.approx(below + (place - int(place)) * (above - below), abs=1e-6), name


def test_statistics_of_every_key_are_numpys(takeset, long_takes, tmp_path):
    arguments = pipeline(tmp_path, **STEPS, split={"valid": 0, "group": "take"})
    takeset.convert(long_takes, output=tmp_path / "out", arguments=arguments)
    with h5py.File(tmp_path / "out/dataset.h5") as file:
        chosen = train(file)
        assert len(chosen) == 3 and file["data"].attrs["total"] > 21_000
        groups = summaries(file["stats"])
        expected = {"pose", "camera_image", "camera_depth", "joints", "depth_point", "actions", "action_chunk"}
        expected |= {f"action_dict/{part}" for part in ("relative_position", "relative_rotation_6d", "joints")}
        assert set(groups) == expected
        for name, group in groups.items():
            having = [(demo, file["meta"][demo_name]) for demo_name, demo in chosen.items() if name in demo["obs"] or name in demo]
            assert having, name
            if name == "camera_image":
                image_statistics_are(group, sum(image_counts(*one) for one in having))
                continue
            columns = [valid_columns(name, *one) for one in having]
            statistics_are(group, [np.concatenate(channel) for channel in zip(*columns)])
        assert groups["action_chunk"]["count"][0] > 7 * groups["actions"]["count"][0]
    takeset("verify", tmp_path / "out", check=0)
    shutil.rmtree(tmp_path / "out")


@pytest.mark.parametrize("variant", [["--variant", "v2"], pytest.param(["--depth-size", "32x24"], marks=pytest.mark.torture)], ids=["glove", "depth"])
def test_actions_need_no_memory_that_grows_with_the_take(takeset, tmp_path, variant):
    """A run keeps of each frame its times and pose; chunks of 64 rows and the next images would be hundreds of times as much."""
    acting = {"horizon": 64, "joints": "absolute", "next-obs": True}
    more = []
    for seconds in 40, 200:
        takeset.simulate(tmp_path / f"in{seconds}", *SMALL, *variant, "--seconds", seconds)
        peaks = []
        for steps in {}, {"actions": acting}:
            arguments = pipeline(tmp_path, **steps, split={})
            code, peak, _ = measured(BINARY, "run", tmp_path / f"in{seconds}", "--output", tmp_path / "out", "--jobs", 1, *arguments)
            assert code == 0
            peaks.append(peak)
            shutil.rmtree(tmp_path / "out")
        more.append(peaks[1] - peaks[0])
        shutil.rmtree(tmp_path / f"in{seconds}")
    assert more[1] <= more[0] + (24 << 20), more


def test_memory_does_not_grow_with_the_number_of_takes(takeset, tmp_path):
    arguments = pipeline(tmp_path, **STEPS, split={})
    takeset.simulate(tmp_path / "in1/take_0", *SMALL, "--variant", "v2", "--seconds", 20)
    for index in range(12):
        shutil.copytree(tmp_path / "in1/take_0", tmp_path / f"in12/take_{index}")
    peaks = []
    for inputs in "in1", "in12":
        code, peak, _ = measured(BINARY, "run", tmp_path / inputs, "--output", tmp_path / f"out-{inputs}", "--jobs", 1, *arguments)
        assert code == 0
        peaks.append(peak)
    assert peaks[1] <= 1.3 * peaks[0], peaks
