"""What the manifest says: takes, findings, provenance."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ._errors import TakesetError

Record = dict[str, Any]


@dataclass(frozen=True)
class Finding:
    """An anomaly of a take that its conversion survived, or the reason why the take has no episode.

    code      word with hyphens; `takeset explain CODE` says more
    severity  info, warning or error
    message   a sentence: what was found and what was expected
    file      path in the take
    field     place in the file
    count     number of occurrences, where several samples are affected
    """

    code: str
    severity: str
    message: str
    file: str | None = None
    field: str | None = None
    count: int | None = None

    def __str__(self) -> str:
        place = f"{self.file}: " if self.file and not self.message.startswith(self.file) else ""
        return f"{self.severity} {self.code}: {place}{self.message}" + (f" ({self.count})" if (self.count or 1) > 1 else "")


def findings(entries: list[Record]) -> list[Finding]:
    """Findings of the record's entries. Members that a later version may add are left out."""
    known = Finding.__dataclass_fields__
    return [Finding(**{key: value for key, value in entry.items() if key in known}) for entry in entries]


class Entries(Mapping[str, Record]):
    """Entries of a manifest that stay in the file, by the path of the shard; each is read when it is asked for."""

    def __init__(self, path: str, places: dict[str, tuple[str, int, int]]) -> None:
        self._path = path
        self._places = places  # id, offset and length of each

    def __getitem__(self, shard: str) -> Record:
        _, offset, length = self._places[shard]
        try:
            with open(self._path, "rb") as file:
                file.seek(offset)
                entry: Record = json.loads(file.read(length))
                return entry
        except (OSError, ValueError) as error:
            raise TakesetError(f"{self._path} has changed since it was opened: {error}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def ids(self) -> dict[str, str]:
        return {path: place[0] for path, place in self._places.items()}


class Manifest:
    """manifest.json of a dataset directory.

    Of a large manifest, only the paths and ids of its episodes are kept in memory: Takeset writes each take on a line of its own.

    head     the record without its takes
    sha256   digest of the record
    written  entries of takes with an episode, by the path of its shard
    """

    IN_MEMORY = 8 << 20  # bytes of a manifest that is read at once

    def __init__(self, path: str, content: Record, written: Entries | None = None) -> None:
        record = content.get("record") if isinstance(content, dict) else None
        if not isinstance(record, dict) or not isinstance(record.get("takes"), list):
            raise TakesetError(f"{path} is not the manifest of a Takeset dataset")
        if record.get("manifest_version") != 2:
            raise TakesetError(f"{path} has version {record.get('manifest_version')}, and this package reads version 2")
        self._path = path
        self.head: Record = record
        self.sha256 = str(content.get("record_sha256"))
        self.written: Mapping[str, Record] = (
            written if written is not None else {take["output"]["path"]: take for take in record["takes"] if take.get("output")}
        )

    @classmethod
    def beside(cls, directory: str) -> Manifest | None:
        """The manifest in a directory, or None if there is none. Raises `TakesetError` if it is not one of this version."""
        path = os.path.join(directory, "manifest.json")
        try:
            if os.path.getsize(path) > cls.IN_MEMORY:
                by_lines = cls._by_lines(path)
                if by_lines is not None:
                    return by_lines
            with open(path, encoding="utf-8") as file:
                return cls(path, json.load(file))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise TakesetError(f"{path} cannot be read: {error}") from None

    @classmethod
    def _by_lines(cls, path: str) -> Manifest | None:
        """The manifest without its takes, and their places; None if another program has changed its layout."""
        others: list[bytes] = []
        places: dict[str, tuple[str, int, int]] = {}
        with open(path, "rb") as file:
            offset = 0
            is_take = False
            for line in file:
                if is_take and not line.startswith(b"]"):
                    take = json.loads(line.rstrip(b",\n"))
                    if take.get("output"):
                        places[take["output"]["path"]] = (take["id"], offset, len(line.rstrip(b",\n")))
                else:
                    is_take = line == b'"takes":[\n'
                    # The longest line says where every take was; nothing here needs it.
                    others.append(b'"run":null,\n' if line.startswith(b'"run":') else line)
                offset += len(line)
        if not any(line == b'"takes":[\n' for line in others):
            return None
        return cls(path, json.loads(b"".join(others)), Entries(path, places))

    @property
    def record(self) -> Record:
        """The whole record, with all its takes."""
        if not isinstance(self.written, Entries):
            return self.head
        try:
            with open(self._path, encoding="utf-8") as file:
                record: Record = json.load(file)["record"]
                return record
        except (OSError, ValueError, KeyError) as error:
            raise TakesetError(f"{self._path} has changed since it was opened: {error}") from None

    @property
    def ids(self) -> dict[str, str]:
        """Ids of the episodes by the paths of their shards."""
        if isinstance(self.written, Entries):
            return self.written.ids()
        return {path: str(take["id"]) for path, take in self.written.items()}
