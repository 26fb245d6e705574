"""The Python package: statistics by key and by stream, normalization there and back."""

import h5py
import numpy as np
import pytest
from package_datasets import ARM, SCAN, SLAM, STACK, convert

import takeset as package
from takeset import TakesetError, _stats

PARTS = ("count", "mean", "std", "min", "max", "q01", "q99")


@pytest.fixture(scope="module")
def directories(source, tmp_path_factory, takeset):
    """Datasets without and with `normalize`."""
    root = tmp_path_factory.mktemp("statistics")
    methods = {"none": {}, "minmax": {"normalize": {}}, "gaussian": {"normalize": {"method": "gaussian"}}}
    return {name: convert(takeset, source, root, name, **steps) for name, steps in methods.items()}


@pytest.fixture(params=["none", "minmax", "gaussian"])
def ds(request, directories):
    with package.open(directories[request.param]) as dataset:
        dataset.method = None if request.param == "none" else request.param
        yield dataset


def training_values(ds, key, like):
    """The valid values of a vector in the training episodes whose streams have the statistics of this one."""
    streams = [e[key] for e in ds.splits["train"] if key in e]
    alike = [s for s in streams if s.statistics is not None and s.statistics.key == like.statistics.key]
    return np.concatenate([s[:][s.valid] for s in alike]).astype(np.float64)


@pytest.mark.slow
def test_every_key_has_the_numbers_of_the_file(ds):
    found = {}

    def collect(name, member):
        if isinstance(member, h5py.Group) and "mean" in member:
            found[name] = member

    with h5py.File(ds.path) as file:
        file["stats"].visititems(collect)
        assert sorted(ds.statistics) == sorted(found) and len(ds.statistics) == len(found) > 9
        for key, stored in found.items():
            mine = ds.statistics[key]
            for part in PARTS:
                np.testing.assert_array_equal(getattr(mine, part), stored[part][:])
            assert (mine.key, mine.unit, mine.method) == (key, stored.attrs["unit"], ds.method) and mine.count.dtype == np.int64
            for part in "scale", "offset":
                if ds.method is None:
                    assert getattr(mine, part) is None
                else:
                    np.testing.assert_array_equal(getattr(mine, part), stored[part][:])
        assert {"action_dict/relative_rotation_6d@1 (x right, y up, z back)", "camera_depth@mm", "pose@m (x right, y up, z back)"} <= set(found)


def test_a_stream_has_the_statistics_of_its_own_unit_and_axes(ds):
    expected = {
        (STACK, "pose"): "pose@m (x right, y up, z back)", (ARM, "pose"): "pose@m (x right, y up, z back)",
        (SCAN, "pose"): "pose@m (x right, y down, z forward)", (STACK, "next_obs/pose"): "pose@m (x right, y up, z back)",
        (STACK, "camera_depth"): "camera_depth@m", (SCAN, "camera_depth"): "camera_depth@mm", (ARM, "camera_image"): "camera_image",
        (ARM, "joints"): "joints", (ARM, "action_dict/joints"): "action_dict/joints", (STACK, "actions"): "actions@m, 1 (x right, y up, z back)",
        (SCAN, "actions"): "actions@m, 1 (x right, y down, z forward)", (STACK, "action_chunk"): "action_chunk@m, 1 (x right, y up, z back)",
        (SCAN, "camera_depth_confidence"): "camera_depth_confidence",
    }  # fmt: skip
    assert {pair: ds[pair[0]][pair[1]].statistics.key for pair in expected} == expected
    assert ds[ARM].split == ds[STACK].split == ds[SCAN].split == "train" and ds[SLAM].split == "valid"
    assert ds[SLAM]["pose"].statistics is None and ds[ARM]["rewards"].statistics is None  # No training episode has an arbitrary unit.


def test_a_key_with_several_meanings_names_them(ds):
    with pytest.raises(KeyError, match=r"takes give camera_depth different meanings, .*: camera_depth@m, camera_depth@mm$"):
        ds.statistics["camera_depth"]
    with pytest.raises(KeyError, match=r"there are no statistics of nothing; there are those of action_chunk@m, 1 \(x right, y down, z forward\), "):
        ds.statistics["nothing"]
    assert "camera_depth" not in ds.statistics and ds.statistics.get("camera_depth") is None


@pytest.mark.parametrize("episode, key", [(STACK, "pose"), (ARM, "joints"), (STACK, "actions"), (STACK, "action_dict/relative_position")])
def test_normalized_values_are_those_of_the_method(ds, episode, key):
    stream = ds[episode][key]
    values = training_values(ds, key, stream)
    for method in None, "minmax", "gaussian":
        normalized = stream.statistics.normalize(values, method)
        assert normalized.dtype == np.float64
        for column in range(values.shape[1]):
            known = normalized[~np.isnan(values[:, column]), column]
            if len(known) == 0:
                assert (episode, key) == (ARM, "joints")  # the dead joint
            elif (method or ds.method) == "minmax":
                np.testing.assert_allclose([known.min(), known.max()], [-1, 1], atol=1e-9)
            else:
                np.testing.assert_allclose([known.mean(), known.std()], [0, 1], atol=1e-6)
        np.testing.assert_allclose(stream.statistics.denormalize(normalized, method), values, atol=1e-12)


def test_the_parameters_of_a_method_are_those_the_command_stores(directories):
    with package.open(directories["none"]) as plain:
        for method in "minmax", "gaussian":
            with package.open(directories[method]) as stored:
                for key, mine in plain.statistics.items():
                    scale, offset = mine.parameters(method)
                    np.testing.assert_array_equal(scale, stored.statistics[key].scale)
                    np.testing.assert_array_equal(offset, stored.statistics[key].offset)


def test_quantiles_are_1_and_the_middle_0(ds):
    found = ds[STACK]["pose"].statistics
    for values, expected in (found.q01, -1), (found.q99, 1), ((found.q01 + found.q99) / 2, 0):
        np.testing.assert_allclose(found.normalize(values, "quantile"), np.full(7, expected), atol=1e-9)


def test_a_channel_without_a_spread_or_without_values_stays_as_it_is(ds):
    dead = ds[ARM]["joints"].statistics
    (gone,) = np.nonzero(dead.count == 0)
    for method in None, "minmax", "gaussian", "quantile":
        scale, offset = dead.parameters(method)
        assert len(gone) == 1 and (scale[gone], offset[gone]) == (1, 0) and np.isfinite(scale).all() and (scale > 0).all()
    constant = package.Statistics("a", np.array([5]), *(np.array([number]) for number in (3.0, 1e-7, 3.0, 3.0, 3.0, 3.0)))
    for method in None, "minmax", "gaussian", "quantile":
        assert constant.normalize([4.0], method) == [1.0]


def test_the_least_range_that_is_scaled_is_a_millionth():
    for spread, scale in (1.5e-6, 1.5e-6), (0.9e-6, 1):
        numbers = (np.array([number]) for number in (0.0, spread, 0.0, spread, 0.0, spread))  # mean, std, min, max, q01, q99
        found = package.Statistics("a", np.array([5]), *numbers)
        assert found.parameters("gaussian")[0] == scale
        for method in "minmax", "quantile":
            assert found.parameters(method)[0] == (scale / 2 if scale < 1 else 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_range_that_is_small_against_its_offset_keeps_its_digits(dtype):
    """Of a camera 1000 m from the origin that moves by 7 mm, float32 has 115 steps, and none may be lost."""
    values = np.linspace(1000, 1000.007, 500).astype(dtype)[:, None]
    exact = values.astype(np.float64)
    numbers = (np.array([number]) for number in (exact.mean(), exact.std(), exact.min(), exact.max(), *np.quantile(exact, (0.01, 0.99))))
    found = package.Statistics("a", np.array([500]), *numbers)
    expected = {
        "gaussian": (exact - exact.mean()) / exact.std(),
        "minmax": 2 * (exact - exact.min()) / (exact.max() - exact.min()) - 1,
    }
    for method, wanted in expected.items():
        normalized = found.normalize(values, method)
        assert normalized.dtype == dtype
        np.testing.assert_allclose(normalized, wanted, rtol=0, atol=2e-7 if dtype == np.float32 else 1e-10)
        np.testing.assert_allclose(found.denormalize(normalized, method), values, rtol=0, atol=np.spacing(dtype(1000)))


def test_labels_have_the_distinctions_that_a_unit_needs():
    labels = ["a@m", "a@m (x)", "a@mm", "b@1 (9)", "b@1 (13)", "c@m (x) (3) (float32)", "c@m (x) (3) (float64)", "d"]
    known = _stats.StatisticsByKey(None)
    known._by_key = {label: package.Statistics(label, *[np.zeros(1)] * 7) for label in labels}
    expected = {
        ("a", "m", "x", 7, "float32"): "a@m (x)", ("a", "m", "y", 7, "float32"): "a@m", ("a", "m", None, 7, "float32"): "a@m",
        ("a", "mm", "x", 7, "uint16"): "a@mm", ("b", "1", None, 13, "float32"): "b@1 (13)", ("b", "1", "x", 9, "float32"): "b@1 (9)",
        ("c", "m", "x", 3, "float64"): "c@m (x) (3) (float64)", ("d", "m", "x", 3, "float32"): "d",
    }  # fmt: skip
    assert {stream: known.find(*stream).key for stream in expected} == expected
    assert known.find("c", "m", "y", 3, "float64") is None and known.find("a", "cm", None, 1, "float32") is None


def test_images_are_normalized_by_color_on_any_axis(ds):
    stream = ds[ARM]["camera_image"]
    images, found = stream[3:5], stream.statistics
    scale, offset = found.parameters()
    normalized = found.normalize(images)
    assert normalized.dtype == np.float32
    np.testing.assert_array_equal(normalized, ((images.astype(np.float64) - offset) / scale).astype(np.float32))
    first = found.normalize(np.moveaxis(images, -1, 1), axis=1)
    np.testing.assert_array_equal(first, np.moveaxis(normalized, -1, 1))
    np.testing.assert_allclose(found.denormalize(first, axis=1), np.moveaxis(images, -1, 1), atol=1e-3)


def test_masked_values_stay_masked(ds):
    joints = ds[ARM]["joints"]
    hole = np.isnan(joints[:])
    assert hole.any() and not hole.all()
    np.testing.assert_array_equal(np.isnan(joints.statistics.normalize(joints[:])), hole)


def test_values_of_other_widths_and_unknown_methods_are_refused(ds):
    found = ds[STACK]["pose"].statistics
    with pytest.raises(TakesetError, match=r"has 7 channels, and axis -1 of values of shape \(3, 6\) does not"):
        found.normalize(np.zeros((3, 6)))
    with pytest.raises(TakesetError, match="has 7 channels"):
        found.normalize(1.0)
    with pytest.raises(TakesetError, match=r"has 7 channels, and axis 4 of values of shape \(3, 7\) does not"):
        found.normalize(np.zeros((3, 7)), axis=4)
    with pytest.raises(ValueError, match="method is minmax, gaussian or quantile, found 'mean'"):
        found.normalize(np.zeros(7), "mean")
