"""Long takes made ready to learn from: memory that follows the chunk and not the recording."""

import shutil

import pytest
from command import BINARY, measured
from conversions import pipeline

pytestmark = pytest.mark.slow

SMALL = ["--size", "64x48"]
STEPS = {"resample_depth": {"unit": "m"}, "pose_frame": {"axes": "arkit"}, "actions": {"horizon": 8}}


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
