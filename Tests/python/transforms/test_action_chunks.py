"""`actions` with a horizon: windows as the reference trainer makes them; and `next-obs`, the observations of the next row."""

import json

import h5py
import numpy as np
import pytest
from action_oracle import actions_are, close, every_dataset, long_steps
from conversions import pipeline
from outputs import demos
from scipy.spatial.transform import Rotation
from session_checks import poses
from stack_sessions import v1, v2

HORIZON = 16


def with_holes():
    """A session that lost two frames, and whose glove had no readings for a while."""
    session = v2()
    session.poses = [entry for entry in session.poses if entry["rgbIndex"] not in (10, 11)]
    for number in 10, 11:
        del session.rgb[number]
    del session.encoders[20:27]
    return session


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    root = tmp_path_factory.mktemp("chunks")
    for name, build in {"bare": v1, "glove": v2, "holes": with_holes}.items():
        build().write(root / name)
    return root


def convert(takeset, inputs, output, writer=None, **options):
    options = {name.replace("_", "-"): value for name, value in options.items()}
    output.parent.mkdir(exist_ok=True)
    arguments = pipeline(output.parent, actions=options)
    if writer:
        with open(arguments[1], "a") as file:
            file.write(f"writer: {json.dumps({'hdf5': writer})}\n")
    takeset.convert(inputs, output=output, arguments=arguments)
    return demos(output)


@pytest.mark.parametrize("horizon", [2, 16, pytest.param(1, marks=pytest.mark.slow), pytest.param(64, marks=pytest.mark.slow)])
@pytest.mark.parametrize("options", [
    {}, {"joints": "absolute"}, {"kind": "delta-pose", "joints": "delta", "angle": "radian"}, {"kind": "absolute-quat", "joints": "absolute"},
    {"kind": "absolute-6d", "rotation_layout": "rows"}, {"kind": "relative-6d", "rotation_layout": "rows", "joints": "delta"},
], ids=lambda options: "-".join(options.values()) or "default")
def test_chunks_are_the_rows_ahead_as_each_row_sees_them(takeset, recordings, tmp_path, options, horizon):
    found = convert(takeset, recordings, tmp_path / "out", horizon=horizon, **options)
    for demo, meta in found.values():
        actions_are(demo, meta, horizon=horizon, **options)
    takeset("verify", tmp_path / "out", check=0)


def test_a_chunk_ends_at_the_end_at_a_gap_and_at_missing_joints(takeset, recordings, tmp_path):
    demo, meta = convert(takeset, recordings, tmp_path / "out", horizon=HORIZON, joints="absolute")["holes"]
    (gap,) = long_steps(meta)
    assert gap == 9 and len(demo["actions"]) == 38
    missing = (demo["obs/joints_valid"][:] == 0).any(1)
    assert 2 < missing.sum() < 15
    for t in range(38):
        for k in range(HORIZON):
            to = t + 1 + k
            is_there = to < 38 and not (t <= gap < to) and not missing[to]
            assert demo["action_chunk_valid"][t, k] == is_there, (t, k)
    assert not demo["action_chunk"][:][demo["action_chunk_valid"][:] == 0].any()
    assert demo["action_chunk_valid"][-1].sum() == 0 and demo["actions_valid"][-1] == 0


# The reference trainer's own samples


def trainer_windows(matrices, joints, kind, before=2, ahead=HORIZON):
    """Observations and actions of each window, from 4x4 matrices: row t of the first has rows t - 1 and t, of the second t + 1 to t + 16."""

    def vector(reference, row):
        if kind == "absolute":
            return np.concatenate([matrices[row][:3, 3], Rotation.from_matrix(matrices[row][:3, :3]).as_quat(), joints[row]])
        relative = np.linalg.inv(matrices[reference]) @ matrices[row]
        return np.concatenate([relative[:3, 3], relative[:3, 0], relative[:3, 1], joints[row]])

    found = {}
    for t in range(before - 1, len(matrices) - ahead):
        seen = np.stack([vector(t, row) for row in range(t - before + 1, t + 1)])
        found[t] = seen, np.stack([vector(t, row) for row in range(t + 1, t + 1 + ahead)])
    return found


def of_trainer(takeset, recordings, tmp_path, kind, **options):
    found = convert(takeset, recordings / "glove", tmp_path / "out", kind=kind, joints="absolute", horizon=HORIZON, **options)
    ((demo, meta),) = found.values()
    matrices = np.array([entry["transform"] for entry in poses(recordings / "glove")])[meta["source_index"][:]]
    windows = trainer_windows(matrices, demo["obs/joints"][:].astype("f8"), "absolute" if kind.startswith("absolute") else "relative")
    assert len(windows) == len(matrices) - 17 == 23  # T - 17 samples of an episode
    return demo, windows


def test_the_13_numbers_of_the_reference_trainer(takeset, recordings, tmp_path):
    demo, windows = of_trainer(takeset, recordings, tmp_path, "relative-6d")
    assert demo["actions"].attrs["parts"] == "relative_position:3 relative_rotation_6d:6 joints:4"
    assert demo["action_chunk"].shape == (40, HORIZON, 13) and demo["action_chunk_valid"][:24].all()
    for t, (_, actions) in windows.items():
        close(demo["action_chunk"][t], actions)
        close(demo["actions"][t], actions[0])


def test_the_11_numbers_of_the_reference_trainer(takeset, recordings, tmp_path):
    demo, windows = of_trainer(takeset, recordings, tmp_path, "absolute-quat")
    assert demo["actions"].attrs["parts"] == "absolute_position:3 absolute_rotation_quat:4 joints:4"
    assert demo["action_chunk"].shape == (40, HORIZON, 11)
    for t, (observed, actions) in windows.items():
        chunk = demo["action_chunk"][t]
        signs = np.sign((chunk[:, 3:7] * actions[:, 3:7]).sum(1, keepdims=True))  # the trainer's quaternions jump between signs
        actions[:, 3:7] *= signs
        close(chunk, actions)
        assert np.array_equal(chunk[:, :7], demo["obs/pose"][t + 1 : t + 1 + HORIZON])  # with the signs that are stored
        own = np.concatenate([demo["obs/pose"][t - 1 : t + 1], demo["obs/joints"][t - 1 : t + 1]], 1)
        observed[:, 3:7] *= np.sign((own[:, 3:7] * observed[:, 3:7]).sum(1, keepdims=True))
        close(own, observed)


def test_observations_relative_to_a_row_follow_from_chunks(takeset, recordings, tmp_path):
    """The trainer's observation of row t - 1 is the inverse of that row's first action."""
    demo, windows = of_trainer(takeset, recordings, tmp_path, "relative-6d")
    for t, (observed, _) in windows.items():
        position, six = demo["actions"][t - 1, :3].astype("f8"), demo["actions"][t - 1, 3:9].astype("f8")
        step = np.eye(4)
        step[:3, :3] = np.stack([six[:3], six[3:], np.cross(six[:3], six[3:])], 1)
        step[:3, 3] = position
        back = np.linalg.inv(step)
        close(np.concatenate([back[:3, 3], back[:3, 0], back[:3, 1]]).astype("f4"), observed[0, :9])
        assert np.abs(observed[1, :9] - [0, 0, 0, 1, 0, 0, 0, 1, 0]).max() < 1e-6


# The observations of the next row


def shifted(array):
    return array[list(range(1, len(array))) + [len(array) - 1]]


@pytest.mark.parametrize("writer", [None, {"image": "jpeg"}], ids=["raw", "jpeg"])
def test_next_observations_are_those_of_the_row_after(takeset, recordings, tmp_path, writer):
    found = convert(takeset, recordings, tmp_path / "out", writer=writer, next_obs=True)
    assert {"camera_depth", "camera_depth_valid"} < set(found["bare"][0]["next_obs"])
    assert {"joints", "joints_valid", "depth_point", "depth_point_valid"} < set(found["holes"][0]["next_obs"])
    for demo, meta in found.values():
        actions_are(demo, meta)
        current, following = every_dataset(demo["obs"]), every_dataset(demo["next_obs"])
        assert set(current) == set(following) > {"pose", "camera_image"}
        for key, data in following.items():
            assert (data.dtype, data.shape) == (current[key].dtype, current[key].shape), key
            for word in {"unit", "encoding", "channel_order", "height", "width"} & set(current[key].attrs):  # what it takes to read them
                assert data.attrs[word] == current[key].attrs[word], (key, word)
            expected, stored = shifted(current[key][:]), data[:]
            if h5py.check_vlen_dtype(data.dtype):
                assert key == "camera_image" and writer and len(stored[0]) > 500
                assert [one.tobytes() for one in stored] == [one.tobytes() for one in expected]
            else:
                assert np.array_equal(stored, expected, equal_nan=data.dtype.kind == "f"), key
        assert not np.array_equal(current["pose"][0], following["pose"][0])
    takeset("verify", tmp_path / "out", check=0)
    takeset("pack", tmp_path / "out", "--output", tmp_path / "packed.h5", check=0)
    takeset("verify", tmp_path / "packed.h5", check=0)
    with h5py.File(tmp_path / "packed.h5") as packed:
        for demo in packed["data"].values():
            own, kept = found[demo.attrs["take_id"]][0]["next_obs"], demo["next_obs"]
            assert set(kept) == set(own) and np.array_equal(kept["pose"][:], own["pose"][:])


def test_next_observations_do_not_count_in_the_statistics(takeset, recordings, tmp_path):
    convert(takeset, recordings, tmp_path / "with/out", next_obs=True)
    convert(takeset, recordings, tmp_path / "without/out")
    with h5py.File(tmp_path / "with/out/dataset.h5") as one, h5py.File(tmp_path / "without/out/dataset.h5") as other:
        own, expected = every_dataset(one["stats"]), every_dataset(other["stats"])
        assert set(own) == set(expected)
        assert all(np.array_equal(own[path][:], expected[path][:], equal_nan=True) for path in own)
    assert all("next_obs" not in demo for demo, _ in demos(tmp_path / "without/out").values())


def test_jobs_do_not_show(takeset, recordings, tmp_path):
    arguments = pipeline(tmp_path, actions={"horizon": HORIZON, "joints": "absolute", "next-obs": True})
    shards = []
    for jobs in 1, 3:
        takeset.convert(recordings, output=tmp_path / f"out{jobs}", arguments=[*arguments, "--jobs", jobs])
        shards.append({p.name: p.read_bytes() for p in sorted((tmp_path / f"out{jobs}/episodes").iterdir())})
    assert len(shards[0]) == 3 and shards[0] == shards[1]
