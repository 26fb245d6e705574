"""Workers that are killed, late, doubled or lied to; and every exit code that a scheduler sees."""

import contextlib
import json
import os
import shutil
import signal
import subprocess

import h5py
import pytest
from clusters import attempts, convert_all, plan, status, tasks, tiny_takes, with_other_record, worker
from command import BINARY, measured
from preloads import compiled
from run_outputs import outputs
from strange_takes import halted, is_running, preloaded, session, waiting
from system import begun, calls, spread, stopped, stopping, until


@pytest.fixture(scope="module")
def few(takeset, tmp_path_factory):
    return tiny_takes(takeset, tmp_path_factory.mktemp("few") / "takes", 3)


@pytest.fixture(scope="module")
def whole(takeset, few, tmp_path_factory):
    output = tmp_path_factory.mktemp("whole") / "out"
    takeset.convert(few, output=output)
    return outputs(output)


@pytest.fixture
def planned(takeset, few, tmp_path):
    plan(takeset, few, output=tmp_path / "out")
    return tmp_path / "out"


def published(takeset, output):
    takeset("publish", output, check=0)
    takeset("verify", output, check=0)
    assert attempts(output) == []
    return outputs(output)


@pytest.mark.parametrize("isolate", ["never", "always"])
def test_eight_workers_on_the_same_task(takeset, few, whole, planned, isolate):
    several = [worker(planned, 0, "--count", 3, "--isolate", isolate) for _ in range(8)]
    for process in several:
        words, errors = process.communicate(timeout=300)
        assert (process.returncode, errors) == (0, "") and words.count("take0") == 3
    assert published(takeset, planned) == whole
    assert "nothing to do" in takeset.convert(few, output=planned).stdout
    assert outputs(planned) == whole


def test_an_episode_from_before_a_change_is_no_result(takeset, failing_look, few, tmp_path):
    """A run wrote the dataset, a take has changed since, and its worker is killed before each name."""
    takes, output = shutil.copytree(few, tmp_path / "takes"), tmp_path / "out"
    takeset.convert(takes, output=output)
    one, other, *_ = sorted((takes / "take00/rgb").iterdir())
    shutil.copy(other, one)
    plan(takeset, takes, output=output)
    for number in range(1, 20):
        process = stopped([BINARY, "convert", output, "--task", "0"], failing_look, "rename", output, number)
        if process.returncode is not None:
            break
        process.kill()
        process.wait()
        assert 0 in status(takeset, output)["missing"]
    assert process.returncode == 0 and number > 2
    takeset("convert", output, "--task", 1, "--count", 2, check=0)
    published(takeset, output)
    assert "nothing to do" in takeset.convert(takes, output=output).stdout


@pytest.mark.slow
def test_workers_killed_at_any_change(takeset, failing_look, whole, planned):
    """At twenty places of each; whatever has its final name is complete."""
    copy = shutil.copytree(planned, planned.parent / "copy")
    count = calls(takeset, failing_look, "change", copy, "convert", copy, "--task", 0, "--isolate", "never")
    kills = 0
    for number in range(3):
        # The parent of a child that writes makes few changes itself.
        for policy, at in [*(("never", at) for at in spread(14, count)), *(("always", at) for at in spread(6, count // 4))]:
            (planned / "results").joinpath(f"take{number:02}.json").unlink(missing_ok=True)
            process = stopped([BINARY, "convert", planned, "--task", number, "--isolate", policy], failing_look, "change", planned, at)
            kills += process.returncode is None
            process.kill()
            process.wait()
            for path in (planned / "episodes").glob("*.h5"):
                assert path.read_bytes() == whole[path.name]
    assert kills > 30
    assert convert_all(takeset, planned).returncode == 0
    assert published(takeset, planned) == whole


@pytest.mark.parametrize("isolate", ["never", "always"])
def test_killed_before_each_name(takeset, failing_look, whole, planned, isolate):
    """At every rename of one task, and then again."""
    number = 0
    while True:
        number += 1
        process = stopped([BINARY, "convert", planned, "--task", "0", "--isolate", isolate], failing_look, "rename", planned, number)
        if process.returncode is not None:
            assert process.returncode == 0
            break
        assert status(takeset, planned)["missing"] == [0, 1, 2]
        process.kill()
        process.wait()
        for path in (planned / "episodes").glob("*.h5"):
            assert path.read_bytes() == whole[path.name]
    assert number > 2
    assert convert_all(takeset, planned).returncode == 0
    assert published(takeset, planned) == whole


@pytest.mark.slow
def test_a_killed_worker_leaves_no_process(takeset, tmp_path_factory, tmp_path):
    session(tmp_path / "takes/t", marked=3)
    plan(takeset, tmp_path / "takes", output=tmp_path / "out")
    library = compiled(tmp_path_factory, "strange_decoder")
    process = worker(tmp_path / "out", 0, "--isolate", "always", "--jobs", 1, env=preloaded(library, "wait"))
    (child,) = waiting(process)
    process.kill()
    process.communicate()
    until(lambda: not is_running(child), "the child ends")
    assert takeset("publish", tmp_path / "out").returncode == 75


@pytest.mark.parametrize("where", ["before its shard", "before its result"])
def test_a_zombie_that_publishes_late(takeset, failing_look, few, whole, planned, where):
    """It stops before a name, another worker does the task, everything is published, and the zombie goes on."""
    zombie = stopped([BINARY, "convert", planned, "--task", "1"], failing_look, "rename", planned / ("episodes" if "shard" in where else "results"), 1)
    assert zombie.returncode is None
    assert convert_all(takeset, planned).returncode == 0
    assert published(takeset, planned) == whole
    zombie.send_signal(signal.SIGCONT)
    # Its own shard is gone with its attempt, or it repeats what is there.
    assert zombie.wait(300) in (0, 75)
    assert outputs(planned) == whole
    takeset("verify", planned, check=0)
    assert "nothing to do" in takeset("publish", planned, check=0).stdout
    assert "nothing to do" in takeset.convert(few, output=planned).stdout


def test_publishing_too_early_does_not_disturb_a_worker(takeset, failing_look, whole, planned):
    busy = stopped([BINARY, "convert", planned, "--task", "1"], failing_look, "rename", planned, 1)
    assert len(attempts(planned)) == 1
    takeset("publish", planned, check=75)
    plan(takeset, *{os.path.dirname(task["location"]["path"]) for task in tasks(planned)}, output=planned)
    assert len(attempts(planned)) == 1
    busy.send_signal(signal.SIGCONT)
    assert busy.wait(300) == 0 and status(takeset, planned)["missing"] == [0, 2]
    convert_all(takeset, planned)
    assert published(takeset, planned) == whole


def cut(path): path.write_bytes(path.read_bytes()[:-20])


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGE = {"shard removed": ("episodes/{}.h5", os.unlink), "shard cut": ("episodes/{}.h5", cut), "shard emptied": ("episodes/{}.h5", lambda p: p.write_bytes(b"")),
          "result removed": ("results/{}.json", os.unlink), "result cut": ("results/{}.json", cut), "result flipped": ("results/{}.json", flip),
          "result emptied": ("results/{}.json", lambda p: p.write_bytes(b""))}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("was_published", [False, True])
def test_damage_is_named_and_mended(takeset, whole, planned, damage, was_published):
    convert_all(takeset, planned)
    if was_published:
        takeset("publish", planned, check=0)
    name, act = DAMAGE[damage]
    for take in "take00", "take02":
        act(planned / name.format(take))
    done = takeset("publish", planned, check=75)
    assert "2 of 3 tasks" in done.stderr and ": 0,2;" in done.stderr
    assert was_published or not (planned / "manifest.json").exists()
    assert status(takeset, planned)["missing"] == [0, 2]
    # The journal of a published dataset says what the results said.
    known = 3 if was_published and damage.startswith("result") else 1
    assert convert_all(takeset, planned).stdout.count("done before") == known
    assert published(takeset, planned) == whole


def test_a_shard_changed_in_place_is_noticed(takeset, whole, planned):
    convert_all(takeset, planned)
    shard = planned / "episodes/take01.h5"
    data = shard.read_bytes()
    with h5py.File(shard, "r+") as file:
        pose = file["data/demo_0/obs/pose"]
        row = pose[0]
        row[4] += 1
        pose[0] = row
    assert shard.read_bytes() != data and shard.stat().st_size == len(data)
    takeset("publish", planned, check=75)
    assert convert_all(takeset, planned).stdout.count("written") == 1
    assert published(takeset, planned) == whole


def test_a_copied_directory_counts_as_done(takeset, whole, planned, tmp_path):
    """Other times and inodes, the same bytes."""
    convert_all(takeset, planned)
    shutil.copytree(planned, tmp_path / "copy", copy_function=shutil.copyfile)
    assert status(takeset, tmp_path / "copy")["missing"] == []
    assert published(takeset, tmp_path / "copy") == whole


# Exit codes; 0 and 65 also above.


def test_65_a_bad_take_is_not_tried_again(takeset, tmp_path, few):
    shutil.copytree(few, tmp_path / "takes")
    (tmp_path / "takes/take01/poses.json").write_text("{")
    plan(takeset, tmp_path / "takes", output=tmp_path / "out")
    assert "failed: " in takeset("convert", tmp_path / "out", "--task", 1, check=65).stdout
    before = (tmp_path / "out/results/take01.json").stat().st_mtime_ns
    takeset("convert", tmp_path / "out", "--task", 0, "--count", 3, check=65)
    assert (tmp_path / "out/results/take01.json").stat().st_mtime_ns == before
    takeset("publish", tmp_path / "out", check=3)
    takeset.convert(tmp_path / "takes", output=tmp_path / "run", check=3)
    assert outputs(tmp_path / "out") == outputs(tmp_path / "run")
    # Files that are mended are another matter.
    shutil.copy(few / "take01/poses.json", tmp_path / "takes/take01/poses.json")
    takeset("convert", tmp_path / "out", "--task", 1, check=0)
    takeset("publish", tmp_path / "out", check=0)


def test_66_inputs_that_are_gone(takeset, tmp_path, few):
    shutil.copytree(few, tmp_path / "takes")
    output = tmp_path / "out"
    plan(takeset, tmp_path / "takes", output=output)
    takeset("convert", output, "--task", 0, check=0)
    shutil.rmtree(tmp_path / "takes")
    takeset("convert", output, "--task", 0, check=0)  # it is done
    assert "is gone" in takeset("convert", output, "--task", 1, check=66).stdout
    takeset("convert", output, "--count", 3, "--task", 0, check=66)
    assert status(takeset, output)["missing"] == [1, 2]
    takeset("convert", tmp_path / "nowhere", "--task", 0, check=66)
    takeset("convert", tmp_path, "--task", 0, check=66)


def test_64_and_78_stop_the_job(takeset, planned):
    for arguments in ["--task", 3], ["--task", -1], ["--task", "x"], ["--count", 0, "--task", 0], ["--jobs", 0, "--task", 0], ["--tusk", 0]:
        takeset("convert", planned, *arguments, check=64)
    path = planned / "tasks.json"
    whole = path.read_text()
    version = json.loads(whole)["toolVersion"]
    for old, new in [(f'"{version}"', '"9.9.9"'), ('"formatVersion":1', '"formatVersion":2')]:
        assert whole.count(old) == 1
        path.write_text(whole.replace(old, new))
        for command in ["convert", planned, "--task", 0], ["status", planned], ["publish", planned]:
            assert "one version" in takeset(*command, check=78).stderr
    for damaged in whole[:-5], "", "{}", whole.replace("\n", " "), whole.replace('"pipelineDigest":"', '"pipelineDigest":"0'), "[" * 1000:
        path.write_text(damaged)
        takeset("convert", planned, "--task", 0, check=64)
    assert list((planned / "results").iterdir()) == []


def test_70_two_conversions_that_differ(takeset, failing_look, planned):
    """A worker stops before it has a shard; another one does the task, and its result is changed to say something else."""
    first = stopped([BINARY, "convert", planned, "--task", "0"], failing_look, "rename", planned, 1, stderr=subprocess.PIPE, text=True)
    takeset("convert", planned, "--task", 0, check=0)
    result = planned / "results/take00.json"
    with_other_record(result, b'"outcome":"written"', b'"outcome":"written","reason":"another"')
    changed = result.read_bytes()
    assert status(takeset, planned)["missing"] == [1, 2]  # it is a result like any other
    first.send_signal(signal.SIGCONT)
    _, errors = first.communicate(timeout=300)
    assert first.returncode == 70 and "something else" in errors
    assert result.read_bytes() == changed and attempts(planned) == []


def test_a_file_that_can_be_read_at_the_second_attempt(takeset, failing_look, few, whole, planned):
    """One error of the disk: the worker tries again itself."""
    fault = {"LD_PRELOAD": str(failing_look), "FAIL_KIND": "open", "FAIL_BELOW": str(few / "take00/poses.json"), "FAIL_AT": "1", "FAIL_ERRNO": "5"}
    counted = planned.parent / "calls"
    done = takeset("convert", planned, "--task", 0, check=0, env=os.environ | fault | {"FAIL_COUNT": str(counted)})
    assert "written" in done.stdout and int(counted.read_text()) > 1  # it did fail, and was opened again
    convert_all(takeset, planned)
    assert published(takeset, planned) == whole


def test_73_no_place_for_the_output(takeset, planned):
    (planned / "results").rmdir()
    (planned / "results").write_text("")
    assert "cannot write" in takeset("convert", planned, "--task", 0, check=73).stderr


@pytest.mark.parametrize("error, code", [(5, 74), (30, 73), (28, 75), (122, 75), (116, 75)])
def test_74_and_75_a_disk_that_fails(takeset, failing_look, whole, planned, error, code):
    """An error at the name of a shard, then of a result: EIO, EROFS, ENOSPC, EDQUOT, ESTALE."""
    for below in "episodes", "results":
        fault = {"LD_PRELOAD": str(failing_look), "FAIL_KIND": "rename", "FAIL_BELOW": str(planned / below), "FAIL_AT": "1", "FAIL_ERRNO": str(error)}
        done = takeset("convert", planned, "--task", 0, check=code, env=os.environ | fault)
        assert "cannot write" in done.stderr and attempts(planned) == []
        assert status(takeset, planned)["missing"] == [0, 1, 2]
    convert_all(takeset, planned)
    assert published(takeset, planned) == whole


def test_75_a_full_disk(takeset, failing_write, whole, planned):
    fault = {"LD_PRELOAD": str(failing_write), "FAIL_AT": "1"}
    takeset("convert", planned, "--task", 0, check=75, env=os.environ | fault)
    assert attempts(planned) == [] and status(takeset, planned)["missing"] == [0, 1, 2]
    convert_all(takeset, planned)
    assert published(takeset, planned) == whole


@pytest.mark.slow
@pytest.mark.parametrize("isolate", ["never", "always"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_75_soon_after_a_signal(takeset, failing_look, tmp_path, isolate, number):
    takeset.simulate(tmp_path / "takes/t", "--seconds", 6, "--size", "640x480")
    takeset.simulate(tmp_path / "takes/u", "--seconds", 0.1, "--size", "48x32", "--variant", "v2")
    output = tmp_path / "out"
    plan(takeset, tmp_path / "takes", output=output)
    other = shutil.copytree(output, tmp_path / "other")
    _, _, whole_take = measured(BINARY, "convert", other, "--task", 0, "--count", 2, "--isolate", isolate, "--jobs", 1)
    environment = stopping(failing_look, "write", output, 1, {"never": "parent", "always": "child"}[isolate])
    process = begun(worker(output, 0, "--count", 2, "--isolate", isolate, "--jobs", 1, env=environment))
    writing = halted(process)
    assert list(output.glob(".attempt*/episodes/.*")), "no shard is begun"
    process.send_signal(number)
    for one in writing:
        with contextlib.suppress(ProcessLookupError):  # a child that it has killed
            os.kill(one, signal.SIGCONT)
    errors = process.stderr.read()
    _, status_of_end, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status_of_end)
    assert process.returncode == 75 and "interrupted" in errors
    # Much less than the whole take costs, its child included.
    assert used.ru_utime + used.ru_stime < whole_take / 2
    assert attempts(output) == [] and status(takeset, output)["missing"] == [0, 1]
