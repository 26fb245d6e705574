"""Starts the real server on a free port, with a data folder of its own."""

import contextlib
import os
import random
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


_held = []  # until the end of the test


def free_port():
    """A port below those that the system hands out, held against other runs of tests by a UDP socket of the same number."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = range(10_000, lowest) if lowest > 11_000 else range(61_000, 65_000)
    for port in random.sample(ports, len(ports)):
        holder = socket.socket(type=socket.SOCK_DGRAM)
        try:
            holder.bind(("", port))
            with socket.socket() as tried:
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                tried.bind(("", port))
        except OSError:
            holder.close()
            continue
        _held.append(holder)
        return port
    raise AssertionError("no free port")


def bytes_below(folder):
    """Of all files; those that go meanwhile count or not."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += os.stat(os.path.join(root, name)).st_size
    return total


class Server:
    """A running server. `url` has no slash at its end."""

    def __init__(self, data, *options, environment=None, conversions=0, takeset=TAKESET):
        self.data, self.options, self.port = Path(data), [*map(str, options)], free_port()
        self.environment = {**os.environ, "TAKESET": str(TAKESET), **(environment or {})}
        self.conversions, self.takeset = conversions, takeset
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = self.data.parent / f"{self.data.name}.log"
        self.process = None

    def start(self):
        command = [BINARY, "serve", "--data", self.data, "--listen", f"127.0.0.1:{self.port}", "--conversions", self.conversions, "--takeset", self.takeset, *self.options]
        # Tests run on any disk, and only what a test means ends a connection.
        for option, value in {"--reserve": 0, "--stranger-reserve": 0, "--head-seconds": 3600, "--idle-seconds": 3600}.items():
            if option not in self.options:
                command += [option, value]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([*map(str, command)], stderr=log, stdout=log, env=self.environment)
        end = time.monotonic() + 300
        while True:
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            try:
                if requests.get(f"{self.url}/health", timeout=300, verify=False).ok:
                    assert self.process.poll() is None, self.log.read_text()[-3000:]
                    return self
            except requests.RequestException:
                pass
            assert time.monotonic() < end, self.log.read_text()[-3000:]
            time.sleep(0.02)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        """Ends it as an operator does. Its exit code."""
        self.process.terminate()
        return self.process.wait(timeout=300)

    def restart(self):
        if self.process.poll() is None:
            self.kill()
        return self.start()

    def get(self, path, **options):
        return requests.get(self.url + path, timeout=300, **options)

    def post(self, path, **options):
        return requests.post(self.url + path, timeout=300, **options)

    def memory(self):
        """Resident bytes at their peak."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024

    def is_well(self):
        try:
            return self.get("/health").status_code == 200
        except requests.ConnectionError:
            return False

    def until(self, check, seconds=300):
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
    while _held:
        _held.pop().close()


@pytest.fixture
def server(start):
    return start()


@pytest.fixture(scope="module")
def common(tmp_path_factory):
    """A server for all tests of a file, where they do not disturb each other."""
    server = Server(tmp_path_factory.mktemp("common") / "data").start()
    yield server
    server.kill()


@pytest.fixture
def small_disk(tmp_path, request):
    """A file system of 24 MB, or of a size that is given as by `parametrize("small_disk", ["1g"], indirect=True)`."""
    path = tmp_path / "disk"
    path.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={getattr(request, 'param', '24m')}", "tmpfs", path], capture_output=True, check=False).returncode:
        pytest.skip("only root can mount")
    yield path
    subprocess.run(["umount", "-l", path], check=True)


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
