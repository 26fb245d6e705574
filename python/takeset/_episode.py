"""Episodes: the rows of one take, or of one part of it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ._errors import TakesetError, UnknownKey
from ._files import OpenFile
from ._hdf5 import Dataset as StoredDataset
from ._hdf5 import Group, attribute, find, find_group, form, integer, json_object, members, numbers, require_stored, text, title
from ._labels import Labels
from ._manifest import Finding, Record, findings
from ._stream import Stream, truth

if TYPE_CHECKING:
    import pandas

    from ._dataset import Dataset

T = TypeVar("T")
_ACTIONS = ("actions", "action_chunk", "rewards", "dones")


class Imu(NamedTuple):
    """Readings of the inertial sensors, at their own rate.

    times_ns  (N,) int64, ns since the episode's first row; negative before it
    accel     (N, 3) float32, m/s^2
    gyro      (N, 3) float32, rad/s
    """

    times_ns: NDArray[np.int64]
    accel: NDArray[np.float32]
    gyro: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Camera:
    """A camera, with the streams that show what it sees.

    name        key of `episode.cameras`
    image       its image stream, or None
    depth       its depth stream, or None
    confidence  its depth confidence stream, or None
    width       of the images in pixels, or of the depth maps if there are no images
    height      likewise
    matrix      (3, 3) float64, the camera matrix of images of that size, in pixels from the outer corner of the top-left pixel, or None.
                It is the usual one where autofocus changes it; `episode.intrinsics` has those of every row
    axes        directions of the camera's axes in its poses, such as "x right, y down, z forward", or None without poses
    """

    name: str
    image: str | None
    depth: str | None
    confidence: str | None
    width: int
    height: int
    matrix: NDArray[np.float64] | None
    axes: str | None


class Episode:
    """The rows of one take, or of one part of it; made by `dataset[…]`. Nothing is read until it is asked for.

    dataset  the dataset that it belongs to
    index    its number in the dataset
    name     of its groups, such as demo_000003
    """

    def __init__(self, dataset: Dataset, index: int, name: str) -> None:
        self.dataset = dataset
        self._store = dataset._store
        self.index = index
        self.name = name
        self._id: str | None = None

    # What it is

    @property
    def id(self) -> str:
        """The episode's id: that of its take, with `.0`, `.1` and so on where the take was split."""
        if self._id is None:
            self._id = self._store.id(self.index)
        return self._id

    @property
    def take_id(self) -> str:
        """The id of its take. A packed file does not tell it apart from the episode's."""
        return str((self.take or {}).get("take", self.id)) if "." in self.id else self.id

    @property
    def part(self) -> int | None:
        """The number of the episode in its take, from 0; None where the take was not split."""
        return (self.take or {}).get("part") if "." in self.id else None

    @property
    def take(self) -> Record | None:
        """The manifest's entry: inputs with their digests, alignment, steps, details; None for a file without a manifest."""
        return self._store.entry(self.index)

    @property
    def findings(self) -> list[Finding]:
        """What was found about its take, also where the take was split; empty for a file without a manifest."""
        return findings((self.take or {}).get("findings", []))

    @property
    def labels(self) -> Labels:
        """What is said of it: a task, success, tags, segments and more; empty where nothing is."""
        return self._store.labels(self.index)

    @property
    def measures(self) -> dict[str, float | None]:
        """Its measures by name, such as sharpness_p10 (docs/measures.md); None where one cannot be. Empty without a manifest that has them."""
        found = (self.take or {}).get("measures") or {}
        return {name: None if value is None else float(value) for name, value in found.items()}

    @property
    def split(self) -> str | None:
        """train, valid or test; None where the file has no masks."""
        return self._store.split(self.index)

    @property
    def reader(self) -> str:
        """The reader of its take's format, such as stack-session."""
        return text(self._group("data"), "reader")

    def __len__(self) -> int:
        """Number of rows, T."""
        return self._remembered(("rows",), self._count)

    def __repr__(self) -> str:
        try:
            return f"<takeset.Episode {self.id!r}: {len(self)} rows of {', '.join(self.keys())}>"
        except TakesetError as error:
            return f"<takeset.Episode {self.name!r}: {error}>"

    def __reduce__(self) -> tuple[Any, tuple[Dataset, int]]:
        return operator.getitem, (self.dataset, self.index)

    def __str__(self) -> str:
        return f"{self.name} ({self.id})"

    # Streams

    def keys(self) -> list[str]:
        """Names of the observations, without their masks."""
        return list(self._keys("obs"))

    def __getitem__(self, key: str) -> Stream:
        """A stream by name: an observation, `actions`, `action_chunk`, `action_dict/<part>`, `rewards`, `dones` or `next_obs/<key>`."""
        return Stream(self, key)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and (key in self._keys("obs") or isinstance(find(self._group("data"), key), StoredDataset))

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    # Time

    @property
    def times_ns(self) -> NDArray[np.int64]:
        """(T,) int64: time of each row since the first, in ns."""
        return self._column("timestamp_ns", np.int64)

    @property
    def unix_ns(self) -> NDArray[np.int64] | None:
        """(T,) int64: time of each row since 1970 in UTC, in ns; None where the take does not tell it."""
        origin = self._clock.unix_origin_ns
        return None if origin is None else self.times_ns + np.int64(origin)

    @property
    def clock(self) -> str:
        """The clock of the rows' times, such as device-uptime."""
        return self._clock.name

    @property
    def origin_ns(self) -> int:
        """Time of the first row on `clock`, in ns."""
        return self._clock.origin_ns

    @property
    def is_resampled(self) -> bool:
        """Whether rows are ticks of a uniform grid, and not frames."""
        return self._clock.timeline == "resampled"

    @property
    def seconds(self) -> float:
        """Time from the first row to the last."""
        times = self.times_ns
        return float(times[-1] - times[0]) / 1e9 if len(times) else 0.0

    @property
    def rate_hz(self) -> float | None:
        """Rows per second, with the rows that are missing in gaps counted; None with fewer than two rows."""
        steps = np.diff(self.times_ns)
        period, total = float(np.median(steps)) if len(steps) else 0.0, float(steps.sum())
        if period <= 0 or total <= 0:
            return None
        return 1e9 * float(np.maximum(np.rint(steps / period), 1).sum()) / total

    @property
    def gaps(self) -> NDArray[np.int64]:
        """(G, 2) int64: the row before each gap, and the whole step over it in ns."""
        gaps = self._column("gaps", np.int64, (None, 2))
        rows = gaps[:, 0]
        if len(rows) and (rows[0] < 0 or rows[-1] >= len(self) - 1 or (np.diff(rows) <= 0).any()):
            raise TakesetError(f"{self}: the rows of its gaps do not ascend, or are not rows of its {len(self)}")
        return gaps

    def segments(self) -> list[tuple[int, int]]:
        """The runs of rows between gaps: (first row, row after the last)."""
        cuts = (self.gaps[:, 0] + 1).tolist()
        return [(first, end) for first, end in zip([0, *cuts], [*cuts, len(self)]) if end > first]

    # Rows

    @property
    def source_index(self) -> NDArray[np.int64]:
        """(T,) int64: the source's own frame number of each row; of a resampled row, that of the nearest frame."""
        return self._column("source_index", np.int64)

    @property
    def quality(self) -> NDArray[np.uint8]:
        """(T,) uint8: bits by row, named by `quality_bits`, the first for 1, the second for 2 and so on."""
        return self._column("quality", np.uint8)

    @property
    def quality_bits(self) -> list[str]:
        """Names of the bits of `quality`."""
        found = find(self._group("meta"), "quality")
        return [] if found is None else text(found, "bits").split()

    # Cameras

    @property
    def cameras(self) -> dict[str, Camera]:
        """The cameras by name, such as `camera`."""
        return dict(self._remembered(("cameras",), self._find_cameras))

    def intrinsics(self, key: str = "camera_image") -> NDArray[np.float64] | None:
        """(T, 4) float64: fx fy cx cy of each row in pixels of this stream's images or depth maps, NaN in rows where they are unknown.

        cx and cy are measured from the outer corner of the top-left pixel, so its center is (0.5, 0.5). None where the source has none.
        """
        if key not in self._keys("obs"):
            return None
        stream, stored, meta = self[key], None, self._group("meta")
        # Of a joined take, each member's first camera has intrinsics of its own.
        prefix = f"{stream.attrs['member']}_" if "member" in stream.attrs else ""
        first = min((name for name in self.cameras if name.startswith(prefix)), default=None)
        if find(meta, f"{key}_intrinsics") is not None:
            stored = f"{key}_intrinsics"
        elif stream.kind == "image" and stream.camera == first and find(meta, f"{prefix}intrinsics") is not None:
            stored = f"{prefix}intrinsics"
        elif stream.kind == "confidence" and stream.camera is not None:
            depth = self.cameras[stream.camera].depth
            return self.intrinsics(depth) if depth is not None and self[depth].shape == stream.shape else None
        return None if stored is None else self._column(stored, np.float64, (len(self), 4))

    @property
    def imu(self) -> Imu | None:
        """Accelerations and turning rates of the whole take, or None."""
        for name in ("imu", *members(self._group("meta"))):
            group = find_group(self._group("meta"), name)
            if group is not None and find(group, "accel") is not None and find(group, "gyro") is not None:
                times = self._column(f"{name}/timestamp_ns", np.int64, (None,))
                accel, gyro = (self._column(f"{name}/{key}", np.float32, (len(times), 3)) for key in ("accel", "gyro"))
                return Imu(times, accel, gyro)
        return None

    # The file

    @property
    def group(self) -> Group:
        """Its group below `/data`, as h5py shows it. Raises `TakesetError` where anything in it leads out of its file."""
        return self._whole_group("data")

    @property
    def meta(self) -> Group:
        """Its group below `/meta`: times, provenance, masks of actions; likewise."""
        return self._whole_group("meta")

    # Shown

    def to_pandas(self) -> pandas.DataFrame:
        """One row per row: times, poses, vectors, actions, masks and alignment of every stream; images and depth maps are not in it."""
        from ._tables import rows_of

        return rows_of(self)

    def _repr_html_(self) -> str:
        from ._html import episode_page

        return episode_page(self)

    # For streams

    @property
    def _file(self) -> OpenFile:
        return self._store.shard(self.index)

    def _group(self, section: str) -> Group:
        group = self._store.object(self.index, section)
        if not isinstance(group, Group):
            place = self._store.place(self.index)
            raise TakesetError(f"{place.file} has no group {place.group(section)}, so it has no episode {self.name}")
        return group

    def _whole_group(self, section: str) -> Group:
        """The group for a user of h5py, which follows every link."""
        group, place = self._group(section), self._store.place(self.index)
        self._store.files.require_whole(place.file, place.group(section))
        return group

    def _remembered(self, key: tuple[str, ...], make: Callable[[], T], size: Callable[[T], int] = lambda _: 256) -> T:
        """A value of this episode, from the file when it is first needed and after it was dropped for others."""
        known = self._store.cache.get(place := (self.index, *key))
        if known is None:
            known = make()
            self._store.cache.put(place, known, size(known))
        value: T = known
        return value

    def _array(self, section: str, path: str, shape: tuple[int | None, ...] | None = None, whole: bool = False) -> NDArray[Any]:
        def read() -> NDArray[Any]:
            dataset = find(self._group(section), path)
            if not isinstance(dataset, StoredDataset):
                raise UnknownKey(f"{self} has no {section}/{path}")
            array = numbers(dataset, shape, whole)
            array.flags.writeable = False
            return array

        return self._remembered(("array", section, path), read, lambda array: array.nbytes + 256)

    def _values(self, path: str, shape: tuple[int | None, ...] | None = None) -> NDArray[Any]:
        """A small dataset below its group of `/data`; read-only."""
        return self._array("data", path, shape)

    def _column(
        self, path: str, dtype: DTypeLike, shape: tuple[int | None, ...] | None = None, default: NDArray[Any] | None = None
    ) -> NDArray[Any]:  # fmt: skip
        """A dataset below its group of `/meta`, of this shape and type; of one value for each row if the shape is None."""
        if default is not None and find(self._group("meta"), path) is None:
            return default
        return self._array("meta", path, (len(self),) if shape is None else shape, np.dtype(dtype).kind in "iu").astype(dtype)

    def _count(self) -> int:
        """Number of rows, as the group says and as there are times: what a file claims alone is no number to take memory for."""
        count, times = integer(self._group("data"), "num_samples", 0), find(self._group("meta"), "timestamp_ns")
        if count is None:
            raise TakesetError(f"{title(self._group('data'))} has no attribute num_samples")
        if not isinstance(times, StoredDataset) or form(times)[0] != (count,):
            raise TakesetError(f"{title(self._group('data'))} claims {count} rows, and its times are not as many")
        require_stored(times)
        return count

    def _dataset_of(self, name: str) -> tuple[str, StoredDataset]:
        """Where a stream is below its group, and the stream. Raises `UnknownKey`."""
        for path in (name,) if "/" in name else (f"obs/{name}", name):
            found = find(self._group("data"), path)
            if isinstance(found, StoredDataset) and form(found)[0]:
                return path, found
        raise UnknownKey(f"{self} has no stream {name}; it has {', '.join(self._all_keys())}")

    def _valid(self, name: str) -> NDArray[np.bool_]:
        group, key = name.rpartition("/")[::2]
        if group == "next_obs":  # The last row has its own observation.
            valid = self._valid(key)
            return np.concatenate([valid[1:], valid[-1:]])
        if group == "action_dict":
            return truth(self._array("meta", f"{name}_valid", (len(self),)))
        if name == "actions":
            return truth(self._values(f"{name}_valid", (len(self),)))
        if name == "action_chunk":
            return truth(self._values(f"{name}_valid", (len(self), None)).any(axis=1))
        if not group and name in self._keys("obs"):
            return truth(self._array("meta", f"streams/{name}/valid", (len(self),)))
        return np.ones(len(self), np.bool_)

    def _has_mask(self, path: str) -> bool:
        """Whether there is a mask of single elements at this path, below the episode's group."""

        def look() -> bool:
            mask = find(self._group("data"), path)
            return isinstance(mask, StoredDataset) and len(form(mask)[0]) > 1

        return self._remembered(("mask", path), look)

    def _keys(self, group: str) -> tuple[str, ...]:
        """Names of the streams in a group, without masks."""

        def look() -> tuple[str, ...]:
            found = find_group(self._group("data"), group)
            streams = {} if found is None else {name: find(found, name) for name in members(found)}
            return tuple(
                name for name, stream in streams.items()
                if stream is not None and attribute(stream, "kind") is not None and attribute(stream, "sha256") is not None
            )  # fmt: skip

        return self._remembered(("keys", group), look)

    def _all_keys(self) -> list[str]:
        """Names of the observations and of everything about actions."""

        def look() -> list[str]:
            parts = (f"action_dict/{part}" for part in self._keys("action_dict"))
            return [*self._keys("obs"), *(key for key in _ACTIONS if isinstance(find(self._group("data"), key), StoredDataset)), *parts]

        return self._remembered(("all keys",), look)

    @property
    def _clock(self) -> _Clock:
        def look() -> _Clock:
            times = find(self._group("meta"), "timestamp_ns")
            if times is None:
                raise TakesetError(f"{title(self._group('meta'))} has no timestamp_ns")
            return _Clock(text(times, "clock"), text(times, "timeline"), integer(times, "origin_ns") or 0, integer(times, "unix_origin_ns"))

        return self._remembered(("clock",), look)

    def _find_cameras(self) -> dict[str, Camera]:
        streams: dict[str, dict[str, Stream]] = {}
        axes: dict[Any, str] = {}  # Of a joined take, each member has poses of its own.
        for stream in map(self.__getitem__, self.keys()):
            if found := text(stream.dataset, "camera_axes"):
                axes.setdefault(stream.attrs.get("member"), found)
            if stream.camera is not None and stream.kind in ("image", "depth", "confidence"):
                streams.setdefault(stream.camera, {}).setdefault(stream.kind, stream)
        matrices = json_object(self._group("data"), "camera_info")
        cameras = {}
        for name, kinds in sorted(streams.items()):
            main = kinds.get("image") or kinds.get("depth") or next(iter(kinds.values()))
            names = {kind: kinds[kind].name if kind in kinds else None for kind in ("image", "depth", "confidence")}
            matrix, own = self._matrix(matrices.get(main.name)), axes.get(main.attrs.get("member"))
            cameras[name] = Camera(name, names["image"], names["depth"], names["confidence"], main.shape[2], main.shape[1], matrix, own)
        return cameras

    def _matrix(self, info: Any) -> NDArray[np.float64] | None:
        """The camera matrix of an entry of `camera_info`, or None if it has none."""
        known = info.get("intrinsics") if isinstance(info, dict) else None
        if known is None:
            return None
        try:
            matrix = np.array(known, np.float64)
        except (ValueError, TypeError, OverflowError):
            matrix = np.empty(0)
        if matrix.shape != (3, 3):
            raise TakesetError(f"{title(self._group('data'), 'camera_info')} has intrinsics that are no matrix of 3 rows and 3 columns")
        return matrix


class _Clock(NamedTuple):
    """What is known of the times of an episode."""

    name: str
    timeline: str
    origin_ns: int
    unix_origin_ns: int | None
