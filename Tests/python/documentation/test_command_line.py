"""The command: help, trajectories and pipelines that cannot be used, and output directories."""

import os
import re
import shutil
import subprocess

import pytest
from command import BINARY, ROOT
from session_faults import V1, tree
from system import as_nobody


def test_help_teaches(takeset):
    assert "takeset run sessions/ --output dataset/" in takeset("--help", check=0).stdout
    for command in "run", "inspect", "plan", "verify", "steps", "simulate", "pack":
        text = takeset(command, "--help", check=0).stdout
        assert "USAGE" in text and f"takeset {command}" in text
    assert takeset("--version", check=0).stdout.startswith("takeset ")
    assert "tolerance: 0.05" in takeset("steps", "align", check=0).stdout


@pytest.mark.parametrize("line", ["-5 " + "1 " * 12, "5 nan" + " 1" * 11, "5 1e30" + " 1" * 11, "99999999999999999999" + " 1" * 12])
def test_trajectories_that_are_not_valid(takeset, tmp_path, line):
    (tmp_path / "t.txt").write_text(line + "\n")
    done = takeset("simulate", "stack-session", "--output", tmp_path / "s", "--trajectory", tmp_path / "t.txt")
    assert done.returncode == 64 and "line 1" in done.stderr


def test_a_step_that_is_missing_is_named(takeset, sessions, tmp_path):
    (tmp_path / "p.yaml").write_text("version: 1\ntransforms: []\n")
    done = takeset.convert(sessions, output=tmp_path / "out", check=64, arguments=["--pipeline", tmp_path / "p.yaml"])
    assert "the pipeline has no step align" in done.stderr and not (tmp_path / "out").exists()
    assert takeset("plan", sessions, "--pipeline", tmp_path / "p.yaml", "--json", check=64).stderr == done.stderr


# The output directory


def test_output_inside_an_input_is_refused(takeset, sessions):
    before = tree(sessions)
    for output in sessions, sessions / "out", sessions / V1 / "deep/er", sessions / ".." / sessions.name / "x":
        done = takeset("run", sessions, "--output", output)
        assert done.returncode == 64 and "inside the input" in done.stderr
    assert tree(sessions) == before


def test_an_output_that_is_a_file(takeset, sessions, tmp_path):
    (tmp_path / "out").write_text("precious")
    done = takeset("run", sessions, "--output", tmp_path / "out")
    assert done.returncode == 1 and "output directory" in done.stderr
    assert (tmp_path / "out").read_text() == "precious"


@pytest.mark.skipif(os.getuid() != 0, reason="needs another user to be refused")
def test_an_output_that_is_not_writable(sessions, tmp_path_factory):
    # Outside of pytest's own directories, which only their owner may enter.
    import tempfile

    with tempfile.TemporaryDirectory() as root:
        os.chmod(root, 0o755)
        shutil.copytree(sessions, root + "/sessions")
        shutil.copy(BINARY, root + "/takeset")
        os.mkdir(root + "/out", mode=0o755)
        for output in root + "/out", root + "/out/new":
            done = subprocess.run(
                [root + "/takeset", "run", root + "/sessions", "--output", output], capture_output=True, text=True, preexec_fn=as_nobody
            )
            assert done.returncode == 1 and "Permission denied" in done.stderr, done.stderr
        assert os.listdir(root + "/out") == []


def test_everyday_commands_come_before_those_of_operation(takeset):
    text = takeset("--help", check=0).stdout
    groups = {name: re.findall(r"^  (\S+)  ", part, re.M) for name, part in re.findall(r"^([A-Z]+) SUBCOMMANDS:\n((?:  .*\n)+)", text, re.M)}
    assert [*groups] == ["EVERYDAY", "OPERATION"]
    assert groups["EVERYDAY"][:5] == ["run", "inspect", "verify", "report", "export"]
    assert {"convert", "status", "publish", "describe", "sign", "serve", "upload"} < set(groups["OPERATION"])
    # Each once, and none that is hidden.
    documented = re.findall(r'^\.SS "takeset ([a-z-]+)"$', (ROOT / "docs/takeset.1").read_text(), re.M)
    assert sorted(sum(groups.values(), [])) == sorted(documented)
