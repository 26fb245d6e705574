"""The server behind nginx, with the configuration of docs/server.md, and the backup recipe of the same page."""

import asyncio
import re
import shutil
import subprocess
import threading
import types

import pytest
import requests
from bundles import APP
from conftest import bytes_below, free_port, ROOT
from devices import session
from live import frame, next_binary, socket
from phone import Phone, capture
from resumable import Tus, metadata, sha256, stored
from test_keys import add

pytestmark = pytest.mark.slow
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/bin")
DOCUMENT = (ROOT / "docs/server.md").read_text()


def block(language, word):
    """The block of code in the document that has a word."""
    return next(text for text in re.findall(rf"```{language}\n(.*?)```", DOCUMENT, re.S) if word in text)


@pytest.fixture
def proxied(start, tmp_path):
    """A server, and nginx before it as an ordinary process. `outside` is what clients see."""
    if not NGINX:
        pytest.skip("nginx is not installed")
    port = free_port()
    server = start("--require-key", "--trusted-proxy", "127.0.0.1", "--base-url", f"http://127.0.0.1:{port}", "--app-id", APP)
    folder = tmp_path / "nginx"
    folder.mkdir()
    recipe = block("nginx", "proxy_pass").replace("127.0.0.1:8080", f"127.0.0.1:{server.port}")
    paths = "".join(f"{name}_temp_path {folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/pid; error_log {folder}/error.log;\nevents {{}}\n"
        f"http {{ access_log off;\n{paths}server {{ listen 127.0.0.1:{port};\n{recipe}}} }}\n")
    process = subprocess.Popen([NGINX, "-c", folder / "nginx.conf", "-e", folder / "error.log"])
    outside = types.SimpleNamespace(url=f"http://127.0.0.1:{port}", port=port, data=server.data, log=folder / "error.log")

    def answers():
        assert process.poll() is None, outside.log.read_text()
        try:
            return requests.get(f"{outside.url}/health", timeout=300).ok
        except requests.RequestException:
            return False

    server.until(answers)
    yield server, outside
    process.terminate()
    process.wait(timeout=300)


def test_a_bundle_through_nginx(proxied):
    server, outside = proxied
    phone, sent = Phone(outside), capture(1, video=bytes(30_000_000))
    answer = phone.send(sent)
    assert answer.status_code == 202, answer.text
    data = answer.json()["data"]
    assert data["verification_url"] == f"{outside.url}/verify/{data['capture_id']}"
    assert stored(server, data["capture_id"])["video.mp4"] == sent.video
    # An early refusal reaches the phone although it still sends.
    late = phone.post(sent.body(), phone.headers(sent.body(), timestamp=1))
    assert late.status_code == 401 and late.json()["error"]["code"] == "TIMESTAMP_EXPIRED"
    assert requests.get(f"{outside.url}/api/v1/captures", timeout=300).status_code == 401


def test_bytes_pass_as_they_arrive(proxied):
    """A cut through nginx costs nothing that had arrived: it keeps no body back."""
    server, outside = proxied
    key = add(server.data)
    tus, body = Tus(outside, key), bytes(range(256)) * 40_000
    path = tus.create(len(body), Upload_Metadata=metadata(filename="a.mov", sha256=sha256(body)))
    assert path.startswith(outside.url)
    path = path.removeprefix(outside.url)

    def cut():
        yield body[:3_000_000]
        server.until(lambda: bytes_below(server.data / "uploads") >= 2_900_000)
        raise ConnectionResetError

    with pytest.raises((ConnectionResetError, requests.ConnectionError)):
        tus.patch(path, 0, cut())
    offset = server.until(lambda: tus.offset(path))
    assert 2_900_000 <= offset <= 3_000_000
    last = tus.patch(path, offset, body[offset:])
    assert last.status_code == 204
    assert list(stored(server, last.headers["X-Capture-Id"]).values()) == [body]


def test_the_live_view_through_nginx(proxied):
    server, outside = proxied
    key = add(server.data)

    async def watch():
        async with socket(outside, f"/k/{key}/viewer") as viewer, socket(outside, f"/k/{key}/camera") as camera:
            sent = frame(1.0)
            await camera.send(sent)
            found, _ = await next_binary(viewer)
            assert found == sent

    asyncio.run(asyncio.wait_for(watch(), 300))


def test_addresses_of_clients_behind_nginx(proxied):
    """Each client has a limit of its own; what a client writes into the header itself counts for nothing."""
    _, outside = proxied

    def challenge(source, **headers):
        return session(source).get(f"{outside.url}/api/v1/devices/challenge", headers=headers, timeout=300).status_code

    first = [challenge("127.0.0.2", **{"X-Forwarded-For": f"10.0.0.{number}"}) for number in range(11)]
    assert first == [200] * 10 + [429]
    assert challenge("127.0.0.3") == 200


def test_a_backup_while_captures_arrive(start, tmp_path):
    server = start()
    acknowledged, ends = [], threading.Event()

    def upload():
        number = 0
        while not ends.is_set():
            number += 1
            movie = b"\0\0\0\x08free" + number.to_bytes(8) + bytes(50_000)
            answer = server.post("/upload", files={"video": ("a.mov", movie)})
            assert answer.ok
            acknowledged.append((answer.json()["path"], movie))

    worker = threading.Thread(target=upload)
    worker.start()
    try:
        server.until(lambda: len(acknowledged) > 30)
        before, backup = list(acknowledged), tmp_path / "backup"
        backup.mkdir()
        recipe = block("sh", ".backup").replace("/srv/takeset", str(server.data)).replace("/backup", str(backup))
        for tool in ("sqlite3", "rsync"):
            if not shutil.which(tool):
                pytest.skip(f"{tool} is not installed")
        subprocess.run(["sh", "-ec", recipe], check=True, timeout=300, cwd=tmp_path)
        count = len(acknowledged)
        server.until(lambda: len(acknowledged) > count)
    finally:
        ends.set()
        worker.join()
    server.kill()
    restored = start(data=backup)
    for path, movie in before:
        assert restored.get(path).content == movie
    # What the restored database has, it has with all files; and it goes on.
    for video in restored.get("/videos").json()["videos"]:
        assert restored.get(f"/uploads/{video['filename']}").ok
    assert restored.post("/upload", files={"video": ("b.mov", b"\0\0\0\x08free")}).ok
