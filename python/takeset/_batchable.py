"""What the episodes of a split must have in common, so that their samples make batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import _images
from ._actions import Actions
from ._errors import TakesetError
from ._hdf5 import text
from ._reading import EpisodeRows

_SIZE = "samples of different shapes do not make a batch; bring them to one size in the pipeline"
_REMEDIES = {
    "image": f"{_SIZE} with resize-image: {{mode: cover}}, or use image_size=(height, width)",
    "depth": f"{_SIZE} with resample-depth",
    "confidence": f"{_SIZE} with resample-depth",
    "action": "use the same actions for all of them, such as actions: {joints: none}",
}
_UNITS = {
    "depth": "bring them to one unit in the pipeline: resample-depth: {unit: m}",
}
_OTHERS = "choose the episodes that are alike, by their ids: split=[...]"
_AXES = "bring them to the same axes in the pipeline: pose-frame: {axes: arkit}"


class Batchable:
    """Compares episodes, one after the other, so that a mistake is found before training and not in the middle of an epoch.

    Raises `TakesetError` with both episodes where samples cannot be read, or differ in shape, type, unit or camera axes; `UnknownKey` for
    an episode that has no such stream.
    """

    def __init__(self, keys: Sequence[str], actions: Actions | None, resizes_images: bool) -> None:
        self._keys = tuple(dict.fromkeys([*keys, *(() if actions is None else actions.needs)]))
        self._actions, self._resizes_images = actions, resizes_images
        self._known: dict[tuple[str, str], tuple[Any, str]] = {}

    def add(self, rows: EpisodeRows, joints: str | None) -> None:
        """Compares an episode with those before it. Joints are those that are an entry of their own, where the episode has them."""
        if self._actions is not None:
            parts = " ".join(f"{name}:{columns}" for name, columns in self._actions.parts(rows))
            self._compare(rows, self._actions.key, "parts", parts, _REMEDIES["action"])
        for key in self._keys if joints is None or joints in self._keys else (*self._keys, joints):
            stream = rows[key]
            kind = stream.kind
            if stream.encoding != "raw" and not _images.can_decode():
                form = stream.encoding.upper()
                raise TakesetError(f"{rows.episode}: {key} is stored as {form} files, which Pillow decodes: pip install 'takeset[torch]'")
            if not (self._resizes_images and kind == "image"):
                self._compare(rows, key, "shape", "x".join(map(str, stream.shape[1:])), _REMEDIES.get(kind, _OTHERS))
            self._compare(rows, key, "unit", stream.unit.replace(" (claimed)", ""), _UNITS.get(kind, _OTHERS))
            self._compare(rows, key, "type", stream.dtype.name, _UNITS.get(kind, _OTHERS))
            if kind == "pose":
                self._compare(rows, key, "camera axes", text(stream.dataset, "camera_axes", "unknown"), _AXES)

    def _compare(self, rows: EpisodeRows, key: str, what: str, value: str, remedy: str) -> None:
        other, where = self._known.setdefault((key, what), (value, str(rows.episode)))
        if other != value:
            raise TakesetError(f"{rows.episode}: {key} has the {what} {value}, and {other} in {where}; {remedy}")
