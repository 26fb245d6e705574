"""Labels on a capture's page in headless Chromium: by keyboard alone on a phone's width, beside the player, without JavaScript, and for readers."""

import json

import pytest
from conftest import TAKESET
from devices import add_key
from pages import HOSTILE, browser, insert, insert_file, view  # noqa: F401 (fixtures)
from phone import rows
from test_labels import put, recorded
from test_pages import captures, follow  # noqa: F401 (a fixture)
from test_pages_accessibility import AXE
from test_pages_player import seek

TASK, SUCCESS, TAGS = ("form.labels [name=task]", "form.labels [name=success]", "form.labels [name=tags]")


def labels(captures, id):
    return captures.server.get(f"/api/v1/captures/{id}").json()["data"]["labels"]


def opened(captures, view, id, **options):
    page = view.open(f"{captures.url}/verify/{id}", **options)
    page.wait_for_selector("#player:not([hidden])")
    return page


def tab_to(page, words, back=False):
    """Moves the focus by keyboard until it is on the control with this name."""
    named = """() => { const e = document.activeElement; return e.tagName === 'BUTTON' ? e.textContent.trim()
      : e.getAttribute('aria-label') ?? e.closest('label')?.firstChild.data.trim() ?? ''; }"""
    for _ in range(80):
        page.keyboard.press("Shift+Tab" if back else "Tab")
        if page.evaluate(named) == words:
            return
    raise AssertionError(f"{words} is not reached by keyboard")


def test_by_keyboard_alone_on_a_phone(captures, view):
    id = captures.ids["complete"]
    page = opened(captures, view, id, viewport={"width": 390, "height": 844})

    def use(words, key=None, text="", back=False):
        tab_to(page, words, back)
        if key:
            page.keyboard.press(key)
        page.keyboard.type(text)

    use("Task", text="put the cup away")
    use("Success", text="yes")
    use("Tags, with semicolons between them", text="night; left")
    # A segment from the time shown: the player's, which is moved by keyboard, too.
    use("Add a segment from the time shown", "Enter", "reach for it")
    use("Time", "End", back=True)
    use("End here", "Enter")
    use("Add a segment from the time shown", "Enter", "gone")
    use("Remove", "Enter")
    assert page.evaluate("document.activeElement.name") == "start[]", "the focus is where it was"
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.evaluate(AXE)
        assert page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"] == []
    tab_to(page, "Save labels")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert page.url.endswith(f"/verify/{id}#labels")
    found = labels(captures, id)
    (segment,) = found.pop("segments")
    assert found == {"task": "put the cup away", "success": True, "tags": ["night", "left"]}
    assert segment["start"] == 0 and segment["end"] == pytest.approx(1, abs=0.1) and segment["text"] == "reach for it"
    captures.server.until(lambda: recorded(captures.server).get(id) == found | {"segments": [segment]})


def test_segments_stand_on_the_time_line(captures, view):
    id = captures.ids["partial"]
    put(captures.server, id, {"robot_id": 7, "segments": [{"start": 0, "end": 2, "text": "reach", "success": False}, {"start": 3, "end": 4.5, "text": HOSTILE}]})
    page = opened(captures, view, id)
    line, bars = page.locator("#player-segments"), page.locator("#player-segments span")
    assert bars.all_inner_texts() == ["reach", HOSTILE]
    whole, first, second = line.bounding_box(), bars.nth(0).bounding_box(), bars.nth(1).bounding_box()
    seconds = page.evaluate("document.getElementById('player-slider').max")
    for bar, start, end in ((first, 0, 2), (second, 3, 4.5)):
        assert bar["x"] - whole["x"] == pytest.approx(whole["width"] * start / float(seconds), abs=3)
        assert bar["width"] == pytest.approx(whole["width"] * (end - start) / float(seconds), abs=3)
    bars.nth(1).click()
    assert page.evaluate("document.getElementById('player-slider').value") == "3"
    assert line.locator("i").bounding_box()["x"] == pytest.approx(second["x"], abs=3)
    # Times that are typed or taken move the bar.
    seek(page, 1.5)
    page.locator("#segments li").nth(0).get_by_text("End here").click()
    assert page.locator("[name='end[]']").nth(0).input_value() == "1.5"
    assert bars.nth(0).bounding_box()["width"] == pytest.approx(whole["width"] * 1.5 / float(seconds), abs=3)
    page.locator("#segments li").nth(0).get_by_text("Show").click()
    assert page.evaluate("document.getElementById('player-slider').value") == "0"
    follow(page, "text=Save labels")
    assert labels(captures, id) == {
        "robot_id": 7, "segments": [{"start": 0, "end": 1.5, "text": "reach", "success": False}, {"start": 3, "end": 4.5, "text": HOSTILE}]}
    assert page.locator("dt:text-is('robot_id') + dd").inner_text() == "7", "labels of other names stay"
    # The tasks of others are proposed.
    put(captures.server, id, {"task": "fold"})
    page = opened(captures, view, captures.ids["complete"])
    assert "fold" in page.evaluate("[...document.querySelectorAll('#tasks option')].map(option => option.value)")


def test_without_javascript_and_with_mistakes(captures, view):
    id = captures.ids["session"]
    page = view.open(f"{captures.url}/verify/{id}", java_script_enabled=False)
    page.fill(TASK, "sort the screws")
    for name, value in (("start", "0.2"), ("end", "0.1"), ("text", "sort")):
        page.fill(f"[name='{name}[]']", value)
    follow(page, "text=Save labels")
    alert = page.locator("[role=alert]")
    assert "a segment starts at 0.2 s and ends at 0.1 s" in alert.inner_text() and labels(captures, id) == {}
    assert page.input_value(TASK) == "sort the screws" and page.locator("[name='text[]']").nth(0).input_value() == "sort", "what was typed stays"
    start, end, text = (page.locator(f"[name='{name}[]']").nth(0) for name in ("start", "end", "text"))
    start.fill("soon")
    follow(page, "text=Save labels")
    assert "segment 1: expected start and end in seconds, such as 1.5, and a text; found soon, 0.1 and sort" in alert.inner_text()
    start.fill("0")
    follow(page, "text=Save labels")
    assert labels(captures, id) == {"task": "sort the screws", "segments": [{"start": 0, "end": 0.1, "text": "sort"}]}
    assert page.locator("#segments li").count() == 2, "one more can be added"
    page.fill(TASK, "")
    for field in (start, end, text):
        field.fill("")
    follow(page, "text=Save labels")
    assert labels(captures, id) == {}
    view.said[:] = [text for text in view.said if "Failed to load resource" not in text]


def test_what_a_capture_says_of_itself_is_shown_and_can_be_taken_away(captures, view):
    own = {"task": "sort", "tags": ["phone"], "segments": [{"start": 0.5, "end": 1, "text": "first"}]}
    id = insert(captures.server, evidence=json.dumps({"labels": own, "takes": []}))
    page = view.open(f"{captures.url}/verify/{id}")
    assert (page.input_value(TASK), page.input_value(TAGS), page.input_value("[name='start[]'] >> nth=0")) == ("sort", "phone", "0.5")
    follow(page, "text=Save labels")
    assert labels(captures, id) == {}, "nothing was changed"
    page.fill(TASK, "")
    page.select_option(SUCCESS, "false")
    follow(page, "text=Save labels")
    assert labels(captures, id) == {"task": None, "success": False} and page.input_value(TASK) == ""
    page.fill(TASK, "sort")
    follow(page, "text=Save labels")
    assert labels(captures, id) == {"success": False}


def test_readers_see_them_and_guests_do_not(start, view):
    server = start("--takeset", TAKESET, "--require-key", conversions=0)
    keys = {power: add_key(server, "--power", power) for power in ("read", "all")}
    id = insert(server, labels=json.dumps({"task": HOSTILE, "success": False, "tags": ["a", "b"], "segments": [{"start": 0.5, "end": 1, "text": "unscrew"}]}))
    insert_file(server, id, "video.mp4", b"abc")
    page = view.open(f"{server.url}/verify/{id}", http_credentials={"username": "x", "password": keys["read"]})
    shown = dict(zip(page.locator("#labels + dl dt").all_inner_texts(), page.locator("#labels + dl dd").all_inner_texts(), strict=True))
    assert shown == {"task": HOSTILE, "success": "no", "tags": "a; b", "0.5 to 1 s": "unscrew"} and page.locator("form.labels").count() == 0
    link = server.post(f"/api/v1/captures/{id}/link", headers={"Authorization": f"Bearer {keys['all']}"}).json()["data"]["url"]
    page = view.open(server.url + "/shown/" + link.rsplit("/", 1)[1])
    assert page.locator("#labels").count() == 0 and "unscrew" not in page.content()
    refused = server.post(f"/captures/{id}/labels", data={"task": "x", "success": "", "tags": ""}, headers={"Authorization": f"Bearer {keys['read']}"})
    assert refused.status_code == 403 and rows(server, "SELECT labelsRevision FROM capture") == [(0,)]


@pytest.mark.parametrize("body", ["", "task=a", "task=a&success=perhaps&tags=", "task=a&success=&tags=&start[]=1&end[]=2&text[]=x", "task=a&success=&tags=&start[]=1&end[]=&text[]=x&outcome[]="])
def test_forms_that_are_not_understood(captures, body):
    id = captures.ids["processing"]
    answer = captures.server.post(f"/captures/{id}/labels", data=body, headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert answer.status_code == 400 and labels(captures, id) == {}


def test_two_people_do_not_replace_each_others_labels(captures, view):
    id = captures.ids["complete"]
    put(captures.server, id, {"task": "first"})
    page = opened(captures, view, id)
    put(captures.server, id, {"task": "theirs", "tags": ["theirs"]})
    page.fill(TASK, "mine")
    page.click("text=Save labels")
    assert "somebody else has changed the labels" in page.locator("[role=alert]").inner_text() and page.input_value(TASK) == "mine"
    assert labels(captures, id) == {"task": "theirs", "tags": ["theirs"]}
    with page.expect_popup() as theirs:
        page.click("text=See theirs")
    assert theirs.value.input_value(TASK) == "theirs"
    with page.expect_navigation():
        page.click("text=Save labels")
    assert labels(captures, id)["task"] == "mine" and page.locator("[role=alert]").count() == 0
    assert len(view.said) == 1 and "412" in view.said[0]
    view.said.clear()


def test_the_list_shows_what_is_labelled(captures, view):
    id, other = captures.ids["complete"], captures.ids["partial"]
    put(captures.server, id, {"task": HOSTILE, "success": False})
    put(captures.server, other, {})
    page = view.open(f"{captures.url}/?labels=yes")
    row = page.locator("tbody tr", has=page.locator(f"a[href='/verify/{id}']"))
    assert HOSTILE in row.inner_text() and "failure" in row.inner_text() and page.locator(f"a[href='/verify/{other}']").count() == 0
    page.select_option("[name=labels]", "no")
    with page.expect_navigation():
        page.click("text=Show >> nth=0")
    assert "labels=no" in page.url and page.locator(f"a[href='/verify/{id}']").count() == 0 and page.locator(f"a[href='/verify/{other}']").count() == 1
    for choice, wanted in [("yes", True), ("no", False)]:
        found = [one["capture_id"] for one in captures.server.get(f"/api/v1/captures?labels={choice}").json()["data"]]
        assert (id in found, other in found) == (wanted, not wanted)
