"""The files of a dataset: its index, its shards, its manifest, and what is remembered of them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ._errors import TakesetError
from ._files import Files, OpenFile
from ._fork_safety import call_after_fork
from ._hdf5 import Dataset as StoredDataset
from ._hdf5 import File, Group, Object, find, find_group, members, outer_link, require_whole, text, texts
from ._labels import Labels
from ._lru_cache import LRUCache
from ._manifest import Manifest, Record, is_plain_name
from ._recognition import check_format, dataset_file
from ._regular import look, require_regular_below
from ._stats import StatisticsByKey

_SPLITS = ("train", "valid", "test")
_DEMO = re.compile(r"demo_[0-9]{1,18}")
_CACHE_BYTES = 256 << 20


@dataclass(frozen=True)
class Place:
    """Where an episode is: a file, and its groups in it."""

    file: str
    data: str
    meta: str

    def group(self, section: str) -> str:
        return self.data if section == "data" else self.meta


class Store:
    """The files below a dataset, and what is known of episodes by number; the only place that knows where things are.

    shown  the path of the file that was opened, as errors name it
    path   the same as an absolute path: the working directory may change before a shard is opened
    names  of the episodes' groups, such as demo_000003, in the order of their numbers
    cache  small arrays and facts, the ones used last
    """

    def __init__(self, path: str) -> None:
        self.shown = dataset_file(path)
        self.path = os.path.abspath(self.shown)
        self.files = Files()
        self.cache: LRUCache[Any, Any] = LRUCache(_CACHE_BYTES)
        call_after_fork(self)
        try:
            check_format(self.file, self.shown)
            self.names = _demos(self.file)
        except BaseException:
            self.files.close()
            raise

    def close(self) -> None:
        self.files.close()
        self.cache.clear()

    def _after_fork(self) -> None:
        """Called in a process that was forked: it opens the files by itself."""
        self.files._after_fork()
        self.cache._after_fork()

    # The file that was opened

    @property
    def file(self) -> File:
        return self.files[self.path].h5

    def section(self, name: str) -> Any:
        """/data or /meta."""
        group = find_group(self.file, name)
        if group is None:
            raise TakesetError(f"{self.shown} is damaged: it has no /{name}")
        return group

    @cached_property
    def is_shard(self) -> bool:
        return os.path.basename(os.path.dirname(self.path)) == "episodes" and find(self.file, "mask") is None

    @cached_property
    def masks(self) -> dict[str, list[str]]:
        """Names of episodes by the name of their mask."""
        masks = find_group(self.file, "mask")
        if masks is None:
            return {}
        names = members(masks)
        found = {}
        for split in (*(split for split in _SPLITS if split in names), *(split for split in names if split not in _SPLITS)):
            mask = find(masks, split)
            if not isinstance(mask, StoredDataset):
                raise TakesetError(f"{self.shown} is damaged: /mask/{split} is not a list of episodes")
            found[split] = texts(mask)
        return found

    @cached_property
    def statistics(self) -> StatisticsByKey:
        group = find_group(self.file, "stats")
        if group is not None:
            require_whole(group)
        return StatisticsByKey(group)

    # The manifest

    @cached_property
    def manifest(self) -> Manifest | None:
        """The manifest in the dataset's directory, if it is this file's."""
        manifest = Manifest.beside(self._directory)
        if manifest is None:
            return None
        own = self._path_in_directory(self.path)
        return manifest if own in manifest.written or own == manifest.head.get("index", {}).get("path") else None

    @property
    def takes(self) -> list[Record]:
        """The manifest's entries; of a shard, only its own."""
        if self.manifest is None:
            return []
        if self.is_shard:
            own = self.manifest.written.get(self._path_in_directory(self.path))
            return [] if own is None else [own]
        takes: list[Record] = self.manifest.record.get("takes", [])
        return takes

    @property
    def _directory(self) -> str:
        folder = os.path.dirname(self.path)
        return os.path.dirname(folder) if self.is_shard else folder

    def _path_in_directory(self, path: str) -> str:
        return os.path.relpath(path, self._directory).replace(os.sep, "/")

    # Episodes

    def place(self, number: int) -> Place:
        place: Place | None = self.cache.get(("place", number))
        if place is None:
            name = self.names[number]
            data, meta = (self._target(section, name) for section in ("data", "meta"))
            if data[0] != meta[0]:
                raise TakesetError(f"{self.shown} is damaged: /data/{name} and /meta/{name} are in different files")
            place = Place(data[0], data[1], meta[1])
            self.cache.put(("place", number), place, 512)
        return place

    def shard(self, number: int) -> OpenFile:
        """The file that an episode is in."""
        path = self.place(number).file
        try:
            return self.files[path]
        except TakesetError as error:
            raise self._missing(number, path) or error from None

    def object(self, number: int, section: str, path: str = "") -> Object | None:
        """A group or dataset of an episode, below its group of `/data` or `/meta`, or None if there is none."""
        place = self.place(number)
        try:
            return self.files.find(place.file, place.group(section) + (f"/{path}" if path else ""))
        except TakesetError as error:
            raise self._missing(number, place.file) or error from None

    def id(self, number: int) -> str:
        if self.files.is_closed:
            return self.names[number]
        try:
            group = self.object(number, "data")
            name = text(group, "take_id") if isinstance(group, Group) else None
        except TakesetError:
            name = None
        if name is None:  # Without its shard, an episode has the name of the shard's file.
            return os.path.basename(self.place(number).file).removesuffix(".h5")
        if not is_plain_name(name):
            file = self.place(number).file
            raise TakesetError(f"{file}: the take_id of {self.names[number]} is {name[:40]!r}, which cannot be the name of a file")
        return name

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Numbers of the episodes by id. The ids are those of the manifest, or else in the shards, which are opened for them."""
        by_path = {} if self.manifest is None else self.manifest.ids
        ids = (by_path.get(self._path_in_directory(self.place(number).file)) for number in range(len(self.names)))
        return {str(known or self.id(number)): number for number, known in enumerate(ids)}

    def entry(self, number: int) -> Record | None:
        """The manifest's entry of an episode."""
        return None if self.manifest is None else self.manifest.written.get(self._path_in_directory(self.place(number).file))

    def labels(self, number: int) -> Labels:
        """The labels of an episode: those of the manifest, or else those in the file."""
        if self.manifest is None:
            return Labels.stored(self.shown, find_group(self.file, f"labels/{self.names[number]}"))
        id = self.manifest.ids.get(self._path_in_directory(self.place(number).file), "")
        labels = self.manifest.head.get("labels") or {}
        return Labels.recorded(self.shown, id, labels.get(id) if isinstance(labels, dict) else None)

    def split(self, number: int) -> str | None:
        """train, valid or test, by the masks, or else by the manifest."""
        if self.masks:
            return self._split_of.get(self.names[number])
        splits = {} if self.manifest is None else self.manifest.head.get("splits", {})
        return next((split for split in _SPLITS if self.id(number) in splits.get(split, ())), None)

    @cached_property
    def _split_of(self) -> dict[str, str]:
        return {name: split for split in reversed(_SPLITS) for name in self.masks.get(split, ())}

    def _target(self, section: str, name: str) -> tuple[str, str]:
        """The file and the path of a member, which is in this file or in the shard that a link names.

        Raises `TakesetError` for a link to anything but a file in `episodes/`: it could show any other file of the user.
        """
        link = outer_link(self.section(section), name)
        if link is None:
            return self.path, f"/{section}/{name}"
        file, path = link
        folder, _, shard = file.partition("/")
        if folder != "episodes" or not shard.endswith(".h5") or not is_plain_name(shard[:-3]) or path != f"/{section}/demo_0":
            raise TakesetError(
                f"{self.shown}: /{section}/{name} is a link to {file}:{path}; "
                f"links of a dataset lead to episodes/ID.h5:/{section}/demo_0, and no other is followed"
            )
        directory = next((one for one in self._folders if look(os.path.join(one, file), False) is not None), None)
        if directory is not None:
            require_regular_below(directory, file)
        return os.path.normpath(os.path.join(directory or self._folders[0], file)), path

    @cached_property
    def _folders(self) -> list[str]:
        """Where the files that links name are: next to the index, or next to what it is a symbolic link to."""
        return list(dict.fromkeys(os.path.dirname(path) for path in (self.path, os.path.realpath(self.path))))

    def _missing(self, number: int, path: str) -> TakesetError | None:
        """The error for a shard that is not there."""
        if self.files.is_closed or look(path) is not None:
            return None
        return TakesetError(
            f"{self.shown}: the shard of {self.names[number]} is missing: {path}; move or copy a dataset with its folder episodes/, "
            f"or make one file of it with takeset pack"
        )


def _demos(file: File) -> list[str]:
    """Names of the episodes in the order of their numbers."""
    data = find_group(file, "data")
    names = [name for name in members(data) if _DEMO.fullmatch(name)] if data is not None else []
    return sorted(names, key=lambda name: (int(name[5:]), name))
