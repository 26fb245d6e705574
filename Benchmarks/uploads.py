"""Measures uploads: 200 at a time of 30 MB, by tus and as video captures, and a plain copy of as many bytes with SHA-256 on the same disk.

    make server
    python Benchmarks/uploads.py [--count 200] [--rounds 3] [--work DIR] [--output Benchmarks/results/uploads-NAME.json]

The peer is one process that reads a file from the page cache in pieces of 1 MiB, hashes and writes each piece, and ends each copy with
fsync. The clients are this program, so they take part of the processor time that the server could have. Needs twice the bytes of a round
in free space (12 GB), and only Python's standard library.
"""

import argparse
import asyncio
import base64
import datetime
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

SERVER = Path(__file__).resolve().parent.parent / "server/.build/release/takeset-server"
SIZE = 30_000_000
PIECE = 1 << 20
MOVIE = b"\0\0\0\x14ftypqt  \0\0\0\0qt  "
BOUNDARY = "boundary-of-the-benchmark"
METADATA = {
    "started_at": "2025-11-27T10:30:00.123Z", "ended_at": "2025-11-27T10:30:02.456Z", "duration_ms": 2333, "frame_count": 45,
    "depth_keyframe_count": 15, "resolution": {"width": 160, "height": 120}, "codec": "h264", "device_model": "iPhone",
    "attestation_level": "unverified", "hash_chain_final": base64.b64encode(bytes(32)).decode(), "assertion": "",
}


class Movie:
    """Movies that differ in their first bytes only, so that one file has the rest of all."""

    def __init__(self, folder):
        self.path = folder / "movie"
        self.path.write_bytes(os.urandom(SIZE))

    def start(self, number):
        return MOVIE + number.to_bytes(8, "big")

    def digest(self, number):
        digest, start = hashlib.sha256(self.start(number)), len(self.start(number))
        with self.path.open("rb") as file:
            file.seek(start)
            while piece := file.read(PIECE):
                digest.update(piece)
        return digest.hexdigest()


def copies(movie, folder, count):
    """The peer. Wall and processor seconds."""
    folder.mkdir()
    wall, cpu = time.perf_counter(), time.process_time()
    for number in range(count):
        digest = hashlib.sha256()
        with movie.path.open("rb", buffering=0) as source, (folder / f"{number}").open("wb", buffering=0) as target:
            while piece := source.read(PIECE):
                digest.update(piece)
                target.write(piece)
            os.fsync(target.fileno())
    found = time.perf_counter() - wall, time.process_time() - cpu
    shutil.rmtree(folder)
    return found


class Server:
    """A server with a new data folder."""

    def __init__(self, binary, folder):
        self.folder = folder
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = found.getsockname()[1]
        command = [binary, "serve", "--data", folder, "--listen", f"127.0.0.1:{self.port}", "--conversions", 0]
        command += ["--reserve", 0, "--videos-per-hour", 100_000, "--log-level", "error"]
        self.process = subprocess.Popen([*map(str, command)])
        for _ in range(1000):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health").read()
                return
            except OSError:
                time.sleep(0.02)
        sys.exit("the server does not start")

    def register(self):
        """The id of a device that proves nothing."""
        nothing = base64.b64encode(bytes(32)).decode()
        fields = {"device_id": nothing, "attestation_object": "", "challenge": nothing}
        body = json.dumps({"platform": "ios", "model": "iPhone16,1", "has_lidar": True, **fields}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/api/v1/devices/register", body, {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(request))["data"]["device_id"]

    def peak(self):
        """Bytes resident at their peak."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) * 1024

    def digests(self):
        with sqlite3.connect(self.folder / "server.sqlite") as database:
            return {digest for (digest,) in database.execute("SELECT sha256 FROM file")}

    def end(self):
        """Processor seconds."""
        self.process.send_signal(signal.SIGTERM)
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        shutil.rmtree(self.folder)
        return usage.ru_utime + usage.ru_stime


class Connection:
    """HTTP over a socket of its own; a file's bytes go from the page cache to the socket."""

    async def open(self, port):
        self.loop, self.socket = asyncio.get_running_loop(), socket.socket()
        self.socket.setblocking(False)
        await self.loop.sock_connect(self.socket, ("127.0.0.1", port))
        return self

    async def send(self, method, path, headers, start=b"", movie=None, end=b""):
        """The answer's head, which is a success."""
        count = len(start) + len(end) + (SIZE - movie[1] if movie else 0)
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {count}", *(f"{name}: {value}" for name, value in headers.items())]
        await self.loop.sock_sendall(self.socket, ("\r\n".join(lines) + "\r\n\r\n").encode() + start)
        if movie:
            file, offset = movie
            await self.loop.sock_sendfile(self.socket, file, offset)
        if end:
            await self.loop.sock_sendall(self.socket, end)
        answer = b""
        while b"\r\n\r\n" not in answer:
            piece = await self.loop.sock_recv(self.socket, 65536)
            assert piece, f"no answer to {method} {path}"
            answer += piece
        assert re.match(rb"HTTP/1.1 20\d ", answer), answer
        return answer.decode()


async def tus(port, movie, number, _):
    connection = await Connection().open(port)
    named = {"filename": f"recording_{1_700_000_000 + number}.mov", "kind": "movie"}
    metadata = ",".join(f"{name} {base64.b64encode(value.encode()).decode()}" for name, value in named.items())
    common = {"Tus-Resumable": "1.0.0"}
    created = await connection.send("POST", "/files", {**common, "Upload-Length": SIZE, "Upload-Metadata": metadata})
    path = re.search(r"(?im)^location: *(\S+)", created)[1]
    headers = {**common, "Upload-Offset": 0, "Content-Type": "application/offset+octet-stream"}
    with movie.path.open("rb") as file:
        start = movie.start(number)
        done = await connection.send("PATCH", path, headers, start, (file, len(start)))
    assert "x-capture-id" in done.lower(), done


async def video(port, movie, number, device):
    def part(name, data=b""):
        return f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"; filename="{name}"\r\n\r\n'.encode() + data

    connection = await Connection().open(port)
    path, now = "/api/v1/captures/video", int(time.time() * 1000)
    signature = base64.b64encode(f"POST\n{path}\n{now}\n{device}".encode()).decode()
    headers = {
        "Content-Type": f"multipart/form-data; boundary={BOUNDARY}", "X-Device-Id": device, "X-Device-Timestamp": now,
        "X-Device-Signature": signature,
    }
    others = {"depth_data": b"depth", "hash_chain": b"{}", "metadata": json.dumps(METADATA).encode()}
    end = b"".join(b"\r\n" + part(name, data) for name, data in others.items()) + f"\r\n--{BOUNDARY}--\r\n".encode()
    with movie.path.open("rb") as file:
        start = movie.start(number)
        await connection.send("POST", path, headers, part("video", start), (file, len(start)), end)


def uploads(kind, binary, movie, folder, count):
    """Wall seconds, processor seconds of the server, and its peak memory."""
    server = Server(binary, folder)

    async def all_at_once(device):
        began = time.perf_counter()
        await asyncio.gather(*(kind(server.port, movie, number, device) for number in range(count)))
        return time.perf_counter() - began

    try:
        device = server.register() if kind is video else None
        wall, peak = asyncio.run(all_at_once(device)), server.peak()
        missing = {movie.digest(number) for number in range(count)} - server.digests()
        assert not missing, f"{len(missing)} of {count} movies are not there"
    finally:
        cpu = server.end()
    return wall, cpu, peak


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--server", type=Path, default=SERVER)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="takeset-uploads-", dir=options.work))
    rounds = []
    try:
        movie = Movie(work)
        contenders = {
            "plain copy": lambda: (*copies(movie, work / "copies", options.count), 0),
            "tus": lambda: uploads(tus, options.server, movie, work / "data", options.count),
            "video captures": lambda: uploads(video, options.server, movie, work / "data", options.count),
        }
        names = list(contenders)
        for number in range(options.rounds):
            # Each round begins with another one, so that a disturbance meets all alike.
            order = names[number % len(names) :] + names[: number % len(names)]
            found = {}
            for name in order:
                os.sync()
                found[name] = contenders[name]()
            rounds.append(found)
    finally:
        shutil.rmtree(work)
    figures = {name: [statistics.median(found[name][column] for found in rounds) for column in range(3)] for name in names}
    ratios = {name: statistics.median(found["plain copy"][0] / found[name][0] for found in rounds) for name in names}
    print(f"| {options.count} at a time of {SIZE / 1e6:.0f} MB | wall s | MB/s | of the copy | CPU s | peak MB |\n|---|--:|--:|--:|--:|--:|")
    for name, (wall, cpu, peak) in figures.items():
        shown = f"{peak / 1e6:.0f}" if peak else ""
        print(f"| {name} | {wall:.1f} | {options.count * SIZE / wall / 1e6:.0f} | {ratios[name]:.2f} | {cpu:.1f} | {shown} |")
    if options.output:
        record = {
            "date": f"{datetime.date.today()}", "count": options.count, "bytes": SIZE, "cores": os.cpu_count(),
            "columns": ["wall seconds", "processor seconds", "peak bytes"], "rounds": rounds,
            "server_sha256": hashlib.sha256(options.server.read_bytes()).hexdigest(),
        }
        options.output.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
