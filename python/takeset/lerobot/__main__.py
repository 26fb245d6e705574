"""The command `python -m takeset.lerobot`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from .._arguments import EXIT_CODES, Parser, finish
from .._errors import TakesetError
from . import Summary, export

_EPILOG = f"""\
takeset-export.json in the output says what was exported and what LeRobot does not get.

{EXIT_CODES}"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code."""
    parser = Parser(
        prog="python -m takeset.lerobot",
        description="Export a dataset for LeRobot, version 3.0 of its format.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("dataset", help="a dataset directory, its dataset.h5, a shard or a packed file")
    parser.add_argument("output", help="the directory to write; must not exist")
    parser.add_argument(
        "--fps", type=_number, default=30, metavar="N", help="rows per second; every row must lie on that grid (default: 30)"
    )
    parser.add_argument("--task", metavar="TEXT", help="the task in words (default: the labels of the episodes, or else unspecified)")
    parser.add_argument("--tasks", metavar="FILE", help='a JSON file with tasks by take id, for those without a label or with another: {"take-1": "pick up the cup"}')
    parser.add_argument(
        "--images",
        choices=["png", "jpeg", "video"],
        default="png",
        help="how images stored as pixels are stored; JPEG and PNG files keep their bytes. video: all images but depth (default: png)",
    )
    parser.add_argument("--quality", type=int, default=95, metavar="1-100", help="of --images jpeg (default: 95)")
    parser.add_argument("--codec", choices=["av1", "h264"], help="of --images video (default: av1 where PyAV has it)")
    parser.add_argument("--episodes", type=_words, metavar="IDS", help="only these episodes or takes, separated by commas")
    parser.add_argument("--split", metavar="NAME", help="only the episodes of this split: train, valid or test")
    parser.add_argument("--keys", type=_words, metavar="KEYS", help="only these observations, and actions, separated by commas")
    parser.add_argument("--drop-keys", type=_words, default=(), metavar="KEYS", help="without these; language_persistent leaves out the segments")
    parser.add_argument(
        "--state",
        type=_words,
        metavar="KEYS",
        help="the observations that make observation.state (default: pose,joints; without poses, joints and the numbers that are actions)",
    )
    parser.add_argument(
        "--tolerance", type=float, metavar="S", help="how far a row may be from row / fps, in seconds (default: a tenth of a row)"
    )
    parser.add_argument("--min-frames", type=int, default=2, metavar="N", help="leave out shorter runs of complete rows (default: 2)")
    parser.add_argument("--data-file-mb", type=float, default=100, metavar="MB", help="size at which a Parquet file is full (default: 100)")
    parser.add_argument("--video-file-mb", type=float, default=200, metavar="MB", help="size at which a video is full (default: 200)")
    parser.add_argument("--jobs", type=int, metavar="N", help="threads that encode images (default: all cores)")
    parser.add_argument("--replace", action="store_true", help="replace an earlier export")
    parser.add_argument("-q", "--quiet", action="store_true", help="print problems only")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = vars(parser.parse_args(arguments))
    is_quiet, is_json, dataset, output = (given.pop(name) for name in ("quiet", "json", "dataset", "output"))

    def work() -> None:
        given["task"] = _task(given["task"], given.pop("tasks"))
        try:
            summary = export(dataset, output, progress=None if is_quiet else _say, **given)
        except OSError as error:
            raise TakesetError(f"cannot write {output}: {error}", 1) from error
        print(_as_json(summary) if is_json else "" if is_quiet else _as_text(summary), end="")

    return finish("takeset.lerobot", work)


def _task(text: str | None, file: str | None) -> Any:
    if file is None:
        return text
    if text is not None:
        raise TakesetError("--task and --tasks exclude each other", 64)
    try:
        with open(file, encoding="utf-8") as stream:
            found = json.load(stream)
    except (OSError, ValueError) as error:
        raise TakesetError(f"--tasks: {file} cannot be read: {error}", 64) from None
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
        raise TakesetError(f"--tasks: {file} is not an object of texts", 64)
    return found


def _as_text(summary: Summary) -> str:
    for sentence in summary.lost:
        _say(f"not in the export: {sentence}")
    splits = "".join(f"; {split} {first} to {end - 1}" for split, (first, end) in summary.splits.items())
    size = f"{summary.frames} frames, {summary.files} files, {summary.bytes / 1e6:.1f} MB"
    return f"{summary.path}: {summary.episodes} episode{'s' if summary.episodes != 1 else ''}{splits}; {size}\n"


def _as_json(summary: Summary) -> str:
    return json.dumps({**vars(summary), "format": "lerobot"}, sort_keys=True, ensure_ascii=False) + "\n"


def _words(text: str) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(","))
    if not all(words):
        raise argparse.ArgumentTypeError(f"expected names, separated by commas, found {text!r}")
    return words


def _number(text: str) -> float:
    return float(text)


def _say(line: str) -> None:
    print(line, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
