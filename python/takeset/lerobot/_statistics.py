"""Statistics as LeRobot has them: of each episode, and those of all episodes together.

Quantiles are read off a histogram of 5000 bins between minimum and maximum, linear within a bin. Of several episodes they are the mean of
the episodes' quantiles, weighted by their counts, as LeRobot merges them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Statistics = dict[str, NDArray[Any]]

QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
NAMES = ("min", "max", "mean", "std", "count", *QUANTILES)
_BINS = 5000


def of_vectors(values: NDArray[Any]) -> Statistics:
    """Statistics of (T, k) numbers, each (k,). NaN is left out; of a column without numbers they are 0."""
    columns = [column[~np.isnan(column)] for column in np.asarray(values, np.float64).T]
    return _joined([_of_values(*np.unique(column, return_counts=True)) for column in columns], len(values))


class Pixels:
    """Counts the values of images or depth maps, so that memory does not grow with their number.

    channels  3 or 1
    levels    number of different values: 256 or 65536
    """

    def __init__(self, channels: int, levels: int) -> None:
        self.images = 0
        self._counts = np.zeros((channels, levels), np.int64)

    def add(self, image: NDArray[Any]) -> None:
        """Adds an image (H, W, channels); of a large one only every so many rows and columns."""
        step = _step(image.shape[0], image.shape[1])
        for channel, counts in enumerate(self._counts):
            counts += np.bincount(image[::step, ::step, channel].reshape(-1), minlength=len(counts))
        self.images += 1

    def statistics(self, scale: float) -> Statistics:
        """Statistics of values divided by `scale`, each (channels, 1, 1)."""
        columns = []
        for counts in self._counts:
            (values,) = np.nonzero(counts)
            columns.append({name: value / scale for name, value in _of_values(values.astype(np.float64), counts[values]).items()})
        joined = _joined(columns, self.images)
        return {name: value if name == "count" else value.reshape(-1, 1, 1) for name, value in joined.items()}


def sampled(rows: int) -> NDArray[np.int64]:
    """The rows of an episode whose images are counted: evenly spread, 100 or more, all of a short one."""
    count = max(min(rows, 100), min(int(rows**0.75), 10_000))
    return np.unique(np.round(np.linspace(0, rows - 1, count)).astype(np.int64))


def merged(episodes: Sequence[Statistics]) -> Statistics:
    """Statistics of all episodes of a feature."""
    counted = [one for one in episodes if one["count"][0]] or list(episodes[:1])
    weights = np.array([float(max(one["count"][0], 1)) for one in counted])
    weights /= weights.sum()

    def mean(values: list[NDArray[Any]]) -> NDArray[Any]:
        return np.asarray(np.tensordot(weights, np.stack(values), axes=1))

    center = mean([one["mean"] for one in counted])
    found: Statistics = {
        "min": np.min([one["min"] for one in counted], axis=0),
        "max": np.max([one["max"] for one in counted], axis=0),
        "mean": center,
        "std": np.sqrt(mean([one["std"] ** 2 + (one["mean"] - center) ** 2 for one in counted])),
        "count": np.sum([one["count"] for one in episodes], axis=0),
    }
    return found | {name: mean([one[name] for one in counted]) for name in QUANTILES}


def _step(height: int, width: int) -> int:
    if max(width, height) < 300:
        return 1
    return int((width if width > height else height) / 150)


def _of_values(values: Floats, counts: NDArray[np.int64]) -> dict[str, float]:
    """Statistics of different values that occur so many times."""
    total = int(counts.sum())
    if total == 0:
        return dict.fromkeys(NAMES, 0.0) | {"count": 0.0}
    mean = float(np.average(values, weights=counts))
    low, high = float(values.min()), float(values.max())
    found = {
        "min": low,
        "max": high,
        "mean": mean,
        "std": float(np.sqrt(np.average((values - mean) ** 2, weights=counts))),
        "count": float(total),
    }
    if total < 2:
        return found | dict.fromkeys(QUANTILES, mean)
    edges = np.linspace(low - 1e-10, high + 1e-10, _BINS + 1)
    filled = np.cumsum(np.histogram(values, bins=edges, weights=counts)[0])
    return found | {name: _quantile(filled, edges, part * total) for name, part in QUANTILES.items()}


def _quantile(filled: NDArray[Any], edges: Floats, wanted: float) -> float:
    place = int(np.searchsorted(filled, wanted))
    if place == 0:
        return float(edges[0])
    if place >= len(filled):
        return float(edges[-1])
    before, through = filled[place - 1], filled[place]
    return float(edges[place] + (wanted - before) / (through - before) * (edges[place + 1] - edges[place]))


def _joined(columns: list[dict[str, float]], count: int) -> Statistics:
    """One array of each statistic. The count is that of rows, or, if values are missing in all columns, of the rows that have some."""
    found: Statistics = {name: np.array([column[name] for column in columns]) for name in NAMES if name != "count"}
    return found | {"count": np.array([count if any(column["count"] for column in columns) else 0], np.int64)}
