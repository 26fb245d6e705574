"""The pages in headless Chromium: captures, what is proven of each, devices and keys."""

import json
import re
from types import SimpleNamespace

import pytest
from conftest import TAKESET, Server
from pages import CONTRAST, HOSTILE, browser, follow, insert, insert_file, view
from phone import Phone, rows
from queued import bundle, finished, merged, queue
from test_conversion import APP, register, session, zipped

EVIDENCE = {"levels": ["bytes-sealed-at-ingest"], "not_verified": [HOSTILE], "depth": {"alignment": HOSTILE},
            "findings": [{"severity": "warning", "code": "odd", "message": HOSTILE}]}


@pytest.fixture(scope="module")
def captures(tmp_path_factory):
    """A server with a capture of each kind that was really converted, and hostile ones."""
    root = tmp_path_factory.mktemp("pages")
    server = Server(root / "data", "--takeset", TAKESET, "--app-id", APP, conversions=1).start()
    try:
        signed = bundle(root / "b", "--keys", root / "keys.json")
        cut = bundle(root / "cut", "--signature", "checkpoint", "--partial", "--seed", 2, "--keys", root / "keys2.json", seconds=6)
        ids = {
            "complete": queue(server.data, "video", signed, device=register(server.data, root / "keys.json")),
            "partial": queue(server.data, "video", cut, device=register(server.data, root / "keys2.json")),
            "rejected": queue(server.data, "video", bundle(root / "bad", "--fault", "chain-base64")),
            "session": queue(server.data, "session", {"session.zip": zipped(session(root / "session_a"), root / "a.zip")}),
        }
        finished(server, *ids.values())
        merged(server, ids["complete"], ids["partial"], ids["session"])
        ids["processing"] = insert(server, status="processing", name="pour-7")
        ids["hostile"] = insert(server, status="quarantined", name=HOSTILE, reason=HOSTILE, device=HOSTILE, evidence=json.dumps(EVIDENCE))
        insert_file(server, ids["hostile"], f"session/ü {HOSTILE.replace('/', '')}.bin", b"abc")
        yield SimpleNamespace(server=server, url=server.url, ids=ids)
    finally:
        server.kill()


def facts(page):
    """Names and values of all definition lists of a page."""
    return dict(zip(page.locator("dt").all_inner_texts(), page.locator("dd").all_inner_texts(), strict=True))


def badges(page):
    return page.locator(".badge").all_inner_texts()


def items(page, heading):
    return page.locator(f"h2:text-is('{heading}') + ul > li").all_inner_texts()


def test_a_complete_capture_says_what_is_proven_and_what_is_not(captures, view):
    page = view.open(f"{captures.url}/verify/{captures.ids['complete']}")
    assert badges(page) == ["complete", "Verified: 1.0 s of 1.0 s recorded"]
    levels = items(page, "What is proven")
    assert [text.split("\n")[0] for text in levels] == ["\u2713 Sealed at arrival", "\u2713 Hash chain complete", "\u2713 Signed by a registered phone"]
    assert [level.get_attribute("title") for level in page.locator(".levels strong").all()] == ["bytes-sealed-at-ingest", "chain-structure-ok", "assertion-ok"]
    unverified = items(page, "What nobody can check from these files")
    assert len(unverified) == 3 and unverified[0].startswith("that the movie shows what was hashed")
    shown = facts(page)
    assert shown["hash chain"] == "sound, 30 hashes" and shown["chain's signature"] == "verified, over the whole chain"
    # What it is comes before where it is from, and how many depth maps there are before what they say.
    names = [*shown]
    for order in (["type", "duration", "rows", "received", "request", "hash chain"], ["depth maps", "width of a depth map", "likely a real scene", "depth consistency"]):
        assert [name for name in names if name in order] == order
    assert shown["signed hashes"] == "30 of 30" and shown["rows"] == "30" and shown["likely a real scene"] == "yes"
    assert re.fullmatch(r"0\.9\d+", shown["depth consistency"]) and shown["suspicious depth maps"] == "none"
    assert page.locator("h2:text-is('Findings')").count() == 0
    # The list is of these columns.
    assert rows(captures.server, "SELECT seconds, badge FROM capture WHERE id = ?", captures.ids["complete"]) == [(pytest.approx(29 / 30, abs=1e-6), "complete")]
    with page.expect_navigation():
        page.click("dd a")
    assert page.url == f"{captures.url}/datasets/default/report"


def test_a_partial_capture_says_how_much_is_verified(captures, view):
    page = view.open(f"{captures.url}/verify/{captures.ids['partial']}")
    assert badges(page) == ["complete", "Verified: 5.0 s of 6.0 s recorded"]
    assert "info" in page.locator(".badge").nth(1).get_attribute("class")
    assert items(page, "What is proven")[2] == "\u2713 Signed by a registered phone\nA registered phone's key signed the chain up to a checkpoint."
    assert items(page, "What nobody can check from these files")[-1] == "what was recorded after the checkpoint that the device signed"
    assert facts(page)["signed hashes"] == "150 of 180"
    # The finding that says the same has the badge's tone.
    finding = page.locator("h2:text-is('Findings') + ul > li", has_text="partially-verified")
    assert finding.locator("span").inner_text() == "info" and finding.locator("span").get_attribute("class") == "info"


def test_a_rejected_capture_says_why(captures, view):
    page = view.open(f"{captures.url}/verify/{captures.ids['rejected']}")
    assert badges(page)[0] == "rejected"
    assert "hash chain is broken" in page.locator(".panel").first.inner_text()
    assert badges(page)[1] == "Not verified: hash chain broken"
    assert items(page, "Findings")[0].startswith("error chain-broken: the hash chain is broken: frame_hashes[0]")
    levels = items(page, "What is proven")
    assert levels[1].startswith("\u2717 Hash chain complete\nNot proven: ") and levels[2].startswith("\u2717 Signed by a registered phone\nNot proven: ")
    assert items(page, "What nobody can check from these files")[-1] == "that the chain is whole"
    assert facts(page)["hash chain"].startswith("broken") and "0 hashes" not in facts(page)["hash chain"]
    assert page.locator("dt:text-is('dataset')").count() == 0
    assert page.locator("table a").all_inner_texts() == ["depth.gz", "hash_chain.json", "metadata.json", "video.mp4"]


def test_a_capture_that_is_processed_is_looked_at_again(captures, view):
    page = view.open(f"{captures.url}/verify/{captures.ids['processing']}")
    assert badges(page) == ["processing"]
    rows(captures.server, "UPDATE capture SET status = 'failed', reason = 'no luck' WHERE id = ?", captures.ids["processing"])
    page.click("text=Look again")
    page.wait_for_function("document.querySelector('.badge').textContent === 'failed'")
    rows(captures.server, "UPDATE capture SET status = 'processing', reason = NULL WHERE id = ?", captures.ids["processing"])
    for other in ("complete", "rejected"):
        assert "Look again" not in captures.server.get(f"/verify/{captures.ids[other]}").text


def test_captures_that_cannot_be_verified_have_no_badge(captures, view):
    page = view.open(f"{captures.url}/verify/{captures.ids['session']}")
    assert badges(page) == ["complete"] and items(page, "What is proven") == []


def test_what_does_not_exist_is_a_page(captures):
    for path in ("/verify/0", "/verify/550e8400-e29b-41d4-a716-446655440000", "/datasets/no/report", "/?cursor=x"):
        answer = captures.server.get(path)
        assert answer.status_code == (400 if "cursor" in path else 404) and answer.headers["Content-Type"].startswith("text/html")
        assert "<nav" in answer.text and "X-Request-Id" in answer.headers


PAGES = ["/", "/verify/complete", "/verify/partial", "/verify/rejected", "/verify/processing", "/verify/hostile", "/datasets", "/devices", "/jobs", "/server", "/verify/none"]


@pytest.mark.parametrize("width", [1300, 390])
def test_every_page_is_legible(captures, view, width, tmp_path):
    """Contrast, nothing to the side of the window, and no column so narrow that words fall apart."""
    for path in PAGES:
        name = path.split("/")[-1]
        page = view.open(captures.url + path.replace(name, captures.ids.get(name, name)), viewport={"width": width, "height": 900})
        if name == "none":
            # The browser notes the status.
            view.said.clear()
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate(CONTRAST) == [], (path, scheme)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (path, scheme)
            assert all(height < 45 for height in page.evaluate("[...document.querySelectorAll('th, td .badge')].map((e) => e.offsetHeight)")), (path, scheme)
            back = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)")
            assert min(back) > 200 if scheme == "light" else max(back) < 60
            page.screenshot(path=tmp_path / f"{name or 'captures'}-{scheme}-{width}.png", full_page=True)


def test_pages_work_without_scripts(captures, view):
    for path in PAGES:
        name = path.split("/")[-1]
        text = captures.server.get(path.replace(name, captures.ids.get(name, name))).text
        assert ("<script" in text) == (name in ("complete", "partial")), path
    page = view.open(f"{captures.url}/verify/{captures.ids['complete']}", java_script_enabled=False)
    assert page.locator("#player").is_hidden() and all(page.locator(".stills img").nth(n).is_visible() for n in range(2))
    assert all(image.get_attribute("alt") for image in page.locator("img").all())
    page = view.open(captures.url, java_script_enabled=False)
    assert "1.0 s" in page.locator("tbody td").all_inner_texts()
    page.select_option("select[name=status]", "rejected")
    follow(page, "button")
    assert page.locator("tbody tr").count() == 1 and badges(page) == ["rejected", "not verified"]
    assert rows(captures.server, "SELECT badge FROM capture WHERE id = ?", captures.ids["rejected"]) == [("none",)]
    assert page.locator("select[name=status]").input_value() == "rejected"
    follow(page, "tbody a")
    assert page.url == f"{captures.url}/verify/{captures.ids['rejected']}"
    for name, heading in (("Datasets", "Datasets"), ("Devices and keys", "Devices"), ("Live", "Live view"), ("Server", "Server"), ("Captures", "Captures")):
        follow(page, f"nav a:text-is('{name}')")
        assert page.locator("h1").first.inner_text() == heading
        assert page.locator("nav a[aria-current]").inner_text() == name


def test_all_of_it_is_reached_by_keyboard(captures, view):
    page = view.open(captures.url)
    wanted = page.locator("a, button, select, input, [tabindex='0']").count()
    reached = []
    while len(set(reached)) < wanted:
        page.keyboard.press("Tab")
        reached.append(page.evaluate("[...document.querySelectorAll('*')].indexOf(document.activeElement)"))
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
        assert len(reached) < 2 * wanted
    # A date has a stop for each of its parts.
    assert reached == sorted(reached)
    page.focus("select[name=status]")
    page.keyboard.press("p")
    page.focus("button")
    page.keyboard.press("Enter")
    page.wait_for_url("**/?q=&type=&status=processing&**")
    page.focus("tbody a")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/verify/{captures.ids['processing']}")
    assert page.locator("main").count() == 1 and page.locator("h1").count() == 1 and page.get_attribute("html", "lang") == "en"


def test_an_empty_server_has_pages(server, view):
    for path, text in (("/", "Nothing has been received yet"), ("/jobs", "Nothing waits"), ("/datasets", "none yet"), ("/devices", "No device")):
        assert text in view.open(server.url + path).locator("main").inner_text()
    upload, simulate = f"takeset upload session/ --to {server.url}", f"takeset simulate device --to {server.url}"
    assert view.open(server.url).locator("pre").all_inner_texts() == [upload, simulate]
    for path, command in (("/datasets", upload), ("/devices", simulate)):
        assert command + "\n" in view.open(server.url + path).locator("main pre").all_inner_texts()[0] + "\n"


@pytest.mark.parametrize("scheme, level, words", [
    ("s2", "secure_enclave", "signed by the device's attested key, over every byte"),
    ("s2", "registered_key", "signed by the device's registered key, over every byte"),
    ("s1", "secure_enclave", "signed by the device's attested key, without the body"),
    ("s1", "registered_key", "signed by the device's registered key, without the body"),
    ("s2", "unverified", "signed, but not verified"), ("s0", "secure_enclave", "with a placeholder instead of a signature"),
    ("none", "unverified", "without signature")])
def test_how_a_request_was_signed(common, scheme, level, words):
    rows(common, "DELETE FROM device")
    phone = Phone(common, level=level)
    verified = level != "unverified" and scheme in ("s1", "s2")
    capture = insert(common, device=phone.id.lower(), signature=scheme, isVerified=int(verified))
    assert f"<dt>request</dt><dd>{words.replace(chr(39), '&#39;')}</dd>" in common.get(f"/verify/{capture}").text.replace("'", "&#39;")


def test_devices_and_their_captures(server, view):
    """Only one that is attested is shown green."""
    phone = Phone(server, level="secure_enclave")
    for _ in range(3):
        insert(server, device=phone.id.lower())
    page = view.open(f"{server.url}/devices")
    cells = page.locator("tbody td").all_inner_texts()
    assert cells[:3] == [phone.id.lower(), "iPhone16,1", "secure enclave"] and cells[4] == "3"
    for level, tone in [("secure_enclave", "good"), ("registered_key", "soft"), ("mock", "fair"), ("unverified", "fair")]:
        rows(server, "DELETE FROM device")
        Phone(server, level=level)
        assert f'<span class="badge {tone}">{level.replace("_", " ")}</span>' in server.get("/devices").text


@pytest.mark.parametrize("chain, covers, mark", [
    ("sound", "final", "good"), ("sound", "checkpoint", "good"), ("sound", "none", "soft"), ("broken", "final", "soft"), ("broken", "none", "soft")])
def test_a_signature_is_green_only_where_it_is_about_a_whole_chain(common, chain, covers, mark):
    evidence = {"levels": ["bytes-sealed-at-ingest", "assertion-ok"], "chain": {"state": chain}, "assertion": {"state": "verified", "covers": covers}}
    capture = insert(common, status="rejected", evidence=json.dumps(evidence))
    text = common.get(f"/verify/{capture}").text
    assert f'<strong class="{mark}" title="assertion-ok">{chr(0x2713 if mark == "good" else 0x2717)} Signed by a registered phone</strong>' in text


@pytest.mark.parametrize("assertion, words", [
    ({"state": "verified", "covers": "checkpoint"}, "verified, up to a checkpoint"), ({"state": "absent", "covers": "none"}, "there is none"),
    ({"state": "no-key", "covers": "none", "reason": "no keys were given, so the signature is not checked"}, "no keys were given, so the signature is not checked"),
    ({"state": "invalid", "covers": "none", "reason": "it is of another chain"}, "invalid, it is of another chain")])
def test_only_what_a_verified_signature_covers_is_said(common, assertion, words):
    capture = insert(common, evidence=json.dumps({"chain": {"state": "sound"}, "assertion": assertion}))
    assert f"<dt>chain&#39;s signature</dt><dd>{words}</dd>" in common.get(f"/verify/{capture}").text.replace("chain's", "chain&#39;s")


def test_a_browser_gets_a_page_whatever_it_asks_for(start):
    server = start("--require-key")
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    for path, status in (("/", 401), ("/live", 401), ("/api/v1/captures", 401), ("/viewer.html", 401), ("/nowhere.html", 404)):
        answer = server.get(path, headers=browser)
        assert (answer.status_code, answer.headers["Content-Type"]) == (status, "text/html; charset=utf-8"), path
        assert "</html>" in answer.text and answer.headers["X-Request-Id"]
        assert (status == 401) == ("WWW-Authenticate" in answer.headers)
        assert "html" not in server.get(path).headers.get("Content-Type", ""), path
