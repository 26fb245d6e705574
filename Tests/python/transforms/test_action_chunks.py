"""`actions` with a horizon: windows as the reference trainer makes them; and `next-obs`, the observations of the next row."""

import h5py
import numpy as np
import pytest
from action_oracle import actions_are, convert, every_dataset, written


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    return written(tmp_path_factory.mktemp("chunks"))


@pytest.mark.parametrize("options, horizon", [({}, 2), ({"kind": "delta-pose", "joints": "absolute", "angle": "radian"}, 16)], ids=["default", "delta-pose"])
def test_chunks_are_the_rows_ahead_as_each_row_sees_them(takeset, recordings, tmp_path, options, horizon):
    found = convert(takeset, recordings, tmp_path / "out", horizon=horizon, **options)
    for demo, meta in found.values():
        actions_are(demo, meta, horizon=horizon, **options)
    takeset("verify", tmp_path / "out", check=0)


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
    without = convert(takeset, recordings, tmp_path / "without/out")
    with h5py.File(tmp_path / "with/out/dataset.h5") as one, h5py.File(tmp_path / "without/out/dataset.h5") as other:
        own, expected = every_dataset(one["stats"]), every_dataset(other["stats"])
        assert set(own) == set(expected)
        assert all(np.array_equal(own[path][:], expected[path][:], equal_nan=True) for path in own)
    assert all("next_obs" not in demo for demo, _ in without.values())
