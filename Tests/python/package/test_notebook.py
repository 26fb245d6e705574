"""examples/first-dataset: the notebook runs, and the pipeline file is the default one."""

import os
import re
import subprocess
import sys

import nbformat
import pytest
from command import BINARY, ROOT
from nbclient import NotebookClient
from outputs import manifest

EXAMPLE = ROOT / "examples/first-dataset"
NOTEBOOK = EXAMPLE / "explore.ipynb"


@pytest.fixture
def notebook():
    return nbformat.read(NOTEBOOK, as_version=4)


@pytest.mark.slow
def test_the_notebook_runs_and_draws(notebook, dataset, monkeypatch):
    monkeypatch.setenv("TAKESET_DATASET", str(dataset))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "python"))
    monkeypatch.setenv("MPLBACKEND", "Agg")
    client = NotebookClient(notebook, kernel_name="python3", timeout=300, resources={"metadata": {"path": str(EXAMPLE)}})
    client.execute()  # raises when a cell does

    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not [o for o in outputs if o.output_type == "error" or o.get("name") == "stderr"]
    assert sum("image/png" in o.get("data", {}) for o in outputs) >= 5

    whole, episode = [o.data["text/html"] for o in outputs if "text/html" in o.get("data", {})]
    assert whole.count("data:image/png;base64,") == 12 and episode.count("data:image/png;base64,") == 12  # six frames; images and depth

    printed = "".join(o.text for o in outputs if o.output_type == "stream")
    for take in manifest(dataset)["record"]["takes"]:
        assert f"{take['id']}: written, {take['output']['samples']} rows" in printed
        assert take["id"] in whole and take["input_sha256"][:12] in printed


def test_the_notebook_is_stored_clean(notebook):
    nbformat.validate(notebook)
    assert notebook.nbformat == 4
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
    assert all(re.fullmatch("[a-z-]+", cell.id) for cell in notebook.cells)
    assert not re.search(r"/(home|Users|root|tmp|work)/", NOTEBOOK.read_text())


def test_the_pipeline_file_is_the_default_pipeline(takeset, masters, dataset, tmp_path):
    file = EXAMPLE / "pipeline.yaml"
    takeset("plan", *masters.values(), "--pipeline", file, check=0)
    takeset.convert(*masters.values(), output=tmp_path / "out", arguments=["--pipeline", file])
    assert manifest(tmp_path / "out")["record"] == manifest(dataset)["record"]


@pytest.mark.slow
def test_the_readme_shows_what_its_snippet_prints(takeset, tmp_path):
    readme = (EXAMPLE / "README.md").read_text()
    snippet, printed = (re.search(rf"```{language}\n(.*?)```", readme, re.S)[1] for language in ("python", "text"))
    subprocess.run([ROOT / "scripts/make-examples", BINARY, tmp_path / "sessions"], check=True)
    takeset.convert(tmp_path / "sessions", output=tmp_path / "build/dataset")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run([sys.executable, "-c", snippet], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout == printed, done.stderr
