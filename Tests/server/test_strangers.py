"""Strangers, who send videos without an API key and without a verified signature, cost nobody else anything."""

import itertools

import pytest
from bundles import APP
from devices import add_key
from phone import Phone, capture, error, rows
from test_keys import bearer

from queued import bundle, fake, finished, merged, queue

LIMITED = (429, "RATE_LIMITED")


@pytest.mark.parametrize("scheme", ["s1", "s2"])
def test_a_stranger_locks_nobody_out(start, scheme):
    """A device's id is in every capture's JSON; the placeholder and a debug build's signature need nothing else."""
    server = start("--app-id", APP)
    phone = Phone(server)
    mock = {"X-Device-Signature": "ZGVidWctbW9jay1hc3NlcnRpb24="}
    sent = [phone.send(capture(number), "s0", headers=mock if number % 2 else {}) for number in range(5)]
    assert [answer.status_code for answer in sent] == [202] * 5
    assert error(phone.send(capture(5), "s0")) == error(phone.send(capture(5), "s0", headers=mock)) == LIMITED
    assert [phone.send(capture(10 + number), scheme).status_code for number in range(5)] == [202] * 5
    assert error(phone.send(capture(15), scheme)) == LIMITED


def test_what_somebody_vouches_for_is_no_strangers(start):
    server = start("--app-id", APP)
    phone, key = Phone(server), bearer(add_key(server))
    for number, (scheme, headers) in enumerate([("s0", {}), ("s0", key), ("s1", {}), ("s2", {})]):
        assert phone.send(capture(number), scheme, headers=headers).status_code == 202
    assert rows(server, "SELECT signature, isStranger FROM capture ORDER BY rowid") == [("s0", 1), ("s0", 0), ("s1", 0), ("s2", 0)]


@pytest.mark.parametrize("quota", ["device", "project"])
def test_a_stranger_fills_no_quota_of_others(start, quota):
    server = start(f"--{quota}-quota", 100_000)
    phone = Phone(server)
    assert phone.send(capture(1, video=bytes(90_000)), "s0").status_code == 202
    assert error(phone.send(capture(2, video=bytes(20_000)), "s0")) == (507, "QUOTA_EXCEEDED")
    assert phone.send(capture(3, video=bytes(80_000)), "s1").status_code == 202
    assert error(phone.send(capture(4, video=bytes(30_000)), "s1")) == (507, "QUOTA_EXCEEDED")


def test_a_stranger_leaves_room_on_the_disk_for_others(start, small_disk):
    server = start("--reserve", 2 << 20, "--stranger-reserve", 16 << 20, data=small_disk / "data")
    phone = Phone(server)
    video = bytes(9 << 20)
    assert error(phone.send(capture(1, video=video), "s0")) == (507, "STORAGE_ERROR")
    body = capture(1, video=video).body()
    pieces = (body[start:start + 65536] for start in range(0, len(body), 65536))
    assert error(phone.post(pieces, phone.headers(body, "s0"))) == (507, "STORAGE_ERROR")
    assert phone.send(capture(1, video=video), "s1").status_code == 202
    assert error(phone.send(capture(2), "s0")) == (507, "STORAGE_ERROR")


def test_a_strangers_conversion_gives_way(start, tmp_path):
    """Otherwise one that takes an hour would hold up everybody else for an hour."""
    server = start()
    stranger = queue(server.data, "video", {"a.bin": b"a"}, stranger=True)
    server.stop()
    log = tmp_path / "log"
    command = fake(tmp_path, "slow", f'echo $2 >>"{log}"\ncase $2 in *{stranger}*) [ $(grep -c {stranger} "{log}") -gt 1 ] || sleep 3600;; esac\nexit 70')
    server = start("--takeset", command, "--conversion-attempts", 1, data=server.data, conversions=1)
    server.until(lambda: log.exists() and stranger in log.read_text())
    other = queue(server.data, "video", {"b.bin": b"b"})
    assert finished(server, other)["status"] == "failed"
    # It is done afterwards, from its beginning, and giving way was no attempt.
    assert finished(server, stranger)["attempts"] == 1
    assert [stranger in line for line in log.read_text().splitlines()] == [True, False, True]


def test_the_queue_is_fair(start, tmp_path):
    """Projects take turns, then devices; what strangers sent comes last."""
    server = start()
    order, numbers = tmp_path / "order", itertools.count()

    def add(**options):
        return queue(server.data, "video", {"a.bin": b"a", "b.bin": b"b"}, at=1_764_239_420_000 + next(numbers), **options)

    stranger = add(device="s", stranger=True)
    first, second, third = (add(device="a") for _ in range(3))
    other, kitchen, late = add(device="b"), add(project="kitchen"), add(project="kitchen")
    server.stop()
    command = fake(tmp_path, "failing", f'basename "$2" >>"{order}"; exit 70')
    server = start("--takeset", command, "--conversion-attempts", 1, data=server.data, conversions=1)
    everything = [first, kitchen, other, late, second, third, stranger]
    assert {row["status"] for row in finished(server, *everything)} == {"failed"}
    assert order.read_text().split() == everything


def test_takes_of_strangers_have_a_dataset_of_their_own(start, tmp_path):
    server = start(conversions=1)
    parts = bundle(tmp_path / "b")
    verified, stranger = queue(server.data, "video", parts), queue(server.data, "video", parts, stranger=True)
    finished(server, verified, stranger)
    merged(server, verified)
    merged(server, stranger, project="default.unverified")
    names = server.get("/datasets").text
    assert "default.unverified" in names and "default.unverified" in server.get(f"/verify/{stranger}").text
