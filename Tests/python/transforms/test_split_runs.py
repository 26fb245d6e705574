"""Runs over takes that are split into several episodes: repeated, changed, interrupted, pruned, and with names alike."""

import shutil
import signal

import pytest
from command import BINARY
from outputs import demos, manifest, take as entry_of
from resample_oracle import LINEAR, split, steps, uneven
from run_outputs import outputs
from stack_sessions import UNEVEN
from system import calls, stopped
from videos import video_file


@pytest.fixture
def source(tmp_path):
    """Three takes of two parts each, and a video."""
    for k in range(3):
        uneven(40, seed=k).write(tmp_path / f"in/t{k}")
    (tmp_path / "in/pour.mov").write_bytes(video_file(ticks=UNEVEN))
    return tmp_path / "in"


EPISODES = ["pour.0", "pour.1", "t0.0", "t0.1", "t1.0", "t1.1", "t2.0", "t2.1"]


def shards(output):
    """What changes when a shard is written again: even an inode's number can be that of a removed file."""
    return {path.stem: (path.stat().st_ino, path.stat().st_mtime_ns) for path in (output / "episodes").iterdir()}


def changed(before, after):
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def test_a_lost_or_damaged_part_is_rebuilt(takeset, source, tmp_path):
    output = tmp_path / "out"
    split(takeset, source, output, "gaps", "split")
    expected, before = outputs(output), shards(output)
    (output / "episodes/t0.1.h5").unlink()
    data = bytearray((output / "episodes/t2.0.h5").read_bytes())
    data[len(data) // 2] ^= 1
    (output / "episodes/t2.0.h5").write_bytes(data)
    (output / "episodes/pour.0.h5").unlink()
    done = split(takeset, source, output, "gaps", "split")
    assert "nothing to do" not in done.stdout and outputs(output) == expected
    assert {"t0.1", "pour.0"} <= changed(before, shards(output)) <= {name for name in EPISODES if not name.startswith("t1")}
    takeset("verify", output, check=0)


def test_a_take_that_becomes_unreadable_leaves_no_parts(takeset, source, tmp_path):
    output = tmp_path / "out"
    split(takeset, source, output, "gaps", "split")
    (source / "t1/poses.json").write_text("{")
    for _ in range(2):  # the run after that finds the same
        split(takeset, source, output, "gaps", "split", check=3)
        assert [(e["id"], e["outcome"]) for e in manifest(output)["record"]["takes"] if e["id"].startswith("t1")] == [("t1", "failed")]
    split(takeset, source, tmp_path / "fresh", "gaps", "split", check=3)
    assert outputs(output) == outputs(tmp_path / "fresh")
    shutil.rmtree(source / "t1")
    uneven(40, seed=1).write(source / "t1")
    split(takeset, source, output, "gaps", "split")
    assert sorted(demos(output)) == EPISODES == [entry["id"] for entry in manifest(output)["record"]["takes"]]


@pytest.mark.slow
def test_a_damaged_line_of_the_journal_costs_its_take_alone(takeset, source, tmp_path):
    output = tmp_path / "out"
    split(takeset, source, output, "gaps", {"min-frames": {"count": 19}}, "split")
    expected = outputs(output)
    lines = (output / "journal.jsonl").read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines):
        for damaged in line[:-40] + b"\n", b"":
            (output / "journal.jsonl").write_bytes(b"".join([*lines[:number], damaged, *lines[number + 1 :]]))
            done = takeset.convert(source, output=output, arguments=["--pipeline", tmp_path / "out.yaml"])
            assert "nothing to do" not in done.stdout and outputs(output) == expected, (number, damaged)
            takeset("verify", output, check=0)
            again = takeset.convert(source, output=output, arguments=["--pipeline", tmp_path / "out.yaml"])
            assert "nothing to do" in again.stdout, (number, again.stdout)


def test_parts_of_a_vanished_take_stay_until_pruned(takeset, source, tmp_path):
    output = tmp_path / "out"
    split(takeset, source, output, "gaps", "split")
    shutil.rmtree(source / "t1")
    split(takeset, source, output, "gaps", "split")
    assert sorted(demos(output)) == EPISODES
    assert all([f["code"] for f in entry_of(output, name)["findings"]].count("input-vanished") == 1 for name in ("t1.0", "t1.1"))
    split(takeset, source, output, "gaps", "split", arguments=["--prune"])
    left = [name for name in EPISODES if not name.startswith("t1")]
    assert sorted(demos(output)) == left == sorted(shards(output))
    assert [entry["id"] for entry in manifest(output)["record"]["takes"]] == left
    split(takeset, source, tmp_path / "fresh", "gaps", "split")
    assert outputs(output) == outputs(tmp_path / "fresh")
    takeset("verify", output, check=0)


# Names


def pose_of(output, name):
    return demos(output)[name][0]["obs/pose"][:]


def test_a_failed_take_with_the_name_of_a_part_hides_no_part(takeset, tmp_path):
    """Whichever of the two is known first."""
    uneven(40, seed=1).write(tmp_path / "a/a")
    uneven(40, seed=2).write(tmp_path / "b/a.0")
    (tmp_path / "b/a.0/poses.json").write_text("{")
    expected = None
    for name, runs in ("both", [["a", "b"]]), ("a-first", [["a"], ["a", "b"]]), ("b-first", [["b"], ["a", "b"]]):
        output = tmp_path / name
        for inputs in runs:
            pipeline = steps(tmp_path, LINEAR, {"split-episodes": {"at": "gaps"}})
            takeset("run", *(tmp_path / one for one in inputs), "--output", output, *pipeline)
        entries = manifest(output)["record"]["takes"]
        assert len({entry["id"] for entry in entries}) == len(entries) == 3, name
        written = [entry for entry in entries if entry["outcome"] == "written"]
        # A take keeps the id it has, so the later one gets another where an episode would have the name of a take.
        own = "a-2" if name == "b-first" else "a"
        assert [(entry["take"], entry["part"]) for entry in written] == [(own, 0), (own, 1)], name
        poses = [pose_of(output, entry["id"]) for entry in written]
        assert [len(part) for part in poses] == [20, 18] and len(demos(output)) == 2, name
        expected = expected or [part.tobytes() for part in poses]
        assert [part.tobytes() for part in poses] == expected, name
        takeset("verify", output, check=0)


# Interruptions


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["open", "rename"])
def test_a_killed_run_resumes_to_the_same_bytes(takeset, failing_look, tmp_path, kind):
    """Killed before some of the files that it opens, and before each that gets its name, also between two parts of one take."""
    for k in range(2):
        uneven(seed=k).write(tmp_path / f"in/t{k}")
    split(takeset, tmp_path / "in", tmp_path / "whole", "gaps", "split")
    expected = outputs(tmp_path / "whole")
    arguments = ["--pipeline", tmp_path / "whole.yaml", "--jobs", "1"]
    count = calls(takeset, failing_look, kind, tmp_path / "counted/out", "run", tmp_path / "in", "--output", tmp_path / "counted/out", *arguments)
    tried = range(1, count + 1) if kind == "rename" else sorted({1 + (count - 1) * k // 7 for k in range(8)})
    assert len(tried) > 6
    for number in tried:
        output = tmp_path / f"killed{number}"
        process = stopped([BINARY, "run", tmp_path / "in", "--output", output, *arguments], failing_look, kind, output, number)
        process.kill()
        assert process.wait() == -signal.SIGKILL
        for path in (output / "episodes").glob("[!.]*.h5"):
            assert path.read_bytes() == expected[path.name]
        takeset.convert(tmp_path / "in", output=output, arguments=arguments)
        assert outputs(output) == expected, number
        assert [p.name for p in output.rglob(".*")] == []


@pytest.mark.slow
def test_an_interrupted_run_leaves_complete_parts(takeset, failing_look, tmp_path):
    """The signal arrives as the second part gets its name."""
    for k in range(4):
        uneven(seed=k).write(tmp_path / f"in/t{k}")
    split(takeset, tmp_path / "in", tmp_path / "whole", "gaps", "split")
    output = tmp_path / "out"
    command = [BINARY, "run", tmp_path / "in", "--output", output, "--pipeline", tmp_path / "whole.yaml", "--jobs", "1"]
    process = stopped(command, failing_look, "rename", output / "episodes", 2)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGCONT)
    assert process.wait(timeout=300) == 143
    left = list((output / "episodes").iterdir())
    assert 1 <= len(left) < 12 and not any(path.name.startswith(".") for path in left)
    for path in left:
        takeset("verify", path, check=0)
    split(takeset, tmp_path / "in", output, "gaps", "split")
    assert outputs(output) == outputs(tmp_path / "whole")
