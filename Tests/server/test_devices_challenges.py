"""Challenges, row 68: random, few, and good once."""

import base64
import datetime
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import devices
import pytest
from attestations import Attested, key_named
from devices import REAL, begin, clock  # noqa: F401 - fixtures

POLICIES = pytest.mark.parametrize("policy", ["strict", "compat"])


def test_a_challenge_is_random_and_lasts_five_minutes(server):
    client, second = devices.session(), datetime.timedelta(seconds=1)
    asked = datetime.datetime.now(datetime.UTC)
    answers = [client.get(f"{server.url}/api/v1/devices/challenge") for _ in range(10)]
    got = datetime.datetime.now(datetime.UTC)
    values = set()
    for answer in answers:
        assert answer.status_code == 200 and answer.headers["Content-Type"] == "application/json"
        assert answer.headers["Cache-Control"] == "no-store"
        body = answer.json()
        assert set(body) == {"data", "meta"} and set(body["data"]) == {"challenge", "expires_at"}
        value = base64.b64decode(body["data"]["challenge"], validate=True)
        assert len(value) == 32
        values.add(value)
        ends = datetime.datetime.fromisoformat(body["data"]["expires_at"])
        assert asked - second <= ends - datetime.timedelta(minutes=5) <= got + second
    assert len(values) == 10


def test_the_eleventh_challenge_within_a_minute_waits(server):
    client, neighbour, began = devices.session(), devices.session(), time.monotonic()
    for _ in range(10):
        devices.challenge(server, client)
    refused = client.get(f"{server.url}/api/v1/devices/challenge")
    assert devices.failure(refused) == (429, "TOO_MANY_REQUESTS")
    assert 58 - (time.monotonic() - began) <= int(refused.headers["Retry-After"]) <= 60
    devices.challenge(server, neighbour)
    with devices.database(server) as found:
        assert found.execute("SELECT COUNT(*) FROM challenge").fetchone()[0] == 11


def ask(server, source, *forwarded):
    """The status of a request for a challenge from `source`, with a header X-Forwarded-For for each of the others."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=300, source_address=(source, 0)) as raw:
        lines = "".join(f"X-Forwarded-For: {value}\r\n" for value in forwarded)
        raw.sendall(f"GET /api/v1/devices/challenge HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{lines}\r\n".encode())
        return int(raw.makefile("rb").readline().split()[1])


def test_behind_a_trusted_proxy_each_client_has_its_own_limit(start):
    server = start("--trusted-proxy", "127.0.0.9,10.0.0.1")
    for client in ("203.0.113.7", "2001:db8::1"):
        assert [ask(server, "127.0.0.9", client) for _ in range(11)] == [200] * 10 + [429]
    assert ask(server, "127.0.0.9", "8.8.8.8", "203.0.113.7, 10.0.0.1") == 429
    # Others cannot say who they are.
    assert [ask(server, "127.0.0.8", f"203.0.113.{n}") for n in range(11)] == [200] * 10 + [429]


def test_twenty_requests_at_once_get_ten_challenges(server):
    address = devices.session().adapters["http://"].address

    def ask(_):
        return devices.session(address).get(f"{server.url}/api/v1/devices/challenge").status_code

    with ThreadPoolExecutor(20) as pool:
        assert sorted(pool.map(ask, range(20))) == [200] * 10 + [429] * 10


@POLICIES
@pytest.mark.parametrize("case", ["unknown", "used", "expired", "spent on a failed attempt"])
def test_only_a_good_challenge_proves_anything(begin, clock, policy, case):
    server = begin(policy)
    challenge = bytes(32) if case == "unknown" else devices.challenge(server)
    if case == "used":
        first = Attested(REAL, challenge, key=key_named("first"))
        assert devices.register(server, first.body()).json()["data"]["attestation_level"] == "secure_enclave"
    if case == "spent on a failed attempt":
        devices.register(server, Attested(REAL, challenge, key=key_named("first"), counter=1).body())
    if case == "expired":
        server.kill()
        server.environment |= clock(301)
        server.start()
    before = devices.log_size(server)
    answer = devices.register(server, Attested(REAL, challenge).body())
    if policy == "strict":
        assert devices.failure(answer) == (401, "CHALLENGE_INVALID")
        with devices.database(server) as found:
            assert found.execute("SELECT COUNT(*) FROM device").fetchone()[0] == (case == "used")
    else:
        row = devices.device_row(server, answer)
        assert (row["level"], row["publicKey"]) == ("unverified", None)
    reason = {"unknown": "is unknown", "expired": "has expired"}.get(case, "was used")
    assert f"the challenge {reason}" in devices.logged(server, before)
    assert reason not in answer.text


def test_a_challenge_survives_a_killed_server_and_is_good_for_minutes(begin, clock):
    server = begin("strict")
    challenge = devices.challenge(server)
    server.kill()
    server.environment |= clock(200)
    server.start()
    assert devices.register(server, Attested(REAL, challenge).body()).status_code == 201
    server.restart()
    assert devices.failure(devices.register(server, Attested(REAL, challenge, key=key_named("b")).body())) == (401, "CHALLENGE_INVALID")


def test_old_challenges_are_forgotten(server):
    with devices.database(server) as found:
        old = int(time.time() * 1000) - 3_700_000
        found.executemany("INSERT INTO challenge VALUES (?, ?, FALSE)", [(bytes([n]) * 32, old) for n in range(50)])
    devices.challenge(server)
    with devices.database(server) as found:
        assert found.execute("SELECT COUNT(*) FROM challenge").fetchone()[0] == 1


@POLICIES
def test_racing_registrations_share_no_challenge(begin, policy):
    server = begin(policy)
    challenge = devices.challenge(server)
    bodies = [Attested(REAL, challenge, key=key_named(f"racer {n}")).body() for n in range(12)]
    together = threading.Barrier(len(bodies))

    def register(body):
        together.wait()
        return devices.register(server, body)

    with ThreadPoolExecutor(len(bodies)) as pool:
        answers = [*pool.map(register, bodies)]
    levels = [answer.json().get("data", {}).get("attestation_level", str(answer.status_code)) for answer in answers]
    assert sorted(levels) == sorted(["secure_enclave"] + ["401" if policy == "strict" else "unverified"] * 11)
    with devices.database(server) as found:
        assert found.execute("SELECT COUNT(*) FROM device WHERE publicKey IS NOT NULL").fetchone()[0] == 1
