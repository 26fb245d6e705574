"""Steps in Python of the server's pipeline: called where the operator names an interpreter, here and on workers, and nowhere else."""

import os
import sys

import h5py
import pytest
from conftest import TAKESET
from queued import files_below, finished, merged, queue, row, simulate
from test_check import GOOD, address, check
from test_work import ended, workers  # noqa: F401

STEP = """
import numpy as np
from helper import scale
from takeset import steps

FACTOR = float((__import__("pathlib").Path(__file__).parent / "factor.txt").read_text())

@steps.rows(reads=["pose"], writes=steps.Vector("height", ["y"], unit="m"))
def height(block):
    return scale(block.pose[:, 1:2], FACTOR)
"""


@pytest.fixture
def pipeline(tmp_path):
    folder = tmp_path / "pipeline"
    (folder / "steps").mkdir(parents=True)
    (folder / "steps/height.py").write_text(STEP)
    (folder / "steps/helper.py").write_text("def scale(numbers, factor):\n    return numbers * factor\n")
    (folder / "steps/factor.txt").write_text("2")
    text = "version: 1\ntransforms: [{align: {}}, {python: {file: steps/height.py, files: [steps/factor.txt]}}]\n"
    (folder / "p.yaml").write_text(text)
    return folder / "p.yaml"


def queued(server, path, *options):
    files = files_below(simulate("stack-session", path, "--seconds", "0.3", "--variant", "v1", *options))
    return queue(server.data, "session", {name: file for name, file in files.items() if name != "truth.json"})


def stored(server, *captures):
    """The heights and poses of captures in the project's dataset."""
    dataset = merged(server, *captures)
    found = []
    for capture in captures:
        with h5py.File(dataset / f"episodes/{capture}.h5") as shard:
            found.append((shard["data/demo_0/obs/height"][:, 0], shard["data/demo_0/obs/pose"][:, 1]))
    return found


def test_no_step_is_called_until_the_operator_names_a_python(start, pipeline, tmp_path):
    server = start("--takeset", TAKESET, "--pipeline", pipeline, conversions=1)
    refused = finished(server, queued(server, tmp_path / "a"))
    assert refused["status"] == "failed" and "--python none" in row(server.data, refused["id"])["lastError"]
    state, words = check(*GOOD, "--data", tmp_path / "data2", "--listen", address(), "--pipeline", pipeline)["pipeline"]
    assert state == "problem" and "--python none" in words and "need --python" in words
    server.stop()

    # A path from where the server was started.
    python = os.path.relpath(sys.executable)
    server = start("--takeset", TAKESET, "--pipeline", pipeline, "--python", python, data=server.data, conversions=1)
    capture = queued(server, tmp_path / "b")
    assert finished(server, capture)["status"] == "complete"
    [(heights, poses)] = stored(server, capture)
    assert len(heights) and (heights == 2 * poses).all()
    options = ["--data", tmp_path / "data2", "--listen", address(), "--pipeline", pipeline, "--python", sys.executable]
    assert "steps/factor.txt, steps/height.py, steps/helper.py" in check(*GOOD, *options)["pipeline"][1]


def test_a_worker_gets_the_files_and_converts_as_the_server_does(start, workers, pipeline, tmp_path):  # noqa: F811
    """Also after a file has changed; a worker without a Python is told what it lacks."""
    options = ["--takeset", TAKESET, "--pipeline", pipeline, "--python", sys.executable]
    server = start(*options)
    first = queued(server, tmp_path / "b")
    code, words = ended(workers(server, "--until-idle"))
    assert code == 1 and "steps in Python" in words and row(server.data, first)["state"] == "waiting"
    code, words = ended(workers(server, "--until-idle", "--python", sys.executable))
    assert code == 0, words
    assert finished(server, first)["status"] == "complete"
    [(heights, poses)] = stored(server, first)
    assert (heights == 2 * poses).all()
    home = start(*options, conversions=1)
    same = queued(home, tmp_path / "h")
    finished(home, same)
    away, here = (server.data / f"datasets/default/episodes/{first}.h5"), (merged(home, same) / f"episodes/{same}.h5")
    assert len(away.read_bytes()) == len(here.read_bytes())
    with h5py.File(away) as one, h5py.File(here) as other:
        assert one.attrs["pipeline_sha256"] == other.attrs["pipeline_sha256"]

    (pipeline.parent / "steps/factor.txt").write_text("30")
    later = queued(server, tmp_path / "c", "--seed", 4)
    assert ended(workers(server, "--until-idle", "--python", sys.executable))[0] == 0
    [(heights, poses)] = stored(server, later)
    assert (heights == 30 * poses).all()


def test_a_step_outside_the_folder_reaches_no_worker(start, workers, pipeline, tmp_path):  # noqa: F811
    (tmp_path / "away.py").write_text(STEP.replace("from helper import scale", "scale = lambda a, b: a * b").replace("factor.txt", "pipeline/steps/factor.txt"))
    pipeline.write_text("version: 1\ntransforms: [{align: {}}, {python: {file: ../away.py, files: [steps/factor.txt]}}]\n")
    server = start("--takeset", TAKESET, "--pipeline", pipeline, "--python", sys.executable)
    capture = queued(server, tmp_path / "b")
    options = ["--data", tmp_path / "data2", "--listen", address(), "--pipeline", pipeline, "--python", sys.executable]
    assert check(*GOOD, *options)["pipeline"][0] == "ok"  # The server itself can call it.
    worker = workers(server, "--python", sys.executable)
    server.until(lambda: "outside the folder of the pipeline" in server.log.read_text())
    assert row(server.data, capture)["state"] == "waiting" and worker.poll() is None
