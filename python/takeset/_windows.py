"""Windows of rows as NumPy arrays: which there are in a dataset, and what they hold. `takeset.torch` makes tensors of them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._actions import Actions, RelativeActions, StoredActions, StoredChunks
from ._batchable import Batchable
from ._dataset import Dataset
from ._errors import TakesetError, UnknownKey
from ._labels import Labels
from ._reading import EpisodeRows, New, Place, gather, intact
from ._scaling import Scaling
from ._window_options import WindowOptions

Array = NDArray[Any]

# What normalize=True is about, and what skip_masked looks at where nothing else is said; images and maps have to be named.
_NUMBERS = ("pose", "angles", "vector")
_MOST_TRIED = 200  # episodes that are searched for a stream, for the message that one lacks it


class WindowReader:
    """The windows of a dataset, each a dictionary of NumPy arrays. May be inherited by forked processes and pickled to spawned ones.

    path      of the file
    episodes  names of the episodes, such as demo_000003
    index     (n, 2) int64: of each window, the number of its episode in `episodes`, and its row t
    skipped   number of windows that are left out because of masks, and
    skipped_by  how many of them by the name of what is masked there; one that lacks several things counts under each
    scalings  by the key of the sample's entry, what normalizes it; images are left to the reader's user, who may want to change them first
    images    keys of images
    """

    def __init__(
        self, source: str | os.PathLike[str] | Dataset, split: str | Sequence[str] | None, options: WindowOptions,
        resizes_images: bool = False,
    ) -> None:  # fmt: skip
        self._dataset: Dataset | None = Dataset(source._store.path if isinstance(source, Dataset) else source)
        self.path, self.options = os.path.abspath(self._dataset.path), options
        self._rows: dict[int, EpisodeRows] = {}
        self._labels: dict[int, Labels] = {}
        self._numbers = _select(self._dataset, split)
        self.episodes = [self._dataset[number].name for number in self._numbers]
        # One pass over the episodes: a dataset may have thousands, and opening each takes a millisecond.
        if self._numbers:
            self._require_keys(self.rows(0))
        self._maps = {key for key in options.keys if self._numbers and len(self.rows(0)[key].shape) == 4}
        self.images = {key for key in options.keys if self._numbers and self.rows(0)[key].kind == "image"}
        self._actions = self._make_actions()
        self._joints, self._joint_count = "", 0
        self.skipped, self.skipped_by = 0, dict[str, int]()
        alike, tables, longest = Batchable(options.keys, self._actions, resizes_images), [np.empty((0, 2), np.int64)], (0, "")
        for number, rows in enumerate(self._all_rows()):
            self._require_keys(rows)
            longest = max(longest, *((end - first, str(rows.episode)) for first, end in rows.segments), key=lambda one: one[0])
            if options.joints_are_separate and not self._joints:
                self._joints = rows.first_of_kind("angles") or ""
                self._joint_count = rows[self._joints].shape[1] if self._joints else 0
            alike.add(rows, self._joints if self._joints and self._joints in rows.episode else None)
            tables += self._windows_of(number, rows)
        self.index = np.concatenate(tables)
        if not len(self.index):
            raise TakesetError(self._why_none(*longest))
        self.scalings = {key: self._scaling_of(key) for key in self._to_normalize()}

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, i: int) -> dict[str, Any]:
        """A window, as `takeset.torch.Windows` describes it; images and maps are views of arrays with channels last."""
        return first_of(self.batch([i]))

    def batch(self, numbers: Sequence[int], new: New = np.empty) -> dict[str, Any]:
        """Windows together: each entry of a window with one axis more, in front, and `text` as a list.

        Images of several sizes, which only somebody who resizes them may have, are a list of arrays (1, o, …).

        new  makes the arrays of images and maps
        """
        options, places = self.options, [self._place(i) for i in numbers]
        past = (1 - options.observation_horizon, 1)
        obs: dict[str, Any] = {}
        for key in options.keys:
            valid = self._valid(key, places)
            if len({rows[key].shape[1:] for rows, _ in places}) > 1:
                obs[key] = [channels_first(gather([place], *past, lambda rows: rows[key])) for place in places]
            else:
                values = gather(places, *past, lambda rows: rows[key], new if key in self._maps else np.empty)
                obs[key] = self._scaled(key, channels_first(values) if key in self._maps else values, valid)
            obs[key + "_valid"] = valid
        batch: dict[str, Any] = {"obs": obs}
        if self._actions is not None:
            values, valid = self._actions.read(places)
            batch["actions"], batch["actions_valid"] = self._scaled("actions", values, valid[..., None]), valid
            if self._joint_count:
                values, valid = self._joints_of(places, self._actions.first)
                batch["action_joints"], batch["action_joints_valid"] = self._scaled("action_joints", values, valid), valid
        if options.labels:
            batch["text"] = [self._labels_of(int(self.index[i, 0])).text(window.t) or "" for i, (_, window) in zip(numbers, places)]
        if options.pad:
            batch["observation_is_pad"] = np.stack([window.is_pad(*past) for _, window in places])
            if self._actions is not None:
                ahead = (self._actions.first, self._actions.first + options.action_horizon)
                batch["action_is_pad"] = np.stack([window.is_pad(*ahead) for _, window in places])
        return batch

    def _place(self, i: int) -> Place:
        number, t = self.index[i].tolist()
        rows = self.rows(number)
        return Place(rows, rows.window(t))

    def _valid(self, key: str, places: Sequence[Place]) -> NDArray[np.bool_]:
        """Masks of observed rows: of single elements where the file has them, or else of rows."""
        found = []
        for rows, window in places:
            past = window.rows(1 - self.options.observation_horizon, 1)
            elements = rows[key].mask(past.taken)
            valid = rows.valid(key)[past.taken] if elements is None else elements
            found.append(valid if past.order is None else valid[past.order])
        return np.stack([channels_first(valid) for valid in found])

    def _labels_of(self, number: int) -> Labels:
        labels = self._labels.get(number)
        if labels is None:
            labels = self._labels[number] = self.rows(number).episode.labels
        return labels

    def rows(self, number: int) -> EpisodeRows:
        """The streams of an episode, by its number in `episodes`."""
        return self._rows_of(self._numbers[number])

    def kind(self, key: str) -> str | None:
        """The kind of an observation, such as image; None where there is no episode."""
        return self.rows(0)[key].kind if self.episodes else None

    def __getstate__(self) -> dict[str, Any]:
        """All but what is open, so that another process opens its own."""
        return {**self.__dict__, "_dataset": None, "_rows": {}}

    # Which windows there are

    def _windows_of(self, number: int, rows: EpisodeRows) -> Iterator[NDArray[np.int64]]:
        """The windows of an episode, (n, 2), of each of its runs of rows; counts those that masks leave out."""
        options = self.options
        before, ahead = options.observation_horizon - 1, 0 if self._actions is None else self._actions.ahead
        for first, end in rows.segments:
            t = np.arange(first, end, options.stride) if options.pad else np.arange(first + before, end - ahead, options.stride)
            windows = np.stack([t, np.full_like(t, first), np.full_like(t, end)], axis=1)
            t = t[self._is_known(rows, windows)]
            self.skipped += len(windows) - len(t)
            yield np.stack([np.full_like(t, number), t], axis=1)

    def _is_known(self, rows: EpisodeRows, windows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Windows with a value in every row of what `skip_masked` names; of windows (n, 3) of t, first, end."""
        options, asked, known = self.options, self.options.skip_masked, np.ones(len(windows), np.bool_)
        is_number = {key: rows[key].kind in _NUMBERS for key in options.keys}
        if asked is None:
            asked = ["actions", *(key for key in options.keys if is_number[key])]
        for name in [*options.keys, "actions"] if asked is True else asked or []:
            if name == "actions":
                here = np.ones(len(windows), np.bool_) if self._actions is None else self._actions.known(rows, windows)
            elif name in options.keys:
                mask = rows.complete(name) if is_number[name] else rows.valid(name)
                here = intact(mask, windows, 1 - options.observation_horizon, 1)
            elif name == "action_joints" and options.joints_are_separate and self._actions is not None:
                mask = rows.complete(self._joints) if self._joints in rows else np.zeros(len(rows.episode), np.bool_)
                here = intact(mask, windows, self._actions.first, self._actions.first + options.action_horizon)
            else:
                names = ", ".join([*options.keys, "actions", "action_joints"])
                raise UnknownKey(f"skip_masked has {name}, which is not one of {names}")
            if count := len(here) - int(np.count_nonzero(here)):
                self.skipped_by[name] = self.skipped_by.get(name, 0) + count
            known &= here
        return known

    def _require_keys(self, rows: EpisodeRows) -> None:
        """Raises `UnknownKey`, with what to do, for an episode that has not all observations."""
        for key in self.options.keys:
            try:
                stream = rows[key]
            except UnknownKey as error:
                raise UnknownKey(f"{error}{self._where_is(key)}") from None
            if stream.kind == "added":
                raise TakesetError(
                    f"{rows.episode}: {key} was added to the file by another program, and neither its kind nor its mask nor its statistics "
                    f'are known, so windows do not take it; read it beside them, by episode["{key}"][rows]'
                )

    def _where_is(self, key: str) -> str:
        """How to choose the episodes that have a stream, as the end of a sentence; empty if none of the first has it."""
        having = next((rows for rows in itertools.islice(self._all_rows(), _MOST_TRIED) if key in rows.episode), None)
        if having is None:
            return ""
        streams = (having.episode.take or {}).get("streams")
        known = [one.get("name") for one in streams if isinstance(one, dict)] if isinstance(streams, list) else []
        select = f"takeset select {os.path.dirname(self.path)} --where 'streams has {key}' --output DIR, or " if key in known else ""
        return f"; other episodes have it, such as {having.episode}: choose those that do, by {select}split=[...] with their ids"

    def _why_none(self, rows: int, episode: str) -> str:
        """Why there is no window, and what to do; of the longest run of rows, and its episode."""
        options = self.options
        if self.skipped:
            reasons = ", ".join(f"{name} in {count}" for name, count in self.skipped_by.items())
            return (
                f"{self.path}: something is masked in each of the {self.skipped} windows, so all are left out: {reasons}; "
                "choose other keys or takes, or keep such windows with skip_masked=()"
            )
        needed = 1 if options.pad else options.observation_horizon + (0 if self._actions is None else self._actions.ahead)
        horizons = [f"observation_horizon={options.observation_horizon}"]
        horizons += [f"action_horizon={options.action_horizon}"] if options.actions else []
        longest = f"the longest has {rows}, in {episode}; shorten the horizons, or use pad=True" if rows else "there are no rows"
        return f"{self.path}: no episode has {needed} rows without a gap, as {' and '.join(horizons)} need: {longest}"

    # Actions

    def _make_actions(self) -> Actions | None:
        options = self.options
        if options.actions == "stored":
            return StoredActions(options.action_horizon)
        if options.actions == "stored-chunk":
            return StoredChunks(options.action_horizon)
        if options.actions is None:
            return None
        first = self.rows(0) if self._numbers else None
        if first and not first.first_of_kind("pose") and "actions" in first:
            raise UnknownKey(f"{first.episode} has no poses to compute actions='relative-6d' from; use its own with actions='stored'")
        # A stream that an episode does not have is reported with that episode.
        pose, joints = (first and first.first_of_kind("pose")) or "pose", (first and first.first_of_kind("angles")) or "joints"
        appended = joints if options.joints == "append" else None
        return RelativeActions(options.action_horizon, options.rotation_layout, options.first_action == "current", pose, appended)

    def _joints_of(self, places: Sequence[Place], first: int) -> tuple[Array, NDArray[np.bool_]]:
        """The joints of the action rows, and their mask; nothing but masked ones for an episode without joints."""
        ahead, shape = (first, first + self.options.action_horizon), (len(places), self.options.action_horizon, self._joint_count)
        values, valid = np.full(shape, np.nan, np.float32), np.zeros(shape, np.bool_)
        known = [number for number, (rows, _) in enumerate(places) if self._joints in rows]
        if known:
            having = [places[number] for number in known]
            values[known] = gather(having, *ahead, lambda rows: rows[self._joints])
            valid[known] = gather(having, *ahead, lambda rows: rows.elements(self._joints))
        return values, valid

    # Normalization

    def _to_normalize(self) -> list[str]:
        options, asked = self.options, self.options.normalize
        entries = [*options.keys, *(["actions"] if options.actions else []), *(["action_joints"] if self._joint_count else [])]
        if asked is True:
            return [key for key in entries if key not in options.keys or self.kind(key) in _NUMBERS]
        unknown = [name for name in asked or () if name not in entries]
        if unknown and self.episodes:
            raise UnknownKey(f"normalize has {', '.join(unknown)}, and a sample has {', '.join(entries)}")
        return [key for key in entries if key in (asked or ())] if self.episodes else []

    def _scaling_of(self, key: str) -> Scaling:
        options = self.options
        if key == "actions" and self._actions is not None:
            rows = self.rows(0)
            scaling = self._actions.scaling(rows, self._training(), options.normalization)
            parts = [(part.columns, "rotation" in part.name) for part in self._actions.parts(rows)]
        else:
            stream = self._joints if key == "action_joints" else key
            rows = next(rows for rows in self._all_rows() if stream in rows)
            scaling = rows.scaling(stream, options.normalization)
            parts = [(3, False), (4, True)] if rows[stream].kind == "pose" else []
        if not options.normalize_rotation:
            for (columns, is_rotation), end in zip(parts, np.cumsum([columns for columns, _ in parts]).tolist()):
                scaling = scaling.leaving(slice(end - columns, end)) if is_rotation else scaling
        return scaling

    def _training(self) -> Iterator[EpisodeRows]:
        splits = self._open().splits
        if not splits.get("train"):
            raise TakesetError(f"{self.path} has no training episodes to normalize actions by; open a dataset that has a split train")
        return (self._rows_of(episode.index) for episode in splits["train"])

    def _scaled(self, key: str, values: Array, valid: NDArray[np.bool_]) -> Array:
        """Normalized values, f4. What is masked stays 0 or NaN."""
        scaling = self.scalings.get(key)
        if scaling is None or key in self.images:
            return values
        scaled = scaling.normalize(values, -3 if key in self._maps else -1)
        return np.where(valid.reshape(valid.shape + (1,) * (scaled.ndim - valid.ndim)) | np.isnan(scaled), scaled, np.float32(0))

    # Files

    def _open(self) -> Dataset:
        if self._dataset is None:
            self._dataset = Dataset(self.path)
        return self._dataset

    def _rows_of(self, number: int) -> EpisodeRows:
        """The streams of an episode, by its number in the dataset."""
        rows = self._rows.get(number)
        if rows is None:
            rows = self._rows[number] = EpisodeRows(self._open()[number])
        return rows

    def _all_rows(self) -> Iterator[EpisodeRows]:
        return map(self._rows_of, self._numbers)


def _select(dataset: Dataset, split: str | Sequence[str] | None) -> list[int]:
    """Numbers of the episodes of a split, or with these ids."""
    if split is None:
        return list(range(len(dataset)))
    if not isinstance(split, str):
        return sorted({dataset[one].index for one in split})
    found = [episode.index for episode in dataset.splits[split]]
    if not found:
        sizes = ", ".join(f"{name} {len(episodes)}" for name, episodes in dataset.splits.items())
        raise TakesetError(f"{dataset.path}: the split {split} is empty; the episodes of its splits: {sizes}. For all episodes, use split=None")
    return found


def channels_first(rows: Array) -> Array:
    """Images and maps (…, n, h, w, c) as (…, n, c, h, w), without moving a byte; others, of fewer axes, as they are."""
    return np.moveaxis(rows, -1, -3) if rows.ndim >= 4 else rows


def first_of(batch: dict[str, Any]) -> dict[str, Any]:
    """The first window of a batch."""
    return {key: first_of(value) if isinstance(value, dict) else value[0] for key, value in batch.items()}
