"""Interrupted and killed runs leave nothing half-written and resume to the same bytes."""

import shutil
import signal
import subprocess

import pytest
from command import BINARY
from outputs import demos, manifest
from system import stopped

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_leaves_nothing_half_written(takeset, failing_look, tmp_path, number, code):
    """The signal arrives as the second episode gets its name; the other takes are not begun."""
    takes, episodes = tmp_path / "takes", tmp_path / "out/episodes"
    for index in range(6):
        takeset.simulate(takes / f"t{index}", "--seconds", 0.5, "--size", "480x360", "--depth-size", "128x96", "--seed", index)
    command = [BINARY, "run", takes, "--output", tmp_path / "out", "--jobs", "1"]
    process = stopped(command, failing_look, "rename", episodes, 2, stderr=subprocess.PIPE, text=True)
    process.send_signal(number)
    process.send_signal(signal.SIGCONT)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == code, errors
    assert "interrupted" in errors
    left = list(episodes.iterdir())
    assert 2 <= len(left) < 6 and all(p.suffix == ".h5" and not p.name.startswith(".") for p in left)
    for path in left:
        takeset("verify", path, check=0)


def files_of(directory):
    return {path.relative_to(directory): path.read_bytes() for path in directory.rglob("*.*") if path.is_file()}


@pytest.mark.parametrize("kind", ["remove", "rename"])
def test_a_run_killed_while_it_prunes_resumes_to_a_valid_dataset(takeset, failing_look, tmp_path, kind):
    """Killed before each file it removes or publishes; with or without --prune in the run after it, nothing is linked that is gone."""
    takes, aside = tmp_path / "takes", tmp_path / "aside"
    for index in range(8):
        takeset.simulate(takes / f"t{index}", "--variant", "v2", "--seconds", 0.05, "--size", "32x24", "--seed", index)
    takeset.convert(takes, output=tmp_path / "whole")
    aside.mkdir()
    for index in range(0, 8, 2):
        (takes / f"t{index}").rename(aside / f"t{index}")
    kept = [f"t{index}" for index in range(1, 8, 2)]
    begun, number = 0, 0
    while True:
        number += 1
        output = shutil.copytree(tmp_path / "whole", tmp_path / f"out{number}")
        prune = [BINARY, "run", takes, "--output", output, "--prune"]
        process = stopped(prune, failing_look, kind, output, number)
        if process.returncode is not None:  # there is no such call any more
            assert process.returncode == 0
            break
        process.kill()
        process.wait()
        begun += files_of(output) != files_of(tmp_path / "whole")
        subprocess.run(prune if number % 2 else prune[:-1], check=True, capture_output=True)
        takeset("verify", output, check=0)
        found = demos(output)
        assert set(kept) <= set(found), number
        assert {path.stem for path in (output / "episodes").iterdir()} == set(found) == {t["id"] for t in manifest(output)["record"]["takes"]}
        if number % 2:
            assert sorted(found) == kept
        assert all(demo["obs/pose"].shape[0] for demo, _ in found.values())
    assert number > (4 if kind == "remove" else 2) and begun > 0, (number, begun)
