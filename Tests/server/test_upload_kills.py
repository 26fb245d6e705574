"""`takeset upload` that is killed again and again, and a server that is: nothing is lost, nothing is there twice."""

import signal

import pytest
import uploads
from conftest import bytes_below
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
