"""What each episode has, and whether all have the same: a feature of LeRobot has one shape and meaning in every episode."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .._arguments import nearest
from .._episode import Episode
from .._errors import TakesetError
from .._hdf5 import find, find_group, members
from .._stream import Stream

ACTIONS = "actions"
VECTORS = ("pose", "angles", "vector")
_REMEDIES = {
    "image": "give the pipeline a step such as resize-image: {width: 640, height: 480, mode: letterbox}",
    "depth": "give the pipeline a step such as resample-depth: {width: 256, height: 192}",
    "pose": "give the pipeline the step pose-frame: {axes: arkit}",
    "action": "give the pipeline the step actions: {joints: none}",
}


@dataclass(frozen=True)
class Key:
    """A key of an episode.

    kind            of its stream
    meaning         what must be the same everywhere, in words: size, unit, axes, order of numbers
    has_intrinsics  whether the camera's intrinsics are known
    """

    kind: str
    meaning: str
    has_intrinsics: bool


@dataclass(frozen=True)
class Surveyed:
    """An episode and its keys, `actions` among them; and what else it has that LeRobot has no place for."""

    episode: Episode
    keys: dict[str, Key]
    others: tuple[str, ...]


def survey(episode: Episode) -> Surveyed:
    """What an episode has."""
    names = [*episode.keys(), *([ACTIONS] if ACTIONS in episode else [])]
    keys = {}
    for name in names:
        stream = episode[name]
        keys[name] = Key(stream.kind, _meaning(stream), stream.kind in ("image", "depth") and episode.intrinsics(name) is not None)
    parts = episode[ACTIONS].parts if ACTIONS in keys else {}
    inner = find_group(episode.group, "action_dict")
    others = [
        *(f"action_dict/{part}" for part in (members(inner) if inner is not None else ()) if part not in parts),
        *(name for name in ("action_chunk", "rewards", "next_obs") if find(episode.group, name) is not None),
        *(["imu"] if episode.imu is not None else []),
        *(["joints_raw"] if find(episode.meta, "joints_raw") is not None else []),
    ]
    return Surveyed(episode, keys, tuple(others))


def chosen_keys(
    episodes: Sequence[Surveyed], keys: Sequence[str] | None, drop: Sequence[str], state: Sequence[str]
) -> tuple[dict[str, str], list[str]]:
    """The kinds of the keys to export, and sentences on the others. Raises `TakesetError` for unknown keys (64)."""
    kinds = {name: key.kind for one in reversed(episodes) for name, key in one.keys.items()}
    every = list(dict.fromkeys(name for one in episodes for name in one.keys))
    unknown = [name for name in (*(keys or ()), *state) if name not in kinds]
    # A key to leave out may be one of the episodes that are not exported.
    unknown += [name for name in drop if name not in kinds and not any(name in other for other in episodes[0].episode.dataset)]
    if unknown:
        raise TakesetError(f"no episode has {listed(unknown)}; there are {listed(every, len(every))}{nearest(unknown, every)}", 64)
    chosen = [name for name in dict.fromkeys(every if keys is None else keys) if name not in drop]
    lost = [f"{name}: left out by --keys or --drop-keys" for name in every if name not in chosen]
    found = {name: kinds[name] for name in chosen if kinds[name] in (*VECTORS, "image", "depth", "action")}
    return found, lost + [f"{name}: policies would take it for images of a camera" for name in chosen if name not in found]


def require_same(episodes: Sequence[Surveyed], keys: Iterable[str]) -> None:
    """Raises `TakesetError` (65) if episodes lack one of the keys, or if a key has several meanings."""
    lacking = {name: [one.episode.id for one in episodes if name not in one.keys] for name in keys}
    absent = [f"{name} in {listed(ids)}" for name, ids in lacking.items() if ids]
    if absent:
        names = ",".join(name for name, ids in lacking.items() if ids)
        raise TakesetError(
            f"all episodes of LeRobot have the same features, and of {len(episodes)} episodes some lack some: {'; '.join(absent)}; "
            f"leave them out with --drop-keys {names}, or choose episodes with --episodes",
            65,
        )
    for name in lacking:
        kind, meanings = episodes[0].keys[name].kind, dict[str, list[str]]()
        for one in episodes:
            meanings.setdefault(one.keys[name].meaning, []).append(one.episode.id)
        if len(meanings) > 1:
            differing = "; ".join(f"{meaning} in {listed(ids)}" for meaning, ids in meanings.items())
            remedy = f"{_REMEDIES[kind]}, " if kind in _REMEDIES else ""
            raise TakesetError(
                f"a feature of LeRobot has one shape and meaning, and {name} has {len(meanings)}: {differing}; {remedy}"
                f"leave it out with --drop-keys {name}, or choose episodes with --episodes",
                65,
            )
        if kind == "depth" and not next(iter(meanings)).endswith("mm"):
            raise TakesetError(
                f"{name} is {next(iter(meanings))}, and LeRobot's depth is in millimeters; leave it out with --drop-keys {name}", 65
            )


def listed(names: Iterable[str], most: int = 4) -> str:
    """Names in a sentence, the first of many."""
    found = list(names)
    return ", ".join(found[:most]) + (f" and {len(found) - most} more" if len(found) > most else "")


def _meaning(stream: Stream) -> str:
    unit, attrs = stream.unit.removesuffix(" (claimed)"), stream.attrs
    if stream.kind in ("image", "confidence"):
        return f"{stream.shape[2]}x{stream.shape[1]}"
    if stream.kind == "depth":  # Meters become millimeters, so both may be there.
        return f"{stream.shape[2]}x{stream.shape[1]} in {'mm' if unit == 'm' else unit}"
    words = [str(attrs.get("parts") or f"{stream.shape[1]} numbers"), unit]
    return ", ".join(words + [str(attrs[name]) for name in ("transform", "camera_axes", "body", "order") if name in attrs])
