"""Slow, idle and too many connections."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import requests
from devices import session
from wire import GET, LAST_GET, Wire, post


def answers(server, count=20):
    """Seconds of the slowest of some requests."""
    slowest = 0
    for _ in range(count):
        began = time.monotonic()
        assert server.get("/health").status_code == 200
        slowest = max(slowest, time.monotonic() - began)
    return slowest


def test_a_request_head_has_its_time(start):
    server = start("--head-seconds", 1)
    with Wire(server, "GET /health HT") as slow, Wire(server) as silent, Wire(server, GET) as kept:
        assert kept.status() == 200
        assert 0.5 < slow.seconds_until_closed() < 4
        assert silent.seconds_until_closed() < 3
        # A connection that has had an answer may rest longer.
        assert kept.send(LAST_GET).statuses() == [200]


def test_a_head_sent_byte_by_byte_gains_no_time(start):
    server = start("--head-seconds", 1)
    with Wire(server, "GET /health HTTP/1.1\r\nX-Slow: ") as wire:
        began = time.monotonic()
        try:
            while time.monotonic() - began < 5:
                wire.send("x")
                time.sleep(0.1)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert time.monotonic() - began < 4


def test_a_body_of_single_bytes_is_cut_off_without_an_answer(start):
    server = start("--idle-seconds", 1)
    with Wire(server, post("/upload", "Content-Length: 100000", "Content-Type: video/mp4", body="x")) as wire:
        began = time.monotonic()
        try:
            while time.monotonic() - began < 6:
                wire.send("x")
                time.sleep(0.1)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert time.monotonic() - began < 5
        assert wire.rest() == b""
    server.until(lambda: not list((server.data / "staging").iterdir()))


def test_a_body_at_a_fair_rate_may_take_its_time(start):
    server = start("--idle-seconds", 1)
    with Wire(server, post("/upload", "Content-Length: 20000", "Content-Type: video/mp4", body="\0\0\0\x08free")) as wire:
        for _ in range(24):
            wire.send("x" * 500)
            time.sleep(0.1)
        wire.send("x" * (20_000 - 8 - 24 * 500))
        assert wire.status() == 200


def test_an_answer_that_nobody_reads_is_given_up(start):
    server = start("--idle-seconds", 1)
    movie = b"\0\0\0\x08free" + b"x" * 20_000_000
    name = server.post("/upload", files={"video": ("a.mov", movie)}).json()["filename"]
    with Wire(server, f"GET /uploads/{name} HTTP/1.1\r\nHost: localhost\r\n\r\n", small=True) as wire:
        assert wire.status() == 200
        time.sleep(4)
        assert len(wire.rest()) < len(movie)


def test_an_idle_connection_is_closed(start):
    server = start("--idle-seconds", 1)
    with Wire(server, GET) as wire:
        assert wire.status() == 200
        assert 0.5 < wire.seconds_until_closed() < 4


def test_beyond_the_limit_of_connections_503_says_when_to_come_again(start):
    server = start("--connections", 20)
    held = [Wire(server) for _ in range(20)]
    answer = server.until(lambda: (found := Wire(server, LAST_GET).rest()).startswith(b"HTTP/1.1 503 ") and found)
    assert b"\r\nretry-after: " in answer.lower()
    # A phone would take the 503 for a success.
    with Wire(server, post("/upload", "Content-Length: 3", body="abc")) as phone:
        assert phone.rest() == b""
    for wire in held:
        wire.close()
    server.until(lambda: requests.get(server.url + "/health", timeout=5).status_code == 200)


def test_1000_connections_at_once_are_answered_or_turned_away(start):
    server = start("--connections", 100)
    before = server.memory()
    held = [Wire(server) for _ in range(1000)]
    for wire in held:
        try:
            wire.send(LAST_GET)
        except (BrokenPipeError, ConnectionResetError):
            pass
    with ThreadPoolExecutor(50) as pool:
        outcomes = list(pool.map(lambda wire: wire.statuses(), held))
    assert all(outcome in ([200], [503], []) for outcome in outcomes)
    assert outcomes.count([200]) >= 100 and outcomes.count([503]) > 0
    for wire in held:
        wire.close()
    server.until(lambda: requests.get(server.url + "/health", timeout=5).status_code == 200)
    assert server.memory() - before < 40e6


def test_200_slow_and_1000_idle_connections_hold_up_nobody(start):
    server = start("--head-seconds", 8, "--idle-seconds", 8, "--address-connections", 2000)
    answers(server)
    before = server.memory()
    idle = [Wire(server) for _ in range(1000)]
    slow = [Wire(server, post("/upload", "Content-Length: 1000000", "Content-Type: video/mp4", body="x")) for _ in range(200)]
    has_ended = threading.Event()

    def drip():
        while not has_ended.wait(0.5):
            for wire in slow:
                try:
                    wire.send("x")
                except OSError:
                    pass

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        # All are accepted when this is answered.
        answers(server, 1)
        assert answers(server, 100) < 1
        with ThreadPoolExecutor(20) as pool:
            began = time.monotonic()
            assert all(data == b"" for data in pool.map(lambda wire: wire.rest(), idle + slow))
            assert time.monotonic() - began < 30
    finally:
        has_ended.set()
        thread.join()
    assert server.memory() - before < 60e6
    assert answers(server) < 1


def test_the_end_of_the_server_waits_for_requests_under_way(start):
    server = start()
    body = "\0\0\0\x08free" + "x" * 92
    with Wire(server, post("/upload", "Content-Length: 100", "Content-Type: video/mp4", body=body[:50])) as wire, Wire(server, GET) as idle:
        assert idle.status() == 200
        server.until(lambda: list((server.data / "staging").iterdir()))
        server.process.terminate()
        idle.rest()
        assert server.process.poll() is None
        wire.send(body[50:])
        assert wire.status() == 200
        assert server.process.wait(timeout=30) == 0
    assert len(start(data=server.data).get("/videos").json()["videos"]) == 1


def test_one_address_cannot_have_all_connections(start):
    """It sends heads that are never complete; another address is answered at once."""
    server = start("--connections", 400)
    held = [Wire(server, "GET /health HT") for _ in range(300)]
    answer = server.until(lambda: (found := Wire(server, LAST_GET).rest()).startswith(b"HTTP/1.1 503 ") and found)
    assert b"\r\nretry-after: " in answer.lower()
    for _ in range(500):
        try:
            held.append(Wire(server, "GET /health HT"))
        except (BrokenPipeError, ConnectionResetError):
            pass
    began = time.monotonic()
    assert session().get(f"{server.url}/health", timeout=30).status_code == 200
    assert time.monotonic() - began < 5
    for wire in held:
        wire.close()
    server.until(lambda: requests.get(server.url + "/health", timeout=5).status_code == 200)


def test_a_trusted_proxy_may_have_more(start):
    server = start("--address-connections", 5, "--trusted-proxy", "127.0.0.9")
    proxy, other = ([session(address) for _ in range(100)] for address in ("127.0.0.9", "127.0.0.8"))
    assert {one.get(f"{server.url}/health", timeout=30).status_code for one in proxy} == {200}
    found = []
    for one in other:
        try:
            found.append(one.get(f"{server.url}/health", timeout=30).status_code)
        except requests.ConnectionError:
            found.append(0)
    assert found[:5] == [200] * 5 and 503 in found and 200 not in found[5:]
