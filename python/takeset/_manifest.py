"""What the manifest says: takes, findings, provenance."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ._errors import TakesetError
from ._regular import look, parse_json, reader

Record = dict[str, Any]

_SPLITS = ("train", "valid", "test")
# A manifest of 100,000 takes has less than a hundredth of that, and its longest line names the folder of every take.
_MOST_BYTES = 16 << 30
_MOST_LINE_BYTES = 64 << 20
_MOST_BYTES_AT_ONCE = 1 << 30  # of one that another program has changed
_ID_BYTES = 240


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


def is_plain_name(name: object) -> bool:
    """Whether a name can only be that of a file in a directory, as ids of takes are, because they become part of paths."""
    if not isinstance(name, str) or not 0 < len(name.encode("utf-8", "surrogatepass")) <= _ID_BYTES:
        return False
    return not name.startswith(".") and "/" not in name and not any(ord(one) < 32 or 127 <= ord(one) < 160 for one in name)


def is_inside(path: object) -> bool:
    """Whether a path is relative and does not leave the directory."""
    return isinstance(path, str) and bool(path) and not path.startswith("/") and ".." not in path.split("/") and "\0" not in path


class Entries(Mapping[str, Record]):
    """Entries of a manifest that stay in the file, by the path of the shard; each is read when it is asked for."""

    def __init__(self, path: str, places: dict[str, tuple[str, int, int]]) -> None:
        self._path = path
        self._places = places  # id, offset and length of each

    def __getitem__(self, shard: str) -> Record:
        id, offset, length = self._places[shard]
        try:
            with reader(self._path, _MOST_BYTES) as file:
                file.seek(offset)
                entry: Record = parse_json(file.read(length))
        except (OSError, ValueError) as error:
            raise TakesetError(f"{self._path} has changed since it was opened: {error}") from None
        _require_take(self._path, entry)
        if entry["id"] != id:
            raise TakesetError(f"{self._path} has changed since it was opened: {id} is where {entry['id']} was")
        return entry

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
            raise TakesetError(f"{path} has version {str(record.get('manifest_version'))[:40]}, and this package reads version 2")
        _require_head(path, record)
        for take in record["takes"]:
            _require_take(path, take)
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
            found = look(path, follows_link=False)
            if found is None:
                return None
            if found.st_size > cls.IN_MEMORY:
                by_lines = cls._by_lines(path)
                if by_lines is not None:
                    return by_lines
            with reader(path, _MOST_BYTES_AT_ONCE) as file:
                return cls(path, parse_json(file.read(_MOST_BYTES_AT_ONCE)))
        except (OSError, ValueError) as error:
            raise TakesetError(f"{path} cannot be read: {error}") from None

    @classmethod
    def _by_lines(cls, path: str) -> Manifest | None:
        """The manifest without its takes, and their places; None if another program has changed its layout."""
        others: list[bytes] = []
        places: dict[str, tuple[str, int, int]] = {}
        with reader(path, _MOST_BYTES) as file:
            offset = 0
            is_take = False
            while line := file.readline(_MOST_LINE_BYTES + 1):
                if len(line) > _MOST_LINE_BYTES:
                    raise ValueError(f"a line has more than {_MOST_LINE_BYTES >> 20} MiB")
                if is_take and not line.startswith(b"]"):
                    take = parse_json(line.rstrip(b",\n"))
                    _require_take(path, take)
                    if take.get("output"):
                        places[take["output"]["path"]] = (take["id"], offset, len(line.rstrip(b",\n")))
                else:
                    is_take = line == b'"takes":[\n'
                    # The longest line says where every take was; nothing here needs it.
                    others.append(b'"run":null,\n' if line.startswith(b'"run":') else line)
                offset += len(line)
        if not any(line == b'"takes":[\n' for line in others):
            return None
        return cls(path, parse_json(b"".join(others)), Entries(path, places))

    @property
    def record(self) -> Record:
        """The whole record, with all its takes."""
        if not isinstance(self.written, Entries):
            return self.head
        try:
            with reader(self._path, _MOST_BYTES) as file:
                content = parse_json(file.read())
        except (OSError, ValueError) as error:
            raise TakesetError(f"{self._path} has changed since it was opened: {error}") from None
        return Manifest(self._path, content).head

    @property
    def ids(self) -> dict[str, str]:
        """Ids of the episodes by the paths of their shards."""
        if isinstance(self.written, Entries):
            return self.written.ids()
        return {path: str(take["id"]) for path, take in self.written.items()}


def _require_head(path: str, record: Record) -> None:
    """Raises `TakesetError` unless the members of a record that are read here, but for its takes, are what they must be."""
    splits, index = record.get("splits", {}), record.get("index", {})
    _require(path, isinstance(splits, dict) and isinstance(index, dict), "its splits or its index are not objects")
    for split in _SPLITS:
        ids = splits.get(split, [])
        _require(path, isinstance(ids, list) and all(map(is_plain_name, ids)), f"its split {split} is not a list of ids")
    _require(path, is_inside(index.get("path", "dataset.h5")), "the path of its index leaves the dataset")
    _require_findings(path, record, "the dataset")


def _require_take(path: str, take: Any) -> None:
    """Raises `TakesetError` unless the members of an entry that are read here are what they must be."""
    _require(path, isinstance(take, dict), "an entry of its takes is not an object")
    id = take.get("id")
    _require(path, is_plain_name(id), f"the id of a take is {str(id)[:40]!r}, which cannot be the name of a file")
    _require(path, isinstance(take.get("outcome"), str), f"{id} has no outcome")
    _require(path, isinstance(take.get("reason"), (str, type(None))), f"the reason of {id} is not a text")
    _require(path, is_plain_name(take.get("take", id)), f"the take of {id} cannot be the name of a file")
    part, output = take.get("part"), take.get("output")
    _require(path, part is None or _is_count(part), f"the part of {id} is not a number")
    _require(path, output is None or isinstance(output, dict) and is_inside(output.get("path")), f"the shard of {id} is not in the dataset")
    measures = take.get("measures")
    _require(path, measures is None or isinstance(measures, dict) and all(map(_is_measure, measures.values())), f"the measures of {id} are not numbers")
    _require_findings(path, take, str(id))


def _require_findings(path: str, record: Record, whose: str) -> None:
    found = record.get("findings", [])
    _require(path, isinstance(found, list) and all(map(_is_finding, found)), f"the findings of {whose} are not as Takeset writes them")


def _is_finding(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and all(isinstance(entry.get(name), str) for name in ("code", "severity", "message"))
        and all(isinstance(entry.get(name), (str, type(None))) for name in ("file", "field"))
        and (entry.get("count") is None or _is_count(entry["count"]))
    )


def _is_measure(value: Any) -> bool:
    return value is None or isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= 1e15


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _require(path: str, holds: bool, otherwise: str) -> None:
    if not holds:
        raise TakesetError(f"{path} is damaged: {otherwise}")
