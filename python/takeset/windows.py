"""Training windows and shuffled batches of them as NumPy arrays, for whatever is not PyTorch.

    from takeset.windows import Loader, Windows

    windows = Windows("dataset/", split="train", observation_horizon=2, action_horizon=16)
    for batch in Loader(windows, batch_size=32):
        batch["obs"]["camera_image"]                      # (32, 2, 3, H, W) u1
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from ._dataset import Dataset
from ._loading import BatchLoader
from ._reading import New
from ._window_options import WindowOptions
from ._windows import WindowReader

__all__ = ["Loader", "Windows"]


class Windows(WindowReader):
    """The windows that `takeset.torch.Windows` describes, with its options but for those that change images; samples are of NumPy arrays.

    windows[3]           one window
    windows.batch([3, 8])   several together: each entry has one axis more, in front
    """

    def __init__(self, source: str | os.PathLike[str] | Dataset, split: str | Sequence[str] | None = "train", **options: Any) -> None:
        super().__init__(source, split, WindowOptions(**options))

    def batch(self, numbers: Sequence[int], new: New = np.empty, seed: int = 0) -> dict[str, Any]:
        """Windows together, into arrays that `new` makes; nothing about them is random."""
        return super().batch(numbers, new)


class Loader(BatchLoader[dict[str, Any]]):
    """Shuffled batches of `Windows` as NumPy arrays, made ahead of time by threads; `takeset.torch.Loader` describes the options.

    The memory of an array is used again when nothing refers to it or a view of it any more.
    """
