"""Rows 60 and 61: uploads that come again, and those of a device that sends too many."""

import time

import pytest
from bundles import APP
from phone import Phone, capture, error, exchange, head, now, rows

LIMITED = (429, "RATE_LIMITED")


def accepted(answer):
    assert answer.status_code == 202, answer.text
    return answer.json()["data"]["capture_id"]


def count(server):
    captures, = rows(server, "SELECT COUNT(*) FROM capture")[0]
    assert len(list((server.data / "captures").iterdir())) == captures
    assert list((server.data / "staging").iterdir()) == []
    return captures


def test_the_same_parts_are_one_capture(server):
    """Signed anew, framed anew, named anew: the first answer, word for word."""
    phone = Phone(server)
    first = phone.send(capture(), "s1")
    others = [
        phone.send(capture(), "s0"),
        phone.send(capture().body(order=("metadata", "video", "hash_chain", "depth_data")), "s1"),
        phone.send(capture().body(boundary="another"), "s1", boundary="another", headers={"X-Request-Id": "7f0c0cf5-6a22-47f5-a6c9-4db5c5c3a3a7"}),
    ]
    assert [other.text for other in others] == [first.text] * 3 and {other.status_code for other in others} == {202}
    assert others[2].headers["X-Request-Id"] == "7f0c0cf5-6a22-47f5-a6c9-4db5c5c3a3a7"
    assert count(server) == 1


@pytest.mark.parametrize("name", ["video", "depth_data", "hash_chain", "metadata"])
def test_one_other_byte_is_another_capture(server, name):
    phone = Phone(server)
    changed = capture(**{name: capture().parts()[name] + b" "})
    assert accepted(phone.send(capture(), "s1")) != accepted(phone.send(changed, "s1"))
    assert count(server) == 2


class TestIdempotencyKeys:
    def test_the_same_and_other_parts(self, server):
        phone = Phone(server)
        answers = [phone.send(capture(1), "s1", headers={"Idempotency-Key": "a"}) for _ in range(2)]
        assert accepted(answers[0]) and answers[0].text == answers[1].text
        assert count(server) == 1
        assert error(phone.send(capture(2), "s1", headers={"Idempotency-Key": "a"})) == (409, "IDEMPOTENCY_KEY_REUSED")
        assert count(server) == 1
        accepted(phone.send(capture(2), "s1", headers={"Idempotency-Key": "b"}))
        # Parts that came under another key are still the same capture.
        accepted(phone.send(capture(2), "s1", headers={"Idempotency-Key": "c"}))
        assert count(server) == 2

    def test_keys_and_parts_are_those_of_a_device(self, server):
        first, second = Phone(server, 1), Phone(server, 2)
        assert accepted(first.send(capture(), "s1")) != accepted(second.send(capture(), "s1"))
        accepted(first.send(capture(1), "s1", headers={"Idempotency-Key": "a"}))
        accepted(second.send(capture(2), "s1", headers={"Idempotency-Key": "a"}))
        assert count(server) == 4

    def test_keys_have_a_length(self, server):
        phone = Phone(server)
        for key in ("", "x" * 256):
            assert error(phone.send(capture(), "s1", headers={"Idempotency-Key": key})) == (400, "VALIDATION_ERROR")


class TestRate:
    def test_five_an_hour(self, server):
        phone, began = Phone(server), time.monotonic()
        first = phone.send(capture(0), "s1")
        for number in range(1, 5):
            accepted(phone.send(capture(number), "s1"))
        # A different length, so that it cannot be one of those.
        sixth = capture(video=bytes(100_000))
        answer = phone.send(sixth, "s1")
        assert error(answer) == LIMITED
        assert 3598 - (time.monotonic() - began) <= int(answer.headers["Retry-After"]) <= 3600
        # The same length, so that only its contents can tell.
        answer = phone.send(capture(5), "s1")
        assert error(answer) == LIMITED and 3598 - (time.monotonic() - began) <= int(answer.headers["Retry-After"]) <= 3600
        assert count(server) == 5
        # What was answered before counts once, whenever it comes again.
        assert phone.send(capture(0), "s1").text == first.text
        # Others are not affected.
        accepted(Phone(server, 2).send(sixth, "s1"))

    def test_the_window_moves(self, server):
        phone = Phone(server)
        for number in range(5):
            accepted(phone.send(capture(number), "s1"))
        oldest = rows(server, "SELECT id FROM capture ORDER BY receivedAt LIMIT 1")[0][0]
        began = time.monotonic()
        rows(server, "UPDATE capture SET receivedAt = ? WHERE id = ?", now() - 3_600_000 + 600_000, oldest)
        answer = phone.send(capture(5), "s1")
        assert error(answer) == LIMITED and 598 - (time.monotonic() - began) <= int(answer.headers["Retry-After"]) <= 600
        rows(server, "UPDATE capture SET receivedAt = ? WHERE id = ?", now() - 3_600_000, oldest)
        accepted(phone.send(capture(5), "s1"))

    def test_a_refused_upload_is_not_counted(self, server):
        phone = Phone(server)
        for _ in range(6):
            assert phone.send(capture(metadata=b"{}"), "s1").status_code == 400
        accepted(phone.send(capture(), "s1"))

    def test_at_the_limit_a_large_body_is_refused_before_it_comes_and_a_repeated_assertion_is_read(self, start):
        server = start("--videos-per-hour", 1, "--app-id", APP)
        phone = Phone(server)
        body = capture().body()
        headers = phone.headers(body)
        first = phone.post(body, headers)
        accepted(first)
        assert phone.post(body, headers).text == first.text
        assert first.json()["data"]["status"] == "processing"
        answer = exchange(server, head({**phone.headers(scheme="s1"), "Content-Length": 100 << 20}))
        assert answer.startswith(b"HTTP/1.1 429") and b"\r\nretry-after: 3" in answer.lower()
