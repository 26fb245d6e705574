"""What will be exported: episodes, features and runs of rows. Refuses what LeRobot cannot hold before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .._arguments import nearest
from .._dataset import Dataset
from .._episode import Episode
from .._errors import TakesetError
from .._stream import Stream
from ._features import ROW_FEATURES, SUBTASKS, Feature, camera_feature
from ._runs import Cut, Timing, cut, timing
from ._survey import ACTIONS, VECTORS, Surveyed, chosen_keys, listed, require_same, survey
from ._video import Codec

DEFAULT_STATE = ("pose", "joints")  # As far as they are there. Without poses, the numbers that are actions follow.
_SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class Options:
    """Options of an export, as `takeset.lerobot.export` describes them."""

    fps: int
    task: str | Mapping[str, str] | None  # None: the episode's label
    images: str
    quality: int
    codec: Codec | None
    episodes: tuple[str, ...]
    split: str | None
    keys: tuple[str, ...] | None
    drop_keys: tuple[str, ...]
    state: tuple[str, ...] | None  # None: DEFAULT_STATE
    tolerance: float
    min_frames: int
    data_file_mb: float
    video_file_mb: float
    files_per_chunk: int


@dataclass(frozen=True)
class PlannedEpisode:
    """An episode of Takeset, the runs of rows that become LeRobot's, and how they lie in time."""

    episode: Episode
    task: str
    cut: Cut
    timing: Timing

    @property
    def times_ns(self) -> NDArray[np.int64]:
        """(T,) ns: Unix time where it is known, else the time on the take's clock."""
        unix = self.episode.unix_ns
        return self.episode.times_ns + np.int64(self.episode.origin_ns) if unix is None else unix

    @property
    def time_base(self) -> str:
        """Which of both, as exports name it."""
        return f"clock:{self.episode.clock}" if self.episode.unix_ns is None else "unix"


@dataclass(frozen=True)
class Plan:
    """What becomes of the dataset.

    state       keys whose numbers make observation.state, in order
    images      names of the features of image streams, by key
    depth       likewise of depth streams
    vectors     likewise of vectors that are no input of a policy
    intrinsics  likewise of intrinsics, by the key of the image or depth stream
    has_actions whether there is the feature action
    features    all, in the order of info.json
    lost        sentences on what LeRobot does not get
    """

    episodes: list[PlannedEpisode]
    state: tuple[str, ...]
    images: dict[str, str]
    depth: dict[str, str]
    vectors: dict[str, str]
    intrinsics: dict[str, str]
    has_actions: bool
    features: list[Feature] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    @property
    def tasks(self) -> list[str]:
        """The tasks of episodes that have rows, each once; LeRobot numbers them in this order."""
        return list(dict.fromkeys(one.task for one in self.episodes if one.cut.runs))


def plan(dataset: Dataset, options: Options) -> Plan:
    """Raises `TakesetError` with exit code 64 for unknown episodes, splits and keys, and 65 for a dataset that LeRobot cannot hold."""
    if options.task is not None and not isinstance(options.task, str):
        names = dict.fromkeys(name for one in dataset.episodes for name in (one.id, one.take_id))
        unknown = [name for name in options.task if name not in names]
        if unknown:
            raise TakesetError(f"--tasks: {dataset.path} has no take or episode {listed(unknown)}{nearest(unknown, names)}", 64)
    surveyed = [survey(episode) for episode in _episodes(dataset, options)]
    kinds, lost = chosen_keys(surveyed, options.keys, [name for name in options.drop_keys if name != SUBTASKS.name], options.state or ())
    require_same(surveyed, kinds)
    example = surveyed[0].episode
    wanted = _default_state(example, kinds) if options.state is None else options.state
    for key in wanted:
        if key in kinds and kinds[key] not in VECTORS:
            raise TakesetError(f"--state: {key} is {kinds[key]}, and observation.state holds vectors", 64)
    state = tuple(key for key in wanted if key in kinds)
    cameras = _cameras(example, kinds)
    known = [key for key in cameras if all(one.keys[key].has_intrinsics for one in surveyed)]
    found = Plan(
        episodes=[],
        state=state,
        images={key: f"observation.images.{name}" for key, name in cameras.items() if kinds[key] == "image"},
        depth={key: f"observation.images.{name}" for key, name in cameras.items() if kinds[key] == "depth"},
        vectors={key: f"takeset.{plain(key)}" for key in kinds if kinds[key] in VECTORS and key not in state},
        intrinsics={key: f"takeset.intrinsics.{cameras[key]}" for key in known},
        has_actions=ACTIONS in kinds,
        lost=[*lost, *_lost(surveyed, [key for key in cameras if key not in known])],
    )
    found.features.extend(_features(found, example, options))
    if any(one.episode.labels.segments for one in surveyed):
        if SUBTASKS.name in options.drop_keys:
            found.lost.append(f"segments: {SUBTASKS.name} is left out by --drop-keys")
        else:
            found.features.append(SUBTASKS)
            found.lost.append("segments: their ends, where no other one begins or goes on; a subtask of LeRobot lasts until the next")
    needed = [*found.state, *found.images, *([ACTIONS] if found.has_actions else [])]
    for one in surveyed:
        episode = one.episode
        pieces = cut({key: complete_rows(episode[key]) for key in needed}, episode.segments(), options.min_frames)
        found.episodes.append(
            PlannedEpisode(episode, _task(episode, options.task), pieces, timing(episode.times_ns, pieces.runs, options.fps))
        )
    _require_rows(found.episodes, options)
    _require_rate(found.episodes, options)
    if options.codec is not None:
        _require_even_sizes(found, example, options.codec)
    return found


def complete_rows(stream: Stream) -> NDArray[np.bool_]:
    """(T,) bool: every number of the row is there, or its image."""
    valid = stream.valid
    if stream.kind == "image":
        return valid
    elements = stream.mask()
    if elements is not None:
        valid = valid & elements.reshape(len(valid), -1).all(axis=1)
    return np.asarray(valid & np.isfinite(stream[:]).all(axis=1))


def plain(name: str) -> str:
    """A name that LeRobot allows: without slashes."""
    return name.replace("/", ".")


def dropped_text(pieces: Cut) -> str:
    """What rows lack, in words."""
    return ", ".join(
        f"{count} {'in runs that are too short' if key == 'too-short' else f'without {key}'}" for key, count in pieces.dropped.items()
    )


def _episodes(dataset: Dataset, options: Options) -> list[Episode]:
    """Episodes of a split follow each other, so that a split is a range of episodes."""
    found = dataset.episodes
    if options.split is not None:
        if options.split not in dataset.splits:
            raise TakesetError(f"{dataset.path} has no split {options.split}; it has {listed(dataset.splits) or 'none'}", 64)
        found = dataset.splits[options.split]
    for name in options.episodes:
        if not any(name in (one.id, one.take_id) for one in dataset.episodes):
            raise TakesetError(f"{dataset.path} has no episode {name}", 64)
    if options.episodes:
        found = [one for one in found if one.id in options.episodes or one.take_id in options.episodes]
    if not found:
        raise TakesetError(f"{dataset.path} has no episode to export", 65)
    return sorted(found, key=lambda one: (_SPLITS.index(one.split) if one.split in _SPLITS else len(_SPLITS), one.split or "", one.index))


def _default_state(example: Episode, kinds: Mapping[str, str]) -> tuple[str, ...]:
    acting = example[ACTIONS].parts if "pose" not in kinds and ACTIONS in kinds else ()
    hands = _acting_members(example, acting)
    if hands:
        return tuple(f"{hand}_{key}" for hand in hands for key in DEFAULT_STATE)
    return tuple(dict.fromkeys([*DEFAULT_STATE, *(key for key in acting if kinds.get(key) in VECTORS)]))


def _acting_members(example: Episode, acting: Iterable[str]) -> list[str]:
    """The members of a joined take that move, in the order of the actions."""
    members = {str(example[key].attrs["member"]) for key in example if "member" in example[key].attrs}
    found = [member for part in acting for member in members if part.startswith(f"{member}_")]
    return list(dict.fromkeys(found)) or sorted(members - {"head"})


def _cameras(example: Episode, kinds: Mapping[str, str]) -> dict[str, str]:
    """Names of cameras by the key of their images and depth; the key itself where a camera has several streams of a kind."""
    names = {}
    for key, kind in kinds.items():
        if kind in ("image", "depth"):
            camera, member = example[key].camera, example[key].attrs.get("member")
            # The camera `left_camera` of a joined take is `left`, and `left_ultrawide` stays.
            camera = member if member is not None and camera == f"{member}_camera" else camera
            names[key] = plain(key if camera is None else camera + ("_depth" if kind == "depth" else ""))
    used = list(names.values())
    return {key: name if used.count(name) == 1 else plain(key) for key, name in names.items()}


def _task(episode: Episode, task: str | Mapping[str, str] | None) -> str:
    if task is None:
        return episode.labels.task or "unspecified"
    if isinstance(task, str):
        return task
    found = task.get(episode.id, task.get(episode.take_id, episode.labels.task))
    if found is None:
        raise TakesetError(f"{episode.id}: there is no task for this take, and no label", 64)
    return found


def _lost(surveyed: Sequence[Surveyed], without_intrinsics: Sequence[str]) -> list[str]:
    reasons = {
        "action_chunk": "action_chunk: LeRobot takes windows of action by itself (delta_timestamps)",
        "imu": "imu: LeRobot has no readings at a rate of their own",
        "joints_raw": "joints_raw: joints as the sensor sent them",
        "next_obs": "next_obs: LeRobot takes the next row by itself (delta_timestamps)",
        "rewards": "rewards and dones: LeRobot's episodes end by their length",
    }
    others = sorted({name for one in surveyed for name in one.others})
    lost = [reasons.get(name, f"{name}: not among the parts of actions") for name in others]
    for key in without_intrinsics:
        ids = [one.episode.id for one in surveyed if not one.keys[key].has_intrinsics]
        if len(ids) < len(surveyed):
            lost.append(f"intrinsics of {key}: not every episode has them ({listed(ids)})")
    labels = sorted({name for one in surveyed for name in one.episode.labels} - {"task", "success"})
    if any(segment.success is not None for one in surveyed for segment in one.episode.labels.segments):
        labels.append("success of segments")
    if labels:
        lost.append(f"labels: {listed(labels, len(labels))}; LeRobot has a task, success and subtasks")
    return [*lost, "streams/<name>: the time and number of each stream's own sample"]


# What LeRobot cannot hold


def _require_rows(episodes: Sequence[PlannedEpisode], options: Options) -> None:
    if not any(one.cut.runs for one in episodes):
        reasons = "; ".join(f"{one.episode.id}: {dropped_text(one.cut)}" for one in episodes[:3])
        raise TakesetError(
            f"no episode has {options.min_frames} complete rows in sequence ({reasons}); rows without a key end an episode, so leave the "
            "key out with --drop-keys",
            65,
        )


def _require_rate(episodes: Sequence[PlannedEpisode], options: Options) -> None:
    off = [one for one in episodes if one.timing.error_s > options.tolerance]
    if not off:
        return
    named = listed([f"{one.episode.id} ({one.timing.rate_hz:.5g} Hz, up to {_duration(one.timing.error_s)} off)" for one in off])
    rates = {round(one.timing.rate_hz) for one in episodes if one.cut.runs}
    other = rates.pop() if len(rates) == 1 else 0
    fits = other > 0 and all(timing(one.episode.times_ns, one.cut.runs, other).error_s <= options.tolerance for one in episodes)
    raise TakesetError(
        f"LeRobot's time is row / fps, and at {options.fps} fps rows of {len(off)} of {len(episodes)} episodes are more than "
        f"{_duration(options.tolerance)} off: {named}; give the pipeline the steps resample: {{rate: {options.fps}}} and "
        f"split-episodes: {{at: gaps}}" + (f", or export with --fps {other}" if fits else ""),
        65,
    )


def _require_even_sizes(found: Plan, example: Episode, codec: Codec) -> None:
    for key in found.images:
        height, width = example[key].shape[1:3]
        if codec.name == "h264" and (height % 2 or width % 2):
            raise TakesetError(
                f"{key}: H.264 needs even sizes, found {width}x{height}; give the pipeline resize-image, or store images", 65
            )


def _duration(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


# Features


def _features(found: Plan, example: Episode, options: Options) -> list[Feature]:
    features = []
    if found.state:
        names = [name for key in found.state for name in _elements(example[key])]
        features.append(Feature("observation.state", "float32", (len(names),), tuple(names)))
    if found.has_actions:
        names = example[ACTIONS].names
        features.append(Feature("action", "float32", (len(names),), tuple(names)))
    for key, name in found.images.items():
        height, width = example[key].shape[1:3]
        if options.codec is None:
            features.append(camera_feature(name, height, width, 3))
        else:
            features.append(camera_feature(name, height, width, 3, "video", options.codec.info(height, width, options.fps)))
    for key, name in found.depth.items():
        height, width = example[key].shape[1:3]
        features.append(camera_feature(name, height, width, 1, "image", {"is_depth_map": True, "depth_unit": "mm"}))
        features.append(Feature(valid_name(key), "bool", (1,)))
    for key, name in found.vectors.items():
        names = _elements(example[key])
        features.append(Feature(name, "float32", (len(names),), tuple(names)))
        features.append(Feature(valid_name(key), "bool", (len(names),), tuple(names)))
    features += [Feature(name, "float32", (4,), ("fx", "fy", "cx", "cy")) for name in found.intrinsics.values()]
    features += [
        Feature("source_timestamp_ns", "int64", (1,)),
        Feature("takeset.source_index", "int64", (1,)),
        Feature("takeset.quality", "uint8", (1,)),
    ]
    return [*features, *ROW_FEATURES]


def valid_name(key: str) -> str:
    """The feature that holds the mask of a key."""
    return f"takeset.valid.{plain(key)}"


def _elements(stream: Stream) -> list[str]:
    """Names of the numbers of a vector. A second pose in the state has names of its own."""
    is_other_pose = stream.kind == "pose" and stream.name != "pose"
    return [f"{stream.name}.{name}" for name in stream.names] if is_other_pose else stream.names
