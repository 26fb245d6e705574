"""Child processes that were taken over and lie, and surroundings that are not as usual: neither costs more than the take."""

import errno
import os
import signal

import pytest
from preloads import library
from strange_takes import assert_same, entries, preloaded, session, started, unfinished, waiting

GOOD = {"a", "z"}


@pytest.fixture(scope="module")
def takes(tmp_path_factory):
    root = tmp_path_factory.mktemp("answers") / "takes"
    for name in "a", "liar", "z":
        session(root / name)
    return root


@pytest.fixture(scope="module")
def clean(takes, takeset, tmp_path_factory):
    output = tmp_path_factory.mktemp("clean") / "out"
    takeset.convert(takes, output=output)
    return output


liar, old_kernel, strange_decoder = library("lying_child"), library("old_kernel"), library("strange_decoder")


def quoted(text):
    """Text of a record as it is in a child's answer."""
    return text.replace('"', '\\"')


def costs_its_take(takeset, preload, takes, clean, output, refused=None, **lie):
    """The reason why the liar's take failed. The others are there, the dataset is sound, and the next run makes it whole."""
    environment = os.environ | {"LD_PRELOAD": str(preload), "LD_LIAR": quoted('"id":"liar"')} | {f"LD_{k.upper()}": v for k, v in lie.items()} | (refused or {})
    takeset("run", takes, "--output", output, "--isolate", "always", "--jobs", 2, check=3, env=environment)
    found = entries(output)
    assert {name for name, entry in found.items() if entry["outcome"] == "written"} == GOOD
    assert {path.stem for path in (output / "episodes").iterdir()} == GOOD and unfinished(output) == []
    takeset("verify", output, check=0)
    takeset.convert(takes, output=output)
    assert_same(output, clean)
    return found["liar"]["reason"]


# Changes of the answer, and of the records in it, which are texts in JSON.
LIES = {
    "nothing": "", "no results": "[]", "no JSON": "{]", "deeply nested": "[" * 100_000,
    "another path": "episodes\\/liar.h5>..\\/..\\/liar.h5", "another file": "episodes\\/liar.h5>episodes\\/a.h5",
} | {
    what: quoted(lie) for what, lie in {
        "a longer id": '"id":"liar">"id":"..\\/liar"',
        "more rows than there are numbers": '"samples":8>"samples":9223372036854775807', "fewer rows than none": '"samples":8>"samples":-8',
        "more bytes": '"bytes":>"bytes":9', "a part of none": '"outcome":"written">"outcome":"written","part":7',
        "a rejection with a shard": '"outcome":"written">"outcome":"rejected"', "another reader": '"reader":"stack-session">"reader":"other"',
    }.items()
}


@pytest.mark.slow
@pytest.mark.parametrize("what", LIES)
def test_an_answer_that_cannot_be(takeset, liar, takes, clean, tmp_path, what):
    assert "the child process that converted the take" in costs_its_take(takeset, liar, takes, clean, tmp_path / "out", lie=LIES[what])


@pytest.mark.slow
@pytest.mark.parametrize("act", ["unlink", "shorten", "link", "garble"])
@pytest.mark.parametrize("has_landlock", [True, False])
def test_a_shard_that_is_not_there_or_none(takeset, liar, old_kernel, takes, clean, tmp_path, act, has_landlock):
    """Without Landlock, a child can make links."""
    preload, refused = (liar, {}) if has_landlock else (f"{old_kernel} {liar}", {"LANDLOCK_ERROR": str(errno.ENOSYS)})
    reason = costs_its_take(takeset, preload, takes, clean, tmp_path / "out", refused, lie_shard=act)
    assert "left no shard, or another one" in reason


@pytest.mark.slow
def test_an_answer_without_end(takeset, liar, takes, clean, tmp_path):
    """It is kept in memory, which is limited: 64 MiB and a little for each file of the take, and 1 MiB of words."""
    reason = costs_its_take(takeset, liar, takes, clean, tmp_path / "out", lie_length="1000")
    assert reason.strip().endswith(" MiB") and 64 <= int(reason.split()[-2]) <= 66, reason[:200]


def test_what_a_child_has_open_and_knows(takes, strange_decoder, tmp_path):
    """No secrets of the environment, no files but its own, and not the rights of root."""
    session(tmp_path / "takes/strange", marked=3)
    (tmp_path / "secret").write_text("x")
    secrets = {"AWS_SECRET_ACCESS_KEY": "do-not-tell", "HOME": "/root/of-someone", "TAKESET_KEY": "do-not-tell"}
    with open(tmp_path / "secret") as secret:
        process = started(preloaded(strange_decoder, "wait") | secrets, tmp_path / "takes", tmp_path / "out", "--jobs", "1", pass_fds=[secret.fileno()])
        assert os.path.exists(f"/proc/{process.pid}/fd/{secret.fileno()}")  # the command has it
        (child,) = waiting(process)
        with open(f"/proc/{child}/environ") as file:
            names = {pair.partition("=")[0] for pair in file.read().split("\0") if pair}
        opened = {number: os.readlink(f"/proc/{child}/fd/{number}") for number in os.listdir(f"/proc/{child}/fd")}
        with open(f"/proc/{child}/status") as file:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        process.terminate()
        process.communicate(timeout=300)
    assert {name for name in names if not name.startswith(("LD_", "MALLOC_", "SWIFT_"))} <= {"LANG", "LC_ALL", "TZ", "HDF5_USE_FILE_LOCKING"}
    assert "LD_STRANGE" in names
    own = ("/dev/null", "/memfd:takeset", str(tmp_path / "takes/strange"), str(tmp_path / "out/.attempt-"))
    assert [path for path in opened.values() if not path.startswith(own)] == []
    assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1"
    assert int(status["CapEff"], 16) & ~0b110 == 0 and int(status["CapPrm"], 16) & ~0b110 == 0  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH


@pytest.mark.slow
@pytest.mark.parametrize("variable, words", [
    ({"LANDLOCK_ERROR": errno.ENOSYS}, "no Landlock"), ({"LANDLOCK_ERROR": errno.EPERM}, "no Landlock"),
    ({"SECCOMP_ERROR": errno.ENOSYS}, "no seccomp filters"), ({"SECCOMP_ERROR": errno.EPERM}, "no seccomp filters"),
    ({"SECCOMP_ERROR": errno.EINVAL}, "no seccomp filters"),
    ({"LANDLOCK_ERROR": errno.EPERM, "SECCOMP_ERROR": errno.EPERM}, "neither Landlock nor seccomp filters"),
])
def test_what_a_system_cannot_enforce_is_said(takeset, old_kernel, takes, clean, tmp_path, variable, words):
    """EPERM is the answer of older containers to system calls that they do not know."""
    environment = os.environ | {"LD_PRELOAD": str(old_kernel)} | {name: str(value) for name, value in variable.items()}
    done = takeset("run", takes, "--output", tmp_path / "out", "--isolate", "always", check=0, env=environment)
    assert words in done.stderr
    assert_same(tmp_path / "out", clean)
    takeset("plan", takes, "--output", tmp_path / "tasks", "--tasks", check=0)
    done = takeset("convert", tmp_path / "tasks", "--task", 0, "--count", 3, "--isolate", "always", check=0, env=environment)
    assert done.stderr.count(words) == 1
    assert takeset("convert", tmp_path / "tasks", "--task", 0, check=0, env=environment).stderr == ""  # no child converts it


def test_whoever_starts_the_command_may_ignore_the_end_of_children(takeset, takes, clean, tmp_path):
    def ignore():
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    takeset("run", takes, "--output", tmp_path / "out", "--isolate", "always", check=0, preexec_fn=ignore, restore_signals=False)
    assert_same(tmp_path / "out", clean)


@pytest.mark.parametrize("jobs", [1, 4, 8, 16])
def test_a_bad_take_is_not_short_of_memory(takeset, tmp_path, jobs):
    """However much address space the stacks and heaps of its threads reserve."""
    (session(tmp_path / "takes/t") / "poses.json").write_text("{")
    takeset("run", tmp_path / "takes", "--output", tmp_path / "out", "--isolate", "always", "--take-memory", "256M", "--jobs", jobs, check=3)
    assert "poses.json" in entries(tmp_path / "out")["t"]["reason"]


def test_the_largest_limits(takeset, takes, clean, tmp_path):
    most = ["--take-memory", "1024T", "--take-time", 604_800, "--jobs", 1024]
    takeset("run", takes, "--output", tmp_path / "out", "--isolate", "always", *most, check=0)
    assert_same(tmp_path / "out", clean)


@pytest.mark.slow
def test_a_child_that_is_stopped_is_killed_at_the_limit_of_time(takeset, takes, strange_decoder, tmp_path):
    session(tmp_path / "takes/strange", marked=3)
    process = started(preloaded(strange_decoder, "wait"), tmp_path / "takes", tmp_path / "out", "--jobs", "1", "--take-time", "3")
    (child,) = waiting(process)
    os.kill(child, signal.SIGSTOP)
    process.communicate(timeout=300)
    assert process.returncode == 3 and not os.path.exists(f"/proc/{child}")
    assert "longer than 3 s" in entries(tmp_path / "out")["strange"]["reason"]
