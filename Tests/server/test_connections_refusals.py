"""Answers that come before the body has: the client sees them, and the server does not read on for long."""

import fcntl
import select
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor

from phone import Phone, capture, head
from wire import Wire, post

# Bytes that the server reads and drops, and what one more read may bring.
MOST, SLACK = 4 << 20, 256 << 10
HUGE = 100_000_000


def refusals(server):
    phone = Phone(server)
    late = phone.headers(b"", "s1", timestamp=1)
    wrong = phone.headers(b"", "s1")
    yield 404, post("/nothing", f"Content-Length: {HUGE}").encode()
    yield 404, post("/nothing", "Transfer-Encoding: chunked").encode() + b"5f5e100\r\n"
    yield 401, post("/files", f"Content-Length: {HUGE}", "Tus-Resumable: 1.0.0").encode()
    yield 401, head(late, **{"Content-Length": HUGE})
    yield 413, head(wrong, **{"Content-Length": HUGE * 2})
    yield 507, head(wrong, **{"Content-Length": HUGE})
    yield 400, post("/nothing", f"Content-Length: {HUGE}", "Content-Length: 1").encode()


def unread(wire, server):
    """Bytes of a connection that its server has not read; None once the server has closed it."""
    port = wire.socket.getsockname()[1]
    with open("/proc/net/tcp") as table:
        for line in table:
            fields = line.split()
            if fields[1].endswith(f":{server.port:04X}") and fields[2].endswith(f":{port:04X}") and fields[3] in ("01", "04", "05", "08"):
                return int(fields[4].split(":")[1], 16)
    return None


def flood(wire, server):
    """Sends as fast as it can until the server has not taken anything for a second or closes. Bytes that the server has read."""
    wire.socket.setblocking(False)
    block, sent, read, moved = bytes(1 << 20), 0, 0, time.monotonic()
    while time.monotonic() - moved < 1 and sent < HUGE:
        try:
            sent += wire.socket.send(block)
            moved = time.monotonic()
        except BlockingIOError:
            time.sleep(0.01)
        except (BrokenPipeError, ConnectionResetError):
            break
        queued = struct.unpack("i", fcntl.ioctl(wire.socket, 0x5411, b"\0\0\0\0"))[0]
        rest = unread(wire, server)
        if rest is None:
            break
        read = max(read, sent - queued - rest)
    wire.socket.settimeout(300)
    return read


def test_a_fast_sender_is_not_read_to_its_end(start):
    server = start("--require-key", "--reserve", 1 << 60)

    def check(refusal):
        status, request = refusal
        with Wire(server, request) as wire:
            read = flood(wire, server)
            assert read <= MOST + SLACK, (status, read)
            assert wire.status() == status
            wire.rest()

    with ThreadPoolExecutor(7) as pool:
        list(pool.map(check, list(refusals(server))))


def test_a_sender_that_looks_last_gets_its_answer(start):
    """Three megabytes are more than the system's buffers took before anybody read."""
    server = start("--require-key", "--reserve", 1 << 60)
    body = bytes(3 << 20)
    phone = Phone(server)
    for status, request in [
        (404, post("/nothing", f"Content-Length: {len(body)}").encode()),
        (401, post("/files", f"Content-Length: {len(body)}", "Tus-Resumable: 1.0.0").encode()),
        (507, head(phone.headers(b"", "s1"), **{"Content-Length": len(body)})),
    ]:
        with Wire(server, request) as wire:
            assert select.select([wire.socket], [], [], 300)[0]  # the answer is there, and nobody has looked
            wire.send(body)
            assert wire.statuses() == [status]


def test_what_is_refused_in_its_middle_is_answered_too(common):
    phone = Phone(common)
    body = capture(metadata=bytes(5 << 20)).body()
    with Wire(common, head(phone.headers(body, "s1"), **{"Content-Length": HUGE})) as wire:
        wire.send(body)
        read = flood(wire, common)
        assert read <= MOST + SLACK + len(body)
        assert wire.status() == 413


def test_many_refused_senders_hold_up_nobody(common):
    """Each keeps its connection for some seconds, and the others are answered meanwhile."""
    held = [Wire(common, post("/nothing", f"Content-Length: {HUGE}")) for _ in range(50)]
    for wire in held:
        wire.socket.setblocking(False)
        try:
            while True:
                wire.socket.send(bytes(1 << 20))
        except (BlockingIOError, BrokenPipeError, ConnectionResetError):
            pass
    assert common.get("/health").ok
    # It was answered while they were still being read or waited for.
    assert any(unread(wire, common) is not None for wire in held)
    for wire in held:
        wire.socket.settimeout(300)
        assert wire.status() == 404
        wire.close()


def test_a_pipeline_of_heads_behind_a_refusal_ends(common):
    """Requests behind one that is refused are not read for ever either."""
    sent = 0
    with Wire(common, post("/nothing", "Content-Length: 1", "Content-Length: 2", body="ab")) as wire:
        many = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 10_000
        wire.socket.settimeout(1)
        try:
            while sent < HUGE:
                sent += wire.socket.send(many)
        except (socket.timeout, BrokenPipeError, ConnectionResetError):
            pass
        wire.socket.settimeout(300)
        assert sent < HUGE and wire.statuses() == [400]
