"""`takeset upload` that is killed again and again, and a server that is: nothing is lost, nothing is there twice."""

import random
import signal
import time

import pytest
import uploads
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


@pytest.mark.slow
@pytest.mark.parametrize("moments", [50])
def test_an_uploader_that_is_killed_at_random_moments(server, client, tmp_path, moments):
    mixed(tmp_path / "in", 30)
    moment = random.Random(moments)
    kills = 0
    for _ in range(moments):
        process = client.start(tmp_path / "in", "--to", server.url, "--limit-rate", "60k", *uploads.QUICK)
        time.sleep(moment.uniform(0.03, 0.6))
        if process.poll() is None:
            kills += 1
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert kills == moments, "every run was killed before its end"
    done = client.send(server, tmp_path / "in", timeout=120)
    assert done.returncode == 0, done.stderr
    all_there(server, client, 30)
    assert len(list((tmp_path / "in").iterdir())) == 30, "nothing is deleted here"


def test_a_server_that_is_killed_while_uploads_run(server, client, tmp_path):
    mixed(tmp_path / "in", 12)
    process = client.start(tmp_path / "in", "--to", server.url, "--limit-rate", "900k", "--first-pause", "0.05", "--max-attempts", "100")
    moment = random.Random(7)
    for _ in range(4):
        time.sleep(moment.uniform(0.1, 0.5))
        server.restart()
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    all_there(server, client, 12)


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_within_a_second(server, client, tmp_path, number, code):
    mixed(tmp_path / "in", 9)
    took = []
    # A machine that has other work may be late now and then, but not each time.
    while not took or (took[-1] > 1.5 and len(took) < 4):
        process = client.start(tmp_path / "in", "--to", server.url, "--limit-rate", "200k")
        server.until(lambda: any(path.stat().st_size > 0 for path in (server.data / "uploads").rglob("*") if path.is_file()))
        began = time.monotonic()
        process.send_signal(number)
        _, errors = process.communicate(timeout=20)
        took.append(time.monotonic() - began)
        assert process.returncode == code and "interrupted; the queue goes on" in errors
    assert min(took) < 1.5, took
    assert client.send(server, timeout=60).returncode == 0
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
    process = client.start(root, "--to", server.url, "--limit-rate", "1M", *uploads.QUICK)
    server.until(lambda: any(part.stat().st_size > 100_000 for part in (server.data / "uploads").rglob("*") if part.is_file()))
    if change == "grows":
        with path.open("ab") as file:
            file.write(b"more" * 1000)
    elif change == "vanishes":
        path.unlink()
    else:
        path.write_bytes(uploads.random_bytes(2_000_000, 99))
    _, errors = process.communicate(timeout=60)
    if change == "vanishes":
        assert process.returncode == 3 and "cannot be read: No such file" in errors and not captures(server)
        return
    assert process.returncode == 0, errors
    assert "it was changed while it was sent" in errors
    (item,) = captures(server)
    assert uploads.digest(path.read_bytes()) in {file["sha256"] for file in detail(server, item["capture_id"])["files"]}
