"""TLS by the server itself."""

import asyncio
import socket
import ssl
import subprocess

import pytest
import requests
import websockets
from bundles import APP
from certificates import certificate, pem
from conftest import BINARY, Server, free_port
from cryptography.hazmat.primitives.asymmetric import ec
from phone import Phone, capture, error, rows
from wire import LAST_GET, Wire, post


@pytest.fixture
def files(tmp_path):
    certificate(tmp_path)
    (tmp_path / "other.pem").write_bytes(pem(ec.generate_private_key(ec.SECP256R1())))
    return tmp_path


@pytest.fixture
def secure(files):
    """A server with a certificate."""
    server = Server(files / "data", "--tls-cert", files / "cert.pem", "--tls-key", files / "key.pem", "--policy", "strict", "--app-id", APP)
    server.url = server.url.replace("http:", "https:")
    server.start()
    yield server
    if server.process.poll() is None:
        server.kill()


def test_everything_works_by_tls(secure, files):
    movie = b"\0\0\0\x08free" + bytes(5_000_000)
    answer = requests.post(f"{secure.url}/upload", files={"video": ("a.mov", movie)}, verify=files / "cert.pem", timeout=300)
    assert requests.get(secure.url + answer.json()["path"], verify=files / "cert.pem", timeout=300).content == movie
    assert "Strict-Transport-Security" not in answer.headers, "it would hold for all servers of this machine"
    with Wire(secure, LAST_GET) as plain:
        assert 200 not in plain.statuses()

    async def watch():
        context = ssl.create_default_context(cafile=files / "cert.pem")
        async with websockets.connect(f"wss://127.0.0.1:{secure.port}/viewer", ssl=context) as viewer:
            await viewer.close(1000)
            assert viewer.close_code == 1000

    asyncio.run(watch())
    assert secure.stop() == 0


def test_a_signed_capture_by_tls(secure, files, monkeypatch):
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(files / "cert.pem"))
    phone, sent = Phone(secure), capture(1, video=bytes(3_000_000))
    body = sent.body()
    headers = phone.headers(body)
    answer = phone.post(body, headers)
    assert answer.status_code == 202, answer.text
    data = answer.json()["data"]
    assert data["verification_url"] == f"https://127.0.0.1:{secure.port}/verify/{data['capture_id']}"
    assert rows(secure, "SELECT signature, isVerified FROM capture") == [("s2", 1)]
    assert (secure.data / "captures" / data["capture_id"] / "video.mp4").read_bytes() == sent.video
    # Word for word again, and with another body.
    assert phone.post(body, headers).json()["data"]["capture_id"] == data["capture_id"]
    assert error(phone.post(capture(2).body(), phone.headers(body))) == (401, "SIGNATURE_INVALID")


def test_an_early_answer_reaches_a_fast_sender_by_tls(secure, files):
    context = ssl.create_default_context(cafile=files / "cert.pem")
    with socket.create_connection(("127.0.0.1", secure.port), timeout=300) as bare, context.wrap_socket(bare, server_hostname="127.0.0.1") as wire:
        wire.sendall(post("/nothing", "Content-Length: 100000000").encode())
        sent = 0
        wire.settimeout(1)
        try:
            while sent < 100_000_000:
                sent += wire.send(bytes(1 << 14))
        except (TimeoutError, OSError):
            pass
        wire.settimeout(20)
        # What the server dropped, and what the system's buffers hold.
        assert sent < 40_000_000
        assert wire.recv(4096).startswith(b"HTTP/1.1 404 ")


@pytest.mark.parametrize("cert, key, word", [("cert.pem", "other.pem", "--tls-key"), ("key.pem", "key.pem", "--tls-cert"), ("cert.pem", "none.pem", "--tls-key")])
def test_unusable_files_are_named(files, cert, key, word):
    command = [BINARY, "serve", "--data", files / "data", "--listen", f"127.0.0.1:{free_port()}", "--tls-cert", files / cert, "--tls-key", files / key]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 1 and f"error: {word} " in result.stderr


def test_browsers_that_came_by_tls_come_by_tls_again(files):
    server = Server(files / "data", "--tls-cert", files / "cert.pem", "--tls-key", files / "key.pem")
    server.options += ["--listen", f"0.0.0.0:{server.port}"]
    server.url = server.url.replace("http:", "https:")
    server.start()
    try:
        assert server.get("/health", verify=files / "cert.pem").headers["Strict-Transport-Security"] == "max-age=31536000"
    finally:
        server.kill()
