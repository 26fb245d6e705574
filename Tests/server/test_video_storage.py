"""Row 63: disks that are full; quotas, memory, and speed."""

import time

import pytest
import requests
from devices import add_key
from phone import LIMITS, Phone, capture, error, exchange, head, rows
from resumable import SESSION, Tus, zipped
from test_keys import bearer

FULL = (507, "STORAGE_ERROR")


def nothing_is_kept(server):
    return not list((server.data / "captures").iterdir()) and not list((server.data / "staging").iterdir())


def test_below_the_reserve_nothing_is_accepted(start):
    server = start("--reserve", 1 << 60)
    assert error(Phone(server).send(capture(), "s1")) == FULL
    assert error(Tus(server).send("POST", "/files", Upload_Length=5)) == FULL
    for place, data in (("s.zip", zipped(SESSION)), ("s/files/a", b"x")):
        assert error(requests.put(f"{server.url}/api/v1/sessions/{place}", data=data, timeout=300)) == FULL
    assert nothing_is_kept(server) and server.get("/health").ok


def test_a_body_that_would_leave_less_than_the_reserve(start, small_disk):
    """Refused by its length, before it comes."""
    server = start("--reserve", 12 << 20, data=small_disk / "data")
    phone = Phone(server)
    answer = exchange(server, head({**phone.headers(scheme="s1"), "Content-Length": 16 << 20}))
    assert answer.startswith(b"HTTP/1.1 507")


@pytest.mark.parametrize("chunked", [False, True])
def test_a_disk_that_becomes_full(start, small_disk, chunked):
    """Not even the reserve is asked for, so that it is the write that fails."""
    server = start("--reserve", 0, data=small_disk / "data")
    phone = Phone(server)
    kept = phone.send(capture(1), "s1").json()["data"]["capture_id"]
    body = capture(2, video=bytes(40 << 20)).body()
    pieces = (body[start:start + 65536] for start in range(0, len(body), 65536))
    answer = phone.post(pieces if chunked else body, phone.headers(body, "s1"))
    assert error(answer) == FULL
    assert [path.name for path in (server.data / "captures").iterdir()] == [kept]
    assert not list((server.data / "staging").iterdir())
    # The space is there again.
    assert phone.send(capture(3, video=bytes(4 << 20)), "s1").status_code == 202


def test_a_reserve_that_is_reached_meanwhile(start, small_disk):
    server = start("--reserve", 6 << 20, data=small_disk / "data")
    phone = Phone(server)
    body = capture(video=bytes(40 << 20)).body()
    pieces = (body[start:start + 65536] for start in range(0, len(body), 65536))
    assert error(phone.post(pieces, phone.headers(body, "s1"))) == FULL
    assert nothing_is_kept(server)


@pytest.mark.parametrize("quota", ["device", "project"])
def test_a_body_over_the_quota_is_refused_before_it_comes(start, quota):
    server = start(f"--{quota}-quota", 1 << 20, "--videos-per-hour", 100)
    phone = Phone(server)
    body = capture(1, video=bytes(600_000)).body()
    first = phone.post(body, phone.headers(body, "s1"))
    assert first.status_code == 202
    for length in (500_000, 50 << 20):
        answer = exchange(server, head({**phone.headers(scheme="s1"), "Content-Length": length}))
        assert answer.startswith(b"HTTP/1.1 507") and b"QUOTA_EXCEEDED" in answer
    # What was answered before takes no room, and what fits comes in.
    assert phone.post(body, phone.headers(body, "s1")).text == first.text
    assert phone.send(capture(2, video=bytes(400_000)), "s1").status_code == 202
    assert quota == "project" or Phone(server, 2).send(capture(4, video=bytes(400_000)), "s1").status_code == 202
    # Without a length only the end can tell.
    body = capture(3, video=bytes(100_000)).body()
    assert error(phone.post(iter([body]), phone.headers(body, "s1"))) == (507, "QUOTA_EXCEEDED")
    assert len(list((server.data / "captures").iterdir())) == 2 + (quota == "device") and not list((server.data / "staging").iterdir())


def test_memory_does_not_grow_with_the_video(server):
    """100 MiB, which is the limit; in all the server stays below 100 MB."""
    phone = Phone(server)
    assert phone.send(capture(1), "s1").status_code == 202
    before = server.memory()
    video = bytes(LIMITS["video"])
    start = time.monotonic()
    answer = phone.send(capture(2, video=video), "s1")
    seconds = time.monotonic() - start
    assert answer.status_code == 202
    id = answer.json()["data"]["capture_id"]
    assert (server.data / "captures" / id / "video.mp4").stat().st_size == len(video)
    print(f"100 MiB in {seconds:.2f} s; {before >> 20} MB before, {server.memory() >> 20} MB at most")
    assert server.memory() - before < 24 << 20
    assert server.memory() < 100 << 20
    # A byte more is refused.
    larger = phone.send(capture(3, video=video + b"x"), "s1")
    assert error(larger) == (413, "PAYLOAD_TOO_LARGE")


def test_a_thousand_refused_requests_do_not_add_up(server):
    """Bodies of 16 MB whose senders are turned away."""
    phone = Phone(server)
    headers = {**phone.headers(scheme="s0"), "X-Device-Signature": "AAAA", "Content-Length": 16 << 20}
    for _ in range(20):
        exchange(server, head(headers))
    before = server.memory()
    for _ in range(300):
        answer = exchange(server, head(headers))
        assert answer.startswith(b"HTTP/1.1 401")
    assert server.memory() - before < 8 << 20


def test_a_project_is_that_of_the_key_or_of_the_device(start):
    server = start()
    phone = Phone(server, project="hall")
    assert phone.send(capture(1), "s1").status_code == 202
    assert phone.send(capture(2), "s1", headers=bearer(add_key(server, "--project", "kitchen"))).status_code == 202
    assert rows(server, "SELECT project FROM capture ORDER BY receivedAt") == [("hall",), ("kitchen",)]
    assert error(phone.send(capture(3), "s1", headers=bearer("wrong"))) == (401, "KEY_REQUIRED")


def test_devices_need_no_key(start):
    server = start("--require-key")
    assert Phone(server).send(capture(), "s1").status_code == 202
    assert requests.get(f"{server.url}/api/v1/captures", timeout=300).status_code == 401
