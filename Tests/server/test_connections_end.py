"""The end of the server and the end of its disk, while captures arrive."""

import hashlib
import shutil
import threading

import pytest
import requests
from phone import Phone, capture, error, rows
from resumable import Tus
from wire import Wire, post

FULL = (507, "STORAGE_ERROR")


def movie(number):
    return b"\0\0\0\x08free" + number.to_bytes(8) + bytes(20_000)


@pytest.mark.parametrize("round", range(4))
def test_the_end_of_the_server_leaves_no_doubt(start, round):
    """What was acknowledged is there, and what is there was acknowledged: requests under way are finished first."""
    server = start()
    acknowledged, lock = [], threading.Lock()

    def upload(worker):
        with requests.Session() as session:
            for number in range(10_000):
                data = movie(worker << 32 | number)
                try:
                    answer = session.post(f"{server.url}/upload", files={"video": ("a.mov", data)}, timeout=300)
                except requests.ConnectionError:
                    return
                assert answer.status_code == 200
                with lock:
                    acknowledged.append(hashlib.sha256(data).hexdigest())

    workers = [threading.Thread(target=upload, args=(worker,)) for worker in range(8)]
    for worker in workers:
        worker.start()
    server.until(lambda: len(acknowledged) > 20 + 15 * round)
    assert server.stop() == 0
    for worker in workers:
        worker.join()
    stored = rows(server, "SELECT capture, name, sha256 FROM file WHERE name <> 'received.json'")
    assert sorted(digest for _, _, digest in stored) == sorted(acknowledged)
    for capture_id, name, digest in stored:
        assert hashlib.sha256((server.data / "captures" / capture_id / name).read_bytes()).hexdigest() == digest
    assert len(list((server.data / "captures").iterdir())) == len(acknowledged)
    assert not list((server.data / "staging").iterdir())


def fill(disk):
    """Takes all that is left."""
    with open(disk / "filler", "ab", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass


def test_a_disk_that_is_full_for_the_database(start, small_disk):
    """Requests without a body need room in the database alone. The server goes on when there is room again."""
    server = start("--reserve", 0, data=small_disk / "data")
    phone, tus = Phone(server), Tus(server)
    kept = phone.send(capture(1), "s1").json()["data"]["capture_id"]
    fill(small_disk)
    answers = []
    for _ in range(3000):
        answers.append(tus.send("POST", "/files", Upload_Length=5, Upload_Metadata=f"filename {'QUFB' * 300}"))
        fill(small_disk)
        if answers[-1].status_code != 201:
            break
    assert error(answers[-1]) == FULL
    assert answers[-1].json()["error"]["message"] == "The server is short of disk space. Try again later."
    assert error(phone.send(capture(2), "s1")) == FULL
    # Readers are answered all the while.
    assert server.get("/health").ok and server.get(f"/api/v1/captures/{kept}").ok
    assert [path.name for path in (server.data / "captures").iterdir()] == [kept]
    (small_disk / "filler").unlink()
    assert tus.create(5)
    assert phone.send(capture(2), "s1").status_code == 202
    assert len(rows(server, "SELECT id FROM capture")) == len(list((server.data / "captures").iterdir())) == 2
    # What was acknowledged before is there after a restart as well.
    server.restart()
    assert len(rows(server, "SELECT id FROM upload")) == len([answer for answer in answers if answer.status_code == 201]) + 1
    assert rows(server, "PRAGMA integrity_check") == [("ok",)]


def test_a_server_that_takes_nothing_is_up_and_not_ready(start, small_disk):
    server = start("--reserve", 10_000_000, data=small_disk / "data")
    assert server.get("/ready").json() == {"status": "ready"}
    (small_disk / "filler").write_bytes(bytes(15_000_000))
    refused = server.get("/ready")
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "STORAGE_ERROR") and server.get("/health").status_code == 200
    (small_disk / "filler").unlink()
    assert server.get("/ready").status_code == 200


def test_captures_on_another_disk(start, small_disk):
    """The store may be elsewhere than the data folder: a capture is copied there, and room is needed in both."""
    server = start("--store", small_disk / "a/b", "--reserve", 1 << 20)
    data = movie(1)
    assert server.post("/upload", files={"video": ("a.mov", data)}).ok
    tus = Tus(server)
    tus.upload(data + b"x", filename="a.mov")
    bytes_there = sorted(path.read_bytes() for path in (small_disk / "a/b").rglob("*.mov"))
    assert bytes_there == sorted([data, data + b"x"])
    assert not list((server.data / "staging").iterdir()) and not list((server.data / "captures").iterdir())
    name = server.get("/videos").json()["videos"][0]["filename"]
    assert server.get(f"/uploads/{name}").ok
    fill(small_disk)
    assert tus.send("POST", "/files", Upload_Length=5).status_code == 507
    assert shutil.disk_usage(server.data).free > 1 << 20


def test_a_client_that_goes_away_is_no_error(start):
    """It leaves nothing behind: nothing at level warning or above, and no answer counted as one of the server's faults."""
    server = start()
    bodies = [
        post("/api/v1/devices/register", "Content-Length: 1000", "Content-Type: application/json", body='{"platform":'),
        post("/upload", "Content-Length: 100000", "Content-Type: video/mp4", body="x" * 5000),
        post("/files", "Content-Length: 100000", "Tus-Resumable: 1.0.0", "Upload-Length: 100000", "Content-Type: application/offset+octet-stream", body="x" * 5000),
        post("/api/v1/sessions/s/complete", "Content-Length: 1000", body="["),
        post("/api/v1/sessions/s/files/a", "Content-Length: 1000", body="[").replace("POST", "PUT", 1),
    ]
    for body in bodies * 5:
        Wire(server, body).reset()
        Wire(server, body).close()
        Wire(server, body).half_close().close()
    server.until(lambda: not list((server.data / "staging").iterdir()))
    assert server.get("/videos").json()["videos"] == []
    assert server.stop() == 0
    log = server.log.read_text()
    assert " error " not in log and " warning " not in log and " 500 " not in log, log
