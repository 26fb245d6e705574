"""What a run promises over time: the same bytes whatever happened on the way, nothing done twice, and every take its own id."""

import errno
import json
import os
import re
import shutil

import pytest
from outputs import demos, manifest, take
from run_outputs import outputs
from session_faults import pipeline
from system import failing


def test_the_number_of_jobs_does_not_show(takes, takeset, tmp_path):
    for jobs in 1, 2, 7:
        takeset.convert(takes, output=tmp_path / f"out{jobs}", arguments=["--jobs", jobs])
    assert outputs(tmp_path / "out1") == outputs(tmp_path / "out2") == outputs(tmp_path / "out7")


@pytest.mark.slow
def test_takes_that_follow_each_other_closely_are_not_mixed_up(takeset, tmp_path):
    """Tiny takes end as fast as they begin, so the next one's state is often where that of the last one was."""
    for index in range(6):
        takeset.simulate(tmp_path / f"one/t{index}", "--variant", "v2", "--seconds", 0.2, "--size", "64x48", "--seed", index)
    for index in range(90):
        shutil.copytree(tmp_path / f"one/t{index % 6}", tmp_path / f"in/t{index:02}")
    for jobs in 1, 2:
        takeset.convert(tmp_path / "in", output=tmp_path / f"out{jobs}", arguments=["--jobs", jobs])
    assert outputs(tmp_path / "out1") == outputs(tmp_path / "out2")


def test_time_zone_locale_umask_and_folder_do_not_show(takes, takeset, other_time, tmp_path):
    takeset.convert(takes, output=tmp_path / "a")
    moved = shutil.copytree(takes, tmp_path / "elsewhere")
    environment = {"TZ": "Asia/Kathmandu", "LC_ALL": "tr_TR.UTF-8", "LANG": "ar_EG", "LD_PRELOAD": str(other_time), "TIME_OFFSET": "100000000"}
    takeset("run", moved, "--output", tmp_path / "b", check=0, env=os.environ | environment, preexec_fn=lambda: os.umask(0o077))
    started = [manifest(tmp_path / name)["run"]["started"][:4] for name in "ab"]
    assert int(started[1]) - int(started[0]) in (3, 4), "the time of day is another"
    assert outputs(tmp_path / "a") == outputs(tmp_path / "b")


def test_the_same_run_again_does_nothing(takes, takeset, tmp_path):
    takeset.convert(takes, output=tmp_path / "out")
    before = {p: (p.stat().st_mtime_ns, p.stat().st_ino) for p in (tmp_path / "out").rglob("*") if p.is_file()}
    again = takeset.convert(takes, output=tmp_path / "out")
    assert "nothing to do (4 unchanged" in again.stdout
    assert {p: (p.stat().st_mtime_ns, p.stat().st_ino) for p in (tmp_path / "out").rglob("*") if p.is_file()} == before
    checked = takeset.convert(takes, output=tmp_path / "out", arguments=["--check", "content"])
    assert "nothing to do" in checked.stdout


def test_a_changed_input_is_rebuilt_and_only_that(takes, takeset, tmp_path):
    copy = shutil.copytree(takes, tmp_path / "takes")
    output = tmp_path / "out"
    takeset.convert(copy, output=output)
    changed = copy / "session_2026-03-01_100000"
    shutil.copy(changed / "rgb/000001.jpg", changed / "rgb/000002.jpg")
    inodes = {p.name: p.stat().st_ino for p in (output / "episodes").iterdir()}
    done = takeset.convert(copy, output=output)
    assert "1 written, 3 unchanged" in done.stdout and "inputs have changed" in done.stderr
    after = {p.name: p.stat().st_ino for p in (output / "episodes").iterdir()}
    assert {n for n in after if after[n] != inodes[n]} == {changed.name + ".h5"}
    demo, _ = demos(output)[changed.name]
    assert (demo["obs/camera_image"][1] == demo["obs/camera_image"][2]).all()
    # Touched but the same: read once, not rebuilt.
    (changed / "poses.json").touch()
    assert "nothing to do" in takeset.convert(copy, output=output).stdout


def test_a_damaged_or_lost_shard_is_rebuilt(takes, takeset, tmp_path):
    output = tmp_path / "out"
    takeset.convert(takes, output=output)
    expected = outputs(output)
    shards = sorted((output / "episodes").iterdir())
    shards[0].unlink()
    data = bytearray(shards[1].read_bytes())
    data[len(data) // 2] ^= 1
    shards[1].write_bytes(data)
    (output / "dataset.h5").unlink()
    assert "2 written, 2 unchanged" in takeset.convert(takes, output=output).stdout
    assert outputs(output) == expected


def test_new_takes_are_added_and_vanished_ones_stay_until_pruned(takes, takeset, tmp_path):
    names = sorted(p.name for p in takes.iterdir())
    part = tmp_path / "part"
    part.mkdir()
    for name in names[:2]:
        shutil.copytree(takes / name, part / name)
    output = tmp_path / "out"
    takeset.convert(part, output=output)
    shutil.copytree(takes / names[2], part / names[2])
    assert "1 written, 2 unchanged" in takeset.convert(part, output=output).stdout
    shutil.rmtree(part / names[0])
    assert "2 unchanged, 60 frames; 1 more kept, whose inputs are gone (--prune" in takeset.convert(part, output=output).stdout
    assert sorted(demos(output)) == names[:3]
    assert [f["code"] for f in take(output, names[0])["findings"] if f["code"] != "day-contradictory"] == ["input-vanished"]
    assert "nothing to do" in takeset.convert(part, output=output).stdout
    assert "1 removed" in takeset.convert(part, output=output, arguments=["--prune"]).stdout
    assert sorted(demos(output)) == names[1:3]
    assert not (output / f"episodes/{names[0]}.h5").exists()
    takeset("verify", output, check=0)


def test_a_take_that_is_named_and_gone_keeps_its_episode(takes, takeset, tmp_path):
    names = sorted(p.name for p in takes.iterdir())[:2]
    part = [tmp_path / name for name in names]
    for path in part:
        shutil.copytree(takes / path.name, path)
    output = tmp_path / "out"
    takeset.convert(*part, output=output)
    shutil.rmtree(part[0])
    # Not even when asked to prune: an input that cannot be read may only be out of reach.
    done = takeset.convert(*part, output=output, check=3, arguments=["--prune"])
    assert "no such file" in done.stderr and "nothing is pruned" in done.stderr
    assert sorted(demos(output)) == names
    assert [f["code"] for f in take(output, names[0])["findings"] if f["code"] != "day-contradictory"] == ["input-vanished"]


def test_another_pipelines_output_is_refused_unless_replaced(takes, takeset, tmp_path):
    output = tmp_path / "out"
    takeset.convert(takes, output=output)
    before = outputs(output)
    other = pipeline(tmp_path, "transforms: [align, decimate: {every: 2}, split]\n")
    refused = takeset("run", takes, "--output", output, *other)
    assert refused.returncode == 64 and "another pipeline" in refused.stderr and "--replace" in refused.stderr
    assert outputs(output) == before
    takeset.convert(takes, output=output, arguments=[*other, "--replace"])
    takeset.convert(takes, output=tmp_path / "fresh", arguments=other)
    assert outputs(output) == outputs(tmp_path / "fresh")
    takeset("verify", output, check=0)


def test_two_runs_at_once_do_not_mix(takes, takeset, tmp_path):
    import fcntl

    output = tmp_path / "out"
    output.mkdir()
    held = os.open(output, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    done = takeset("run", takes, "--output", output)
    assert done.returncode == 1 and "another run" in done.stderr
    os.close(held)
    takeset.convert(takes, output=output)


def test_a_file_system_without_locks_is_named(takes, takeset, failing_look, tmp_path):
    output = tmp_path / "out"
    done = takeset("run", takes, "--output", output, env=failing(failing_look, "parent", "flock", output, 1, errno.ENOLCK))
    assert done.returncode == 1 and "locks no directories" in done.stderr and "another run" not in done.stderr


# Who is who over many runs


def test_a_take_keeps_its_id_and_no_other_take_gets_it(takes, takeset, tmp_path, monkeypatch):
    first, second = sorted(takes.iterdir())[:2]
    monkeypatch.chdir(tmp_path)
    output = tmp_path / "out"
    # An input that is empty at first, named by a relative path.
    (tmp_path / "s/b").mkdir(parents=True)
    shutil.copytree(first, tmp_path / "s/a")
    takeset.convert("s/a", "s/b", output=output, check=3)
    shutil.copytree(second, tmp_path / "s/b", dirs_exist_ok=True)
    takeset.convert("s/a", "s/b", output=output)
    assert sorted(demos(output)) == ["a", "b"]
    # Two takes of one name; then the first is removed.
    for folder, source in ("d1", first), ("d2", second):
        shutil.copytree(source, tmp_path / folder / "X")
    takeset.convert("d1", "d2", output=tmp_path / "out2")
    pose = demos(tmp_path / "out2")["X"][0]["obs/pose"][:]
    shutil.rmtree(tmp_path / "d1")
    takeset.convert("d2", output=tmp_path / "out2")
    assert sorted(demos(tmp_path / "out2")) == ["X", "X-2"]
    assert (demos(tmp_path / "out2")["X"][0]["obs/pose"][:] == pose).all()
    # A folder that was moved, alone in having had that name, is the same take.
    (tmp_path / "s").rename(tmp_path / "moved")
    assert "nothing to do" in takeset.convert("moved", output=output).stdout


def test_a_copied_dataset_is_not_rebuilt(takes, takeset, tmp_path):
    takeset.convert(takes, output=tmp_path / "out")
    shutil.copytree(tmp_path / "out", tmp_path / "copy", copy_function=shutil.copy)
    done = takeset.convert(takes, output=tmp_path / "copy")
    assert "4 unchanged" in done.stdout and "written" not in done.stdout
    assert outputs(tmp_path / "copy") == outputs(tmp_path / "out")
    assert "nothing to do" in takeset.convert(takes, output=tmp_path / "copy").stdout


def test_a_replacement_that_is_stopped_claims_nothing_of_the_old_pipeline(takes, takeset, tmp_path):
    copy = shutil.copytree(takes, tmp_path / "takes")
    takeset.convert(copy, output=tmp_path / "out")
    names = sorted(p.name for p in copy.iterdir())
    (copy / names[1] / "poses.json").write_text("{}")
    other = pipeline(tmp_path, "transforms: [align, decimate: {every: 2}]\n")
    takeset.convert(copy, output=tmp_path / "out", check=3, arguments=[*other, "--replace", "--on-failure", "stop", "--jobs", "1"])
    record = manifest(tmp_path / "out")["record"]
    assert [(t["id"], t["outcome"]) for t in record["takes"]] == [(names[0], "written"), (names[1], "failed")]
    assert record["takes"][0]["output"]["samples"] == 15


@pytest.mark.slow
def test_a_damaged_journal_costs_the_damaged_takes_alone(takes, takeset, tmp_path):
    output = tmp_path / "out"
    takeset.convert(takes, output=output, arguments=["--jobs", "1"])
    expected = outputs(output)
    lines = (output / "journal.jsonl").read_bytes().splitlines(keepends=True)
    assert len(lines) == 4 and all(sorted(json.loads(line)) == ["crc32", "entry", "record"] for line in lines)
    digits = lines[0].index(b'"input_sha256":"') + 20  # of the entry: still JSON, of the same length
    changed = lines[0][:digits] + (b"1" if lines[0][digits : digits + 1] != b"1" else b"2") + lines[0][digits + 1 :]
    record = lines[0].replace(b'"bytes":', b'"byteS":', 1)
    unsummed = lines[0][: lines[0].index(b',"crc32"')] + b"}\n"
    for damaged in changed, record, unsummed, lines[0].replace(b'"entry"', b'"entr?"', 1), lines[0][:-40] + b"\n", b',"record":{}}\n', b"\n", b"{}\n":
        assert damaged != lines[0]
        (output / "journal.jsonl").write_bytes(b"".join([damaged, *lines[1:]]))
        done = takeset.convert(takes, output=output)
        assert "1 written, 3 unchanged" in done.stdout and re.search("journal.jsonl: 1 damaged line is ignored", done.stderr), damaged[:80]
        assert outputs(output) == expected
        takeset("verify", output, check=0)
    (output / "journal.jsonl").write_bytes(b"".join([changed, record, *lines[2:]]))
    done = takeset.convert(takes, output=output)
    assert "2 written, 2 unchanged" in done.stdout and "2 damaged lines are ignored" in done.stderr
    assert outputs(output) == expected
    # A crash in the middle of a write leaves a last line that is cut off, which is no damage.
    (output / "journal.jsonl").write_bytes((output / "journal.jsonl").read_bytes()[:-100])
    done = takeset.convert(takes, output=output)
    assert "1 written, 3 unchanged" in done.stdout and "damaged" not in done.stderr
    assert outputs(output) == expected


def test_a_vanished_take_whose_episode_is_lost_too_is_removed(takes, takeset, tmp_path):
    copy, output = shutil.copytree(takes, tmp_path / "takes"), tmp_path / "out"
    takeset.convert(copy, output=output)
    name = sorted(p.name for p in copy.iterdir())[0]
    shutil.rmtree(copy / name)
    (output / f"episodes/{name}.h5").unlink()
    assert "1 removed" in takeset.convert(copy, output=output).stdout
    assert len(demos(output)) == 3
