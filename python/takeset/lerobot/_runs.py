"""Runs: rows of an episode that LeRobot gets as an episode. A row's time there is its number divided by the rate, and nothing is masked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Run:
    """Rows from `first` until before `end`."""

    first: int
    end: int

    def __len__(self) -> int:
        return self.end - self.first


@dataclass(frozen=True)
class Cut:
    """An episode cut into runs.

    runs      in order
    dropped   numbers of rows that are in no run, by what they lack; a row that lacks several things counts under each. `too-short` are the
              rows of runs that are shorter than wanted
    """

    runs: tuple[Run, ...]
    dropped: dict[str, int] = field(default_factory=dict)


def cut(valid: Mapping[str, NDArray[np.bool_]], segments: list[tuple[int, int]], min_frames: int) -> Cut:
    """Cuts an episode at rows that lack something, and at gaps.

    valid     (T,) bool by key: the row has what the key needs
    segments  (first row, row after the last) of the stretches without gaps
    """
    runs: list[Run] = []
    dropped = {key: int(np.count_nonzero(~rows)) for key, rows in valid.items() if not rows.all()}
    short = 0
    for first, end in segments:
        good = np.ones(end - first, bool)
        for rows in valid.values():
            good &= rows[first:end]
        edges = np.flatnonzero(np.diff(np.concatenate([[False], good, [False]]).astype(np.int8)))
        for start, stop in edges.reshape(-1, 2).tolist():
            if stop - start >= min_frames:
                runs.append(Run(first + start, first + stop))
            else:
                short += stop - start
    return Cut(tuple(runs), dropped | ({"too-short": short} if short else {}))


@dataclass(frozen=True)
class Timing:
    """How rows lie in time, compared with a rate.

    error_s  largest distance of a row from its number divided by the rate, seconds after the first row of its run
    rate_hz  rows per second
    """

    error_s: float
    rate_hz: float


def timing(times_ns: NDArray[np.int64], runs: tuple[Run, ...], fps: int) -> Timing:
    """How the rows of these runs lie in time; times_ns is (T,), of all rows of the episode."""
    error, steps, duration = 0.0, 0, 0
    for run in runs:
        times = times_ns[run.first : run.end] - times_ns[run.first]
        error = max(error, float(np.abs(times - np.arange(len(run)) * (1e9 / fps)).max()) / 1e9)
        steps, duration = steps + len(run) - 1, duration + int(times[-1])
    return Timing(error, steps / duration * 1e9 if duration else 0.0)
