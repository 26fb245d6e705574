"""Regular files of a dataset, and JSON in them.

A dataset may be from somebody else. A pipe in the place of a file would make a program wait for ever, a device would never end, and a
symbolic link could show any file of the user. So a file is looked at before it is opened, and what is read of it has a limit. Below the
directory of a dataset no link is followed, as the command `takeset` follows none.
"""

from __future__ import annotations

import json
import os
import re
import stat
from typing import Any, BinaryIO

from ._errors import TakesetError

_KINDS = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFLNK: "a symbolic link"}
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_HALF, _HALF_BYTES = re.compile(r"\\u[dD][89a-fA-F]"), re.compile(rb"\\u[dD][89a-fA-F]")
_NO_LINK = "a symbolic link, and links in a dataset are never followed: copy it with cp -rL, or download it with snapshot_download(..., local_dir=...)"


def look(path: str, follows_link: bool = True) -> os.stat_result | None:
    """What is at a path, without opening it; None where nothing is. Raises `TakesetError` where the system does not answer."""
    try:
        return os.stat(path, follow_symlinks=follows_link)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise TakesetError(f"{path} cannot be opened: {error.strerror}") from None
    except ValueError as error:  # a NUL
        raise TakesetError(f"{path!r} cannot be opened: {error}") from None


def require_regular(path: str, follows_link: bool = True) -> os.stat_result:
    """What is at a path, which must be a regular file. Raises `TakesetError` for all else."""
    found = look(path, follows_link)
    if found is None:
        raise TakesetError(f"{path} cannot be opened: No such file or directory")
    return _regular(path, found)


def require_regular_below(directory: str, path: str) -> None:
    """Raises `TakesetError` unless the path below the directory leads to a regular file over no link."""
    *folders, _ = parts = path.split("/")
    for count in range(1, len(folders) + 1):
        folder = os.path.join(directory, *parts[:count])
        found = look(folder, follows_link=False)
        if found is not None and stat.S_ISLNK(found.st_mode):
            raise TakesetError(f"{folder} is {_NO_LINK}")
    require_regular(os.path.join(directory, *parts), follows_link=False)


def open_regular(path: str, follows_link: bool = True) -> int:
    """A descriptor of a regular file, open for reading. Raises `TakesetError` for all else."""
    require_regular(path, follows_link)
    try:
        file = os.open(path, _FLAGS | (0 if follows_link else getattr(os, "O_NOFOLLOW", 0)))
    except OSError as error:
        raise TakesetError(f"{path} cannot be opened: {error.strerror}") from None
    try:
        _regular(path, os.fstat(file))  # It may be another one by now.
    except BaseException:
        os.close(file)
        raise
    return file


def reader(path: str, limit: int) -> BinaryIO:
    """A regular file that is no link, open for reading. Raises `TakesetError` if it is not one, or is larger than the limit."""
    file = os.fdopen(open_regular(path, follows_link=False), "rb")
    size = os.fstat(file.fileno()).st_size
    if size > limit:
        file.close()
        raise TakesetError(f"{path} has {size >> 20} MiB, and such a file never has more than {limit >> 20}")
    return file


def parse_json(content: bytes | str) -> Any:
    """What a JSON text says. Raises `ValueError` for one that is wrong, nested too deep to be read, or has a text that no file can hold."""
    try:
        value = json.loads(content)
        if (_HALF.search(content) if isinstance(content, str) else _HALF_BYTES.search(content)):
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _regular(path: str, found: os.stat_result) -> os.stat_result:
    kind = stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFLNK:
        raise TakesetError(f"{path} is {_NO_LINK}")
    if kind != stat.S_IFREG:
        raise TakesetError(f"{path} is {_KINDS.get(kind, 'a device')}; a regular file was expected")
    return found
