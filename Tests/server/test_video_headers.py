"""The headers of POST /api/v1/captures/video and row 66: they are checked in order and before the body."""

import uuid

import pytest
from phone import PATH, Phone, capture, error, exchange, head, now, rows

UNKNOWN = "550E8400-E29B-41D4-A716-446655440000"
MISSING = object()

# Each row breaks one header more from the end, so that only the first broken one may decide.
BROKEN = [
    ("X-Device-Id", MISSING, 401, "DEVICE_AUTH_REQUIRED"),
    ("X-Device-Id", "no-uuid", 400, "VALIDATION_ERROR"),
    ("X-Device-Id", f"{UNKNOWN}x", 400, "VALIDATION_ERROR"),
    ("X-Device-Id", f"{UNKNOWN}, {UNKNOWN}", 400, "VALIDATION_ERROR"),
    ("X-Device-Timestamp", MISSING, 401, "DEVICE_AUTH_REQUIRED"),
    ("X-Device-Timestamp", "1.7e12", 400, "VALIDATION_ERROR"),
    ("X-Device-Timestamp", "9223372036854775808", 400, "VALIDATION_ERROR"),
    ("X-Device-Signature", MISSING, 401, "DEVICE_AUTH_REQUIRED"),
    ("X-Device-Signature", "a-b_", 400, "VALIDATION_ERROR"),
    ("X-Device-Signature", "YWI", 400, "VALIDATION_ERROR"),
    ("X-Device-Signature", "YWJ=", 400, "VALIDATION_ERROR"),
    ("X-Device-Signature", "YWI= YWI=", 400, "VALIDATION_ERROR"),
    ("X-Device-Timestamp", "-9223372036854775808", 401, "TIMESTAMP_EXPIRED"),
    ("X-Device-Timestamp", "9223372036854775807", 401, "TIMESTAMP_INVALID"),
    ("X-Device-Id", UNKNOWN, 404, "DEVICE_NOT_FOUND"),
]


@pytest.mark.parametrize("index", range(len(BROKEN)))
def test_headers_are_checked_in_order(common, index):
    phone = Phone(common, index)
    headers = phone.headers(scheme="s0")
    for name, value, *_ in reversed(BROKEN[index:]):
        headers[name] = value
    name, value, status, code = BROKEN[index]
    headers = {key: value for key, value in headers.items() if value is not MISSING}
    assert error(phone.post(b"no bundle at all", headers)) == (status, code)
    assert rows(common, "SELECT COUNT(*) FROM capture") == [(0,)]


@pytest.mark.parametrize("offset, expected", [
    (-300_001, (401, "TIMESTAMP_EXPIRED")), (-299_000, (404, "DEVICE_NOT_FOUND")),
    (60_000, (404, "DEVICE_NOT_FOUND")), (62_000, (401, "TIMESTAMP_INVALID")),
])
def test_timestamps_have_a_window(common, offset, expected):
    phone = Phone(common, 100, level=None)
    for _ in range(50):
        asked = now()
        answer = phone.post(b"", phone.headers(scheme="s0", timestamp=asked + offset))
        if now() - asked < 900:
            break  # otherwise this machine was late itself: once more
    assert error(answer) == expected


def test_the_window_is_a_setting(start):
    phone = Phone(start("--timestamp-age", 7200, "--timestamp-lead", 0), level=None)
    assert error(phone.post(b"", phone.headers(scheme="s0", timestamp=now() - 7_100_000))) == (404, "DEVICE_NOT_FOUND")
    assert error(phone.post(b"", phone.headers(scheme="s0", timestamp=now() + 200_000))) == (401, "TIMESTAMP_INVALID")


def test_a_request_that_waited_for_a_network_for_weeks_is_accepted_once(start):
    """It is not the time that keeps a signature from counting twice."""
    server = start("--timestamp-age", 30 * 86_400, "--policy", "strict")
    phone = Phone(server, level="registered_key")
    body = capture().body()
    old = phone.headers(body, "s1", timestamp=now() - 29 * 86_400_000)
    assert phone.post(body, old).status_code == 202
    # The same bytes again are the same capture; others by that signature are refused.
    assert phone.post(body, old).status_code == 202 and rows(server, "SELECT COUNT(*) FROM capture") == [(1,)]
    assert phone.post(capture(1).body(), old).status_code == 401 and rows(server, "SELECT COUNT(*) FROM capture") == [(1,)]
    assert error(phone.send(capture(2), "s1", timestamp=now() - 31 * 86_400_000)) == (401, "TIMESTAMP_EXPIRED")


def test_the_head_is_answered_before_the_body_has_come(server):
    """The client sends only the head of a large request, and gets the whole answer and the end of the connection."""
    phone = Phone(server)
    for changed, length, status in [
        ({"X-Device-Id": UNKNOWN}, 200 << 20, b"404"), ({"X-Device-Signature": "AAAA"}, 200 << 20, b"413"),
        ({"X-Device-Signature": "AAAA"}, 100 << 20, b"401"), ({"Content-Type": "text/plain"}, 100 << 20, b"400"),
    ]:
        answer = exchange(server, head({**phone.headers(scheme="s0"), **changed, "Content-Length": length}))
        assert answer.startswith(b"HTTP/1.1 " + status), answer
        assert b"\r\nconnection: close\r\n" in answer.lower()
        fields, body = answer.split(b"\r\n\r\n")
        assert b"\r\ncontent-length: %d\r\n" % len(body) in fields.lower()


def test_a_client_that_asks_first_is_told_to_go_on(server):
    phone = Phone(server)
    body = capture().body()
    headers = {**phone.headers(body, "s0"), "Content-Length": len(body), "Expect": "100-continue", "Connection": "close"}
    answer = exchange(server, head(headers), [body])
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 202"), answer
    headers["X-Device-Id"] = UNKNOWN
    answer = exchange(server, head(headers))
    assert answer.startswith(b"HTTP/1.1 404"), answer


def test_device_ids_may_have_any_case(server):
    phone = Phone(server)
    phone.id = phone.id.lower()
    assert phone.send(capture(1), "s1").status_code == 202
    phone.id = phone.id.upper()
    assert phone.send(capture(2), "s1").status_code == 202


def test_request_ids_are_echoed_or_made(server):
    phone = Phone(server, level=None)
    sent = str(uuid.uuid4())
    for given, kept in ((sent.upper(), True), ("x", False)):
        answer = phone.send(capture(), headers={"X-Request-Id": given})
        assert error(answer) == (404, "DEVICE_NOT_FOUND")
        assert (answer.headers["X-Request-Id"] == sent) == kept
        assert str(uuid.UUID(answer.headers["X-Request-Id"])) == answer.headers["X-Request-Id"]


def test_errors_tell_the_log_more_than_the_client(server):
    phone = Phone(server)
    answer = phone.send(capture(), app="OTHER12345.org.example.other")
    assert error(answer) == (401, "SIGNATURE_INVALID")
    line = next(line for line in server.log.read_text().splitlines() if answer.headers["X-Request-Id"] in line)
    assert "--app-id" in line and "app" not in answer.json()["error"]["message"]
    for word in ("/", "swift", "sqlite", "Hummingbird", str(server.data)):
        assert word.lower() not in answer.json()["error"]["message"].lower()


def test_metadata_write_no_lines_into_the_log(server):
    """Nor are they repeated to whoever sent them."""
    phone = Phone(server)
    for text in (b'"x\\n2026-01-01T00:00:00Z error forged line"', b'{"codec\\nerror forged line":1}', b'{"started_at":"\\nerror forged line"}'):
        answer = phone.send(capture(metadata=text), "s1")
        assert error(answer) == (400, "VALIDATION_ERROR") and "forged" not in answer.text
    assert "forged" not in server.log.read_text()


def test_other_methods_are_not_served(common):
    assert common.get(PATH).status_code in (404, 405)


def test_a_phone_is_told_whether_to_sign_or_to_register_again(server):
    """An upload that waited for a network: a phone that took the refusal for an unknown device would register its key again, which is 409."""
    phone = Phone(server)
    late = phone.send(capture(), "s1", timestamp=now() - 301_000)
    assert error(late) == (401, "TIMESTAMP_EXPIRED") and "Sign it anew" in late.json()["error"]["message"]
    stranger = phone.post(b"", {**phone.headers(), "X-Device-Id": UNKNOWN})
    assert error(stranger) == (404, "DEVICE_NOT_FOUND") and "Register it" in stranger.json()["error"]["message"]
    assert phone.send(capture(), "s1").status_code == 202
