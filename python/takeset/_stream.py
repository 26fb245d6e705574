"""Streams: one value for each row of an episode."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
from numpy.typing import NDArray

from ._errors import TakesetError, UnknownKey
from ._frames import FramePlaces, frame_places
from ._images import decode
from ._rows import RowNumbers, row_number, row_numbers, runs

if TYPE_CHECKING:
    from ._episode import Episode
    from ._stats import Statistics

Array = NDArray[Any]

# Datasets up to this size are read as a whole and remembered: poses, joints, actions.
_SMALL = 8 << 20
# One call of h5py reads so many image files: each call costs as much as decoding a small image, and memory must not grow with a run.
_FILES_AT_ONCE = 32
_AXES = ["x", "y", "z"]
_QUATERNION = ["qx", "qy", "qz", "qw"]


@dataclass(frozen=True)
class _Stored:
    """What is known of a dataset without its values."""

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    encoding: str
    is_small: bool


class Stream:
    """One value for each row of an episode, such as images, poses or actions; made by `episode[key]`.

    stream[3]                          one row
    stream[10:26], stream[[5, 1, 1]]   (n, ...): rows by slice, or by an array of numbers or of truth values; images are decoded

    A row without a sample is masked and not filled in: `valid` is False, and the values are 0 (images, depth, actions) or NaN (vectors).
    """

    def __init__(self, episode: Episode, name: str) -> None:
        self.episode = episode
        self.name = name.removeprefix("obs/")
        self._stored = episode._remembered(("stored", self.name), self._look, lambda _: 1024)

    # What it is

    @cached_property
    def kind(self) -> str:
        """image, depth, confidence, pose, angles, vector or action; mask, reward or done for what has no samples of its own."""
        return str(self.dataset.attrs.get("kind", {"rewards": "reward", "dones": "done"}.get(self.name, "mask")))

    @property
    def shape(self) -> tuple[int, ...]:
        """Of all rows, decoded: (T, ...). Images are (T, H, W, 3), depth and confidence (T, h, w, 1)."""
        return self._stored.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of a value, decoded."""
        return self._stored.dtype

    @cached_property
    def unit(self) -> str:
        """Unit of a value, such as m, mm or degree."""
        return str(self.dataset.attrs.get("unit", ""))

    @property
    def encoding(self) -> str:
        """How images are stored: raw, jpeg or png; raw for everything else."""
        return self._stored.encoding

    @property
    def names(self) -> list[str]:
        """Names of the channels, the last axis: x y z qx qy qz qw of poses, joints by name, relative_position.x of actions, red."""
        width = self.shape[-1] if len(self.shape) > 1 else 1
        if self.kind == "pose":
            return [*_AXES, *_QUATERNION]
        if self.kind == "image":
            return ["red", "green", "blue"]
        order = str(self.dataset.attrs.get("order", "")).split()
        if len(order) == width:
            return order
        if not self.parts:
            return [self.name] if width == 1 else [f"{self.name}.{i}" for i in range(width)]
        return [f"{part}.{name}" if count > 1 else part for part, count in self.parts.items() for name in self._elements(part, count)]

    @property
    def parts(self) -> dict[str, int]:
        """The parts of an action and how many columns each has, in the order of the columns; empty for everything else."""
        pairs = (part.rpartition(":") for part in str(self.dataset.attrs.get("parts", "")).split())
        return {name: int(count) for name, _, count in pairs}

    @property
    def has_samples(self) -> bool:
        """Whether its values are samples of the source, with times and numbers of their own, as observations are."""
        return self._stored.path.startswith("obs/") and self.kind != "mask"

    @property
    def attrs(self) -> dict[str, Any]:
        """All attributes of the dataset; text as str, numbers as int and float."""
        return {key: value.item() if isinstance(value, np.generic) else value for key, value in self.dataset.attrs.items()}

    @property
    def camera(self) -> str | None:
        """Name of the camera of images, depth and confidence; a key of `episode.cameras`."""
        name = self.dataset.attrs.get("camera")
        return None if name is None else str(name)

    @property
    def statistics(self) -> Statistics | None:
        """The statistics of the dataset that apply to this stream, or None.

        Takes that give a key different units or axes have separate statistics; these are the ones of this episode's unit and axes.
        """
        return self.episode.dataset._statistics_of(self)

    @property
    def dataset(self) -> h5py.Dataset:
        """The dataset in the file, as h5py shows it."""
        return self.episode.dataset._object(self.episode, "data", self._stored.path)

    def __reduce__(self) -> tuple[type[Stream], tuple[Episode, str]]:
        return type(self), (self.episode, self.name)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        try:
            return f"<takeset.Stream {self.name!r} of {self.episode.id!r}: {self.kind} {self.shape} {self.dtype}, {self.unit}>"
        except TakesetError as error:
            return f"<takeset.Stream {self.name!r}: {error}>"

    # Values

    def __getitem__(self, rows: Any) -> Any:
        if _is_number(rows):
            row = row_number(rows, len(self), self._title)
            return self._read(range(row, row + 1), None)[0]
        return self._read(row_numbers(rows, len(self), self._title), None)

    def read(self, rows: Any = slice(None), out: Array | None = None) -> Array:
        """`stream[rows]` for a slice or an array of row numbers, into `out` if given.

        out  C-contiguous array of the rows' shape and the stream's type. An array that is used again saves allocating one.
        """
        numbers = row_numbers(rows, len(self), self._title)
        if out is not None and (out.shape != (len(numbers), *self.shape[1:]) or out.dtype != self.dtype or not out.flags.c_contiguous):
            raise TypeError(f"out must be a C-contiguous array of shape {(len(numbers), *self.shape[1:])} and type {self.dtype}")
        return self._read(numbers, out)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("a stream is read from a file, so an array of it is a copy")
        values: Array = self[:]
        return values if dtype is None else values.astype(dtype)

    def encoded(self, row: int) -> bytes | None:
        """The JPEG or PNG file of an image, as stored; None where the row has no image, and for a stream that is not stored as files."""
        number = row_number(row, len(self), self._title)
        if self.encoding == "raw":
            return None
        stored = self.dataset[number]
        return bytes(np.asarray(stored, np.uint8)) or None

    # Masks and provenance

    @property
    def valid(self) -> NDArray[np.bool_]:
        """(T,) bool: the row has a readable sample. Of `action_chunk`: at least one of its actions is known."""
        return self.episode._valid(self.name)

    def mask(self, rows: Any = slice(None)) -> NDArray[np.bool_] | None:
        """The mask of the single elements of `stream[rows]`, True where valid, or None if the stream has no such mask.

        Depth: (n, h, w, 1); joints: (n, 4); depth_point: (n, 1); action_chunk: (n, horizon).
        """
        path = f"{self._stored.path}_valid"
        if not self.episode._has_mask(path):
            return None
        return truth(Stream(self.episode, path)[rows])

    @property
    def dt_ns(self) -> NDArray[np.int64]:
        """(T,) int64, ns: time of the sample minus time of the row; 0 where the value was interpolated to the row's time."""
        return self.episode._column(f"streams/{self.name}/dt_ns", np.int64, self._default(0))

    @property
    def source_index(self) -> NDArray[np.int64]:
        """(T,) int64: number of the sample in the source's stream; -1 where the row has none."""
        return self.episode._column(f"streams/{self.name}/source_index", np.int64, self.episode._column("source_index", np.int64))

    # Reading

    def _title(self) -> str:
        return f"{self.episode}: {self.name}"

    def _elements(self, part: str, count: int) -> list[str]:
        """Names of the columns of a part of an action."""
        if part in self.episode.keys() and len(names := self.episode[part].names) == count:
            return names
        if count == 3 and part.endswith(("position", "vector")):
            return _AXES
        return _QUATERNION if count == 4 and part.endswith("quat") else [str(i) for i in range(count)]

    def _default(self, value: int) -> NDArray[np.int64]:
        return np.full(len(self), value, np.int64)

    @property
    def _places(self) -> FramePlaces | None:
        def find() -> tuple[FramePlaces | None]:
            return (None if self._stored.is_small or self.encoding != "raw" else frame_places(self.dataset),)

        def size(found: tuple[FramePlaces | None]) -> int:
            return 256 if found[0] is None else 256 + found[0].offsets.nbytes

        return self.episode._remembered(("places", self.name), find, size)[0]

    def _look(self) -> _Stored:
        group = self.episode.group
        path = self.name if "/" in self.name else f"obs/{self.name}"
        dataset = group.get(path)
        if dataset is None:
            path = self.name
            dataset = group.get(path)
        if not isinstance(dataset, h5py.Dataset) or not dataset.ndim:
            raise UnknownKey(f"{self.episode} has no stream {self.name}; it has {', '.join(self.episode._all_keys())}")
        shape, dtype, encoding = tuple(dataset.shape), dataset.dtype, "raw"
        if dtype.kind == "O":  # a file for each row
            encoding = str(dataset.attrs["encoding"])
            shape, dtype = (shape[0], int(dataset.attrs["height"]), int(dataset.attrs["width"]), 3), np.dtype(np.uint8)
        bytes_in_all = math.prod(shape) * int(dtype.itemsize)
        is_frames = len(shape) > 1 and dataset.chunks is not None and dataset.chunks[0] == 1
        return _Stored(path, shape, dtype, encoding, is_small=bytes_in_all <= _SMALL and not is_frames)

    def _read(self, rows: RowNumbers, out: Array | None) -> Array:
        stored = self._stored
        if stored.encoding != "raw":
            return self._decoded(rows, self._new(rows) if out is None else out)
        if stored.is_small:
            values = self.episode._values(stored.path)
            return np.take(values, np.asarray(rows, np.int64), axis=0, out=out)
        out = self._new(rows) if out is None else out
        if (places := self._places) is not None:
            if len(rows):
                places.read(self.episode._file, rows, out)
            return out
        dataset = self.dataset
        for place, first, end in runs(rows):
            dataset.read_direct(out, np.s_[first:end], np.s_[place : place + end - first])
        return out

    def _new(self, rows: RowNumbers) -> Array:
        return np.empty((len(rows), *self.shape[1:]), self.dtype)

    def _decoded(self, rows: RowNumbers, out: Array) -> Array:
        dataset, (height, width) = self.dataset, self.shape[1:3]
        for place, first, end in runs(rows):
            for start in range(first, end, _FILES_AT_ONCE):
                for row, file in enumerate(dataset[start : min(start + _FILES_AT_ONCE, end)], start):
                    image = out[place + row - first]
                    if len(file) == 0:
                        image[...] = 0
                        continue
                    try:
                        image[...] = decode(file.tobytes(), height, width)
                    except TakesetError as error:
                        raise TakesetError(f"{self._title()}, row {row}: {error}") from error.__cause__
        return out


def truth(mask: Any) -> NDArray[np.bool_]:
    """A stored mask, 0 or 1, as truth values; a copy."""
    return np.array(mask, dtype=np.bool_)


def _is_number(index: Any) -> bool:
    return not isinstance(index, (bool, np.bool_)) and hasattr(index, "__index__") and not (isinstance(index, np.ndarray) and index.ndim)
