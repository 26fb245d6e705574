"""Scale and offset of channels, and the moments that they are computed from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._errors import TakesetError
from ._stats import Statistics

Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class Scaling:
    """normalized = (x - offset) / scale, by channel; x = normalized * scale + offset.

    scale, offset  (C,) float64; scale is never 0
    """

    scale: Float64
    offset: Float64

    def normalize(self, values: NDArray[Any], axis: int = -1) -> NDArray[np.float32]:
        """Normalized values, with the channels along this axis; computed in float64, because a range may be small against its offset."""
        shape = [1] * values.ndim
        shape[axis] = -1
        normalized: NDArray[np.float32] = ((values - self.offset.reshape(shape)) / self.scale.reshape(shape)).astype(np.float32)
        return normalized

    def leaving(self, channels: slice) -> Scaling:
        """The same, but these channels stay as they are."""
        scale, offset = self.scale.copy(), self.offset.copy()
        scale[channels], offset[channels] = 1, 0
        return Scaling(scale, offset)


class Moments:
    """Count, mean, variance, least and greatest value of each of C channels, of rows that are added in batches."""

    def __init__(self, channels: int) -> None:
        self.count = 0
        self.mean, self._squares = np.zeros(channels), np.zeros(channels)
        self.min, self.max = np.full(channels, np.inf), np.full(channels, -np.inf)

    def add(self, rows: NDArray[np.floating]) -> None:
        """Adds (n, C) values, by the formula for merging two groups (Chan, Golub and LeVeque 1979)."""
        if not len(rows):
            return
        values = np.asarray(rows, np.float64)
        mean = values.mean(axis=0)
        difference, total = mean - self.mean, self.count + len(values)
        self._squares += ((values - mean) ** 2).sum(axis=0) + difference**2 * (self.count * len(values) / total)
        self.mean += difference * (len(values) / total)
        self.min, self.max = np.minimum(self.min, values.min(axis=0)), np.maximum(self.max, values.max(axis=0))
        self.count = total

    def scaling(self, method: str) -> Scaling:
        """Scale and offset of the method minmax or gaussian, as statistics of a dataset have them."""
        if not self.count:
            raise TakesetError("no action of the training episodes is known, so there is nothing to normalize actions by")
        nothing = np.full(len(self.mean), np.nan)
        deviation = np.sqrt(self._squares / self.count)
        statistics = Statistics(
            "actions", np.full(len(self.mean), self.count), self.mean, deviation, self.min, self.max, nothing, nothing)
        return Scaling(*statistics.parameters(method))
