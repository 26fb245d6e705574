"""Names that a server answers to, pages of other sites, proxies, and the links in answers."""

import asyncio
import re

import conftest
import pytest
import requests
import websockets
from devices import add_key, failure
from live import socket
from phone import Phone, capture
from test_keys import bearer
from wire import Wire

EVIL = {"Origin": "https://evil.example"}
MISDIRECTED = (421, "MISDIRECTED_REQUEST")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8080", "192.0.2.1", "0.0.0.0", "[::2]", "a b", ""])
def test_another_name_is_not_served_where_everybody_here_may_do_everything(common, host):
    """A page that points its own name to this machine would otherwise read, delete and command."""
    for path in ("/", "/health", "/api/v1/captures", "/devices", "/live", "/metrics"):
        with Wire(common, f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n") as wire:
            assert wire.statuses() in ([421], [400]), path


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1", "127.9.9.9:8080", "[::1]", "[::1]:8080"])
def test_names_of_this_machine_are_served(common, host):
    assert common.get("/api/v1/captures", headers={"Host": host}).status_code == 200


def test_a_socket_and_an_upload_need_a_name_of_this_machine(server):
    head = ["Origin: http://evil.example", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
    with Wire(server, "\r\n".join(["GET /viewer HTTP/1.1", "Host: evil.example", *head, "", ""])) as wire:
        assert wire.statuses() == [421]
    # An upload of the slow-motion app gets no answer.
    with pytest.raises(requests.ConnectionError):
        server.post("/upload", data=b"\0\0\0\x08free", headers={"Host": "evil.example"})


def test_the_public_root_is_a_name_of_the_server(start):
    server = start("--base-url", "http://captures.example.org/x", "--require-key=false")
    assert server.get("/api/v1/captures", headers={"Host": "captures.example.org"}).status_code == 200
    assert failure(server.get("/api/v1/captures", headers={"Host": "other.example.org"})) == MISDIRECTED
    # Keys are turned off, also behind a proxy.
    assert server.get("/api/v1/captures", headers={"X-Forwarded-For": "192.0.2.1"}).status_code == 200


def test_with_keys_any_name_is_served(start):
    server = start("--require-key")
    headers = {"Host": "captures.example.org", **bearer(add_key(server))}
    assert server.get("/api/v1/captures", headers=headers).status_code == 200


CHANGES = [
    ("POST", "/api/v1/devices/register"), ("POST", "/api/v1/captures/video"), ("POST", "/api/v1/sessions/s/complete"), ("POST", "/files"),
    ("PATCH", "/files/x"), ("DELETE", "/files/x"), ("PUT", "/api/v1/sessions/s.zip"), ("PUT", "/api/v1/sessions/s/files/a"), ("DELETE", "/api/v1/sessions/s"),
    ("DELETE", "/api/v1/captures/00000000-0000-4000-8000-000000000000"), ("POST", "/api/v1/captures/00000000-0000-4000-8000-000000000000/convert"),
    ("POST", "/control/start"), ("POST", "/control/stop"),
]  # fmt: skip


@pytest.mark.parametrize("method, path", CHANGES)
def test_a_page_of_another_site_changes_nothing(common, method, path):
    def send(headers):
        return requests.request(method, common.url + path, data=b"{}", headers={"Tus-Resumable": "1.0.0", **headers}, timeout=300)

    assert failure(send(EVIL)) == failure(send({"Origin": "null"})) == (403, "FORBIDDEN")
    own = send({"Origin": common.url}).status_code
    assert own != 403 and send({}).status_code != 403 and (own == 200 or not path.startswith("/control"))
    # A method in a header is a method.
    hidden = requests.get(common.url + path, headers={**EVIL, "X-HTTP-Method-Override": method}, timeout=300)
    assert hidden.status_code == 403


def test_a_page_of_another_site_uploads_nothing(server):
    movie = b"\0\0\0\x08free" + bytes(1000)
    for path in ("/upload", "/k/key/upload"):
        with pytest.raises(requests.ConnectionError):
            server.post(path, data=movie, headers=EVIL)
    assert server.get("/videos").json()["videos"] == []
    assert server.post("/upload", data=movie, headers={"Origin": server.url}).status_code == 200


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP", "Via"])
def test_who_comes_through_a_proxy_needs_a_key(common, header):
    forwarded = {header: "for=192.0.2.1" if header == "Forwarded" else "192.0.2.1"}
    for path in ("/", "/api/v1/captures", "/api/v1/devices", "/metrics", "/videos", "/live"):
        assert common.get(path).status_code == 200 and common.get(path, headers=forwarded).status_code == 401, path
    assert common.post("/control/start", headers=forwarded).status_code == 401
    assert common.get("/api/v1/captures", headers={**forwarded, **bearer(add_key(common))}).status_code == 200
    with pytest.raises(requests.ConnectionError):
        common.post("/upload", data=b"\0\0\0\x08free", headers=forwarded)

    async def watch():
        with pytest.raises(websockets.InvalidStatus) as refused:
            async with socket(common, "/viewer", additional_headers=forwarded):
                pass
        assert refused.value.response.status_code == 401

    asyncio.run(watch())


@pytest.mark.parametrize("options, status, words", [
    ([], 200, "API keys are not needed on this machine"),
    (["--base-url", "http://localhost:99"], 200, "API keys are not needed on this machine"),
    (["--base-url", "https://captures.example.org"], 401, "API keys are needed: others can connect to --base-url"),
    (["--base-url", "https://captures.example.org", "--require-key=false"], 200, "API keys are not needed by anybody"),
    (["--require-key"], 401, "API keys are needed: --require-key")])
def test_the_log_says_at_the_start_who_needs_a_key(start, options, status, words):
    server = start(*options)
    assert server.get("/api/v1/captures").status_code == status and words in server.log.read_text()


@pytest.fixture
def reachable(tmp_path):
    server = conftest.Server(tmp_path / "data")
    server.options = ["--listen", f"0.0.0.0:{server.port}", "--videos-per-hour", "100"]
    yield server.start()
    server.kill()


def test_links_have_the_name_by_which_the_server_was_reached(reachable):
    server = reachable
    assert server.get("/api/v1/captures").status_code == 401
    phone = Phone(server)

    def link(number, host):
        body = capture(number).body()
        return phone.post(body, {**phone.headers(body, "s1"), "Host": host}).json()["data"]["verification_url"]

    assert link(1, "captures.local:8080").startswith("http://captures.local:8080/verify/")
    assert link(2, f"[::1]:{server.port}").startswith(f"http://[::1]:{server.port}/verify/")
    # Nobody can follow a link to all addresses, and no header becomes a link as it is.
    for number, host in enumerate([f"0.0.0.0:{server.port}", f"[::]:{server.port}", "a<b", "a/../b", "user@host"], 3):
        answer = link(number, host)
        assert re.fullmatch(rf"http://(localhost|[0-9.]+):{server.port}/verify/[0-9a-f-]{{36}}", answer) and "0.0.0.0" not in answer, answer
