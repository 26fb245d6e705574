"""Runs over takes that are split into several episodes: repeated, changed, interrupted, pruned, and with names alike."""

import shutil
import signal

import numpy as np
import pytest
from command import BINARY
from outputs import demos, manifest, take as entry_of
from resample_oracle import LINEAR, even, split, steps, take, uneven
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


def test_a_changed_input_rebuilds_every_part_of_its_take_alone(takeset, source, tmp_path):
    output = tmp_path / "out"
    split(takeset, source, output, "gaps", "split")
    before = shards(output)
    shutil.copy(source / "t1/rgb/000031.jpg", source / "t1/rgb/000030.jpg")
    done = split(takeset, source, output, "gaps", "split")
    assert "inputs have changed" in done.stderr
    assert changed(before, shards(output)) == {"t1.0", "t1.1"}
    split(takeset, source, tmp_path / "fresh", "gaps", "split")
    assert outputs(output) == outputs(tmp_path / "fresh")
    assert "nothing to do" in split(takeset, source, output, "gaps", "split").stdout


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


def test_a_moved_take_keeps_its_parts(takeset, source, tmp_path):
    output = tmp_path / "out"
    split(takeset, source, output, "gaps", "split")
    expected = outputs(output)
    source.rename(tmp_path / "moved")
    assert "nothing to do" in split(takeset, tmp_path / "moved", output, "gaps", "split").stdout
    assert outputs(output) == expected


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


def test_a_take_with_the_name_of_a_part_is_another(takeset, tmp_path):
    """`a` has the parts a.0 and a.1, and another take is called a.0."""
    uneven(40, seed=1).write(tmp_path / "in/a")
    other = take(even(40), poses=uneven(42, lost=(0, 1)).poses[::-1])
    other.write(tmp_path / "in/a.0")
    for name in "a", "a.0":
        takeset.convert(tmp_path / "in" / name, output=tmp_path / f"whole-{name}", arguments=steps(tmp_path, LINEAR))
    split(takeset, tmp_path / "in", tmp_path / "out", 0.4, "split")
    entries = manifest(tmp_path / "out")["record"]["takes"]
    assert len({entry["id"] for entry in entries}) == len(entries) == 4 and {entry["outcome"] for entry in entries} == {"written"}
    found = demos(tmp_path / "out")
    assert {entry["id"] for entry in entries if entry["take"] == "a"} == {"a.0", "a.1"}
    for name in "a", "a.0":
        parts = [entry for entry in entries if (entry["take"] == "a") == (name == "a")]
        assert len({entry["take"] for entry in parts}) == 1 and parts[0]["take"].startswith(name)
        assert [entry["part"] for entry in parts] == [0, 1]
        joined = np.concatenate([found[entry["id"]][0]["obs/pose"][:, :3] for entry in parts])
        assert (joined == pose_of(tmp_path / f"whole-{name}", name)[:, :3]).all()
    assert "nothing to do" in split(takeset, tmp_path / "in", tmp_path / "out", 0.4, "split").stdout


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


def test_a_take_that_becomes_unreadable_hides_no_part_of_another(takeset, tmp_path):
    """Known as a.0 before there was an `a` with such a part."""
    uneven(40, seed=1).write(tmp_path / "a/a")
    uneven(40, seed=2).write(tmp_path / "b/a.0")
    output = tmp_path / "out"
    pipeline = steps(tmp_path, LINEAR, {"split-episodes": {"at": "gaps"}})
    for inputs in ["b"], ["a", "b"]:
        takeset.convert(*(tmp_path / one for one in inputs), output=output, arguments=pipeline)
    before = {entry["id"]: pose_of(output, entry["id"]).tobytes() for entry in manifest(output)["record"]["takes"] if entry["take"] != "a.0"}
    assert len(before) == 2 and len(demos(output)) == 4
    (tmp_path / "b/a.0/poses.json").write_text("{")
    for _ in range(2):
        takeset.convert(tmp_path / "a", tmp_path / "b", output=output, arguments=pipeline, check=3)
        entries = manifest(output)["record"]["takes"]
        assert sorted(entry["outcome"] for entry in entries) == ["failed", "written", "written"]
        assert {name: pose_of(output, name).tobytes() for name in demos(output)} == before
        takeset("verify", output, check=0)


def test_takes_of_one_name_have_parts_of_their_own(takeset, tmp_path):
    uneven(40, seed=1).write(tmp_path / "x/a")
    uneven(40, seed=2, lost=(20, 21, 30, 31)).write(tmp_path / "y/a")
    takeset.convert(tmp_path / "x", tmp_path / "y", output=tmp_path / "out", arguments=steps(tmp_path, LINEAR, {"split-episodes": {"at": "gaps"}}))
    entries = manifest(tmp_path / "out")["record"]["takes"]
    assert {(e["id"], e["take"], e["part"]) for e in entries} == {
        ("a.0", "a", 0), ("a.1", "a", 1), ("a-2.0", "a-2", 0), ("a-2.1", "a-2", 1), ("a-2.2", "a-2", 2)}
    assert sorted(demos(tmp_path / "out")) == ["a-2.0", "a-2.1", "a-2.2", "a.0", "a.1"]


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
