"""What the episodes of a split must have in common, so that their samples make batches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from . import _images
from ._actions import Actions
from ._errors import TakesetError
from ._reading import EpisodeRows
from ._stream import Stream

_SIZE = "samples of different shapes do not make a batch; bring them to one size in the pipeline"
_REMEDIES = {
    "image": f"{_SIZE} with resize-image: {{mode: cover}}, or use image_size=(height, width)",
    "depth": f"{_SIZE} with resample-depth",
    "confidence": f"{_SIZE} with resample-depth",
    "action": "use the same actions for all of them, such as actions: {joints: none}",
}
_UNITS = {
    "depth": "bring them to one unit in the pipeline: resample-depth: {unit: m}",
    "pose": "choose episodes of one unit, by their ids: split=[...]",
}
_AXES = "bring them to the same axes in the pipeline: pose-frame: {axes: arkit}"


def require_alike(episodes: Iterable[EpisodeRows], keys: tuple[str, ...], actions: Actions | None, resizes_images: bool) -> None:
    """Fails now, and not in the middle of an epoch, where samples cannot be read or differ in shape, type, unit or camera axes.

    Raises `TakesetError` with both episodes; `UnknownKey` for an episode that has no such stream.
    """
    known: dict[tuple[str, str], tuple[Any, str]] = {}

    def compare(rows: EpisodeRows, key: str, what: str, value: Any, remedy: str) -> None:
        other, where = known.setdefault((key, what), (value, str(rows.episode)))
        if other != value:
            raise TakesetError(f"{rows.episode}: {key} has the {what} {value}, and {other} in {where}; {remedy}")

    for rows in episodes:
        if actions is not None:
            parts = " ".join(f"{name}:{columns}" for name, columns in actions.parts(rows))
            compare(rows, actions.key, "parts", parts, _REMEDIES["action"])
        for key in dict.fromkeys([*keys, *(() if actions is None else actions.needs)]):
            stream = rows[key]
            _require_decoder(rows, stream)
            if not (resizes_images and stream.kind == "image"):
                size = "x".join(map(str, stream.shape[1:]))
                compare(rows, key, "shape", size, _REMEDIES.get(stream.kind, "leave the others out: split=[...]"))
            unit_remedy = _UNITS.get(stream.kind, "choose episodes of one unit, by their ids: split=[...]")
            compare(rows, key, "unit", stream.unit.replace(" (claimed)", ""), unit_remedy)
            compare(rows, key, "type", stream.dtype.name, unit_remedy)
            if stream.kind == "pose":
                compare(rows, key, "camera axes", stream.attrs.get("camera_axes", "unknown"), _AXES)


def _require_decoder(rows: EpisodeRows, stream: Stream) -> None:
    if stream.encoding != "raw" and not _images.can_decode():
        raise TakesetError(
            f"{rows.episode}: {stream.name} is stored as {stream.encoding.upper()} files, which Pillow decodes: pip install 'takeset[torch]'"
        )
