"""A simulated phone: a registered key, the three ways of signing a request, and bundles."""

import base64
import hashlib
import itertools
import socket
import sqlite3
import time
import uuid

import requests
from bundles import APP, Device, bundle
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

PATH = "/api/v1/captures/video"
LIMITS = {"video": 104_857_600, "depth_data": 20_971_520, "hash_chain": 1_048_576, "metadata": 102_400}
BODY_LIMIT = 122 << 20


def database(server):
    return sqlite3.connect(server.data / "server.sqlite", timeout=300, isolation_level=None)


def rows(server, sql, *arguments):
    with database(server) as connection:
        return connection.execute(sql, arguments).fetchall()


def now():
    return time.time_ns() // 1_000_000


def capture(number=0, **parts):
    """A bundle of few bytes, which differ with the number; further keywords replace its parts."""
    found = bundle(6, video=b"video %d" % number, depth_data=b"depth %d" % number)
    for name, data in parts.items():
        setattr(found, name, data)
    return found


class Phone:
    """A device that the server knows, unless its level is None."""

    def __init__(self, server, number=1, level="secure_enclave", project="default"):
        self.server, self.device = server, Device(number)
        self.id = str(uuid.UUID(int=number, version=4)).upper()
        self.counters = itertools.count(1)
        if level:
            point = self.device.point if level != "unverified" else None
            rows(
                server, "INSERT INTO device VALUES (?, ?, 'ios', 'iPhone16,1', 1, ?, ?, ?, ?)",
                self.id.lower(), f"key {number}", level, point, project, now(),
            )

    def signature(self, scheme, body, timestamp, counter=None, app=APP, path=PATH):
        text = f"POST\n{path}\n{timestamp}\n{self.id}".encode()
        if scheme == "s0":
            return base64.b64encode(text).decode()
        if scheme == "s1":
            return base64.b64encode(self.device.key.sign(text, ec.ECDSA(hashes.SHA256()))).decode()
        signed = f"{timestamp}|{hashlib.sha256(body).hexdigest()}".encode()
        return self.device.assertion(signed, app=app, counter=next(self.counters) if counter is None else counter)

    def headers(self, body=b"", scheme="s2", timestamp=None, boundary="RialVideo-0E36A7E2-6B4B-4BC2-A86C-6E1E5A1A8F10", **signing):
        """All that the app sends, for the body that `bundles` writes."""
        timestamp = now() if timestamp is None else timestamp
        return {
            "Accept": "application/json",
            "User-Agent": "Rial-iOS/1.0",
            "Content-Type": f"multipart/form-data; boundary={boundary}",
            "X-Device-Id": self.id,
            "X-Device-Timestamp": str(timestamp),
            "X-Device-Signature": self.signature(scheme, body, timestamp, **signing),
        }

    def send(self, found, scheme="s2", headers=None, **signing):
        """Uploads a bundle, or a body as it is."""
        body = found if isinstance(found, bytes) else found.body()
        sent = {**self.headers(body, scheme, **signing), **(headers or {})}
        return self.post(body, sent)

    def post(self, body, headers):
        return requests.post(self.server.url + PATH, data=body, headers=headers, timeout=300)


def error(answer):
    """Status and code of an error, whose JSON has exactly the members that apps know."""
    body = answer.json()
    assert set(body) == {"error", "meta"} and set(body["error"]) == {"code", "message"}, body
    assert set(body["meta"]) == {"request_id", "timestamp"}, body
    assert body["meta"]["request_id"] == answer.headers["X-Request-Id"]
    return answer.status_code, body["error"]["code"]


def exchange(server, head, *pieces):
    """Sends bytes, and reads until the server closes the connection: all that it said. The pieces may never end."""
    sent = 0
    with socket.create_connection(("127.0.0.1", server.port), timeout=300) as connection:
        connection.sendall(head)
        try:
            for piece in itertools.chain.from_iterable(pieces):
                sent += len(piece)
                assert sent < 1 << 30, "the server goes on reading"
                connection.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            pass
        answer = b""
        while True:
            try:
                piece = connection.recv(65536)
            except ConnectionResetError:
                break
            if not piece:
                break
            answer += piece
    return answer


def head(headers, **more):
    lines = [f"POST {PATH} HTTP/1.1", "Host: localhost", *(f"{name}: {value}" for name, value in {**headers, **more}.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
