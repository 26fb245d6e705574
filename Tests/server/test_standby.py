"""`--standby` and `takeset-server restore`: another machine takes the place of one that is lost."""

import hashlib
import os
import random
import shutil
import sqlite3
import subprocess
import threading
import time
from pathlib import Path

import pytest
import requests
from conftest import BINARY, Server, free_port
from devices import add_key
from phone import Phone, rows
from queued import files_below, simulate
from resumable import CHUNK, MOVIE, SESSION, Tus, zipped
from stores import SECRET, Front, bucket, converted  # noqa: F401


def restore(place, data, check=0, environment=None):
    done = subprocess.run(
        [BINARY, "restore", "--from", place, "--data", data], capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == check, done.stderr
    return done


def put(server, name, data=None):
    """A capture of its own: equal bytes would be one that is there already."""
    data = data or zipped([*SESSION, ("note.txt", f"{name} {random.random()}".encode())])
    done = requests.put(f"{server.url}/api/v1/sessions/{name}.zip", data=data, timeout=300)
    assert done.status_code == 201, done.text
    return done.json()["data"]["capture_id"]


def recorded(folder, seed):
    """A session that can be converted."""
    path = simulate("stack-session", folder / f"session{seed}", "--seconds", "0.3", "--variant", "v2", "--size", "64x48", "--seed", seed)
    return zipped([(f"session{seed}/{name}", file.read_bytes()) for name, file in files_below(path).items()])


def captures(server):
    return {item["capture_id"] for item in server.get("/api/v1/captures?limit=100").json()["data"]}


def lag(server):
    (line,) = [line for line in server.get("/metrics").text.splitlines() if line.startswith("takeset_standby_lag_seconds ")]
    return float(line.split()[1])


def is_copied(server, since):
    """Waits until all that was there at a time on the clock of `time.monotonic` is copied."""

    def is_later():
        asked = time.monotonic()
        return lag(server) < asked - since

    server.until(is_later)


def pieces(place, kind="wal-*"):
    return sorted(Path(place).glob(f"generation-*/{kind}"))


def with_copy(start, place, **settings):
    """A server whose database has been copied to a place once."""
    server = start("--standby", place, **settings)
    server.until(lambda: pieces(place, "snapshot.json"))
    return server


def database_captures(data):
    with sqlite3.connect(data / "server.sqlite", timeout=300) as database:
        return {id for (id,) in database.execute("SELECT id FROM capture")}


@pytest.mark.parametrize("kind", ["folder", "bucket"])
def test_another_machine_goes_on(start, bucket, tmp_path, kind):  # noqa: F811
    if kind == "folder":
        store, place, secret = tmp_path / "store", tmp_path / "standby", {}
    else:
        address = f"?endpoint={bucket.address}&region=us-east-1"
        store, place, secret = f"s3://captures/{tmp_path.name}/store{address}", f"s3://captures/{tmp_path.name}/standby{address}", SECRET
    options = ["--store", store, "--standby", place, "--app-id", "TAKESET001.org.example.capture"]
    first = start(*options, environment=secret, conversions=1, data=tmp_path / "first")
    key, phone = add_key(first), Phone(first)
    before = {put(first, f"take{number}", recorded(tmp_path, number)) for number in range(3)}
    for capture in before:
        assert converted(first, capture)["status"] == "complete"
    later, movie = add_key(first), MOVIE + random.Random(3).randbytes(300_000)
    unfinished = Tus(first).create(len(movie), movie[:100_000], Content_Type=CHUNK)
    is_copied(first, time.monotonic())
    first.kill()
    shutil.rmtree(first.data)

    done = restore(place, tmp_path / "second", environment={**os.environ, **secret})
    assert done.stdout.startswith("restored 3 captures, the newest of ") and not done.stderr
    second = start(*options, environment=secret, conversions=1, data=tmp_path / "second")
    assert captures(second) == before
    for capture in before:
        listed = second.get(f"/api/v1/captures/{capture}").json()["data"]
        (file,) = listed["files"]
        assert hashlib.sha256(second.get(f"/captures/{capture}/files/{file['name']}").content).hexdigest() == file["sha256"]
        assert converted(second, capture)["status"] == "complete"
    for known in key, later:
        assert second.get("/api/v1/captures", headers={"Authorization": f"Bearer {known}"}).ok
    # The phone need not register again.
    assert rows(second, "SELECT id FROM device") == [(phone.id.lower(),)]
    # What was on the machine alone is sent again.
    resumed = Tus(second)
    assert resumed.offset(unfinished) == 0
    assert resumed.patch(unfinished, 0, movie).status_code == 204
    # The dataset is made again, and new captures come to it.
    after = put(second, "another", recorded(tmp_path, 9))
    assert converted(second, after)["status"] == "complete"
    second.until(lambda: len(list((second.data / "datasets").glob("*/episodes/*.h5"))) == 4)


def send_until(server, ends, acknowledged):
    """Captures, one after the other, with the times of their answers."""
    while not ends.is_set():
        try:
            capture = put(server, f"take-{random.random()}")
        except requests.RequestException:
            return
        acknowledged.append((time.monotonic(), capture))


def kill_and_restore(start, tmp_path, turn, count):
    place = tmp_path / f"standby{turn}"
    server = start("--standby", place, "--store", tmp_path / f"store{turn}", data=tmp_path / f"first{turn}")
    acknowledged, ends = [], threading.Event()
    threads = [threading.Thread(target=send_until, args=(server, ends, acknowledged)) for _ in range(3)]
    for thread in threads:
        thread.start()
    server.until(lambda: len(acknowledged) > 3)
    is_copied(server, acknowledged[2][0])
    server.until(lambda: len(acknowledged) >= count)
    asked = time.monotonic()
    copied = asked - lag(server)  # no later than the copy that it tells of
    server.kill()
    ends.set()
    for thread in threads:
        thread.join()
    restore(place, tmp_path / f"second{turn}")
    found = database_captures(tmp_path / f"second{turn}")
    # All that was acknowledged before the last copy began, and nothing by halves.
    assert {capture for at, capture in acknowledged if at < copied} <= found
    assert len(found) >= 3
    again = start("--store", tmp_path / f"store{turn}", data=tmp_path / f"second{turn}")
    for capture in captures(again):
        (file,) = again.get(f"/api/v1/captures/{capture}").json()["data"]["files"]
        assert again.get(f"/captures/{capture}/files/{file['name']}").ok
    again.kill()


def test_killed_while_captures_arrive(start, tmp_path):
    kill_and_restore(start, tmp_path, 0, 6)


@pytest.mark.slow
def test_killed_at_any_moment(start, tmp_path):
    for turn in range(15):
        kill_and_restore(start, tmp_path, turn, 6 + 7 * turn)


def test_a_large_log_begins_a_new_copy(start, tmp_path):
    """The log does not grow for ever, and what is not needed is removed."""
    place = tmp_path / "standby"
    server = with_copy(start, place)
    (first,) = place.iterdir()
    sent = set()
    # The one before the last stays.
    while first in (found := [*place.iterdir()]) or len(found) != 2:
        sent.add(put(server, f"take{len(sent)}"))
    last = put(server, "last")
    is_copied(server, time.monotonic())
    server.kill()
    assert (server.data / "server.sqlite-wal").stat().st_size < 4 << 20
    done = restore(place, tmp_path / "again")
    assert done.stdout.startswith(f"restored {len(sent) + 1} captures")
    assert database_captures(tmp_path / "again") == sent | {last}


def test_what_the_last_requests_changed_is_copied_at_the_end(start, tmp_path):
    place = tmp_path / "standby"
    server = with_copy(start, place)
    sent = {put(server, f"take{number}") for number in range(3)}
    assert server.stop() == 0
    assert restore(place, tmp_path / "again").stdout.startswith(f"restored {len(sent)} captures")


def test_a_key_made_by_another_process_is_copied(start, tmp_path):
    place = tmp_path / "standby"
    server = with_copy(start, place)
    keys = [add_key(server) for _ in range(3)]
    # Whoever opens and closes the database's file in the server's process ends SQLite's locks; then another program removes the log.
    assert (server.data / "server.sqlite-wal").exists()
    is_copied(server, time.monotonic())
    server.kill()
    restore(place, tmp_path / "again")
    again = start("--require-key", data=tmp_path / "again")
    for key in keys:
        assert again.get("/api/v1/captures", headers={"Authorization": f"Bearer {key}"}).ok
    assert again.get("/api/v1/captures", headers={"Authorization": "Bearer tks_other"}).status_code == 401


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """The place of a server that took captures and was killed, with several pieces of the log."""
    folder = tmp_path_factory.mktemp("copied")
    server = Server(folder / "data", "--standby", folder / "standby").start()
    try:
        server.until(lambda: pieces(folder / "standby", "snapshot.json"))
        for number in range(3):
            put(server, f"take{number}")
            is_copied(server, time.monotonic())
    finally:
        server.kill()
    assert len(pieces(folder / "standby")) >= 3
    return folder / "standby"


@pytest.fixture
def copied(template, tmp_path):
    return Path(shutil.copytree(template, tmp_path / "standby"))


def test_a_damaged_copy_is_refused(copied, tmp_path):
    (snapshot,) = pieces(copied, "snapshot-*")
    data = bytearray(snapshot.read_bytes())
    data[len(data) // 2] ^= 1
    snapshot.write_bytes(data)
    assert "is damaged" in restore(copied, tmp_path / "again", check=1).stderr
    snapshot.unlink()
    assert "is damaged" in restore(copied, tmp_path / "again", check=1).stderr
    (copied / snapshot.parent.name / "snapshot.json").unlink()
    assert "there is no copy" in restore(copied, tmp_path / "again", check=1).stderr
    assert not (tmp_path / "again/server.sqlite").exists() and not (tmp_path / "again/restoring").exists()


def test_a_log_with_a_hole_is_restored_up_to_it_and_says_so(start, copied, tmp_path):
    pieces(copied)[1].unlink()
    done = restore(copied, tmp_path / "again", check=3)
    assert "a part of the log is missing or damaged" in done.stderr
    assert int(done.stdout.split()[1]) < 3
    # What is left goes on at the same place.
    start("--standby", copied, data=tmp_path / "again")


@pytest.mark.parametrize("turn", range(6))
def test_a_damaged_log_is_restored_up_to_the_damage(copied, tmp_path, turn):
    """As SQLite does after a crash: each frame has a checksum."""
    chance = random.Random(turn)
    piece = chance.choice(pieces(copied))
    data = bytearray(piece.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    piece.write_bytes(data)
    done = restore(copied, tmp_path / "again", check=3)
    assert "a part of the log is missing or damaged" in done.stderr
    assert 0 <= int(done.stdout.split()[1]) <= 3


def test_mistakes(copied, tmp_path):
    # As when a server starts on the new machine before it is restored, or a disk is not there: it does not take the place of a copy.
    refused(copied, tmp_path / "nothing", "the place has copies of another database; restore it")
    assert restore(copied, tmp_path / "again").stdout.startswith("restored 3 captures")
    assert "has server.sqlite" in restore(copied, tmp_path / "again", check=1).stderr
    # What an earlier database left is not replayed.
    for left in ("server.sqlite-wal", "server.sqlite-journal"):
        (tmp_path / left).mkdir()
        (tmp_path / left / left).write_bytes(b"x")
        assert f"has {left}" in restore(copied, tmp_path / left, check=1).stderr
    (tmp_path / "empty").mkdir()
    assert "there is no copy" in restore(tmp_path / "empty", tmp_path / "other", check=1).stderr
    done = subprocess.run([BINARY, "serve", "--data", tmp_path / "x", "--standby", "s3://"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 64 and "standby: expected s3://" in done.stderr


def refused(place, data, words):
    done = subprocess.run([BINARY, "serve", "--data", data, "--standby", place, "--listen", f"127.0.0.1:{free_port()}"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and words in done.stderr, done.stderr


@pytest.mark.parametrize("looks", ["at the next copy", pytest.param("after 30 seconds", marks=pytest.mark.slow)])
def test_a_server_that_was_thought_dead_leaves_its_successors_copies(start, tmp_path, looks):
    place = tmp_path / "standby"
    old = with_copy(start, place, data=tmp_path / "old")
    before = put(old, "before")
    is_copied(old, time.monotonic())
    restore(place, tmp_path / "new")
    new = start("--standby", place, data=tmp_path / "new")
    new.until(lambda: list(place.glob("generation-000000002-*/snapshot.json")))
    put(old, "lost")
    if looks == "at the next copy":
        # Another program writes the log back, so that a copy of the whole database would have to follow.
        with sqlite3.connect(old.data / "server.sqlite", timeout=300) as database:
            database.execute("PRAGMA wal_checkpoint(RESTART)")
        put(old, "lost, too")
    old.until(lambda: "another server goes on with this database" in old.log.read_text(), 90)
    # It serves on, and does not take the place back: not by a large log, and not when it starts again.
    sent = [put(old, f"take{number}") for number in range(5)]
    assert set(sent) < captures(old) and lag(old) > 1
    old.stop()
    refused(place, old.data, "another server goes on with this database")
    capture = put(new, "new")
    is_copied(new, time.monotonic())
    restore(place, tmp_path / "again")
    assert database_captures(tmp_path / "again") == {before, capture}


def test_another_program_that_writes_the_log_back_while_a_copy_is_sent(start, bucket, tmp_path):  # noqa: F811
    """The log that the copy belongs to is gone then, and the next one does not fit it."""
    front, data = Front(bucket), tmp_path / "data"
    try:
        place = f"s3://captures/{tmp_path.name}/standby?endpoint={front.address}&region=us-east-1"

        def write_back(method, path, number):
            if method == "PUT" and "snapshot.json" in path and not (data / "done").exists():
                (data / "done").touch()
                with sqlite3.connect(data / "server.sqlite", timeout=300) as database:
                    database.execute("CREATE TABLE filler (bytes BLOB)")
                    for turn in range(20):
                        database.execute("INSERT INTO filler VALUES (?)", (random.Random(turn).randbytes(100_000),))
                        database.commit()
                    database.execute("PRAGMA wal_checkpoint(RESTART)")
                    database.execute("INSERT INTO filler VALUES ('last')")

        front.fault = write_back
        server = start("--standby", place, environment=SECRET, data=data)
        server.until((data / "done").exists)
        sent = {put(server, f"take{number}") for number in range(3)}
        is_copied(server, time.monotonic())
        server.kill()
        done = restore(place, tmp_path / "again", environment={**os.environ, **SECRET})
        assert done.stdout.startswith("restored 3 captures"), done.stdout
        assert database_captures(tmp_path / "again") == sent
        with sqlite3.connect(tmp_path / "again/server.sqlite", timeout=300) as database:
            assert database.execute("SELECT COUNT(*) FROM filler").fetchone() == (21,)
    finally:
        front.close()


def test_a_place_that_is_away_holds_up_nothing(start, tmp_path):
    place = tmp_path / "standby"
    server = with_copy(start, place)
    is_copied(server, time.monotonic())
    place.rename(tmp_path / "away")
    place.write_text("no folder")
    sent = {put(server, f"take{number}") for number in range(3)}
    server.until(lambda: "the standby's copy of the database is behind" in server.log.read_text())
    assert lag(server) > 0.5
    place.unlink()
    (tmp_path / "away").rename(place)
    server.until(lambda: "the standby's copy of the database goes on" in server.log.read_text())
    is_copied(server, time.monotonic())
    server.kill()
    assert restore(place, tmp_path / "again").stdout.startswith(f"restored {len(sent)} captures")
