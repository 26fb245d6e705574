"""Datasets: a directory, its index, one of its shards, or a packed file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

from ._episode import Episode
from ._errors import OutOfRange, TakesetError, UnknownKey
from ._files import Files, OpenFile
from ._fork_safety import call_after_fork
from ._hdf5 import Dataset as StoredDataset
from ._hdf5 import File, Object, find, find_group, integer, members, outer_link, require_whole, text, texts
from ._manifest import Finding, Manifest, Record, findings, is_plain_name
from ._lru_cache import LRUCache
from ._recognition import check_format, dataset_file
from ._regular import look, require_regular_below
from ._stats import Statistics, StatisticsByKey
from ._stream import Stream

if TYPE_CHECKING:
    import pandas

_SPLITS = ("train", "valid", "test")
_DEMO = re.compile(r"demo_[0-9]{1,18}")
_CACHE_BYTES = 256 << 20


@dataclass(frozen=True)
class _Place:
    """Where an episode is: a file, and its groups in it."""

    file: str
    data: str
    meta: str

    def group(self, section: str) -> str:
        return self.data if section == "data" else self.meta


class Dataset:
    """A dataset, open for reading: episodes by number, by id, or one after the other; made by `takeset.open`.

    Opening it reads only its index. Episodes are opened when they are needed, the ones used last stay open, and up to 256 MiB of small
    arrays are remembered. A dataset may be used by several threads, inherited by forked processes and pickled to spawned ones; each
    process opens the files by itself.

    path  the file that was opened: dataset.h5 of a directory, a shard, or a packed file
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = dataset_file(os.fspath(path))
        self._path = os.path.abspath(self.path)  # The working directory may change before a shard is opened.
        self._files = Files()
        self._cache: LRUCache[Any, Any] = LRUCache(_CACHE_BYTES)
        call_after_fork(self)
        try:
            file = self._files[self._path].h5
            check_format(file, self.path)
            self._episodes = [Episode(self, number, name) for number, name in enumerate(_demos(file))]
        except BaseException:
            self._files.close()
            raise

    # Episodes

    @property
    def episodes(self) -> list[Episode]:
        """All episodes, in the order of their ids."""
        return list(self._episodes)

    @property
    def splits(self) -> dict[str, list[Episode]]:
        """Episodes by the name of a mask: train, valid and test; empty for a shard."""
        by_name = {episode.name: episode for episode in self._episodes}
        return {split: [by_name[name] for name in names if name in by_name] for split, names in self._masks.items()}

    def __len__(self) -> int:
        return len(self._episodes)

    def __iter__(self) -> Iterator[Episode]:
        return iter(self._episodes)

    @overload
    def __getitem__(self, key: int | str) -> Episode: ...
    @overload
    def __getitem__(self, key: slice) -> list[Episode]: ...
    def __getitem__(self, key: int | str | slice) -> Episode | list[Episode]:
        """An episode by number (negative ones count from the end) or by id; several by a slice. Its name, demo_000003, works too."""
        if isinstance(key, slice):
            return self._episodes[key]
        if isinstance(key, str):
            if key in self._numbers:
                return self._episodes[self._numbers[key]]
            found = [episode for episode in self._episodes if episode.name == key]
            if found:
                return found[0]
            raise UnknownKey(f"{self.path} has no episode {key}{self._why_missing(key)}")
        if not hasattr(key, "__index__"):
            raise TypeError(f"{self.path}: episodes are found by number, id or slice, found {key!r}")
        if not -len(self) <= key < len(self):
            raise OutOfRange(f"{self.path} has {len(self)} episodes, from 0, and episode {key} was asked for")
        return self._episodes[key]

    def __contains__(self, key: object) -> bool:
        return key in self._numbers or any(key is episode or key == episode.name for episode in self._episodes)

    def __repr__(self) -> str:
        return f"<takeset.Dataset {self.path!r}: {len(self)} episode{'s' if len(self) != 1 else ''}, {self.rows} rows>"

    # What is known of it

    @cached_property
    def rows(self) -> int:
        """Number of rows of all episodes."""
        total = integer(self._section("data"), "total", 0)
        return sum(map(len, self._episodes)) if total is None else total

    @property
    def record(self) -> Record | None:
        """The manifest's record: tool, pipeline, takes, splits, findings, totals; None for a file without a manifest."""
        return None if self._manifest is None else self._manifest.record

    @property
    def record_sha256(self) -> str | None:
        """Digest of the record, which identifies the dataset; None for a file without a manifest."""
        return None if self._manifest is None else self._manifest.sha256

    @property
    def findings(self) -> list[Finding]:
        """What was found about the dataset as a whole, such as keys with several units; `episode.findings` has those of a take.

        Empty for a shard, and for a file without a manifest.
        """
        return [] if self._is_shard or self._manifest is None else findings(self._manifest.head.get("findings", []))

    @property
    def takes(self) -> list[Record]:
        """The manifest's entries of every outcome: written, rejected and failed (with `reason`); of a shard, only its own.

        Empty for a file without a manifest.
        """
        if self._manifest is None:
            return []
        if self._is_shard:
            own = self._manifest.written.get(self._path_in_directory(self._path))
            return [] if own is None else [own]
        takes: list[Record] = self._manifest.record.get("takes", [])
        return takes

    @cached_property
    def statistics(self) -> Mapping[str, Statistics]:
        """Statistics of the training episodes by key; empty for a shard."""
        group = find_group(self._files[self._path].h5, "stats")
        if group is not None:
            require_whole(group)
        return StatisticsByKey(group)

    # Shown

    def to_pandas(self) -> pandas.DataFrame:
        """One row per episode: id, split, reader, rows, seconds, rate, findings, and which streams it has. Needs pandas."""
        from ._tables import episodes_of

        return episodes_of(self)

    def _repr_html_(self) -> str:
        from ._html import dataset_page

        return dataset_page(self)

    # Open and closed

    def close(self) -> None:
        """Closes all files. Arrays that were read stay; reading more raises `TakesetError`."""
        self._files.close()
        self._cache.clear()

    def __enter__(self) -> Dataset:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[type[Dataset], tuple[str]]:
        return type(self), (self._path,)

    def _after_fork(self) -> None:
        """Called in a process that was forked: it opens the files by itself."""
        self._files._after_fork()
        self._cache._after_fork()

    # For episodes

    def _place(self, episode: Episode) -> _Place:
        place: _Place | None = self._cache.get(("place", episode.index))
        if place is None:
            data, meta = (self._target(section, episode.name) for section in ("data", "meta"))
            if data[0] != meta[0]:
                raise TakesetError(f"{self.path} is damaged: /data/{episode.name} and /meta/{episode.name} are in different files")
            place = _Place(data[0], data[1], meta[1])
            self._cache.put(("place", episode.index), place, 512)
        return place

    def _section(self, name: str) -> Any:
        """/data or /meta of the file that was opened."""
        group = find_group(self._files[self._path].h5, name)
        if group is None:
            raise TakesetError(f"{self.path} is damaged: it has no /{name}")
        return group

    def _target(self, section: str, name: str) -> tuple[str, str]:
        """The file and the path of a member, which is in this file or in the shard that a link names.

        Raises `TakesetError` for a link to anything but a file in `episodes/`: it could show any other file of the user.
        """
        link = outer_link(self._section(section), name)
        if link is None:
            return self._path, f"/{section}/{name}"
        file, path = link
        folder, _, shard = file.partition("/")
        if folder != "episodes" or not shard.endswith(".h5") or not is_plain_name(shard[:-3]) or path != f"/{section}/demo_0":
            raise TakesetError(
                f"{self.path}: /{section}/{name} is a link to {file}:{path}; "
                f"links of a dataset lead to episodes/ID.h5:/{section}/demo_0, and no other is followed"
            )
        directory = next((one for one in self._folders if look(os.path.join(one, file), False) is not None), None)
        if directory is not None:
            require_regular_below(directory, file)
        return os.path.normpath(os.path.join(directory or self._folders[0], file)), path

    def _shard(self, episode: Episode) -> OpenFile:
        path = self._place(episode).file
        try:
            return self._files[path]
        except TakesetError as error:
            raise self._missing(episode, path) or error from None

    def _missing(self, episode: Episode, path: str) -> TakesetError | None:
        """The error for a shard that is not there."""
        if self._files.is_closed or look(path) is not None:
            return None
        return TakesetError(
            f"{self.path}: the shard of {episode.name} is missing: {path}; move or copy a dataset with its folder episodes/, "
            f"or make one file of it with takeset pack"
        )

    def _object(self, episode: Episode, section: str, path: str = "") -> Object | None:
        """A group or dataset of an episode, below its group of `/data` or `/meta`, or None if there is none."""
        place = self._place(episode)
        try:
            return self._files.find(place.file, place.group(section) + (f"/{path}" if path else ""))
        except TakesetError as error:
            raise self._missing(episode, place.file) or error from None

    def _id(self, episode: Episode) -> str:
        if self._files.is_closed:
            return episode.name
        try:
            name = text(episode._group("data"), "take_id")
        except TakesetError:  # Without its shard, an episode has the name of the shard's file.
            return os.path.basename(self._place(episode).file).removesuffix(".h5")
        if not is_plain_name(name):
            file = self._place(episode).file
            raise TakesetError(f"{file}: the take_id of {episode.name} is {name[:40]!r}, which cannot be the name of a file")
        return name

    def _entry(self, episode: Episode) -> Record | None:
        if self._manifest is None:
            return None
        return self._manifest.written.get(self._path_in_directory(self._place(episode).file))

    def _split(self, episode: Episode) -> str | None:
        if self._masks:
            return self._split_of.get(episode.name)
        splits = {} if self._manifest is None else self._manifest.head.get("splits", {})
        return next((split for split in _SPLITS if episode.id in splits.get(split, ())), None)

    def _statistics_of(self, stream: Stream) -> Statistics | None:
        statistics = self.statistics
        assert isinstance(statistics, StatisticsByKey)
        attrs, name = stream.attrs, stream.name.removeprefix("next_obs/")
        return statistics.find(name, stream.unit, attrs.get("camera_axes"), stream.shape[-1], stream.dtype.name)

    @cached_property
    def _folders(self) -> list[str]:
        """Where the files that links name are: next to the index, or next to what it is a symbolic link to."""
        return list(dict.fromkeys(os.path.dirname(path) for path in (self._path, os.path.realpath(self._path))))

    @cached_property
    def _masks(self) -> dict[str, list[str]]:
        masks = find_group(self._files[self._path].h5, "mask")
        if masks is None:
            return {}
        names = members(masks)
        found = {}
        for split in (*(split for split in _SPLITS if split in names), *(split for split in names if split not in _SPLITS)):
            mask = find(masks, split)
            if not isinstance(mask, StoredDataset):
                raise TakesetError(f"{self.path} is damaged: /mask/{split} is not a list of episodes")
            found[split] = texts(mask)
        return found

    @cached_property
    def _split_of(self) -> dict[str, str]:
        return {name: split for split in reversed(_SPLITS) for name in self._masks.get(split, ())}

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """Numbers of the episodes by id. The ids are those of the manifest, or else in the shards, which are opened for them."""
        by_path = {} if self._manifest is None else self._manifest.ids
        ids = (by_path.get(self._path_in_directory(self._place(episode).file)) for episode in self._episodes)
        return {str(known or episode.id): episode.index for known, episode in zip(ids, self._episodes)}

    @cached_property
    def _is_shard(self) -> bool:
        return os.path.basename(os.path.dirname(self._path)) == "episodes" and find(self._files[self._path].h5, "mask") is None

    @property
    def _directory(self) -> str:
        folder = os.path.dirname(self._path)
        return os.path.dirname(folder) if self._is_shard else folder

    @cached_property
    def _manifest(self) -> Manifest | None:
        """The manifest in the dataset's directory, if it is this file's."""
        manifest = Manifest.beside(self._directory)
        if manifest is None:
            return None
        own = self._path_in_directory(self._path)
        return manifest if own in manifest.written or own == manifest.head.get("index", {}).get("path") else None

    def _path_in_directory(self, path: str) -> str:
        return os.path.relpath(path, self._directory).replace(os.sep, "/")

    def _why_missing(self, key: str) -> str:
        """Why an id has no episode: its take was not converted, or was split."""
        for take in self.takes:
            if take["id"] == key:
                return f": the take {'was ' if take['outcome'] == 'rejected' else ''}{take['outcome']}: {take['reason']}"
        parts = [take["id"] for take in self.takes if take.get("take") == key]
        return f"; that take was split into {', '.join(parts)}" if parts else ""


def open_dataset(path: str | os.PathLike[str]) -> Dataset:
    """Opens a dataset for reading: a directory that `takeset run` wrote, its dataset.h5, one shard of episodes/, or a packed file.

        with takeset.open("dataset/") as ds:
            for episode in ds:
                print(episode.id, episode["camera_image"][0].shape)

    Raises `TakesetError` if it is not one, or of another version of the format.
    """
    return Dataset(path)


def _demos(file: File) -> list[str]:
    """Names of the episodes in the order of their numbers."""
    data = find_group(file, "data")
    names = [name for name in members(data) if _DEMO.fullmatch(name)] if data is not None else []
    return sorted(names, key=lambda name: (int(name[5:]), name))
