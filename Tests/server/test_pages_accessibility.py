"""Every page by the rules of axe-core: WCAG 2.1 A and AA, and what axe calls best practice; in light and dark, wide and on a phone."""

import json
from importlib.resources import files

import pytest
from conftest import Server
from pages import CONTRAST, browser, insert, insert_dataset, insert_file, view
from phone import Phone
from test_keys import add
from test_slowmotion import upload

AXE = files(pytest.importorskip("axe_playwright_python", reason="needs the Python package axe-playwright-python")).joinpath("axe.min.js").read_text()
EVIDENCE = {
    "levels": ["bytes-sealed-at-ingest", "chain-structure-ok"], "not_verified": ["that a known device signed the chain"],
    "chain": {"state": "sound", "frames": 360}, "assertion": {"state": "verified", "covers": "checkpoint", "key": "k"},
    "partial": {"state": "partial", "verified_seconds": 9.9667, "recorded_seconds": 12, "verified_frames": 300, "recorded_frames": 360},
    "depth": {"alignment": "every-third", "is_likely_real_scene": True},
    "findings": [{"severity": severity, "code": "odd", "message": "it is odd"} for severity in ("info", "warning", "error")],
    "takes": [{"id": f"t{n}", "outcome": "written", "rows": n} for n in range(3)],
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A server with a capture of each status, and all kinds of pages. Its addresses."""
    server = Server(tmp_path_factory.mktemp("site") / "data").start()
    empty = Server(tmp_path_factory.mktemp("empty") / "data").start()
    try:
        addresses = [empty.url + path for path in ("/", "/jobs", "/datasets", "/devices", "/live")]
        for status in ("processing", "complete", "failed", "rejected", "quarantined"):
            capture = insert(server, status=status, reason=None if status in ("processing", "complete") else "why it is so", evidence=json.dumps(EVIDENCE))
            insert_file(server, capture, "video.mp4", b"abc")
            addresses.append(f"{server.url}/verify/{capture}")
        insert_dataset(server, "default", capture)
        Phone(server)
        add(server.data, "--name", "reader")
        upload(server)
        addresses += [server.url + path for path in ("/", "/jobs", "/datasets", "/devices", "/server", "/live", "/verify/none", "/?cursor=x", "/datasets/none/report")]
        yield addresses
    finally:
        server.kill()
        empty.kill()


@pytest.mark.parametrize("width", [1300, 390])
def test_axe_finds_nothing(site, view, width):
    """Dark pages differ in their colors alone."""
    schemes = {"light": "{resultTypes: ['violations']}", "dark": "{resultTypes: ['violations'], runOnly: ['color-contrast', 'link-in-text-block']}"}
    for address in site:
        page = view.open(address, viewport={"width": width, "height": 900})
        if address.endswith("/live"):
            page.locator("#connection:text-is('Connected to the server.')").wait_for()
        page.evaluate(AXE)
        for scheme, options in schemes.items():
            page.emulate_media(color_scheme=scheme)
            found = page.evaluate(f"axe.run(document, {options})")
            assert [(rule["id"], [node["html"] for node in rule["nodes"]]) for rule in found["violations"]] == [], (address, scheme)
            assert page.evaluate(CONTRAST) == [], (address, scheme)
        assert page.locator("h1").count() == 1 and page.locator("main").count() == 1 and page.locator("nav[aria-label]").count() == 1
        page.context.close()
    # The browser notes statuses of pages that do not exist.
    view.said[:] = [text for text in view.said if "Failed to load resource" not in text]


def test_axe_can_find_something(site, view):
    page = view.open(site[0])
    page.evaluate("document.querySelector('main').insertAdjacentHTML('beforeend', '<img src=\"/favicon.ico\"><p style=\"color: #999\">pale</p><input>')")
    page.evaluate("document.querySelector('p:last-of-type').style.color = '#bbb'")
    page.evaluate(AXE)
    found = {rule["id"] for rule in page.evaluate("axe.run()")["violations"]}
    assert {"image-alt", "label", "color-contrast"} <= found
    view.said.clear()


def test_every_control_of_the_live_view_is_reached_by_keyboard(site, view):
    page = view.open(site[-4])
    page.locator("#movies button").wait_for()
    wanted = page.locator("a, button, video").locator("visible=true").count()
    reached = []
    for _ in range(wanted):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.textContent"))
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    assert reached[6:10] == ["Start recording on the phone", "Stop recording on the phone", "Keep the live stream", "Play"]
    page.focus("#keep")
    page.keyboard.press("Space")
    page.locator("#keep[aria-pressed=true]").wait_for()
    page.focus("#start")
    page.keyboard.press("Enter")
    page.locator("#said:text-is('No camera is connected')").wait_for()


def test_no_information_is_by_color_only(site, view):
    """Levels have a mark and a word, a pressed button a mark, statuses and findings their words."""
    page = view.open(site[6])
    levels = page.locator(".levels li").all_inner_texts()
    assert [text[0] for text in levels] == ["\u2713", "\u2713", "\u2717"] and "Not proven: " in levels[2]
    assert page.locator("h2:text-is('Findings') + ul span").all_inner_texts() == ["info", "warning", "error"]
    assert page.locator(".badge").all_inner_texts() == ["complete", "Verified: 10.0 s of 12.0 s recorded"]
    page = view.open(site[-4])
    mark = "getComputedStyle(document.getElementById('keep'), '::before').content"
    assert page.evaluate(mark) == "none"
    page.locator("#connection:text-is('Connected to the server.')").wait_for()
    page.click("#keep")
    # Pressed once the server has answered that it keeps the stream.
    page.locator("#keep[aria-pressed=true]").wait_for()
    assert "\u2713" in page.evaluate(mark)
