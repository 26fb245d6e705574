"""What a binary or a shared library needs, as binutils' objdump shows it."""

import re
import shutil
import subprocess
from pathlib import Path

# What every Linux of the wheel's tag has (PEP 600), and zlib not among it: other builds of zlib compress to other bytes.
EVERYWHERE = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2", "libgcc_s.so.1", "libstdc++.so.6"}


def _objdump(flag: str, file: Path) -> str:
    return subprocess.run(["objdump", flag, str(file)], check=True, capture_output=True, text=True).stdout


def needed(file: Path) -> list[str]:
    """The shared libraries that a file asks the loader for, by name."""
    return re.findall(r"^ +NEEDED +(\S+)$", _objdump("-p", file), re.MULTILINE)


def search_path(file: Path) -> str | None:
    """Where the loader looks first (DT_RPATH, which LD_LIBRARY_PATH cannot override), or None."""
    found = re.search(r"^ +RPATH +(\S+)$", _objdump("-p", file), re.MULTILINE)
    return found.group(1) if found else None


def versions(file: Path, prefix: str = "GLIBC") -> set[tuple[int, ...]]:
    """Versions of the symbols that a file takes from glibc, or from another library with versions of this prefix."""
    text = _objdump("-T", file)
    return {tuple(map(int, v.split("."))) for line in text.splitlines() if "*UND*" in line for v in re.findall(rf"\({prefix}_([\d.]+)\)", line)}


def on_this_machine() -> dict[str, Path]:
    """The libraries that the loader of this machine finds: name to file."""
    ldconfig = shutil.which("ldconfig", path="/sbin:/usr/sbin:/bin:/usr/bin")
    text = subprocess.run([str(ldconfig), "-p"], check=True, capture_output=True, text=True).stdout
    return {name: Path(path) for name, path in reversed(re.findall(r"^\s+(\S+) \(libc6,x86-64[^)]*\) => (\S+)$", text, re.MULTILINE))}


def closure(files: list[Path], own: Path) -> dict[str, Path]:
    """Every library that the files need, directly or not, unless it is everywhere. Libraries in the directory `own` come first, and all of them are in
    the closure, because FFmpeg is looked up by name when a video is opened.

    Raises LookupError for a library that is nowhere."""
    found = {file.name: file for file in sorted(own.iterdir())}
    system = on_this_machine()
    queue = [*files, *found.values()]
    while queue:
        file = queue.pop()
        for name in needed(file):
            if name in EVERYWHERE or name in found:
                continue
            if name not in system:
                raise LookupError(f"{file} needs {name}, which is not on this machine")
            found[name] = system[name]
            queue.append(system[name])
    return found


def manylinux(files: list[Path]) -> str:
    """The platform tag that says which glibc the files need at least (PEP 600)."""
    newest = max(version for file in files for version in versions(file))
    return f"manylinux_{newest[0]}_{newest[1]}_x86_64"
