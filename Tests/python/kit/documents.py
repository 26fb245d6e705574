"""The documents of the project."""

import os
import re

from command import BINARY, ROOT


def blocks(document, language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / document).read_text(), re.S)


def small_simulations(root, size):
    """An environment in which `takeset` is the command, but what it simulates has images of this size, which are made sooner."""
    (root / "bin").mkdir()
    (root / "bin/takeset").write_text(f'#!/bin/sh\n[ "$1" = simulate ] && set -- "$@" --size {size}\nexec {BINARY} "$@"\n')
    (root / "bin/takeset").chmod(0o755)
    return os.environ | {"PATH": f"{root}/bin:{os.environ['PATH']}"}
