"""Shuffled batches of windows, made ahead of time by threads of this process."""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ._errors import TakesetError
from ._reading import New

B = TypeVar("B")
Array = NDArray[Any]

# Smaller arrays cost less to allocate than to keep.
_LEAST_KEPT = 1 << 16


class Batches(Protocol[B]):
    """Windows that are read a batch at a time."""

    def __len__(self) -> int: ...

    def batch(self, numbers: Sequence[int], new: New, seed: int) -> B:
        """The windows of these numbers. May be called by several threads.

        new   makes arrays
        seed  of whatever is random about the batch
        """
        ...


class BatchLoader(Generic[B]):
    """Batches of an epoch in the order that a seed gives. `takeset.torch.Loader` and `takeset.windows.Loader` describe it."""

    def __init__(
        self, windows: Batches[B], batch_size: int = 32, threads: int | None = None, *, shuffle: bool = True, seed: int = 0,
        drop_last: bool = True, part: tuple[int, int] = (0, 1),
    ) -> None:  # fmt: skip
        threads = min(_cores(), 8) if threads is None else threads
        for name, value, least in ("batch_size", batch_size, 1), ("threads", threads, 1), ("seed", seed, 0):
            if value < least:
                raise ValueError(f"{name} must be at least {least}, found {value}")
        if not isinstance(part, (tuple, list)) or len(part) != 2 or not 0 <= part[0] < part[1]:
            raise ValueError(f"part is (number, count), such as (rank, world_size), found {part!r}")
        self.windows, self.batch_size, self.threads, self.shuffle, self.seed, self.drop_last = windows, batch_size, threads, shuffle, seed, drop_last
        self.part, self._buffers = part, Buffers(threads + 4)
        self._state, self._next = (0, 0), (0, 0)
        if not len(self):
            raise ValueError(f"{len(windows)} windows make no batch of {batch_size}" + (f" for each of {part[1]} parts" if part[1] > 1 else "") + "; use a smaller batch_size, or drop_last=False")

    def __len__(self) -> int:
        """Batches of an epoch; of every part as many."""
        whole, rest = divmod(len(self.windows), self.batch_size)
        return (whole + (rest > 0 and not self.drop_last)) // self.part[1]

    def __iter__(self) -> Iterator[B]:
        """An epoch: the next one, or what is left of the one that `load_state_dict` was given."""
        epoch, start = self._next
        self._next = (epoch + 1, 0)
        return self._epoch(epoch, start)

    def state_dict(self) -> dict[str, int]:
        """Where the loader is: after the batch that was last given. To be saved with the model, for `load_state_dict`."""
        epoch, step = self._state
        return {"epoch": epoch, "step": step, "seed": self.seed, "shuffle": int(self.shuffle), "windows": len(self.windows), "batch_size": self.batch_size, "parts": self.part[1]}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """The next epoch goes on where another loader was. Raises `TakesetError` if its batches were of other windows, sizes or seeds."""
        for name, value in self.state_dict().items():
            if name not in ("epoch", "step") and state.get(name) != value:
                raise TakesetError(f"the state is of a loader with {name}={state.get(name)}, and this one has {name}={value}, so its batches are others")
        epoch, step = state.get("epoch", -1), state.get("step", -1)
        if epoch < 0 or not 0 <= step <= len(self):
            raise TakesetError(f"the state is at step {step} of epoch {epoch}, and an epoch has {len(self)} steps")
        self._state = self._next = (epoch, step) if step < len(self) else (epoch + 1, 0)

    def order(self, epoch: int) -> NDArray[np.int64]:
        """The numbers of the windows of an epoch in the order of the batches, those of all parts: batch b is part b % count's."""
        if not self.shuffle:
            return np.arange(len(self.windows))
        return np.random.default_rng([self.seed, epoch]).permutation(len(self.windows))

    def _epoch(self, epoch: int, start: int) -> Iterator[B]:
        order, (part, parts) = self.order(epoch), self.part
        self._state = (epoch, start)

        def make(step: int) -> B:
            first = (step * parts + part) * self.batch_size
            seed = int(np.random.SeedSequence([self.seed, epoch, step * parts + part]).generate_state(1, np.uint64)[0])
            return self._batch(order[first : first + self.batch_size].tolist(), seed)

        steps = iter(range(start, len(self)))
        threads = ThreadPoolExecutor(self.threads, "takeset-loader")
        waiting: deque[Future[B]] = deque(threads.submit(make, step) for step in itertools.islice(steps, self.threads + 1))
        try:
            for step in itertools.count(start):
                if not waiting:
                    return
                batch = waiting.popleft().result()
                if (later := next(steps, None)) is not None:
                    waiting.append(threads.submit(make, later))
                self._state = (epoch, step + 1) if step + 1 < len(self) else (epoch + 1, 0)
                yield batch
                del batch  # its memory is free as soon as nobody else has it
        finally:
            # Python may collect an abandoned loop in one of its own threads, which cannot wait for itself.
            threads.shutdown(wait=False, cancel_futures=True)

    def _batch(self, numbers: Sequence[int], seed: int) -> B:
        return self.windows.batch(numbers, self._buffers.new, seed)


class Buffers:
    """Memory of large arrays, which is used again once nobody has the arrays. New memory costs as much as reading images into it.

    most  how many of a size are kept
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._free: dict[int, list[Array]] = {}

    def new(self, shape: tuple[int, ...], dtype: Any) -> Array:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if size < _LEAST_KEPT:
            return np.empty(shape, dtype)
        free = self._free.setdefault(size, [])
        try:
            memory = free.pop()
        except IndexError:
            memory = np.empty(size, np.uint8)
        return np.asarray(_Lease(memory, free, self._most)).view(dtype).reshape(shape)


class _Lease:
    """Memory of an array, which all views of it hold, as NumPy's and PyTorch's do. It is free once they are gone."""

    def __init__(self, memory: Array, free: list[Array], most: int) -> None:
        self._memory, self._free, self._most = memory, free, most
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        if len(self._free) < self._most:
            self._free.append(self._memory)


def _cores() -> int:
    """Cores of this process, where the system says so, or else of the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
