"""Steps of a pipeline that are written in Python.

    import numpy as np
    from takeset import steps

    @steps.rows(reads=["camera_image"], writes=steps.Vector("brightness", ["mean"], unit="level"))
    def brightness(block):
        return block.camera_image.mean(axis=(1, 2, 3), dtype=np.float32)[:, None]

A pipeline names the file: `- python: {file: brightness.py}`. Takeset calls the function with one `Block` of consecutive rows after the
other. The decorators leave functions and classes as they are, so that both can be called by hand:

    brightness(steps.Block.of(takeset.open("dataset/")[0], rows=slice(0, 64)))

`docs/steps.md` has the whole contract. This file needs NumPy alone; the command carries a copy of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, Union

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ._episode import Episode

__all__ = ["Block", "Image", "Mask", "Step", "Take", "Vector", "keep", "labels", "rows"]

Array = NDArray[Any]
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Vector:
    """A stream of numbers: (n, len(elements)) float32 for n rows, NaN where one is absent.

    name      of the stream under `obs`: small letters, digits and `_`
    elements  a name for each number
    unit      of the numbers, such as m or rad; 1 for plain numbers
    """

    name: str
    elements: tuple[str, ...]
    unit: str

    def __init__(self, name: str, elements: Iterable[str] = ("value",), unit: str = "1") -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "elements", (elements,) if isinstance(elements, str) else tuple(elements))
        object.__setattr__(self, "unit", unit)


@dataclass(frozen=True)
class Image:
    """A stream of images: (n, H, W, 3) uint8 RGB for n rows. Under the name of images that are there, it takes their place.

    size  (width, height) in pixels; without it, that of the first image stream that the step reads. Another size is taken for a stretch
          of that image's field of view, and the intrinsics follow
    """

    name: str
    size: tuple[int, int] | None = None


@dataclass(frozen=True)
class Mask:
    """A stream of masks: (n, H, W, 1) uint8 for n rows, whose numbers mean what the step says. `size` as for `Image`."""

    name: str
    size: tuple[int, int] | None = None


Output = Union[Vector, Image, Mask]


@dataclass(frozen=True)
class Step:
    """What a decorator has said of a function or class; its attribute `takeset_step`.

    kind    rows, keep or labels
    reads   the streams that it reads
    writes  the stream that a rows step makes
    reason  why a keep step drops rows
    """

    kind: str
    reads: tuple[str, ...]
    writes: Output | None = None
    reason: str | None = None


def rows(*, reads: Iterable[str], writes: Output) -> Callable[[F], F]:
    """Makes a stream with one value a row. For a block of n rows the function returns an array of n values, or (array, valid) with `valid`
    (n,) bool.

    reads   names of streams, such as camera_image, camera_depth, pose, joints, joints_valid
    writes  a `Vector`, an `Image` or a `Mask`
    """
    return _declare(Step("rows", _names(reads), writes=writes))


def keep(*, reads: Iterable[str], reason: str) -> Callable[[F], F]:
    """Keeps the rows for which the function returns True, (n,) bool for a block of n rows, and drops the others.

    reason  why they are dropped, as the record says it: too-dark
    """
    return _declare(Step("keep", _names(reads), reason=reason))


def labels(*, reads: Iterable[str]) -> Callable[[F], F]:
    """Labels of the take: the function is called with each block and returns a dictionary. They are merged, and the later value counts."""
    return _declare(Step("labels", _names(reads)))


def _names(reads: Iterable[str]) -> tuple[str, ...]:
    return (reads,) if isinstance(reads, str) else tuple(reads)


def _declare(step: Step) -> Callable[[F], F]:
    def mark(function: F) -> F:
        setattr(function, "takeset_step", step)
        return function

    return mark


@dataclass(frozen=True)
class Take:
    """The take that a block is of.

    id      its id, with `.0`, `.1` and so on where a step before has split it
    reader  the reader of its format, such as stack-session
    """

    id: str
    reader: str


class Block:
    """Consecutive rows of one take, n of them.

    Each stream that the step reads is an attribute: images (n, H, W, 3) uint8 RGB, depth maps (n, h, w, 1) in meters or millimeters as the
    take has them, poses (n, 7) float32 x y z qx qy qz qw, numbers (n, k) float32. The arrays can be kept. Images and
    depth maps are read-only: change a copy.

    valid    a dictionary: by stream, (n,) bool. Where it is False, the row has no sample, and its values are 0, or NaN for numbers
    time_ns  (n,) int64, ns since the take's first row
    first    number of the first row, from 0
    options  the `options` of the pipeline file
    take     the `Take`
    """

    def __init__(
        self,
        streams: Mapping[str, Array],
        *,
        valid: Mapping[str, NDArray[np.bool_]] | None = None,
        time_ns: NDArray[np.int64] | None = None,
        first: int = 0,
        options: dict[str, Any] | None = None,
        take: Take | None = None,
    ) -> None:
        count = next((len(values) for values in streams.values()), 0 if time_ns is None else len(time_ns))
        self._streams: dict[str, Array] = {name: _as_given(values) for name, values in streams.items()}
        self.valid: Mapping[str, NDArray[np.bool_]] = (
            {name: np.ones(len(values), np.bool_) for name, values in streams.items()} if valid is None else valid
        )
        self.time_ns: NDArray[np.int64] = np.zeros(count, np.int64) if time_ns is None else time_ns
        self.first = first
        self.options: dict[str, Any] = {} if options is None else options
        self.take = Take("take", "none") if take is None else take

    def __len__(self) -> int:
        return len(self.time_ns)

    def __getattr__(self, name: str) -> Array:
        streams = self.__dict__.get("_streams", {})
        try:
            found: Array = streams[name]
        except KeyError:
            if isinstance(streams, _Streams):
                raise AttributeError(f"the block has no stream {name}; the episode has {', '.join(streams.names)}") from None
            read = ", ".join(sorted(streams)) or "nothing"
            raise AttributeError(f"the block has no stream {name}; the step reads {read} (name it in reads=[...])") from None
        return found

    def __repr__(self) -> str:
        names = self._streams.names if isinstance(self._streams, _Streams) else self._streams
        parts = [f"{name} {self._streams[name].shape}" if name in self._streams else name for name in names]
        return f"<steps.Block: {len(self)} rows from row {self.first} of {self.take.id!r}: {', '.join(parts) or 'no streams'}>"

    @classmethod
    def of(cls, episode: Episode, rows: slice = slice(0, 64), options: dict[str, Any] | None = None) -> Block:
        """A block of an episode of a dataset, to try a step on: `Block.of(takeset.open("dataset/")[0], rows=slice(0, 64))`. It has every
        observation of the episode; each is read when the step asks for it.
        """
        first, last, step = rows.indices(len(episode))
        if step != 1:
            raise ValueError(f"a block is of consecutive rows; the step of {rows} is {step}")
        last = max(first, last)
        block = cls({}, time_ns=np.array(episode.times_ns[first:last]), first=first, options=options, take=Take(episode.id, episode.reader))
        block._streams = _Streams(episode, slice(first, last))
        block.valid = {name: np.array(episode[name].valid[first:last]) for name in block._streams.names}
        return block


def _as_given(values: Array) -> Array:
    """The array as a step gets it: images and depth maps cannot be written to."""
    if values.ndim == 4:
        values = values.view()
        values.flags.writeable = False
    return values


class _Streams(dict[str, Array]):
    """The streams of an episode, read when they are asked for. It holds those that were.

    names  of all, with masks of single values such as joints_valid
    """

    def __init__(self, episode: Episode, rows: slice) -> None:
        super().__init__()
        self.episode, self.rows = episode, rows
        self.names = [name for key in episode for name in (key, f"{key}_valid") if f"obs/{name}" in episode]

    def __missing__(self, name: str) -> Array:
        if name not in self.names:
            raise KeyError(name)
        self[name] = _as_given(np.array(self.episode[name][self.rows]))
        return self[name]
