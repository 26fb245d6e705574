"""What this package's commands have in common: arguments, exit codes, and what happens when they are interrupted."""

from __future__ import annotations

import argparse
import difflib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from ._errors import TakesetError

EXIT_CODES = """\
exit codes: 0 finished; 1 could not finish, or the dataset does not exist; 64 wrong usage, or not a dataset;
  65 the dataset cannot be held; 73 the output exists; 130, 143 interrupted"""


class Parser(argparse.ArgumentParser):
    """Ends with exit code 64 for wrong usage, as `takeset` does."""

    def error(self, message: str) -> NoReturn:
        """Prints the usage and what is wrong with it."""
        self.print_usage(sys.stderr)
        self.exit(64, f"{self.prog}: {message}\n")


class Interrupted(BaseException):
    """A signal that ends the command, after what it was writing has been removed."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def finish(name: str, work: Callable[[], None]) -> int:
    """Does the work of a command. Returns its exit code; what ends it becomes a line on stderr."""
    last = -1.0

    def interrupt(number: int, frame: Any) -> None:
        nonlocal last
        now, before = time.monotonic(), last
        last = now
        if before < 0 or now - before > 1:  # timeout(1) sends its signal twice, and the second would end the cleaning up.
            raise Interrupted(number)

    numbers = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
    # What started the command may want it to ignore a signal, as nohup does.
    earlier = {number: signal.signal(number, interrupt) for number in numbers if signal.getsignal(number) is not signal.SIG_IGN}
    try:
        work()
        return 0
    except Interrupted as error:
        message, code = "interrupted; no unfinished output is left", 128 + error.number
    except TakesetError as error:
        message, code = str(error), error.exit_code or 1
    except OSError as error:
        message, code = str(error), 1
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
    print(f"{name}: {message}", file=sys.stderr)
    return code


def nearest(names: Iterable[str], known: Iterable[str]) -> str:
    """A question that ends a message about unknown names: the known name that is most like the first; empty if none is."""
    choices = list(known)
    found = [close for name in names for close in difflib.get_close_matches(name, choices, 1)]
    return f"; did you mean {found[0]}?" if found else ""
