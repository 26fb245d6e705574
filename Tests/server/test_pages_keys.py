"""Keys that are made and revoked on a page."""

import re
import socket

import pytest
from conftest import free_port
from pages import browser, follow, view  # noqa: F401 (fixtures)
from phone import rows
from test_keys import add, bearer, keys, listed


@pytest.fixture
def guarded(start):
    """A server that asks for keys, and one for everything in its project."""
    server = start("--require-key")
    return server, add(server.data, "--name", "owner", "--project", "lab")


def made(answer):
    (key,) = re.findall(r"tks_[A-Za-z0-9_-]{43}", answer.text)
    return key


def make(server, key=None, **form):
    return server.post("/keys", headers=bearer(key) if key else {}, data={"name": "n", "power": "all", "days": "", **form}, allow_redirects=False)


def test_a_key_is_made_shown_once_and_revoked(server, view):
    page = view.open(f"{server.url}/devices")
    assert "There are no API keys" in page.locator("main").inner_text()
    page.fill("input[name=name]", "phones <b>")
    page.fill("input[name=project]", "lab-2")
    page.select_option("select[name=power]", "read")
    page.fill("input[name=days]", "30")
    follow(page, "text=Make a key")
    key = page.locator(".panel code").inner_text()
    assert re.fullmatch("tks_[A-Za-z0-9_-]{43}", key) and "(phones <b>, lab-2)" in page.locator(".panel").inner_text()
    (found,) = listed(server.data)
    assert found[1:3] == ("lab-2", "phones <b>")
    assert server.get("/api/v1/captures", headers=bearer(key)).status_code == 200
    page.goto(f"{server.url}/devices")
    assert key not in page.content() and "read only, until " in page.locator("tbody").inner_text()
    follow(page, "text=Revoke")
    assert page.url == f"{server.url}/devices" and "revoked" in page.locator("tbody").inner_text() and page.locator("tbody button").count() == 0
    assert server.get("/api/v1/captures", headers=bearer(key)).status_code == 401


@pytest.mark.parametrize("form, words", [
    ({"name": ""}, "name: expected"), ({"name": "a\nb"}, "name: expected"), ({"name": "x" * 101}, "name: expected"), ({"project": "a b"}, "project a b"),
    ({"project": "../x"}, "expected letters"), ({"power": "god"}, "power: expected"), ({"days": "0"}, "days: expected"), ({"days": "soon"}, "days: expected"),
    ({"days": "36501"}, "days: expected"),
])
def test_mistakes_make_no_key(common, form, words):
    answer = make(common, **form)
    assert answer.status_code == 400 and words in answer.text and listed(common.data) == []


def test_forms_that_are_none_are_refused(common):
    for data, kind in (b"{}", "application/json"), (b"\xff\xfe", "application/x-www-form-urlencoded"), (b"", "text/plain"):
        assert common.post("/keys", data=data, headers={"Content-Type": kind}).status_code in (400, 415)
    assert common.post("/keys", data={"name": "x" * 20_000, "power": "all", "days": ""}).status_code == 413
    assert listed(common.data) == []


def test_who_may_make_and_revoke_keys(guarded):
    server, owner = guarded
    reader, phone, foreign = (add(server.data, *options) for options in (("--power", "read", "--project", "lab"), ("--power", "upload"), ("--project", "other")))
    count = len(listed(server.data))
    assert make(server).status_code == 401 and make(server, reader).status_code == 403 and make(server, phone).status_code == 403
    assert server.post("/keys", headers={**bearer(owner), "Origin": "http://evil.example"}, data={"name": "n", "power": "all", "days": ""}).status_code == 403
    assert len(listed(server.data)) == count
    # Only of one's own project, whatever the form says.
    new = made(make(server, owner, project="other"))
    assert rows(server, "SELECT project FROM apiKey ORDER BY createdAt DESC LIMIT 1") == [("lab",)]
    assert server.get("/api/v1/captures", headers=bearer(new)).status_code == 200
    (identity,) = rows(server, "SELECT id FROM apiKey ORDER BY createdAt DESC LIMIT 1")[0]
    for key, status in (foreign, 404), (reader, 403), (None, 401):
        assert server.post(f"/keys/{identity}/revoke", headers=bearer(key) if key else {}, allow_redirects=False).status_code == status
    for key in reader, owner:
        text = server.get("/devices", headers=bearer(key)).text
        assert ("Make a key" in text and "Revoke" in text) == (key == owner)
    assert server.post(f"/keys/{identity}/revoke", headers=bearer(owner), allow_redirects=False).status_code == 303
    assert server.post(f"/keys/{identity}/revoke", headers=bearer(owner), allow_redirects=False).status_code == 404
    assert server.get("/api/v1/captures", headers=bearer(new)).status_code == 401
    # A key that expires makes none that lasts longer.
    short = add(server.data, "--days", "1")
    for days in "", "30":
        made(make(server, short, days=days))
    (end,) = {row[0] for row in rows(server, "SELECT expiresAt FROM apiKey ORDER BY createdAt DESC LIMIT 3")}
    assert end is not None


@pytest.mark.parametrize("power", ["work", "monitor"])
def test_the_operators_keys_are_of_no_project(start, power):
    """They are stored with the project `default`, whose keys neither see nor revoke them."""
    server = start("--require-key")
    owner, operators = add(server.data, "--name", "owner"), add(server.data, "--name", "operators", "--power", power)
    (identity,) = [found[0] for found in listed(server.data) if "operators" in found]
    assert "operators" not in server.get("/devices", headers=bearer(owner)).text
    assert server.post(f"/keys/{identity}/revoke", headers=bearer(owner), allow_redirects=False).status_code == 404
    assert "revoked" not in next(found for found in listed(server.data) if "operators" in found)
    assert server.get("/health", headers=bearer(operators)).status_code == 200


def test_keys_end_with_those_that_made_them(guarded):
    """Whoever had a key must not have made others that outlive it."""
    server, owner = guarded
    child = made(make(server, owner))
    grandchild = made(make(server, child))
    assert server.get("/", headers=bearer(grandchild)).status_code == 200
    identity = next(found[0] for found in listed(server.data) if "owner" in found)
    server.stop()
    assert keys(server.data, "revoke", identity).returncode == 0
    server.start()
    for key in owner, child, grandchild:
        assert server.get("/", headers=bearer(key)).status_code == 401


def test_a_key_that_is_revoked_while_its_form_arrives_makes_none(guarded):
    server, owner = guarded
    (identity,) = [found[0] for found in listed(server.data)]
    form = b"name=late&power=all&days="
    with socket.create_connection(("127.0.0.1", server.port), timeout=300) as connection:
        head = f"POST /keys HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {owner}\r\nContent-Length: {len(form)}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
        connection.sendall(head.encode())
        # The body is asked for once the key was recognized.
        answer = b""
        while b"\r\n\r\n" not in answer:
            assert (block := connection.recv(65536)), answer
            answer += block
        assert answer.startswith(b"HTTP/1.1 100 ")
        assert keys(server.data, "revoke", identity).returncode == 0
        connection.sendall(form)
        answer = b""
        while block := connection.recv(65536):
            answer += block
    assert b" 400 " in answer.split(b"\r\n")[0] and b"tks_" not in answer and len(listed(server.data)) == 1


def test_without_keys_only_this_machine_makes_some(start):
    """A key would last longer than the setting that lets everybody in."""
    server = start()
    for headers in {"X-Forwarded-For": "192.0.2.1"}, {"Forwarded": "for=192.0.2.1"}:
        assert server.post("/keys", headers=headers, data={"name": "n", "power": "all", "days": ""}).status_code in (401, 403)
    assert listed(server.data) == [] and make(server).status_code == 200
    reachable = start("--camera-listen", f"0.0.0.0:{free_port()}", "--require-key=false")
    assert make(reachable).status_code == 403 and "Make a key" not in reachable.get("/devices").text
    assert reachable.post("/keys/absent/revoke").status_code == 403 and reachable.get("/").status_code == 200
