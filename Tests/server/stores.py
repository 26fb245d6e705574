"""An S3 server, and a front of it that fails as it is told."""

import contextlib
import http.client
import os
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import boto3
import pytest
import requests
from conftest import free_port

SECRET = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret/+x"}


class Bucket:
    """The bucket `captures` of a server at an address."""

    def __init__(self, address):
        self.address = address
        self.client = boto3.client("s3", endpoint_url=address, region_name="us-east-1", aws_access_key_id=SECRET["AWS_ACCESS_KEY_ID"],
                                   aws_secret_access_key=SECRET["AWS_SECRET_ACCESS_KEY"])  # fmt: skip

    def keys(self, prefix):
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket="captures", Prefix=prefix)
        return [item["Key"] for page in pages for item in page.get("Contents", [])]

    def objects(self, prefix):
        return {key: self.client.get_object(Bucket="captures", Key=key)["Body"].read() for key in self.keys(prefix)}

    def files(self, prefix, capture):
        """The files of a capture: name to bytes."""
        root = f"{prefix}/captures/{capture}/"
        return {key.removeprefix(root): data for key, data in self.objects(root).items()}

    def unfinished(self, prefix=""):
        """The keys of uploads in parts that were not completed."""
        return [item["Key"] for item in self.client.list_multipart_uploads(Bucket="captures", Prefix=prefix).get("Uploads", [])]


def ended(capture):
    return capture["status"] != "processing" and capture


def converted(server, capture):
    """The capture once its conversion has ended."""
    return server.until(lambda: ended(server.get(f"/api/v1/captures/{capture}").json()["data"]))


class Front(ThreadingHTTPServer):
    """Passes requests on to an S3 server, unless `fault` says otherwise.

    `fault` gets method, path with query, and number of the request, and returns None to pass it on; a status, or a status and a code; or a
    word: `hang` (no answer), `cut` (half of the body is read), `lose` (passed on, but the answer is lost), `other` (the answer names other
    bytes), `elsewhere` (a redirect to the same path of another host)."""

    daemon_threads = True

    def __init__(self, bucket):
        super().__init__(("127.0.0.1", 0), Handler)
        self.target = urlsplit(bucket.address).netloc
        self.address = f"http://127.0.0.1:{self.server_port}"
        self.fault, self.seen, self.lock, self.ends = None, [], threading.Lock(), threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def count(self, method, part):
        return sum(1 for seen, path in self.seen if seen == method and part in path)

    def handle_error(self, request, client_address):
        pass

    def close(self):
        self.ends.set()
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_request(self):
        length = int(self.headers.get("Content-Length", 0))
        with self.server.lock:
            self.server.seen.append((self.command, self.path))
            number = len(self.server.seen)
        fault = self.server.fault(self.command, self.path, number) if self.server.fault else None
        if fault == "cut":
            self.rfile.read(length // 2)
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        body = self.rfile.read(length)
        if fault == "hang":
            self.server.ends.wait(60)
            self.close_connection = True
        elif fault == "elsewhere":
            self.answer(307, {"Location": f"http://localhost:{self.server.server_port}/elsewhere{self.path}"})
        elif fault in (None, "lose", "other"):
            connection = http.client.HTTPConnection(self.server.target, timeout=300)
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            data, headers = answer.read(), dict(answer.getheaders())
            if fault == "lose":
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            if fault == "other":
                headers["x-amz-checksum-sha256"] = "AAAA"
            self.answer(answer.status, headers, data)
        else:
            status, code = fault if isinstance(fault, tuple) else (fault, "InternalError")
            self.answer(status, {}, f"<?xml version='1.0'?><Error><Code>{code}</Code></Error>".encode())

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_request

    def answer(self, status, headers, data=b""):
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                self.send_header(name, value)
        length = headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(data))
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *arguments):
        pass


@contextlib.contextmanager
def running(*command):
    """A server of S3 with an empty bucket `captures`, on the port that follows the command."""
    port = free_port()
    process = subprocess.Popen([*command, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    bucket = Bucket(f"http://127.0.0.1:{port}")
    end = time.monotonic() + 60
    try:
        while True:
            try:
                requests.get(bucket.address, timeout=300)
                break
            except requests.RequestException:
                assert time.monotonic() < end and process.poll() is None
                time.sleep(0.05)
        bucket.client.create_bucket(Bucket="captures")
        yield bucket
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def bucket():
    """moto's server; or, with S3_ADDRESS in the environment, another one that has an empty bucket `captures` and these credentials."""
    if address := os.environ.get("S3_ADDRESS"):
        yield Bucket(address)
        return
    with running(sys.executable, "-m", "moto.server", "-p") as bucket:
        yield bucket


@pytest.fixture
def front(bucket):
    front = Front(bucket)
    yield front
    front.close()
