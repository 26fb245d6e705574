"""Outputs of export, merge and pack: full disks, signals, kills, and two commands at once."""

import os
import signal
import subprocess

import h5py
import pytest
from command import BINARY
from export_checks import files
from system import mount_tmpfs, share, stopped


COMMANDS = {
    "export": ["export", "DATASET", "--to", "zarr", "--jobs", "1"], "select": ["select", "DATASET", "--where", "frames > 0"], "pack": ["pack", "DATASET"],
}
EACH = pytest.mark.parametrize("command", COMMANDS)


def words(command, dataset, output):
    return [*(dataset if word == "DATASET" else word for word in COMMANDS[command]), "--output", output]


@EACH
def test_a_full_disk_is_one_sentence(takeset, dataset, tmp_path, command):
    unmount = mount_tmpfs(tmp_path / "disk", "1m")
    try:
        done = takeset(*words(command, dataset, tmp_path / "disk/out"))
        assert done.returncode == 1 and "No space left on device" in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
        assert "resumes" not in done.stderr and "errno" not in done.stderr
        assert list((tmp_path / "disk").iterdir()) == []
    finally:
        unmount()


@pytest.mark.slow
def test_packing_survives_a_failure_of_any_write(takeset, failing_write, tiny_dataset, tmp_path):
    takeset("pack", tiny_dataset, "--output", tmp_path / "whole", check=0)
    for number in range(1, 2000, 2000 // share(2000)):
        environment = os.environ | {"LD_PRELOAD": str(failing_write), "FAIL_AT": str(number)}
        done = takeset("pack", tiny_dataset, "--output", tmp_path / "out", env=environment)
        if done.returncode == 0:
            assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes() and number > 10
            return
        assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, (number, done.stderr)
        assert "No space left on device" in done.stderr or "libhdf5 crashed" in done.stderr, (number, done.stderr)
        assert [path.name for path in tmp_path.iterdir()] == ["whole"], number


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@EACH
def test_an_interrupted_command_leaves_nothing(dataset, failing_look, tmp_path, command, number, code):
    arguments = [BINARY, *words(command, dataset, tmp_path / "out")]
    # Its directory is locked and empty.
    process = stopped(arguments, failing_look, "opendir", tmp_path / ".out.partial", 1, stderr=subprocess.PIPE, text=True)
    assert (tmp_path / ".out.partial").exists()
    process.send_signal(number)
    process.send_signal(signal.SIGCONT)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == code and "interrupted; nothing was written" in errors, errors
    assert list(tmp_path.iterdir()) == []


@EACH
def test_of_two_commands_with_one_output_one_wins(takeset, dataset, failing_look, tmp_path, command):
    arguments = words(command, dataset, tmp_path / "out")
    process = stopped([BINARY, *arguments], failing_look, "opendir", tmp_path / ".out.partial", 1)
    done = takeset(*arguments)
    assert done.returncode == 73 and "another command is writing" in done.stderr, done.stderr
    process.send_signal(signal.SIGCONT)
    assert process.wait(timeout=300) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@EACH
def test_what_a_killed_command_left_is_removed(takeset, dataset, failing_look, tmp_path, command):
    arguments = words(command, dataset, tmp_path / "out")
    process = stopped([BINARY, *arguments], failing_look, "opendir", tmp_path / ".out.partial", 1)
    process.kill()
    process.wait()
    (tmp_path / ".out.partial/stray").write_text("left")
    takeset(*arguments, check=0)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    if command == "pack":
        with h5py.File(tmp_path / "out") as file:
            assert len(file["data"]) == 2
    else:
        assert "stray" not in files(tmp_path / "out")


@EACH
def test_a_file_is_no_dataset(takeset, dataset, tmp_path, command):
    done = takeset(*words(command, dataset / "dataset.h5", tmp_path / "out"), check=64)
    assert "name the folder of the dataset" in done.stderr


@pytest.mark.parametrize("form, remedy", [("umi", "--to zarr --layout umi"), ("rerun", "takeset view")])
def test_formats_that_are_elsewhere(takeset, dataset, tmp_path, form, remedy):
    assert remedy in takeset("export", dataset, "--to", form, "--output", tmp_path / "out", check=64).stderr


def test_a_misspelled_option_is_suggested_once(takeset, dataset, tmp_path):
    done = takeset("merge", dataset, dataset, "--splitfile", "x", "--output", tmp_path / "out", check=64)
    assert done.stderr.count("--split-file?") == 1
    done = takeset("export", dataset, "--to", "zarr", "--zipp", "--output", tmp_path / "out", check=64)
    assert "did you mean --zip?" in done.stderr
