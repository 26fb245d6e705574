"""What the tests of pages need: rows put into a server's database, and a browser that writes down whatever a page should not do."""

import shutil
import time
import uuid

import pytest
from phone import rows

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
HOSTILE = "<img src=x onerror=alert(1)>\"'&lt;"


def insert(server, **values):
    """A capture without files. Its id."""
    values = {
        "id": str(uuid.uuid4()), "type": "video", "status": "complete", "project": "default", "name": "capture", "bytes": 12_345_678,
        "receivedAt": int(time.time() * 1000), "signature": "none", "isVerified": 0, **values,
    }
    rows(server, f"INSERT INTO capture ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})", *values.values())
    return values["id"]


def insert_file(server, capture, name, data):
    """A file of a capture, as its row and in the store."""
    path = server.data / "captures" / capture / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    rows(server, "INSERT INTO file VALUES (?, ?, ?, ?)", capture, name, len(data), "0" * 64)


def insert_dataset(server, name, *captures, pipeline="0" * 64, at=1):
    """A dataset as far as pages are concerned: its rows, and a folder with a manifest."""
    for capture in captures:
        rows(
            server, "INSERT INTO conversion (capture, state, attempts, notBefore, pipeline, finishedAt) VALUES (?, 'done', 1, 0, ?, ?)",
            capture, pipeline, at)
        rows(server, "INSERT INTO merged (dataset, capture, conversion, at) VALUES (?, ?, ?, 0)", name, capture, at)
        rows(server, "INSERT INTO take VALUES (?, ?)", capture, capture)
    folder = server.data / "datasets" / name
    folder.mkdir()
    (folder / "manifest.json").write_text("{}")
    return folder


@pytest.fixture(scope="module")
def browser():
    """Headless Chromium; without it, tests that need it are skipped."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the Python package playwright")
    if CHROMIUM is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def view(browser):
    view = View(browser)
    yield view
    view.close()
    assert view.said == [], view.said


class View:
    """Opens pages. `said` has what the browser complained of, asked or fetched from elsewhere."""

    def __init__(self, browser):
        self.browser, self.said, self.contexts = browser, [], []

    def open(self, address, prepare=None, **options):
        """`prepare(page)` is called before the page is loaded."""
        context = self.browser.new_context(**{"viewport": {"width": 1300, "height": 900}, **options})
        self.contexts.append(context)
        context.set_default_timeout(300_000)
        page = context.new_page()
        origin = "/".join(address.split("/")[:3])
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("dialog", lambda dialog: (self.said.append("dialog: " + dialog.message), dialog.dismiss()))
        page.on("request", lambda request: None if request.url.startswith((origin + "/", "data:", "blob:")) else self.said.append(request.url))
        if prepare:
            prepare(page)
        page.goto(address)
        return page

    def close(self):
        for context in self.contexts:
            context.close()


def follow(page, selector):
    """Clicks what leads to another page, which is there when this returns; a click alone may return before."""
    with page.expect_navigation():
        page.click(selector)


# Texts with less contrast than 4.5 : 1 against what is behind them.
CONTRAST = """() => {
  const numbers = (text) => text.match(/[0-9.]+/g).map(Number);
  const luminance = (color) => color.slice(0, 3).map((value) => value / 255)
    .map((value) => value > 0.04045 ? ((value + 0.055) / 1.055) ** 2.4 : value / 12.92)
    .reduce((sum, value, index) => sum + value * [0.2126, 0.7152, 0.0722][index], 0);
  const background = (element) => {
    while (element) {
      const color = numbers(getComputedStyle(element).backgroundColor);
      if (color[3] !== 0) return color;
      element = element.parentElement;
    }
    return [255, 255, 255];
  };
  const texts = [...document.querySelectorAll("body *")].filter((element) =>
    element.tagName !== "OPTION" && [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim()));
  return texts.map((element) => {
    const [one, other] = [luminance(numbers(getComputedStyle(element).color)), luminance(background(element))];
    return [(Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05), element.tagName, element.textContent.trim().slice(0, 40)];
  }).filter(([ratio]) => ratio < 4.5);
}"""
