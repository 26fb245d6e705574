"""A run survives kills at any moment, failing system calls, full disks, clocks that jump, and company.

Short here, long with `make torture`; `-rP` shows how many were tried.
"""

import contextlib
import ctypes
import errno
import os
import re
import shutil
import signal
import subprocess

import h5py
import pytest
from command import BINARY
from strange_takes import children, halted, unfinished
from system import calls, failing, mount_image, mount_tmpfs, spread, stopped, take_image

LENGTHS = pytest.mark.parametrize("is_long", [False, pytest.param(True, marks=pytest.mark.torture)], ids=["short", "long"])


# Kills


@pytest.fixture(scope="module")
def changes(whole, failing_look, tmp_path_factory):
    """How often a run changes its output, and how often a child does that converts one take."""
    output = tmp_path_factory.mktemp("changes") / "out"
    count = calls(whole.takeset, failing_look, "change", output, *whole.arguments(output, "--isolate", "never", "--jobs", 1))
    return {"never": count, "auto": count // 2, "always": count // 6}


@pytest.mark.slow
@LENGTHS
def test_kills_of_the_group_at_any_change(whole, failing_look, changes, tmp_path, is_long):
    killed, output = 0, tmp_path / "out"
    for policy in ["always", "auto", "never"]:
        for turn, number in enumerate(spread(70 if is_long else 5, changes[policy])):
            process = whole.stopping(failing_look, number, output, policy, "--jobs", str(1 + turn % 2))
            halted(process)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            killed += process.wait() == -signal.SIGKILL
            whole.has_no_half_files(output)
            if turn % 3 == 2:  # two more kills come before the run may finish
                whole.resumes(output)
                shutil.rmtree(output)
        if output.exists():
            whole.resumes(output)
            shutil.rmtree(output)
    assert killed > (100 if is_long else 8), killed  # what is there already is not written again
    print(f"{killed} kills")


@pytest.mark.slow
@LENGTHS
def test_kills_of_children_at_any_change(whole, failing_look, changes, tmp_path, is_long):
    """A run whose child is killed once converts the take again and tells nobody."""
    killed, numbers = 0, spread(100 if is_long else 6, changes["always"])
    for turn, number in enumerate(numbers):
        output = tmp_path / "out"
        process = whole.stopping(failing_look, number, output, "always", "--jobs", str(1 + turn % 2))
        victims = halted(process)
        for child in victims[:1]:
            os.kill(child, signal.SIGKILL)
            killed += 1
        others = victims[1:]
        while others or (others := halted(process)):
            for child in others:
                os.kill(child, signal.SIGCONT)
            others = []
        assert process.wait() == 0
        whole.has_no_half_files(output)
        assert unfinished(output) == []
        whole.resumes(output)
        shutil.rmtree(output)
    assert killed > len(numbers) // 2, killed
    print(f"{len(numbers)} runs, {killed} children killed")


# System calls


@pytest.mark.slow
@LENGTHS
@pytest.mark.parametrize("where", ["parent", "child"])
@pytest.mark.parametrize("kind, code", [
    ("write", errno.ENOSPC), ("write", errno.EIO), ("fsync", errno.EIO), ("rename", errno.EIO), ("mkdir", errno.ENOSPC), ("open", errno.EMFILE)])
def test_an_error_of_any_call_on_the_output_stops_the_run_and_nothing_is_lost(whole, failing_look, tmp_path, kind, code, where, is_long):
    output, counted = tmp_path / "out", tmp_path / "counted/out"
    # Of a run that is not isolated; of one that is, neither parent nor child makes more.
    count = calls(whole.takeset, failing_look, kind, counted, *whole.arguments(counted, "--isolate", "never", "--jobs", 1))
    numbers = range(1, count + 1) if is_long else sorted({1, 2, 3, count // 2, count} & {*range(1, count + 1)})
    policy, failures = "never" if where == "parent" else "always", 0
    for number in numbers:
        environment = failing(failing_look, where, kind, output, number, code)
        done = whole.takeset(*whole.arguments(output, "--isolate", policy, "--jobs", 1), env=environment)
        assert done.returncode in (0, 1), (number, done.returncode, done.stderr)
        whole.has_no_half_files(output)
        if done.returncode:
            failures += 1
            assert os.strerror(code) in done.stderr and "Traceback" not in done.stderr, (number, done.stderr)
            assert unfinished(output) == [], number
        whole.resumes(output)
        shutil.rmtree(output)
    assert failures > 0 or (where, kind) == ("child", "mkdir")  # a child makes no directories
    print(f"{len(numbers)} of the {count} calls tried, {failures} failures stopped the run")


@pytest.mark.slow
@LENGTHS
@pytest.mark.parametrize("kind", ["open", "read", "pread"])
def test_an_error_of_any_call_on_an_input_in_a_child_costs_its_take_until_the_next_run(whole, failing_look, tmp_path, kind, is_long):
    output = tmp_path / "out"
    failures, tried, number = 0, 0, 0
    while True:
        number += 1 if is_long or number < 4 else 7
        environment = failing(failing_look, "child", kind, whole.takes, number, errno.EIO)
        done = whole.takeset(*whole.arguments(output, "--isolate", "always", "--jobs", 1), env=environment)
        assert done.returncode in (0, 3), (number, done.stderr)
        whole.has_no_half_files(output)
        assert unfinished(output) == []
        whole.resumes(output)
        shutil.rmtree(output)
        if done.returncode == 0 and number > (60 if is_long else 10):
            break  # there are no so many calls
        failures += done.returncode == 3
        tried += 1
        assert number < 3000
    assert failures > 1
    print(f"{tried} calls tried, {failures} failures cost their take")


# Disks


def resize(path, size):
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mount(b"tmpfs", str(path).encode(), b"tmpfs", 32, f"size={size}".encode()) == 0  # MS_REMOUNT


@LENGTHS
def test_disks_of_any_size(whole, tmp_path, is_long):
    count = 20 if is_long else 4
    full, kept, needed = 0, 0, []
    for number in range(count):
        size = 40_000 + (whole.size * 11 // 10 - 40_000) * number // (count - 1)
        unmount = mount_tmpfs(tmp_path / f"disk{number}", size)
        try:
            output = tmp_path / f"disk{number}/out"
            done = whole.takeset(*whole.arguments(output, "--isolate", ["always", "never"][number % 2]))
            assert done.returncode in (0, 1), done.stderr
            if done.returncode:
                full += 1
                # Also where HDF5 tells only consequences. Directories need no space that could be named.
                told = re.search(r"the disk is full: .*No space left on device \((.+?) MB are free there(, up to (.+?) MB are needed)?\)|"
                                 r"the disk is full: .*No space left on device \(no more files", done.stderr)
                assert told, done.stderr
                assert "slist" not in done.stderr and "infinite loop" not in done.stderr and (not told[1] or float(told[1]) < 0.1), done.stderr
                needed += [float(told[3])] if told[3] else []
                kept += whole.has_no_half_files(output)
            resize(tmp_path / f"disk{number}", "64m")
            whole.resumes(output)
        finally:
            unmount()
    assert full >= count // 2 and kept > 0  # what is sealed stays
    assert len(needed) >= full // 2 and all(0 < most < 2 for most in needed)
    print(f"{count} disks, {full} of them too small; {len(needed)} times what is needed was known")


def test_a_disk_without_inodes(whole, tmp_path):
    for inodes in 3, 5, 7, 9:  # the dataset needs 11
        unmount = mount_tmpfs(tmp_path / f"disk{inodes}", f"64m,nr_inodes={inodes}")
        try:
            done = whole.takeset(*whole.arguments(tmp_path / f"disk{inodes}/out", "--jobs", "1"))
            assert done.returncode == 1 and "No space left on device" in done.stderr, (inodes, done.stderr)
            assert "all inodes are in use" in done.stderr, (inodes, done.stderr)
            whole.has_no_half_files(tmp_path / f"disk{inodes}/out")
        finally:
            unmount()


@pytest.mark.slow
@LENGTHS
def test_a_power_loss_at_any_moment(whole, failing_look, changes, tmp_path, is_long):
    """The image of a mounted file system is what a disk holds when the power goes: without what was not synced."""
    if os.getuid() or not shutil.which("mkfs.ext4"):
        pytest.skip("needs root and mkfs.ext4")
    count = 20 if is_long else 3
    episodes, policies = [], ["always", "never"]
    numbers = {policy: spread(count, changes[policy]) for policy in policies}
    for number in range(count + 1):
        # Files of their own: whoever has made a mount namespace meanwhile keeps a file system alive that was unmounted here.
        image, copy = tmp_path / f"image{number}", tmp_path / f"copy{number}"
        with open(image, "wb") as file:
            file.truncate(24 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True, capture_output=True)
        unmount = mount_image(image, tmp_path / f"disk{number}")
        try:
            policy = policies[number % 2]
            if number == count:
                process = whole.begun(tmp_path / f"disk{number}/out", "--isolate", policy)
                assert process.wait() == 0  # what a finished run has said to be written must be there
            else:
                process = whole.stopping(failing_look, numbers[policy][number % len(numbers[policy])], tmp_path / f"disk{number}/out", policy)
                halted(process)
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    for each in [process.pid, *children(process.pid)]:
                        os.kill(each, signal.SIGSTOP)
            take_image(image, copy)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        finally:
            unmount()
        unmount = mount_image(copy, tmp_path / f"after{number}")
        try:
            output = tmp_path / f"after{number}/out"
            episodes.append(whole.has_no_half_files(output))
            if number == count:
                assert episodes[-1] == 5 and (output / "dataset.h5").read_bytes() == whole.expected["dataset.h5"]
                whole.takeset("verify", output, check=0)
            whole.resumes(output)
        finally:
            unmount()
        image.unlink()
        copy.unlink()
    assert episodes[-1] == 5
    print(f"{count} losses of power during a run and one after it; episodes that were there: {episodes}")


# Inputs, clocks and company


CHANGES = {
    "vanish": lambda path: path.unlink(),
    "fifo": lambda path: (path.unlink(), os.mkfifo(path)),
    "link": lambda path: (path.unlink(), path.symlink_to("/etc/passwd")),
    "directory": lambda path: (path.unlink(), path.mkdir()),
    "empty": lambda path: path.write_bytes(b""),
    "halve": lambda path: os.truncate(path, path.stat().st_size // 2),
}


@pytest.mark.slow
@LENGTHS
@pytest.mark.parametrize("change", CHANGES)
def test_an_input_that_becomes_something_else_while_it_is_read(whole, failing_look, tmp_path, change, is_long):
    """At every open of the take's files; nothing waits for a FIFO, and nothing follows a link."""
    takes = tmp_path / "takes"
    takes.mkdir()
    outcomes = []
    for name in ["session", "movie.mov", "bundle"] if is_long else ["session"]:
        for number in range(1, 40, 1 if is_long else 6):
            shutil.rmtree(takes)
            shutil.copytree(whole.takes, takes)
            victim = {"session": "session/rgb/000004.jpg", "movie.mov": "movie.mov", "bundle": "bundle/metadata.json"}[name]
            output = tmp_path / "out"
            command = [BINARY, "run", takes, "--output", output, "--isolate", "never", "--jobs", "1", "--progress", "none"]
            process = stopped(command, failing_look, "open", takes / name, number)
            if process.returncode is not None:
                shutil.rmtree(output)
                break
            CHANGES[change](takes / victim)
            process.send_signal(signal.SIGCONT)
            code = process.wait(timeout=300)
            assert code in (0, 3), code
            outcomes.append(code)
            own = whole.shard_of(name)
            others = [n for n in whole.expected if n.endswith(".h5") and n not in ("dataset.h5", own)]
            assert len(others) == 4
            for other in others:
                assert (output / "episodes" / other).read_bytes() == whole.expected[other]
            assert unfinished(output) == [] and b"root:x:0:0" not in b"".join(p.read_bytes() for p in output.rglob("*") if p.is_file())
            shutil.rmtree(output)
    assert 3 in outcomes or change == "vanish"
    print(f"{len(outcomes)} opens, {outcomes.count(3)} changes cost their take")


@pytest.mark.slow
@pytest.mark.parametrize("jump", [-100_000_000, 3600])
def test_a_clock_that_jumps_does_not_show(whole, other_time, tmp_path, jump):
    environment = os.environ | {"LD_PRELOAD": str(other_time), "TIME_JUMP": str(jump)}
    for policy in "never", "always":
        output = tmp_path / policy
        whole.takeset(*whole.arguments(output, "--isolate", policy), check=0, env=environment)
        whole.has_no_half_files(output)
        whole.resumes(output)


@pytest.mark.slow
@LENGTHS
def test_runs_and_readers_at_the_same_time(whole, tmp_path, is_long):
    """A second run is refused; whoever reads meanwhile finds complete files."""
    read = refused = 0
    for number in range(30 if is_long else 3):
        output = tmp_path / "out"
        process = whole.begun(output, "--isolate", "always", "--jobs", "1")
        while process.poll() is None:
            for path in output.glob("episodes/[!.]*.h5"):
                with h5py.File(path) as file:
                    assert file["data/demo_0/obs"].keys()
                read += 1
            if (output / "episodes").exists() and number % 3 == 0:
                second = whole.takeset(*whole.arguments(output))
                refused += second.returncode == 1 and "another run" in second.stderr
                assert second.returncode in (0, 1), second.stderr
            if (output / "manifest.json").exists():
                whole.takeset("verify", output, check=0)
        assert process.returncode in (0, 1)
        whole.resumes(output)
        shutil.rmtree(output)
    assert read > 0 and (refused > 0 or not is_long)  # a short run may end while the second one waits
    print(f"{read} episodes read meanwhile, {refused} runs refused")
