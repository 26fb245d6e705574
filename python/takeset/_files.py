"""Open files of one process.

HDF5 keeps state in the process, so a forked child must not go on with the files of its parent: each process opens its own. A dataset
has thousands of shards and a process about a thousand file descriptors, so only the files that were used last stay open.
"""

from __future__ import annotations

import os
import threading

from ._errors import TakesetError
from ._hdf5 import File, Object, find, find_group, open_hdf5, require_whole
from ._lru_cache import LRUCache
from ._regular import open_regular, require_regular

Stamp = tuple[int, int, int, int]


class OpenFile:
    """One file, opened by HDF5 and as plain bytes, each when first needed. It closes with the last reference to it.

    path   of the file
    stamp  its device, inode, size and time of change when it was opened
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.stamp = _stamp(path)
        self._h5: File | None = None
        self._descriptor = -1
        self._lock = threading.Lock()

    @property
    def h5(self) -> File:
        """The file, opened by HDF5. Raises `TakesetError` if it is no HDF5 file."""
        with self._lock:
            if self._h5 is None:
                self._h5 = open_hdf5(self.path)
            return self._h5

    @property
    def descriptor(self) -> int:
        """Descriptor for `os.preadv`. Threads may share it, because its position is never used."""
        with self._lock:
            if self._descriptor < 0:
                self._descriptor = open_regular(self.path)
            return self._descriptor

    def close(self) -> None:
        """Closes the file for HDF5 now, with every object of it that anybody holds."""
        if self._h5 is not None:
            self._h5.close()

    def __del__(self) -> None:
        if getattr(self, "_descriptor", -1) >= 0:
            os.close(self._descriptor)


class Files:
    """The files that were used last, at most `limit`, and the groups and datasets in them."""

    def __init__(self, limit: int = 64, objects: int = 48) -> None:
        self._open: LRUCache[str, OpenFile] = LRUCache(limit)
        # A dataset keeps the chunks that HDF5 inflated last, up to 1 MiB, so that windows that overlap inflate them once.
        self._objects: LRUCache[tuple[str, str], Object] = LRUCache(objects)
        self._whole: set[tuple[str, str]] = set()
        self._stamps: dict[str, Stamp] = {}
        self.is_closed = False

    def __getitem__(self, path: str) -> OpenFile:
        """The file, opened by this process. Raises `TakesetError` if it is not there or was replaced since it was first opened."""
        if self.is_closed:
            raise TakesetError(f"{path} cannot be read: the dataset was closed")
        file = self._open.get(path)
        if file is None:
            file = OpenFile(path)
            # Places of frames and small arrays are remembered when a file is closed for others; they must be those of this file.
            if self._stamps.setdefault(path, file.stamp) != file.stamp:
                raise TakesetError(f"{path} was replaced while the dataset was open; open the dataset again")
            self._open.put(path, file)
        return file

    def find(self, path: str, name: str) -> Object | None:
        """A group or dataset of a file by its path in it, or None if there is none."""
        found = self._objects.get((path, name))
        if found is None:
            found = find(self[path].h5, name)
            if found is not None:
                self._objects.put((path, name), found)
        return found

    def require_whole(self, path: str, name: str) -> None:
        """Raises `TakesetError` unless all below a group is in its own file. Each group is gone through once."""
        if (path, name) not in self._whole:
            group = find_group(self[path].h5, name)
            if group is not None:
                require_whole(group)
            self._whole.add((path, name))

    def close(self) -> None:
        """Closes all files, for good."""
        self.is_closed = True
        self._objects.clear()
        for file in self._open.clear():
            file.close()

    def _after_fork(self) -> None:
        """Drops the parent's files. They are closed for HDF5 in this process, or it would go on with the parent's."""
        inherited, self._open = self._open, LRUCache(self._open.limit)
        inherited._after_fork()
        self._objects._after_fork()
        self._objects.clear()
        for file in inherited.clear():
            file.close()


def _stamp(path: str) -> Stamp:
    found = require_regular(path)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
