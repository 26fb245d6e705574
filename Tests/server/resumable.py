"""A client of tus 1.0 without any library, and small archives."""

import base64
import hashlib
import io
import random
import socket
import tarfile
import zipfile
from urllib.parse import urlsplit

import requests

CHUNK = "application/offset+octet-stream"


def metadata(**values):
    """Upload-Metadata from names and texts."""
    return ",".join(f"{name} {base64.b64encode(text.encode()).decode()}" for name, text in values.items())


def checksum(data, algorithm="sha256"):
    return f"{algorithm} {base64.b64encode(hashlib.new(algorithm, data).digest()).decode()}"


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def data(count, seed=1):
    """Bytes that do not compress."""
    return random.Random(seed).randbytes(count)


class Tus:
    """Requests to a server's /files; every answer must have the headers that tus asks for."""

    def __init__(self, server, key=None):
        self.server = server
        self.session = requests.Session()
        if key:
            self.session.headers["Authorization"] = f"Bearer {key}"

    def send(self, method, path, data=b"", version="1.0.0", **headers):
        if version:
            headers["Tus-Resumable"] = version
        headers = {name.replace("_", "-"): str(value) for name, value in headers.items() if value is not None}
        answer = self.session.request(method, self.server.url + path, data=data, headers=headers, timeout=300)
        assert answer.headers["Tus-Resumable"] == "1.0.0"
        return answer

    def create(self, length, data=b"", **headers):
        answer = self.send("POST", "/files", data, Upload_Length=length, **headers)
        assert answer.status_code == 201, answer.text
        return answer.headers["Location"]

    def head(self, path):
        return self.send("HEAD", path)

    def offset(self, path):
        answer = self.head(path)
        assert answer.status_code == 200
        return int(answer.headers["Upload-Offset"])

    def patch(self, path, offset, data, **headers):
        return self.send("PATCH", path, data, Upload_Offset=offset, Content_Type=CHUNK, **headers)

    def upload(self, data, **values):
        """All bytes in one piece. The capture's id."""
        path = self.create(len(data), Upload_Metadata=metadata(**values))
        answer = self.patch(path, 0, data)
        assert answer.status_code == 204, answer.text
        return answer.headers["X-Capture-Id"]


def raw(server, head, body=b""):
    """Sends bytes over a connection of its own, which stays open."""
    parts = urlsplit(server.url)
    connection = socket.create_connection((parts.hostname, parts.port), timeout=300)
    connection.sendall(head.encode() + body)
    return connection


def patch_head(path, offset, length=None, **headers):
    """The head of a PATCH; without a length, the body comes in chunks."""
    lines = [f"PATCH {path} HTTP/1.1", "Host: localhost", "Tus-Resumable: 1.0.0", f"Content-Type: {CHUNK}", f"Upload-Offset: {offset}"]
    lines.append("Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines) + "\r\n\r\n"


def read_answer(connection):
    """Status and headers of the next answer."""
    reader = connection.makefile("rb")
    status = int(reader.readline().split()[1])
    headers = {}
    while line := reader.readline().strip():
        name, _, value = line.decode().partition(":")
        headers[name.lower()] = value.strip()
    reader.read(int(headers.get("content-length", 0)))
    return status, headers


def zipped(files, compression=zipfile.ZIP_DEFLATED):
    """A zip of names and bytes; a ZipInfo as name keeps its attributes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, data in files:
            archive.writestr(name, data)
    return out.getvalue()


def tarred(files, format=tarfile.PAX_FORMAT):
    """A tar of names and bytes; a TarInfo as name keeps its type."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as archive:
        for name, data in files:
            member = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


SESSION = [("s/metadata.json", b"{}"), ("s/poses.json", b"[]"), ("s/rgb/000000.jpg", b"\xff\xd8\xff\xd9" * 100)]
MOVIE = b"\0\0\0\x14ftypqt  \0\0\0\0qt  " + b"\0\0\0\x08moov"


def part_file(server, path):
    """Where the bytes of an unfinished upload lie. The first PATCH makes it when it has the upload for itself."""
    return server.data / path.replace("/files/", "uploads/")


def stored(server, capture):
    """The files of a capture as they lie in the data folder: names and bytes."""
    folder = server.data / "captures" / capture
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
