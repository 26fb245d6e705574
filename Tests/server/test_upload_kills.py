"""`takeset upload` that is killed again and again, and a server that is: nothing is lost, nothing is there twice."""

import signal

import pytest
import uploads
from conftest import bytes_below
from proxies import Gate
from test_upload_server import captures, detail
from uploads import bundle, movie, session


def mixed(folder, count):
    """Captures of all kinds, each with bytes of its own."""
    for number in range(count):
        make = [
            lambda: movie(folder, f"video_{number}.mov", 300_000 + number, number),
            lambda: session(folder, f"session_{number}", files=20, seed=1000 * number),
            lambda: bundle(folder, f"bundle_{number}", seed=number),
        ]
        make[number % 3]()


def all_there(server, client, count):
    """Every capture of the queue is on the server, once, with the digest that was sent."""
    items, kept = client.items(), captures(server)
    assert len(items) == len(kept) == count
    assert {item["state"] for item in items.values()} == {"uploaded"}
    assert {item["capture_id"] for item in items.values()} == {capture["capture_id"] for capture in kept}
    for name, item in items.items():
        digests = {file["sha256"] for file in detail(server, item["capture_id"])["files"]}
        assert item["sha256"] in digests or "bundle" in name, name


def received(server):
    return bytes_below(server.data / "uploads") + bytes_below(server.data / "captures")


@pytest.mark.slow
@pytest.mark.parametrize("moments", [50])
def test_an_uploader_that_is_killed_again_and_again(server, client, tmp_path, moments):
    mixed(tmp_path / "in", 30)
    kills = 0
    for number in range(moments):
        had = received(server)
        process = client.start(tmp_path / "in", "--to", server.url, "--limit-rate", "60k", *uploads.QUICK)
        server.until(lambda: process.poll() is not None or received(server) >= had + 7919 * number % 40_000)
        kills += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert kills == moments, "every run was killed before its end"
    done = client.send(server, tmp_path / "in", timeout=300)
    assert done.returncode == 0, done.stderr
    all_there(server, client, 30)
    assert len(list((tmp_path / "in").iterdir())) == 30, "nothing is deleted here"


def test_a_server_that_is_killed_while_uploads_run(server, client, tmp_path):
    mixed(tmp_path / "in", 12)
    process = client.start(tmp_path / "in", "--to", server.url, "--limit-rate", "900k", "--first-pause", "0.05", "--max-attempts", "100")
    for number in range(4):
        server.until(lambda: process.poll() is not None or received(server) >= 250_000 * (number + 1))
        assert process.poll() is None
        server.restart()
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    all_there(server, client, 12)


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_at_once(server, client, tmp_path, number, code):
    """Whoever waited for the server would wait for an hour: it is stopped."""
    mixed(tmp_path / "in", 9)
    process = client.start(tmp_path / "in", "--to", server.url, "--limit-rate", "200k", "--timeout", "3600")
    server.until(lambda: bytes_below(server.data / "uploads") > 0)
    server.process.send_signal(signal.SIGSTOP)
    try:
        process.send_signal(number)
        _, errors = process.communicate(timeout=300)
    finally:
        server.process.send_signal(signal.SIGCONT)
    assert process.returncode == code and "interrupted; the queue goes on" in errors
    assert client.send(server, timeout=300).returncode == 0
    all_there(server, client, 9)


def test_a_kill_while_files_are_deleted_sends_no_half_folder(server, client, tmp_path):
    """What is left of a folder whose deletion was cut off has a hidden name."""
    inbox = tmp_path / "in"
    root = session(inbox, files=1500)
    process = client.start(inbox, "--to", server.url, "--delete-after-upload")
    while process.poll() is None:
        if not root.exists():
            process.kill()
    process.communicate()
    assert not root.exists()
    left = [path.name for path in inbox.iterdir()]
    assert all(name.startswith(".session_1.uploaded-") for name in left), left
    done = client.send(server, inbox)
    assert done.returncode == 1 and "no capture in it" in done.stderr
    assert len(captures(server)) == 1 and client.items()["session_1"]["state"] == "uploaded"


@pytest.mark.parametrize("change", ["grows", "vanishes", "changes"])
def test_files_that_change_while_they_are_sent(server, client, tmp_path, change):
    root = tmp_path / "in"
    path = movie(root, "video_1.mov", 2_000_000)
    gate = Gate(server.port, 100_000)
    process = client.start(root, "--to", gate.url, *uploads.QUICK)
    assert gate.reached.wait(300)
    if change == "grows":
        with path.open("ab") as file:
            file.write(b"more" * 1000)
    elif change == "vanishes":
        path.unlink()
    else:
        path.write_bytes(uploads.random_bytes(2_000_000, 99))
    gate.opened.set()
    _, errors = process.communicate(timeout=300)
    if change == "vanishes":
        assert process.returncode == 3 and "cannot be read: No such file" in errors and not captures(server)
        return
    assert process.returncode == 0, errors
    assert "it was changed while it was sent" in errors
    (item,) = captures(server)
    assert uploads.digest(path.read_bytes()) in {file["sha256"] for file in detail(server, item["capture_id"])["files"]}
