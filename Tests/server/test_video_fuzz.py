"""Rows 51 to 54: thousands of requests that are almost a phone's, over raw sockets. Whatever comes, the server answers it or closes the
connection, soon, never with a failure of its own, and keeps nothing but what it accepted."""

import contextlib
import random
import re

import pytest
from bundles import APP, form_part
from phone import PATH, Phone, capture, exchange, rows
from wire import Wire

BOUNDARY = "RialVideo-0E36A7E2-6B4B-4BC2-A86C-6E1E5A1A8F10"
ODD = [
    b"", b"\0", b"\r", b"\n", b"\r\n", b"\r\n\r\n", b"--", b"\r\n--", b"\r\n--" + BOUNDARY.encode(), b"\r\n--" + BOUNDARY.encode() + b"--\r\n", b'"', b"\\",
    b";", b":", b"=", b"\xff\xfe", b"\xe2\x80\xae", b"%00", b"../", b"9" * 40, b"-1", b"NaN", b"{", b"[" * 600, b" " * 300, b"\t", b"multipart/mixed; boundary=x",
    b'name="video"', b"Content-Disposition: form-data\r\n", b"\xf0\x9f\x8e\xa5", b"x" * 9000,
]
HEADS = [
    b"Content-Type", b"X-Device-Id", b"X-Device-Timestamp", b"X-Device-Signature", b"Idempotency-Key", b"X-Request-Id", b"Authorization", b"Expect",
    b"Connection", b"Accept", b"User-Agent", b"Host", b"Content-Length", b"Transfer-Encoding", b"Content-Encoding",
]
# Answers that fit what was sent; 5xx is none of them.
ALLOWED = {100, 202, 400, 401, 403, 404, 405, 409, 411, 413, 414, 417, 421, 429, 431}


def changed(dice, data):
    """A few changes anywhere."""
    data = bytearray(data)
    for _ in range(dice.choice([1, 1, 1, 2, 3, 8])):
        place = dice.randrange(len(data) + 1)
        end = min(len(data), place + dice.choice([0, 1, 1, 2, 7, 60, 2000]))
        match dice.randrange(6):
            case 0 if place < len(data):
                data[place] ^= 1 << dice.randrange(8)
            case 1:
                data[place:end] = b""
            case 2:
                data[place:place] = data[place:end]
            case 3:
                data[place:place] = dice.choice(ODD)
            case 4:
                data[place:end] = dice.randbytes(dice.randrange(20))
            case _:
                data[place:end] = dice.choice(ODD)
    return bytes(data)


def request(dice, phone, number):
    """Head and body; at least one of them is wrong, or the parts are."""
    found = capture(number % 50)
    data = found.body()
    parts = list(found.parts().items())
    kind = dice.randrange(8)
    if kind == 0:
        chosen = [dice.choice(parts) for _ in range(dice.randrange(7))]
        data = b"".join(form_part(BOUNDARY, name, "f", "a/b", content) for name, content in chosen) + f"--{BOUNDARY}--\r\n".encode()
    elif kind == 1:
        name = dice.choice([name for name, _ in parts])
        data = capture(number % 50, **{name: changed(dice, dict(parts)[name])}).body()
    elif kind < 5:
        data = changed(dice, data)
    scheme = dice.choice(["s0", "s1", "s2"])
    headers = phone.headers(data, scheme)
    fields = [(name.encode(), value.encode()) for name, value in headers.items()] + [(b"Host", b"localhost"), (b"Connection", b"close")]
    fields.append((b"Idempotency-Key", b"key %d" % dice.randrange(20)) if dice.random() < 0.2 else (b"Accept", b"*/*"))
    body = data
    if dice.random() < 0.3:
        sizes = [1, 7, 100, 5000]
        pieces, place = [], 0
        while place < len(data):
            size = dice.choice(sizes)
            pieces.append(b"%x\r\n%b\r\n" % (len(data[place:place + size]), data[place:place + size]))
            place += size
        body = b"".join(pieces) + b"0\r\n\r\n"
        if dice.random() < 0.3:
            body = changed(dice, body)
        fields.append((b"Transfer-Encoding", b"chunked"))
    else:
        length = len(data) + (dice.choice([-1, 1, -100, 100, 10**9]) if dice.random() < 0.1 else 0)
        fields.append((b"Content-Length", b"%d" % max(0, length)))
    dice.shuffle(fields)
    if kind > 4:
        for _ in range(dice.choice([1, 1, 2])):
            place = dice.randrange(len(fields))
            match dice.randrange(4):
                case 0:
                    fields.pop(place)
                case 1:
                    fields.append(dice.choice(fields))
                case 2:
                    fields.append((dice.choice(HEADS), dice.choice(ODD)))
                case _:
                    name, value = fields[place]
                    fields[place] = (name, changed(dice, value))
    line = f"POST {PATH} HTTP/1.1\r\n".encode()
    opening = line + b"".join(name + b": " + value + b"\r\n" for name, value in fields) + b"\r\n"
    if dice.random() < 0.1:
        opening = changed(dice, opening)
    return opening, body


def answers(server, opening, body, dice):
    """The statuses of all answers until the server closes. A client of `Connection: close` that has sent everything waits for no more."""
    whole = opening + body
    cut = dice.randrange(len(whole))
    with Wire(server) as wire:
        with contextlib.suppress(OSError):
            wire.send(whole[:cut]).send(whole[cut:]).half_close()
        data = wire.rest()
    return [int(status) for status in re.findall(rb"HTTP/1\.[01] (\d{3}) ", data)], data


def resident(server):
    """Bytes of memory that the server has now."""
    with open(f"/proc/{server.process.pid}/statm") as found:
        return int(found.read().split()[1]) * 4096


def fuzz(server, count, seed):
    dice = random.Random(seed)
    phone = Phone(server)
    phone.send(capture(), "s1")
    seen, before = {}, 0
    for number in range(count):
        if number % 40 == 0:
            # Neither the hourly limit nor the past decides all the rest.
            rows(server, "UPDATE capture SET receivedAt = receivedAt - 4000000")
        opening, body = request(dice, phone, number)
        statuses, data = answers(server, opening, body, dice)
        assert set(statuses) <= ALLOWED, (number, statuses, data[:500], opening[:2000])
        assert server.process.poll() is None, number
        for status in statuses or [0]:
            seen[status] = seen.get(status, 0) + 1
        if number == count // 3:
            before = resident(server)
    print(f"{count} requests, statuses {dict(sorted(seen.items()))}, "
          f"memory {before >> 20} MB after a third, {resident(server) >> 20} MB at the end, {server.memory() >> 20} MB at most")
    # The fuzz reaches what it is for.
    assert seen[202] > count // 50 and seen[400] > count // 10 and seen[401] > count // 50
    assert resident(server) - before < 16 << 20 and server.memory() < 150 << 20
    server.until(lambda: not list((server.data / "staging").iterdir()))
    known = {id for id, in rows(server, "SELECT id FROM capture")}
    assert {path.name for path in (server.data / "captures").iterdir()} == known
    for id in known:
        found = {path.name: path.stat().st_size for path in (server.data / "captures" / id).iterdir()}
        assert found == dict(rows(server, "SELECT name, bytes FROM file WHERE capture = ?", id))
    # The log has no failure of the server's own, and no line that a client wrote.
    lines = server.log.read_text().splitlines()
    assert not [line for line in lines if " error " in line or "INTERNAL_ERROR" in line]
    assert all(re.match(r"\d{4}-\d\d-\d\dT", line) for line in lines)
    assert phone.send(capture(51, video=b"afterwards"), "s1").status_code in (202, 429)


@pytest.mark.parametrize("policy", ["compat", "strict"])
def test_requests_that_are_almost_right(start, policy):
    fuzz(start("--policy", policy, "--app-id", APP, "--videos-per-hour", 1000), 300, 51)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_thousands_of_requests_that_are_almost_right(start, seed):
    fuzz(start("--policy", ["compat", "strict"][seed % 2], "--app-id", APP, "--videos-per-hour", 1000), 2500, 100 + seed)


def test_requests_that_never_end_give_their_place_back(start):
    """Row 55: those that are cut off anywhere leave nothing, without a word from the client."""
    server = start("--idle-seconds", 2, "--head-seconds", 2, "--log-level", "debug")
    phone, dice = Phone(server), random.Random(55)
    open_ones = []
    for number in range(40):
        data = capture(number, video=bytes(200_000)).body()
        headers = {**phone.headers(data, "s1"), "Content-Length": len(data)}
        whole = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        whole = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\n{whole}\r\n".encode() + data
        open_ones.append(Wire(server, whole[:dice.randrange(len(whole) - 1)]))
    given_up = re.compile(r"connection closed: (no complete request head|no byte of a body|\d+ bytes of a body)")
    server.until(lambda: len(given_up.findall(server.log.read_text())) >= 40)
    server.until(lambda: not list((server.data / "staging").iterdir()))
    for connection in open_ones:
        assert 202 not in connection.statuses()
        connection.close()
    assert rows(server, "SELECT COUNT(*) FROM capture") == [(0,)] and list((server.data / "captures").iterdir()) == []
    assert phone.send(capture(), "s1").status_code == 202


def test_a_flood_of_empty_parts_costs_no_memory(server):
    """A body of 60 MB of nothing but boundaries is given up early."""
    phone = Phone(server)
    phone.send(capture(), "s1")
    before = server.memory()
    part = f"--{BOUNDARY}\r\n\r\n\r\n".encode()
    data = part * ((60 << 20) // len(part))
    headers = {**phone.headers(data, "s1"), "Content-Length": len(data)}
    opening = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    answer = exchange(server, f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\n{opening}\r\n".encode(), (data[i:i + 65536] for i in range(0, len(data), 65536)))
    assert answer.startswith(b"HTTP/1.1 400") or answer == b""
    assert server.memory() - before < 16 << 20
