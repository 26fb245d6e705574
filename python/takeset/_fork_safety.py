"""What has to be done anew in a process that was forked."""

from __future__ import annotations

import os
import weakref
from typing import Any, Protocol

import h5py


class Forked(Protocol):
    """An object that a child process inherits."""

    def _after_fork(self) -> None:
        """Called in the child, before anything else runs there."""


_inherited: weakref.WeakSet[Forked] = weakref.WeakSet()


def call_after_fork(known: Forked) -> None:
    """From now on and while it lives, calls the object's `_after_fork` in every process that is forked from this one."""
    _inherited.add(known)


def _after_fork() -> None:
    for known in list(_inherited):
        known._after_fork()


def _library_lock() -> Any:
    """The lock of h5py, or None where h5py itself holds it during a fork, as it does from version 3.14.

    A child that is forked while another thread is inside HDF5 would wait for that thread, which it does not have, for ever.
    """
    if tuple(map(int, h5py.__version__.split(".")[:2])) >= (3, 14):
        return None
    return getattr(h5py.h5, "phil", None)


if hasattr(os, "register_at_fork"):
    if (_lock := _library_lock()) is not None:
        os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
    os.register_at_fork(after_in_child=_after_fork)
