"""Bare systems to install packages in: root file systems by debootstrap, which are kept in build/clean-roots and copied for each trial."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from command import ROOT

KEPT = ROOT / "build/clean-roots"
MIRROR = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian")
CLEAN = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}


class Root:
    """A directory with a bare system. Commands see nothing of the machine but its kernel, and no network unless asked for."""

    def __init__(self, path):
        self.path = path

    def __call__(self, *command, check=0, network=False, env=None):
        net = [] if network else ["--net"]
        proc = f"--mount-proc={self.path}/proc"
        full = ["unshare", "--mount", "--pid", "--fork", *net, proc, "chroot", self.path, *command]
        done = subprocess.run([*map(str, full)], env=CLEAN | (env or {}), capture_output=True, text=True, timeout=900)
        if check is not None:
            assert done.returncode == check, f"{command}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done


def _bootstrap(suite, path):
    log = subprocess.run(["debootstrap", "--variant=minbase", suite, path, MIRROR], capture_output=True, text=True)
    if log.returncode != 0:
        pytest.skip(f"debootstrap of {suite} from {MIRROR} fails here: {log.stdout.strip().splitlines()[-1:]}")


def _kept(name, make):
    """A root file system of this name, made once. One that was not finished is made again."""
    path = KEPT / name
    if not path.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=KEPT))
        try:
            make(partial)
            partial.chmod(0o755)
            partial.rename(path)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return path


def base(suite):
    """The kept root file system of a release of Debian, without Python."""
    if os.geteuid() != 0:
        pytest.skip("needs root, for chroot")
    for tool in "debootstrap", "unshare", "chroot":
        if shutil.which(tool, path=CLEAN["PATH"]) is None:
            pytest.skip(f"needs {tool}")
    if subprocess.run(["unshare", "--mount", "--pid", "--fork", "--net", "true"], capture_output=True).returncode != 0:
        pytest.skip("unshare is not allowed here")
    return _kept(suite, lambda path: _bootstrap(suite, path))


def with_python(suite):
    """The kept root file system of a release of Debian with Python and pip."""
    bare = base(suite)

    def make(path):
        subprocess.run(["cp", "-a", "--reflink=auto", f"{bare}/.", path], check=True)
        install = "apt-get update -q && apt-get install -y -q --no-install-recommends python3-venv python3-pip && apt-get clean"
        Root(path)("sh", "-c", install, network=True)

    return _kept(f"{suite}-python", make)


class trial:
    """A copy of a kept root file system, removed afterwards."""

    def __init__(self, kept):
        self.kept = kept

    def __enter__(self):
        self.path = Path(tempfile.mkdtemp(prefix="trial.", dir=KEPT))
        self.path.chmod(0o755)
        subprocess.run(["cp", "-a", "--reflink=auto", f"{self.kept}/.", self.path], check=True)
        return Root(self.path)

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)
