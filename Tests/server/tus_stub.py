"""A small tus 1.0 server that misbehaves on request, to test clients against."""

import base64
import hashlib
import json
import socket
import struct
import threading
import time
import uuid
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Fault:
    """What happens to one request instead of the usual."""

    status: int = 0  # answered before anything is done
    headers: dict = field(default_factory=dict)
    body: bytes = b""
    cut_after: int = -1  # the connection is reset after so many bytes of the body, which are kept
    lose_answer: bool = False  # everything is done, then the connection is reset
    hold: threading.Event = None  # waited for before anything is done


@dataclass
class Request:
    method: str
    path: str
    headers: dict
    time: float
    body_bytes: int = 0
    offset: int = -1


class TusStub:
    """`faults` are taken in order, one for each request whose method is the key."""

    def __init__(self, key=None, max_size=None, checksums=True, tls=None, capture_in="PATCH", port=0):
        self.uploads, self.captures, self.requests = {}, {}, []
        self.faults = {}
        self.key, self.max_size, self.checksums, self.capture_in = key, max_size, checksums, capture_in
        self.lock = threading.RLock()
        self.arrived = threading.Condition(self.lock)
        self.active = self.most_active = 0
        self.pause = 0
        self.location = "/files/{}"
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def handle_any(self):
                stub.handle(self)

            do_GET = do_POST = do_PATCH = do_HEAD = do_OPTIONS = do_DELETE = handle_any

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, *_):
                pass  # a client that was killed

        self.server = Server(("127.0.0.1", port), Handler)
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def fault(self, method, *faults):
        self.faults.setdefault(method, []).extend(faults)

    def of(self, method):
        with self.lock:
            return [request for request in self.requests if request.method == method]

    def wait_until(self, check, seconds=300):
        """Returns what `check` gives once that is true; looked at after every request."""
        end = time.monotonic() + seconds
        with self.arrived:
            while not (found := check()):
                assert (left := end - time.monotonic()) > 0, self.requests
                self.arrived.wait(left)
            return found

    # What a test asks of finished uploads.

    def by_name(self, name):
        return next(upload for upload in self.uploads.values() if upload["metadata"]["filename"] == name)

    def kept(self, name):
        return bytes(self.by_name(name)["data"])

    # Requests

    def handle(self, http):
        request = Request(http.command, http.path, {k.lower(): v for k, v in http.headers.items()}, time.monotonic())
        request.offset = int(request.headers.get("upload-offset", -1))
        with self.arrived:
            self.requests.append(request)
            self.active += http.command == "PATCH"
            self.most_active = max(self.most_active, self.active)
            fault = self.faults.get(http.command, []) and self.faults[http.command].pop(0)
            self.arrived.notify_all()
        try:
            answer = self.respond(http, request, fault)
        finally:
            # Before the answer: a client that has it sends its next request at once.
            with self.lock:
                self.active -= http.command == "PATCH"
        answer()

    def respond(self, http, request, fault):
        """Does what is asked, and returns what answers it."""
        if fault and fault.hold:
            fault.hold.wait(3600)
        length = int(request.headers.get("content-length", 0))
        if fault and fault.cut_after >= 0:
            data = http.rfile.read(min(fault.cut_after, length))
            with self.lock:
                upload = self.uploads.get(http.path.rsplit("/", 1)[-1])
                if upload and request.offset == len(upload["data"]):
                    upload["data"] += data
            return partial(self.reset, http)
        body = http.rfile.read(length)
        request.body_bytes = len(body)
        if self.pause and http.command == "PATCH":
            time.sleep(self.pause)
        if fault and fault.status:
            return partial(self.answer, http, fault.status, fault.headers, fault.body)
        if self.key and http.command != "OPTIONS" and request.headers.get("authorization") != f"Bearer {self.key}":
            return partial(self.error, http, 401, "An API key is needed", {"WWW-Authenticate": 'Basic realm="takeset", charset="UTF-8"'})
        with self.arrived:
            status, headers, data = self.act(http, request, body)
            self.arrived.notify_all()
        if fault and fault.lose_answer:
            return partial(self.reset, http)
        return partial(self.answer, http, status, {**headers, **(fault.headers if fault else {})}, data)

    def act(self, http, request, body):
        resumable = {"Tus-Resumable": "1.0.0"}
        if http.command == "OPTIONS":
            headers = {"Tus-Version": "1.0.0", "Tus-Extension": "creation,termination" + (",checksum" if self.checksums else "")}
            if self.checksums:
                headers["Tus-Checksum-Algorithm"] = "sha1,sha256"
            if self.max_size:
                headers["Tus-Max-Size"] = str(self.max_size)
            return 204, {**resumable, **headers}, b""
        if http.command == "POST" and http.path == "/files":
            words = (pair.split(" ") for pair in request.headers["upload-metadata"].split(","))
            metadata = {name: base64.b64decode(value).decode() for name, value in words}
            name = uuid.uuid4().hex
            self.uploads[name] = {"length": int(request.headers["upload-length"]), "metadata": metadata, "data": bytearray()}
            return 201, {**resumable, "Location": self.location.format(name)}, b""
        if http.command in ("GET", "HEAD") and http.path.startswith("/api/v1/captures/"):
            files = self.captures.get(http.path.rsplit("/", 1)[-1])
            if files is None:
                return 404, {}, b'{"error":{"code":"CAPTURE_NOT_FOUND","message":"There is no such capture"}}'
            return 200, {}, json.dumps({"data": {"files": [{"sha256": digest} for digest in files]}}).encode()
        name = http.path.rsplit("/", 1)[-1]
        upload = self.uploads.get(name)
        if not upload:
            return 404, resumable, b""
        if http.command == "DELETE":
            del self.uploads[name]
            return 204, resumable, b""
        data = upload["data"]
        if http.command == "PATCH":
            if request.offset != len(data):
                return 409, resumable, b""
            if "upload-checksum" in request.headers:
                algorithm, digest = request.headers["upload-checksum"].split(" ")
                if base64.b64decode(digest) != hashlib.new(algorithm, body).digest():
                    return 460, resumable, b""
            data += body
        headers = {**resumable, "Upload-Offset": str(len(data)), "Upload-Length": str(upload["length"]), "Cache-Control": "no-store"}
        if len(data) == upload["length"]:
            digest = hashlib.sha256(data).hexdigest()
            if digest != upload["metadata"]["sha256"]:
                return 460, resumable, b""
            capture = upload.setdefault("capture", str(uuid.uuid4()))
            self.captures.setdefault(capture, [digest])
            if self.capture_in in (http.command, "always"):
                headers["X-Capture-Id"] = capture
        return (204 if http.command == "PATCH" else 200), headers, b""

    @staticmethod
    def answer(http, status, headers, body):
        http.send_response(status)
        for name, value in headers.items():
            http.send_header(name, value)
        if status != 204:
            http.send_header("Content-Length", str(len(body)))
        http.end_headers()
        if http.command != "HEAD":
            http.wfile.write(body)

    def error(self, http, status, message, headers=None):
        self.answer(http, status, headers or {}, json.dumps({"error": {"code": "X", "message": message}}).encode())

    @staticmethod
    def reset(http):
        """Ends the connection with RST, so that the client sees a failure and not an end."""
        http.close_connection = True
        http.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        http.rfile.close()
        http.connection.close()
