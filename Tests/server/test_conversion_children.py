"""Child processes of conversions: their limits, what they inherit, what becomes of those that hang, crash or eat memory."""

import json
import sys
import time

import pytest

from queued import TAKESET, bundle, connect, evidence, fake, finished, merged, queue, real, row, running

PYTHON = sys.executable


def test_hanging_child_is_ended_with_its_group(start, tmp_path):
    command = fake(tmp_path, "hang", f"{PYTHON} -c 'import time; time.sleep(3600)' {tmp_path}/marker &\necho $! >>{tmp_path}/children\ntrap '' TERM INT\nwait")
    server = start("--takeset", command, "--conversion-seconds", 3, "--conversion-attempts", 2, conversions=1)
    capture = queue(server.data, "video", bundle(tmp_path / "1"))
    found = finished(server, capture)
    assert len((tmp_path / "children").read_text().split()) == 2
    assert (found["status"], found["reason"]) == ("failed", "The conversion took longer than 3 seconds. It was tried 2 times.")
    assert (found["state"], found["attempts"]) == ("done", 2)
    server.until(lambda: not running(f"{tmp_path}/marker"))
    server.until(lambda: list((server.data / "conversions/.work").iterdir()) == [])
    assert server.get("/health").ok


def test_memory_is_limited(start, tmp_path):
    command = fake(tmp_path, "eat", f"exec {PYTHON} -c 'x = [b\"x\" * (1 << 20) for _ in range(4096)]'")
    server = start("--takeset", command, "--conversion-memory", 512 << 20, "--conversion-attempts", 1, conversions=1)
    found = finished(server, queue(server.data, "video", bundle(tmp_path / "1")))
    assert found["status"] == "failed" and "MemoryError" in found["lastError"]


def test_too_little_memory_never_rejects_a_capture(start, tmp_path):
    server = start("--takeset", TAKESET, "--conversion-memory", 256 << 20, "--conversion-attempts", 1, conversions=1)
    found = finished(server, queue(server.data, "video", bundle(tmp_path / "1", "--size", "1920x1440")))
    assert (found["status"], found["evidence"]) == ("failed", None) and "memory" in found["lastError"]


def test_every_capture_is_decoded_in_a_process_that_can_do_nothing_else(start, tmp_path):
    """What such a process cannot do is in Tests/python/runs/test_isolation.py; sessions are otherwise converted without one."""
    server = start("--takeset", fake(tmp_path, "args", f'echo "$@" >>{tmp_path}/seen; exit 70'), "--conversion-attempts", 1, conversions=1)
    finished(server, queue(server.data, "video", bundle(tmp_path / "1")), queue(server.data, "session", {"session/poses.json": b"{}"}))
    assert [" --isolate always " in line for line in (tmp_path / "seen").read_text().splitlines()] == [True, True]


@pytest.mark.parametrize("end", ["kill -SEGV $$", "kill -KILL $$", "exit 1", "exit 75"])
def test_crashes_are_tried_again(start, tmp_path, end):
    count = tmp_path / "count"
    gate = f"while [ ! -e {tmp_path}/go$n ]; do sleep 0.02; done"
    command = real(tmp_path, "crash", f"echo run >>{count}\nn=$(wc -l <{count})\n{gate}\n[ $n -gt 2 ] || {end}")
    server = start("--takeset", command, conversions=1)
    capture = queue(server.data, "video", bundle(tmp_path / "1"))
    for number, pause in ((1, 1000), (2, 4000)):
        before = int(time.time() * 1000)
        (tmp_path / f"go{number}").touch()
        failed = server.until(lambda: (found := row(server.data, capture))["attempts"] == number and found)
        assert before + pause <= failed["notBefore"] <= int(time.time() * 1000) + pause
        with connect(server.data) as database:  # nobody waits for it here
            database.execute("UPDATE conversion SET notBefore = 0")
    (tmp_path / "go3").touch()
    found = finished(server, capture)
    assert (found["status"], found["attempts"], found["lastError"]) == ("complete", 3, None)
    assert count.read_text().count("run") == 3
    merged(server, capture)


def test_crashes_end_after_the_last_attempt(start, tmp_path):
    command = fake(tmp_path, "crash", f"echo run >>{tmp_path}/count; echo {tmp_path}/secret >&2; kill -ABRT $$")
    server = start("--takeset", command, "--conversion-attempts", 2, conversions=1)
    found = finished(server, queue(server.data, "video", bundle(tmp_path / "1")))
    assert (found["status"], found["reason"]) == ("failed", "The conversion stopped unexpectedly. It was tried 2 times.")
    assert "signal 6" in found["lastError"] and (tmp_path / "count").read_text().count("run") == 2


@pytest.mark.parametrize("command", ["/nowhere/takeset", "no-such-command"])
def test_missing_converter(start, tmp_path, command):
    server = start("--takeset", command, "--conversion-attempts", 1, conversions=1)
    found = finished(server, queue(server.data, "video", bundle(tmp_path / "1")))
    assert (found["status"], found["reason"]) == ("failed", "The server's converter cannot be started.")
    assert "not found" in found["lastError"]


def test_result_without_a_manifest(start, tmp_path):
    server = start("--takeset", fake(tmp_path, "none", "exit 0"), "--conversion-attempts", 1, conversions=1)
    found = finished(server, queue(server.data, "video", bundle(tmp_path / "1")))
    assert (found["status"], found["reason"]) == ("failed", "The conversion gave no result.")


def test_nothing_is_inherited(start, tmp_path):
    look = tmp_path / "look.py"
    look.write_text(
        "import json, os, resource\n"
        "links = {n: os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{n}')}\n"
        "found = dict(files=links, environment=dict(os.environ), leads=os.getpgid(0) == os.getppid(),\n"
        "  memory=resource.getrlimit(resource.RLIMIT_AS)[0])\n"
        f"json.dump(found, open('{tmp_path}/found.json', 'w'))\n")
    # Python ignores signals of its own accord, so the shell says what it was given.
    command = real(tmp_path, "look", f"grep SigIgn /proc/$$/status >{tmp_path}/signals\n{PYTHON} {look}")
    server = start("--takeset", command, conversions=1, environment={"AWS_SECRET_ACCESS_KEY": "hidden", "TAKESET_SERVER_LOG_LEVEL": "debug"})
    assert finished(server, queue(server.data, "video", bundle(tmp_path / "1")))["status"] == "complete"
    found = json.loads((tmp_path / "found.json").read_text())
    files = {int(number): path for number, path in found["files"].items()}
    assert files.pop(0) == "/dev/null" and files.pop(1).startswith("pipe:") and files.pop(2).startswith("pipe:")
    assert all("/proc/" in path for path in files.values()), files
    assert not any(name.startswith(("AWS", "TAKESET")) for name in found["environment"])
    assert found["memory"] == 4 << 30 and found["leads"]
    # Signals 32 and 33 belong to the C library.
    assert int((tmp_path / "signals").read_text().split()[1], 16) & 0x7FFFFFFF == 0


def test_no_more_than_so_many_at_a_time(start, tmp_path):
    log = tmp_path / "log"
    command = fake(tmp_path, "slow", f"echo + >>{log}; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done; '{TAKESET}' \"$@\"; code=$?; echo - >>{log}; exit $code")
    parts = [bundle(tmp_path / str(seed), "--seed", seed) for seed in range(1, 6)]
    server = start("--takeset", command, conversions=2)
    captures = [queue(server.data, "video", part) for part in parts]
    server.until(lambda: log.exists() and log.read_text().count("+") == 2)
    (tmp_path / "go").touch()
    assert all(found["status"] == "complete" for found in finished(server, *captures))
    merged(server, *captures)
    now = most = 0
    for line in log.read_text().split():
        now += 1 if line == "+" else -1
        most = max(most, now)
    assert (now, most) == (0, 2)


def test_log_stays_small(start, tmp_path):
    command = fake(tmp_path, "loud", "head -c 200000000 /dev/zero | tr '\\0' x; echo; echo the end; kill -KILL $$")
    server = start("--takeset", command, "--conversion-attempts", 1, conversions=1)
    before = server.memory()
    found = finished(server, queue(server.data, "video", bundle(tmp_path / "1")))
    assert found["status"] == "failed" and found["lastError"].rstrip().endswith("the end") and len(found["lastError"]) <= 4000
    assert server.memory() - before < 30 << 20
    assert server.log.stat().st_size < 100_000


def test_children_end_with_a_killed_server(start, tmp_path):
    command = fake(tmp_path, "hang", f"{PYTHON} -c 'import time; time.sleep(3600)' {tmp_path}/marker")
    server = start("--takeset", command, conversions=1)
    capture = queue(server.data, "video", bundle(tmp_path / "1"))
    server.until(lambda: running(f"{tmp_path}/marker"))
    server.kill()
    server.until(lambda: not running(f"{tmp_path}/marker"))
    assert row(server.data, capture)["state"] == "running"


def test_ending_the_server_ends_conversions_which_start_again(start, tmp_path):
    once = tmp_path / "once"
    command = real(tmp_path, "hang", f"[ -e {once} ] || {{ touch {once}; exec {PYTHON} -c 'import time; time.sleep(3600)' {tmp_path}/marker; }}")
    server = start("--takeset", command, conversions=1)
    capture = queue(server.data, "video", bundle(tmp_path / "1"))
    server.until(lambda: running(f"{tmp_path}/marker"))
    begun = time.monotonic()
    assert server.stop() == 0 and time.monotonic() - begun < 25  # whoever waited would wait for the half minute that requests have
    server.until(lambda: not running(f"{tmp_path}/marker"))
    assert row(server.data, capture)["attempts"] == 0
    server.start()
    found = finished(server, capture)
    assert (found["status"], found["attempts"]) == ("complete", 1)


def test_deleted_while_it_is_converted(start, tmp_path):
    command = real(tmp_path, "slow", f"touch {tmp_path}/begun; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done")
    server = start("--takeset", command, conversions=1)
    capture = queue(server.data, "video", bundle(tmp_path / "1"))
    server.until((tmp_path / "begun").exists)
    with connect(server.data) as database:
        database.execute("DELETE FROM capture WHERE id = ?", (capture,))
    (tmp_path / "go").touch()
    second = queue(server.data, "video", bundle(tmp_path / "2", "--seed", 2))
    assert evidence(finished(server, second))["rows"] == 30
    merged(server, second)
    server.until(lambda: sorted(path.name for path in (server.data / "conversions").iterdir()) == sorted([".work", second]))


def test_conversions_wait_for_space(start, tmp_path):
    server = start("--takeset", TAKESET, "--reserve", 1 << 59, conversions=1)
    capture = queue(server.data, "video", bundle(tmp_path / "1"))
    server.until(lambda: "conversions wait" in server.log.read_text())
    assert row(server.data, capture)["state"] == "waiting"
    server.stop()
    server = start("--takeset", TAKESET, data=server.data, conversions=1)
    assert finished(server, capture)["status"] == "complete"


def test_an_outcome_that_cannot_be_written_is_tried_again(start, tmp_path):
    """As on a disk that fills up meanwhile."""
    server = start("--takeset", real(tmp_path, "slow", f"touch {tmp_path}/begun; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done"), conversions=1)
    capture = queue(server.data, "video", bundle(tmp_path / "1"))
    server.until((tmp_path / "begun").exists)
    with connect(server.data) as database:
        database.execute("CREATE TRIGGER full BEFORE UPDATE ON conversion BEGIN SELECT RAISE(FAIL, 'no space left'); END")
    (tmp_path / "go").touch()
    server.until(lambda: server.log.read_text().count("no space left") >= 2)
    assert (row(server.data, capture)["status"], row(server.data, capture)["state"]) == ("processing", "running")
    with connect(server.data) as database:
        database.execute("DROP TRIGGER full")
    found = finished(server, capture)
    assert (found["status"], found["attempts"]) == ("complete", 2)
    merged(server, capture)
