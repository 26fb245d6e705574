"""`takeset upload` and the files of this machine: deleting them afterwards, watching a folder, a server that is not up yet."""

import os
import shutil
import signal
import time

import pytest
import uploads
from tus_stub import TusStub
from uploads import bundle, movie, random_bytes


# Deleting


def digests_of(folder):
    return [uploads.digest(path.read_bytes()) for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    "case, words",
    [
        ("unpacked", None),
        ("one-missing", "does not list the digests"),
        ("other", "does not list the digests"),
        ("empty", "does not list the digests"),
        ("unknown", "answered 404"),
        ("no-list", "does not list what it keeps"),
        ("no-id", "told no id"),
    ],
)
def test_nothing_is_deleted_without_proof(client, tmp_path, case, words):
    stub = TusStub(capture_in="never" if case == "no-id" else "PATCH")
    root = bundle(tmp_path)
    lists = {"unpacked": digests_of(root), "one-missing": digests_of(root)[1:], "other": ["0" * 64], "empty": []}
    act = stub.act

    def acting(http, request, body):
        if http.command == "GET":
            for capture in stub.captures:
                stub.captures[capture] = lists.get(case, [])
            if case == "unknown":
                stub.captures.clear()
            if case == "no-list":
                return 200, {}, b'{"data":{}}'
        return act(http, request, body)

    stub.act = acting
    done = client.send(stub, root, "--delete-after-upload")
    stub.close()
    assert done.returncode == 0, done.stderr
    assert root.exists() == (words is not None)
    if words:
        assert words in done.stderr and len(digests_of(root)) == 4


def test_what_was_changed_after_the_upload_is_not_deleted(stub, client, tmp_path):
    root = bundle(tmp_path)
    assert client.send(stub, root).returncode == 0
    times = os.stat(root / "depth.gz")
    (root / "depth.gz").write_bytes(random_bytes(9_000, 55))
    os.utime(root / "depth.gz", ns=(times.st_atime_ns, times.st_mtime_ns))  # only the bytes show it
    done = client.send(stub, root, "--delete-after-upload")
    assert "changed after it was sent" in done.stderr and len(digests_of(root)) == 4


def test_what_was_uploaded_before_is_deleted_when_asked_later(stub, client, tmp_path):
    path = movie(tmp_path)
    assert client.send(stub, path).returncode == 0 and path.exists()
    assert client.send(stub, path, "--delete-after-upload").returncode == 0 and not path.exists()
    assert len(stub.of("POST")) == 1


# Watching


def test_what_appears_is_sent_once_it_rests(stub, client, tmp_path):
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    movie(inbox, "video_0.mov", 1000)
    process = client.start("--watch", inbox, "--rest", "3", "--to", stub.url)
    stub.wait_until(lambda: len(stub.captures) == 1)
    # A folder that is still being copied: nothing of it goes before the last file has rested.
    source = bundle(tmp_path / "source")
    (inbox / "bundle_1").mkdir()
    for part in ("video.mp4", "depth.gz", "hash_chain.json", "metadata.json") * 3:  # 3.6 s, more than the rest
        shutil.copy(source / part, inbox / "bundle_1")
        last = time.monotonic()
        time.sleep(0.3)
    stub.wait_until(lambda: len(stub.captures) == 2)
    second = stub.of("POST")[1]
    assert second.time - last >= 3
    assert stub.by_name("bundle_1.tar")["metadata"]["kind"] == "bundle"
    (inbox / "notes.txt").write_text("no capture")
    movie(inbox, "video_0.mov", 1200, seed=8)  # changed
    stub.wait_until(lambda: len(stub.captures) == 3)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=300)
    assert process.returncode == 130
    assert len(stub.of("POST")) == 3


def test_a_watch_ends_where_a_key_is_wanted(client, tmp_path):
    stub = TusStub(key="tks_right")
    inbox = tmp_path / "inbox"
    movie(inbox, count=10)
    done = client.run("--watch", inbox, "--rest", "0", "--to", stub.url, timeout=300)
    stub.close()
    assert done.returncode == 77
