"""The Parquet files of a LeRobot dataset, a new one whenever one is full."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ._features import Feature
from ._statistics import Statistics

DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
EPISODES_PATH = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
MEGABYTE = 1 << 20

# An episode is one row group, unless it is larger than this.
_ROW_GROUP_BYTES = 128 * MEGABYTE
# Readers skip row groups by the ranges of these.
_ROW_COLUMNS = ["timestamp", "frame_index", "episode_index", "index", "task_index"]


@dataclass
class FilePlace:
    """Number of a file: of its folder (chunk), and in its folder."""

    chunk: int = 0
    file: int = 0

    def after(self, files_per_chunk: int) -> FilePlace:
        """The next file."""
        return FilePlace(self.chunk + 1, 0) if self.file + 1 >= files_per_chunk else FilePlace(self.chunk, self.file + 1)


class ParquetFiles:
    """Parquet files of one schema. An episode is never divided between files.

    limit_mb  size in MiB at which the next episode goes into a new file
    """

    def __init__(self, root: str, template: str, schema: pa.Schema, limit_mb: float, files_per_chunk: int) -> None:
        self.schema = schema
        self._place = FilePlace()
        self._root, self._template = root, template
        self._limit, self._files_per_chunk = limit_mb * MEGABYTE, files_per_chunk
        self._writer: pq.ParquetWriter | None = None
        self._path, self._rows = "", 0
        self._waiting: list[pa.Table] = []

    def begin(self, rows: int) -> FilePlace:
        """The file that an episode of so many rows will be in, if its rows need as much as those of the file so far."""
        if self._rows:
            size = os.stat(self._path).st_size
            if size + size / self._rows * rows >= self._limit:
                self.close()
                self._place = self._place.after(self._files_per_chunk)
        return self._place

    def write(self, table: pa.Table) -> None:
        """Adds rows to the row group."""
        self._waiting.append(table)
        if sum(one.nbytes for one in self._waiting) >= _ROW_GROUP_BYTES:
            self.end_row_group()

    def end_row_group(self) -> None:
        """Writes the rows that were added."""
        if not any(table.num_rows for table in self._waiting):
            return
        if self._writer is None:
            self._path = os.path.join(self._root, self._template.format(chunk_index=self._place.chunk, file_index=self._place.file))
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            ranged = [name for name in _ROW_COLUMNS if name in self.schema.names]
            self._writer = pq.ParquetWriter(self._path, self.schema, compression="snappy", use_dictionary=False, write_statistics=ranged)
        table = pa.concat_tables(self._waiting)
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._rows += table.num_rows
        self._waiting.clear()

    def close(self) -> None:
        """Completes the file; rows that are written later go into another."""
        self.end_row_group()
        if self._writer is not None:
            self._writer.close()
        self._writer, self._rows = None, 0


def data_schema(features: Sequence[Feature]) -> pa.Schema:
    """Columns of data/*.parquet. The metadata let the `datasets` library, and viewers that use it, show images as images."""
    stored = [feature for feature in features if feature.dtype != "video"]
    text = json.dumps({"info": {"features": {feature.name: feature.hub for feature in stored}}})
    return pa.schema([(feature.name, feature.arrow) for feature in stored], metadata={"huggingface": text})


def statistics_fields(features: Sequence[Feature]) -> list[pa.Field]:
    """Columns of the statistics of each episode; those of images are (channels, 1, 1)."""
    fields = []
    for feature in features:
        if feature.is_language:
            continue
        numbers = pa.list_(pa.list_(pa.list_(pa.float64()))) if feature.is_image else pa.list_(pa.float64())
        for name in ("min", "max", "mean", "std", "count", "q01", "q10", "q50", "q90", "q99"):
            fields.append(pa.field(f"stats/{feature.name}/{name}", pa.list_(pa.int64()) if name == "count" else numbers))
    return fields


def statistics_columns(statistics: dict[str, Statistics]) -> dict[str, Any]:
    """Values of the columns `statistics_fields`."""
    return {f"stats/{feature}/{name}": value.tolist() for feature, found in statistics.items() for name, value in found.items()}


def write_tasks(path: str, tasks: Sequence[str]) -> None:
    """meta/tasks.parquet: a pandas table whose index is the text of the task, without which LeRobot reads a number for it."""
    columns = [
        {"name": "task_index", "field_name": "task_index", "pandas_type": "int64", "numpy_type": "int64", "metadata": None},
        {"name": "task", "field_name": "task", "pandas_type": "unicode", "numpy_type": "object", "metadata": None},
    ]
    names = [{"name": None, "field_name": None, "pandas_type": "unicode", "numpy_type": "object", "metadata": {"encoding": "UTF-8"}}]
    pandas = {
        "index_columns": ["task"],
        "column_indexes": names,
        "columns": columns,
        "creator": {"library": "pyarrow", "version": pa.__version__},
        "pandas_version": "2.0.0",
    }
    schema = pa.schema([("task_index", pa.int64()), ("task", pa.string())], metadata={"pandas": json.dumps(pandas)})
    pq.write_table(pa.table([pa.array(range(len(tasks)), pa.int64()), pa.array(tasks, pa.string())], schema=schema), path)
