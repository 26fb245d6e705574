"""`takeset.torch` against NumPy and Pillow. All but the first test need PyTorch."""

import importlib
import sys

import h5py
import numpy as np
import pytest
from PIL import Image
from window_datasets import SMALL, V2, with_actions, with_smaller_images

from takeset import TakesetError

loaders = pytest.mark.loaders


def windows(*arguments, **options):
    from takeset.torch import Windows

    return Windows(*arguments, **options)


def as_numpy(value):
    return {k: as_numpy(v) for k, v in value.items()} if isinstance(value, dict) else np.asarray(value)


def assert_same(a, b):
    np.testing.assert_equal(as_numpy(a), as_numpy(b))


def joined(samples):
    """A batch of samples by NumPy."""
    if isinstance(samples[0], dict):
        return {key: joined([sample[key] for sample in samples]) for key in samples[0]}
    return np.stack([np.asarray(sample) for sample in samples])


def test_without_pytorch_the_module_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "takeset.torch", raising=False)
    with pytest.raises(ImportError, match=r"takeset.torch needs PyTorch: pip install 'takeset\[torch\]'"):
        importlib.import_module("takeset.torch")


@loaders
def test_samples_are_tensors_of_the_stored_values(holes):
    import torch

    found = windows(holes, "valid", keys=("camera_image", "camera_depth", "pose"), **SMALL)
    sample, t = found[7], found.index[7, 1]
    with h5py.File(holes / "dataset.h5") as file:
        obs = file["data"][found.episodes[0]]["obs"]
        for key, dtype in (("camera_image", torch.uint8), ("camera_depth", torch.float32), ("pose", torch.float32)):
            assert sample["obs"][key].dtype == dtype and sample["obs"][key + "_valid"].dtype == torch.bool
        assert_same(sample["obs"]["camera_image"].movedim(1, 3), obs["camera_image"][t - 1 : t + 1])
        assert_same(sample["obs"]["camera_depth"][:, 0], obs["camera_depth"][t - 1 : t + 1, :, :, 0])
        assert_same(sample["obs"]["pose"], obs["pose"][t - 1 : t + 1])
    assert found.place(7) == ("session_2026-01-31_120000", t)
    assert repr(found).endswith(f"{len(found)} windows of 2 rows of camera_image, camera_depth, pose, and 4 actions, of 1 episode>")
    with pytest.raises(TakesetError, match="the split test is empty"):
        windows(holes, "test", keys=("camera_image",))


@loaders
@pytest.mark.filterwarnings("error")
def test_samples_can_be_written_to(holes):
    found = windows(holes, None, keys=("camera_image", "pose"), **SMALL)
    before, changed = as_numpy(found[3]), found[3]
    for tensor in (*changed["obs"].values(), changed["actions"], changed["actions_valid"], changed["action_joints_valid"]):
        tensor.zero_()
    assert_same(found[3], before)


@loaders
def test_depth_in_whole_millimeters_is_int32(takeset, tmp_path, masters):
    import torch

    (tmp_path / "p.yaml").write_text("version: 1\ntransforms: [align, resample-depth: {unit: mm}]\n")
    takeset.convert(masters["v1"], output=tmp_path / "out", arguments=["--pipeline", tmp_path / "p.yaml"])
    found = windows(tmp_path / "out", None, keys=("camera_depth",), **SMALL)
    with h5py.File(tmp_path / "out/dataset.h5") as file:
        depth = file["data/demo_000000/obs/camera_depth"]
        assert depth.dtype == np.uint16 and depth[:].max() > 500
        assert found[4]["obs"]["camera_depth"].dtype == torch.int32
        assert_same(found[4]["obs"]["camera_depth"][:, 0], depth[found.index[4, 1] - 1 : found.index[4, 1] + 1, :, :, 0].astype("i4"))


# DataLoader


@loaders
@pytest.mark.parametrize("workers, context", [(0, None), (2, "fork"), (2, "spawn")])
@pytest.mark.parametrize("fast", [False, True])
def test_a_data_loader_makes_the_same_batches_with_any_workers(holes, workers, context, fast):
    from takeset.torch import collate
    from torch.utils.data import DataLoader

    found = windows(holes, None, keys=("camera_image", "pose"), **SMALL)
    samples = [as_numpy(found[i]) for i in range(len(found))]  # the files are open now
    options = {"collate_fn": collate} if fast else {}
    batches = list(DataLoader(found, batch_size=16, num_workers=workers, multiprocessing_context=context, **options))
    assert len(batches) > 2
    for number, batch in enumerate(batches):
        assert_same(batch, joined(samples[16 * number : 16 * number + 16]))
    assert batches[0]["obs"]["camera_image"].shape == (16, 2, 3, 240, 320)


@loaders
@pytest.mark.parametrize("workers, context", [(0, None), (2, "fork"), (2, "spawn")])
def test_a_seed_repeats_an_epoch(holes, workers, context):
    import torch
    from takeset.torch import collate
    from torch.utils.data import DataLoader

    found = windows(holes, None, crop=(200, 300), random_crop=True, **SMALL)

    def epoch(seed):
        torch.manual_seed(seed)
        loader = DataLoader(found, 16, shuffle=True, num_workers=workers, multiprocessing_context=context, collate_fn=collate)
        return [batch["obs"]["camera_image"].numpy() for batch in loader]

    first = epoch(1)
    assert_same(epoch(1), first)
    assert len(first) > 2 and not any(np.array_equal(one, other) for one, other in zip(epoch(2), first))


@loaders
@pytest.mark.parametrize("workers", [0, 2])
def test_frames_stay_in_channels_last_memory(holes, workers):
    import torch
    from takeset.torch import collate
    from torch.utils.data import DataLoader

    found = windows(holes, "valid", keys=("camera_image", "camera_depth"), **SMALL)
    batch = next(iter(DataLoader(found, batch_size=8, num_workers=workers, collate_fn=collate)))
    frames = batch["obs"]["camera_image"].flatten(0, 1)
    assert frames.shape == (16, 3, 240, 320) and frames.is_contiguous(memory_format=torch.channels_last)
    assert frames.data_ptr() == batch["obs"]["camera_image"].data_ptr(), "flattened without a copy"


# Normalization


@loaders
@pytest.mark.parametrize("method", [None, "gaussian", "minmax"])
def test_normalized_samples_come_back(acting, method):
    import torch

    keys = ("camera_image", "pose", "joints")
    names = [*keys, "actions", "action_joints"]
    plain = windows(acting, keys=keys, **SMALL)
    normal = windows(acting, keys=keys, normalize=names, normalization=method, **SMALL)
    assert set(normal.scalings) == set(names)
    flat = lambda sample: {**sample["obs"], **sample}  # noqa: E731
    for i in range(0, len(plain), 7):
        before, after = flat(plain[i]), flat(normal[i])
        for key in names:
            assert after[key].dtype == torch.float32 and not torch.equal(after[key], before[key])
            again = normal.denormalize(key, after[key])
            # Values are f4: of degrees and pixels, or of meters and rotations, which may vary by a thousandth around 1.
            close = 1e-4 if key in ("joints", "action_joints", "camera_image") else 5e-7
            np.testing.assert_allclose(again, before[key], rtol=2e-6, atol=close)
            torch.testing.assert_close(normal.normalize(key, before[key]), after[key])
            batch = torch.stack([after[key]] * 3)
            np.testing.assert_allclose(normal.denormalize(key, batch)[2], again)
    with pytest.raises(KeyError, match="pose is not normalized; nothing is"):
        plain.denormalize("pose", torch.zeros(7))


@loaders
def test_images_are_normalized_by_the_moments_of_each_color(acting):
    options = dict(keys=("camera_image",), actions=None, observation_horizon=1)
    found = windows(acting, normalize=["camera_image"], normalization="gaussian", **options)
    with h5py.File(acting / "dataset.h5") as file:
        pixels = np.concatenate([file["data"][name.decode()]["obs/camera_image"][:] for name in file["mask/train"]]).astype("f8")
    mean, deviation = pixels.mean(axis=(0, 1, 2)), pixels.std(axis=(0, 1, 2))
    every = np.stack([np.asarray(found[i]["obs"]["camera_image"][0]) for i in range(len(found))])
    assert len(every) == len(pixels)
    np.testing.assert_allclose(every.transpose(0, 2, 3, 1), (pixels - mean) / deviation, atol=1e-4)
    np.testing.assert_allclose([every.mean(axis=(0, 2, 3)), every.std(axis=(0, 2, 3))], [[0] * 3, [1] * 3], atol=1e-3)


@loaders
def test_a_masked_image_is_0_after_normalization_too(takeset, tmp_path):
    source = with_actions(tmp_path, takeset, missing=(5,), count=2)
    found = windows(source, None, keys=("camera_image",), actions=None, observation_horizon=2, normalize=["camera_image"])
    obs = found[found.index[:, 1].tolist().index(5)]["obs"]
    assert obs["camera_image_valid"].tolist() == [True, False]
    assert obs["camera_image"][0].any() and not obs["camera_image"][1].any()


# Images


def frames(dataset, found, i):
    """The stored frames of a window, (o, H, W, 3)."""
    number, t = found.index[i]
    with h5py.File(dataset / "dataset.h5") as file:
        return file["data"][found.episodes[number]]["obs/camera_image"][t - 1 : t + 1]


@loaders
@pytest.mark.parametrize("size", [(96, 128), (100, 60), (300, 400)])
def test_images_are_resized_as_pillow_does(holes, size):
    found = windows(holes, "train", image_size=size, **SMALL)
    sample = np.asarray(found[5]["obs"]["camera_image"])
    assert sample.shape == (2, 3, *size) and sample.dtype == np.uint8
    expected = [np.asarray(Image.fromarray(one).resize(size[::-1], Image.Resampling.BILINEAR)) for one in frames(holes, found, 5)]
    difference = np.abs(sample.transpose(0, 2, 3, 1).astype(int) - np.stack(expected))
    assert difference.max() <= 1 and difference.mean() < 0.2


@loaders
def test_the_center_is_cropped_after_resizing(holes):
    whole, cropped = windows(holes, "train", **SMALL), windows(holes, "train", crop=(216, 288), **SMALL)
    assert_same(cropped[9]["obs"]["camera_image"], whole[9]["obs"]["camera_image"][:, :, 12:228, 16:304])
    resized = windows(holes, "train", image_size=(96, 128), **SMALL)
    both = windows(holes, "train", image_size=(96, 128), crop=(95, 128), **SMALL)
    assert_same(both[9]["obs"]["camera_image"], resized[9]["obs"]["camera_image"][:, :, :95])


@loaders
def test_a_random_crop_is_at_one_place_in_all_frames_of_a_window(holes):
    import torch

    whole, found = windows(holes, "train", **SMALL), windows(holes, "train", crop=(230, 300), random_crop=True, **SMALL)
    torch.manual_seed(3)
    places, (before, after) = [], np.asarray(whole[2]["obs"]["camera_image"])
    for _ in range(40):
        first, second = np.asarray(found[2]["obs"]["camera_image"])
        (place,) = [(y, x) for y in range(11) for x in range(21) if np.array_equal(before[:, y : y + 230, x : x + 300], first)]
        places.append(place)
        y, x = place
        assert_same(second, after[:, y : y + 230, x : x + 300])
    assert len(set(places)) > 25
    assert {min(y for y, _ in places), max(y for y, _ in places)} == {0, 10}, "every place is reached, the last ones too"
    torch.manual_seed(3)
    again = found[2]["obs"]["camera_image"]
    y, x = places[0]
    assert_same(again, whole[2]["obs"]["camera_image"][:, :, y : y + 230, x : x + 300])


@loaders
def test_a_transform_gets_the_frames_of_a_window(holes):
    import torch

    seen = []

    def gray(images):
        seen.append((images.shape, images.dtype))
        return images.float().mean(dim=1, keepdim=True)

    whole, found = windows(holes, "train", **SMALL), windows(holes, "train", crop=(200, 300), image_transform=gray, **SMALL)
    sample = found[4]["obs"]["camera_image"]
    assert seen == [((2, 3, 200, 300), torch.uint8)] and sample.shape == (2, 1, 200, 300)
    expected = np.asarray(whole[4]["obs"]["camera_image"], float)[:, :, 20:220, 10:310].mean(axis=1, keepdims=True)
    np.testing.assert_allclose(sample, expected, rtol=1e-6)


@loaders
def test_images_can_be_floats_from_0_to_1(holes):
    import torch

    found = windows(holes, "train", image_floats=True, **SMALL)
    assert found[4]["obs"]["camera_image"].dtype == torch.float32
    np.testing.assert_allclose(found[4]["obs"]["camera_image"], frames(holes, found, 4).transpose(0, 3, 1, 2) / 255, rtol=1e-6)


@loaders
def test_images_of_several_sizes_make_batches_when_they_are_resized(holes, tmp_path):
    from torch.utils.data import DataLoader

    mixed = with_smaller_images(holes, tmp_path / "out", V2)
    found = windows(mixed, None, image_size=(96, 128), **SMALL)
    (batch,) = DataLoader(found, batch_size=len(found))
    assert batch["obs"]["camera_image"].shape == (len(found), 2, 3, 96, 128) and set(found.index[:, 0]) == {0, 1}


@loaders
def test_mistakes_about_images_are_found_at_once(holes):
    with pytest.raises(ValueError, match="crop is 300x241, and camera_image is only 320x240"):
        windows(holes, "train", crop=(241, 300), **SMALL)
    with pytest.raises(ValueError, match="crop is 129x96, and camera_image is only 128x96"):
        windows(holes, "train", image_size=(96, 128), crop=(96, 129), **SMALL)
    with pytest.raises(ValueError, match=r"random_crop=True needs crop=\(height, width\)"):
        windows(holes, "train", random_crop=True, **SMALL)
    with pytest.raises(ValueError, match=r"image_size is \(height, width\) in pixels, found 96"):
        windows(holes, "train", image_size=96, **SMALL)
