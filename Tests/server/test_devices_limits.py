"""Row 64: strangers can register devices that prove nothing, but neither without end nor at the expense of others."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import devices
from attestations import Attested, b64, key_named, point
from devices import REAL, add_key, begin  # noqa: F401 - begin is a fixture
from phone import Phone, capture, database, rows

LIMITED = (429, "TOO_MANY_REQUESTS")
DAY = 86_400_000
BOUND = 100_000


def stranger(number):
    attestation = {"key_id": f"stranger {number}", "attestation_object": b64(b"x"), "challenge": b64(bytes(32))}
    return {"platform": "ios", "model": "x", "attestation": attestation}


def register(server, body, client, **options):
    return client.post(f"{server.url}/api/v1/devices/register", json=body, timeout=300, **options)


def test_an_address_registers_sixty_strangers_an_hour(begin):
    server = begin("compat")
    client, neighbour, began = devices.session(), devices.session(), time.monotonic()
    assert {register(server, stranger(number), client).status_code for number in range(60)} == {201}
    refused = register(server, stranger(60), client)
    assert devices.failure(refused) == LIMITED and 3598 - (time.monotonic() - began) <= int(refused.headers["Retry-After"]) <= 3600
    assert register(server, stranger(60), neighbour).status_code == 201
    # Whoever proves something, or has an API key, is no stranger.
    genuine = Attested(REAL, devices.challenge(server))
    assert register(server, genuine.body(), client).json()["data"]["attestation_level"] == "secure_enclave"
    headers = {"Authorization": f"Bearer {add_key(server)}"}
    script = {"platform": "simulated", "model": "script", "public_key": b64(point(key_named("script")))}
    assert register(server, script, client, headers=headers).status_code == 201
    assert register(server, stranger(61), client, headers=headers).status_code == 201
    assert rows(server, "SELECT COUNT(*) FROM device") == [(64,)]


def test_strangers_at_once_are_sixty(begin):
    server = begin("compat")
    address = devices.session().adapters["http://"].address
    together = threading.Barrier(20)

    def send(first):
        together.wait()
        client = devices.session(address)
        return [register(server, stranger(number), client).status_code for number in range(first, first + 4)]

    with ThreadPoolExecutor(20) as pool:
        statuses = sum(pool.map(send, range(0, 80, 4)), [])
    assert sorted(statuses) == [201] * 60 + [429] * 20
    assert rows(server, "SELECT COUNT(*) FROM device") == [(60,)]


def test_an_address_behind_a_proxy_is_that_of_the_client(start):
    server = start("--trusted-proxy", "127.0.0.9")
    proxy = devices.session("127.0.0.9")

    def send(number, client):
        return register(server, stranger(number), proxy, headers={"X-Forwarded-For": client}).status_code

    assert [send(number, "203.0.113.7") for number in range(61)] == [201] * 60 + [429]
    assert send(61, "203.0.113.8") == 201


def fill(server, count, registered, key=None):
    now = time.time_ns() // 1_000_000
    with database(server) as connection:
        connection.execute("BEGIN")
        connection.executemany(
            "INSERT INTO device VALUES (?, NULL, 'ios', 'x', FALSE, 'unverified', ?, 'default', ?)",
            [(f"{number:036}", key, now + registered + number) for number in range(count)])
        connection.execute("COMMIT")


def test_beyond_the_bound_the_oldest_strangers_go(server):
    """Those that sent a capture, and those with a key, are no strangers and stay, however old they are."""
    fill(server, BOUND - 1, -10 * DAY)
    phone = Phone(server, 1, level="unverified")
    known = Phone(server, 2)
    rows(server, "UPDATE device SET registeredAt = 0 WHERE length(keyID) > 0")
    assert phone.send(capture(), "s0").status_code == 202
    client = devices.session()
    assert register(server, stranger(1), client).status_code == 201
    assert rows(server, "SELECT COUNT(*) FROM device WHERE publicKey IS NULL") == [(BOUND + 1,)]
    began = time.monotonic()
    assert register(server, stranger(2), client).status_code == 201
    print(f"the bound took {1000 * (time.monotonic() - began):.0f} ms")
    # A thousand at a time.
    assert rows(server, "SELECT COUNT(*) FROM device WHERE publicKey IS NULL") == [(BOUND - 998,)]
    assert rows(server, "SELECT MIN(CAST(id AS INTEGER)) FROM device WHERE keyID IS NULL") == [(1000,)]
    assert rows(server, "SELECT COUNT(*) FROM device WHERE id IN (?, ?)", phone.id.lower(), known.id.lower()) == [(2,)]
    assert phone.send(capture(1), "s0").status_code == 202


def test_strangers_of_today_stay(begin):
    """Then it is the new one that is refused; whoever proves to have a key is not, and devices that delivered do not count."""
    server = begin("compat")
    fill(server, BOUND, -DAY // 2)
    client = devices.session()
    refused = register(server, stranger(1), client)
    assert devices.failure(refused) == LIMITED and refused.headers["Retry-After"] == "3600"
    assert rows(server, "SELECT COUNT(*) FROM device") == [(BOUND,)]
    assert register(server, Attested(REAL, devices.challenge(server)).body(), client).json()["data"]["attestation_level"] == "secure_enclave"
    rows(server, "INSERT INTO capture (id, type, status, project, device, name, receivedAt, bytes, signature, isVerified) "
         "SELECT id, 'video', 'complete', 'default', id, 'x', 0, 1, 's0', 0 FROM device")
    assert register(server, stranger(1), devices.session()).status_code == 201
