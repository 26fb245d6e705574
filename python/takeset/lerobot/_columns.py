"""Columns of the rows of a run: numbers at once, images and depth maps in pieces that fit into memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from . import _statistics
from ._features import IMAGE, LANGUAGE, Feature
from ._images import File, ImageFiles, millimeters
from ._plan import Plan, PlannedEpisode, valid_name
from ._runs import Run
from ._statistics import Pixels, Statistics
from ._survey import ACTIONS

# Rows are read and encoded in pieces of so many bytes of pixels. A JPEG or PNG file counts as so many times smaller.
_PIECE_BYTES = 32 << 20
_COMPRESSION = 4


class RunColumns:
    """The columns of one run, and their statistics once all rows were read.

    run    rows of the episode
    index  number of its first row among all rows of LeRobot
    """

    def __init__(self, plan: Plan, one: PlannedEpisode, run: Run, fps: int, episode_index: int, task_index: int, index: int) -> None:
        self.plan, self.one, self.run = plan, one, run
        self.too_far = 0
        self._subtasks = subtasks(one, run, fps)
        count, frames = len(run), np.arange(len(run))
        self._numbers: dict[str, NDArray[Any]] = {
            "timestamp": (frames / fps).astype(np.float32),
            "frame_index": frames,
            "episode_index": np.full(count, episode_index),
            "index": frames + index,
            "task_index": np.full(count, task_index),
            **self._values(),
        }
        self._pixels = {
            feature.name: Pixels(feature.shape[2], 1 << (16 if feature.is_depth else 8)) for feature in plan.features if feature.is_image
        }
        self._counted = _statistics.sampled(count) + run.first
        self._streams = {name: one.episode[key] for key, name in (plan.images | plan.depth).items()}

    def tables(self, schema: pa.Schema, files: ImageFiles, pool: ThreadPoolExecutor) -> Iterator[pa.Table]:
        """All rows in pieces, with the columns of the schema."""
        features = [feature for feature in self.plan.features if feature.name in schema.names]
        for rows in self._pieces([feature for feature in features if feature.is_image]):
            columns = [
                self._image_column(feature, rows, files, pool) if feature.is_image else self._column(feature, rows) for feature in features
            ]
            yield pa.Table.from_arrays(columns, schema=schema)

    def frames(self, key: str) -> Iterator[NDArray[np.uint8]]:
        """The images (H, W, 3) of a camera, one after the other."""
        name = self.plan.images[key]
        stream, wanted = self._streams[name], set(self._counted.tolist())
        for row in range(self.run.first, self.run.end):
            image = stream[row]
            if row in wanted:
                self._pixels[name].add(image)
            yield image

    def statistics(self) -> dict[str, Statistics]:
        """Statistics of each feature. Those of images are over as many of them as LeRobot takes."""
        found = {}
        for feature in self.plan.features:
            if feature.is_language:
                continue
            if feature.is_image:
                found[feature.name] = self._pixels[feature.name].statistics(1 if feature.is_depth else 255)
            else:
                found[feature.name] = _statistics.of_vectors(self._numbers[feature.name].reshape(len(self.run), -1))
        return found

    # Numbers

    def _values(self) -> dict[str, NDArray[Any]]:
        episode, plan, rows = self.one.episode, self.plan, slice(self.run.first, self.run.end)
        found: dict[str, NDArray[Any]] = {
            "source_timestamp_ns": self.one.times_ns[rows],
            "takeset.source_index": episode.source_index[rows],
            "takeset.quality": episode.quality[rows],
        }
        if plan.state:
            found["observation.state"] = np.concatenate([episode[key][rows] for key in plan.state], axis=1)
        if plan.has_actions:
            found["action"] = episode[ACTIONS][rows]
        for key in plan.depth:
            found[valid_name(key)] = episode[key].valid[rows]
        for key, name in plan.vectors.items():
            values, elements = episode[key][rows], episode[key].mask(rows)
            valid = episode[key].valid[rows, None] & np.isfinite(values)
            found[name], found[valid_name(key)] = values, valid if elements is None else valid & elements
        for key, name in plan.intrinsics.items():
            intrinsics = episode.intrinsics(key)
            assert intrinsics is not None  # The plan has only those that every episode has.
            found[name] = intrinsics[rows].astype(np.float32)
        return found

    def _column(self, feature: Feature, rows: range) -> pa.Array:
        if feature.is_language:
            return language_column(self._subtasks, len(rows))
        return feature.column(self._numbers[feature.name][rows.start - self.run.first : rows.stop - self.run.first])

    # Images

    def _pieces(self, stored: Sequence[Feature]) -> Iterator[range]:
        size = 1
        for feature in stored:
            stream = self._streams[feature.name]
            pixels = int(np.prod(stream.shape[1:])) * stream.dtype.itemsize
            size += pixels if stream.encoding == "raw" else pixels // _COMPRESSION
        count = max(1, _PIECE_BYTES // size)
        for first in range(self.run.first, self.run.end, count):
            yield range(first, min(first + count, self.run.end))

    def _image_column(self, feature: Feature, rows: range, files: ImageFiles, pool: ThreadPoolExecutor) -> pa.Array:
        stream, pixels = self._streams[feature.name], self._pixels[feature.name]
        counted = self._counted[(self._counted >= rows.start) & (self._counted < rows.stop)].tolist()
        if stream.encoding != "raw":  # Reading is HDF5's, which has one lock.
            for row in counted:
                pixels.add(stream[row])
            return self._files_column([files.stored(stream, row) for row in rows], rows)
        raw = stream[rows.start : rows.stop]
        if feature.is_depth:
            raw, too_far = millimeters(raw, stream.unit)
            self.too_far += too_far
        for row in counted:
            pixels.add(raw[row - rows.start])
        return self._files_column(list(pool.map(files.depth if feature.is_depth else files.encoded, raw)), rows)

    def _files_column(self, files: Sequence[File], rows: range) -> pa.Array:
        names = [f"frame-{row - self.run.first:06d}.{suffix}" for row, (_, suffix) in zip(rows, files, strict=True)]
        return pa.StructArray.from_arrays(
            [pa.array([data for data, _ in files], pa.binary()), pa.array(names, pa.string())], fields=list(IMAGE)
        )


def subtasks(one: PlannedEpisode, run: Run, fps: int) -> list[dict[str, Any]]:
    """The segments of a run as LeRobot has them: each is active until the next one begins, and no two begin with one row."""
    labels = one.episode.labels
    changes = {min(max(row, run.first), run.end - 1) for segment in labels.segments for row in (segment.rows.start, segment.rows.stop)}
    found: list[dict[str, Any]] = []
    last = None
    for row in sorted(changes):
        segment = labels.segment(row)
        if segment is not None and segment is not last:
            found.append({"role": "assistant", "content": segment.text, "style": "subtask", "timestamp": (row - run.first) / fps})
            last = segment
    return found


def language_column(texts: list[dict[str, Any]], rows: int) -> pa.Array:
    """The same texts in each of so many rows. What they do not have is null."""
    fields = list(LANGUAGE.value_type)
    columns = [pa.array([one.get(field.name) for one in texts] * rows, field.type) if texts and field.name in texts[0] else
               pa.nulls(len(texts) * rows, field.type) for field in fields]  # fmt: skip
    offsets = pa.array(np.arange(rows + 1) * len(texts), pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(columns, fields=fields), type=LANGUAGE)
