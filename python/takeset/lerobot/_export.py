"""The export of a dataset."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from .._dataset import Dataset, open_dataset
from .._errors import TakesetError
from . import _video
from ._directory import ExportDirectory
from ._parquet import write_tasks
from ._plan import Options, dropped_text, plan
from ._record import info, losses, record
from ._writing import Writing, counted


@dataclass(frozen=True)
class Summary:
    """What was exported.

    path      of the LeRobot dataset, for `LeRobotDataset("any/name", root=path)`
    episodes  of LeRobot
    frames    rows of all of them
    splits    numbers of the first episode of each split, and of the one after its last
    lost      sentences on what the export does not hold
    files     number of files, without takeset-export.json
    bytes     of these files
    """

    path: str
    episodes: int
    frames: int
    splits: dict[str, tuple[int, int]]
    lost: list[str]
    files: int
    bytes: int


def export(
    dataset: Dataset | str | os.PathLike[str],
    out: str | os.PathLike[str],
    fps: int = 30,
    *,
    task: str | Mapping[str, str] | None = None,
    images: str = "png",
    quality: int = 95,
    codec: str | None = None,
    episodes: Sequence[str] | None = None,
    split: str | None = None,
    keys: Sequence[str] | None = None,
    drop_keys: Sequence[str] = (),
    state: Sequence[str] | None = None,
    tolerance: float | None = None,
    min_frames: int = 2,
    replace: bool = False,
    data_file_mb: float = 100,
    video_file_mb: float = 200,
    files_per_chunk: int = 1000,
    jobs: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> Summary:
    """Exports a dataset as a LeRobot dataset, version 3.0. LeRobot need not be installed.

    dataset          an open dataset, or the path of one
    out              the directory to write
    fps              rows per second: each row must be within `tolerance` of its number divided by that
    task             the task in words, or a mapping from ids of takes or episodes, without which an episode has its label; None: the label of
                     each episode, or else "unspecified"
    images           how images that the dataset stores as pixels are stored: png or jpeg. JPEG and PNG files keep their bytes. Or video,
                     for all images but depth
    quality          of JPEG files, 1 to 100
    codec            of videos: av1 or h264; None: av1 where PyAV has it
    episodes         only these episodes or takes, by id
    split            only the episodes of this split
    keys, drop_keys  only these observations and `actions`; without these. Without `language_persistent`, which segments become, LeRobot
                     before 0.6 opens the export
    state            the observations that make observation.state, in this order (pose and joints, as far as they are there;
                     without poses, also the numbers that are actions)
    tolerance        seconds; None: a tenth of a row
    min_frames       shorter runs of complete rows are left out
    replace          replace an earlier export
    data_file_mb     size in MiB at which a Parquet file is full
    video_file_mb    likewise of a video
    files_per_chunk  files in a folder
    jobs             threads that encode images; None: all cores
    progress         called with a line of text for each episode

    Rows that lack a part of the state, an image or the action end an episode, and so do gaps. Raises `TakesetError`, with `exit_code` 65
    for a dataset that LeRobot cannot hold, 73 if `out` exists, 64 for wrong options, and 1 if the dataset does not exist.
    """
    if jobs is not None and jobs < 1:
        raise TakesetError(f"--jobs: expected at least 1, found {jobs}", 64)
    options = _options(
        fps=fps, task=task, images=images, quality=quality, codec=codec, episodes=episodes, split=split, keys=keys, drop_keys=drop_keys,
        state=state, tolerance=tolerance, min_frames=min_frames, data_file_mb=data_file_mb, video_file_mb=video_file_mb,
        files_per_chunk=files_per_chunk,
    )  # fmt: skip
    say = progress or (lambda line: None)
    if isinstance(dataset, Dataset):
        return _export(dataset, os.fspath(out), options, replace, jobs, say)
    with open_dataset(dataset) as opened:
        return _export(opened, os.fspath(out), options, replace, jobs, say)


def _export(dataset: Dataset, out: str, options: Options, replace: bool, jobs: int | None, say: Callable[[str], None]) -> Summary:
    with ExportDirectory(out, dataset.path, replace) as directory:
        planned = plan(dataset, options)
        with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
            written = Writing(planned, options, directory.path, pool)
            try:
                for number, one in enumerate(planned.episodes, 1):
                    for run in one.cut.runs:
                        written.add(one, run)
                    left_out = f"; rows left out: {dropped_text(one.cut)}" if one.cut.dropped else ""
                    frames = counted(sum(map(len, one.cut.runs)), "frame")
                    say(f"[{number}/{len(planned.episodes)}] {one.episode.id}: {counted(len(one.cut.runs), 'episode')}, {frames}{left_out}")
            except BaseException:
                with contextlib.suppress(Exception):  # What ended the export is told, and not that its files are incomplete.
                    written.close()
                raise
            written.close()
        directory.write_json("meta/info.json", info(planned, written, options))
        statistics = {name: {key: value.tolist() for key, value in found.items()} for name, found in written.statistics.items()}
        directory.write_json("meta/stats.json", statistics)
        write_tasks(os.path.join(directory.path, "meta/tasks.parquet"), planned.tasks)
        lost = losses(planned, written, options)
        files, size = directory.finish(record(dataset, planned, written, options, lost))
    return Summary(out, written.episodes, written.frames, written.splits, lost, files, size)


def _options(*, codec: str | None, tolerance: float | None, **given: Any) -> Options:
    def require(is_right: bool, what: str) -> None:
        if not is_right:
            raise TakesetError(what, 64)

    fps, images = given["fps"], given["images"]
    require(1 <= fps <= 1000 and fps == int(fps), f"--fps: LeRobot needs a whole number from 1 to 1000, found {fps}")
    require(images in ("png", "jpeg", "video"), f"--images: expected png, jpeg or video, found {images}")
    require(1 <= given["quality"] <= 100, f"--quality: expected 1 to 100, found {given['quality']}")
    require(codec is None or codec in _video.CODECS, f"--codec: expected av1 or h264, found {codec}")
    require(codec is None or images == "video", "--codec: only --images video has a codec")
    allowed = 0.1 / fps if tolerance is None else tolerance
    require(0 <= allowed < 0.5 / fps, f"--tolerance: expected less than half a row, {0.5 / fps:.3g} s, found {tolerance}")
    for name in ("min_frames", "files_per_chunk"):
        require(given[name] >= 1, f"--{name.replace('_', '-')}: expected at least 1, found {given[name]}")
    for name in ("data_file_mb", "video_file_mb"):
        require(0 < given[name] < math.inf, f"--{name.replace('_', '-')}: expected a finite number above 0, found {given[name]}")
        given[name] = int(given[name]) if given[name] == int(given[name]) else float(given[name])
    for name in ("episodes", "drop_keys"):
        given[name] = tuple(given[name] or ())
    for name in ("keys", "state"):
        given[name] = None if given[name] is None else tuple(given[name])
    return Options(tolerance=allowed, codec=_video.codec(codec) if images == "video" else None, **{**given, "fps": int(fps)})
