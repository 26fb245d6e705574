"""Streams: one value for each row of an episode."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ._errors import TakesetError
from ._frames import EncodedPlaces, FramePlaces, encoded_places, frame_places
from ._hdf5 import Dataset, attribute, attributes, files, form, has_files, integer, require_numbers, require_stored, rows, text, title
from ._images import decode_into
from ._rows import RowNumbers, row_number, row_numbers, runs

if TYPE_CHECKING:
    from ._episode import Episode
    from ._stats import Statistics

Array = NDArray[Any]

# Datasets up to this size are read as a whole and remembered: poses, joints, actions.
_SMALL = 8 << 20
_MOST_PIXELS = 1 << 27  # of an image; no phone has as many
# What a value is, by kind; None is any length.
_SHAPES: dict[str, tuple[tuple[int | None, ...], ...]] = {
    "image": ((None, None, 3),), "depth": ((None, None, 1),), "confidence": ((None, None, 1),), "pose": ((7,),), "angles": ((None,),),
    "vector": ((None,),), "action": ((None,), (None, None)),
}  # fmt: skip
_AXES = ["x", "y", "z"]
_QUATERNION = ["qx", "qy", "qz", "qw"]


@dataclass(frozen=True)
class _Stored:
    """What is known of a dataset without its values."""

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    encoding: str
    kind: str
    is_small: bool


_COUNT = re.compile("[0-9]{1,9}")


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
        """image, depth, confidence, pose, angles, vector or action; mask, reward or done for what has no samples of its own; added for
        what another program added to the file, of which nothing else is known."""
        return self._stored.kind

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
        return text(self.dataset, "unit")

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
        order, parts = text(self.dataset, "order").split(), self.parts
        if len(order) == width:
            return order
        if not parts:
            return [self.name] if width == 1 else [f"{self.name}.{i}" for i in range(width)]
        return [f"{part}.{name}" if count > 1 else part for part, count in parts.items() for name in self._elements(part, count)]

    @property
    def parts(self) -> dict[str, int]:
        """The parts of an action and how many columns each has, in the order of the columns; empty for everything else."""
        words = text(self.dataset, "parts")
        found = {name: int(count) for name, _, count in (word.rpartition(":") for word in words.split()) if _COUNT.fullmatch(count)}
        if words and (len(found) != len(words.split()) or sum(found.values()) != self.shape[-1]):
            raise TakesetError(f"{title(self.dataset, 'parts')} is {words[:40]!r}, which are not its {self.shape[-1]} columns")
        return found

    @property
    def has_samples(self) -> bool:
        """Whether its values are samples of the source, with times and numbers of their own, as observations are."""
        return self._stored.path.startswith("obs/") and self.kind not in ("mask", "added")

    @property
    def attrs(self) -> dict[str, Any]:
        """All attributes of the dataset; text as str, numbers as int and float."""
        return attributes(self.dataset)

    @property
    def camera(self) -> str | None:
        """Name of the camera of images, depth and confidence; a key of `episode.cameras`."""
        return text(self.dataset, "camera") or None

    @property
    def statistics(self) -> Statistics | None:
        """The statistics of the dataset that apply to this stream, or None.

        Takes that give a key different units or axes have separate statistics; these are the ones of this episode's unit and axes.
        """
        attrs, name = self.attrs, self.name.removeprefix("next_obs/")
        return self.episode._store.statistics.find(name, self.unit, attrs.get("camera_axes"), self.shape[-1], self.dtype.name)

    @property
    def dataset(self) -> Dataset:
        """The dataset in the file, as h5py shows it."""
        found = self.episode._store.object(self.episode.index, "data", self._stored.path)
        if not isinstance(found, Dataset):
            raise TakesetError(f"{self._title()} is not there any more")
        return found

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
        if isinstance(rows, tuple):
            # As NumPy: what is behind the rows chooses from their values. All of these are read.
            first, rest = (rows[0], rows[1:]) if rows and rows[0] is not Ellipsis else (slice(None), rows)
            inside = rest if _is_number(first) or rest is rows else (slice(None), *rest)
            return self[first][inside]
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
        return self._file(number) or None

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
        mask = Stream(self.episode, path)
        if mask.shape != self.shape and (self.name != "action_chunk" or mask.shape != self.shape[:2]):
            raise TakesetError(f"{self.episode}: {path} has the shape {mask.shape}, and what it is a mask of has {self.shape}")
        return truth(mask[rows])

    @property
    def dt_ns(self) -> NDArray[np.int64]:
        """(T,) int64, ns: time of the sample minus time of the row; 0 where the value was interpolated to the row's time."""
        return self.episode._column(f"streams/{self.name}/dt_ns", np.int64, default=self._default(0))

    @property
    def source_index(self) -> NDArray[np.int64]:
        """(T,) int64: number of the sample in the source's stream; -1 where the row has none."""
        return self.episode._column(f"streams/{self.name}/source_index", np.int64, default=self.episode.source_index)

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

    @property
    def _encoded_places(self) -> EncodedPlaces | None:
        def find() -> tuple[EncodedPlaces | None]:
            return (encoded_places(self.dataset, self.episode._file),)

        def size(found: tuple[EncodedPlaces | None]) -> int:
            return 256 if found[0] is None else 256 + found[0].references.nbytes + found[0].offsets.nbytes

        return self.episode._remembered(("places", self.name), find, size)[0]

    def _file(self, row: int) -> bytes:
        """The image file of a row, as stored; empty where the row has none."""
        places = self._encoded_places
        found = None if places is None else places.read(self.episode._file, row)
        return files(self.dataset, row, row + 1)[0] if found is None else found

    def _look(self) -> _Stored:
        path, dataset = self.episode._dataset_of(self.name)
        (shape, dtype, chunk), encoding = form(dataset), "raw"
        kind = text(dataset, "kind") or {"rewards": "reward", "dones": "done"}.get(self.name, "mask")
        if attribute(dataset, "sha256") is None:  # Every array that Takeset wrote has its digest.
            kind = "added"
        if has_files(dataset):
            encoding, height, width = self._form_of_images(dataset)
            require_stored(dataset)
            shape, dtype = (*shape[:1], height, width, 3), np.dtype(np.uint8)
        else:
            require_numbers(dataset)
        if shape[0] != len(self.episode):
            raise TakesetError(f"{title(dataset)} has {shape[0]} rows, and its episode has {len(self.episode)}")
        expected = _SHAPES.get(kind)
        if expected and not any(_fits(shape[1:], one) for one in expected) or kind == "image" and dtype != np.uint8 or 0 in shape[1:]:
            raise TakesetError(f"{title(dataset)} has values of the shape {shape[1:]} and type {dtype}, which are none of the kind {kind}")
        is_frames = len(shape) > 1 and chunk is not None and chunk[0] == 1
        is_small = math.prod(shape) * int(dtype.itemsize) <= _SMALL and not is_frames
        return _Stored(path, shape, dtype, encoding, kind, is_small)

    def _form_of_images(self, dataset: Dataset) -> tuple[str, int, int]:
        """Encoding, height and width of images that are stored as files."""
        encoding = attribute(dataset, "encoding")
        if encoding not in ("jpeg", "png"):
            raise TakesetError(f"{title(dataset)} has a file for each row, and does not say that they are jpeg or png")
        height, width = (integer(dataset, name, 1, _MOST_PIXELS) or 0 for name in ("height", "width"))
        if not 0 < height * width <= _MOST_PIXELS:
            raise TakesetError(f"{title(dataset)} has images of {width}x{height} pixels; at most {_MOST_PIXELS} are read")
        return encoding, height, width

    def _read(self, numbers: RowNumbers, out: Array | None) -> Array:
        stored = self._stored
        if stored.encoding != "raw":
            return self._decoded(numbers, self._new(numbers) if out is None else out)
        if stored.is_small:
            values = self.episode._values(stored.path)
            return np.take(values, np.asarray(numbers, np.int64), axis=0, out=out)
        out = self._new(numbers) if out is None else out
        if (places := self._places) is not None:
            if len(numbers):
                places.read(self.episode._file, numbers, out)
            return out
        dataset = self.dataset
        for place, first, end in runs(numbers):
            rows(dataset, first, end, out, place)
        return out

    def _new(self, numbers: RowNumbers) -> Array:
        try:
            return np.empty((len(numbers), *self.shape[1:]), self.dtype)
        except MemoryError:
            size = len(numbers) * math.prod(self.shape[1:]) * int(self.dtype.itemsize) >> 20
            raise TakesetError(f"{self._title()}: there is no memory for {len(numbers)} rows, which take {size} MiB") from None

    def _decoded(self, numbers: RowNumbers, out: Array) -> Array:
        for image, row in zip(out, np.asarray(numbers).tolist()):
            file = self._file(row)
            if len(file) == 0:
                image[...] = 0
                continue
            try:
                decode_into(image, file)
            except TakesetError as error:
                raise TakesetError(f"{self._title()}, row {row}: {error}") from error.__cause__
        return out


def truth(mask: Any) -> NDArray[np.bool_]:
    """A stored mask, 0 or 1, as truth values; a copy."""
    return np.array(mask, dtype=np.bool_)


def _fits(shape: tuple[int, ...], expected: tuple[int | None, ...]) -> bool:
    return len(shape) == len(expected) and all(want is None or side == want for side, want in zip(shape, expected))


def _is_number(index: Any) -> bool:
    return not isinstance(index, (bool, np.bool_)) and hasattr(index, "__index__") and not (isinstance(index, np.ndarray) and index.ndim)
