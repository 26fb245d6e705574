"""Datasets: a directory, its index, one of its shards, or a packed file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, overload

from ._episode import Episode
from ._errors import OutOfRange, UnknownKey
from ._hdf5 import integer
from ._manifest import Finding, Record, findings
from ._stats import Statistics
from ._store import Store

if TYPE_CHECKING:
    import pandas


class _Splits(dict[str, "list[Episode]"]):
    """Episodes by split; a name that none has is an `UnknownKey` which names all."""

    def __init__(self, path: str, episodes: dict[str, list[Episode]]) -> None:
        super().__init__(episodes)
        self.path = path

    def __missing__(self, split: str) -> list[Episode]:
        known = ", ".join(f"{name} ({len(episodes)})" for name, episodes in self.items()) or "none, as a single shard"
        raise UnknownKey(f"{self.path} has no split {split}; it has {known}. For all episodes, use split=None")


class Dataset:
    """A dataset, open for reading: episodes by number, by id, or one after the other; made by `takeset.open`.

    Opening it reads only its index. Episodes are opened when they are needed, the ones used last stay open, and up to 256 MiB of small
    arrays are remembered. A dataset may be used by several threads, inherited by forked processes and pickled to spawned ones; each
    process opens the files by itself.

    path  the file that was opened: dataset.h5 of a directory, a shard, or a packed file
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._store = Store(os.fspath(path))
        self.path = self._store.shown
        self._episodes = [Episode(self, number, name) for number, name in enumerate(self._store.names)]

    # Episodes

    @property
    def episodes(self) -> list[Episode]:
        """All episodes, in the order of their ids."""
        return list(self._episodes)

    @property
    def splits(self) -> dict[str, list[Episode]]:
        """Episodes by the name of a mask: train, valid and test; empty for a shard."""
        by_name = {episode.name: episode for episode in self._episodes}
        return _Splits(
            self.path, {split: [by_name[name] for name in names if name in by_name] for split, names in self._store.masks.items()}
        )

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
            if key in self._store.numbers:
                return self._episodes[self._store.numbers[key]]
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
        return key in self._store.numbers or any(key is episode or key == episode.name for episode in self._episodes)

    def __repr__(self) -> str:
        return f"<takeset.Dataset {self.path!r}: {len(self)} episode{'s' if len(self) != 1 else ''}, {self.rows} rows>"

    # What is known of it

    @cached_property
    def rows(self) -> int:
        """Number of rows of all episodes."""
        total = integer(self._store.section("data"), "total", 0)
        return sum(map(len, self._episodes)) if total is None else total

    @property
    def record(self) -> Record | None:
        """The manifest's record: tool, pipeline, takes, splits, findings, totals; None for a file without a manifest."""
        return None if (manifest := self._store.manifest) is None else manifest.record

    @property
    def record_sha256(self) -> str | None:
        """Digest of the record, which identifies the dataset; None for a file without a manifest."""
        return None if (manifest := self._store.manifest) is None else manifest.sha256

    @property
    def findings(self) -> list[Finding]:
        """What was found about the dataset as a whole, such as keys with several units; `episode.findings` has those of a take.

        Empty for a shard, and for a file without a manifest.
        """
        manifest = self._store.manifest
        return [] if self._store.is_shard or manifest is None else findings(manifest.head.get("findings", []))

    @property
    def takes(self) -> list[Record]:
        """The manifest's entries of every outcome: written, rejected and failed (with `reason`); of a shard, only its own.

        Empty for a file without a manifest.
        """
        return self._store.takes

    @property
    def statistics(self) -> Mapping[str, Statistics]:
        """Statistics of the training episodes by key; empty for a shard."""
        return self._store.statistics

    @property
    def measures(self) -> pandas.DataFrame | dict[str, dict[str, float | None]]:
        """The measures of the episodes, one row each by id (docs/measures.md); without pandas, a dict of dicts by id and name."""
        from ._tables import measures_of

        return measures_of(self)

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
        self._store.close()

    def __enter__(self) -> Dataset:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[type[Dataset], tuple[str]]:
        return type(self), (self._store.path,)

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

