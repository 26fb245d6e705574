"""Tables for pandas."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ._errors import TakesetError

if TYPE_CHECKING:
    import pandas

    from ._dataset import Dataset
    from ._episode import Episode

_COLUMNS = [
    "id", "take_id", "part", "split", "reader", "rows", "seconds", "rate_hz", "start", "gaps", "findings", "warnings",
    "image", "depth", "pose", "joints", "actions", "imu", "intrinsics",
]  # fmt: skip
_NUMBERS = ("pose", "angles", "vector", "action", "reward", "done")


def episodes_of(dataset: Dataset) -> pandas.DataFrame:
    """One row per episode."""
    pd = _pandas()
    rows = [_summary(episode) for episode in dataset]
    table: pandas.DataFrame = pd.DataFrame(rows, columns=_COLUMNS).astype({"part": "Int64", "start": "datetime64[ns, UTC]"})
    return table


def measures_of(dataset: Dataset) -> pandas.DataFrame | dict[str, dict[str, float | None]]:
    """One row per episode, whether or not it has measures."""
    found = {episode.id: episode.measures for episode in dataset}
    try:
        pd = _pandas()
    except TakesetError:
        return found
    table: pandas.DataFrame = pd.DataFrame.from_dict(found, orient="index", dtype=float)
    return table.rename_axis("id")


def rows_of(episode: Episode) -> pandas.DataFrame:
    """One row per row of an episode."""
    pd = _pandas()
    columns: dict[str, Any] = {"time_s": episode.times_ns / 1e9}
    if (unix := episode.unix_ns) is not None:
        columns["time"] = pd.to_datetime(unix, unit="ns", utc=True)
    columns["source_index"], columns["quality"] = episode.source_index, episode.quality
    in_actions = set() if "actions" not in episode else set(episode["actions"].parts)
    for key in episode._all_keys():
        stream, (group, _, last), column = episode[key], key.rpartition("/"), key.replace("/", ".")
        if group and last in in_actions:
            continue
        if stream.kind in _NUMBERS and len(stream.shape) <= 2:
            values = stream[:].reshape(len(stream), math.prod(stream.shape[1:]))
            names = [column] if values.shape[1] == 1 else [f"{group or key}.{name}" for name in stream.names]
            columns |= {name: values[:, number] for number, name in enumerate(names)}
        if stream.has_samples:
            columns[f"{column}.dt_ms"] = np.where(stream.source_index < 0, np.nan, stream.dt_ns / 1e6)
        if key not in ("rewards", "dones"):
            columns[f"{column}.valid"] = stream.valid
    table: pandas.DataFrame = pd.DataFrame(columns, index=pd.RangeIndex(len(episode), name="row"))
    return table


def _summary(episode: Episode) -> dict[str, Any]:
    kinds = {episode[key].kind for key in episode}
    found, unix = episode.findings, episode.unix_ns
    start = None if unix is None or not len(unix) else _pandas().Timestamp(int(unix[0]), unit="ns", tz="UTC")
    values = [
        episode.id, episode.take_id, episode.part, episode.split, episode.reader, len(episode), episode.seconds, episode.rate_hz, start,
        len(episode.gaps), len(found), sum(finding.severity != "info" for finding in found),
        "image" in kinds, "depth" in kinds, "pose" in kinds, "angles" in kinds, "actions" in episode, episode.imu is not None,
        any(camera.matrix is not None for camera in episode.cameras.values()),
    ]  # fmt: skip
    return dict(zip(_COLUMNS, values))


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise TakesetError("to_pandas needs pandas: pip install 'takeset[pandas]'") from None
    return pandas
