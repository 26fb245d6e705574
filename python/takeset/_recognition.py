"""Whether a path is a dataset, and what it is if not."""

from __future__ import annotations

import os
import stat

from ._errors import TakesetError
from ._hdf5 import File, find, find_group, is_hdf5, text
from ._regular import look, open_regular, parse_json, reader, require_regular_below

_SIGNATURES = {
    b"PK": "a zip file", b"\x1f\x8b": "a gzip file", b"\xff\xd8\xff": "a JPEG image", b"\x89PNG": "a PNG image", b"CDF": "a NetCDF file",
    b"PAR1": "a Parquet file", b"\x93NUMPY": "a NumPy file", b"{": "JSON or text", b"[": "JSON or text",
}  # fmt: skip


def dataset_file(path: str) -> str:
    """The HDF5 file of a path: the path itself, or dataset.h5 of a directory. Raises `TakesetError` with what the path is, if not that."""
    found = look(path)
    if found is None:
        raise TakesetError(f"{path} does not exist", 1)
    if not stat.S_ISDIR(found.st_mode):
        if not is_hdf5(path):
            raise TakesetError(f"{path} is not a Takeset dataset: it is {_guess(path)}not an HDF5 file", 64)
        return path
    index = os.path.join(path, "dataset.h5")
    if look(index, follows_link=False) is not None:
        require_regular_below(path, "dataset.h5")
        if not is_hdf5(index):
            raise TakesetError(f"{index} is damaged: it is not an HDF5 file; rebuild it by running the same takeset run again")
        return index
    raise TakesetError(f"{path} is not a Takeset dataset: {_why_no_dataset(path)}", 64)


def check_format(file: File, path: str) -> None:
    """Raises `TakesetError` unless the file is Takeset's, of version 2 of the format."""
    if text(file, "format") != "takeset":
        other = next((what for mark, what in _OTHERS.items() if find(file, mark) is not None), None)
        looks = f"; it looks like {other}" if other else ""
        raise TakesetError(f'{path} is not a Takeset dataset: it has no attribute format = "takeset"{looks}', 64)
    version = text(file, "format_version")
    if version.startswith("1."):
        raise TakesetError(
            f"{path} is in format {version}, written by an earlier version of Takeset; rebuild it from its inputs: "
            f"takeset run INPUT --output DIR --replace"
        )
    if not version.startswith("2."):
        raise TakesetError(f"{path} is in format {version or 'without a version'}, and this package reads version 2; update takeset")
    if find_group(file, "data") is None or find_group(file, "meta") is None:
        raise TakesetError(f"{path} is damaged: it has no /data or no /meta")


_EXPORT_BYTES = 16 << 20
_OTHERS = {"data/demo_0": "a robomimic dataset", "action": "an ACT (ALOHA) episode", "observations": "an ACT (ALOHA) episode"}


def _why_no_dataset(directory: str) -> str:
    try:
        members = set(os.listdir(directory))
    except OSError as error:
        return f"it cannot be listed ({error.strerror})"
    if "takeset-export.json" in members:
        try:
            with reader(os.path.join(directory, "takeset-export.json"), _EXPORT_BYTES) as file:
                form = str(parse_json(file.read())["format"])
        except (TakesetError, OSError, ValueError, KeyError, TypeError):
            form = "unknown"
        return f"it is an export (format {form}); open the dataset that it was made from"
    if "journal.jsonl" in members:
        return "its run has not finished, so it has no dataset.h5; run the same takeset run again, and it goes on where it stopped"
    if {".zgroup", "zarr.json"} & members:
        return "it is a zarr folder"
    if os.path.isfile(os.path.join(directory, "meta", "info.json")):
        return "it is a LeRobot dataset"
    if not members:
        return "it is empty"
    return "it has no dataset.h5; takeset run INPUT --output DIR writes one"


def _guess(path: str) -> str:
    """What a file is, by its first bytes, followed by a comma; empty if they say nothing."""
    try:
        with open(open_regular(path), "rb") as file:
            start = file.read(16)
    except OSError as error:
        return f"unreadable ({error.strerror}) and "
    if not start:
        return "empty and "
    if start[4:8] == b"ftyp":
        return "a video, "
    return next((f"{what}, " for mark, what in _SIGNATURES.items() if start.startswith(mark)), "")
