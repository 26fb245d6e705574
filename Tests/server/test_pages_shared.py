"""Links at which everybody may see a capture's page, without a key: what they show, what they do not, and that they can be taken back."""

import re

import pytest
import requests
from conftest import TAKESET, Server
from pages import CONTRAST, browser, follow, insert, insert_file, view  # noqa: F401 (fixtures)
from phone import rows
from queued import bundle, finished, queue
from test_conversion import APP, register
from test_keys import add, bearer


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A server that asks for keys, a converted capture on it, and its link."""
    root = tmp_path_factory.mktemp("shared")
    server = Server(root / "data", "--takeset", TAKESET, "--app-id", APP, "--require-key", conversions=1).start()
    try:
        key = add(server.data, "--name", "owner")
        signed = bundle(root / "b", "--keys", root / "keys.json")
        capture = queue(server.data, "video", signed, device=register(server.data, root / "keys.json"))
        finished(server, capture)
        answer = server.post(f"/api/v1/captures/{capture}/link", headers=bearer(key))
        assert answer.status_code == 200, answer.text
        yield server, key, capture, answer.json()["data"]["url"]
    finally:
        server.kill()


def test_the_link_shows_what_is_proven_and_plays_images_of_the_capture(shared, view):
    """Not the movie, which may say where it was recorded."""
    server, key, capture, url = shared
    assert re.fullmatch(re.escape(server.url) + "/shown/[0-9a-f]{32}", url)
    page = view.open(url)
    assert page.locator(".badge").all_inner_texts() == ["complete", "Verified: 1.0 s of 1.0 s recorded"]
    assert page.locator(".levels li").count() == 3
    page.wait_for_selector("#player:not([hidden])")
    assert page.locator("#player-movie").is_hidden() and page.locator("#player-unplayable").is_hidden()
    page.click("text=Play")
    page.locator("#player-time:text-is('1.0 of 1.0 s')").wait_for()
    assert page.evaluate(CONTRAST) == []


def test_the_link_leads_to_nothing_else(shared):
    server, key, capture, url = shared
    answer = requests.get(url, timeout=300)
    text = answer.text
    assert answer.headers["Referrer-Policy"] == "no-referrer" and answer.headers["X-Robots-Tag"] == "noindex"
    assert "<nav" not in text and "<form" not in text and "Files as received" not in text and "/datasets/" not in text and "/captures/" not in text
    assert "<dt>project" not in text and "<dt>device" not in text and "signing device" not in text
    rows(server, "UPDATE capture SET name = 'video_1795803633388' WHERE id = ?", capture)
    text += requests.get(url, timeout=300).text
    assert re.search("<h1>[0-9]+ [A-Z][a-z]+ [0-9 ]*[0-9]{2}:[0-9]{2}, 1.0 s, video</h1>", text)
    (device,) = rows(server, "SELECT device FROM capture WHERE id = ?", capture)[0]
    assert device not in text and device in server.get(f"/verify/{capture}", headers=bearer(key)).text
    for name in "thumbnail.jpg", "overlay.jpg", "preview/preview.json", "preview/000000-images.jpg":
        assert requests.get(f"{url}/{name}", timeout=300).status_code == 200, name
    for name in "movie", "files/video.mp4", "files/metadata.json", "download", "convert", "delete", "preview/manifest.json", "preview/..%2fdataset%2fmanifest.json":
        assert requests.get(f"{url}/{name}", timeout=300).status_code == 404, name
        assert requests.post(f"{url}/{name}", timeout=300).status_code in (404, 405), name
    # What the link does not name still needs a key.
    for path in "/", f"/verify/{capture}", f"/captures/{capture}/thumbnail.jpg", f"/captures/{capture}/preview/preview.json", f"/api/v1/captures/{capture}":
        assert server.get(path).status_code == 401, path


def test_a_link_stays_until_it_is_taken_back(shared):
    server, key, capture, url = shared
    address = f"/api/v1/captures/{capture}/link"
    assert server.post(address, headers=bearer(key)).json()["data"]["url"] == url
    assert requests.delete(server.url + address, headers=bearer(key), timeout=300).status_code == 204
    for name in "", "/thumbnail.jpg", "/preview/preview.json":
        gone = requests.get(url + name, timeout=300)
        assert gone.status_code == 404 and "<nav" not in gone.text and gone.headers["Referrer-Policy"] == "no-referrer"
    assert requests.delete(server.url + address, headers=bearer(key), timeout=300).status_code == 204
    other = server.post(address, headers=bearer(key)).json()["data"]["url"]
    assert other != url and requests.get(other, timeout=300).status_code == 200 and requests.get(url, timeout=300).status_code == 404
    rows(server, "UPDATE capture SET link = ? WHERE id = ?", url.rsplit("/")[-1], capture)


def test_who_may_make_links(shared):
    server, key, capture, url = shared
    address = f"/api/v1/captures/{capture}/link"
    for other, status in (None, 401), (add(server.data, "--power", "read"), 403), (add(server.data, "--power", "upload"), 403), (add(server.data, "--project", "other"), 404):
        headers = bearer(other) if other else {}
        assert server.post(address, headers=headers).status_code == status
        assert requests.delete(server.url + address, headers=headers, timeout=300).status_code == status
        for name in "share", "unshare":
            assert server.post(f"/captures/{capture}/{name}", headers=headers, allow_redirects=False).status_code == status
    # Whoever may only read could keep the link for longer than the key.
    reader = add(server.data, "--power", "read")
    text = server.get(f"/verify/{capture}", headers=bearer(reader)).text
    assert "Whoever has its link" in text and "/shown/" not in text
    assert server.post(address, headers={**bearer(key), "Origin": "http://evil.example"}).status_code == 403
    assert requests.get(url, timeout=300).status_code == 200


def test_what_is_no_link_is_not_found(common):
    insert(common)
    for link in "x", "0" * 32, "%27%20OR%201=1", "null", "":
        assert common.get(f"/shown/{link}").status_code == 404, link


def test_buttons_make_a_link_and_take_it_back(server, view):
    capture = insert(server, name="pour")
    insert_file(server, capture, "video.mp4", b"abc")
    page = view.open(f"{server.url}/verify/{capture}")
    follow(page, "text=Make a link for others")
    link = page.locator("main a[href*='/shown/']")
    url = link.get_attribute("href")
    assert link.inner_text() == url and page.url == f"{server.url}/verify/{capture}"
    assert requests.get(url, timeout=300).status_code == 200
    follow(page, "text=Take the link back")
    assert page.locator("a[href*='/shown/']").count() == 0 and requests.get(url, timeout=300).status_code == 404


def test_only_what_is_wrong_with_the_capture_itself_is_said(common):
    for status, is_said in ("rejected", True), ("failed", False), ("complete", False):
        capture = insert(common, status=status, reason="Another capture of the project is named pour-7.")
        url = common.post(f"/api/v1/captures/{capture}/link").json()["data"]["url"]
        assert ("pour-7" in requests.get(url, timeout=300).text) == is_said
        assert "pour-7" in common.get(f"/verify/{capture}").text
    # A capture that is deleted is shown to nobody.
    assert requests.get(url, timeout=300).status_code == 200
    assert requests.delete(f"{common.url}/api/v1/captures/{capture}", timeout=300).status_code == 204
    assert requests.get(url, timeout=300).status_code == 404
