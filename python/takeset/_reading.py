"""Rows of an episode as a window needs them."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._episode import Episode
from ._errors import TakesetError
from ._scaling import Scaling
from ._stream import Stream

Bool = NDArray[np.bool_]
# Makes an array of a shape and a type.
New = Callable[[tuple[int, ...], Any], NDArray[Any]]


class RowRange(NamedTuple):
    """Rows to read, and the order and number of times in which they are wanted; None: each once."""

    taken: slice
    order: NDArray[np.int64] | None

    def read(self, values: Stream | NDArray[Any], out: NDArray[Any]) -> None:
        """Writes the rows into a C-contiguous array of their shape and type."""
        if self.order is not None:
            out[...] = values[self.taken][self.order]
        elif isinstance(values, Stream):
            values.read(self.taken, out)
        else:
            out[...] = values[self.taken]


class Window(NamedTuple):
    """A row t of an episode, and the run of rows between two gaps that it belongs to: [first, end)."""

    t: int
    first: int
    end: int

    def rows(self, start: int, stop: int) -> RowRange:
        """Rows t+start … t+stop-1. Where the run does not have them, its first or last row stands for them."""
        low, high = self.t + start, self.t + stop
        if self.first <= low and high <= self.end:
            return RowRange(slice(low, high), None)
        wanted = np.clip(np.arange(low, high), self.first, self.end - 1)
        return RowRange(slice(int(wanted[0]), int(wanted[-1]) + 1), wanted - wanted[0])

    def is_pad(self, start: int, stop: int) -> Bool:
        """Which of these rows another one stands for."""
        wanted = np.arange(self.t + start, self.t + stop)
        return np.asarray((wanted < self.first) | (wanted >= self.end))


class Place(NamedTuple):
    """A window of an episode."""

    rows: EpisodeRows
    window: Window


def gather(
    places: Sequence[Place], start: int, stop: int, values: Callable[[EpisodeRows], Stream | NDArray[Any]], new: New = np.empty
) -> NDArray[Any]:  # fmt: skip
    """Rows t+start … t+stop-1 of each window, (B, stop-start, …), of streams or arrays that are alike in all episodes."""
    first = values(places[0].rows)
    found = new((len(places), stop - start, *first.shape[1:]), first.dtype)
    for (rows, window), out in zip(places, found):
        window.rows(start, stop).read(values(rows), out)
    return found


def intact(mask: Bool, windows: NDArray[np.int64], start: int, stop: int) -> Bool:
    """Whether a mask is True in all rows t+start … t+stop-1, for windows (n, 3) of t, first, end; rows as in `Window.rows`."""
    t, first, end = windows.T
    masked = np.concatenate([[0], np.cumsum(~mask)])
    low, high = np.clip(t + start, first, end - 1), np.clip(t + stop - 1, first, end - 1) + 1
    return np.asarray(masked[high] == masked[low])


class EpisodeRows:
    """The streams and row masks of one episode, each found when it is first needed."""

    def __init__(self, episode: Episode) -> None:
        self.episode = episode
        self.segments = episode.segments()
        self._streams: dict[str, Stream] = {}
        self._masks: dict[tuple[str, str], Bool] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._streams or key in self.episode

    def __getitem__(self, key: str) -> Stream:
        stream = self._streams.get(key)
        if stream is None:
            stream = self._streams[key] = self.episode[key]
        return stream

    def first_of_kind(self, kind: str) -> str | None:
        """The stream of this kind that the step `actions` of a pipeline takes: the first by name; None if there is none."""
        return min((key for key in self.episode if self[key].kind == kind), default=None)

    def window(self, t: int) -> Window:
        """A row with the run of rows that it is in."""
        first, end = self.segments[bisect.bisect_right(self.segments, t, key=lambda segment: segment[0]) - 1]
        return Window(t, first, end)

    def valid(self, key: str) -> Bool:
        """(T,): rows with a sample."""
        return self._mask(key, "rows")

    def elements(self, key: str) -> Bool:
        """(T, …): the whole mask of single elements of a stream of numbers."""
        return self._mask(key, "elements")

    def complete(self, key: str) -> Bool:
        """(T,): rows of a stream of numbers with every number: none is masked, and none is NaN."""
        return self._mask(key, "complete")

    def scaling(self, key: str, method: str | None) -> Scaling:
        """By the dataset's statistics of a stream. Raises `TakesetError` if it has none."""
        statistics = self[key].statistics
        if statistics is None:
            known = ", ".join(self.episode.dataset.statistics)
            raise TakesetError(
                f"{self.episode.dataset.path} has no statistics to normalize {key} by"
                + (f"; it has those of {known}" if known else ": open the dataset.h5 that links this shard")
            )
        scale, offset = statistics.parameters(method)
        if len(scale) != self[key].shape[-1]:
            raise TakesetError(f"{self.episode}: {key} has {self[key].shape[-1]} channels, and its statistics have {len(scale)}")
        return Scaling(scale, offset)

    def _mask(self, key: str, kind: str) -> Bool:
        mask = self._masks.get((key, kind))
        if mask is None:
            mask = self._masks[key, kind] = self._make(key, kind)
            mask.flags.writeable = False
        return mask

    def _make(self, key: str, kind: str) -> Bool:
        if kind == "rows":
            return np.array(self[key].valid, np.bool_)
        elements = self[key].mask()
        if kind == "elements":
            return np.ones(self[key].shape, np.bool_) if elements is None else np.array(elements)
        finite = np.isfinite(self[key][:]) if elements is None else np.isfinite(self[key][:]) & elements
        return np.asarray(self.valid(key) & finite.all(axis=1))
