"""Several requests to one upload at once, and uploads that expire while bytes arrive."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor

from phone import error, rows
from resumable import Tus, data, metadata, part_file, patch_head, raw, read_answer, stored

SIZE = 400_000


def writing(server, tus, part, length=SIZE, **headers):
    """A PATCH of which so many bytes have been sent: the upload's path and the connection."""
    path = tus.create(SIZE, **headers)
    connection = raw(server, patch_head(path, 0, length), part)
    server.until(part_file(server, path).exists)
    return path, connection


def finish(server, connection, rest, body):
    connection.sendall(rest)
    status, headers = read_answer(connection)
    assert (status, headers["upload-offset"]) == (204, str(len(body)))
    assert stored(server, headers["x-capture-id"]) == {"upload.bin": body}


def test_during_a_patch_head_is_answered_and_another_writer_is_locked_out(server, tus):
    body = data(SIZE)
    path, connection = writing(server, tus, body[:100_000])
    # What has arrived counts only when it is on the disk.
    assert tus.offset(path) == 0
    second = tus.patch(path, 0, bytes(10))
    assert second.status_code == 423 and int(second.headers["Retry-After"]) > 0
    assert error(tus.send("DELETE", path)) == (423, "UPLOAD_LOCKED")
    finish(server, connection, body[100_000:], body)
    assert tus.offset(path) == SIZE


def test_an_upload_does_not_expire_during_a_patch(server, tus):
    body = data(SIZE)
    path, connection = writing(server, tus, body[:100_000], length=200_000)
    rows(server, "UPDATE upload SET expiresAt = 1")
    assert tus.head(path).status_code == 410
    connection.sendall(body[100_000:200_000])
    status, headers = read_answer(connection)
    # Its bytes were acknowledged, so it lives on from now.
    assert (status, headers["upload-offset"]) == (204, "200000")
    assert tus.offset(path) == 200_000
    finish(server, raw(server, patch_head(path, 200_000, 200_000)), body[200_000:], body)


def test_many_patches_at_one_offset_at_once(server, tus):
    """Over and over: one of them wins, no other byte is mixed in, and the upload goes on from there."""
    path, body = tus.create(SIZE, Upload_Metadata=metadata(filename="x")), b""
    choice, start = random.Random(8), threading.Barrier(8)

    def write(part):
        start.wait()
        return Tus(server).patch(path, len(body), part).status_code

    with ThreadPoolExecutor(8) as pool:
        while len(body) < SIZE:
            parts = [choice.randbytes(SIZE // 5) for _ in range(8)]
            statuses = list(pool.map(write, parts))
            assert statuses.count(204) == 1 and set(statuses) <= {204, 409, 413, 423}, statuses
            body += parts[statuses.index(204)]
    assert stored(server, tus.head(path).headers["X-Capture-Id"]) == {"upload.bin": body}


def test_offsets_never_go_back_while_uploads_are_finished(server, tus):
    """An upload's file moves away when it becomes a capture; HEAD at that moment must not take it for lost."""
    uploads = []
    for number in range(60):
        body = data(30_000, number)
        path = tus.create(len(body))
        assert tus.patch(path, 0, body[:20_000]).status_code == 204
        uploads.append((path, body))
    seen, is_done = [], threading.Event()

    def look():
        heads = Tus(server)
        while not is_done.is_set():
            for path, _ in uploads[max(0, current - 1) : current + 2]:
                seen.append(heads.offset(path))

    current = 0
    watchers = [threading.Thread(target=look) for _ in range(3)]
    for watcher in watchers:
        watcher.start()
    for current, (path, body) in enumerate(uploads):
        assert "X-Capture-Id" in tus.patch(path, 20_000, body[20_000:]).headers
    is_done.set()
    for watcher in watchers:
        watcher.join()
    assert len(seen) > 100 and set(seen) == {20_000, 30_000}


def test_metadata_as_other_clients_write_it(server, tus):
    """Blanks after commas, names without a value, names that nobody here knows."""
    said = "filename bm90ZS50eHQ=, is_confidential,empty ,relativePath bnVsbA=="
    path = tus.create(5, Upload_Metadata=said)
    assert tus.head(path).headers["Upload-Metadata"] == said
    capture = tus.patch(path, 0, b"hello").headers["X-Capture-Id"]
    assert server.get(f"/api/v1/captures/{capture}").json()["data"]["status"] == "quarantined"
