"""Child processes that convert takes: what a decoder does in one costs its take only, and what it may not do fails."""

import ctypes
import os
import resource
import signal
import subprocess

import pytest
from command import BINARY
from run_outputs import outputs
from strange_batch import clean, library, takes  # noqa: F401 (fixtures)
from strange_takes import GOOD, assert_same, children, entries, is_running, preloaded, session, started, unfinished, waiting
from system import until

STRANGE = {"strange-movie", "strange-session"}


def run(takeset, library, takes, output, what, *arguments, check, **more):
    return takeset("run", takes, "--output", output, "--isolate", "always", *arguments, check=check, env=preloaded(library, what, **more))


def costs_its_takes(takeset, takes, clean, output, code, *words):
    """Only the marked takes failed; the same command without the fault gives what it would have given at once."""
    found = entries(output)
    assert {name for name, entry in found.items() if entry["outcome"] == "written"} == GOOD
    for name in STRANGE:
        assert found[name]["outcome"] == "failed" and [f["code"] for f in found[name]["findings"] if f["severity"] == "error"] == [code]
        assert all(word in found[name]["reason"] for word in words), found[name]["reason"]
    assert unfinished(output) == [] and {path.stem for path in (output / "episodes").iterdir()} == GOOD
    expected = outputs(clean)
    assert all(path.read_bytes() == expected[path.name] for path in (output / "episodes").iterdir())
    takeset("verify", output, check=0)
    takeset.convert(takes, output=output)
    assert_same(output, clean)


@pytest.mark.parametrize("jobs", [1, 2, 8])
@pytest.mark.parametrize("what, signals", [("crash", ["11"]), ("abort", ["6"])])
def test_a_decoder_that_crashes_costs_its_take(takeset, library, takes, clean, tmp_path, what, signals, jobs):
    run(takeset, library, takes, tmp_path / "out", what, "--jobs", jobs, check=3)
    costs_its_takes(takeset, takes, clean, tmp_path / "out", "conversion-crashed", "crashed twice", *signals)


def test_a_decoder_that_crashes_without_isolation_ends_the_run(takeset, library, takes, clean, tmp_path):
    """What isolation is for."""
    done = takeset("run", takes, "--output", tmp_path / "out", "--isolate", "never", "--jobs", 1, env=preloaded(library, "crash"))
    assert done.returncode == -signal.SIGSEGV
    takeset.convert(takes, output=tmp_path / "out")
    assert_same(tmp_path / "out", clean)


@pytest.mark.parametrize("what", ["crash-once", "abort-once"])
def test_a_crash_that_does_not_happen_again_costs_nothing(takeset, library, takes, clean, tmp_path, what):
    run(takeset, library, takes, tmp_path / "out", what, check=0)
    assert_same(tmp_path / "out", clean)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["spin", "wait"])
def test_a_decoder_that_hangs_costs_its_take(takeset, library, takes, clean, tmp_path, what):
    # Long for the other takes, and not the hour that is the default: the command has ten minutes.
    run(takeset, library, takes, tmp_path / "out", what, "--take-time", 10, "--jobs", 2, check=3)
    costs_its_takes(takeset, takes, clean, tmp_path / "out", "time-limit", "longer than 10 s", "--take-time")


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 8])
def test_a_decoder_that_eats_memory_costs_its_take(takeset, library, takes, clean, tmp_path, jobs):
    run(takeset, library, takes, tmp_path / "out", "memory", "--take-memory", "512M", "--jobs", jobs, check=3)
    costs_its_takes(takeset, takes, clean, tmp_path / "out", "memory-limit", "limit of 512 MiB", "--take-memory")


def kill_children(process, count):
    """Kills as many children of a run, one after the other, each once it waits in its decoder. The exit code, and what is said."""
    killed = []
    while len(killed) < count:
        (child,) = waiting(process, killed)
        os.kill(child, signal.SIGKILL)
        killed.append(child)
    _, errors = process.communicate(timeout=300)
    return process.returncode, errors


def test_a_child_that_is_killed_from_outside_is_tried_again(takeset, library, takes, clean, tmp_path):
    code, errors = kill_children(started(preloaded(library, "wait-once"), takes, tmp_path / "out", "--jobs", "1"), 2)  # one of each marked take
    assert code == 0, errors
    assert_same(tmp_path / "out", clean)


def test_a_child_that_is_killed_twice_costs_its_take(takeset, library, takes, clean, tmp_path):
    code, errors = kill_children(started(preloaded(library, "wait"), takes, tmp_path / "out", "--jobs", "1"), 4)
    assert code == 3, errors
    costs_its_takes(takeset, takes, clean, tmp_path / "out", "conversion-crashed", "crashed twice", "Killed")


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_no_child_outlives_its_run(takeset, library, takes, clean, tmp_path, number, code):
    process = started(preloaded(library, "wait"), takes, tmp_path / "out", "--jobs", "2")
    found = waiting(process)
    found += [other for other in children(process.pid) if other not in found]
    assert len(found) >= 2  # one that converts, and the fork server
    process.send_signal(number)
    process.wait(timeout=300)
    process.stderr.close()
    assert process.returncode == code
    until(lambda: not any(map(is_running, found)), "all end")
    if number != signal.SIGKILL:
        assert unfinished(tmp_path / "out") == []
    takeset.convert(takes, output=tmp_path / "out")
    assert_same(tmp_path / "out", clean)


# What a decoder that has been taken over can do


@pytest.fixture
def surroundings(tmp_path):
    """A marked take and another; a directory outside; a process of the same user."""
    session(tmp_path / "takes/other")
    session(tmp_path / "takes/strange", marked=3)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("some text")
    victim = subprocess.Popen(["sleep", "600"])
    more = {
        "outside": tmp_path / "outside", "other": tmp_path / "takes/other/metadata.json", "victim": victim.pid, "report": tmp_path / "report",
    }
    yield tmp_path / "takes", more
    victim.kill()
    victim.wait()


def attempts(text):
    return dict(line.split(" ") for line in text.replace(r"\u000A", "\n").split("\n") if line)


@pytest.mark.parametrize("jobs", [1, 4])
def test_a_decoder_that_is_taken_over_can_do_nothing(takeset, library, surroundings, tmp_path, jobs):
    takes, more = surroundings
    before = {path: (path.read_bytes(), path.stat()) for path in [*takes.rglob("*.*"), tmp_path / "outside/file"] if path.is_file()}
    run(takeset, library, takes, tmp_path / "out", "attack", "--jobs", jobs, check=3, **more)
    found = entries(tmp_path / "out")
    assert {name: entry["outcome"] for name, entry in found.items()} == {"other": "written", "strange": "failed"}
    tried = attempts(found["strange"]["reason"])
    assert len(tried) == 48
    assert {name for name, code in tried.items() if code == "ok"} == {"own:write", "own:read", "own:libraries", "own:thread"}
    missing = {name for name, code in tried.items() if code == "ENOENT"}
    assert missing <= {"change:rmdir", "change:unlink"}  # what could not be made before
    assert set(tried.values()) <= {"ok", "EPERM", "EACCES", "ENOENT"}, tried
    for path, (data, status) in before.items():
        after = path.stat()
        assert path.read_bytes() == data and (after.st_mtime_ns, after.st_mode, after.st_ino) == (status.st_mtime_ns, status.st_mode, status.st_ino)
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["file"] and not (tmp_path / "report").exists()
    assert unfinished(tmp_path / "out") == []


def test_the_same_decoder_can_do_all_of_it_without_isolation(takeset, library, surroundings, tmp_path):
    """So the tries of the test above are such as could succeed."""
    takes, more = surroundings
    environment = preloaded(library, "attack", **more)
    takeset("run", takes, "--output", tmp_path / "out", "--isolate", "never", "--jobs", 1, check=0, env=environment)
    tried = attempts((tmp_path / "report").read_text())
    assert len(tried) == 48
    # Becoming the leader of a group is refused to who leads a session or is one already.
    impossible = {"process:group"} if os.getuid() == 0 else {"process:group", "root:directory"}
    assert {name: code for name, code in tried.items() if code != "ok" and name not in impossible} == {}


def test_limits_below_those_of_the_system_are_kept(takeset, takes, clean, tmp_path):
    """An administrator's limit that is lower stays; who may not raise it needs not."""
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
        resource.setrlimit(resource.RLIMIT_CPU, (600, 600))
        if os.getuid() == 0:  # gives up the right to raise limits (CAP_SYS_RESOURCE, 24), by PR_CAPBSET_DROP, before the program starts
            assert ctypes.CDLL(None, use_errno=True).prctl(24, 24, 0, 0, 0) == 0

    takeset("run", takes, "--output", tmp_path / "out", "--isolate", "always", check=0, preexec_fn=limit)
    assert_same(tmp_path / "out", clean)


@pytest.mark.parametrize("argument, word", [
    ("--take-memory=10M", "256M to 1024T"), ("--take-memory=1025T", "256M to 1024T"), ("--take-time=0", "1 to 604800"), ("--isolate=some", "isolate"),
])
def test_limits_that_make_no_sense(takeset, takes, tmp_path, argument, word):
    done = takeset("run", takes, "--output", tmp_path / "out", argument, check=64)
    assert word in done.stderr and not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_run_ends_however_little_memory_there_is(takeset, tmp_path):
    """Below 300 MiB of address space there is not always a thread to be had: a run that waits for one would never end."""
    takeset("simulate", "realitycam-bundle", "--output", tmp_path / "in/bundle", "--seconds", 0.2, "--size", "160x120", check=0)
    limited = ["sh", "-c", 'ulimit -c 0; ulimit -v "$1"; shift; exec "$@"', "sh"]
    said = []
    for mebibytes in range(240, 294, 2):
        command = [BINARY, "run", tmp_path / "in", "--output", tmp_path / f"out-{mebibytes}", "--jobs", "1", "--isolate", "always", "--progress", "none"]
        done = subprocess.run([*limited, str(mebibytes << 10), *map(str, command)], capture_output=True, text=True, timeout=300)
        said.append((done.returncode, "of memory" in done.stdout + done.stderr))
    assert (3, True) in said and all(code != 0 for code, _ in said), said
