"""Frames of images and depth, read from the file by their place in it.

Takeset stores one frame per chunk, images uncompressed. HDF5 looks up each chunk in the file and reads it under a lock that all
threads share. Reading the bytes straight into the array takes half the processor time (0.8 ms and not 1.6 ms for 16 images of 640x480),
lets other threads run, and is as fast for scattered rows. Compressed frames are left to HDF5: it inflates them faster than Python's
zlib. So is whatever is stored in another way.

Image files are sequences of any length, for which HDF5 keeps references to heaps. Through it, two files cost a third of decoding them, again
under the lock; here they cost two system calls.
"""

from __future__ import annotations

import bisect
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._errors import TakesetError
from ._files import OpenFile
from ._hdf5 import Dataset, chunk_places, heap_references


@dataclass(frozen=True)
class FramePlaces:
    """Where each row of an uncompressed dataset with one row per chunk is in its file.

    offsets  (T,) int64, bytes from the start of the file
    size     bytes of a row
    ends     rows that do not follow the row before them in the file, and T
    """

    offsets: NDArray[np.int64]
    size: int
    ends: list[int]

    def read(self, file: OpenFile, rows: Sequence[int] | NDArray[np.int64], out: NDArray[Any]) -> None:
        """Reads rows into `out`, a C-contiguous array of them, from the file. Rows that follow each other in the file are read at once."""
        view = memoryview(out).cast("B")
        if isinstance(rows, range) and rows.step == 1:
            first = rows.start
            while first < rows.stop:
                end = min(self.ends[bisect.bisect_right(self.ends, first)], rows.stop)
                _read(file.descriptor, view[(first - rows.start) * self.size : (end - rows.start) * self.size], int(self.offsets[first]))
                first = end
            return
        wanted = self.offsets[np.asarray(rows)]
        ends = _ends(wanted, self.size)
        for first, end in zip([0, *ends], ends):
            _read(file.descriptor, view[first * self.size : end * self.size], int(wanted[first]))


def frame_places(dataset: Dataset) -> FramePlaces | None:
    """The places of a dataset's rows, or None where they cannot be read as they are stored."""
    found = chunk_places(dataset) if hasattr(os, "preadv") else None
    if found is None or (found[0] < 0).any():
        return None
    return FramePlaces(*found, _ends(*found))


# A reference: bytes of a file, the address of the heap that it is in, and its number there.
_REFERENCE = np.dtype([("size", "<u4"), ("heap", "<u8"), ("number", "<u4")])
# What stands before each object of a heap, and before the first one: a signature, the version, the size of all.
_OBJECT = struct.Struct("<HHIQ")
_HEAP = 16
# Files up to this size are read together with their head.
_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class EncodedPlaces:
    """Where the image file of each row is.

    references  (T,) of `_REFERENCE`
    offsets     (T,) int64, of the head of each object; -1 where it is not known
    """

    references: NDArray[Any]
    offsets: NDArray[np.int64]

    def read(self, file: OpenFile, row: int) -> bytes | None:
        """The file of a row, empty where it has none; None if HDF5 has to look for it."""
        size, _, number = self.references[row].item()
        if size == 0:
            return b""
        offset = int(self.offsets[row])
        if offset < 0:
            return None
        # The places were added up from the sizes of the objects before; the head of the object is what HDF5 itself goes by.
        head = bytearray(_OBJECT.size + (size if size < _AT_ONCE else 0))
        _read(file.descriptor, memoryview(head), offset)
        stored, _, _, length = _OBJECT.unpack_from(head)
        if (stored, length) != (number, size):
            return None
        if size < _AT_ONCE:
            return bytes(memoryview(head)[_OBJECT.size :])
        found = bytearray(size)
        _read(file.descriptor, memoryview(found), offset + _OBJECT.size)
        return bytes(found)


def encoded_places(dataset: Dataset, file: OpenFile) -> EncodedPlaces | None:
    """The places of a dataset's image files, or None where HDF5 has to find them."""
    stored = heap_references(dataset) if hasattr(os, "preadv") else None
    if stored is None:
        return None
    references = np.empty(len(dataset), _REFERENCE)
    _read(file.descriptor, memoryview(references).cast("B"), stored)
    # Each heap has its objects in the order of their numbers, from 1, as they were added.
    order = np.lexsort((references["number"], references["heap"]))
    heaps, numbers, sizes = (references[name][order] for name in ("heap", "number", "size"))
    lengths = _OBJECT.size + (sizes.astype(np.int64) + 7) // 8 * 8
    before = np.cumsum(lengths) - lengths
    first = np.flatnonzero(np.concatenate([[True], heaps[1:] != heaps[:-1]])) if len(order) else np.empty(0, np.int64)
    start = np.repeat(first, np.diff(np.append(first, len(order))))
    place = np.minimum(heaps, 1 << 62).astype(np.int64) + _HEAP + before - before[start]
    is_known = (numbers == np.arange(len(order)) - start + 1) & (place + lengths <= file.stamp[2])
    offsets = np.full(len(order), -1, np.int64)
    offsets[order] = np.where(is_known, place, -1)
    return EncodedPlaces(references, offsets)


def _ends(offsets: NDArray[np.int64], size: int) -> list[int]:
    """Where runs of places that follow each other end."""
    return [*(np.flatnonzero(np.diff(offsets) != size) + 1).tolist(), len(offsets)]


def _read(file: int, into: memoryview, offset: int) -> None:
    """Fills a buffer. One call reads at most 2 GiB, and a signal may cut it short."""
    done, size = 0, len(into)
    while done < size:
        try:
            count = os.preadv(file, [into[done:] if done else into], offset + done)
        except (OSError, OverflowError) as error:  # OverflowError: a place that no file has
            raise TakesetError(f"a frame cannot be read: {error}") from None
        if count == 0:
            raise TakesetError("the file ends in the middle of a frame; it was cut short after it was opened")
        done += count
