"""What a phone's movie survives: a full disk and a killed server. The phone deletes its copy after any answer, so none may come too early."""

import hashlib
import random
import threading

import pytest
import requests
from test_slowmotion import MOVIE, NAME, form, rows, send, stored, upload
from wire import Wire, post


@pytest.mark.parametrize("chunked", [False, True])
def test_when_the_disk_becomes_full_there_is_no_answer(start, small_disk, chunked):
    """Not even the reserve is asked for, so that it is the write that fails."""
    server = start("--reserve", 0, data=small_disk / "data")
    assert upload(server).status_code == 200
    large = MOVIE + bytes(40 << 20)
    body, content_type = form([("video", "video_1761000001.mov", large)])
    pieces = (body[start:start + 65536] for start in range(0, len(body), 65536))
    with pytest.raises(requests.ConnectionError):
        send(server, pieces if chunked else body, content_type)
    # Nothing of it is left, and the space is there again.
    assert len(rows(server)) == 1 and not list((server.data / "staging").iterdir())
    assert upload(server, MOVIE + bytes(10 << 20)).status_code == 200
    assert len(server.get("/videos").json()["videos"]) == 2


@pytest.mark.parametrize("seed", range(3))
def test_every_answered_movie_survives_a_killed_server(server, seed):
    """Phones send until the server is killed. What was answered is there, byte for byte; the rest leaves nothing, and is sent again."""
    random.seed(seed)
    wanted = random.randint(3, 30)
    # What the phones may send before the server is killed: so some movies are left, and some are under way.
    turns = threading.Semaphore(wanted + 6)
    movies = [MOVIE + random.randbytes(200_000 + number) for number in range(60)]
    answered, unanswered = {}, []

    def phone(mine):
        for number in mine:
            turns.acquire()
            try:
                answer = upload(server, movies[number], f"video_{1761000000 + number}.mov")
                answered[number] = answer.json()["path"]
            except requests.RequestException:
                unanswered.append(number)

    phones = [threading.Thread(target=phone, args=(range(first, 60, 6),)) for first in range(6)]
    for thread in phones:
        thread.start()
    server.until(lambda: len(answered) >= wanted)
    server.kill()
    turns.release(60)
    for thread in phones:
        thread.join()
    assert answered and unanswered
    server.start()
    assert not list((server.data / "staging").iterdir())
    for number, path in answered.items():
        assert hashlib.sha256(server.get(path).content).digest() == hashlib.sha256(movies[number]).digest()
    for number in unanswered:
        assert upload(server, movies[number], f"video_{1761000000 + number}.mov").status_code == 200
    found = rows(server)
    # One capture each, also for those that were kept and whose answer was lost; and no folder without a capture.
    assert len(found) == 60 and {path.name for path in (server.data / "captures").iterdir()} == {row["id"] for row in found}
    assert all(hashlib.sha256(stored(server, row["id"])[f"video_{row['name'].split('_')[1]}.mov"]).digest() == hashlib.sha256(
        movies[int(row["name"].split("_")[1]) - 1761000000]).digest() for row in found)


def test_an_upload_in_the_middle_of_which_the_server_is_killed(server):
    body, content_type = form([("video", NAME, MOVIE)])
    head = post("/upload", f"Content-Type: {content_type}", f"Content-Length: {len(body)}")
    with Wire(server, head.encode() + body[:-100]) as wire:
        server.until(lambda: list((server.data / "staging").glob("*/*.mov")))
        server.kill()
        assert wire.rest() == b""
    server.start()
    assert rows(server) == [] and not list((server.data / "staging").iterdir()) and not list((server.data / "captures").iterdir())
    assert upload(server).status_code == 200
