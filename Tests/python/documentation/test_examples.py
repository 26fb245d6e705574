"""The examples' READMEs, copied line by line into a shell."""

import os
import re
import shlex
import subprocess
import sys

import pytest
from command import BINARY, ROOT

# Done once for everything, or in the background of a machine with a network.
PREPARED = re.compile(r"^(make |pip install|jupyter )")


def lines(document):
    """Commands and programs of a document in their order."""
    for kind, block in re.findall(r"^```(console|python)\n(.*?)^```", document.read_text(), re.M | re.S):
        if kind == "python":
            yield "python", block
            continue
        yield from (("console", line[2:]) for line in block.replace("\\\n", "").splitlines() if line.startswith("$ "))


@pytest.fixture(scope="module")
def shell(tmp_path_factory, takeset):
    """A directory with the example dataset where the documents expect it, and the command on the PATH."""
    root = tmp_path_factory.mktemp("examples")
    (root / "bin").mkdir()
    (root / "bin/takeset").symlink_to(BINARY)
    subprocess.run([ROOT / "scripts/make-examples", BINARY, root / "build/examples/sessions"], check=True, capture_output=True)
    takeset.convert(root / "build/examples/sessions", output=root / "build/dataset")
    return root


# test_simulation.py compares what those of `bundles` print.
@pytest.mark.parametrize("name", [pytest.param("exports", marks=pytest.mark.slow), "first-dataset"])
def test_every_line_of_the_readme_runs(shell, tmp_path, name):
    for shared, target in ("build", shell / "build"), ("examples", ROOT / "examples"), ("python", ROOT / "python"):
        (tmp_path / shared).symlink_to(target)
    env = os.environ | {"PATH": f"{shell / 'bin'}:{os.path.dirname(sys.executable)}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "python")}
    ran = 0
    for kind, text in lines(ROOT / f"examples/{name}/README.md"):
        if kind == "console" and PREPARED.match(text):
            continue
        command = [sys.executable, "-c", text] if kind == "python" else ["bash", "-e", "-c", text]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}\n{done.stderr}"
        ran += 1
    assert ran >= 1
