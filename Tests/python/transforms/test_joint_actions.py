"""`actions` of `kind: none`: joints and other numbers of takes without poses, by NumPy, and what reads them."""

import json

import h5py
import numpy as np
import pytest
import yaml
from action_oracle import statistics_are
from arms import arm, arms, expected
from outputs import demos, manifest, take
from stack_sessions import v3_raw

OPTIONS = {"kind": "none", "of": ["gripper", "arm"], "delta": ["arm"], "joints": "absolute", "horizon": 3, "next_obs": True}


def bare():
    session = v3_raw()
    session.encoders = None
    return session


@pytest.fixture(scope="module")
def mixed(takeset, tmp_path_factory):
    """Takes with all streams, with a gap and without a gripper, with joints alone, and with none of the streams."""
    takes = {"all": arm(joints=True), "gap": arm(1, gripper=False, gap=True), "joints": v3_raw(), "bare": bare()}
    return arms(takeset, tmp_path_factory.mktemp("mixed"), takes, **OPTIONS)


@pytest.mark.parametrize("name, parts", [
    ("all", [("joints", False), ("gripper", False), ("arm", True)]), ("gap", [("arm", True)]), ("joints", [("joints", False)])])
def test_rows_are_the_numbers_of_the_next_row(mixed, name, parts):
    demo, meta = demos(mixed)[name]
    values, known = expected(demo, meta, parts)
    assert "pose" not in demo["obs"] and (len(meta["gaps"]) == 1) == (name == "gap") and 0 < known.sum() < len(known)
    assert demo["actions_valid"][:].tolist() == known.tolist()
    assert np.array_equal(demo["actions"][:][known], values[known].astype("f4")) and not demo["actions"][:-1][~known[:-1]].any()
    words = [f"{one}:{demo['obs'][one].shape[1]}" for one, _ in parts]
    assert demo["actions"].attrs["parts"] == " ".join(words) and "camera_axes" not in demo["actions"].attrs
    column = 0
    for one, _ in parts:
        width = demo["obs"][one].shape[1]
        assert np.array_equal(demo["action_dict"][one][:][known], demo["actions"][:, column : column + width][known])
        column += width
    chunks, masks = zip(*(expected(demo, meta, parts, ahead) for ahead in (1, 2, 3)))
    assert np.array_equal(demo["action_chunk"][:], np.stack(chunks, 1).astype("f4"))
    assert np.array_equal(demo["action_chunk_valid"][:], np.stack(masks, 1))
    assert np.array_equal(demo["next_obs"][parts[-1][0]][:-1], demo["obs"][parts[-1][0]][1:], equal_nan=True)
    assert not demo["rewards"][:].any() and demo["dones"][-1] == 1


def test_a_take_with_none_of_the_streams_is_named(mixed, takeset):
    found = {f["code"]: f for f in manifest(mixed)["record"]["findings"]}
    assert found["actions-missing"]["message"] == "takes without joints or gripper or arm have no actions: bare"
    assert found["actions-missing"]["severity"] == "warning" and "actions" in found["mixed-sizes"]["message"]
    assert "actions" not in demos(mixed)["bare"][0]
    takeset("verify", mixed, check=0)


def test_a_name_that_no_take_has_is_told_apart(takeset, tmp_path):
    dataset = arms(takeset, tmp_path, {"a": arm()}, kind="none", of=["gripepr"])
    found = {f["code"]: f["message"] for f in manifest(dataset)["record"]["findings"]}
    assert found["option-unused"] == "actions: of names gripepr, which no take of the dataset has; did you mean gripper?"
    assert found["actions-missing"] == "takes without gripepr have no actions: a"
    # The shard says so, too; what another program adds to it is no damage.
    with h5py.File(dataset / "episodes/a.h5", "r+") as file:
        file.attrs["comment"] = "of mine"
    takeset("verify", dataset, check=0)


@pytest.mark.parametrize("options", [{"joints": "absolute"}, {"gripper": "arm"}], ids=str)
def test_actions_of_poses_say_that_there_are_no_poses(takeset, tmp_path, options):
    dataset = arms(takeset, tmp_path, {"a": arm()}, **options)
    (found,) = [f for f in manifest(dataset)["record"]["findings"] if f["code"] == "actions-missing"]
    assert found["message"] == "takes without poses have no actions: a"


def test_the_last_row_of_a_part_leads_to_the_true_next_row(takeset, tmp_path):
    options = {"kind": "none", "of": ["gripper"], "last": "drop"}
    dataset = arms(takeset, tmp_path, {"a": arm()}, {"split-episodes": {"at": 0.25}}, **options)
    parts = [demos(dataset)[f"a.{k}"][0] for k in range(3)]
    whole = np.concatenate([part["obs/gripper"][:] for part in parts])
    acted = np.concatenate([part["actions"][:] for part in parts])
    # Only the last row of the recording is none.
    assert np.array_equal(acted[:-1], whole[1:]) and all(part["actions_valid"][:].all() for part in parts)
    assert {"reason": "no-next-row", "count": 1} in [d for step in take(dataset, "a.2")["steps"] for d in step["dropped"]]


# What reads them


@pytest.fixture(scope="module")
def pair(takeset, tmp_path_factory):
    """Two takes of one arm, without masked rows."""
    takes = {"session_2026-03-01_100000": arm(1), "session_2026-03-02_100000": arm(2)}
    steps = {"trim": {"end-frames": 22}}, {"split": {"valid": 0.5, "group": "take"}}
    return arms(takeset, tmp_path_factory.mktemp("pair"), takes, *steps, kind="none", of=["arm", "gripper"], horizon=4)


def test_statistics_are_those_of_the_valid_rows(pair):
    with h5py.File(pair / "dataset.h5") as file:
        (name,) = file["mask/train"][:]
        demo = file["data"][name.decode()]
        statistics_are(file["stats/actions"], demo["actions"][:][demo["actions_valid"][:] == 1])
        assert file["stats/action_dict/gripper"].attrs["unit"] == "as recorded"


def test_alohas_state_is_what_acts(pair, takeset, tmp_path):
    takeset("export", pair, "--to", "aloha", "--output", tmp_path / "act", check=0)
    for number, (demo, _) in enumerate(demos(pair).values()):
        with h5py.File(tmp_path / f"act/episode_{number}.hdf5") as file:
            state = np.concatenate([demo["obs/arm"][:], demo["obs/gripper"][:]], 1)
            assert np.array_equal(file["observations/qpos"][:], state[: len(file["action"])])
            assert np.array_equal(file["action"][:], demo["actions"][: len(file["action"])])
            assert np.array_equal(file["action"][:-1], file["observations/qpos"][1:])


def test_windows_have_the_stored_actions(pair):
    from takeset import TakesetError
    from takeset._window_options import WindowOptions
    from takeset._windows import WindowReader

    windows = WindowReader(pair, "train", WindowOptions(keys=["arm"], actions="stored-chunk", action_horizon=4))
    (demo,) = [demo for demo, _ in demos(pair).values() if demo.attrs["take_id"] == windows.rows(0).episode.take_id]
    for number, (_, t) in enumerate(windows.index):
        state = np.concatenate([demo["obs/arm"][t + 1 : t + 5], demo["obs/gripper"][t + 1 : t + 5]], 1)
        assert np.array_equal(windows[number]["actions"], state)
    with pytest.raises(TakesetError, match="no poses to compute actions='relative-6d' from; use its own with actions='stored'"):
        WindowReader(pair, "train", WindowOptions(keys=["arm"]))


def test_lerobots_state_is_what_acts(pair, tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    from takeset.lerobot import export

    export(pair, tmp_path / "lerobot", task="stack", fps=60)
    rows = pq.read_table(tmp_path / "lerobot/data/chunk-000/file-000.parquet").to_pydict()
    state, action, episode = (np.array(rows[name]) for name in ("observation.state", "action", "episode_index"))
    follows = episode[1:] == episode[:-1]
    assert state.shape == action.shape == (36, 7) and np.array_equal(action[:-1][follows], state[1:][follows])


@pytest.mark.parametrize("loader", ["aloha", "robomimic", "lerobot", "diffusion-policy"])
def test_the_remedy_of_a_dataset_without_actions_makes_some(pair, takeset, tmp_path, loader):
    def diagnoses(dataset):
        done = takeset("verify", "--for", loader, dataset, "--json")
        return {one["code"]: one for one in json.loads(done.stdout)["diagnoses"] if one["severity"] == "breaks"}

    (tmp_path / "without").mkdir()
    before = diagnoses(arms(takeset, tmp_path / "without", {"a": arm(), "b": arm(1)}, joints="absolute"))
    (step,) = before["actions-missing"]["steps"]
    assert step == "actions: {kind: none, of: [arm, gripper]}"
    after = diagnoses(arms(takeset, tmp_path, {"a": arm(), "b": arm(1)}, **yaml.safe_load(step)["actions"]))
    assert not {"actions-missing", "poses-missing"} & set(after)
