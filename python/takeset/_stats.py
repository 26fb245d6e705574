"""Statistics of the training episodes, and normalization by them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._errors import TakesetError, UnknownKey
from ._hdf5 import Dataset, Group, find, members, numbers, text, title

Numbers = NDArray[np.float64]

# Below it, a range or a standard deviation is no more than rounding; the step `normalize` of a pipeline has the same limit.
LEAST_SCALE = 1e-6


@dataclass(frozen=True, eq=False)
class Statistics:
    """Statistics of one key over the valid samples of the training episodes; one element per channel, (C,).

    A channel is an element of a vector, a column of actions or a color of images. Channels without a valid sample have count 0 and NaN.

    key                  of `dataset.statistics`
    count                (C,) int64
    mean, std, min, max  (C,) float64, in `unit`
    q01, q99             (C,) float64, 1st and 99th percentile
    unit                 of the values
    method               minmax or gaussian where the pipeline has `normalize`, else None
    scale, offset        (C,) float64 where the pipeline has `normalize`, else None: normalized = (x - offset) / scale
    """

    key: str
    count: NDArray[np.int64]
    mean: Numbers
    std: Numbers
    min: Numbers
    max: Numbers
    q01: Numbers
    q99: Numbers
    unit: str = ""
    method: str | None = None
    scale: Numbers | None = None
    offset: Numbers | None = None

    def normalize(self, x: ArrayLike, method: str | None = None, axis: int = -1) -> NDArray[np.floating[Any]]:
        """(x - offset) / scale, computed in float64, because a range may be small against its offset. NaN stays NaN.

        x       (..., C), or with the channels on another axis; the result has its shape, in float64 for float64, else in float32

        method  None: that of the pipeline's `normalize`, or gaussian without one. minmax: least and greatest value become -1 and 1.
                quantile: 1st and 99th percentile become -1 and 1. gaussian: mean 0 and standard deviation 1
        axis    the axis of the channels
        """
        values, scale, offset = self._prepared(x, method, axis)
        return _rounded((values - offset) / scale, values)

    def denormalize(self, x: ArrayLike, method: str | None = None, axis: int = -1) -> NDArray[np.floating[Any]]:
        """x * scale + offset: undoes `normalize` with the same arguments."""
        values, scale, offset = self._prepared(x, method, axis)
        return _rounded(values * scale + offset, values)

    def parameters(self, method: str | None = None) -> tuple[Numbers, Numbers]:
        """(scale, offset), each (C,) float64, as `normalize` uses them.

        A channel whose range or deviation is below 1e-6 has scale 1; one without values has scale 1 and offset 0.
        """
        if method is None and self.scale is not None and self.offset is not None:
            return self.scale, self.offset
        if method in (None, "gaussian"):
            scale, offset = self.std, self.mean
        elif method in ("minmax", "quantile"):
            low, high = (self.min, self.max) if method == "minmax" else (self.q01, self.q99)
            scale, offset = (high - low) / 2, low + (high - low) / 2
        else:
            raise ValueError(f"method is minmax, gaussian or quantile, found {method!r}")
        width = scale if method in (None, "gaussian") else 2 * scale
        known = np.isfinite(scale) & np.isfinite(offset)
        return np.where(known & (width >= LEAST_SCALE), scale, 1.0), np.where(known, offset, 0.0)

    def _prepared(self, x: ArrayLike, method: str | None, axis: int) -> tuple[NDArray[Any], Numbers, Numbers]:
        values = np.asarray(x)
        if not -values.ndim <= axis < values.ndim or values.shape[axis] != len(self.mean):
            raise TakesetError(f"{self.key} has {len(self.mean)} channels, and axis {axis} of values of shape {values.shape} does not")
        shape = [1] * values.ndim
        shape[axis] = -1
        scale, offset = self.parameters(method)
        return values, scale.reshape(shape), offset.reshape(shape)


def _rounded(result: NDArray[Any], values: NDArray[Any]) -> NDArray[np.floating[Any]]:
    return result.astype(np.float64 if values.dtype == np.float64 else np.float32, copy=False)


class StatisticsByKey(Mapping[str, Statistics]):
    """The statistics of a dataset by key: those of `obs`, `actions`, `action_chunk` and `action_dict/<part>`.

    If takes give a key several meanings, such as pose in meters and in an arbitrary unit, there is no `pose`, but `pose@m` and
    `pose@arbitrary`; `stream.statistics` finds the one for a stream.
    """

    def __init__(self, group: Group | None) -> None:
        self._by_key: dict[str, Statistics] = {}
        if group is not None:
            self._collect(group, "")

    def __getitem__(self, key: str) -> Statistics:
        try:
            return self._by_key[key]
        except KeyError:
            apart = [other for other in self._by_key if other.startswith(f"{key}@")]
            raise UnknownKey(
                f"takes give {key} different meanings, which have separate statistics: {', '.join(apart)}"
                if apart
                else f"there are no statistics of {key}; there are those of {', '.join(self._by_key) or 'nothing'}"
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return len(self._by_key)

    def __repr__(self) -> str:
        return f"<takeset statistics of {', '.join(self._by_key) or 'nothing'}>"

    def find(self, name: str, unit: str, axes: str | None, channels: int, type_name: str) -> Statistics | None:
        """The statistics that apply to a stream of this name, unit, camera axes, number of channels and type."""
        if name in self._by_key:
            return self._by_key[name]
        # A label has only the distinctions that its unit needs, in this order; the longest that is there is the stream's.
        labels = [f"{name}@{unit}"]
        for detail in (axes, str(channels), type_name):
            labels += [f"{label} ({detail})" for label in labels if detail is not None]
        found = [label for label in labels if label in self._by_key]
        return self._by_key[max(found, key=len)] if found else None

    def _collect(self, group: Group, prefix: str) -> None:
        for name in members(group):
            member = find(group, name)
            if not isinstance(member, Group):
                continue
            key = prefix + name
            if isinstance(find(member, "mean"), Dataset):
                self._by_key[key] = _statistics(key, member)
            self._collect(member, key + "/")


def _statistics(key: str, group: Group) -> Statistics:
    moments = {name: _channels(group, name).astype(np.float64) for name in ("mean", "std", "min", "max", "q01", "q99")}
    stored = {name: _channels(group, name).astype(np.float64) for name in ("scale", "offset") if find(group, name) is not None}
    count = _channels(group, "count")
    if len({len(values) for values in (count, *moments.values(), *stored.values())}) != 1 or count.dtype.kind not in "iu":
        raise TakesetError(f"{title(group)} is damaged: its numbers are not those of the same channels")
    method = text(group, "normalization") or None
    return Statistics(key, count.astype(np.int64), unit=text(group, "unit"), method=method, **moments, **stored)


def _channels(group: Group, name: str) -> NDArray[Any]:
    """Numbers of the statistics of a key, one for each channel."""
    found = find(group, name)
    if not isinstance(found, Dataset):
        raise TakesetError(f"{title(group)} is damaged: it has no {name}")
    return numbers(found).ravel()
