"""Datasets and episodes as notebooks show them: a small page without scripts, files or network."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ._errors import TakesetError
from ._images import can_decode
from ._png import data_uri, shaded, shrunk

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ._dataset import Dataset
    from ._episode import Episode
    from ._manifest import Finding
    from ._stream import Stream

_EPISODES = 10  # that are shown of a dataset
_PICTURES = 6  # of an episode
_TAKES = 10  # without an episode that are shown
_FINDINGS = 12

# Colors are those of the page around it, so it suits light and dark ones. The class is named twice to outweigh the rules of notebooks.
_STYLE = """<style>
.takeset-page { font-size: 0.9em; line-height: 1.4 }
.takeset-page.takeset-page table { border-collapse: collapse; margin: 0.5em 0; color: inherit }
.takeset-page.takeset-page th, .takeset-page.takeset-page td { text-align: left; vertical-align: top; padding: 0.2em 0.9em 0.2em 0;
  border: 0; border-bottom: 1px solid rgba(128, 128, 128, 0.35); background: none; color: inherit }
.takeset-page.takeset-page td.number { text-align: right; font-variant-numeric: tabular-nums }
.takeset-page .whole, .takeset-page .strip { white-space: nowrap }
.takeset-page.takeset-page .strip img { display: inline-block; max-width: none; vertical-align: top; margin: 0 2px 2px 0 }
.takeset-page .faint { opacity: 0.7 }
.takeset-page ul { margin: 0.2em 0 0.2em 1.2em; padding: 0 }
</style>"""


def dataset_page(dataset: Dataset) -> str:
    """The dataset: totals, splits, findings, the first episodes with pictures, and the takes that have no episode."""
    splits = ", ".join(f"{split} {len(episodes)}" for split, episodes in dataset.splits.items() if episodes)
    parts = [
        f"<div><b>Takeset dataset</b> {escape(dataset.path)}</div>",
        f"<div>{_counted(len(dataset), 'episode')}, {_counted(dataset.rows, 'row')}{f'; {splits}' if splits else ''}</div>",
        _findings(dataset.findings),
        _table(
            ("", "id", "split", "reader", "rows", "s", "streams", "findings", "frames"),
            [_episode_row(episode) for episode in dataset.episodes[:_EPISODES]],
        ),
        _more(len(dataset) - _EPISODES, "episode"),
    ]
    others = [take for take in dataset.takes if take["outcome"] != "written"]
    if others:
        rows = [_row(escape(take["id"]), escape(take["outcome"]), escape(take["reason"] or "")) for take in others[:_TAKES]]
        parts += [_table(("take without an episode", "outcome", "reason"), rows), _more(len(others) - _TAKES, "take")]
    return _page(parts)


def episode_page(episode: Episode) -> str:
    """The episode: its streams, times, findings and pictures."""
    rate = episode.rate_hz
    facts = [
        _counted(len(episode), "row"),
        f"{episode.seconds:.2f} s",
        *([f"{rate:.4g} Hz"] if rate else []),
        _counted(len(episode.gaps), "gap"),
        *([f"split {escape(episode.split)}"] if episode.split else []),
        escape(episode.reader),
        escape(episode.clock),
    ]
    streams = [episode[key] for key in episode._all_keys()]
    return _page(
        [
            f"<div><b>{escape(episode.id)}</b> <span class='faint'>{escape(episode.name)}</span></div>",
            f"<div>{', '.join(facts)}</div>",
            _findings(episode.findings),
            _table(("stream", "kind", "shape", "type", "unit", "valid", "farthest sample"), map(_stream_row, streams)),
            *(f"<div>{escape(stream.name)}<br>{_strip(stream, 96)}</div>" for stream in _pictured(episode)),
        ]
    )


def _episode_row(episode: Episode) -> str:
    try:
        kinds = [*episode.keys(), *(["actions"] if "actions" in episode else [])]
        found = episode.findings
        pictured = _pictured(episode)
        cells = (
            f"<span class='faint'>{episode.index}</span>", f"<span class='whole'>{escape(episode.id)}</span>",
            escape(episode.split or ""), escape(episode.reader), _number(f"{len(episode)}"), _number(f"{episode.seconds:.2f}"),
            escape(", ".join(kinds)),
            "<br>".join(f"<span title='{escape(finding.message)}'>{escape(finding.code)}</span>" for finding in found[:4])
            + (f"<br>{len(found) - 4} more" if len(found) > 4 else ""),
            _strip(pictured[0], 48) if pictured else "",
        )  # fmt: skip
    except TakesetError as error:  # A shard that is missing must not hide the others.
        return f"<tr><td class='faint'>{episode.index}</td><td colspan='8'>{escape(str(error))}</td></tr>"
    return _row(*cells)


def _stream_row(stream: Stream) -> str:
    valid = stream.valid
    farthest = ""
    if stream.has_samples and valid.any():
        farthest = f"{float(np.abs(stream.dt_ns[valid]).max()) / 1e6:.1f} ms"
    kept = stream.dtype.name if stream.encoding == "raw" else stream.encoding
    return _row(
        escape(stream.name), escape(stream.kind), " x ".join(map(str, stream.shape)), escape(kept), escape(stream.unit),
        _number(f"{valid.mean():.1%}" if len(valid) else ""), _number(farthest),
    )  # fmt: skip


def _pictured(episode: Episode) -> list[Stream]:
    """The streams that can be shown as pictures, images first; at most four."""
    streams = [episode[key] for key in episode]
    order = ("image", "depth")
    return sorted((stream for stream in streams if stream.kind in order and len(stream)), key=lambda stream: order.index(stream.kind))[:4]


def _strip(stream: Stream, height: int) -> str:
    """Rows of a stream side by side, evenly spread over the episode."""
    if stream.encoding != "raw" and not can_decode():
        return "<span class='faint'>pip install 'takeset[images]' shows the frames</span>"
    times = stream.episode.times_ns / 1e9
    try:
        pictures = []
        for row in np.unique(np.linspace(0, len(stream) - 1, _PICTURES).round().astype(np.int64)).tolist():
            pixels = _picture(stream, row, height)
            label = escape(f"{stream.name}, row {row}, {times[row]:.2f} s")
            size = f"width='{pixels.shape[1]}' height='{pixels.shape[0]}'"
            pictures.append(f"<img src='{data_uri(pixels)}' {size} alt='{label}' title='{label}'>")
    except TakesetError as error:
        return f"<span class='faint'>{escape(str(error))}</span>"
    return f"<div class='strip'>{''.join(pictures)}</div>"


def _picture(stream: Stream, row: int, height: int) -> NDArray[np.uint8]:
    if stream.kind == "image":
        return shrunk(stream[row], height)
    mask = stream.mask([row])
    valid = stream[[row]] > 0 if mask is None else mask
    step = max(1, round(stream.shape[1] / height))  # Averaging depth would invent distances.
    return shaded(stream[row][::step, ::step], valid[0][::step, ::step])


def _findings(found: Sequence[Finding]) -> str:
    if not found:
        return ""
    items = (f"<li>{escape(str(finding))}</li>" for finding in found[:_FINDINGS])
    return f"<ul>{''.join(items)}</ul>{_more(len(found) - _FINDINGS, 'finding')}"


def _table(titles: Sequence[str], rows: Iterable[str]) -> str:
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _row(*cells: str) -> str:
    return "<tr>" + "".join(cell if cell.startswith("<td") else f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _number(text: str) -> str:
    return f"<td class='number'>{text}</td>"


def _more(count: int, what: str) -> str:
    return f"<div class='faint'>and {_counted(count, f'more {what}')}</div>" if count > 0 else ""


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _page(parts: Sequence[str]) -> str:
    return f"<div class='takeset-page'>{_STYLE}{''.join(parts)}</div>"
