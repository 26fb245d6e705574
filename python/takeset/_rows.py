"""Rows as they are asked for: a number, a slice, or an array of numbers or of truth values."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._errors import OutOfRange

RowNumbers = range | NDArray[np.int64]


def row_number(index: Any, count: int, what: Callable[[], str]) -> int:
    """One row by its number; negative ones count from the end. Raises `OutOfRange`."""
    row = operator.index(index)
    if not -count <= row < count:
        raise OutOfRange(f"{what()} has rows 0 to {count - 1}, and row {row} was asked for" if count else f"{what()} has no rows")
    return row % count


def row_numbers(index: Any, count: int, what: Callable[[], str]) -> RowNumbers:
    """Row numbers from 0, in the order asked for, of a slice or a one-dimensional array or list. Raises `OutOfRange` and `TypeError`."""
    if isinstance(index, slice):
        return range(*index.indices(count))
    if isinstance(index, range):
        index = np.arange(index.start, index.stop, index.step)
    rows = np.asarray(index) if not isinstance(index, tuple) else np.empty((0, 0))
    if rows.size == 0 and rows.ndim == 1:
        return np.empty(0, np.int64)
    if rows.ndim != 1 or rows.dtype.kind not in "iub":
        raise TypeError(f"{what()}: rows are a number, a slice or a one-dimensional array, found {index!r}; index further in the result")
    if rows.dtype.kind == "b":
        if len(rows) != count:
            raise OutOfRange(f"{what()} has {count} rows, and the mask has {len(rows)}")
        return np.flatnonzero(rows).astype(np.int64)
    rows = rows.astype(np.int64)
    beyond = (rows < -count) | (rows >= count)
    if beyond.any():
        row_number(int(rows[beyond][0]), count, what)
    return np.where(rows < 0, rows + count, rows)


def runs(rows: RowNumbers) -> list[tuple[int, int, int]]:
    """Rows that follow each other: (place in the result, first row, row after the last)."""
    if isinstance(rows, range) and rows.step == 1:
        return [(0, rows.start, rows.stop)] if len(rows) else []
    numbers = np.asarray(rows)
    if not len(numbers):
        return []
    starts = [0, *(np.flatnonzero(np.diff(numbers) != 1) + 1).tolist()]
    ends = [*starts[1:], len(numbers)]
    return [(start, int(numbers[start]), int(numbers[end - 1]) + 1) for start, end in zip(starts, ends)]
