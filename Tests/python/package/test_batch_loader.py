"""Shuffled batches by threads: `takeset.windows.Loader`, and `takeset.torch.Loader` where PyTorch is."""

import gc
import threading

import numpy as np
import pytest
from window_datasets import SMALL, with_actions

from takeset import TakesetError
from takeset._loading import Buffers
from takeset.windows import Loader, Windows

KEYS = dict(keys=("camera_image", "pose"), **SMALL)


def flat(batch, prefix=""):
    """The entries of a batch by their paths."""
    found = {}
    for key, value in batch.items():
        found |= flat(value, f"{prefix}{key}/") if isinstance(value, dict) else {prefix + key: value}
    return found


def assert_same(batch, expected):
    assert batch.keys() == expected.keys()
    for key, value in flat(batch).items():
        np.testing.assert_array_equal(value, flat(expected)[key], err_msg=key)


def joined(windows, numbers):
    """A batch of single windows, by NumPy."""
    samples = [flat(windows[int(i)]) for i in numbers]
    return {key: [s[key] for s in samples] if key == "text" else np.stack([s[key] for s in samples]) for key in samples[0]}


@pytest.mark.parametrize("options", [
    dict(keys=("camera_image", "pose")), dict(split="valid", keys=("camera_image", "camera_depth", "pose"), pad=True, skip_masked=(), labels=True),
    dict(keys=("pose",), actions=None), dict(keys=("pose", "joints"), actions="stored", normalize=True),
    dict(split=["session_2026-02-01_130000"], keys=("pose",), normalize=True, normalization="gaussian", joints="append"),
], ids=["images", "depth", "poses", "stored", "appended"])  # fmt: skip
@pytest.mark.parametrize("threads", [1, 3])
def test_batches_are_the_windows_of_the_order(holes, acting, options, threads):
    source = acting if options.get("actions") == "stored" else holes
    windows = Windows(source, **{"split": None, "action_horizon": 4, **options})
    loader = Loader(windows, 8, threads, seed=3, drop_last=False)
    for epoch in range(2):
        order = loader.order(epoch)
        assert sorted(order) == list(range(len(windows)))
        batches = list(loader)  # all are held, so no memory may be used again
        assert len(batches) == len(loader) == -(-len(windows) // 8)
        for number, batch in enumerate(batches):
            expected = joined(windows, order[8 * number : 8 * number + 8])
            assert flat(batch).keys() == expected.keys()
            for key, value in flat(batch).items():
                np.testing.assert_array_equal(value, expected[key], err_msg=key)
    assert (loader.order(0) != loader.order(1)).any() and (loader.order(0) == Loader(windows, 8, seed=3).order(0)).all()
    assert (Loader(windows, 8, shuffle=False).order(5) == np.arange(len(windows))).all()


def test_an_epoch_goes_on_where_it_was_saved(holes):
    windows = Windows(holes, None, **KEYS)
    whole = Loader(windows, 4, 2, seed=1)
    expected = [batch for _ in range(2) for batch in whole]
    steps = len(whole)
    for given in (0, 1, steps - 1, steps, steps + 2):
        first, states = Loader(windows, 4, 3, seed=1), []
        while len(states) < given:
            for _ in first:
                states.append(first.state_dict())
                if len(states) == given:
                    break
        later = Loader(windows, 4, 1, seed=1)
        later.load_state_dict(states[-1] if states else first.state_dict())
        left = list(later)
        assert len(left) == steps - given % steps
        for batch, other in zip(left, expected[given:]):
            assert_same(batch, other)
    with pytest.raises(TakesetError, match="seed=1, and this one has seed=2"):
        Loader(windows, 4, seed=2).load_state_dict(whole.state_dict())
    with pytest.raises(TakesetError, match="shuffle=1, and this one has shuffle=0"):
        Loader(windows, 4, seed=1, shuffle=False).load_state_dict(whole.state_dict())
    with pytest.raises(TakesetError, match="step -1 of epoch 0"):
        whole.load_state_dict({key: value for key, value in whole.state_dict().items() if key != "step"} | {"epoch": 0})
    with pytest.raises(TakesetError, match="step 999 of epoch 0"):
        whole.load_state_dict(whole.state_dict() | {"step": 999, "epoch": 0})


def test_a_loop_that_is_left_is_followed_by_the_next_epoch(holes):
    loader = Loader(Windows(holes, None, **KEYS), 4, 2)
    for _ in loader:
        break
    assert_same(next(iter(loader)), loader.windows.batch(loader.order(1)[:4].tolist()))
    gc.collect()
    for thread in [one for one in threading.enumerate() if one.name.startswith("takeset-loader")]:
        thread.join(60)
        assert not thread.is_alive()


def test_parts_have_as_many_batches_and_share_all(holes):
    windows = Windows(holes, None, **KEYS)
    whole = Loader(windows, 4, 1)
    parts = [Loader(windows, 4, 1, part=(number, 2)) for number in range(2)]
    assert [len(part) for part in parts] == [len(whole) // 2] * 2
    batches = [list(part) for part in parts]
    for step in range(len(whole) // 2 * 2):
        assert_same(batches[step % 2][step // 2], windows.batch(whole.order(0)[4 * step : 4 * step + 4].tolist()))


def test_memory_is_used_again_only_when_nobody_has_it():
    buffers = Buffers(2)
    first = buffers.new((1 << 10, 1 << 8), "u1")
    view, place = first[3:, ::2].reshape(-1)[5:].view(), first.ctypes.data
    del first
    assert buffers.new((1 << 10, 1 << 8), "u1").ctypes.data != place
    part = view[::3]
    del view
    assert buffers.new((1 << 18,), "u1").ctypes.data != place
    del part
    found = {buffers.new((1 << 16,), "f4").ctypes.data, (again := buffers.new((1 << 17,), "u2")).ctypes.data}
    assert place in found and again.dtype == np.uint16


def test_a_batch_that_cannot_be_read_is_named(takeset, tmp_path):
    path = with_actions(tmp_path, takeset, count=1)
    windows = Windows(path, None, keys=("camera_image",), actions=None, observation_horizon=1)
    loader = Loader(windows, 2, 2, shuffle=False)
    batches = iter(loader)
    next(batches)
    shard = next((path / "episodes").glob("*.h5"))
    with shard.open("r+b") as file:
        file.truncate(shard.stat().st_size // 3)
    with pytest.raises(TakesetError, match="cut short"):
        list(batches)


@pytest.mark.parametrize("options, message", [
    ({"batch_size": 0}, "batch_size must be at least 1, found 0"), ({"threads": 0}, "threads must be at least 1"),
    ({"seed": -1}, "seed must be at least 0"), ({"part": (2, 2)}, r"part is \(number, count\)"), ({"batch_size": 10_000}, "make no batch of 10000"),
])  # fmt: skip
def test_options_that_make_no_sense(holes, options, message):
    with pytest.raises(ValueError, match=message):
        Loader(Windows(holes, None, **KEYS), **options)


@pytest.mark.loaders
def test_pytorch_has_the_same_batches(holes):
    import torch
    from takeset.torch import Loader as TorchLoader
    from takeset.torch import Windows as TorchWindows
    from takeset.torch import collate

    options = dict(crop=(200, 300), random_crop=True, image_floats=True, normalize=["actions"], **KEYS)
    windows = TorchWindows(holes, None, **options)
    epochs = [[flat(batch) for batch in TorchLoader(windows, 8, threads, seed=5)] for threads in (1, 3)]
    for one, other in zip(*epochs, strict=True):
        assert_same(one, other)
    assert not torch.equal(epochs[0][0]["obs/camera_image"], epochs[0][1]["obs/camera_image"])
    plain = TorchWindows(holes, None, **KEYS)
    loader = TorchLoader(plain, 8, 2, seed=5)
    for number, batch in enumerate(loader):
        expected = flat(collate([plain[int(i)] for i in loader.order(0)[8 * number : 8 * number + 8]]))
        for key, value in flat(batch).items():
            np.testing.assert_array_equal(value, expected[key], err_msg=key)
            assert value.stride() == expected[key].stride(), key
    with pytest.raises(ValueError, match="needs CUDA"):
        TorchLoader(plain, pin_memory=True)


@pytest.mark.loaders
def test_windows_that_somebody_changed_are_loaded_as_they_are(holes):
    import torch
    from takeset.torch import Loader as TorchLoader
    from takeset.torch import Windows as TorchWindows

    class Marked(TorchWindows):
        def __getitem__(self, i):
            return super().__getitem__(i) | {"mark": i}

    loader = TorchLoader(Marked(holes, None, **KEYS), 4, 2, shuffle=False)
    assert next(iter(loader))["mark"].tolist() == [0, 1, 2, 3]
    with pytest.raises(TypeError, match="found Subset; DataLoader takes any dataset"):
        TorchLoader(torch.utils.data.Subset(loader.windows, [1, 2]), 4)
