"""`takeset export --to lerobot` and `takeset view`, whose work the Python package does."""

import os
import subprocess
import sys

import pytest
from command import BINARY, ROOT


@pytest.fixture(scope="module")
def dataset(takeset, tmp_path_factory):
    root = tmp_path_factory.mktemp("door")
    takeset.simulate(root / "session", "--variant", "v2", "--seconds", 1, "--size", "64x48")
    takeset.convert(root / "session", output=root / "dataset")
    return root / "dataset"


def run(*arguments, **environment):
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV", "TAKESET_PYTHON")}
    return subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=300, env={**clean, **environment})


HERE = {"PYTHONPATH": str(ROOT / "python"), "TAKESET_PYTHON": sys.executable}


@pytest.mark.slow
def test_lerobot_is_a_format_of_export(dataset, tmp_path):
    pytest.importorskip("pyarrow")
    out = tmp_path / "out"
    done = run("export", dataset, "--to", "lerobot", "--output", out, "--fps", 60, "--task", "look around", "--jobs", 1, **HERE)
    assert done.returncode == 0, done.stderr
    assert (out / "meta/info.json").exists() and str(out) in done.stdout
    some = run("export", dataset, "--to", "lerobot", "--output", tmp_path / "some", "--fps", 60, "--where", "frames < 0", **HERE)
    assert some.returncode == 65 and "no episode matches" in some.stderr
    again = run("export", "--fps", 60, dataset, "--to", "lerobot", "--output", out, **HERE)
    assert again.returncode == 73 and "--replace" in again.stderr
    assert run("export", dataset, "--to", "lerobot", "--output", out, "--fps", 60, "--replace", "--quiet", **HERE).stdout == ""
    assert run("export", dataset, "--to", "lerobot", "--output", out, "--frames", 60, **HERE).returncode == 64


def test_the_environment_that_is_active_is_taken(dataset, tmp_path):
    """Not the first python3 of PATH, which may be any."""
    active = tmp_path / "venv/bin"
    active.mkdir(parents=True)
    (active / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (active / "python3").chmod(0o755)
    done = run("view", "--help-python", PYTHONPATH=str(ROOT / "python"), VIRTUAL_ENV=str(active.parent), PATH="/nowhere")
    assert "--episode" in done.stdout or "needs Rerun" in done.stderr, done.stderr


def test_a_missing_package_is_said_with_the_remedy(dataset, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    (tmp_path / "bin/python3").chmod(0o755)
    for path, words in (str(tmp_path / "bin"), f"it is not in {tmp_path / 'bin/python3'}"), ("/nowhere", "there is no python3"):
        for command, extra in ("view", "rerun"), ("export --to lerobot --output out", "lerobot"):
            done = run(*command.split(), dataset, PATH=path)
            assert done.returncode == 1 and words in done.stderr and f"pip install 'takeset[{extra}]'" in done.stderr, done.stderr
    # The package without what the module imports.
    (tmp_path / "rerun").mkdir()
    (tmp_path / "rerun/__init__.py").write_text("raise ImportError('no viewer')\n")
    done = run("view", dataset, TAKESET_PYTHON=sys.executable, PYTHONPATH=f"{tmp_path}:{ROOT / 'python'}")
    assert done.returncode == 1 and "pip install 'takeset[rerun]'" in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_no_code_of_the_working_directory_runs(dataset, tmp_path):
    """A stranger's folder may hold modules of these names."""
    for name in "takeset", "h5py", "numpy", "rerun", "importlib", "contextlib", "types", "warnings", "functools", "collections", "operator", "json", "argparse":
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("print('a stranger'); raise SystemExit(7)\n")
    for command in ("view",), ("export", "--to", "lerobot", "--output", tmp_path / "out"):
        done = subprocess.run(
            [BINARY, *map(str, command), dataset], capture_output=True, text=True, cwd=tmp_path, timeout=300, env={**os.environ, **HERE})
        assert "a stranger" not in done.stdout and done.returncode != 7, done.stdout
    # A folder of this name is no package.
    (tmp_path / "empty/takeset").mkdir(parents=True)
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [BINARY, "view", dataset], capture_output=True, text=True, cwd=tmp_path / "empty", timeout=300,
        env={**clean, "TAKESET_PYTHON": sys.executable, "PYTHONPATH": str(tmp_path / "empty")})
    assert done.returncode == 1 and "it is not in" in done.stderr, done.stderr


def test_view_wants_a_dataset():
    done = run("view", **HERE)
    assert done.returncode == 64 and "takeset view dataset/" in done.stderr
