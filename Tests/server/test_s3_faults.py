"""An S3 server that fails: what was acknowledged is stored, what was not is sent again, and nothing is left over."""

import hashlib
import os
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from conftest import BINARY, free_port
from phone import error, rows
from queued import simulate
from resumable import MOVIE, SESSION, Tus, metadata, zipped
from stores import SECRET, bucket, converted, front  # noqa: F401

LARGE = MOVIE + bytes(range(256)) * (20 << 12)
MOVIE_NAME = "video_1700000000.mov"


def begin(start, front, prefix, **more):  # noqa: F811
    return start("--store", f"s3://captures/{prefix}?endpoint={front.address}", environment=SECRET, **more)


def put(server, data, name="kitchen.zip"):
    return requests.put(f"{server.url}/api/v1/sessions/{name}", data=data, timeout=300)


def times(count, fault, method, part=""):
    """The fault for the first so many requests of a kind."""
    lock, left = threading.Lock(), [count]

    def decide(seen, path, number):
        with lock:
            if seen == method and part in path and left[0] > 0:
                left[0] -= 1
                return fault
        return None

    return decide


@pytest.mark.parametrize("fault", [503, 500, (503, "SlowDown"), (400, "RequestTimeout"), 429, "cut", "lose", "other"])
@pytest.mark.parametrize("method, part", [("PUT", "partNumber=2"), ("POST", "uploads="), ("POST", "uploadId="), ("PUT", "session.zip")])
def test_what_passes_is_tried_again(start, bucket, front, fault, method, part):  # noqa: F811
    if fault == "other" and method == "POST":
        pytest.skip("only bytes have a digest")
    server = begin(start, front, "again")
    front.fault = times(2, fault, method, part)
    if part == "session.zip":
        data, answer = zipped(SESSION), put(server, zipped(SESSION))
        assert answer.status_code == 201, answer.text
        name = "session.zip"
    else:
        data, name = LARGE, MOVIE_NAME
        answer = requests.post(f"{server.url}/upload", files={"video": (name, data)}, timeout=300)
        assert answer.status_code == 200, answer.text
    ((capture, digest),) = rows(server, "SELECT capture, sha256 FROM file WHERE name = ?", name)
    assert hashlib.sha256(bucket.files("again", capture)[name]).hexdigest() == digest == hashlib.sha256(data).hexdigest()
    assert requests.delete(f"{server.url}/api/v1/captures/{capture}", timeout=300).status_code == 204
    # An upload that was begun twice, because the first answer was lost, is ended with the capture.
    assert bucket.objects("again/") == {} and bucket.unfinished() == []


@pytest.mark.parametrize("fault", [(403, "AccessDenied"), (404, "NoSuchBucket"), 503, "elsewhere", "cut"])
def test_nothing_is_accepted_that_is_not_stored(start, bucket, front, fault):  # noqa: F811
    prefix = f"none-{fault if isinstance(fault, str) else hash(fault) % 1000}"
    server = begin(start, front, prefix)
    front.fault = lambda method, path, number: fault if method == "PUT" else None
    # Both are tried again for a while, at the same time. The slow-motion app deletes its movie after any answer.
    with ThreadPoolExecutor(1) as pool:
        movie = pool.submit(requests.post, f"{server.url}/upload", files={"video": (MOVIE_NAME, LARGE)}, timeout=300)
        answer = put(server, zipped(SESSION))
        with pytest.raises(requests.ConnectionError):
            movie.result()
    assert error(answer) == (500, "STORAGE_ERROR")
    assert not any(word in answer.text for word in ("captures", "127.0.0.1", "Bucket", "S3"))
    assert server.get("/api/v1/captures").json()["data"] == [] and not list((server.data / "staging").iterdir())
    assert bucket.objects(prefix) == {} and bucket.unfinished(prefix) == [] and rows(server, "SELECT * FROM leftover") == []
    front.fault = None
    assert put(server, zipped(SESSION)).status_code == 201


def test_a_resumable_upload_waits_for_the_store(start, bucket, front):  # noqa: F811
    server, data = begin(start, front, "tus"), LARGE
    tus = Tus(server)
    path = tus.create(len(data), Upload_Metadata=metadata(filename=MOVIE_NAME))
    front.fault = lambda method, path, number: 503 if method in ("PUT", "POST") else None
    answer = tus.patch(path, 0, data)
    assert answer.status_code == 500
    # Nothing has to be sent twice.
    front.fault = None
    offset = tus.offset(path)
    assert offset > len(data) - (32 << 20)
    answer = tus.patch(path, offset, data[offset:])
    assert answer.status_code == 204 and bucket.files("tus", answer.headers["X-Capture-Id"]) == {MOVIE_NAME: data}


def test_a_folder_waits_for_the_store(start, bucket, front):  # noqa: F811
    server = begin(start, front, "folder")
    for name, data in SESSION:
        assert requests.put(f"{server.url}/api/v1/sessions/s/files/{name}", data=data, timeout=300).status_code == 201
    front.fault = lambda method, path, number: 503 if method == "PUT" and path.endswith(".jpg") else None
    assert requests.post(f"{server.url}/api/v1/sessions/s/complete", timeout=300).status_code == 500
    assert bucket.objects("folder/") == {}
    front.fault = None
    answer = requests.post(f"{server.url}/api/v1/sessions/s/complete", timeout=300)
    assert answer.status_code == 201
    assert bucket.files("folder", answer.headers["X-Capture-Id"]) == {f"session/{name}": data for name, data in SESSION}


def test_a_conversion_waits_for_the_store(start, bucket, front, tmp_path):  # noqa: F811
    movie = next(simulate("slow-motion-video", tmp_path / "m", "--seconds", "0.3", "--size", "320x240").glob("*.mov")).read_bytes()
    server = begin(start, front, "away", conversions=1)
    front.fault = lambda method, path, number: 503 if method == "GET" and path.split("?")[0].endswith(".mov") else None
    capture = Tus(server).upload(movie, filename=MOVIE_NAME)
    server.until(lambda: rows(server, "SELECT 1 FROM conversion WHERE state = 'waiting' AND notBefore > 0 AND attempts = 0"))
    assert rows(server, "SELECT status FROM capture") == [("processing",)]
    front.fault = None
    rows(server, "UPDATE conversion SET notBefore = 0")
    assert converted(server, capture)["status"] == "complete"


def test_a_damaged_object_is_no_take(start, bucket, front, tmp_path):  # noqa: F811
    server = begin(start, front, "damaged")
    capture = Tus(server).upload(LARGE, filename=MOVIE_NAME)
    bucket.client.put_object(Bucket="captures", Key=f"damaged/captures/{capture}/{MOVIE_NAME}", Body=LARGE[:-1] + b"!")
    server.conversions = 1
    server.options += ["--conversion-attempts", "1"]
    server.stop()
    server.start()
    assert converted(server, capture)["status"] == "failed"
    assert "has another digest" in server.log.read_text()


@pytest.mark.parametrize("way", ["kill", "refuse"])
def test_parts_of_an_upload_that_was_cut_off_are_removed(start, bucket, front, way):  # noqa: F811
    prefix = f"parts-{way}"
    server = begin(start, front, prefix)
    kept = Tus(server).upload(MOVIE + b"kept", filename=MOVIE_NAME)
    front.fault = lambda method, path, number: {"kill": "hang", "refuse": 403}[way] if "partNumber=2" in path or method == "DELETE" else None
    sending = threading.Thread(target=lambda: pytest.raises(Exception, requests.post, f"{server.url}/upload", files={"video": (MOVIE_NAME, LARGE)}))
    sending.start()
    server.until(lambda: front.count("PUT", "partNumber=2") == 1)
    server.until(lambda: bucket.unfinished(prefix + "/"))
    if way == "refuse":
        sending.join()
    server.kill()
    sending.join()
    assert len(rows(server, "SELECT capture FROM leftover")) == 1
    front.ends.set()
    front.fault = None
    server.start()
    assert bucket.unfinished(prefix + "/") == [] and rows(server, "SELECT capture FROM leftover") == []
    assert list(bucket.objects(prefix + "/")) == [f"{prefix}/captures/{kept}/{MOVIE_NAME}"]


def test_a_deleted_capture_goes_when_the_store_is_back(start, bucket, front):  # noqa: F811
    server = begin(start, front, "deleted", conversions=1)
    capture = put(server, zipped(SESSION)).json()["data"]["capture_id"]
    converted(server, capture)
    front.fault = lambda method, path, number: 403
    assert requests.delete(f"{server.url}/api/v1/captures/{capture}", timeout=300).status_code == 204
    assert server.get(f"/api/v1/captures/{capture}").status_code == 404 and bucket.files("deleted", capture)
    front.fault = None
    server.until(lambda: not bucket.keys("deleted/"))


def test_captures_that_the_database_does_not_know_stay(start, bucket, front):  # noqa: F811
    """A lost database, or one from a backup, must not cost what is in the store."""
    server, data = begin(start, front, "lost"), zipped(SESSION)
    capture = put(server, data).json()["data"]["capture_id"]
    server.stop()
    for path in server.data.glob("server.sqlite*"):
        path.unlink()
    server.start()
    assert server.get("/api/v1/captures").json()["data"] == []
    assert bucket.files("lost", capture) == {"session.zip": data}


@pytest.mark.parametrize(
    "fault, said",
    [
        ((403, "InvalidAccessKeyId"), "the bucket captures cannot be used: GET /captures: 403 InvalidAccessKeyId"),
        ((403, "SignatureDoesNotMatch"), "403 SignatureDoesNotMatch"),
        ((301, "PermanentRedirect"), "GET /captures: 301"),
        ((404, "NoSuchBucket"), "404 NoSuchBucket"),
        ("elsewhere", "was redirected to http://localhost/elsewhere/captures"),
        (200, "is no S3 server"),
    ],
)
def test_a_store_that_cannot_be_used_ends_the_start(tmp_path, bucket, front, fault, said):  # noqa: F811
    front.fault = lambda method, path, number: fault if "elsewhere" not in path else None
    done = serve(tmp_path, front.address)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith("error: store: ") and said in done.stderr and SECRET["AWS_SECRET_ACCESS_KEY"] not in done.stderr


def test_a_store_that_is_away_or_without_credentials_ends_the_start(tmp_path, bucket):  # noqa: F811
    done = serve(tmp_path, f"http://127.0.0.1:{free_port()}")
    assert done.returncode == 1 and "error: store: the bucket captures cannot be used: GET /captures: " in done.stderr
    for missing in SECRET:
        done = serve(tmp_path, bucket.address, {**SECRET, missing: ""})
        assert done.returncode == 1 and done.stderr == "error: store: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set\n"


def serve(tmp_path, address, environment=SECRET):
    command = [BINARY, "serve", "--data", tmp_path / "data", "--listen", f"127.0.0.1:{free_port()}", "--store", f"s3://captures/x?endpoint={address}"]
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300, env={**os.environ, **environment})


def test_memory_does_not_grow_with_uploads_at_a_time(start, bucket, front):  # noqa: F811
    """Sixteen parts of 8 MiB are under way at most, and all are stored."""
    server = begin(start, front, "many")
    movies = [MOVIE + os.urandom(64) + bytes(9 << 20) for _ in range(24)]

    def send(number):
        return put(server, zipped([("a.bin", movies[number])], 0), f"session{number}.zip").status_code

    with ThreadPoolExecutor(len(movies)) as pool:
        assert list(pool.map(send, range(len(movies)))) == [201] * len(movies)
    assert len(bucket.keys("many/")) == len(movies) and server.memory() < 700 << 20
