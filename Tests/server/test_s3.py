"""Captures on an S3-compatible server: moto, read by boto3; signatures recomputed by botocore."""

import hashlib
import subprocess
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import boto3
import pytest
import requests
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from conftest import TAKESET, free_port

SECRET = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret/+x"}


@pytest.fixture(scope="module")
def moto():
    """The address of an S3 server with an empty bucket `captures`, and a client of it."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "moto.server", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    end = time.monotonic() + 60
    while True:
        try:
            requests.get(address, timeout=5)
            break
        except requests.ConnectionError:
            assert time.monotonic() < end
            time.sleep(0.05)
    client = boto3.client("s3", endpoint_url=address, region_name="us-east-1", aws_access_key_id="key", aws_secret_access_key="secret/+x")
    client.create_bucket(Bucket="captures")
    yield address, client
    process.kill()
    process.wait()


def objects(client, prefix):
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="captures", Prefix=prefix)
    return {item["Key"]: client.get_object(Bucket="captures", Key=item["Key"])["Body"].read() for page in pages for item in page.get("Contents", [])}


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """A zip of a session."""
    root = tmp_path_factory.mktemp("session")
    subprocess.run([TAKESET, "simulate", "stack-session", "--output", root / "s", "--seconds", "0.3", "--size", "96x72", "--depth-size", "16x12"],
                   check=True, capture_output=True)  # fmt: skip
    subprocess.run([sys.executable, "-m", "zipfile", "-c", root / "s.zip", root / "s"], check=True)
    return (root / "s.zip").read_bytes()


def test_captures_are_objects_with_the_bytes_that_were_sent(start, moto, session):
    address, client = moto
    server = start("--store", f"s3://captures/lab one/a+b?endpoint={address}&region=us-east-1".replace(" ", "%20"), environment=SECRET, conversions=1)
    done = requests.put(f"{server.url}/api/v1/sessions/kitchen.zip", data=session, timeout=60)
    assert done.status_code == 201, done.text
    capture = done.json()["data"]["capture_id"]
    found = objects(client, "lab one/a+b/")
    assert found[f"lab one/a+b/captures/{capture}/session.zip"] == session
    assert not list((server.data / "captures").iterdir()) and not list((server.data / "staging").iterdir())

    def status():
        found = server.get(f"/api/v1/captures/{capture}").json()["data"]
        return found["status"] != "processing" and found

    found = server.until(status)
    assert found["status"] == "complete", found
    assert server.post("/health").status_code in (404, 405)
    assert requests.delete(f"{server.url}/api/v1/captures/{capture}", timeout=60).ok
    assert objects(client, f"lab one/a+b/captures/{capture}") == {}


def test_large_files_are_sent_in_parts_that_the_store_checks(start, moto):
    address, client = moto
    server = start("--store", f"s3://captures/large?endpoint={address}", environment=SECRET)
    movie = bytes(range(256)) * (21 << 12)
    done = requests.post(f"{server.url}/upload", files={"video": ("video_1700000000.mov", movie)}, timeout=120)
    assert done.status_code == 200, done.text
    ((name, found),) = [(name, data) for name, data in objects(client, "large/").items() if name.endswith(".mov")]
    assert hashlib.sha256(found).digest() == hashlib.sha256(movie).digest()
    assert "-" in client.head_object(Bucket="captures", Key=name)["ETag"]
    assert client.list_multipart_uploads(Bucket="captures").get("Uploads", []) == []
    part = requests.get(server.url + done.json()["path"], headers={"Range": "bytes=9000000-9000099"}, timeout=60)
    assert part.status_code == 206 and part.content == movie[9_000_000:9_000_100]


def test_objects_without_a_capture_are_removed_at_the_start(start, moto):
    address, client = moto
    server = start("--store", f"s3://captures/sweep?endpoint={address}", environment=SECRET)
    client.put_object(Bucket="captures", Key="sweep/captures/11111111-1111-4111-8111-111111111111/video.mp4", Body=b"orphan")
    client.put_object(Bucket="captures", Key="other/captures/22222222-2222-4222-8222-222222222222/video.mp4", Body=b"another's")
    server.restart()
    assert objects(client, "sweep/") == {} and len(objects(client, "other/")) == 1


def test_nothing_is_accepted_while_the_store_is_away(start, session):
    recorder = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=recorder.serve_forever, daemon=True).start()
    server = start("--store", f"s3://captures/a?endpoint=http://127.0.0.1:{recorder.server_port}", environment=SECRET)
    done = requests.put(f"{server.url}/api/v1/sessions/kitchen.zip", data=session, timeout=120)
    assert done.status_code == 500 and done.json()["error"]["code"] == "STORAGE_ERROR" and "captures" not in done.json()["error"]["message"]
    assert server.get("/api/v1/captures").json()["data"] == []
    assert not list((server.data / "staging").iterdir())
    recorder.shutdown()


class Refusing(BaseHTTPRequestHandler):
    """Lists nothing, and stores nothing."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(403)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_DELETE = do_POST = do_PUT

    def log_message(self, *arguments):
        pass


class Recording(Refusing):
    """Keeps what was sent."""

    requests = []

    def do_GET(self):
        self.requests.append(("GET", self.path, dict(self.headers), b""))
        super().do_GET()

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.requests.append(("PUT", self.path, dict(self.headers), body))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()


def test_signatures_are_those_that_botocore_computes(start, session):
    recorder = ThreadingHTTPServer(("127.0.0.1", 0), Recording)
    threading.Thread(target=recorder.serve_forever, daemon=True).start()
    place = f"s3://captures/caf%C3%A9/a=b%20c?endpoint=http://127.0.0.1:{recorder.server_port}&region=eu-north-1"
    server = start("--store", place, environment={**SECRET, "AWS_SESSION_TOKEN": "token=="})
    assert requests.put(f"{server.url}/api/v1/sessions/kitchen.zip", data=session, timeout=60).status_code == 201
    assert {method for method, *_ in Recording.requests} == {"GET", "PUT"}
    for method, path, headers, body in Recording.requests:
        sent = {name.lower(): value for name, value in headers.items()}
        assert sent["x-amz-content-sha256"] == hashlib.sha256(body).hexdigest()
        names = sent["authorization"].split("SignedHeaders=")[1].split(",")[0].split(";")
        request = AWSRequest(method, f"http://127.0.0.1:{recorder.server_port}{path}", headers={name: sent[name] for name in names})
        request.context["timestamp"] = sent["x-amz-date"]
        signer = S3SigV4Auth(Credentials("key", SECRET["AWS_SECRET_ACCESS_KEY"], "token=="), "s3", "eu-north-1")
        text = signer.string_to_sign(request, signer.canonical_request(request))
        assert sent["authorization"].endswith("Signature=" + signer.signature(text, request)), urllib.parse.unquote(path)
    recorder.shutdown()
