"""`actions`: every kind against SciPy on the stored poses, its masks, parts and widths, and what takes without poses get."""

import json

import h5py
import numpy as np
import pytest
from action_oracle import Expected, actions_are, convert, statistics_are, train, with_holes, written
from conversions import pipeline
from outputs import demos, manifest, take
from stack_sessions import v2


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    return written(tmp_path_factory.mktemp("actions"))


@pytest.mark.parametrize("options", [
    {"kind": "relative-6d", "joints": "absolute", "angle": "radian", "rotation_layout": "rows"},
    {"kind": "delta-pose", "joints": "delta", "angle": "degree", "rotation_layout": "columns"},
], ids=lambda options: options["kind"])
def test_values_and_masks_are_scipys(takeset, recordings, tmp_path, options):
    found = convert(takeset, recordings, tmp_path / "out", **options)
    for name, (demo, meta) in found.items():
        expected = actions_are(demo, meta, **options)
        assert ("joints" in demo["action_dict"]) == (name != "bare")
        assert expected.actions()[1][:-1].all() == (name != "holes")
    joints = found["glove"][0]["action_dict/joints"].attrs["unit"]
    assert joints == {"degree": found["glove"][0]["obs/joints"].attrs["unit"], "radian": "rad"}[options["angle"]]
    takeset("verify", tmp_path / "out", check=0)


def test_a_last_row_that_is_dropped_is_the_next_of_the_one_before(takeset, recordings, tmp_path):
    """Nothing is invented then: every action that is left leads to a row of the take."""
    held = convert(takeset, recordings, tmp_path / "hold/out", ["glove"], joints="absolute")
    found = convert(takeset, recordings, tmp_path / "out", ["glove"], joints="absolute", last="drop")
    (kept, meta), (whole, _) = found["glove"], held["glove"]
    count = len(whole["actions"])
    assert len(kept["actions"]) == count - 1 == len(meta["timestamp_ns"]) and kept["actions_valid"][:].all()
    assert np.array_equal(kept["actions"][:], whole["actions"][:-1]) and kept["dones"][:].tolist() == [0] * (count - 2) + [1]
    assert {"reason": "no-next-row", "count": 1} in [d for step in take(tmp_path / "out", "glove")["steps"] for d in step["dropped"]]
    takeset("verify", tmp_path / "out", check=0)


@pytest.mark.parametrize("step", [{"decimate": {"every": 3}}, {"resample": {"rate": 7}}, {"drop-frames": {"with": ["depth-missing"]}}], ids=str)
def test_a_step_behind_the_actions_leaves_no_row_without_a_next_one(takeset, recordings, tmp_path, step):
    pipeline = {"version": 1, "transforms": [{"align": {}}, {"actions": {"last": "drop"}}, step]}
    (tmp_path / "p.yaml").write_text(json.dumps(pipeline))
    takeset("run", recordings / "holes", "--pipeline", tmp_path / "p.yaml", "--output", tmp_path / "out", check=0)
    valid = demos(tmp_path / "out")["holes"][0]["actions_valid"][:]
    assert len(valid) > 3 and valid[-1] == 1
    steps = take(tmp_path / "out", "holes")["steps"]
    assert [step["frames_out"] for step in steps] == [step["frames_in"] for step in steps[1:]] + [len(valid)]
    takeset("verify", tmp_path / "out", check=0)


# Takes of several kinds


def test_takes_of_other_widths_are_named_and_counted_apart(takeset, recordings, tmp_path):
    found = convert(takeset, recordings, tmp_path / "out", joints="absolute")
    assert {name: demo["actions"].shape[1] for name, (demo, _) in found.items()} == {"bare": 9, "glove": 13, "holes": 13}
    mixed = [f for f in manifest(tmp_path / "out")["record"]["findings"] if f["code"] == "mixed-sizes"]
    (named,) = [f for f in mixed if "actions" in f["message"]]
    assert named["severity"] == "warning" and "9" in named["message"] and "13" in named["message"]
    with h5py.File(tmp_path / "out/dataset.h5") as file:
        rows = {}
        for demo in train(file).values():
            rows.setdefault(demo["actions"].shape[1], []).append(demo["actions"][:][demo["actions_valid"][:] == 1])
        groups = [group for name, group in file["stats"].items() if name.split("@")[0] == "actions"]
        assert sorted(len(group["mean"]) for group in groups) == sorted(rows) == [9, 13]
        for group in groups:
            statistics_are(group, np.concatenate(rows[len(group["mean"])]))


# The dataset


def test_statistics_are_those_of_the_valid_rows_of_the_training_split(takeset, recordings, tmp_path):
    for index in range(3):
        session = with_holes() if index else v2()
        for entry in session.poses:
            for row in entry["transform"][:3]:
                row[3] *= 1 + index
        session.write(tmp_path / f"in/session_{index}")
    options = {"kind": "delta-pose", "horizon": 4}
    arguments = pipeline(tmp_path, actions=options, split={"group": "take", "valid": 0.34, "seed": 5})
    takeset.convert(tmp_path / "in", output=tmp_path / "out", arguments=arguments)
    with h5py.File(tmp_path / "out/dataset.h5") as file:
        chosen = train(file)
        assert len(chosen) == 2
        numbers = {name: Expected(file["data"][name], file["meta"][name], **options) for name in chosen}
        pooled = {"actions": [], "action_chunk": []}
        for name, demo in chosen.items():
            pooled["actions"].append(demo["actions"][:][demo["actions_valid"][:] == 1])
            pooled["action_chunk"].append(demo["action_chunk"][:][demo["action_chunk_valid"][:] == 1])
            for part, (_, valid) in numbers[name].dictionary().items():
                pooled.setdefault(f"action_dict/{part}", []).append(demo["action_dict"][part][:][valid])
        assert {"action_dict/joints", "action_dict/delta_position"} < set(pooled)
        for key, blocks in pooled.items():
            statistics_are(file["stats"][key], np.concatenate(blocks))
