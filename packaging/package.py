"""What all packages have in common: the version, the time stamp, and a folder with the command and all that belongs to it."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import elf
import third_party

ROOT = Path(__file__).resolve().parent.parent


def run(*command: str | Path, **options) -> str:
    return subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def start(main: Callable[..., Path], usage: str | None) -> None:
    """Runs a program on the paths that are its arguments, and prints the package that it has made; errors are sentences."""
    arguments = [Path(argument).resolve() for argument in sys.argv[1:]]
    if len(arguments) != main.__code__.co_argcount:
        sys.exit(usage)
    try:
        made = main(*arguments)
    except (LookupError, OSError) as error:
        sys.exit(f"{Path(sys.argv[0]).name}: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"{Path(sys.argv[0]).name}: {' '.join(error.cmd)} failed with exit code {error.returncode}")
    print(f"{made}: {made.stat().st_size / 1e6:.1f} MB")


def remove_others(output: Path, pattern: str) -> None:
    """Removes packages of earlier versions, so that there is one of each kind."""
    for old in output.glob(pattern):
        old.unlink()


def version(binary: Path) -> str:
    """The version that the command says it has."""
    text = run(binary, "--version")
    found = re.fullmatch(r"(?:takeset )?(\d+\.\d+\.\d+)(?: \(.*\))?\s*", text)
    if not found:
        raise SystemExit(f"{binary} says it is {text!r}; expected a version like 0.3.0")
    return found.group(1)


def epoch() -> int:
    """The time that files in packages have: $SOURCE_DATE_EPOCH, or that of the commit. The same source gives the same package."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    done = subprocess.run(["git", "-C", str(ROOT), "log", "-1", "--format=%ct"], capture_output=True, text=True)
    return int(done.stdout) if done.returncode == 0 and done.stdout.strip() else 1_700_000_000


def strip(binary: Path, output: Path) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    run("strip", "--strip-unneeded", "-o", output, binary)
    output.chmod(0o755)


def add_documents(binary: Path, share: Path) -> None:
    """The manual page and the completions of three shells, below a `share` folder."""
    def write(path: str, text: str) -> None:
        (share / path).parent.mkdir(parents=True, exist_ok=True)
        (share / path).write_text(text)

    write("man/man1/takeset.1", (ROOT / "docs/takeset.1").read_text())
    for shell, path in {
        "bash": "bash-completion/completions/takeset",
        "zsh": "zsh/site-functions/_takeset",
        "fish": "fish/vendor_completions.d/takeset.fish",
    }.items():
        # A completion is read by a shell that runs already; it is no program.
        write(path, run(binary, "--generate-completion-script", shell).removeprefix("#!/bin/bash\n"))


def relocatable(binary: Path, checkouts: Path, libraries: Path, output: Path, folder: str, search: str) -> list[third_party.Component]:
    """Fills a directory with `bin`, `share` and this folder for libraries, which the command searches by this path; it runs wherever it is moved.

    Returns what it has of others. Raises LookupError if a library is missing, or its license is not known."""
    shutil.rmtree(output, ignore_errors=True)
    command, own = output / "bin/takeset", output / folder
    strip(binary, command)
    own.mkdir(parents=True)
    components = third_party.linked(binary, checkouts) + third_party.built(libraries)
    for name, file in sorted(elf.closure([binary], libraries / "lib").items()):
        # The file, not the symbolic link that Debian's names are.
        shutil.copyfile(file.resolve(), own / name)
        (own / name).chmod(0o644)
        if file.parent != libraries / "lib":
            components.append(third_party.library(file))
        run("patchelf", "--force-rpath", "--set-rpath", "$ORIGIN", own / name)
    run("patchelf", "--force-rpath", "--set-rpath", search, command)
    add_documents(binary, output / "share")
    (output / "LICENSE").write_text((ROOT / "LICENSE").read_text())
    (output / "THIRD-PARTY").write_text(third_party.document(components))
    return components


def files(folder: Path) -> list[Path]:
    """Every file below a folder, relative to it, in a fixed order."""
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
