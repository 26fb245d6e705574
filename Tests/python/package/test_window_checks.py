"""Training windows of the Python package: masked rows, normalization, and mistakes that are found before the first batch."""

import h5py
import numpy as np
import pytest
from window_datasets import (
    SMALL, V1, V2, expected_index, tampered, training_actions, windows, with_actions, with_smaller_images,
)

from takeset import TakesetError, _images
from takeset import open as open_dataset
from takeset._window_options import WindowOptions


@pytest.fixture(scope="module")
def undecodable(tmp_path_factory, takeset):
    """Images 5 and 20 of each take are black and masked."""
    output = with_actions(tmp_path_factory.mktemp("undecodable"), takeset, missing=(5, 20))
    with h5py.File(output / "dataset.h5") as file:
        valid = file["meta/demo_000000/streams/camera_image/valid"][:]
        assert np.flatnonzero(valid == 0).tolist() == [5, 20]
    return output


# What others have added


def test_what_another_program_added_is_readable_and_no_stream_of_windows(acting, tmp_path):
    def add(take, file):
        obs = file["data/demo_0/obs"]
        obs["bare"] = np.arange(3 * len(obs["pose"]), dtype="f4").reshape(-1, 3)
        obs["dressed"] = obs["bare"][:]
        obs["dressed"].attrs.update(kind="vector", unit="m")

    changed = tampered(acting, tmp_path / "out", add)
    with open_dataset(changed) as ds:
        episode = ds[0]
        assert "bare" not in episode.keys() and "dressed" not in episode.keys() and episode["bare"].kind == episode["dressed"].kind == "added"
        assert episode["bare"][3].tolist() == [9, 10, 11] and not episode["bare"].has_samples
    for key in "bare", "dressed":
        with pytest.raises(TakesetError, match=f"{key} was added to the file by another program.*episode\\[\"{key}\"\\]"):
            windows(changed, None, keys=("pose", key), normalize=True, **SMALL)
    assert len(windows(changed, None, keys=("pose", "joints_valid"), **SMALL)) == len(windows(acting, None, keys=("pose",), **SMALL))


# Masks


@pytest.mark.parametrize("skip", [("camera_image",), True])
def test_windows_with_a_masked_image_are_left_out_if_asked_for(undecodable, skip):
    every, fewer = windows(undecodable, None, **SMALL), windows(undecodable, None, skip_masked=skip, **SMALL)
    expected = [row for row in every.index.tolist() if not {5, 20} & {row[1] - 1, row[1]}]
    assert fewer.index.tolist() == expected and fewer.skipped == len(every) - len(expected) == 3 * 4 and every.skipped == 0
    black = next(i for i, row in enumerate(every.index.tolist()) if row[1] == 5)
    assert every[black]["obs"]["camera_image_valid"].tolist() == [True, False]
    assert every[black]["obs"]["camera_image"][0].any() and not every[black]["obs"]["camera_image"][1].any()
    assert all(fewer[i]["obs"]["camera_image_valid"].all() for i in range(len(fewer)))


@pytest.mark.parametrize("actions", ["relative-6d", "stored", "stored-chunk"])
def test_windows_with_a_masked_action_are_left_out(acting, tmp_path, actions):
    """Row 9 of every take loses its pose, and what was computed from it."""

    def lose(take, file):
        demo, meta = file["data/demo_0"], file["meta/demo_0"]
        demo["obs/pose"][9], meta["streams/pose/valid"][9] = np.nan, 0
        for row in (8, 9):
            demo["actions"][row], demo["actions_valid"][row] = 0, 0
        for row in range(5, 10):
            lost = slice(None) if row == 9 else slice(8 - row, 9 - row)
            demo["action_chunk"][row, lost], demo["action_chunk_valid"][row, lost] = 0, 0

    changed = tampered(acting, tmp_path / "out", lose)
    options = dict(keys=("joints",), actions=actions, **SMALL)
    every, fewer = windows(changed, None, skip_masked=False, **options), windows(changed, None, **options)
    # As t, or as one of the rows t+1 ... t+4; a stored step needs two poses.
    touched = [row for row in every.index.tolist() if row[1] <= 9 <= row[1] + 4]
    assert fewer.index.tolist() == [row for row in every.index.tolist() if row not in touched]
    assert fewer.skipped == len(touched) == 3 * 5
    for i in range(len(every)):
        t, sample = every.index[i, 1], every[i]
        steps = range(t, t + 4) if actions == "stored" else range(t + 1, t + 5)
        lost = [row in (8, 9) if actions == "stored" else row == 9 or t == 9 for row in steps]
        assert (~sample["actions_valid"]).tolist() == lost
        assert not sample["actions"][lost].any() and np.isfinite(sample["actions"]).all()


def test_masks_to_skip_have_names_that_windows_have(acting):
    with pytest.raises(KeyError, match="skip_masked has joints, which is not one of camera_image, pose, actions"):
        windows(acting, skip_masked=("joints",))


# Normalization


@pytest.mark.parametrize("method", ["minmax", "gaussian"])
def test_numbers_are_normalized_as_the_statistics_of_the_file_say(takeset, tmp_path, method):
    source = with_actions(tmp_path, takeset, normalize=method, count=2)
    options = dict(keys=("camera_image", "pose", "joints"), actions="stored-chunk", **SMALL)
    plain, normal = windows(source, None, **options), windows(source, None, normalize=True, **options)
    assert normal.scalings.keys() == {"pose", "joints", "actions"}
    with h5py.File(source / "dataset.h5") as file:
        groups = {"pose": file["stats/pose"], "joints": file["stats/joints"], "actions": file["stats/action_chunk"]}
        stored = {key: [group[name][:] for name in ("scale", "offset")] for key, group in groups.items()}
    for i in range(0, len(plain), 5):
        before, after = plain[i], normal[i]
        assert np.array_equal(before["obs"]["camera_image"], after["obs"]["camera_image"])
        for key in ("pose", "joints"):
            scale, offset = stored[key]
            np.testing.assert_allclose(after["obs"][key], (before["obs"][key] - offset) / scale, rtol=1e-5, atol=1e-5)
        scale, offset = stored["actions"]
        np.testing.assert_allclose(after["actions"], (before["actions"] - offset) / scale, rtol=1e-5, atol=1e-5)
        assert after["actions"].dtype == after["obs"]["pose"].dtype == np.float32


def test_without_a_step_normalize_the_mean_becomes_0_and_the_deviation_1(takeset, tmp_path):
    source = with_actions(tmp_path, takeset, normalize=None, count=2)
    with h5py.File(source / "dataset.h5") as file:
        assert "scale" not in file["stats/pose"]
        (name,) = (n.decode() for n in file["mask/train"])
        poses = file["data"][name]["obs/pose"][:].astype("f8")
    found = windows(source, keys=("pose",), actions=None, observation_horizon=1, normalize=["pose"])
    normalized = np.concatenate([found[i]["obs"]["pose"] for i in range(len(found))])
    constant = poses.std(axis=0) < 1e-6
    np.testing.assert_allclose(normalized.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(normalized.std(axis=0)[~constant], 1, atol=1e-4)
    least = windows(source, keys=("pose",), actions=None, observation_horizon=1, normalize=["pose"], normalization="minmax")
    normalized = np.concatenate([least[i]["obs"]["pose"] for i in range(len(least))])
    np.testing.assert_allclose([normalized.min(axis=0)[~constant], normalized.max(axis=0)[~constant]], [[-1.0] * 7, [1.0] * 7], atol=1e-5)


@pytest.mark.parametrize("first, steps", [("next", range(1, 5)), ("current", range(4))])
@pytest.mark.parametrize("joints", ["none", "append"])
def test_computed_actions_are_normalized_by_those_of_the_training_episodes(acting, first, steps, joints):
    every = training_actions(acting / "dataset.h5", steps, joints == "append")
    low, high = every.min(axis=0), every.max(axis=0)
    scale = np.where(high - low < 1e-6, 1, (high - low) / 2)
    for split in ("train", "valid"):  # of the training episodes also where others are read
        options = dict(keys=("pose",), joints=joints, first_action=first, **SMALL)
        plain, normal = windows(acting, split, **options), windows(acting, split, normalize=["actions"], **options)
        np.testing.assert_allclose(normal.scalings["actions"].scale, scale, atol=1e-6)
        np.testing.assert_allclose(normal.scalings["actions"].offset, (high + low) / 2, atol=1e-6)
        assert len(plain) > 10
        for i in range(0, len(plain), 9):
            # Back in units, because columns near 1 vary by less than a thousandth, and actions are f4.
            restored = normal[i]["actions"] * scale + (high + low) / 2
            np.testing.assert_allclose(restored, plain[i]["actions"], rtol=1e-6, atol=5e-7)


def test_rotations_can_be_left_as_they_are(acting):
    options = dict(keys=("pose",), joints="append", **SMALL)
    plain, normal = windows(acting, **options), windows(acting, normalize=True, normalize_rotation=False, **options)
    before, after = plain[3], normal[3]
    np.testing.assert_array_equal(after["actions"][:, 3:9], before["actions"][:, 3:9])
    np.testing.assert_array_equal(after["obs"]["pose"][:, 3:], before["obs"]["pose"][:, 3:])
    for changed in (slice(0, 3), slice(9, 13)):
        assert (after["actions"][:, changed] != before["actions"][:, changed]).any(axis=0).all()
    assert (after["obs"]["pose"][:, :3] != before["obs"]["pose"][:, :3]).any(axis=0).all()


def test_what_is_masked_stays_0_or_nan_when_normalized(holes):
    options = dict(keys=("joints",), skip_masked=False, **SMALL)
    appended = windows(holes, joints="append", normalize=True, **options)
    separate = windows(holes, normalize=True, **options)
    assert separate.scalings.keys() == {"joints", "actions", "action_joints"}
    masked = 0
    for i in range(len(appended)):
        assert not appended[i]["actions"][~appended[i]["actions_valid"]].any()
        joints = separate[i]["action_joints"]
        assert np.array_equal(np.isnan(joints), ~separate[i]["action_joints_valid"])
        masked += int(np.isnan(joints).sum())
    assert masked


def test_depth_is_normalized_where_it_is_valid(takeset, tmp_path, masters):
    (tmp_path / "p.yaml").write_text("version: 1\ntransforms: [align, resample-depth: {max-range: 2.5}, split: {valid: 0}]\n")
    takeset.convert(masters["v1"], output=tmp_path / "out", arguments=["--pipeline", tmp_path / "p.yaml"])
    found = windows(tmp_path / "out", keys=("camera_depth",), normalize=["camera_depth"], normalization="gaussian", **SMALL)
    with h5py.File(tmp_path / "out/dataset.h5") as file:
        depth, valid = (file[f"data/demo_000000/obs/camera_depth{mask}"][:, :, :, 0] for mask in ("", "_valid"))
        mean, deviation = depth[valid == 1].mean(dtype="f8"), depth[valid == 1].std(dtype="f8")
    assert 0.1 < (valid == 0).mean() < 0.9
    for i in range(0, len(found), 5):
        rows = slice(found.index[i, 1] - 1, found.index[i, 1] + 1)
        expected = np.where(valid[rows] == 1, (depth[rows] - mean) / deviation, 0)
        np.testing.assert_allclose(found[i]["obs"]["camera_depth"][:, 0], expected, atol=1e-4)


def test_normalization_needs_statistics_and_known_keys(acting, holes):
    with pytest.raises(TakesetError, match="no statistics to normalize camera_depth by; it has those of"):
        windows(holes, "valid", keys=("camera_depth",), normalize=["camera_depth"])  # no training episode has depth
    shard = next((acting / "episodes").glob("*.h5"))
    with pytest.raises(TakesetError, match="no statistics to normalize pose by: open the dataset.h5 that links this shard"):
        windows(shard, None, keys=("pose",), normalize=["pose"])
    with pytest.raises(TakesetError, match="no training episodes to normalize actions by"):
        windows(shard, None, keys=("pose",), normalize=["actions"])
    with pytest.raises(KeyError, match="normalize has joints, and a sample has camera_image, pose, actions, action_joints"):
        windows(acting, normalize=["joints"])


# Mistakes


def test_what_does_not_fit_in_one_batch_is_refused_at_once(holes):
    with pytest.raises(KeyError, match=f"demo_000000 .{V1}. has no .*joints"):
        windows(holes, None, keys=("joints",))
    with pytest.raises(ValueError, match="stride must be at least 1, found 0"):
        windows(holes, stride=0)


def test_episodes_with_images_of_two_sizes_are_refused_unless_they_are_resized(tmp_path, holes):
    changed = with_smaller_images(holes, tmp_path / "out", V1)
    words = r"\(session_2026-02.*\): camera_image has the shape 240x320x3, and 120x160x3 in demo_000000 .*resize-image"
    with pytest.raises(TakesetError, match=words):
        windows(changed, None)
    assert len(windows(changed, None, resizes_images=True)) == len(windows(holes, None))
    assert len(windows(changed, [V2])) == len(windows(holes, [V2]))


@pytest.mark.parametrize(
    "attribute, value, words",
    [
        ("unit", "arbitrary", r"pose has the unit arbitrary, and m in .*split=\["),
        ("camera_axes", "x right, y down, z forward", "pose has the camera axes x right, y down, z forward, and .*pose-frame"),
    ],
)
def test_poses_of_another_unit_or_other_axes_are_refused(tmp_path, holes, attribute, value, words):
    def change(take, file):
        if take == V2:
            file["data/demo_0/obs/pose"].attrs[attribute] = value

    changed = tampered(holes, tmp_path / "out", change)
    with pytest.raises(TakesetError, match=words):
        windows(changed, None)
    assert len(windows(changed, [V2])) > 0


def test_actions_of_several_widths_are_refused(takeset, tmp_path, masters):
    (tmp_path / "p.yaml").write_text("version: 1\ntransforms: [align, actions: {joints: absolute}]\n")
    takeset.convert(masters["v1"], masters["v2"], output=tmp_path / "out", arguments=["--pipeline", tmp_path / "p.yaml"])
    with pytest.raises(TakesetError, match="actions has the parts relative_position:3 relative_rotation_6d:6 joints:4, and .*joints: none"):
        windows(tmp_path / "out", None, keys=("pose",), actions="stored")
    assert len(windows(tmp_path / "out", None, keys=("pose",))) == len(expected_index(tmp_path / "out/dataset.h5", 2, 16))


def test_encoded_images_without_pillow_are_refused_at_once(takeset, tmp_path, monkeypatch):
    source = with_actions(tmp_path, takeset, image="jpeg", count=1, seconds=0.2)
    monkeypatch.setattr(_images, "can_decode", lambda: False)
    with pytest.raises(TakesetError, match="stored as JPEG files, which Pillow decodes: pip install"):
        windows(source, None)
    assert len(windows(source, None, keys=("pose",), **SMALL)) > 0


@pytest.mark.parametrize(
    "options, words",
    [
        (dict(keys="pose"), r"keys is a collection of names, found 'pose'; write \['pose'\]"),
        (dict(normalize="pose"), "normalize is a collection"),
        (dict(action_horizon=0), "action_horizon must be at least 1"),
        (dict(actions="absolute-6d"), "actions is 'relative-6d', 'stored', 'stored-chunk' or None, found 'absolute-6d'"),
        (dict(rotation_layout="cols"), "rotation_layout is 'columns' or 'rows'"),
        (dict(actions="stored", rotation_layout="rows"), "rotation_layout='rows' needs actions='relative-6d'"),
        (dict(actions="stored", first_action="current"), "first_action='current' needs"),
        (dict(actions="stored", joints="append"), "joints: absolute"),
        (dict(actions="stored-chunk", pad=True), "pad=True needs"),
        (dict(normalize=True, normalization="quantile"), "quantiles of relative-6d actions are not computed"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        WindowOptions(**options)
