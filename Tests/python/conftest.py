"""What the tests share: the built binary, simulated takes, and real captures where they are at hand."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import h5py
import pytest

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("TAKESET", ROOT / ".build/release/takeset"))


class Takeset:
    """Runs the real command and remembers nothing."""

    def __call__(self, *arguments, check=None, env=None, **options):
        command = [str(BINARY), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=env, **options)
        if check is not None:
            assert done.returncode == check, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def simulate(self, output, *arguments):
        self("simulate", "stack-session", "--output", output, *arguments, check=0)
        return Path(output)

    def convert(self, *inputs, output, check=0, arguments=()):
        return self("run", *inputs, "--output", output, "--progress", "plain", *arguments, check=check)


@pytest.fixture(scope="session")
def takeset():
    assert BINARY.exists(), f"{BINARY} is not built; run make build"
    return Takeset()


@pytest.fixture(scope="session")
def masters(tmp_path_factory, takeset):
    """Small sound takes that tests copy and damage: name to directory."""
    root = tmp_path_factory.mktemp("masters")
    return {
        "v1": takeset.simulate(root / "session_2026-01-31_120000", "--seconds", 0.5, "--size", "480x360", "--depth-size", "64x48"),
        "v2": takeset.simulate(root / "session_2026-02-01_130000", "--variant", "v2", "--seconds", 1, "--seed", 7),
    }


@pytest.fixture
def sessions(tmp_path, masters):
    """A directory with a copy of each master."""
    root = tmp_path / "sessions"
    for master in masters.values():
        shutil.copytree(master, root / master.name)
    return root


@pytest.fixture(scope="session")
def dataset(tmp_path_factory, takeset, masters):
    """A dataset of both masters."""
    output = tmp_path_factory.mktemp("dataset") / "out"
    takeset.convert(*masters.values(), output=output)
    return output


@pytest.fixture(scope="session")
def takes(tmp_path_factory, takeset):
    """Four short takes, two of each variant."""
    root = tmp_path_factory.mktemp("takes")
    for index in range(4):
        variant = ["v1", "v2"][index % 2]
        takeset.simulate(
            root / f"session_2026-03-0{index + 1}_100000", "--variant", variant, "--seconds", 0.5, "--seed", index, "--size", "320x240", "--depth-size", "64x48")
    return root


@pytest.fixture(scope="session")
def batch(takeset, tmp_path_factory):
    """Sessions with quirks, all converted in one run."""
    from quirks import Batch

    return Batch(takeset, tmp_path_factory.mktemp("quirks"))


def manifest(directory):
    return json.loads((Path(directory) / "manifest.json").read_text())


def take(directory, take_id):
    return next(t for t in manifest(directory)["record"]["takes"] if t["id"] == take_id)


def demos(directory):
    """Open dataset.h5 and give its demos by take id."""
    file = h5py.File(Path(directory) / "dataset.h5")
    return {demo.attrs["take_id"]: (demo, file["meta"][name]) for name, demo in file["data"].items()}


def _captures():
    """The folder of real captures: $TAKESET_CAPTURES, or one beside the checkout."""
    candidates = [os.environ.get("TAKESET_CAPTURES"), ROOT.parent / "shared/data"]
    return next((Path(c) for c in candidates if c and Path(c).is_dir()), None)


@pytest.fixture(scope="session")
def captures():
    found = _captures()
    if found is None:
        pytest.skip("no real captures at hand; set TAKESET_CAPTURES")
    return found
