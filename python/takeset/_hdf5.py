"""The door to HDF5: no other module of this package opens an HDF5 file, looks up what is in one, or reads it.

A dataset may be from somebody else, or damaged. HDF5 follows what a file names, be it another file, a pipe or a device, and takes memory
for whatever a file claims, be it a petabyte. So here

* links are followed only within a file, and arrays that are stored in other files or are views of others are refused;
* what an array claims is compared with what is stored before memory is taken for it;
* a value must have the type and the shape that its reader asks for;
* whatever HDF5 and h5py raise becomes a `TakesetError`: which file, which object, what was found.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Union

import h5py
import numpy as np
from h5py import Dataset as Dataset
from h5py import File as File
from h5py import Group as Group
from numpy.typing import NDArray

from ._errors import TakesetError
from ._regular import parse_json, require_regular

Object = Union[Group, Dataset]
Array = NDArray[Any]

# What Takeset writes is far below.
_MOST_OBJECTS = 100_000
_MOST_LEVELS = 32
_MOST_ATTRIBUTE_BYTES = 16 << 20
_MOST_COLUMN_BYTES = 1 << 30  # of what is read at once: two weeks of rows
# No chunk is smaller than its bytes by more than deflate's best rate, but for what a chunk has at least.
_INFLATION = 1032
_LEAST_CHUNK = 64
_OWN = "a dataset has all its bytes in its own files, so nothing outside of them is read"


# Files


def open_hdf5(path: str) -> File:
    """Opens an HDF5 file for reading. Raises `TakesetError` if it is not a regular file, or cannot be opened."""
    require_regular(path)
    try:
        return h5py.File(path, "r")
    except Exception as error:
        reason = str(error)
    try:
        if "lock" in reason:  # Not every network file system has locks, and a sealed file needs none.
            return h5py.File(path, "r", locking=False)
    except Exception as error:  # ValueError: this build of HDF5 cannot do without
        reason = str(error)
    raise TakesetError(f"{path} cannot be opened by HDF5: {reason}") from None


def is_hdf5(path: str) -> bool:
    """Whether a regular file starts as an HDF5 file. Raises `TakesetError` if it is not a regular file."""
    require_regular(path)
    return bool(h5py.is_hdf5(path))


def title(found: Object, attribute: str | None = None) -> str:
    """The file, and the object in it, as messages name them."""
    try:
        return f"{found.file.filename}: " + (f"the attribute {attribute} of {found.name}" if attribute else str(found.name))
    except Exception:  # An object of a closed file knows neither.
        return attribute or "an object of a closed file"


def _title(group: Group, member: str) -> str:
    return f"{title(group).rstrip('/')}/{member}"


class reading:  # A function with a `yield` would take three times as long, for every attribute.
    """A context that turns what HDF5 and h5py raise into a `TakesetError` about this."""

    def __init__(self, what: Callable[[], str]) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        # OSError, KeyError, RuntimeError, TypeError, ValueError, MemoryError and more, also for damaged files
        if isinstance(error, Exception) and not isinstance(error, TakesetError):
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise TakesetError(f"{self._what()} cannot be read: {reason}") from error


# Groups and what is in them


def members(group: Group) -> list[str]:
    """Names of the members of a group, in the file's order."""
    with reading(lambda: title(group)):
        return list(group)


def find(group: Group, path: str) -> Object | None:
    """The group or dataset at a path below a group; None if there is none. Raises `TakesetError` where a link leads elsewhere."""
    found: Object = group
    for name in path.strip("/").split("/"):
        if not isinstance(found, h5py.Group):
            return None
        with reading(lambda: _title(found, name)):
            member = name.encode("utf-8", "surrogateescape")
            if not name or b"\0" in member or not found.id.links.exists(member):
                return None
            _require_hard_link(found.id, member, lambda: _title(found, name))
            inner = h5py.h5o.open(found.id, member)
            if isinstance(inner, h5py.h5d.DatasetID):
                _require_own_bytes(inner, lambda: _title(found, name))
                found = Dataset(inner)
            elif isinstance(inner, h5py.h5g.GroupID):
                found = Group(inner)
            else:
                return None
    return found


def find_group(group: Group, path: str) -> Group | None:
    """The group at a path below a group, or None."""
    found = find(group, path)
    return found if isinstance(found, h5py.Group) else None


def outer_link(group: Group, name: str) -> tuple[str, str] | None:
    """The file and the path in it that a member of a group is a link to; None for a member of the group itself."""
    with reading(lambda: _title(group, name)):
        link = group.get(name, getlink=True)
        return (str(link.filename), str(link.path)) if isinstance(link, h5py.ExternalLink) else None


def require_whole(group: Group) -> None:
    """Raises `TakesetError` unless everything below a group is in its own file, so that h5py itself may be used on it.

    Also for groups that contain one another: whoever goes through them would never end.
    """
    path, member, count = "", b"", 0

    def what() -> str:
        return _title(group, f"{path}/{member.decode('utf-8', 'replace')}".lstrip("/"))

    with reading(what):
        waiting, seen = [(group.id, path, 1)], {h5py.h5o.get_info(group.id).addr}
        while waiting:
            inner, path, level = waiting.pop()
            for member in inner:
                count += 1
                _require_hard_link(inner, member, what)
                found = h5py.h5o.open(inner, member)
                if isinstance(found, h5py.h5d.DatasetID):
                    _require_own_bytes(found, what)
                elif isinstance(found, h5py.h5g.GroupID):
                    address = h5py.h5o.get_info(found).addr
                    if level >= _MOST_LEVELS or address in seen:
                        raise TakesetError(f"{what()} is a group within itself, or nested deeper than in any file of Takeset")
                    seen.add(address)
                    waiting.append((found, f"{path}/{member.decode('utf-8', 'replace')}", level + 1))
                if count > _MOST_OBJECTS:
                    raise TakesetError(f"{title(group)} has more objects than any file that Takeset writes")


def _require_hard_link(group: Any, member: bytes, what: Callable[[], str]) -> None:
    """Of a low-level group."""
    kind = group.links.get_info(member).type
    if kind == h5py.h5l.TYPE_HARD:
        return
    try:
        target = b":".join(group.links.get_val(member)) if kind == h5py.h5l.TYPE_EXTERNAL else group.links.get_val(member)
        target = target.decode("utf-8", "replace")
    except Exception:  # a link of a kind that HDF5 itself does not know
        target = "something else"
    raise TakesetError(f"{what()} is a link to {target}; {_OWN}")


def _require_own_bytes(dataset: Any, what: Callable[[], str]) -> None:
    """Of a low-level dataset, because h5py's asks for its shape, for which HDF5 opens the sources of a view."""
    properties = dataset.get_create_plist()
    if properties.get_layout() == h5py.h5d.VIRTUAL:
        raise TakesetError(f"{what()} is a view of datasets in other files; {_OWN}")
    if properties.get_external_count():
        name = properties.get_external(0)[0].decode("utf-8", "replace")
        raise TakesetError(f"{what()} is stored in another file, {name}; {_OWN}")


# Attributes


def attribute(found: Object, name: str) -> Any:
    """The value of an attribute: text as str, numbers as int and float, arrays as h5py has them; None if there is none."""
    with reading(lambda: title(found, name)):
        member = name.encode("utf-8", "surrogateescape")
        if not h5py.h5a.exists(found.id, member):
            return None
        stored = h5py.h5a.open(found.id, member)
        if stored.get_storage_size() > _MOST_ATTRIBUTE_BYTES:
            raise TakesetError(f"{title(found, name)} claims {stored.get_storage_size()} bytes, more than any that Takeset writes")
        value = found.attrs[name]
    if isinstance(value, np.generic) and not isinstance(value, np.void):
        return value.item()
    return value


def attributes(found: Object) -> dict[str, Any]:
    """All attributes of an object."""
    with reading(lambda: title(found)):
        names = list(found.attrs)
    return {name: attribute(found, name) for name in names}


def text(found: Object, name: str, default: str = "") -> str:
    """An attribute that is a text."""
    value = attribute(found, name)
    if value is None:
        return default
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if not isinstance(value, str):
        raise TakesetError(f"{title(found, name)} is {_shown(value)}; a text was expected")
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def integer(found: Object, name: str, least: int = -(1 << 63), most: int = (1 << 63) - 1) -> int | None:
    """An attribute that is a whole number from `least` to `most`; None if there is none."""
    value = attribute(found, name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise TakesetError(f"{title(found, name)} is {_shown(value)}; a whole number from {least} to {most} was expected")
    return value


def json_object(found: Object, name: str) -> dict[str, Any]:
    """An attribute that is a JSON object as text; empty if there is none."""
    content = text(found, name, "{}")
    with reading(lambda: title(found, name)):
        value = parse_json(content)
    if not isinstance(value, dict):
        raise TakesetError(f"{title(found, name)} is {_shown(value)}; a JSON object was expected")
    return value


# Datasets


def numbers(dataset: Dataset, shape: tuple[int | None, ...] | None = None, whole: bool = False) -> Array:
    """The whole dataset, of numbers, or only of whole ones, and of this shape; None is any length. Raises `TakesetError` for all else."""
    require_shape(dataset, shape)
    require_numbers(dataset, whole)
    with reading(lambda: title(dataset)):
        if dataset.nbytes > _MOST_COLUMN_BYTES:
            raise TakesetError(f"{title(dataset)} has {dataset.nbytes >> 20} MiB, more than any column that Takeset writes")
        return np.asarray(dataset[()])


def texts(dataset: Dataset) -> list[str]:
    """The whole dataset, of one text after the other."""
    require_shape(dataset, (None,))
    require_stored(dataset)
    with reading(lambda: title(dataset)):
        if dataset.dtype.kind != "S" and h5py.check_string_dtype(dataset.dtype) is None:
            raise TakesetError(f"{title(dataset)} is of type {dataset.dtype}; texts were expected")
        return [one.decode("utf-8", "replace") if isinstance(one, bytes) else str(one) for one in dataset[()].tolist()]


def rows(dataset: Dataset, first: int, end: int, out: Array, place: int) -> None:
    """Reads rows first … end-1 into `out`, beginning at `place`."""
    with reading(lambda: f"{title(dataset)}, rows {first} to {end - 1},"):
        dataset.read_direct(out, np.s_[first:end], np.s_[place : place + end - first])


def files(dataset: Dataset, first: int, end: int) -> list[bytes]:
    """The files of rows first … end-1 of a dataset that has one for each row."""
    with reading(lambda: f"{title(dataset)}, rows {first} to {end - 1},"):
        return [np.asarray(one, np.uint8).tobytes() for one in dataset[first:end]]


def has_files(dataset: Dataset) -> bool:
    """Whether a dataset has a file, bytes of any length, for each row."""
    with reading(lambda: title(dataset)):
        inner = h5py.check_vlen_dtype(dataset.dtype)
        return inner is not None and np.dtype(inner) == np.uint8


def form(dataset: Dataset) -> tuple[tuple[int, ...], np.dtype[Any], tuple[int, ...] | None]:
    """Shape, type and chunk of a dataset; the shape of one without elements is empty."""
    with reading(lambda: title(dataset)):
        return tuple(dataset.shape or ()), dataset.dtype, dataset.chunks


def require_shape(dataset: Dataset, shape: tuple[int | None, ...] | None) -> None:
    """Raises `TakesetError` unless a dataset has this shape; None is any length, or any shape."""
    found = form(dataset)[0]
    if shape is not None and (len(found) != len(shape) or any(b is not None and a != b for a, b in zip(found, shape))):
        expected = ", ".join("any" if side is None else str(side) for side in shape)
        raise TakesetError(f"{title(dataset)} has the shape {found}; ({expected}) was expected")


def require_numbers(dataset: Dataset, whole: bool = False) -> None:
    """Raises `TakesetError` unless a dataset is of numbers, or only of whole ones, and stores as many as it claims."""
    found = form(dataset)[1]
    if found.kind not in ("biu" if whole else "biuf"):
        raise TakesetError(f"{title(dataset)} is of type {found}; {'whole ' if whole else ''}numbers were expected")
    require_stored(dataset)


def require_stored(dataset: Dataset) -> None:
    """Raises `TakesetError` if a dataset claims more than its file can have, before anybody takes memory for it."""
    shape, dtype, chunk = form(dataset)
    claimed = math.prod(shape) * dtype.itemsize
    if not claimed:
        return
    with reading(lambda: title(dataset)):
        stored, available = dataset.id.get_storage_size(), dataset.file.id.get_filesize()
        if chunk is None:
            most = stored
        else:
            count = math.prod(-(-side // width) for side, width in zip(shape, chunk))
            if (found := dataset.id.get_num_chunks()) != count:
                raise TakesetError(f"{title(dataset)} claims {shape[0]} rows in {count} chunks, and {found} are stored")
            has_filters = dataset.id.get_create_plist().get_nfilters() > 0
            most = _INFLATION * (stored + _LEAST_CHUNK * count) if has_filters else stored
    if claimed > most or stored > available:
        raise TakesetError(f"{title(dataset)} claims {claimed} bytes, and {stored} are stored in a file of {available}")


def heap_references(dataset: Dataset) -> int | None:
    """Where the references of a dataset of files are in the file: 16 bytes for each row, one after the other. None if they are stored otherwise."""
    with reading(lambda: title(dataset)):
        if dataset.chunks is not None or dataset.ndim != 1 or dataset.file.userblock_size or dataset.id.get_storage_size() != 16 * len(dataset):
            return None
        place = dataset.id.get_offset()
        return None if place is None else int(place)


def chunk_places(dataset: Dataset) -> tuple[NDArray[np.int64], int] | None:
    """Where each row is in the file, and its bytes, of a dataset with one row per chunk as it is in memory; None of any other.

    A row that is not in the file is at -1.
    """
    with reading(lambda: title(dataset)):
        shape, chunk = dataset.shape, dataset.chunks
        if not shape or chunk != (1, *shape[1:]) or dataset.dtype.kind not in "uif" or not dataset.dtype.isnative:
            return None
        if dataset.id.get_create_plist().get_nfilters() or dataset.file.userblock_size:
            return None
        offsets = np.full(shape[0], -1, np.int64)
        size = int(np.prod(shape[1:])) * int(dataset.dtype.itemsize)

        def note(chunk: Any) -> None:
            if chunk.size == size and chunk.byte_offset is not None:
                offsets[chunk.chunk_offset[0]] = chunk.byte_offset

        if hasattr(dataset.id, "chunk_iter"):
            dataset.id.chunk_iter(note)
        else:  # HDF5 before 1.12.3
            for row in range(shape[0]):
                note(dataset.id.get_chunk_info_by_coord((row, *[0] * (len(shape) - 1))))
        return offsets, size


def _shown(value: Any) -> str:
    """A value in a message, which may be from somebody else: short."""
    found = repr(value)
    return found if len(found) <= 40 else f"{found[:40]}…"
