"""The directory of an export while it is written: under a temporary name, so that its own holds a complete export or nothing."""

from __future__ import annotations

import json
import os
import shutil
from types import TracebackType
from typing import Any

from .._errors import TakesetError

RECORD = "takeset-export.json"


class ExportDirectory:
    """A directory that appears once it is complete, at the end of a `with` statement. An error leaves nothing behind.

    path  of the directory until then
    """

    def __init__(self, output: str, dataset: str, replace: bool) -> None:
        """Raises `TakesetError`: 73 if the output exists, 64 if it is inside the dataset's directory."""
        self._output, given = os.path.realpath(output), output
        source = os.path.realpath(os.path.dirname(dataset))
        # A lone file may lie anywhere, so only what lies around a dataset's index or shards is its directory.
        if os.path.basename(source) == "episodes":
            source = os.path.dirname(source)
        is_whole = os.path.exists(os.path.join(source, "manifest.json"))
        if source == self._output or source.startswith(self._output + os.sep) or (is_whole and self._output.startswith(source + os.sep)):
            raise TakesetError(f"the output {given} and the dataset {dataset} are inside one another; choose another directory", 64)
        if os.path.lexists(self._output):
            if not replace:
                raise TakesetError(f"{given} already exists; choose another directory, or give --replace to replace it", 73)
            if not os.path.isfile(os.path.join(self._output, RECORD)):  # Whatever else is there is somebody's work.
                raise TakesetError(
                    f"{given} already exists; it is not an export of Takeset, so --replace leaves it alone; choose another directory", 73
                )
        self.path = os.path.join(os.path.dirname(self._output), f".{os.path.basename(self._output)}.partial")

    def __enter__(self) -> ExportDirectory:
        shutil.rmtree(self.path, ignore_errors=True)
        os.makedirs(self.path)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            return
        old = f"{self.path}.old"
        is_replacing = os.path.lexists(self._output)
        try:
            if is_replacing:
                shutil.rmtree(old, ignore_errors=True)
                os.rename(self._output, old)
            os.rename(self.path, self._output)
        except BaseException:
            if is_replacing and not os.path.lexists(self._output):
                os.rename(old, self._output)
            shutil.rmtree(self.path, ignore_errors=True)
            raise
        finally:
            shutil.rmtree(old, ignore_errors=True)

    def write_json(self, relative: str, value: Any) -> None:
        """Writes a JSON file at this path below the directory."""
        path = os.path.join(self.path, relative)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(value, file, indent=4, ensure_ascii=False)
            file.write("\n")

    def finish(self, record: dict[str, Any]) -> tuple[int, int]:
        """Writes the record as the last file, and makes everything last. Returns how many other files there are, and their bytes."""
        sizes = [os.stat(os.path.join(folder, name)).st_size for folder, _, names in os.walk(self.path) for name in names]
        record = record | {"files": len(sizes), "bytes": sum(sizes)}
        with open(os.path.join(self.path, RECORD), "w", encoding="utf-8") as file:
            file.write(json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n")
        if hasattr(os, "sync"):
            os.sync()  # One flush of the file system instead of one for each file.
        return len(sizes), sum(sizes)
