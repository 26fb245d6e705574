"""Rows 60, 61 and 67: twenty requests at once. Each is sent but for its last byte; the last bytes go together."""

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from bundles import APP
from phone import Phone, capture, error, head, rows

STRICT = ("--policy", "strict", "--app-id", APP)
TOGETHER = 20


def answer_of(data):
    fields, body = data.split(b"\r\n\r\n", 1)
    first, *lines = fields.decode().split("\r\n")
    headers = {name.title(): value for name, value in (line.split(": ", 1) for line in lines)}
    return SimpleNamespace(status_code=int(first.split()[1]), headers=headers, text=body.decode(), json=lambda: json.loads(body))


def at_once(server, requests):
    """The answers to requests (headers, body), in their order."""
    together = threading.Barrier(len(requests))

    def send(request):
        headers, body = request
        with socket.create_connection(("127.0.0.1", server.port), timeout=300) as connection:
            connection.sendall(head({**headers, "Content-Length": len(body), "Connection": "close"}) + body[:-1])
            together.wait(60)
            connection.sendall(body[-1:])
            return answer_of(b"".join(iter(lambda: connection.recv(65536), b"")))

    with ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(send, requests))


def outcomes(answers):
    return sorted("202" if answer.status_code == 202 else "%d %s" % error(answer) for answer in answers)


def kept(server):
    """The number of captures, which have all their files; nothing else is there."""
    ids = {id for id, in rows(server, "SELECT id FROM capture")}
    assert {path.name for path in (server.data / "captures").iterdir()} == ids
    assert list((server.data / "staging").iterdir()) == []
    for id in ids:
        found = {path.name: path.stat().st_size for path in (server.data / "captures" / id).iterdir()}
        assert found == dict(rows(server, "SELECT name, bytes FROM file WHERE capture = ?", id)) and len(found) == 5
    assert rows(server, "SELECT COUNT(*) FROM conversion") == [(len(ids),)]
    return len(ids)


@pytest.mark.parametrize("scheme", ["s0", "s1", "s2"])
def test_the_same_parts_word_for_word_and_signed_anew(start, scheme):
    server = start("--policy", "compat", "--app-id", APP)
    for number, anew in ((1, False), (2, True)):
        phone, body = Phone(server, number), capture(number).body()
        headers = phone.headers(body, scheme)
        answers = at_once(server, [(phone.headers(body, scheme) if anew else headers, body) for _ in range(TOGETHER)])
        assert outcomes(answers) == ["202"] * TOGETHER and len({answer.text for answer in answers}) == 1
        assert kept(server) == number
        assert anew or rows(server, "SELECT COUNT(*) FROM seenAssertion") == [(scheme != "s0",)]


def test_one_counter_with_different_bodies(start):
    server = start(*STRICT, "--videos-per-hour", 100)
    phone = Phone(server)
    for counter in (7, 3):
        bodies = [capture(100 * counter + number).body() for number in range(TOGETHER)]
        answers = at_once(server, [(phone.headers(body, counter=counter), body) for body in bodies])
        assert outcomes(answers) == ["202"] + ["401 REPLAY_DETECTED"] * (TOGETHER - 1)
    assert kept(server) == 2
    assert rows(server, "SELECT counter FROM seenAssertion ORDER BY counter") == [(3,), (7,)]


def test_one_signature_of_the_head_with_different_bodies(start):
    server = start(*STRICT)
    phone = Phone(server)
    headers = phone.headers(scheme="s1")
    answers = at_once(server, [(headers, capture(number).body()) for number in range(TOGETHER)])
    assert outcomes(answers) == ["202"] + ["401 REPLAY_DETECTED"] * (TOGETHER - 1)
    assert kept(server) == 1


@pytest.mark.parametrize("scheme", ["s0", "s1", "s2"])
def test_one_idempotency_key_with_different_bodies(start, scheme):
    server = start("--policy", "compat", "--app-id", APP, "--videos-per-hour", 100)
    phone = Phone(server)
    bodies = [capture(number).body() for number in range(TOGETHER)]
    answers = at_once(server, [({**phone.headers(body, scheme), "Idempotency-Key": "a"}, body) for body in bodies])
    assert outcomes(answers) == ["202"] + ["409 IDEMPOTENCY_KEY_REUSED"] * (TOGETHER - 1)
    assert kept(server) == 1
    # The losers did not use up their signatures.
    again = [phone.post(body, phone.headers(body, scheme)) for body in bodies]
    assert outcomes(again) == ["202"] * TOGETHER and kept(server) == TOGETHER


def test_one_idempotency_key_with_the_same_body(start):
    server = start(*STRICT)
    phone, body = Phone(server), capture().body()
    answers = at_once(server, [({**phone.headers(body, "s2"), "Idempotency-Key": "a"}, body) for _ in range(TOGETHER)])
    assert outcomes(answers) == ["202"] * TOGETHER and len({answer.text for answer in answers}) == 1
    assert kept(server) == 1


@pytest.mark.parametrize("scheme", ["s0", "s1", "s2"])
def test_five_an_hour(start, scheme):
    """All are let in, for none is counted yet; the transaction accepts five."""
    server = start("--policy", "compat", "--app-id", APP)
    phone = Phone(server)
    bodies = [capture(number).body() for number in range(TOGETHER)]
    began = time.monotonic()
    answers = at_once(server, [(phone.headers(body, scheme), body) for body in bodies])
    assert outcomes(answers) == ["202"] * 5 + ["429 RATE_LIMITED"] * (TOGETHER - 5)
    assert all(3598 - (time.monotonic() - began) <= int(answer.headers["Retry-After"]) <= 3600 for answer in answers if answer.status_code == 429)
    assert kept(server) == 5


def test_the_limit_is_that_of_a_device(start):
    server = start("--videos-per-hour", 1)
    phones = [Phone(server, number) for number in range(1, 6)]
    requests = [(phone.headers(scheme="s1"), capture(number).body()) for number in range(4) for phone in phones]
    assert outcomes(at_once(server, requests)) == ["202"] * 5 + ["429 RATE_LIMITED"] * 15
    assert rows(server, "SELECT COUNT(DISTINCT device) FROM capture") == [(5,)] and kept(server) == 5


@pytest.mark.parametrize("quota", ["device", "project"])
def test_a_quota_that_one_of_them_fills(start, quota):
    """Each fits when it begins; what a device and a project have is looked at again in the transaction."""
    server = start(f"--{quota}-quota", 150_000, "--videos-per-hour", 100)
    phones = [Phone(server, 1)] * TOGETHER if quota == "device" else [Phone(server, number + 1) for number in range(TOGETHER)]
    bodies = [capture(video=bytes([number]) * 60_000).body() for number in range(TOGETHER)]
    answers = at_once(server, [(phone.headers(body, "s1"), body) for phone, body in zip(phones, bodies, strict=True)])
    assert outcomes(answers) == ["202"] * 2 + ["507 QUOTA_EXCEEDED"] * (TOGETHER - 2)
    assert kept(server) == 2
    assert rows(server, "SELECT SUM(bytes) <= 150000 FROM capture") == [(1,)]
