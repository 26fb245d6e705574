"""The command: help, usage errors, mistakes in options and pipeline files, and progress."""

import json
import os
import re
import shutil
import subprocess

import pytest
from command import BINARY, ROOT
from session_faults import V1, tree
from system import shown_on_terminal


def test_help_teaches(takeset):
    assert "takeset run sessions/ --output dataset/" in takeset("--help", check=0).stdout
    for command in "run", "inspect", "plan", "verify", "steps", "simulate", "pack":
        text = takeset(command, "--help", check=0).stdout
        assert "USAGE" in text and f"takeset {command}" in text
    assert takeset("--version", check=0).stdout.startswith("takeset ")
    assert "tolerance: 0.05" in takeset("steps", "align", check=0).stdout
    assert takeset("steps", "blur").returncode == 64


@pytest.mark.parametrize("arguments, named", [
    (["run"], "<input>"), (["run", "x"], "--output"), (["fly"], "fly"), (["run", "x", "--output", "y", "--jobs", "0"], "--jobs"),
    (["run", "x", "--output", "y", "--rush"], "--rush"),
])
def test_usage_errors_exit_with_64(takeset, tmp_path, arguments, named):
    done = takeset(*arguments, check=64, cwd=tmp_path)
    assert named in done.stderr.splitlines()[0] and done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_mistakes_in_the_pipeline_file_are_named(takeset, sessions, tmp_path):
    pipeline = tmp_path / "p.yaml"
    for text, words in [
        ("version: 1\ntransforms:\n- align: {}\n- decimate: {rte: 30}", 'transforms[1].decimate.rte: unknown option; decimate has "every", "rate"'),
        ("version: 1\ntransforms:\n- blur: {}", 'transforms[0].blur: unknown step "blur"'),
        ("version: 1\nwriter: {hdf5: {compression: lots}}", "writer.hdf5.compression: expected 0 to 9, or fast"),
        ("version: [", "not YAML"),
    ]:
        pipeline.write_text(text)
        for command in ["run", sessions, "--output", tmp_path / "out", "--pipeline", pipeline], ["plan", sessions, "--pipeline", pipeline]:
            done = takeset(*command)
            assert done.returncode == 64 and words in done.stderr, done.stderr
    assert takeset("run", sessions, "--output", tmp_path / "out", "--pipeline", tmp_path / "none.yaml").returncode == 64
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("step", ["split: {seed: -9223372036854775808}", "decimate: {rate: .inf}", "align: {tolerance: .nan}"])
def test_numbers_that_no_option_takes(takeset, sessions, tmp_path, step):
    (tmp_path / "p.yaml").write_text("version: 1\ntransforms: [align, " + step + "]\n")
    name, option = re.match(r"([a-z]+): {([a-z]+)", step).groups()
    assert f"transforms[1].{name}.{option}: expected" in takeset("plan", sessions, "--pipeline", tmp_path / "p.yaml", check=64).stderr


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


# Progress


def test_progress_in_json_reports_every_take(takes, takeset, tmp_path):
    done = takeset("run", takes, "--output", tmp_path / "out", "--progress", "json", check=0)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    events = [line for line in lines if line["event"] != "progress"]  # every other second, on a slow machine
    assert [e["event"] for e in events] == ["take"] * 4 and {e["outcome"] for e in events} == {"written"}
    assert takeset("run", takes, "--output", tmp_path / "quiet", "--progress", "none", check=0).stderr == ""


def test_a_bar_is_drawn_on_a_terminal(takes, tmp_path):
    code, shown = shown_on_terminal([BINARY, "run", takes, "--output", tmp_path / "out"])
    assert code == 0 and "4/4 takes" in shown and "frames/s" in shown and "MB/s" in shown and "ETA" in shown


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


def as_nobody():
    os.setgid(65534)
    os.setuid(65534)


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
