"""Requests that clients must not send, and ways to end one."""

import pytest
import requests
from wire import GET, LAST_GET, Wire, post

PATH = "/control/stop"


@pytest.mark.parametrize(
    "request_text",
    [
        post(PATH, "Content-Length: 5", "Content-Length: 6", body="hello"),
        post(PATH, "Content-Length: -1", body="hello"),
        post(PATH, "Content-Length: 5, 5", body="hello"),
        post(PATH, "Content-Length: 0x5", body="hello"),
        post(PATH, "Content-Length: 5", "Transfer-Encoding: chunked", body="0\r\n\r\n"),
        post(PATH, "Transfer-Encoding: xchunked", body="0\r\n\r\n"),
        post(PATH, "Transfer-Encoding : chunked", body="0\r\n\r\n"),
        post(PATH, "Transfer-Encoding: chunked", body="zz\r\nhello\r\n0\r\n\r\n"),
        post(PATH, "Transfer-Encoding: chunked", body="ffffffffffffffffff\r\nhello"),
        f"POST {PATH} HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
        "GET /health\r\n\r\n",
        "GET /health HTTP/3.0\r\nHost: localhost\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "BREW /pot HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /health HTTP/1.1\r\nHost: localhost\r\nBad Name: x\r\n\r\n",
        "GET /health HTTP/1.1\r\nHost: localhost\r\nName: a\0b\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + "\0" * 64,
    ],
)
def test_an_ambiguous_request_is_400_and_nothing_after_it_is_read(common, request_text):
    with Wire(common, request_text + LAST_GET) as wire:
        assert wire.statuses() == [400]


MANY = "".join(f"GET /nothing/{n} HTTP/1.1\r\nHost: localhost\r\n\r\n" for n in range(20))


@pytest.mark.parametrize(
    "sent, expected",
    [
        # Requests in one packet are answered in order.
        (GET + MANY + LAST_GET, [200, *[404] * 20, 200]),
        # An answer before the end of the body ends the connection.
        (post("/nothing", "Content-Length: 100000000", body="x" * 1000), [404]),
        ("GET /health HTTP/1.0\r\n\r\n", [200]),
        # An offer of another protocol is declined.
        ("GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n", [200]),
        # Heads that are too large, and a request behind each.
        ("GET /health HTTP/1.1\r\nHost: localhost\r\nX-Large: " + "a" * 20_000 + "\r\n\r\n" + LAST_GET, [431]),
        ("GET /health HTTP/1.1\r\nHost: localhost\r\n" + "".join(f"X-{n}: {'a' * 1000}\r\n" for n in range(90)) + "\r\n" + LAST_GET, [431]),
        ("GET /health HTTP/1.1\r\nHost: localhost\r\n" + "".join(f"X-{n}: a\r\n" for n in range(200)) + "\r\n" + LAST_GET, [431]),
        ("GET /" + "a" * 20_000 + " HTTP/1.1\r\nHost: localhost\r\n\r\n" + LAST_GET, [431]),
    ],
)
def test_answers_until_the_connection_ends(common, sent, expected):
    with Wire(common, sent) as wire:
        assert wire.statuses() == expected


def test_a_client_that_closes_its_half_still_gets_its_answer(common):
    with Wire(common, GET).half_close() as wire:
        assert wire.statuses() == [200]
    # Unless the body ends too early.
    with Wire(common, post("/api/v1/captures/video", "Content-Length: 100", "Content-Type: multipart/form-data; boundary=b", body="--b")) as wire:
        assert wire.half_close().statuses() in ([400], [401])


@pytest.mark.parametrize("method, path", [("PUT", "/upload"), ("GET", "/upload"), ("DELETE", "/videos")])
def test_methods_that_a_path_does_not_have(common, method, path):
    assert requests.request(method, common.url + path, timeout=300).status_code in (404, 405)
