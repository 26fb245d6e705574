"""The values that were used last."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LRUCache(Generic[K, V]):
    """Values by key, of which those that were used last are kept, up to a total size of `limit`. Threads may share it."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self._values: dict[K, tuple[V, int]] = {}  # the last used last
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """The value, which is now the one used last, or None."""
        with self._lock:
            entry = self._values.pop(key, None)
            if entry is None:
                return None
            self._values[key] = entry
            return entry[0]

    def put(self, key: K, value: V, size: int = 1) -> None:
        """Keeps a value, and drops the ones that were not used for the longest time. One larger than the limit is kept alone."""
        with self._lock:
            self.size += size - self._values.pop(key, (None, 0))[1]
            self._values[key] = (value, size)
            while self.size > self.limit and len(self._values) > 1:
                self.size -= self._values.pop(next(iter(self._values)))[1]

    def clear(self) -> list[V]:
        """Drops all values and returns them."""
        with self._lock:
            values = [value for value, _ in self._values.values()]
            self._values.clear()
            self.size = 0
            return values

    def _after_fork(self) -> None:
        """Replaces the lock, which another thread of the parent process may have held."""
        self._lock = threading.Lock()
