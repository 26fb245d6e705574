"""All pages with values that a client chose to do harm: nothing runs, nothing is wider than the window, and no text turns its surroundings."""

import json
import re
from types import SimpleNamespace
from urllib.parse import quote

import pytest
from conftest import Server
from pages import HOSTILE, browser, insert, insert_dataset, insert_file, view
from phone import rows
from test_slowmotion import upload

TURNING = "\u202egnp.exe\u2066\u0000 </td></table></main><h1>".replace("\u0000", "")
VALUES = {
    "script": "<script>document.title = 'run'</script>",
    "image": HOSTILE,
    "quotes": "\" onload=alert(1) x='` {{name}} {{{name}}}",
    "turning": TURNING,
    "long": "W" * 100_000,
    "combining": "a" + "\u0301" * 500 + "\U0001F600" * 500,
    "style": "</style><style>body { display: none }</style>",
    "address": "javascript:alert(1)",
}


def evidence(value):
    """The evidence of a conversion with the value wherever there is text."""
    return json.dumps({
        "levels": ["bytes-sealed-at-ingest", value], "not_verified": [value], "depth": {value: value, "alignment": value},
        "findings": [{"severity": value, "code": value, "message": value}] * 3, "chain": {"state": value, "reason": value, "frames": 3},
        "assertion": {"state": value, "covers": value, "key": value, "reason": value},
        "partial": {"state": value, "verified_seconds": 1, "recorded_seconds": 2, "verified_frames": 1, "recorded_frames": 2},
        "takes": [{"id": value, "outcome": value, "reason": value, "rows": 1}] * 2,
    })


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("hostile") / "data").start()
    try:
        ids = {}
        for number, (name, value) in enumerate(VALUES.items()):
            project = "p" + value[:50].replace("/", "") if name != "long" else value
            ids[name] = insert(server, name=value, reason=value, project=project, device=value, status="rejected", evidence=evidence(value))
            file = value.replace("/", "")[:200]
            insert_file(server, ids[name], ("session/" + file).encode()[:220].decode(errors="ignore"), b"abc")
            rows(server, "INSERT INTO device VALUES (?, ?, 'ios', ?, 1, 'unverified', NULL, ?, 0)", f"d{number}", f"k{number}", value, value)
            rows(server, "INSERT INTO apiKey (id, name, project, digest, createdAt) VALUES (?, ?, ?, ?, 0)", f"k{number}", value, value, b"%d" % number)
        insert_dataset(server, "default", insert(server, rows=1))
        upload(server, name=VALUES["image"].replace('"', ""))
        yield SimpleNamespace(server=server, url=server.url, ids=ids)
    finally:
        server.kill()


def addresses(hostile):
    yield from ("/", "/devices", "/datasets", "/live", "/server")
    yield from (f"/verify/{capture}" for capture in hostile.ids.values())


# Texts that turn the direction of writing, outside of what keeps that to itself.
TURNED = """() => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
  while (texts.nextNode()) {
    const text = texts.currentNode;
    if (/[\\u202a-\\u202e\\u2066-\\u2069]/.test(text.data) && !text.parentElement.closest('bdi, h1, dt, dd, .badge, ul > li:not(:has(*))'))
      found.push(text.parentElement.outerHTML.slice(0, 100));
  }
  return found;
}"""


@pytest.mark.parametrize("width", [1300, 390])
def test_nothing_runs_and_nothing_is_wider_than_the_window(hostile, view, width):
    for path in addresses(hostile):
        page = view.open(hostile.url + path, viewport={"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert page.title().endswith(" - Takeset") and page.locator("body").is_visible(), path
        assert page.locator("h1").count() == 1 and page.locator("main").count() == 1, path
        assert page.locator("img[src=x]").count() == 0 and page.locator("script").count() == (path == "/live"), path
        assert page.evaluate("[...document.querySelectorAll('[onload], [onerror], a[href^=javascript]')].length") == 0, path
        assert page.evaluate("document.body.innerText.length") < 60_000, path
        assert page.evaluate(TURNED) == [], path
        assert view.said == [], path
        page.context.close()


def test_values_are_shown_as_they_are(hostile, view):
    for name in ("script", "image", "quotes", "style", "address"):
        page = view.open(f"{hostile.url}/verify/{hostile.ids[name]}")
        assert page.locator("h1").text_content() == VALUES[name] and page.title() == f"{VALUES[name].strip()} - Takeset"
        assert page.locator("main").text_content().count(VALUES[name]) >= 12, name
    page = view.open(f"{hostile.url}/verify/{hostile.ids['image']}")
    with page.expect_download() as download:
        page.click("table a")
    assert download.value.path().read_bytes() == b"abc"


def test_every_page_has_a_strict_policy(hostile):
    for path in (*addresses(hostile), "/verify/0", "/datasets/no/report"):
        answer = hostile.server.get(path)
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; ") and "frame-ancestors 'none'" in policy and "base-uri 'none'" in policy
        assert "unsafe" not in policy and "*" not in policy and "http" not in policy
        assert ("script-src 'sha256-" in policy) == (path == "/live") == ("<script" in answer.text), path
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("value", [VALUES["script"], HOSTILE, TURNING, "W" * 8000])
def test_addresses_are_not_repeated_as_markup(hostile, view, value):
    for path in (f"/?type={quote(value)}", f"/?cursor={quote(value)}", f"/?status={quote(value)}&limit=5", f"/verify/{quote(value, safe='')}",
                 f"/datasets/{quote(value, safe='')}/report", f"/uploads/{quote(value, safe='')}", f"/captures/{quote(value, safe='')}/files/x"):
        answer = hostile.server.get(path)
        assert answer.status_code in (400, 404), path
        assert answer.headers["Content-Type"].startswith("application/json") or not re.search("<script|onerror=alert", answer.text), path


def test_a_policy_would_stop_what_the_templates_let_through(hostile, view):
    """The second wall by itself: markup that got into a page all the same runs nothing and loads nothing."""
    page = view.open(hostile.url)
    page.evaluate("document.addEventListener('error', () => { window.failed = (window.failed || 0) + 1; }, true)")
    page.evaluate("""() => {
      const script = document.createElement('script');
      script.textContent = "document.title = 'run'";
      document.body.append(script);
      document.body.insertAdjacentHTML('beforeend', "<img src=x onerror=\\"document.title = 'run'\\"><img src='https://192.0.2.1/x.png'>");
    }""")
    # Their own handlers would have run by then.
    hostile.server.until(lambda: page.evaluate("window.failed") == 2)
    assert page.title() == "Captures - Takeset"
    assert any("Content Security Policy" in text for text in view.said)
    view.said.clear()
