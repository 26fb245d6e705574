"""The page of `takeset report` in headless Chromium: filters, order, pages, keyboard, address, print, contrast, reloading."""

import io
import json
import os
import shutil
import signal
import subprocess

import numpy as np
import pytest
from command import BINARY
from PIL import Image
from report_pages import multiplied
from system import stopped

sync_api = pytest.importorskip("playwright.sync_api", reason="needs the Python package playwright")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")]

HOSTILE = "<img src=x onerror=alert(1)>\"'"
MANY = 230


@pytest.fixture(scope="module")
def files(takeset, tmp_path_factory):
    """A page of takes of each kind, and one of many takes."""
    root = tmp_path_factory.mktemp("browser")
    tiny = ["--seconds", 0.5, "--size", "160x120"]
    takeset.simulate(root / "in/v1", *tiny, "--depth-size", "32x24", "--quirk", "frames-dropped")
    takeset.simulate(root / "in/v2", *tiny, "--variant", "v2", "--quirk", "joint-dead")
    takeset.simulate(root / "in" / HOSTILE, *tiny, "--variant", "v2")
    takeset.simulate(root / "in/raw", *tiny, "--variant", "v3-raw")
    takeset("simulate", "realitycam-bundle", "--output", root / "in/pour", *tiny, "--keys", root / "keys.json", check=0)
    takeset("simulate", "realitycam-bundle", "--output", root / "in/cut", *tiny, "--fault", "truncated-movie", check=0)
    takeset.convert(root / "in", output=root / "out", check=3, arguments=["--keys", root / "keys.json"])
    takeset("report", root / "out", "--output", root / "few.html", check=0)
    takeset("report", multiplied(root / "out", root / "many", MANY), "--output", root / "many.html", check=0)
    return root


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def load(browser, files):
    """Opens a page; at the end, nothing may have been written to the console and nothing fetched."""
    said, pages = [], []

    def load(name="few.html", fragment="", has_clock=False, **options):
        page = browser.new_context(**{"viewport": {"width": 1300, "height": 900}, **options}).new_page()
        if has_clock:
            page.clock.install()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: (said.append("dialog: " + dialog.message), dialog.dismiss()))
        page.on("request", lambda request: None if request.url.startswith(("file:", "data:")) else said.append(request.url))
        page.goto(f"file://{files / name}{fragment}")
        pages.append(page)
        return page

    yield load
    for page in pages:
        page.context.close()
    assert said == []


def shown(page):
    return page.locator("#rows > tr.take .toggle").all_inner_texts()


def test_filters_select_takes(load):
    page = load()
    assert len(shown(page)) == 6 and page.locator("#count").inner_text() == "6 entries"
    page.select_option("#outcome", "rejected")
    assert shown(page) == ["raw"] and page.locator("#count").inner_text() == "1 of 6 entries"
    page.click("button[type=reset]")
    page.select_option("#severity", "error")
    assert shown(page) == ["cut"]
    page.select_option("#severity", "warning")
    assert {"cut", "v1", "v2"} <= set(shown(page)) and HOSTILE not in shown(page)
    page.click("button[type=reset]")
    page.select_option("#reader", "realitycam-bundle")
    assert sorted(shown(page)) == ["cut", "pour"]
    page.fill("#q", "ONERROR stack")
    assert shown(page) == []
    page.select_option("#reader", "")
    assert shown(page) == [HOSTILE]
    page.click("button[type=reset]")
    page.click("a[href='#code=joint-dead']")
    sync_api.expect(page.locator("#code")).to_have_value("joint-dead")  # the event comes after the click
    assert shown(page) == ["v2"] and page.input_value("#code") == "joint-dead"


LABELS = {
    "v1": {"task": HOSTILE, "success": True, "tags": ["night"]}, "v2": {"task": "fold", "success": False}, "pour": {"task": "fold"},
    HOSTILE: {"tags": ["night", "left"]},
}  # fmt: skip


def test_labels_are_shown_sorted_and_chosen_by(load, takeset, files, tmp_path):
    shutil.copytree(files / "out", tmp_path / "out")
    (tmp_path / "labels.json").write_text(json.dumps(LABELS))
    takeset("label", tmp_path / "out", "--from", tmp_path / "labels.json", check=0)
    takeset("report", tmp_path / "out", "--output", files / "labelled.html", check=0)
    page = load("labelled.html")
    for control, value, wanted in [
        ("task", "fold", {"v2", "pour"}), ("task", HOSTILE, {"v1"}), ("success", "yes", {"v1"}), ("success", "no", {"v2"}),
        ("success", "none", {"pour", HOSTILE, "cut", "raw"}),
    ]:  # fmt: skip
        page.select_option(f"#{control}", value)
        assert set(shown(page)) == wanted
        # The address has the choice, for a colleague.
        assert set(shown(load("labelled.html", page.evaluate("location.hash")))) == wanted
        page.click("button[type=reset]")
    page.fill("#q", "night")
    assert set(shown(page)) == {"v1", HOSTILE}
    page.click("button[type=reset]")
    page.click("th[data-key=task] button")
    assert shown(page)[0] == "v1" and set(shown(page)[1:3]) == {"pour", "v2"} and page.get_attribute("th[data-key=task]", "aria-sort") == "ascending"
    row = page.locator("#rows > tr.take", has=page.locator("text=v1"))
    assert HOSTILE in row.inner_text() and "yes" in row.inner_text()


def test_columns_sort_in_both_directions(load):
    page = load()
    assert page.get_attribute("th[data-key=outcome]", "aria-sort") == "ascending" and shown(page)[:2] == ["cut", "raw"]
    page.click("th[data-key=id] button")
    assert shown(page) == sorted(shown(page)) and page.get_attribute("th[data-key=id]", "aria-sort") == "ascending"
    page.click("th[data-key=id] button")
    assert shown(page) == sorted(shown(page), reverse=True) and page.get_attribute("th[data-key=id]", "aria-sort") == "descending"
    page.click("th[data-key=bytes] button")
    sizes = {row["id"]: row.get("bytes") for row in page.evaluate("data.rows")}
    with_size = [take for take in shown(page) if sizes[take]]
    # Takes without a file are last.
    assert with_size == sorted(with_size, key=sizes.get) and shown(page)[: len(with_size)] == with_size
    assert page.locator("th[aria-sort]").count() == 1


def test_bars_of_measures_lead_to_their_episodes(load):
    page = load("many.html")
    values = page.evaluate("Object.fromEntries(data.rows.map((row) => [row.id, Object.fromEntries(row.measures)]))")
    for figure in page.locator(".measures figure").all():
        name, found = figure.locator("code").inner_text(), []
        for number in range(figure.locator("a").count()):
            link = figure.locator("a").nth(number)
            link.focus()
            page.keyboard.press("Enter")
            _, low, high = (part.partition("=")[2] for part in link.get_attribute("href").split("&"))
            # The page follows the address when its event arrives, after the key.
            for control, value in [("measure", name), ("from", low), ("to", high)]:
                sync_api.expect(page.locator(f"#{control}")).to_have_value(value)
            low, high = float(low), float(high)
            chosen = [id for id, own in values.items() if name in own and low <= own[name] < high]
            found += chosen
            count = page.locator("#count").inner_text()
            assert count == f"{len(chosen)} of {MANY} entries" and link.get_attribute("aria-label").startswith(f"{name}: {len(chosen)} episode")
        assert sorted(found) == sorted(id for id, own in values.items() if name in own), name
    assert page.evaluate("document.activeElement.id") == "takes"
    page.select_option("#measure", "sharpness_p10")
    assert page.input_value("#from") == page.input_value("#to") == "" and page.locator("#count").inner_text() == f"{MANY} entries"
    page.click("th[data-key=measure] button")
    ids = shown(page)
    sharpness = [values[id].get("sharpness_p10", float("inf")) for id in ids]
    assert sharpness == sorted(sharpness) and page.locator("th[data-key=measure] button").inner_text() == "sharpness_p10"
    page.click("button[type=reset]")
    assert page.locator("th[data-key=measure]").is_hidden() and page.locator("#rows > tr.take").first.locator("td, th").count() == page.locator("#table thead th:visible, #table thead td").count()


@pytest.mark.parametrize("fragment", ["#measure=constructor", "#measure=__proto__&from=1", "#measure=x&from=a&to=b", "#sort=measure", "#from=3"])
def test_measures_that_there_are_not_choose_nothing(load, fragment):
    page = load("many.html", fragment)
    assert page.locator("#count").inner_text() == f"{MANY} entries" and page.locator("th[data-key=measure]").is_hidden()
    assert page.input_value("#measure") == page.input_value("#from") == page.input_value("#to") == ""
    assert page.get_attribute("th[data-key=outcome]", "aria-sort") == "ascending"


def test_details_show_images_and_drawings(load):
    page = load()
    for take in shown(page):
        page.click(f"#rows .toggle >> text={json.dumps(take)}")
    assert page.locator("tr.details").count() == 6 and page.locator(".toggle[aria-expanded=true]").count() == 6
    details = page.locator("tr.details", has_text="frames-dropped").first
    for name in ["camera_image", "camera_depth", "Trajectory", "From the side", "Height", "Rows in time"]:
        assert name in details.inner_text()
    page.wait_for_function("[...document.images].every((image) => image.complete && image.naturalWidth > 0)")
    assert page.locator(".strip img").count() >= 5 and all(page.locator(".strip img").nth(i).get_attribute("alt") for i in range(5))
    assert "near, 0.5 m" in details.inner_text() and "far, 5 m" in details.inner_text()
    assert "Verified: 0.5 s of 0.5 s recorded" in page.locator(".verification").first.inner_text()
    assert page.evaluate("document.querySelectorAll('#rows img[src=x]').length") == 0
    page.click("#close-all")
    assert page.locator("tr.details").count() == 0
    page.click("#open-all")
    assert page.locator("tr.details").count() == 6


def test_pages_of_a_long_table(load):
    page = load("many.html")
    assert len(shown(page)) == 50 and page.locator("#place").inner_text() == "Page 1 of 5" and page.is_disabled("#previous")
    seen = shown(page)
    for number in range(2, 6):
        page.click("#next")
        assert page.locator("#place").inner_text() == f"Page {number} of 5"
        seen += shown(page)
    assert len(seen) == len(set(seen)) == MANY and page.is_disabled("#next")
    page.click("#first")
    page.select_option("#size", "100")
    assert len(shown(page)) == 100 and page.locator("#place").inner_text() == "Page 1 of 3"
    page.click("#last")
    page.fill("#q", "take-00007")
    assert shown(page) == ["take-00007"] and page.locator("#place").inner_text() == "Page 1 of 1"


def test_the_address_keeps_the_view(load):
    page = load("many.html")
    page.click("th[data-key=id] button")
    page.select_option("#size", "25")
    page.click("#next")
    page.click("#rows .toggle >> nth=3")
    before = shown(page)
    for _ in range(2):
        page.reload()
        assert shown(page) == before and page.locator("tr.details").count() == 1 and page.input_value("#size") == "25"
    other = load("many.html", page.evaluate("location.hash"))
    assert shown(other) == before and other.locator("tr.details").count() == 1


def test_all_of_it_works_by_keyboard(load):
    page = load()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.focus("#q")
    page.keyboard.type("v2")
    assert "v2" in shown(page) and len(shown(page)) < 6
    page.focus("th[data-key=frames] button")
    page.keyboard.press("Enter")
    assert page.get_attribute("th[data-key=frames]", "aria-sort") == "ascending"
    page.focus("#rows .toggle >> nth=0")
    page.keyboard.press("Space")
    assert page.locator("tr.details").count() == 1
    controls = "[...document.querySelectorAll('button, a, input, select')]"
    assert page.evaluate(f"{controls}.filter((e) => e.tabIndex < 0 || !(e.textContent.trim() || e.labels?.length)).length") == 0


CONTRAST = """() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const color = parse(getComputedStyle(e).backgroundColor);
      if (color.length < 4 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || e.disabled || ["SCRIPT", "NOSCRIPT", "OPTION"].includes(e.tagName) || !e.getClientRects().length) continue;
    const style = getComputedStyle(e);
    const [a, b] = [light(parse(e.namespaceURI.endsWith("svg") ? style.fill : style.color)), light(behind(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.push(`${e.tagName}.${e.className.baseVal ?? e.className} ${ratio.toFixed(2)}: ${e.textContent.slice(0, 40)}`);
  }
  return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_contrast(load, scheme):
    page = load(color_scheme=scheme)
    page.click("#open-all")
    assert page.evaluate(CONTRAST) == []
    back = np.array(page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"))
    assert (back > 200).all() if scheme == "light" else (back < 60).all()


@pytest.mark.parametrize("width", [1300, 1000, 700, 380])
def test_no_width_makes_the_page_scroll_sideways(load, width):
    page = load(viewport={"width": width, "height": 800})
    page.click("#open-all")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("Math.max(...[...document.querySelectorAll('.detail')].map((e) => e.getBoundingClientRect().right))") <= width


def test_a_print_has_all_selected_takes(load):
    page = load("many.html", "#size=25")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert len(shown(page)) == MANY and not page.is_visible("#filters") and not page.is_visible("#next")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    assert len(shown(page)) == 25
    assert page.pdf().startswith(b"%PDF")


def test_nothing_moves_for_who_prefers_that(load):
    page = load(reduced_motion="reduce")
    assert page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"
    assert page.evaluate("document.getAnimations().length") == 0


def test_a_picture_is_drawn_with_its_colors(load):
    """The time line's gap is red where it is, and the trajectory's line blue."""
    page = load(fragment="#open=v1")
    picture = page.locator(".timeline svg").screenshot()
    pixels = np.asarray(Image.open(io.BytesIO(picture)).convert("RGB")).astype(int)
    red = (pixels[..., 0] > 150) & (pixels[..., 1] < 90) & (pixels[..., 2] < 90)
    blue = (pixels[..., 2] > pixels[..., 0] + 30) & (pixels[..., 1] > 100)
    assert red.any() and blue.any() and np.ptp(np.nonzero(red)[1]) < np.ptp(np.nonzero(blue)[1])


def test_a_page_of_a_run_reloads_itself_and_keeps_the_view(takeset, load, files, failing_look):
    """The run is stopped, and the clock of the browser moves on request."""
    output = files / "live"
    run = stopped([BINARY, "run", files / "in", "--output", output, "--jobs", "1"], failing_look, "rename", output / "episodes", 3)
    try:
        command = [BINARY, "report", output, "--output", files / "live.html", "--watch", "--interval", "7"]
        watch = subprocess.Popen([*map(str, command)], stderr=subprocess.PIPE, text=True)
        assert "so far" in watch.stderr.readline()
        page = load("live.html", "#severity=none", has_clock=True)
        page.click("#rows .toggle >> nth=0")
        page.click("th[data-key=id] button")
        page.evaluate("window.isOld = true")
        before = shown(page), page.evaluate("location.hash")
        with page.expect_event("load"):
            page.clock.run_for(7500)
        assert page.evaluate("window.isOld") is None
        assert (shown(page), page.evaluate("location.hash")) == before and page.locator("tr.details").count() == 1
        page.click("#pause")
        page.evaluate("window.isOld = true")
        page.clock.run_for(60_000)
        assert page.evaluate("window.isOld") is True
        watch.terminate()
        watch.communicate(timeout=300)
    finally:
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
    final = load("live.html")
    assert final.locator("#pause").count() == 0 and final.evaluate("data.reload") is None
