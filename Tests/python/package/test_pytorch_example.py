"""examples/pytorch: its README, run line by line, and its training script."""

import os
import re
import shlex
import subprocess
import sys

import pytest
from command import BINARY, ROOT
from documents import blocks

README = "examples/pytorch/README.md"


@pytest.fixture(scope="module")
def example(tmp_path_factory, takeset):
    """What `make dataset` leaves, next to the examples."""
    root = tmp_path_factory.mktemp("example")
    subprocess.run([ROOT / "scripts/make-examples", BINARY, root / "build/examples/sessions"], check=True, stdout=subprocess.DEVNULL)
    takeset.convert(root / "build/examples/sessions", output=root / "build/dataset")
    (root / "examples").symlink_to(ROOT / "examples")
    return root


def run(example, *command):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run([sys.executable, *command], cwd=example, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def lines():
    """Commands of the README's console blocks, without comments."""
    return [shlex.split(line[2:], comments=True) for block in blocks(README, "console") for line in block.splitlines()]


def test_the_commands_of_the_readme_name_what_there_is():
    make, install, train = lines()
    assert make == ["make", "dataset"] and "\ndataset: " in (ROOT / "Makefile").read_text()
    assert install == ["pip", "install", "./python[torch]"] and "\ntorch = [" in (ROOT / "python/pyproject.toml").read_text()
    assert train[0] == "python" and (ROOT / train[1]).is_file()


@pytest.mark.loaders
def test_the_script_learns(example):
    (_, _, (_, *train)) = lines()
    printed = run(example, *train)
    pattern = re.sub(r"\d+\.\d+", "N", blocks(README, "text")[0])
    assert re.sub(r"\d+\.\d+", "N", printed) == pattern
    losses = [float(loss) for loss in re.findall(r"loss (\S+)", printed)]
    assert losses[-1] < 0.6 * losses[0]


@pytest.mark.loaders
def test_the_readme_shows_what_its_snippet_prints(example):
    (snippet,) = blocks(README, "python")
    (example / "batches.py").write_text(snippet)
    assert run(example, "batches.py") == blocks(README, "text")[1]


@pytest.mark.loaders
def test_the_page_of_the_package_shows_what_its_code_prints(example):
    section = (ROOT / "docs/python.md").read_text().partition("\n## PyTorch\n")[2].partition("\n## ")[0]
    (code,), (printed,) = (re.findall(rf"```{language}\n(.*?)```", section, re.S) for language in ("python", "text"))
    (example / "page.py").write_text(code.replace('"dataset/"', '"build/dataset"'))
    assert run(example, "page.py") == printed
