"""Cuts, kills and full disks: what was acknowledged stays, and what is there is right."""

import os
import random
import shutil
import threading
import time

import pytest
import requests
from tusclient import client
from tusclient.exceptions import TusCommunicationError

from resumable import SESSION, Tus, checksum, data, metadata, part_file, patch_head, raw, sha256, stored, zipped

SIZE = 400_000


@pytest.mark.parametrize("reset", [False, True], ids=["FIN", "RST"])
@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_a_cut_patch_keeps_what_arrived(server, tus, reset, chunked):
    body = data(SIZE)
    path = tus.create(SIZE, Upload_Metadata=metadata(sha256=sha256(body)))
    part = body[:70_000]
    if chunked:
        connection = raw(server, patch_head(path, 0), b"%x\r\n" % SIZE + part)
    else:
        connection = raw(server, patch_head(path, 0, SIZE), part)
    server.until(part_file(server, path).exists)
    if reset:
        # What the kernel has not handed over yet may be lost with RST; then fewer bytes count, and HEAD says so.
        connection.setsockopt(1, 13, b"\1\0\0\0\0\0\0\0")
    connection.close()

    def released():
        """The offset, once nobody writes any more."""
        answer = tus.patch(path, tus.offset(path), b"")
        return answer.status_code == 204 and int(answer.headers["Upload-Offset"]) + 1

    offset = server.until(released) - 1
    assert offset == 70_000 if not reset else 0 <= offset <= 70_000
    assert part_file(server, path).stat().st_size >= offset or offset == 0
    last = tus.patch(path, offset, body[offset:])
    assert last.status_code == 204
    assert stored(server, last.headers["X-Capture-Id"]) == {"upload.bin": body}


def test_a_cut_patch_with_a_checksum_keeps_nothing(server, tus):
    body = data(SIZE)
    path = tus.create(SIZE)
    connection = raw(server, patch_head(path, 0, SIZE, Upload_Checksum=checksum(body)), body[:70_000])
    server.until(part_file(server, path).exists)
    connection.close()
    server.until(lambda: tus.patch(path, 0, b"").status_code == 204)
    assert tus.offset(path) == 0
    assert tus.patch(path, 0, body, Upload_Checksum=checksum(body)).status_code == 204


def kill_once(server, condition):
    """A thread that kills the server as soon as a condition holds."""

    def watch():
        end = time.monotonic() + 300
        while not condition() and time.monotonic() < end:
            time.sleep(0.001)
        server.kill()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def kill_again_and_again(server, kills, size, choice):
    """Uploads bytes while the server is killed again and again. Every offset that HEAD gives is at least what was acknowledged."""
    body = data(size, seed=choice.random())
    tus = Tus(server)
    path = tus.create(size, Upload_Metadata=metadata(filename="upload.bin", sha256=sha256(body)))
    acknowledged, capture = 0, None
    file, turns, ended = part_file(server, path), kills, threading.Event()

    def arrived():
        try:
            return file.stat().st_size
        except FileNotFoundError:
            return size if ended.is_set() else 0

    while capture is None:
        killer = None
        if kills:
            count = size * (turns - kills) // turns + choice.randrange(60_000)
            kills -= 1
            killer = kill_once(server, lambda count=count: ended.is_set() or arrived() >= count)
        try:
            while capture is None:
                offset = acknowledged
                count = choice.choice([1000, 50_000, 300_000, 2_000_000])
                answer = tus.patch(path, offset, body[offset : offset + count])
                assert answer.status_code == 204, answer.text
                acknowledged = int(answer.headers["Upload-Offset"])
                capture = answer.headers.get("X-Capture-Id")
            ended.set()
        except requests.ConnectionError:
            pass
        if killer is None:
            continue
        killer.join()
        server.start()
        offset = tus.offset(path)
        assert offset >= acknowledged
        head = tus.head(path)
        capture = head.headers.get("X-Capture-Id")
        if capture is None:
            assert file.stat().st_size >= offset if offset else True
            assert offset == 0 or file.read_bytes()[:offset] == body[:offset]
        acknowledged = offset
    assert stored(server, capture) == {"upload.bin": body}
    return capture


def check_nothing_is_left(server, captures):
    server.restart()
    server.until(lambda: not list((server.data / "uploads").iterdir()))
    assert sorted(path.name for path in (server.data / "captures").iterdir()) == sorted(captures)
    assert list((server.data / "staging").iterdir()) == []


def test_kills_lose_nothing_acknowledged(server):
    choice = random.Random(15)
    captures = [kill_again_and_again(server, 2, 6_000_000, choice) for _ in range(5)]
    check_nothing_is_left(server, captures)


@pytest.mark.slow
def test_a_hundred_kills_lose_nothing_acknowledged(server):
    choice = random.Random(16)
    captures = [kill_again_and_again(server, 5, 12_000_000, choice) for _ in range(20)]
    check_nothing_is_left(server, captures)


def test_long_patches_save_their_offset_on_the_way(server, tus):
    """A server that is killed in the middle of one large PATCH loses at most 32 MiB."""
    size = 80 << 20
    block = data(1 << 20)
    path = tus.create(size)
    connection = raw(server, patch_head(path, 0, size))
    for _ in range(70):
        connection.sendall(block)
    server.until(lambda: tus.offset(path) >= 32 << 20)
    server.restart()
    offset = tus.offset(path)
    assert 32 << 20 <= offset <= 70 << 20
    rest = (block * 80)[offset:]
    last = tus.patch(path, offset, rest)
    assert sha256(next(iter(stored(server, last.headers["X-Capture-Id"]).values()))) == sha256(block * 80)


def test_bytes_that_the_disk_lost_are_not_promised(server, tus):
    body = data(1000)
    path = tus.create(1000)
    assert tus.patch(path, 0, body[:900]).status_code == 204
    server.kill()
    os.truncate(part_file(server, path), 300)
    server.start()
    assert tus.offset(path) == 300
    last = tus.patch(path, 300, body[300:])
    assert stored(server, last.headers["X-Capture-Id"]) == {"upload.bin": body}


def test_a_full_disk_is_507_and_what_was_acknowledged_stays(start, small_disk):
    server = start("--reserve", 0, data=small_disk / "data")
    tus = Tus(server)
    body = data(6 << 20)
    path = tus.create(len(body), Upload_Metadata=metadata(sha256=sha256(body)))
    assert tus.patch(path, 0, body[: 2 << 20]).status_code == 204
    filler = small_disk / "filler"
    filler.write_bytes(bytes(shutil.disk_usage(small_disk).free - (1 << 20)))
    # Declared: refused before a byte is written. In chunks: the write fails.
    assert tus.patch(path, 2 << 20, body[2 << 20 :]).status_code == 507
    assert tus.patch(path, 2 << 20, iter([body[2 << 20 :]])).status_code == 507
    assert tus.offset(path) == 2 << 20
    assert server.get("/health").ok
    filler.unlink()
    last = tus.patch(path, 2 << 20, body[2 << 20 :])
    assert stored(server, last.headers["X-Capture-Id"]) == {"upload.bin": body}


class TestPublishedClient:
    """tuspy, the client that the authors of tus publish for Python."""

    def uploader(self, server, tmp_path, body, **options):
        file = tmp_path / "session_2.zip"
        file.write_bytes(body)
        tus = client.TusClient(f"{server.url}/files")
        return tus.uploader(str(file), metadata={"filename": file.name, "sha256": sha256(body)}, **options)

    @pytest.mark.parametrize("checked", [False, True])
    def test_uploads_in_pieces(self, server, tus, tmp_path, checked):
        body = zipped([*SESSION, ("s/video.mov", data(300_000))])
        uploader = self.uploader(server, tmp_path, body, chunk_size=50_000, upload_checksum=checked)
        uploader.upload()
        capture = tus.head(uploader.url.replace(server.url, "")).headers["X-Capture-Id"]
        assert stored(server, capture) == {"session.zip": body}

    def test_resumes_after_a_kill(self, server, tus, tmp_path):
        body = zipped([*SESSION, ("s/video.mov", data(300_000))])
        uploader = self.uploader(server, tmp_path, body, chunk_size=50_000)
        uploader.upload(stop_at=150_000)
        url = uploader.url
        server.kill()
        with pytest.raises((TusCommunicationError, requests.ConnectionError)):
            uploader.upload_chunk()
        server.start()
        again = self.uploader(server, tmp_path, body, chunk_size=80_000, url=url)
        assert again.offset == 150_000
        again.upload()
        capture = tus.head(url.replace(server.url, "")).headers["X-Capture-Id"]
        assert stored(server, capture) == {"session.zip": body}
