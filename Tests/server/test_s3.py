"""Captures on an S3-compatible server: moto, read by boto3; signatures recomputed by botocore."""

import hashlib
import json
import random
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from phone import Phone, rows
from queued import bundle, files_below, simulate
from resumable import SESSION, Tus, zipped
from stores import SECRET, bucket, converted  # noqa: F401
from types import SimpleNamespace
from wire import cost_of_silent_readers


def options(bucket, prefix):
    return ["--store", f"s3://captures/{prefix}?endpoint={bucket.address}&region=us-east-1"]


def put(server, name, data):
    done = requests.put(f"{server.url}/api/v1/sessions/{name}", data=data, timeout=300)
    assert done.status_code == 201, done.text
    return done.json()["data"]["capture_id"]


def nothing_is_local(server):
    return all(not any((server.data / folder).iterdir()) for folder in ("captures", "staging", "cache"))


def test_a_reader_that_takes_nothing_costs_little(start, bucket, tmp_path):  # noqa: F811
    server = start(*options(bucket, tmp_path.name), environment=SECRET)
    capture = put(server, "large.zip", zipped([*SESSION, ("noise.bin", random.Random(1).randbytes(12_000_000))]))
    assert cost_of_silent_readers(server, [f"/captures/{capture}/{path}" for path in ("files/session.zip", "download")], 30) < 60e6


# Names that have to be encoded in one way for the path, in another for the query, and in a third in lists.
@pytest.mark.parametrize("prefix", ["plain", "lab one/a+b", "50%/100%25", "a=b&c/d;e", "caf\u00e9/\u6771\u4eac", "it's (a) *test*!~", "a?b#c", "<x>&amp;\"y\"", "trail/"])
def test_any_prefix(start, bucket, prefix):  # noqa: F811
    server = start(*options(bucket, urllib.parse.quote(prefix)), environment=SECRET)
    data = zipped(SESSION)
    capture = put(server, "kitchen.zip", data)
    root = prefix.rstrip("/")
    assert bucket.objects(root + "/") == {f"{root}/captures/{capture}/session.zip": data}
    assert server.get(f"/captures/{capture}/files/session.zip").content == data
    server.restart()
    assert server.get(f"/captures/{capture}/files/session.zip").content == data and nothing_is_local(server)
    assert requests.delete(f"{server.url}/api/v1/captures/{capture}", timeout=300).status_code == 204
    assert bucket.objects(root + "/") == {}


def send_all(server, folder):
    """A capture of each kind, by each way in: id to its files."""
    found = {}
    parts = bundle(folder / "bundle", "--seed", 5)
    names = {"video": "video.mp4", "depth_data": "depth.gz", "hash_chain": "hash_chain.json", "metadata": "metadata.json"}
    phone = Phone(server)
    form = requests.Request("POST", server.url, files={name: parts[file].read_bytes() for name, file in names.items()}).prepare()
    answer = phone.post(form.body, {**phone.headers(form.body, "s1"), "Content-Type": form.headers["Content-Type"]})
    assert answer.status_code == 202, answer.text
    found[answer.json()["data"]["capture_id"]] = {name: path.read_bytes() for name, path in parts.items()}
    sessions = [simulate("stack-session", folder / f"s{seed}", "--seconds", "0.3", "--variant", "v2", "--seed", seed) for seed in (1, 2)]
    archive = zipped([(f"first/{name}", path.read_bytes()) for name, path in files_below(sessions[0]).items()])
    found[put(server, "first.zip", archive)] = {"session.zip": archive}
    files = {name: path.read_bytes() for name, path in files_below(sessions[1]).items()} | {"empty.txt": b""}
    for name, data in files.items():
        assert requests.put(f"{server.url}/api/v1/sessions/second/files/{name}", data=data, timeout=300).status_code == 201
    answer = requests.post(f"{server.url}/api/v1/sessions/second/complete", timeout=300)
    assert answer.status_code == 201, answer.text
    found[answer.headers["X-Capture-Id"]] = {f"session/{name}": data for name, data in files.items()}
    movies = [next(simulate("slow-motion-video", folder / f"m{seed}", "--seconds", "0.3", "--size", "320x240", "--seed", seed).glob("*.mov")).read_bytes()
              for seed in (1, 2)]  # fmt: skip
    found[Tus(server).upload(movies[0], filename="video_1700000001.mov")] = {"video_1700000001.mov": movies[0]}
    answer = requests.post(f"{server.url}/upload", files={"video": ("video_1700000002.mov", movies[1])}, timeout=300)
    assert answer.status_code == 200, answer.text
    (capture,) = [id for (id,) in rows(server, "SELECT id FROM capture WHERE type = 'movie'") if id not in found]
    found[capture] = {"video_1700000002.mov": movies[1]}
    return found, answer.json()["path"], movies[1]


def test_all_kinds_are_kept_converted_shown_and_deleted(start, bucket, tmp_path):  # noqa: F811
    server = start(*options(bucket, "all"), environment=SECRET, conversions=1)
    found, path, movie = send_all(server, tmp_path)
    for capture, files in found.items():
        stored = bucket.files("all", capture)
        assert {name: data for name, data in stored.items() if name != "received.json"} == files
        assert converted(server, capture)["status"] == "complete", server.log.read_text()[-3000:]
        assert server.get(f"/captures/{capture}/thumbnail.jpg").content[:2] == b"\xff\xd8"
        assert server.get(f"/verify/{capture}").status_code == 200
        for name, data in stored.items():
            answer = server.get(f"/captures/{capture}/files/{urllib.parse.quote(name)}")
            assert answer.status_code == 200 and answer.content == data
    server.until(lambda: nothing_is_local(server))
    for first, last in ((0, 0), (10, 99), (len(movie) - 5, len(movie) - 1)):
        part = server.get(path, headers={"Range": f"bytes={first}-{last}"})
        assert part.status_code == 206 and part.content == movie[first : last + 1]
    # The dataset of the project has them all, after a restart that finds everything again, too.
    manifest = server.data / "datasets/default/manifest.json"

    def takes():
        return manifest.exists() and len(json.loads(manifest.read_text())["record"]["takes"])

    server.until(lambda: takes() == len(found))
    server.restart()
    assert {item["capture_id"] for item in server.get("/api/v1/captures").json()["data"]} == found.keys()
    for capture in found:
        assert requests.delete(f"{server.url}/api/v1/captures/{capture}", timeout=300).status_code == 204
    assert bucket.objects("all/") == {} and rows(server, "SELECT * FROM leftover") == []


def test_retention_removes_objects(start, bucket, tmp_path):  # noqa: F811
    server = start(*options(bucket, "old"), "--retention-days", 1, environment=SECRET, conversions=1)
    movie = next(simulate("slow-motion-video", tmp_path / "m", "--seconds", "0.3", "--size", "320x240").glob("*.mov"))
    capture = Tus(server).upload(movie.read_bytes(), filename="video_1700000001.mov")
    assert converted(server, capture)["status"] == "complete"
    server.until(lambda: rows(server, "UPDATE merged SET at = at - 90000000 RETURNING capture"))
    server.until(lambda: bucket.keys("old/") == [])
    assert server.get(f"/api/v1/captures/{capture}").json()["data"]["status"] == "complete"


def test_large_files_are_sent_in_parts_that_the_store_checks(start, bucket):  # noqa: F811
    server = start(*options(bucket, "large"), environment=SECRET)
    movie = bytes(range(256)) * (21 << 12)
    done = requests.post(f"{server.url}/upload", files={"video": ("video_1700000000.mov", movie)}, timeout=300)
    assert done.status_code == 200, done.text
    ((name, found),) = [(name, data) for name, data in bucket.objects("large/").items() if name.endswith(".mov")]
    assert hashlib.sha256(found).digest() == hashlib.sha256(movie).digest()
    assert bucket.client.head_object(Bucket="captures", Key=name)["ETag"].endswith('-3"') and bucket.unfinished() == []
    part = requests.get(server.url + done.json()["path"], headers={"Range": "bytes=9000000-9000099"}, timeout=300)
    assert part.status_code == 206 and part.content == movie[9_000_000:9_000_100]


class Recording(BaseHTTPRequestHandler):
    """Keeps what was sent."""

    protocol_version = "HTTP/1.1"
    requests = []

    def do_GET(self):
        self.requests.append(("GET", self.path, dict(self.headers), b""))
        self.answer(b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.requests.append(("PUT", self.path, dict(self.headers), body))
        self.answer(b"")

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"x"')
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


def test_signatures_are_those_that_botocore_computes(start):
    recorder = ThreadingHTTPServer(("127.0.0.1", 0), Recording)
    threading.Thread(target=recorder.serve_forever, daemon=True).start()
    server = start(*options(SimpleNamespace(address=f"http://127.0.0.1:{recorder.server_port}"), "caf%C3%A9/a=b%20c"),
                   environment={**SECRET, "AWS_SESSION_TOKEN": "token=="})  # fmt: skip
    put(server, "kitchen.zip", zipped(SESSION))
    assert {method for method, *_ in Recording.requests} == {"GET", "PUT"}
    for method, path, headers, body in Recording.requests:
        sent = {name.lower(): value for name, value in headers.items()}
        assert sent["x-amz-content-sha256"] == hashlib.sha256(body).hexdigest()
        names = sent["authorization"].split("SignedHeaders=")[1].split(",")[0].split(";")
        request = AWSRequest(method, f"http://127.0.0.1:{recorder.server_port}{path}", headers={name: sent[name] for name in names})
        request.context["timestamp"] = sent["x-amz-date"]
        signer = S3SigV4Auth(Credentials("key", SECRET["AWS_SECRET_ACCESS_KEY"], "token=="), "s3", "us-east-1")
        text = signer.string_to_sign(request, signer.canonical_request(request))
        assert sent["authorization"].endswith("Signature=" + signer.signature(text, request)), urllib.parse.unquote(path)
    recorder.shutdown()
