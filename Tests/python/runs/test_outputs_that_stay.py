"""What is no output of the command at hand stays: what others put in its place, beside it or in it, and what a run is writing."""

import itertools
import json
import os
import shutil
import signal
import subprocess

import pytest
from command import BINARY
from outputs import manifest
from PIL import Image
from session_faults import pipeline
from stack_sessions import v1, v2
from strange_takes import halted
from system import stopped, stopping


@pytest.fixture(scope="module")
def made(takeset, tmp_path_factory):
    """Two datasets, and their takes."""
    root = tmp_path_factory.mktemp("made")
    for name, make in ("a/one", v1), ("b/two", v2):
        make().write(root / name)
    for name in "ab":
        takeset.convert(root / name, output=root / f"d{name}")
    return root


def commands(made, output):
    return {
        "merge": ["merge", made / "da", made / "db", "--output", output], "select": ["select", made / "da", "--output", output, "--where", "frames > 0"],
        "export": ["export", made / "da", "--to", "tum", "--output", output], "pack": ["pack", made / "da", "--output", output],
    }


@pytest.mark.parametrize("name", ["merge", "select", "export", "pack"])
def test_what_appears_meanwhile_stays(takeset, made, failing_look, tmp_path, name):
    """The command stops at its first file below the temporary name."""
    output = tmp_path / "out"
    command, pipes = [BINARY, *map(str, commands(made, output)[name])], {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, env=stopping(failing_look, "open", f"{tmp_path}/.out.partial/", 1), **pipes)
    held = halted(process)
    assert held and not output.exists()
    if name == "pack":
        output.write_text("mine")
    else:
        output.mkdir()
        (output / "thesis.txt").write_text("mine")
    while held:  # the process that copies for `pack`, and then the command itself
        for one in held:
            os.kill(one, signal.SIGCONT)
        held = halted(process)
    errors = process.communicate(timeout=300)[1]
    assert process.returncode == 73 and "was made while this command ran" in errors, errors
    assert (output if name == "pack" else output / "thesis.txt").read_text() == "mine"
    assert not list(tmp_path.glob(".*")), "nothing else is left"


@pytest.mark.parametrize("name", ["merge", "select", "export"])
def test_replacing_leaves_alone_what_has_files_of_others(takeset, made, tmp_path, name):
    output = tmp_path / "out"
    command = commands(made, output)[name]
    takeset(*command, check=0)
    takeset(*command, "--replace", check=0)
    own = sorted(path for path in output.rglob("*") if path.is_file())[0]
    for place in output / "thesis.txt", own.parent / "x/thesis.txt", own.parent / ".thesis.partial":
        place.parent.mkdir(exist_ok=True)
        place.write_text("mine")
        # As many files as before.
        content = own.read_bytes()
        own.unlink() if name == "export" else None
        done = takeset(*command, "--replace")
        assert done.returncode == 73 and ("thesis" in done.stderr or "x in it" in done.stderr or "files that the export did not write" in done.stderr), done.stderr
        assert place.read_text() == "mine"
        own.write_bytes(content)
        place.unlink()
        if place.parent.name == "x":
            place.parent.rmdir()
    takeset(*command, "--replace", check=0)


def test_a_name_alone_makes_no_dataset_and_no_export(takeset, made, tmp_path):
    for name, marker in ("merge", "journal.jsonl"), ("export", "takeset-export.json"):
        output = tmp_path / name
        (output / "work").mkdir(parents=True)
        (output / "work/thesis.txt").write_text("mine")
        (output / marker).write_text("{}")
        done = takeset(*commands(made, output)[name], "--replace")
        assert done.returncode == 73 and "leaves it alone" in done.stderr, done.stderr
        assert (output / "work/thesis.txt").exists()


def test_a_dataset_that_a_run_writes_is_not_replaced(takeset, made, failing_look, tmp_path):
    for index in range(3):
        shutil.copytree(made / "a/one", tmp_path / f"in/t{index}")
    run = stopped([BINARY, "run", tmp_path / "in", "--output", tmp_path / "out", "--jobs", "1"], failing_look, "rename", tmp_path / "out/episodes", 2)
    assert run.returncode is None
    done = takeset("merge", made / "da", made / "db", "--output", tmp_path / "out", "--replace")
    assert done.returncode == 73 and "another command is writing" in done.stderr, done.stderr
    run.send_signal(signal.SIGCONT)
    assert run.wait(timeout=300) == 0
    takeset("verify", tmp_path / "out", check=0)


@pytest.mark.slow
@pytest.mark.parametrize("links", [[], ["--link"]], ids=["copies", "links"])
def test_what_is_selected_beside_a_run_is_sound_or_refused(takeset, made, failing_look, tmp_path, links):
    """A run replaces shards of one pipeline by those of another meanwhile."""
    for index in range(4):
        v1().write(tmp_path / f"in/t{index}")
    other = pipeline(tmp_path, "transforms: [align, {decimate: {every: 2}}]\n")
    takeset("run", tmp_path / "in", "--output", tmp_path / "ds", check=0)
    done = []
    for place, number in ("episodes", 1), ("episodes", 2), ("episodes", 4), ("dataset.h5", 1), ("manifest.json", 1):
        command = [BINARY, "run", tmp_path / "in", "--output", tmp_path / "ds", "--replace", "--jobs", "1", *(other if len(done) % 2 == 0 else []), "--quiet"]
        run = stopped(command, failing_look, "rename", tmp_path / "ds" / place, number)
        assert run.returncode is None
        output = tmp_path / f"s{len(done)}"
        done.append(takeset("select", tmp_path / "ds", "--where", "frames > 0", "--output", output, *links).returncode)
        if done[-1] == 0:
            takeset("verify", output, check=0)
        else:
            assert done[-1] in (64, 65) and not output.exists()
        run.send_signal(signal.SIGCONT)
        assert run.wait() == 0
    takeset("select", tmp_path / "ds", "--where", "frames > 0", "--output", tmp_path / "last", *links, check=0)


@pytest.mark.parametrize("links", [[], ["--link"]], ids=["copies", "links"])
def test_a_dataset_whose_run_was_stopped_is_not_merged(takeset, made, tmp_path, links):
    """The journal and the shards are of the changed take, the manifest is of the earlier one."""
    takes, dataset = shutil.copytree(made / "a", tmp_path / "in"), tmp_path / "ds"
    takeset.convert(takes, output=dataset)
    before = (dataset / "manifest.json").read_bytes()
    v2().write(shutil.rmtree(takes / "one") or takes / "one")
    takeset.convert(takes, output=dataset)
    (dataset / "manifest.json").write_bytes(before)
    done = takeset("select", dataset, "--output", tmp_path / "out", "--where", "frames > 0", *links)
    assert done.returncode in (64, 65) and "is not finished" in done.stderr, done.stderr
    assert not (tmp_path / "out").exists()


def test_parts_of_two_recordings_of_one_name_are_not_mixed(takeset, made, tmp_path):
    splitting = pipeline(tmp_path, "transforms: [align, {split-episodes: {at: 0.2}}]\n")
    for name, make in ("a", v1), ("b", v2):
        make().write(tmp_path / name / "x")
        takeset("run", tmp_path / name, "--output", tmp_path / f"d{name}", *splitting, check=0)
    ids = [take["id"] for take in manifest(tmp_path / "da")["record"]["takes"]]
    takeset("select", tmp_path / "da", "--episodes", ids[0], "--output", tmp_path / "sa", check=0)
    takeset("select", tmp_path / "db", "--episodes", ids[1], "--output", tmp_path / "sb", check=0)
    done = takeset("merge", tmp_path / "sa", tmp_path / "sb", "--output", tmp_path / "out")
    assert done.returncode == 65 and "different recordings, both named x" in done.stderr, done.stderr
    # Parts of the same recording are put together again.
    takeset("select", tmp_path / "da", "--episodes", ids[1], "--output", tmp_path / "sc", check=0)
    takeset("merge", tmp_path / "sa", tmp_path / "sc", "--output", tmp_path / "whole", check=0)


@pytest.mark.parametrize("text", ["Monday: calibrated\nTuesday: half a li", '{"day": 1}\n{"day": 2'])
def test_a_journal_of_somebody_else_stays(takeset, made, tmp_path, text):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/journal.jsonl").write_text(text)
    for more in [], ["--replace"]:
        done = takeset("run", made / "a", "--output", tmp_path / "out", *more)
        assert done.returncode == 64 and "not a journal of Takeset" in done.stderr
        assert (tmp_path / "out/journal.jsonl").read_text() == text


def test_a_run_removes_and_replaces_only_what_is_its_own(takeset, made, tmp_path):
    output = tmp_path / "out"
    (output / "episodes").mkdir(parents=True)
    (output / ".download.partial").mkdir()
    for foreign in ".download.partial/part1", ".film.mp4.partial", "episodes/one.h5":
        (output / foreign).write_text("mine")
    done = takeset("run", made / "a", "--output", output)
    assert done.returncode == 64 and "one.h5, which is no episode" in done.stderr
    (output / "episodes/one.h5").unlink()
    # What a killed run leaves is removed.
    leftovers = [output / ".manifest.json.partial", output / "episodes/.two.h5.partial", output / ".attempt-host-1-x.partial/episodes/one.h5"]
    for path in leftovers:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("rest")
    takeset("run", made / "a", "--output", output, check=0)
    assert not any(path.exists() for path in leftovers) and not leftovers[-1].parents[1].exists()
    assert all((output / foreign).read_text() == "mine" for foreign in (".download.partial/part1", ".film.mp4.partial"))


def test_a_snapshot_by_hard_links_keeps_its_journal(takeset, made, tmp_path):
    """As backups with `cp -al` have it: a run that goes on must not write into the snapshot."""
    shutil.copytree(made / "a", tmp_path / "in")
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    subprocess.run(["cp", "-al", tmp_path / "out", tmp_path / "snapshot"], check=True)
    before = {path: path.read_bytes() for path in (tmp_path / "snapshot").rglob("*") if path.is_file()}
    v2().write(tmp_path / "in/two")
    takeset("run", tmp_path / "in", "--output", tmp_path / "out", check=0)
    assert {path: path.read_bytes() for path in (tmp_path / "snapshot").rglob("*") if path.is_file()} == before
    for name in "out", "snapshot":
        takeset("verify", tmp_path / name, check=0)


@pytest.mark.parametrize("name", ["merge", "export"])
def test_replacing_never_leaves_the_name_empty(takeset, made, failing_look, tmp_path, name):
    """Looks at the name before each renaming; a killed command would leave what is seen."""
    output = tmp_path / "out"
    command = [*commands(made, output)[name], "--replace"]
    takeset(*command, check=0)
    for number in itertools.count(1):
        process = stopped([BINARY, *command], failing_look, "rename", tmp_path, number)
        assert output.is_dir()
        if process.returncode is not None:
            break
        process.send_signal(signal.SIGCONT)
        assert process.wait() == 0
    assert number > 1 and process.returncode == 0
    assert not list(tmp_path.glob(".*"))


def test_a_journal_that_is_damaged_at_its_start_is_written_again(takeset, made, tmp_path):
    output = shutil.copytree(made / "da", tmp_path / "out")
    journal = output / "journal.jsonl"
    journal.write_bytes(b"?" + journal.read_bytes()[1:])
    takeset("run", made / "a", "--output", output, check=0)
    takeset("verify", output, check=0)
    assert journal.read_bytes().startswith(b'{"entry":')


# Files that a command is told to write


def test_a_preview_and_metrics_replace_only_their_like(takeset, made, tmp_path):
    takes = shutil.copytree(made / "a", tmp_path / "in")
    notes, image = tmp_path / "notes.txt", tmp_path / "holiday.png"
    notes.write_text("mine")
    Image.new("RGB", (4, 4)).save(image)
    for target in takes / "one/poses.json", sorted(takes.glob("one/rgb/*"))[0], notes, image:
        before = target.read_bytes()
        done = takeset("inspect", takes, "--preview", target)
        assert done.returncode == 64 and target.name in done.stderr
        done = takeset("run", takes, "--output", tmp_path / "out", "--metrics", target)
        assert done.returncode == 64 and target.name in done.stderr
        assert target.read_bytes() == before
    takeset("run", takes, "--output", tmp_path / "out", check=0)
    for _ in range(2):
        takeset("run", takes, "--output", tmp_path / "out", "--metrics", tmp_path / "out/m.prom", check=0)
        takeset("inspect", takes, "--preview", takes / "sheet.png", check=0)
        assert Image.open(takes / "sheet.png").text == {"Software": "Takeset contact sheet"}
    done = takeset("run", takes, "--output", tmp_path / "out", "--metrics", tmp_path / "out/manifest.json")
    assert done.returncode == 64
    takeset("verify", tmp_path / "out", check=0)


def test_words_behind_a_card_make_it_somebodys_own(takeset, made, tmp_path):
    dataset = shutil.copytree(made / "da", tmp_path / "ds")
    takeset("describe", dataset, check=0)
    takeset("describe", dataset, check=0)
    card = dataset / "README.md"
    card.write_text(card.read_text() + "Calibrated on Monday. <!-- ask Ada -->\n")
    before = card.read_bytes()
    done = takeset("describe", dataset)
    assert done.returncode == 73 and "README.md" in done.stderr and card.read_bytes() == before


# Records


@pytest.mark.slow
@pytest.mark.parametrize("publishes", [False, True], ids=["run", "publish"])
def test_a_damaged_manifest_is_written_again(takeset, made, tmp_path, publishes):
    output = tmp_path / "out"
    if publishes:
        takeset("plan", made / "a", "--output", output, "--tasks", check=0)
        takeset("convert", output, "--task", 0, check=0)
    again = ["publish", output] if publishes else ["run", made / "a", "--output", output]
    takeset(*again, check=0)
    path = output / "manifest.json"
    sound = path.read_bytes()
    short = b'\n"run":{"index":"x"},\n"run_sha256":"abc"}'
    for damaged in (
        sound + b"x\n", sound.replace(b'"frames_in":', b'"frames_im":', 1), sound[:-3], short, b"", short[::-1],
        sound[sound.rindex(b'\n"run":'):], sound[sound.rindex(b'\n"run":') - 20:], sound[sound.rindex(b'\n"run":') + 3:],
    ):
        path.write_bytes(damaged)
        assert takeset("verify", output).returncode in (2, 64)
        takeset(*again, check=0)
        takeset("verify", output, check=0)
        assert json.loads(path.read_text())["record_sha256"] == json.loads(sound)["record_sha256"]
    assert "nothing to do" in takeset(*again, check=0).stdout


def test_names_with_marks_of_direction_are_names(takeset, made, tmp_path):
    """Names in Hebrew or Arabic have them, and names that somebody copied from a message."""
    marks = "\u200e\u2028\u202e"
    for mark in marks:
        shutil.copytree(made / "a/one", tmp_path / f"in/one{mark}more")
    takeset("run", tmp_path / "in", "--output", tmp_path / "out", check=0)
    takeset("verify", tmp_path / "out", check=0)
    done = takeset("inspect", tmp_path / "out", check=0)
    assert all(mark not in done.stdout and f"\\u{ord(mark):04X}" in done.stdout for mark in marks)
    takeset("select", tmp_path / "out", "--where", "frames > 0", "--output", tmp_path / "some", check=0)
    assert [take["id"] for take in manifest(tmp_path / "some")["record"]["takes"]] == [f"one{mark}more" for mark in marks]
