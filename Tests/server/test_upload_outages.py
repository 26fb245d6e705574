"""`takeset upload` and servers that take nothing for a while, answer rubbish, or are full."""

import socket
import threading
import time

import pytest
import uploads
from conftest import free_port
from tus_stub import Fault, TusStub
from uploads import movie


def movies(folder, count):
    return [movie(folder, f"video_{number}.mov", 1000, number) for number in range(count)]


def states(client):
    return [item["state"] for _, item in sorted(client.items().items())]


# One server, many captures


@pytest.mark.parametrize("status", [429, 502, 503, 504, 507])
def test_a_server_that_takes_nothing_is_asked_by_one_at_a_time(stub, client, tmp_path, status):
    movies(tmp_path / "in", 30)
    asks = status == 503
    stub.fault("POST", *[Fault(status=status, headers={"Retry-After": "1"} if asks else {})] * 2)
    done = client.send(stub, tmp_path / "in", "--jobs", "1")
    assert done.returncode == 0, done.stderr
    posts = stub.of("POST")
    assert len(posts) == 32 and len(stub.captures) == 30
    assert not asks or all(posts[number + 1].time - posts[number].time >= 1 for number in range(2))


def test_a_server_that_is_away_ends_the_run_and_costs_no_capture_its_attempts(client, tmp_path):
    movies(tmp_path / "in", 20)
    port = free_port()
    done = client.run(tmp_path / "in", "--to", f"http://127.0.0.1:{port}", *uploads.QUICK, "--max-attempts", "4")
    assert done.returncode == 3
    assert "no server answers there; 4 attempts failed" in done.stderr and "20 wait for another run" in done.stderr
    assert states(client) == ["pending"] * 20
    stub = TusStub(port=port)
    assert client.send(stub).returncode == 0
    stub.close()
    assert len(stub.captures) == 20 and states(client) == ["uploaded"] * 20


def test_one_bad_capture_does_not_hold_up_the_others(stub, client, tmp_path):
    movies(tmp_path / "in", 10)
    act = stub.act

    def acting(http, request, body):
        if http.command == "POST" and "dmlkZW9fMy5tb3Y=" in request.headers["upload-metadata"]:  # video_3.mov
            return 500, {}, b""
        return act(http, request, body)

    stub.act = acting
    done = client.run(tmp_path / "in", "--to", stub.url, "--first-pause", "0.2", "--max-attempts", "3", "--jobs", "1")
    assert done.returncode == 3 and "video_3.mov: failed: the server answered 500; 3 attempts failed" in done.stderr
    assert states(client).count("uploaded") == 9 and states(client)[3] == "failed"
    refused = [request.time for request in stub.of("POST") if "dmlkZW9fMy5tb3Y=" in request.headers["upload-metadata"]]
    assert len(refused) == 3 and len([request for request in stub.of("POST") if request.time < refused[1]]) > 3


def test_a_watch_outlasts_any_outage(client, tmp_path):
    inbox, port = tmp_path / "inbox", free_port()
    path = movie(inbox, count=1000)
    process = client.start("--watch", inbox, "--rest", "0", "--to", f"http://127.0.0.1:{port}", "--first-pause", "0.001")
    lines = [process.stderr.readline() for _ in range(14)]
    assert "attempt 14 in" in lines[-1], lines
    stub = TusStub(port=port)
    stub.wait_until(lambda: stub.captures)
    process.terminate()
    process.communicate(timeout=300)
    stub.close()
    assert process.returncode == 143 and stub.kept(path.name) == path.read_bytes()


# Answers that are none


class Rude:
    """Answers every connection with some bytes, perhaps after it has read a part of the request, and closes it."""

    def __init__(self, answer, reads=1):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url, self.connections = f"http://127.0.0.1:{self.listener.getsockname()[1]}", 0
        self.server, self.reads = answer, reads
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            with connection:
                try:
                    if self.reads:
                        connection.recv(65536)
                    connection.sendall(self.server)
                except OSError:
                    pass


@pytest.mark.parametrize(
    "answer, reads",
    [
        (b"", 0), (b"", 1), (b"SSH-2.0-OpenSSH_9.2\r\n", 1), (b"\x00\xff" * 500, 1), (b"HTTP/1.1 999999 X\r\n\r\n", 1),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", 1), (b"HTTP/1.1 201 Created\r\nLocation: http://[::bad\r\n\r\n", 1),
        (b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n", 1),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 15\r\n\r\n<html>Router!</", 1),
    ],
)
def test_rubbish_is_a_failed_attempt(client, tmp_path, answer, reads):
    rude = Rude(answer, reads)
    path = movie(tmp_path, count=10)
    done = client.run(path, "--to", rude.url, *uploads.QUICK, "--max-attempts", "3", "--timeout", "2")
    rude.listener.close()
    assert done.returncode == 3 and "3 attempts failed" in done.stderr, done.stderr
    assert 3 <= rude.connections <= 9 and "rror:" not in done.stderr
    assert path.exists() and client.items()[path.name]["state"] == "failed"


def test_a_server_that_says_nothing_after_the_body(stub, client, tmp_path):
    released = threading.Event()
    answer = stub.answer

    def answering(http, *arguments):
        if http.command == "PATCH" and not released.is_set():
            stub.wait_until(lambda: stub.of("HEAD"))  # it has given up, and asks how much is there
            released.set()
        answer(http, *arguments)

    stub.answer = answering
    began = time.monotonic()
    done = client.send(stub, movie(tmp_path, count=5000), "--timeout", "1")
    assert done.returncode == 0 and "did not answer in time" in done.stderr
    assert time.monotonic() - began < 50  # its default is a minute
    # All the bytes were there: nothing is sent again.
    assert sum(request.body_bytes for request in stub.of("PATCH")) == 5000 and len(stub.captures) == 1


# The real server


def test_a_full_server_takes_everything_once_there_is_room(start, client, tmp_path):
    server = start("--reserve", 1 << 60)
    movies(tmp_path / "in", 5)
    process = client.start(tmp_path / "in", "--to", server.url, "--first-pause", "0.2")
    lines = [process.stderr.readline() for _ in range(4)]
    assert any("answered 507" in line for line in lines), lines
    server.options = []
    server.restart()
    process.communicate(timeout=300)
    assert process.returncode == 0
    assert len(server.get("/api/v1/captures").json()["data"]) == 5


# The queue itself


def test_a_queue_that_cannot_be_written_is_a_sentence(stub, client, tmp_path):
    client.state.parent.mkdir(parents=True)
    client.state.write_bytes(b"no database" * 500)
    done = client.send(stub, movie(tmp_path, count=10))
    assert done.returncode == 1 and done.stderr.startswith("takeset: cannot open the queue") and not stub.requests


def test_only_the_owner_reads_the_queue(stub, client, tmp_path):
    assert client.send(stub, movie(tmp_path, count=10)).returncode == 0
    assert {path.stat().st_mode & 0o77 for path in client.state.parent.iterdir()} == {0}
