"""Arguments of this package's commands."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """Ends with exit code 64 for wrong usage, as `takeset` does."""

    def error(self, message: str) -> NoReturn:
        """Prints the usage and what is wrong with it."""
        self.print_usage(sys.stderr)
        self.exit(64, f"{self.prog}: {message}\n")
