"""What describes the dataset: meta/info.json and takeset-export.json."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._dataset import Dataset
from ._parquet import DATA_PATH, VIDEO_PATH
from ._plan import Options, Plan
from ._survey import ACTIONS
from ._writing import Writing, counted

_VERSION = "v3.0"
_SINGLE = ("fps", "images", "quality", "split", "tolerance", "min_frames", "data_file_mb", "video_file_mb", "files_per_chunk")
_LISTS = ("episodes", "keys", "drop_keys")


def info(plan: Plan, written: Writing, options: Options) -> dict[str, Any]:
    """meta/info.json. A split is a range of episodes; LeRobot itself reads none of them."""
    splits = written.splits or {"train": (0, written.episodes)}
    return {
        "codebase_version": _VERSION,
        "robot_type": ", ".join(sorted({one.episode.reader for one in plan.episodes})),
        "total_episodes": written.episodes,
        "total_frames": written.frames,
        "total_tasks": len(plan.tasks),
        "chunks_size": options.files_per_chunk,
        "data_files_size_in_mb": options.data_file_mb,
        "video_files_size_in_mb": options.video_file_mb,
        "fps": options.fps,
        "splits": {split: f"{first}:{end}" for split, (first, end) in splits.items()},
        "data_path": DATA_PATH,
        "video_path": None if options.codec is None else VIDEO_PATH,
        "features": {feature.name: feature.json for feature in plan.features},
    }


def losses(plan: Plan, written: Writing, options: Options) -> list[str]:
    """Sentences on what the export does not hold."""
    found = [*plan.lost, *written.lost()]
    dropped: dict[str, int] = {}
    for one in plan.episodes:
        for key, count in one.cut.dropped.items():
            dropped[key] = dropped.get(key, 0) + count
    for key, count in dropped.items():
        why = f"in runs of fewer than {options.min_frames}" if key == "too-short" else f"without {key}; such rows end an episode"
        found.append(f"{counted(count, 'row')} {why}")
    example = plan.episodes[0].episode
    if any(example[key].unit != "mm" for key in plan.depth):
        found.append("depth: meters were rounded to whole millimeters")
    if plan.images and options.codec is not None:
        found.append(f"images: video is lossy ({options.codec.encoder}, crf {options.codec.quality}, yuv420p)")
    elif options.images == "jpeg" and any(example[key].encoding == "raw" for key in plan.images):
        found.append(f"images: JPEG is lossy (quality {options.quality})")
    return sorted(set(found))


def record(dataset: Dataset, plan: Plan, written: Writing, options: Options, lost: Sequence[str]) -> dict[str, Any]:
    """takeset-export.json, without the number of files."""
    from .. import __version__

    task = options.task if isinstance(options.task, (str, type(None))) else dict(options.task)
    single = {name: getattr(options, name) for name in _SINGLE} | {
        "task": task,
        "codec": None if options.codec is None else options.codec.name,
    }
    lists = {name: None if getattr(options, name) is None else [*getattr(options, name)] for name in _LISTS} | {"state": [*plan.state]}
    return {
        "export_version": 1,
        "format": "lerobot",
        "options": single | lists,
        "source": {"record_sha256": dataset.record_sha256, "takes": len(dataset.takes)},
        "tool": {"name": "takeset.lerobot", "version": __version__, "revision": ""},
        "episodes": [
            {
                "id": one.episode.id,
                "rows": len(one.episode),
                "time_base": one.time_base,
                "split": one.episode.split,
                "dropped": one.cut.dropped,
                "exported": written.exported.get(one.episode.id, []),
            }
            for one in plan.episodes
        ],
        "features": _sources(plan),
        "lost": list(lost),
    }


def _sources(plan: Plan) -> dict[str, Any]:
    """Which keys a feature is made of, with their units and camera axes."""
    example = plan.episodes[0].episode
    sources = {"observation.state": [*plan.state], "action": [ACTIONS] if plan.has_actions else []}
    sources |= {name: [key] for found in (plan.images, plan.depth, plan.vectors) for key, name in found.items()}
    found = {}
    for name, keys in sources.items():
        if keys:
            axes = [example[key].attrs.get("camera_axes") for key in keys]
            found[name] = {"keys": keys, "unit": [example[key].unit for key in keys], "camera_axes": next(filter(None, axes), None)}
    return found
