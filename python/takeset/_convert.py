"""Running the command `takeset`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from ._dataset import Dataset
from ._errors import TakesetError

AnyPath = str | os.PathLike[str]
_SOME_FAILED = 3
_SHOWN = 5


def convert(
    inputs: AnyPath | Sequence[AnyPath],
    output: AnyPath,
    pipeline: AnyPath | Mapping[str, Any] | None = None,
    jobs: int | None = None,
    replace: bool = False,
    binary: AnyPath | None = None,
    *,
    strict: bool = False,
) -> Dataset:
    """Converts takes into a dataset by the command `takeset run`, and opens it.

    inputs    takes, or directories to search for takes
    output    the dataset directory; takes that are in it and have not changed are not converted again
    pipeline  a pipeline file, or its content: {"version": 1, "transforms": [{"align": {}}, …]}; None: the default pipeline
    jobs      threads; None: all cores
    replace   rebuild the dataset even if it was written by a different pipeline
    binary    the command; None: $TAKESET, else the one installed with this package, else the one on PATH
    strict    raise when a take failed. Otherwise the others are converted, and `dataset.takes` has the reason

    Raises `TakesetError` with the command's words and its `exit_code`.
    """
    takes = [inputs] if isinstance(inputs, (str, os.PathLike)) else list(inputs)
    if not takes:
        raise TakesetError("there is nothing to convert: inputs is empty", exit_code=64)
    command = [find_binary(binary), "run", "--output", _argument(output), "--progress", "none", "--color", "never", "--quiet"]
    if jobs is not None:
        command += ["--jobs", str(jobs)]
    if replace:
        command += ["--replace"]
    own = None
    with tempfile.TemporaryDirectory(prefix="takeset-") as folder:
        if isinstance(pipeline, Mapping):
            file = os.path.join(folder, "pipeline.json")  # JSON is YAML.
            with open(file, "w", encoding="utf-8") as stream:
                json.dump(pipeline, stream, indent=2)
            command += ["--pipeline", file]
            own = file
        elif pipeline is not None:
            command += ["--pipeline", _argument(pipeline)]
        code, said = _run([*command, *map(_argument, takes)])
    if code not in (0, _SOME_FAILED):
        said = said.removeprefix("takeset: ")
        for option, argument in (" --output", " output"), (" --replace", " replace=True"):  # As this function names them.
            said = said.replace(option, argument)
        if own is not None and own in said:  # A dictionary has no lines.
            said = re.sub(r" \(line \d+, column \d+\)", "", said.replace(own, "pipeline"))
        raise TakesetError(said or f"takeset run ended with exit code {code} and said nothing", exit_code=code)
    dataset = Dataset(output)
    failed = [f"{take['id']}: {take['reason']}" for take in dataset.takes if take["outcome"] == "failed"]
    if code == _SOME_FAILED and strict:
        dataset.close()
        more = f"\nand {len(failed) - _SHOWN} more" if len(failed) > _SHOWN else ""
        raise TakesetError(f"{len(failed)} of {len(dataset.takes)} takes failed:\n" + "\n".join(failed[:_SHOWN]) + more, exit_code=code)
    return dataset


def find_binary(binary: AnyPath | None = None) -> str:
    """Path of the command: the argument, $TAKESET, the one installed with this package, or the one on PATH. Raises `TakesetError`."""
    for given, origin in ((binary, "binary"), (os.environ.get("TAKESET"), "$TAKESET")):
        if given:
            found = shutil.which(os.fspath(given))
            if found is None:
                raise TakesetError(f"{os.fspath(given)} ({origin}) is not a command that can be run")
            return found
    for folder in _script_folders():
        found = shutil.which("takeset", path=folder)
        if found is not None:
            return found
    found = shutil.which("takeset")
    if found is None:
        raise TakesetError("the command takeset is not installed: put it on PATH, or set $TAKESET to its path")
    return found


def _script_folders() -> list[str]:
    """Where pip installs commands: of this environment, of the user, and next to packages that were installed with --target."""
    target = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    user = sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user"))
    return [sysconfig.get_path("scripts"), user, os.path.join(target, "bin")]


def _argument(path: AnyPath) -> str:
    """A path as an argument; one that starts with a hyphen is not an option."""
    text = os.fspath(path)
    return os.path.join(".", text) if text.startswith("-") else text


def _run(command: list[str]) -> tuple[int, str]:
    """Exit code and stderr. An interrupt reaches the command too, which finishes the takes that are under way."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8", errors="replace"
        )
    except OSError as error:
        raise TakesetError(f"{command[0]} cannot be run: {error.strerror}") from None
    return done.returncode, done.stderr.strip()
