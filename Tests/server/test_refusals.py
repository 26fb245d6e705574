"""Who was refused, and from where, is in the log; another server on the same machine is another site."""

import re

import pytest
import requests
from devices import add_key, failure
from pages import insert
from test_keys import bearer

NOBODY = "00000000-0000-4000-8000-000000000000"


def noted(server, words):
    return words in server.log.read_text()


def test_refused_changes_are_in_the_log_with_their_sender(start):
    server = start("--require-key", "--trusted-proxy", "127.0.0.1")
    phone, own, foreign = (add_key(server, *options) for options in (["--power", "upload"], [], ["--project", "other"]))
    capture = insert(server)
    proxy = {"X-Forwarded-For": "203.0.113.9"}
    path = f"/api/v1/captures/{capture}"
    for key, status in (phone, 403), (foreign, 404), ("tks_wrong", 401), (None, 401):
        answer = requests.delete(server.url + path, headers=(bearer(key) if key else {}) | proxy, timeout=300)
        assert answer.status_code == status
        who = "no key" if status == 401 else "key [0-9a-f]{8}"
        assert re.search(rf"DELETE {path}: {status}, {who}, 203\.0\.113\.9", server.log.read_text()), (key, status)
    # Pages and commands, too, and whoever tries keys to look at something.
    assert server.post(f"/captures/{NOBODY}/delete", headers=bearer(own)).status_code == 404
    assert noted(server, f"POST /captures/{NOBODY}/delete: 404, key ")
    assert server.post("/control/start", headers=bearer(phone)).status_code == 403 and noted(server, "POST /control/start: 403, key ")
    assert server.get("/status?key=tks_secret").status_code == 401 and noted(server, "GET /status: 401, no key, 127.0.0.1")
    with pytest.raises(requests.ConnectionError):
        server.post("/k/tks_secret/upload", data=b"\0\0\0\x08free")
    server.until(lambda: noted(server, "POST /k/KEY/upload: 503, no key, 127.0.0.1"))
    assert "tks_" not in server.log.read_text()


def test_what_is_only_missing_is_not_noted(server):
    assert server.get(f"/api/v1/captures/{NOBODY}").status_code == 404 and server.get("/nothing").status_code == 404
    assert "GET /" not in server.log.read_text()


def test_another_port_of_the_same_host_is_another_site(start):
    server = start("--base-url", "https://captures.example.org:8443/x", "--require-key=false")
    for origin, status in [
            (server.url, 200), ("https://captures.example.org:8443", 200), ("HTTPS://Captures.Example.org:8443", 200), ("http://127.0.0.1:9", 403), ("http://127.0.0.1", 403),
            (server.url.replace("http:", "https:"), 403), ("https://captures.example.org", 403), ("http://captures.example.org:8443", 403), ("file://", 403), ("null", 403)]:
        assert server.post("/control/stop", headers={"Origin": origin}).status_code == status, origin
    capture = insert(server)
    assert failure(server.post(f"/captures/{capture}/delete", headers={"Origin": "https://127.0.0.1:9"}, allow_redirects=False)) == (403, "FORBIDDEN")
    # Without a port it is the one of the scheme.
    assert server.post("/control/stop", headers={"Host": "localhost", "Origin": "http://localhost:80"}).status_code == 200
    # Who takes TLS off says so by its headers.
    proxy = {"Host": "localhost", "X-Forwarded-Proto": "https"}
    for origin, status in ("https://localhost", 200), ("https://localhost:444", 403):
        assert server.post("/control/stop", headers={**proxy, "Origin": origin}).status_code == status, origin
