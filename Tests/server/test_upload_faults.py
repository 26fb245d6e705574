"""`takeset upload` over bad connections, from bad servers, and after its own end."""

import base64
import email.utils
import hashlib
import os
import re
import signal
import threading
import time

import pytest
import uploads
from tus_stub import Fault, TusStub
from uploads import movie, random_bytes, session


def pauses(requests):
    times = [request.time for request in requests]
    return [b - a for a, b in zip(times, times[1:])]


# The connection


@pytest.mark.parametrize("cut", [0, 1, 70_000, 1_048_575])
@pytest.mark.parametrize("checksums", [True, False])
def test_a_cut_connection_goes_on_where_the_server_is(client, tmp_path, cut, checksums):
    stub = TusStub(checksums=checksums)
    path = movie(tmp_path)
    stub.fault("PATCH", Fault(), Fault(cut_after=cut), Fault(cut_after=1000))
    done = client.send(stub, path)
    stub.close()
    assert done.returncode == 0, done.stderr
    assert stub.kept(path.name) == path.read_bytes()
    assert len(stub.of("POST")) == 1
    # After each cut it asks, and sends from there on.
    offsets = [request.offset for request in stub.of("PATCH")]
    assert offsets[:3] == [0, 1_048_576, 1_048_576 + cut] and offsets[3] == offsets[2] + 1000
    assert len(stub.of("HEAD")) == 2
    assert ("upload-checksum" in stub.of("PATCH")[0].headers) == checksums


@pytest.mark.parametrize("capture_in", ["PATCH", "HEAD"])
def test_a_lost_last_answer_still_gives_the_capture(client, tmp_path, capture_in):
    stub = TusStub(capture_in=capture_in)
    path = movie(tmp_path, count=5000)
    stub.fault("PATCH", Fault(lose_answer=True))
    done = client.send(stub, path)
    stub.close()
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\t")[1] == stub.by_name(path.name)["capture"]
    assert len(stub.of("POST")) == 1 and stub.kept(path.name) == path.read_bytes()


def test_a_lost_answer_to_the_creation_leaves_one_finished_upload(stub, client, tmp_path):
    path = movie(tmp_path, count=5000)
    stub.fault("POST", Fault(lose_answer=True))
    assert client.send(stub, path).returncode == 0
    assert sorted(len(upload["data"]) for upload in stub.uploads.values()) == [0, 5000]


def test_a_silent_server_is_left_after_the_timeout(stub, client, tmp_path):
    released = threading.Event()
    stub.fault("PATCH", Fault(hold=released))
    began = time.monotonic()
    done = client.send(stub, movie(tmp_path, count=5000), "--timeout", "1")
    released.set()
    assert done.returncode == 0 and "did not answer in time" in done.stderr
    assert time.monotonic() - began < 50  # its default is a minute


def test_blocks_shrink_until_they_pass(stub, client, tmp_path):
    """A line that cuts every request after 100,000 bytes, which are lost because of the checksum."""
    path = movie(tmp_path, count=400_000)
    handle = stub.handle

    def cutting(http):
        if http.command == "PATCH" and int(http.headers["Content-Length"]) > 100_000:
            http.rfile.read(100_000)
            return stub.reset(http)
        return handle(http)

    stub.handle = cutting
    done = client.send(stub, path)
    assert done.returncode == 0, done.stderr
    assert stub.kept(path.name) == path.read_bytes()


# The server's answers


def test_attempts_come_at_growing_times_and_end(stub, client, tmp_path):
    stub.fault("POST", *[Fault(status=500)] * 20)
    done = client.run(movie(tmp_path, count=10), "--to", stub.url, "--first-pause", "0.1", "--max-attempts", "5")
    assert done.returncode == 3
    assert "the server answered 500; 5 attempts failed" in done.stderr
    waits = pauses(stub.of("POST"))
    assert len(waits) == 4
    said = [float(pause) for pause in re.findall(r"attempt \d of 5 in ([0-9.]+) s", done.stderr)]
    for number, (wait, pause) in enumerate(zip(waits, said, strict=True)):
        least = 0.1 * 2**number
        assert least - 0.05 <= pause <= least * 1.25 + 0.05 and wait >= least - 0.01, (waits, said)


def test_the_pause_is_spread_and_has_a_limit(stub, client, tmp_path):
    stub.fault("POST", *[Fault(status=503)] * 9)
    done = client.run(movie(tmp_path, count=10), "--to", stub.url, "--first-pause", "0.005")
    assert done.returncode == 0, done.stderr
    said = [float(line.rsplit(" in ", 1)[1].removesuffix(" s")) for line in done.stderr.splitlines() if "attempt" in line]
    assert len(said) == 9
    # 64 units and more would be 0.32 s and more; 60 units and a quarter are 0.375 s.
    assert said[6:] and all(0.3 <= pause <= 0.4 for pause in said[6:]), said


def test_progress_gives_new_attempts(stub, client, tmp_path):
    """More failures than attempts, but each after some more bytes."""
    path = movie(tmp_path, count=2_000_000)
    stub.fault("PATCH", *[Fault(cut_after=1000)] * 12)
    done = client.send(stub, path, "--max-attempts", "2")
    assert done.returncode == 0, done.stderr
    assert stub.kept(path.name) == path.read_bytes()


@pytest.mark.parametrize("status", [429, 503, 507])
@pytest.mark.parametrize("form", ["seconds", "date", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"])
def test_retry_after_is_honored(stub, client, tmp_path, status, form):
    """By what it says; nobody waits for the hour."""
    before = time.time()
    date = email.utils.formatdate(before + 3600, usegmt=True)
    # Also the two old forms of an HTTP date are still to be read.
    value = {"seconds": "3600", "date": date}.get(form, time.strftime(form, time.gmtime(before + 3600)))
    stub.fault("POST", Fault(status=status, headers={"Retry-After": value}))
    process = client.start(movie(tmp_path, count=10), "--to", stub.url, *uploads.QUICK)
    line = next(line for line in process.stderr if " in " in line and "attempt" in line)
    process.kill()
    process.communicate()
    pause = float(re.search(r" in ([0-9.]+) s$", line.rstrip())[1])
    assert pause == 3600 if form == "seconds" else before + 3598 - time.time() <= pause <= 3601


def test_a_pause_that_the_server_asks_for_is_kept(stub, client, tmp_path):
    stub.fault("POST", Fault(status=503, headers={"Retry-After": "1"}))
    assert client.send(stub, movie(tmp_path, count=10)).returncode == 0
    first, second = (request.time for request in stub.of("POST"))
    assert second - first >= 0.95


def test_one_that_waits_does_not_hold_up_the_others(stub, client, tmp_path):
    first, second = movie(tmp_path, "video_1.mov", 10), movie(tmp_path, "video_2.mov", 10, 5)
    stub.fault("POST", Fault(status=423, headers={"Retry-After": "1"}))
    assert client.send(stub, first, second, "--jobs", "1").returncode == 0
    posts = stub.of("POST")
    names = [base64.b64decode(post.headers["upload-metadata"].split(",")[0].split(" ")[1]).decode() for post in posts]
    assert names == ["video_1.mov", "video_2.mov", "video_1.mov"] and posts[2].time - posts[0].time >= 0.95


@pytest.mark.parametrize("status", [409, 423, 460])
def test_a_refused_block_is_sent_again(stub, client, tmp_path, status):
    path = movie(tmp_path)
    stub.fault("PATCH", Fault(), Fault(status=status), Fault(status=status))
    done = client.send(stub, path)
    assert done.returncode == 0, done.stderr
    assert stub.kept(path.name) == path.read_bytes() and len(stub.of("POST")) == 1


@pytest.mark.parametrize("offset", ["99999999", "0", "-1", "x", ""])
def test_nonsense_offsets_are_not_believed(stub, client, tmp_path, offset):
    path = movie(tmp_path, count=200_000)
    stub.fault("PATCH", Fault(headers={"Upload-Offset": offset}))
    done = client.send(stub, path)
    assert done.returncode == 0, done.stderr
    assert "acknowledged no new bytes" in done.stderr
    assert stub.kept(path.name) == path.read_bytes()


def test_an_upload_that_the_server_dropped_begins_anew(stub, client, tmp_path):
    path = movie(tmp_path)
    stub.fault("PATCH", Fault(), Fault(status=404))
    done = client.send(stub, path)
    assert done.returncode == 0 and "begins anew" in done.stderr
    assert len(stub.of("POST")) == 2
    assert bytes(list(stub.uploads.values())[-1]["data"]) == path.read_bytes()


def test_a_server_that_drops_every_upload_is_given_up(stub, client, tmp_path):
    path = movie(tmp_path, count=20_000_000)
    for _ in range(20):
        stub.fault("PATCH", Fault(), Fault(status=410))
    done = client.send(stub, path, "--max-attempts", "4")
    assert done.returncode == 3 and "4 attempts failed" in done.stderr
    assert len(stub.of("POST")) <= 8


def test_no_uploads_at_this_address(stub, client, tmp_path):
    stub.fault("POST", Fault(status=404))
    done = client.send(stub, movie(tmp_path, count=10))
    assert done.returncode == 1 and "is --to the root of a capture server?" in done.stderr
    assert [item["state"] for item in client.items().values()] == ["pending"]


# Its own end


def hold_after(stub, blocks):
    """The first blocks pass; the next one is not answered until the event is set."""
    released = threading.Event()
    stub.fault("PATCH", *[Fault()] * blocks, Fault(hold=released, cut_after=0))
    return released


@pytest.mark.parametrize("blocks", [0, 1, 2])
def test_a_killed_uploader_goes_on_where_it_was(stub, client, tmp_path, blocks):
    root = session(tmp_path, files=600)
    released = hold_after(stub, blocks)
    process = client.start(root, "--to", stub.url)
    stub.wait_until(lambda: len(stub.of("PATCH")) == blocks + 1)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    released.set()
    assert client.items()["session_1"]["state"] == "uploading"
    had = len(stub.kept("session_1.tar"))
    first = len(stub.of("PATCH"))

    done = client.send(stub)  # the queue knows what is to be done

    assert done.returncode == 0, done.stderr
    assert len(stub.of("POST")) == 1
    rest = stub.of("PATCH")[first:]
    assert rest[0].offset == had and sum(request.body_bytes for request in rest) == len(stub.kept("session_1.tar")) - had
    upload = stub.by_name("session_1.tar")
    assert hashlib.sha256(upload["data"]).hexdigest() == upload["metadata"]["sha256"]


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_uploader_leaves_the_queue_in_order(stub, client, tmp_path, number, code):
    path = movie(tmp_path)
    released = hold_after(stub, 1)
    process = client.start(path, "--to", stub.url, "--timeout", "3600")
    stub.wait_until(lambda: len(stub.of("PATCH")) == 2)
    process.send_signal(number)
    _, errors = process.communicate(timeout=300)
    released.set()
    assert process.returncode == code and "the queue goes on" in errors
    assert client.items()[path.name]["state"] == "pending"
    assert client.send(stub).returncode == 0
    assert len(stub.of("POST")) == 1 and stub.kept(path.name) == path.read_bytes()


def test_what_a_killed_uploader_had_is_taken_over_by_another(stub, client, tmp_path):
    path = movie(tmp_path)
    released = hold_after(stub, 1)
    first = client.start(path, "--to", stub.url)
    stub.wait_until(lambda: len(stub.of("PATCH")) == 2)
    other = movie(tmp_path / "b", "video_2.mov", 1000, 5)
    second = client.start(path, other, "--to", stub.url)
    # It passes over what the first one is at.
    stub.wait_until(lambda: any(upload["metadata"]["filename"] == other.name and "capture" in upload for upload in stub.uploads.values()))
    held = stub.of("PATCH")[0].path
    assert len([request for request in stub.of("PATCH") if request.path == held]) == 2
    first.kill()
    first.communicate()
    released.set()
    second.communicate(timeout=300)
    assert second.returncode == 0
    assert len(stub.of("POST")) == 2 and stub.kept(path.name) == path.read_bytes()


def test_a_file_that_changes_is_sent_as_it_became(stub, client, tmp_path):
    path = movie(tmp_path)
    released = hold_after(stub, 1)
    process = client.start(path, "--to", stub.url, *uploads.QUICK)
    stub.wait_until(lambda: len(stub.of("PATCH")) == 2)
    path.write_bytes(random_bytes(2_000_000, 77))
    released.set()
    process.communicate(timeout=300)
    assert process.returncode == 0
    assert stub.kept(path.name) == path.read_bytes(), "the first upload was removed, the second is whole"


def test_a_file_whose_times_do_not_show_a_change_is_sent_as_it_became(stub, client, tmp_path):
    path = movie(tmp_path)
    released = hold_after(stub, 1)
    process = client.start(path, "--to", stub.url, *uploads.QUICK)
    stub.wait_until(lambda: len(stub.of("PATCH")) == 2)
    times = path.stat()
    path.write_bytes(random_bytes(3_000_000, 78))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    released.set()
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0 and "it was changed while it was sent" in errors, errors
    assert stub.kept(path.name) == path.read_bytes()


def test_a_path_that_vanished_fails_with_a_sentence(stub, client, tmp_path):
    path = movie(tmp_path)
    stub.fault("POST", Fault(status=401))
    assert client.send(stub, path).returncode == 77
    path.unlink()
    done = client.send(stub)
    assert done.returncode == 3 and "cannot be read: No such file" in done.stderr


# Bandwidth


def test_the_bandwidth_is_shared_and_kept(stub, client, tmp_path):
    for number in range(3):
        movie(tmp_path / "in", f"video_{number}.mov", 500_000, number)
    began = time.monotonic()
    assert client.send(stub, tmp_path / "in", "--limit-rate", "600k").returncode == 0
    assert 1_500_000 / (600 * 1024) <= time.monotonic() - began
