"""Slow, idle and too many connections."""

import time
from concurrent.futures import ThreadPoolExecutor

import requests
from devices import session
from wire import GET, LAST_GET, Wire, post


def test_a_request_head_has_its_time(start):
    server = start("--head-seconds", 1)
    with Wire(server, GET) as kept:
        assert kept.status() == 200
        began = time.monotonic()
        with Wire(server, "GET /health HT") as slow, Wire(server) as silent:
            assert slow.rest() == silent.rest() == b""
        assert time.monotonic() - began >= 1  # and not the hour that servers of tests give
        # A connection that has had an answer may rest longer.
        assert kept.send(LAST_GET).statuses() == [200]


def test_an_answer_that_nobody_reads_is_given_up(start):
    server = start("--idle-seconds", 1, "--log-level", "debug")
    movie = b"\0\0\0\x08free" + b"x" * 20_000_000
    name = server.post("/upload", files={"video": ("a.mov", movie)}).json()["filename"]
    with Wire(server, f"GET /uploads/{name} HTTP/1.1\r\nHost: localhost\r\n\r\n", small=True) as wire:
        assert wire.status() == 200
        server.until(lambda: "the answer is not read" in server.log.read_text())
        assert len(wire.rest()) < len(movie)


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
    server.until(server.is_well)


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
    server.until(server.is_well)
    assert server.memory() - before < 40e6


def many(server):
    """Connections that send nothing, and others that send a body slowly."""
    slow = post("/upload", "Content-Length: 1000000", "Content-Type: video/mp4", body="x")
    return [Wire(server) for _ in range(1000)], [Wire(server, slow) for _ in range(200)]


def test_200_slow_and_1000_idle_connections_hold_up_nobody(start):
    server = start("--address-connections", 2000)
    before = server.memory()
    idle, slow = many(server)
    for _ in range(100):
        for wire in slow[::10]:
            wire.send("x")
        assert server.get("/health").status_code == 200
    # All were answered while each of the others was still there.
    assert not any(wire.is_closed() for wire in idle + slow) and server.memory() - before < 60e6


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
        assert server.process.wait(timeout=300) == 0
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
    # Whoever waited for those heads would wait for an hour.
    assert session().get(f"{server.url}/health", timeout=300).status_code == 200
    for wire in held:
        wire.close()
    server.until(server.is_well)


def test_a_trusted_proxy_may_have_more(start):
    server = start("--address-connections", 5, "--trusted-proxy", "127.0.0.9")
    proxy, other = ([session(address) for _ in range(100)] for address in ("127.0.0.9", "127.0.0.8"))
    assert {one.get(f"{server.url}/health", timeout=300).status_code for one in proxy} == {200}
    found = []
    for one in other:
        try:
            found.append(one.get(f"{server.url}/health", timeout=300).status_code)
        except requests.ConnectionError:
            found.append(0)
    assert found[:5] == [200] * 5 and 503 in found and 200 not in found[5:]
