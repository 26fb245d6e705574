"""The errors of this package."""

from __future__ import annotations


class TakesetError(Exception):
    """What is wrong with a file, a key or a run, as a sentence.

    exit_code  that of the command `takeset`, or of a command of this package; None where neither has one of its own for the mistake
    """

    def __init__(self, message: str, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code

    def __reduce__(self) -> tuple[type[TakesetError], tuple[str, int | None]]:
        return type(self), (str(self), self.exit_code)


class UnknownKey(TakesetError, KeyError):
    """An episode, stream or statistic that is not there. Also a `KeyError`, as mappings raise."""

    __str__ = Exception.__str__  # KeyError's would quote the sentence.


class OutOfRange(TakesetError, IndexError):
    """A number of an episode or a row that is not there. Also an `IndexError`, which ends iteration by number."""
