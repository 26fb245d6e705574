"""Starts the real server on a free port, with a data folder of its own."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
import requests
from resumable import Tus
from tus_stub import TusStub

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("SERVER", ROOT / "server/.build/release/takeset-server"))
TAKESET = Path(os.environ.get("TAKESET", ROOT / ".build/release/takeset"))


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Server:
    """A running server. `url` has no slash at its end."""

    def __init__(self, data, *options, environment=None, conversions=0):
        self.data, self.options, self.port = Path(data), [*map(str, options)], free_port()
        self.environment = {**os.environ, "TAKESET": str(TAKESET), **(environment or {})}
        self.conversions = conversions
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = self.data.parent / f"{self.data.name}.log"
        self.process = None

    def start(self):
        command = [BINARY, "serve", "--data", self.data, "--listen", f"127.0.0.1:{self.port}", "--conversions", self.conversions, "--takeset", TAKESET, *self.options]
        for reserve in {"--reserve", "--stranger-reserve"} - {*self.options}:
            command += [reserve, 0]  # tests run on any disk
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([*map(str, command)], stderr=log, stdout=log, env=self.environment)
        end = time.monotonic() + 30
        while True:
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            try:
                if requests.get(f"{self.url}/health", timeout=5, verify=False).ok:
                    return self
            except requests.ConnectionError:
                assert time.monotonic() < end, self.log.read_text()[-3000:]
                time.sleep(0.02)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        """Ends it as an operator does. Its exit code."""
        self.process.terminate()
        return self.process.wait(timeout=60)

    def restart(self):
        if self.process.poll() is None:
            self.kill()
        return self.start()

    def get(self, path, **options):
        return requests.get(self.url + path, timeout=60, **options)

    def post(self, path, **options):
        return requests.post(self.url + path, timeout=60, **options)

    def memory(self):
        """Resident bytes at their peak."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024

    def until(self, check, seconds=60):
        """What `check` returns once that is true."""
        end = time.monotonic() + seconds
        while True:
            found = check()
            if found:
                return found
            assert time.monotonic() < end, self.log.read_text()[-3000:]
            time.sleep(0.05)


@pytest.fixture
def start(tmp_path):
    """Starts servers, which end with the test: start("--policy", "strict"), start(data=folder)."""
    running = []

    def start(*options, data=None, **settings):
        server = Server(data or tmp_path / f"data{len(running)}", *options, **settings)
        running.append(server)
        return server.start()

    yield start
    for server in running:
        if server.process and server.process.poll() is None:
            server.kill()


@pytest.fixture
def server(start):
    return start()


@pytest.fixture
def tus(server):
    return Tus(server)


@pytest.fixture
def stub():
    """A server of tus that fails as it is told."""
    stub = TusStub()
    yield stub
    stub.close()


@pytest.fixture
def client(tmp_path):
    """The uploader, with a queue of its own."""
    from uploads import Client

    return Client(tmp_path)
