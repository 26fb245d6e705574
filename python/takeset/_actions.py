"""What a window has as actions: computed from the poses of its rows, or as the file has them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ._errors import TakesetError, UnknownKey
from ._motion import RotationLayout, relative_6d
from ._reading import EpisodeRows, Place, gather, intact
from ._scaling import Moments, Scaling

Bool = NDArray[np.bool_]


class Part(NamedTuple):
    """Columns of actions, such as relative_position:3."""

    name: str
    columns: int


class Values(NamedTuple):
    """Actions of windows: (B, k, A) f4, 0 where masked, and (B, k) bool."""

    values: NDArray[np.float32]
    valid: Bool


class Actions(Protocol):
    """A source of actions for windows."""

    @property
    def key(self) -> str:
        """What messages call them."""
        ...

    @property
    def first(self) -> int:
        """The first row of a window's actions, counted from t."""
        ...

    @property
    def ahead(self) -> int:
        """The last row after t that a window needs, so that its actions cross no gap."""
        ...

    @property
    def needs(self) -> tuple[str, ...]:
        """Streams that an episode must have."""
        ...

    def parts(self, rows: EpisodeRows) -> list[Part]:
        """The columns. Raises `TakesetError` if an episode has no such actions."""
        ...

    def known(self, rows: EpisodeRows, windows: NDArray[np.int64]) -> Bool:
        """Whether all actions are known, for windows (n, 3) of t, first, end."""
        ...

    def read(self, places: Sequence[Place]) -> Values:
        """The actions of windows."""
        ...

    def scaling(self, rows: EpisodeRows, training: Iterable[EpisodeRows], method: str | None) -> Scaling:
        """What normalizes them, from the valid actions of the training episodes."""
        ...


class RelativeActions:
    """Poses of the action rows as the pose of row t sees them, computed from the stored poses; with joints after them if asked for.

    pose, joints  names of the streams; joints None: actions have 9 columns
    """

    key = "actions"

    def __init__(self, horizon: int, layout: RotationLayout, from_current: bool, pose: str, joints: str | None) -> None:
        self._layout, self._pose, self._joints = layout, pose, joints
        self.first = 0 if from_current else 1
        self.ahead = self.first + horizon - 1
        self.needs = (pose,) if joints is None else (pose, joints)

    def parts(self, rows: EpisodeRows) -> list[Part]:
        for key, kind in (self._pose, "pose"), (self._joints, "angles"):
            if key is not None and rows[key].kind != kind:
                raise TakesetError(f"{rows.episode}: {key} is of the kind {rows[key].kind}, and actions need one of the kind {kind}")
        joints = [] if self._joints is None else [Part("joints", rows[self._joints].shape[1])]
        return [Part("relative_position", 3), Part("relative_rotation_6d", 6), *joints]

    def known(self, rows: EpisodeRows, windows: NDArray[np.int64]) -> Bool:
        return rows.valid(self._pose)[windows[:, 0]] & intact(self._later(rows), windows, self.first, self.ahead + 1)

    def read(self, places: Sequence[Place]) -> Values:
        ahead, joints = (self.first, self.ahead + 1), self._joints
        anchor = gather(places, 0, 1, lambda rows: rows[self._pose])[:, 0]
        angles = None if joints is None else gather(places, *ahead, lambda rows: rows[joints])
        values = self._values(anchor, gather(places, *ahead, lambda rows: rows[self._pose]), angles)
        known = np.array([rows.valid(self._pose)[window.t] for rows, window in places])
        valid = gather(places, *ahead, self._later) & known[:, None]
        values[~valid] = 0
        return Values(values, valid)

    def scaling(self, rows: EpisodeRows, training: Iterable[EpisodeRows], method: str | None) -> Scaling:
        """From the actions of every row of the training episodes, as the statistics of `action_chunk` are."""
        statistics = rows[self._pose].statistics
        moments = Moments(sum(part.columns for part in self.parts(rows)))
        for episode in training:
            if all(key in episode for key in self.needs):
                self._add(episode, moments)
        return moments.scaling(method or (statistics.method if statistics else None) or "gaussian")

    def _add(self, rows: EpisodeRows, moments: Moments) -> None:
        poses, anchor, later = rows[self._pose][:], rows.valid(self._pose), self._later(rows)
        joints = None if self._joints is None else rows[self._joints][:]
        for first, end in rows.segments:
            for step in range(self.first, min(self.ahead + 1, end - first)):
                t = np.arange(first, end - step)
                t = t[anchor[t] & later[t + step]]
                steps = self._values(poses[t], poses[t + step, None], None if joints is None else joints[t + step, None])
                moments.add(steps[:, 0])

    def _values(
        self, anchor: NDArray[np.float32], later: NDArray[np.float32], joints: NDArray[np.float32] | None
    ) -> NDArray[np.float32]:  # fmt: skip
        motion = relative_6d(anchor, later, self._layout)
        return (motion if joints is None else np.concatenate([motion, joints], axis=-1)).astype(np.float32)

    def _later(self, rows: EpisodeRows) -> Bool:
        """Rows that may be an action: with a pose and, if joints are wanted, with every joint angle."""
        has_pose = rows.valid(self._pose)
        return has_pose if self._joints is None else has_pose & rows.complete(self._joints)


class StoredActions:
    """Rows t … t+k-1 of the file's `actions`: each the step from one row to the next."""

    key = "actions"
    first = 0
    needs = ("actions",)

    def __init__(self, horizon: int) -> None:
        self._horizon = self.ahead = horizon

    def parts(self, rows: EpisodeRows) -> list[Part]:
        return _stored_parts(rows, self.key)

    def known(self, rows: EpisodeRows, windows: NDArray[np.int64]) -> Bool:
        return intact(rows.valid(self.key), windows, 0, self._horizon)

    def read(self, places: Sequence[Place]) -> Values:
        now = (0, self._horizon)
        return Values(gather(places, *now, lambda rows: rows[self.key]), gather(places, *now, lambda rows: rows.valid(self.key)))

    def scaling(self, rows: EpisodeRows, training: Iterable[EpisodeRows], method: str | None) -> Scaling:
        return rows.scaling(self.key, method)


class StoredChunks:
    """The first k actions of row t of the file's `action_chunk`: all seen from row t, where they are relative."""

    key = "action_chunk"
    first = 1
    needs = ("action_chunk",)

    def __init__(self, horizon: int) -> None:
        self._horizon = self.ahead = horizon

    def parts(self, rows: EpisodeRows) -> list[Part]:
        parts, stored = _stored_parts(rows, self.key), rows[self.key].shape[1]
        if self._horizon > stored:
            raise TakesetError(
                f"{rows.episode}: action_chunk has {stored} actions, and {self._horizon} are wanted; "
                f"put actions: {{horizon: {self._horizon}}} into the pipeline, or use actions='relative-6d'"
            )
        return parts

    def known(self, rows: EpisodeRows, windows: NDArray[np.int64]) -> Bool:
        return np.asarray(rows.elements(self.key)[windows[:, 0], : self._horizon].all(axis=1))

    def read(self, places: Sequence[Place]) -> Values:
        values = gather(places, 0, 1, lambda rows: rows[self.key])[:, 0, : self._horizon]
        return Values(values, gather(places, 0, 1, lambda rows: rows.elements(self.key))[:, 0, : self._horizon])

    def scaling(self, rows: EpisodeRows, training: Iterable[EpisodeRows], method: str | None) -> Scaling:
        return rows.scaling(self.key, method)


def _stored_parts(rows: EpisodeRows, key: str) -> list[Part]:
    if key not in rows:
        step = "actions" if key == "actions" else "actions with a horizon"
        other = "use actions='relative-6d'" if rows.first_of_kind("pose") else "name the streams that are actions: {kind: none, of: [joints]}"
        raise UnknownKey(f"{rows.episode} has no {key}; put the step {step} into the pipeline, or {other}")
    return [Part(name, columns) for name, columns in rows[key].parts.items()]
