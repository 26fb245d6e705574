"""What the tests of devices share: requests from other addresses, and challenges put straight into the database."""

import base64
import itertools
import os
import sqlite3
import subprocess
import time

import attestations
import conftest
import pytest
import requests
from requests.adapters import HTTPAdapter

_addresses = itertools.count(2)


class From(HTTPAdapter):
    """Requests from an address of this machine."""

    def __init__(self, address):
        self.address = address
        super().__init__()

    def init_poolmanager(self, *arguments, **options):
        super().init_poolmanager(*arguments, source_address=(self.address, 0), **options)


def session(address=None):
    """By default with an address of its own, so that no limit of another test counts."""
    if address is None:
        number = next(_addresses)
        address = f"127.0.{number >> 8}.{number & 255}"
    made = requests.Session()
    made.mount("http://", From(address))
    return made


def challenge(server, client=None):
    """The bytes of a new challenge."""
    answer = (client or session()).get(f"{server.url}/api/v1/devices/challenge", timeout=300)
    assert answer.status_code == 200, answer.text
    return base64.b64decode(answer.json()["data"]["challenge"])


def register(server, body, **options):
    data = {"data": body} if isinstance(body, bytes) else {"json": body}
    return requests.post(f"{server.url}/api/v1/devices/register", timeout=300, **data, **options)


def failure(answer):
    """Status and code of an answer that is no success; its form is checked."""
    body = answer.json()
    assert set(body) == {"error", "meta"} and set(body["error"]) == {"code", "message"}, body
    assert set(body["meta"]) == {"request_id", "timestamp"}
    assert answer.headers["X-Request-Id"] == body["meta"]["request_id"]
    return answer.status_code, body["error"]["code"]


def database(server):
    found = sqlite3.connect(server.data / "server.sqlite", timeout=300)
    found.row_factory = sqlite3.Row
    return found


def device_row(server, answer):
    """The row of a device that was registered."""
    assert answer.status_code == 201, answer.text
    data = answer.json()["data"]
    with database(server) as found:
        return found.execute("SELECT * FROM device WHERE id = ?", [data["device_id"]]).fetchone()


def plant(server, count, seed):
    """Good challenges, without asking for them."""
    values = [attestations.sha256(f"{seed} {number}".encode()) for number in range(count)]
    with database(server) as found:
        found.executemany("INSERT INTO challenge VALUES (?, ?, FALSE)", [(value, int(time.time() * 1000) + 86_400_000) for value in values])
    return values


def logged(server, since):
    """What the server logged after that many bytes."""
    return server.log.read_bytes()[since:].decode()


def log_size(server):
    return os.path.getsize(server.log)


def roots(folder, authority):
    path = folder / "roots.pem"
    path.write_text(authority.pem())
    return path


@pytest.fixture(scope="session")
def clock(tmp_path_factory):
    """clock(seconds): environment of a server whose clock of the day is that much ahead."""
    library = tmp_path_factory.mktemp("clock") / "other_time.so"
    source = conftest.ROOT / "Tests/python/kit/other_time.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return lambda seconds: {"LD_PRELOAD": str(library), "TIME_OFFSET": str(seconds)}


REAL = attestations.Authority()


@pytest.fixture
def begin(start, tmp_path):
    """begin(policy, …): a server that trusts the authority REAL and the app APP."""
    trusted = roots(tmp_path, REAL)
    return lambda policy, *options, **settings: start(
        "--policy", policy, "--app-attest-root", trusted, "--app-id", attestations.APP, *options, **settings)


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """One server of each policy for all tests of a file, which trusts REAL and APP: running("strict")."""
    servers = {}
    trusted = roots(tmp_path_factory.mktemp("roots"), REAL)

    def running(policy):
        if policy not in servers:
            data = tmp_path_factory.mktemp(policy) / "data"
            servers[policy] = conftest.Server(data, "--policy", policy, "--app-attest-root", trusted, "--app-id", attestations.APP).start()
        return servers[policy]

    yield running
    for server in servers.values():
        server.kill()


def add_key(server, *options):
    """A new API key."""
    command = [conftest.BINARY, "keys", "add", "--data", server.data, *options]
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=True).stdout.strip()
