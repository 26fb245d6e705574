"""Never finished when it is not: no command calls a dataset done, or seals it, that is half of one pipeline and half of another."""

import shutil
import signal
import subprocess
import tarfile

import pytest
from clusters import tiny_takes
from command import BINARY
from conversions import pipeline
from outputs import demos, manifest, take
from run_outputs import outputs
from system import calls, failing, stopped

TINY = ["--variant", "v2", "--seconds", 0.1, "--size", "32x24"]


@pytest.fixture(scope="module")
def few(takeset, tmp_path_factory):
    return tiny_takes(takeset, tmp_path_factory.mktemp("few"), 3)


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A pipeline that is not the default."""
    return pipeline(tmp_path_factory.mktemp("pipeline"), decimate={"every": 2})


# A replacing run that ends late


@pytest.mark.slow
@pytest.mark.parametrize("kind, code", [("rename", 0), ("open", 28), ("fsync", 28)])
def test_a_replacing_run_that_stops_is_never_called_finished(takeset, few, other, failing_look, tmp_path, kind, code):
    """Killed, or out of space, at each call on the output: the same command then publishes what it had begun to replace."""
    before, expected = tmp_path / "before", tmp_path / "expected"
    takeset.convert(few, output=before, arguments=other)
    takeset.convert(few, output=expected)
    count = calls(takeset, failing_look, kind, shutil.copytree(before, tmp_path / "counted/out"), "run", few, "--output", tmp_path / "counted/out", "--replace", "--jobs", "1")
    assert count > 4
    # The last calls are those on the index and the manifest.
    for number in sorted({*range(max(1, count - 12), count + 1), *range(1, count, max(1, count // 6))}):
        output = shutil.copytree(before, tmp_path / f"{kind}{number}")
        command = [BINARY, "run", few, "--output", output, "--replace", "--jobs", "1"]
        if code == 0:
            process = stopped(command, failing_look, kind, output, number)
            process.kill()
            process.wait()
        else:
            subprocess.run([*map(str, command)], env=failing(failing_look, "parent", kind, output, number, code), capture_output=True, timeout=300)
        packed = takeset("pack", output, "--output", tmp_path / f"{kind}{number}.h5")
        if packed.returncode == 0:
            takeset("verify", tmp_path / f"{kind}{number}.h5", check=0)
            assert len({demo["obs/pose"].shape for demo, _ in demos(output).values()}) == 1, number
        takeset.convert(few, output=output, arguments=["--replace"])
        assert outputs(output) == outputs(expected), number
        assert manifest(output)["record"] == manifest(expected)["record"], number
        takeset("verify", output, check=0)


@pytest.mark.slow
def test_publishing_again_after_a_full_disk_publishes(takeset, few, other, failing_look, tmp_path):
    """Tasks that replace a dataset; the disk is full between the journal and the index."""
    before, expected = tmp_path / "before", tmp_path / "expected"
    takeset.convert(few, output=before, arguments=other)
    takeset.convert(few, output=expected)
    takeset("plan", few, "--output", before, "--tasks", "--replace", check=0)
    takeset("convert", before, "--task", 0, "--count", 3, check=0)
    count = calls(takeset, failing_look, "open", shutil.copytree(before, tmp_path / "counted/out"), "publish", tmp_path / "counted/out")
    ended = 0
    for number in range(1, count + 1):
        output = shutil.copytree(before, tmp_path / f"out{number}")
        ended += takeset("publish", output, env=failing(failing_look, "parent", "open", output, number, 28)).returncode != 0
        done = takeset("publish", output)
        assert done.returncode == 0, (number, done.stderr)
        assert manifest(output)["record"] == manifest(expected)["record"], number
        takeset("verify", output, check=0)
    assert ended > 3


# Packing


def test_a_dataset_is_not_packed_while_a_run_writes_to_it(takeset, few, failing_look, tmp_path):
    output = tmp_path / "out"
    takeset.convert(few, output=output)
    shutil.copytree(few, tmp_path / "more")
    takeset.simulate(tmp_path / "more/t9", *TINY)
    process = stopped([BINARY, "run", tmp_path / "more", "--output", output], failing_look, "rename", output, 1)
    done = takeset("pack", output, "--output", tmp_path / "packed.h5")
    process.send_signal(signal.SIGCONT)
    assert done.returncode == 1 and "a run is writing into" in done.stderr and not (tmp_path / "packed.h5").exists()
    assert process.wait() == 0
    takeset("pack", output, "--output", tmp_path / "packed.h5", check=0)


# Two runs


def test_a_take_of_the_same_name_in_another_run_replaces_nothing(takeset, failing_look, tmp_path):
    """The second run has looked at the journal before the first has finished."""
    output = tmp_path / "out"
    ours, theirs = (takeset.simulate(tmp_path / side / "session_1", *TINY, "--seed", seed) for seed, side in enumerate(("a", "b")))
    takeset.convert(takeset.simulate(tmp_path / "c/session_0", *TINY, "--seed", 9), output=output)
    # Stopped when it looks at its take, which is after it has read the journal and before it takes the lock.
    slow = stopped([BINARY, "run", theirs, "--output", output], failing_look, "stat", theirs, 1)
    takeset.convert(ours, output=output)
    slow.send_signal(signal.SIGCONT)
    assert slow.wait() == 0
    assert sorted(t["id"] for t in manifest(output)["record"]["takes"]) == ["session_0", "session_1", "session_1-2"]
    takeset("verify", output, check=0)
    assert take(output, "session_1")["input_sha256"] != take(output, "session_1-2")["input_sha256"]


# Faults of the machine


@pytest.mark.slow
@pytest.mark.parametrize("kind, code", [("pread", 5), ("open", 12), ("read", 5), ("fstat", 5)])
@pytest.mark.parametrize("form", ["tar", "zip", "folder"])
def test_a_read_error_removes_no_episode(takeset, failing_look, tmp_path, form, kind, code):
    """Whatever call on the take fails, what an earlier run has sealed stays."""
    folder = takeset.simulate(tmp_path / "made/session_1", *TINY)
    takes = tmp_path / "takes"
    takes.mkdir()
    match form:
        case "folder": shutil.copytree(folder, takes / "session_1")
        case "zip": shutil.make_archive(takes / "session_1", "zip", folder.parent, "session_1")
        case "tar":
            with tarfile.open(takes / "session_1.tar", "w") as archive:
                archive.add(folder, "session_1")
    output = tmp_path / "out"
    takeset.convert(takes, output=output)
    expected, record, shard = outputs(output), take(output, "session_1"), (output / "episodes/session_1.h5").read_bytes()
    arguments = ["run", takes, "--output", output, "--isolate", "never"]
    count = calls(takeset, failing_look, kind, takes, *arguments)
    for number in range(1, min(count, 12) + 1):
        done = takeset(*arguments, env=failing(failing_look, "parent", kind, takes, number, code))
        assert done.returncode in (0, 3), (number, done.stderr)
        # A folder that cannot be searched has a failed entry of its own.
        assert take(output, "session_1") == record and (output / "episodes/session_1.h5").read_bytes() == shard, (number, done.stderr)
        takeset("verify", output, check=0)
    takeset.convert(takes, output=output)
    assert outputs(output) == expected


# Shards without rows


@pytest.mark.parametrize("isolation", ["never", "always"])
def test_streams_without_rows_alone_are_refused(takeset, tmp_path, isolation):
    takeset("simulate", "stray-scanner", "--output", tmp_path / "takes/scan", "--seconds", 0.2, "--size", "64x48", "--depth-size", "16x12", check=0)
    takeset.simulate(tmp_path / "takes/v2", *TINY)
    steps = pipeline(tmp_path, select={"streams": ["imu", "joints"]})
    takeset.convert(tmp_path / "takes", output=tmp_path / "out", check=3, arguments=[*steps, "--isolate", isolation])
    assert take(tmp_path / "out", "scan")["outcome"] == "failed" and "have no values in the rows" in take(tmp_path / "out", "scan")["reason"]
    assert list(demos(tmp_path / "out")) == ["v2"]
    takeset("verify", tmp_path / "out", check=0)
