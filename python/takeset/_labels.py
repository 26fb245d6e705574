"""Labels of episodes: the task, success, tags, segments, and what else somebody has said of them."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ._errors import TakesetError
from ._hdf5 import Dataset as StoredDataset
from ._hdf5 import Group, attributes, find, numbers, texts
from ._manifest import Record
from ._regular import parse_json

@dataclass(frozen=True)
class LabelSegment:
    """A part of an episode with a text of its own.

    rows     slice of the rows whose times lie in it
    text     what happens in it
    start    seconds since the first frame of the take; None in a packed file
    end      likewise, excluded
    success  whether it succeeded; None if nobody has said
    """

    rows: slice
    text: str
    start: float | None = None
    end: float | None = None
    success: bool | None = None


class Labels(Mapping[str, Any]):
    """What is said of an episode; empty if nothing is. A mapping of all labels but the segments by name.

        episode.labels.task                  # "put the cup away", or None
        episode.labels["robot_id"]           # a label of another name
        [one.text for one in episode.labels.segments]

    task      the task in words, or None
    success   True, False, or None if nobody has said
    tags      list of texts
    segments  parts of the episode in the order of their rows
    sources   where each label comes from, such as "takeset label"; empty in a packed file
    """

    def __init__(self, values: Record, segments: list[LabelSegment], sources: dict[str, str]) -> None:
        self._values = {name: value for name, value in values.items() if value is not None}
        self.task: str | None = self._values.get("task")
        self.success: bool | None = self._values.get("success")
        self.tags: list[str] = list(self._values.get("tags", ()))
        # Of those that begin with the same row, the order is that of their starts, as they are stored.
        self.segments = sorted(segments, key=lambda one: one.rows.start)
        self.sources = sources

    def segment(self, row: int) -> LabelSegment | None:
        """The segment that a row is in, the last to begin if several; None outside of all."""
        begun = self.segments[: bisect.bisect_right(self.segments, row, key=lambda one: one.rows.start)]
        return next((one for one in reversed(begun) if row < one.rows.stop), None)

    def text(self, row: int) -> str | None:
        """The text of the segment that a row is in, the last to begin if several; the task outside of all; None without one."""
        found = self.segment(row)
        return found.text if found else self.task

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        parts = [f"{name}={value!r}" for name, value in self.items()]
        return f"<takeset.Labels {', '.join([*parts, f'{len(self.segments)} segments'] if self.segments else parts) or 'none'}>"

    @classmethod
    def recorded(cls, path: str, id: str, record: Any) -> Labels:
        """Those of an episode in a manifest; none for None. Raises `TakesetError` for what Takeset does not write."""
        if record is None:
            return cls({}, [], {})
        try:
            segments = [
                LabelSegment(slice(*_rows(one["rows"])), str(one["text"]), float(one["start"]), float(one["end"]), one.get("success"))
                for one in record.get("segments") or []
                if "rows" in one  # The others lie in no row.
            ]
            values = {name: value for name, value in record.items() if name not in ("segments", "sources")}
            return cls(_checked(values), segments, {str(name): str(source) for name, source in record["sources"].items()})
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            raise TakesetError(f"{path} is damaged: the labels of {id} are not as Takeset writes them") from None

    @classmethod
    def stored(cls, shown: str, group: Group | None) -> Labels:
        """Those in a group of an index or a packed file."""
        if group is None:
            return cls({}, [], {})
        try:
            values = attributes(group)
            if "success" in values:
                values["success"] = {0: False, 1: True}[values["success"]]
            if "tags" in values:
                values["tags"] = parse_json(values["tags"])
            arrays = [find(group, name) for name in ("segment_start", "segment_end", "segment_text")]
            segments = []
            if all(isinstance(one, StoredDataset) for one in arrays):
                rows = [numbers(one).tolist() for one in arrays[:2]]
                segments = [LabelSegment(slice(*_rows(both)), text) for both, text in zip(zip(*rows, strict=True), texts(arrays[2]), strict=True)]
            return cls(_checked(values), segments, {})
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            raise TakesetError(f"{shown} is damaged: /labels are not as Takeset writes them") from None


def _rows(rows: Any) -> tuple[int, int]:
    start, stop = rows
    if not (isinstance(start, int) and isinstance(stop, int) and 0 <= start < stop < 1 << 31):
        raise ValueError("no rows")
    return start, stop


def _checked(values: Record) -> Record:
    kinds: dict[str, Any] = {"task": (str, type(None)), "success": (bool, type(None)), "tags": (list, type(None))}
    for name, value in values.items():
        if not isinstance(value, kinds.get(name, (str, bool, int, float, type(None)))):
            raise ValueError(name)
    if not all(isinstance(tag, str) for tag in values.get("tags") or []):
        raise ValueError("tags")
    return values
