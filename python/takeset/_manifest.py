"""What the manifest says: takes, findings, provenance."""

from __future__ import annotations

import json
import os
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


@dataclass(frozen=True)
class Manifest:
    """manifest.json of a dataset directory.

    record  what depends only on inputs, pipeline and version: tool, pipeline, takes, splits, findings, statistics, totals
    sha256  digest of the record
    """

    record: Record
    sha256: str
    written: dict[str, Record]  # entries of takes with an episode, by the path of its shard

    @classmethod
    def beside(cls, directory: str) -> Manifest | None:
        """The manifest in a directory, or None if there is none. Raises `TakesetError` if it is not one of this version."""
        path = os.path.join(directory, "manifest.json")
        try:
            with open(path, encoding="utf-8") as file:
                content = json.load(file)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise TakesetError(f"{path} cannot be read: {error}") from None
        record = content.get("record") if isinstance(content, dict) else None
        if not isinstance(record, dict) or not isinstance(record.get("takes"), list):
            raise TakesetError(f"{path} is not the manifest of a Takeset dataset")
        if record.get("manifest_version") != 2:
            raise TakesetError(f"{path} has version {record.get('manifest_version')}, and this package reads version 2")
        written = {take["output"]["path"]: take for take in record["takes"] if take.get("output")}
        return cls(record, str(content.get("record_sha256")), written)
