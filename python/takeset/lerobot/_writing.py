"""The files of a LeRobot dataset while they are written, one run of rows after the other."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from . import _statistics
from ._columns import RunColumns
from ._images import FARTHEST_MM, ImageFiles
from ._parquet import DATA_PATH, EPISODES_PATH, ParquetFiles, data_schema, statistics_columns, statistics_fields
from ._plan import Options, Plan, PlannedEpisode
from ._runs import Run
from ._statistics import Statistics
from ._video import VideoFiles

_EPISODES_AT_ONCE = 100


class Writing:
    """The files, and what is counted on the way.

    episodes, frames  numbers of LeRobot's
    splits            numbers of the first episode of each split, and of the one after its last
    exported          by id of Takeset's episodes: which rows became which episode
    statistics        of all episodes, by feature
    """

    def __init__(self, plan: Plan, options: Options, root: str, pool: ThreadPoolExecutor) -> None:
        self.episodes = self.frames = 0
        self.splits: dict[str, tuple[int, int]] = {}
        self.exported: dict[str, list[dict[str, int]]] = {}
        self.statistics: dict[str, Statistics] = {}
        self._plan, self._options, self._pool = plan, options, pool
        self._images = ImageFiles("jpeg" if options.images == "jpeg" else "png", options.quality)
        sizes = (options.data_file_mb, options.files_per_chunk)
        self._schema = data_schema(plan.features)
        self._data = ParquetFiles(root, DATA_PATH, self._schema, *sizes)
        self._table = ParquetFiles(root, EPISODES_PATH, self._entry_schema(), *sizes)
        self._videos = {}
        if options.codec is not None:
            for key, name in plan.images.items():
                self._videos[key] = VideoFiles(root, name, options.codec, options.fps, options.video_file_mb, options.files_per_chunk)
        self._entries: list[dict[str, Any]] = []
        self._task_numbers = {task: number for number, task in enumerate(plan.tasks)}
        self._too_far = 0

    def add(self, one: PlannedEpisode, run: Run) -> None:
        """Writes a run of rows as an episode."""
        columns = RunColumns(self._plan, one, run, self._options.fps, self.episodes, self._task_numbers[one.task], self.frames)
        place = self._data.begin(len(run))
        for table in columns.tables(self._schema, self._images, self._pool):
            self._data.write(table)
        self._data.end_row_group()
        entry = {
            "episode_index": self.episodes,
            "tasks": [one.task],
            "length": len(run),
            "data/chunk_index": place.chunk,
            "data/file_index": place.file,
            "dataset_from_index": self.frames,
            "dataset_to_index": self.frames + len(run),
            "takeset/take_id": one.episode.take_id,
            "takeset/episode_id": one.episode.id,
            "takeset/split": one.episode.split or "",
            "takeset/first_row": run.first,
            "takeset/end_row": run.end,
            "takeset/time_base": one.time_base,
            "takeset/success": one.episode.labels.success,
        }
        for key, videos in self._videos.items():
            entry |= videos.add(columns.frames(key), f"{one.episode.id}: {key}")
        self._finish(entry, columns.statistics())
        self._too_far += columns.too_far
        self.exported.setdefault(one.episode.id, []).append({"episode_index": self.episodes, "first_row": run.first, "end_row": run.end})
        if one.episode.split is not None:
            self.splits[one.episode.split] = (self.splits.get(one.episode.split, (self.episodes, 0))[0], self.episodes + 1)
        self.episodes, self.frames = self.episodes + 1, self.frames + len(run)

    def close(self) -> None:
        """Completes all files."""
        self._write_entries()
        self._data.close()
        self._table.close()
        for videos in self._videos.values():
            videos.close()

    def lost(self) -> list[str]:
        """What was found to be lost on the way."""
        found = []
        if self._too_far:
            found.append(f"depth: {counted(self._too_far, 'value')} beyond {FARTHEST_MM / 1000} m became holes")
        if self._images.changed:
            files = counted(self._images.changed, "JPEG file")
            found.append(f"images: {files}, turned by EXIF or without color, became PNG files of the same pixels")
        return found

    def _finish(self, entry: Mapping[str, Any], found: dict[str, Statistics]) -> None:
        for name, one in found.items():
            self.statistics[name] = _statistics.merged([self.statistics[name], one]) if name in self.statistics else one
        self._entries.append({**entry, **statistics_columns(found)})
        if len(self._entries) >= _EPISODES_AT_ONCE:
            self._write_entries()

    def _write_entries(self) -> None:
        place = self._table.begin(len(self._entries))
        at = {"meta/episodes/chunk_index": place.chunk, "meta/episodes/file_index": place.file}
        self._table.write(pa.Table.from_pylist([entry | at for entry in self._entries], schema=self._table.schema))
        self._table.end_row_group()
        self._entries.clear()

    def _entry_schema(self) -> pa.Schema:
        whole, text, seconds = pa.int64(), pa.string(), pa.float64()
        fields = [("episode_index", whole), ("tasks", pa.list_(text)), ("length", whole)]
        fields += [(name, whole) for name in ("data/chunk_index", "data/file_index", "dataset_from_index", "dataset_to_index")]
        for name in self._plan.images.values() if self._options.codec is not None else ():
            places = {"chunk_index": whole, "file_index": whole, "from_timestamp": seconds, "to_timestamp": seconds}
            fields += [(f"videos/{name}/{what}", kind) for what, kind in places.items()]
        fields += statistics_fields(self._plan.features)
        fields += [("meta/episodes/chunk_index", whole), ("meta/episodes/file_index", whole)]
        fields += [(f"takeset/{name}", text) for name in ("take_id", "episode_id", "split", "time_base")]
        return pa.schema([*fields, ("takeset/first_row", whole), ("takeset/end_row", whole), ("takeset/success", pa.bool_())])


def counted(count: int, noun: str) -> str:
    """A number of things in words: 1 row, 2 rows."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
