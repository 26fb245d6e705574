"""Workers of one task that come to different results, lists that are replaced under a worker, and logs that nobody reads."""

import json
import os
import re
import shutil
import signal
import subprocess

import pytest
from clusters import attempts, convert_all, plan, status, tiny_takes, worker
from command import BINARY
from preloads import compiled
from run_outputs import outputs
from strange_takes import preloaded, session, waiting
from system import stopped


@pytest.fixture(scope="module")
def strange(tmp_path_factory):
    """A library, and a take at which it waits or crashes."""
    root = tmp_path_factory.mktemp("verdicts")
    session(root / "takes/strange", marked=3)
    return compiled(tmp_path_factory, "strange_decoder"), root / "takes"


@pytest.fixture
def planned(takeset, strange, tmp_path):
    plan(takeset, strange[1], output=tmp_path / "out")
    return tmp_path / "out"


def published(takeset, output, takes, root):
    takeset("publish", output, check=0)
    takeset("verify", output, check=0)
    assert attempts(output) == []
    takeset.convert(takes, output=root / "run")
    assert outputs(output) == outputs(root / "run")


ISOLATED = ["--isolate", "always", "--jobs", 1]
FAILURES = {"wait": "longer than 2 s", "crash": "crashed twice", "memory": "limit of 256 MiB"}
LIMITS = {"wait": ["--take-time", 2], "crash": [], "memory": ["--take-memory", "256M"]}


def given_up(takeset, planned, library, what):
    """A worker on a machine that is too slow, too small or broken."""
    done = takeset("convert", planned, "--task", 0, *ISOLATED, *LIMITS[what], check=65, env=preloaded(library, what))
    assert FAILURES[what] in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("what", FAILURES)
def test_a_failure_of_the_machine_is_not_final(takeset, strange, planned, tmp_path, what):
    """What its sentence advises, to raise the limit, must be possible."""
    given_up(takeset, planned, strange[0], what)
    assert status(takeset, planned)["missing"] == [] and FAILURES[what] in status(takeset, planned)["failed"][0]["reason"]
    takeset("publish", planned, check=3)
    assert "written" in takeset("convert", planned, "--task", 0, *ISOLATED, check=0).stdout
    published(takeset, planned, strange[1], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("what", FAILURES)
def test_a_worker_that_fails_by_its_machine_gives_way_to_one_that_does_not(takeset, strange, failing_look, planned, tmp_path, what):
    """The good one is about to finish its shard when the other one gives up."""
    good = stopped([BINARY, "convert", planned, "--task", "0"], failing_look, "rename", planned, 1, stderr=subprocess.PIPE, text=True)
    given_up(takeset, planned, strange[0], what)
    good.send_signal(signal.SIGCONT)
    _, errors = good.communicate(timeout=300)
    assert (good.returncode, errors) == (0, "")
    published(takeset, planned, strange[1], tmp_path)


@pytest.mark.slow
def test_a_worker_that_fails_late_changes_nothing(takeset, strange, planned, tmp_path):
    """It waits in its decoder while another one does the task."""
    late = worker(planned, 0, *ISOLATED, "--take-time", 5, env=preloaded(strange[0], "wait"))
    waiting(late)
    late.send_signal(signal.SIGSTOP)
    takeset("convert", planned, "--task", 0, check=0)
    late.send_signal(signal.SIGCONT)
    words, errors = late.communicate(timeout=300)
    assert (late.returncode, errors) == (0, ""), words
    published(takeset, planned, strange[1], tmp_path)


@pytest.mark.slow
def test_another_plan_while_a_worker_is_at_its_tasks(takeset, failing_look, tmp_path):
    """The worker goes on with the list that it began with; what the new one has besides is missing."""
    takes, output = tiny_takes(takeset, tmp_path / "takes", 4), tmp_path / "out"
    plan(takeset, takes, output=output)
    busy = stopped([BINARY, "convert", output, "--task", "0", "--count", "4"], failing_look, "rename", output, 1)
    shutil.copytree(takes / "take00", tmp_path / "more/a-take-that-comes-first-and-moves-all-lines")
    listed, _ = plan(takeset, takes, tmp_path / "more", output=output)
    assert len(listed) == 5
    busy.send_signal(signal.SIGCONT)
    assert busy.wait(300) == 0
    assert status(takeset, output)["missing"] == [0]
    convert_all(takeset, output)
    takeset("publish", output, check=0)
    takeset.convert(takes, tmp_path / "more", output=tmp_path / "run")
    assert outputs(output) == outputs(tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("where", ["a pipe that nobody reads", "a full disk"])
def test_a_log_that_cannot_be_written_is_no_reason_to_stop(takeset, tmp_path, where):
    """Exit code 0 means that all tasks are done."""
    output = tmp_path / "out"
    plan(takeset, tiny_takes(takeset, tmp_path / "takes", 3), output=output)
    (tmp_path / "takes/take01/poses.json").write_text("{")

    def run(*arguments):
        if where == "a full disk":
            descriptor = os.open("/dev/full", os.O_WRONLY)
        else:
            reading, descriptor = os.pipe()
            os.close(reading)
        try:
            return subprocess.run([BINARY, *map(str, arguments)], stdout=descriptor, stderr=subprocess.PIPE).returncode
        finally:
            os.close(descriptor)

    assert run("convert", output, "--task", 0, "--count", 3) == 65
    assert status(takeset, output)["missing"] == []
    assert run("publish", output) == 3
    takeset("verify", output, check=0)


def test_66_no_list_of_tasks(takeset, tmp_path):
    (tmp_path / "empty").mkdir()
    for directory in tmp_path / "nowhere", tmp_path / "empty":
        for command in "status", "publish":
            assert "tasks.json" in takeset(command, directory, check=66).stderr
    takeset("plan", tmp_path / "nowhere", "--output", tmp_path / "out", "--tasks", check=66)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty"]


def test_78_whatever_else_another_version_has_in_its_list(takeset, planned):
    path = planned / "tasks.json"
    text = path.read_text()
    version = json.loads(text)["toolVersion"]
    other = re.sub(r'"pipelineDigest":"\w+"', '"digestOfPipeline":"x"', text.replace(f'"{version}"', '"9.9.9"'))
    path.write_text(other)
    for command in ["convert", planned, "--task", 0], ["status", planned], ["publish", planned]:
        done = takeset(*command, check=78)
        assert version in done.stderr and "9.9.9" in done.stderr


def test_status_writes_nothing(takeset, planned, tmp_path):
    """At each stage, and where nothing can be written."""
    def everything():
        return {path: (path.lstat().st_ino, path.lstat().st_mtime_ns, path.lstat().st_ctime_ns) for path in [planned, *planned.rglob("*")]}

    for step in [], ["convert", planned, "--task", 0], ["publish", planned]:
        if step:
            takeset(*step, check=0)
        before = everything()
        for form in "text", "json", "slurm":
            takeset("status", planned, "--format", form, check=0)
        assert everything() == before
