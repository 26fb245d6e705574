"""The process that forks those which convert takes: what happens to it, and on systems that cannot do what it needs."""

import os
import resource
import signal

import preloads
import pytest
from outputs import manifest
from strange_batch import clean, library, takes  # noqa: F401 (fixtures)
from strange_takes import assert_same, children, entries, is_running, movie, preloaded, session, started, unfinished, waiting
from system import limited, until


system = preloads.library("strange_system")


def server_of(process, child):
    (server,) = [other for other in children(process.pid) if other != child and is_running(other)]
    return server


def hanging(library, takes, output):
    """A run that needs another child from a server that is stopped, with the two; the child that it had is killed."""
    process = started(preloaded(library, "wait-once"), takes, output, "--jobs", "1")
    (child,) = waiting(process)
    server = server_of(process, child)
    os.kill(server, signal.SIGSTOP)
    os.kill(child, signal.SIGKILL)
    return process, server, child


def test_a_fork_server_that_is_killed_is_started_again(takeset, library, takes, clean, tmp_path):
    """Its child converts on; the next one has another server."""
    process = started(preloaded(library, "wait-once"), takes, tmp_path / "out", "--jobs", "1")
    servers, killed = [], []
    while len(killed) < 2:
        (child,) = waiting(process, killed)
        server = server_of(process, child)
        # A child is a copy of the server's only thread, and the server reads no file of a take.
        assert len(os.listdir(f"/proc/{server}/task")) == 1
        assert not any(os.readlink(f"/proc/{server}/fd/{number}").startswith(str(takes)) for number in os.listdir(f"/proc/{server}/fd"))
        for other in server, child:
            os.kill(other, signal.SIGKILL)
        servers.append(server)
        killed.append(child)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert len(set(servers)) == 2
    assert_same(tmp_path / "out", clean)


@pytest.mark.torture
def test_a_fork_server_that_hangs_is_replaced(takeset, library, takes, clean, tmp_path):
    """After the minute in which it has not answered."""
    process, server, first = hanging(library, takes, tmp_path / "out")
    (second,) = waiting(process, [first], seconds=600)
    assert not is_running(server)
    os.kill(second, signal.SIGKILL)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert_same(tmp_path / "out", clean)


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_whose_fork_server_hangs_can_be_stopped(library, takes, tmp_path, number, code):
    process, server, child = hanging(library, takes, tmp_path / "out")
    until(lambda: child not in children(process.pid), "the run has noticed")  # and asks for another
    process.send_signal(number)
    process.communicate(timeout=300)
    assert process.returncode == code
    assert not is_running(server) and unfinished(tmp_path / "out") == []


@pytest.mark.parametrize("clone", ["refused", "ignored"])
@pytest.mark.parametrize("jobs", [1, 4])
def test_a_system_that_makes_no_children_of_another_process(takeset, system, takes, clean, tmp_path, clone, jobs):
    """Emulators of Linux refuse the flag of clone for it, or ignore it. Then each child is a server of its own."""
    takeset("run", takes, "--output", tmp_path / "out", "--isolate", "always", "--jobs", jobs, check=0, env=preloaded(system, clone=clone))
    assert_same(tmp_path / "out", clean)


@pytest.mark.slow
@pytest.mark.parametrize("how, words", [("crash", "crashed twice"), ("exit", "ended with 1")])
def test_libraries_that_end_the_fork_server_cost_the_takes_that_need_them(takeset, system, takes, clean, tmp_path, how, words):
    takeset("run", takes, "--output", tmp_path / "out", "--isolate", "always", "--jobs", 2, check=3, env=preloaded(system, libraries=how))
    found = entries(tmp_path / "out")
    assert {name for name, entry in found.items() if entry["outcome"] == "written"} == {name for name in found if name.endswith("session")}
    for name in found:
        if name.endswith("movie"):
            assert words in found[name]["reason"], found[name]["reason"]
    takeset.convert(takes, output=tmp_path / "out")
    assert_same(tmp_path / "out", clean)


def test_libraries_that_cannot_be_loaded_once_cost_nothing(takeset, system, takes, clean, tmp_path):
    takeset("run", takes, "--output", tmp_path / "out", "--isolate", "always", "--jobs", 1, check=0, env=preloaded(system, libraries="miss", once=tmp_path / "missed"))
    assert (tmp_path / "missed").exists()
    assert_same(tmp_path / "out", clean)


@pytest.mark.parametrize("isolate", ["auto", "never"])
def test_without_the_libraries_sessions_are_converted(takeset, system, takes, tmp_path, isolate):
    takeset("run", takes, "--output", tmp_path / "out", "--isolate", isolate, check=3, env=preloaded(system, libraries="none"))
    found = entries(tmp_path / "out")
    assert {name for name, entry in found.items() if entry["outcome"] == "written"} == {name for name in found if name.endswith("session")}
    assert all("FFmpeg cannot be loaded" in entry["reason"] for entry in found.values() if entry["outcome"] == "failed")
    assert manifest(tmp_path / "out")["record"]["tool"]["libraries"]["ffmpeg"] == "none"


@pytest.mark.parametrize("mebibytes", [220, 240])  # with less, the command itself may have too little
def test_memory_that_is_too_little_for_libraries_is_no_fault_of_the_take(takeset, takes, tmp_path, mebibytes):
    """As where a service limits what it starts."""
    limit = limited(resource.RLIMIT_AS, mebibytes << 20)
    takeset("run", takes / "a-movie.mov", "--output", tmp_path / "out", "--isolate", "always", "--jobs", 1, check=3, preexec_fn=limit)
    (entry,) = entries(tmp_path / "out").values()
    assert [found["code"] for found in entry["findings"] if found["severity"] == "error"] == ["memory-limit"], entry["reason"]


@pytest.mark.parametrize("is_after_a_movie", [True, False])
def test_what_a_take_needs_of_its_memory_does_not_depend_on_those_before(takeset, tmp_path, is_after_a_movie):
    """Children start with the libraries for videos in memory once there was one."""
    if is_after_a_movie:
        movie(tmp_path / "takes/a.mov")
    (session(tmp_path / "takes/b") / "poses.json").write_text("{")
    takeset("run", tmp_path / "takes", "--output", tmp_path / "out", "--isolate", "always", "--take-memory", "256M", "--jobs", 1, check=3)
    assert "poses.json" in entries(tmp_path / "out")["b"]["reason"]
