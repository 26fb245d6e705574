"""The page of the server, and what stands above every page: which server it is, what the key is for, and that something has failed."""

import re
import socket

import pytest
from pages import browser, insert, view  # noqa: F401 (fixtures)
from phone import rows
from test_keys import add, bearer


def projects(text):
    """The cells of each row of the table."""
    found = re.findall(r"<tr>\n(<td.*?)</tr>", text, re.DOTALL)
    return [[re.sub("<[^>]*>", "", cell) for cell in re.findall("<td[^>]*>(.*?)</td>", row, re.DOTALL)] for row in found]


def facts(text):
    return {name: re.sub("<[^>]*>", "", value) for name, value in re.findall("<dt>([^<]*)</dt><dd>(.*?)</dd>", text)}


@pytest.fixture
def filled(start, tmp_path):
    server = start("--require-key", "--project-quota", 10_000_000, "--standby", tmp_path / "standby")
    for project, sizes in {"kitchen": [9_000_000, 500_000], "lab": [2_000_000]}.items():
        for size in sizes:
            insert(server, project=project, bytes=size)
    insert(server, project="lab", bytes=77_000_000, isStranger=1)
    rows(server, "INSERT INTO upload (id, length, offset, metadata, project, createdAt, expiresAt) VALUES ('u', 400000, 0, '', 'kitchen', 0, 1)")
    return server


def test_an_operator_sees_room_standby_and_what_is_used_of_each_quota(filled):
    answer = filled.get("/server", headers=bearer(add(filled.data, "--power", "monitor")))
    assert answer.status_code == 200
    assert projects(answer.text) == [["kitchen", "2", "9.9 MB", "10.0 MB", "99 %"], ["lab", "1", "2.0 MB", "10.0 MB", "20 %"]]
    found = facts(answer.text)
    assert re.fullmatch(r"enough [0-9.]+ [A-Za-z]+ free; nothing is accepted below 0 bytes", found["room"])
    assert re.fullmatch("up to date [0-9.]+ s since its copy was whole", found["standby"])
    filled.options += ["--reserve", 1 << 60, "--policy", "strict"]
    filled.restart()
    found = facts(filled.get("/server", headers=bearer(add(filled.data, "--power", "monitor"))).text)
    assert found["room"].startswith("nothing is accepted ") and "room for strangers" not in found


def test_a_projects_key_sees_its_project_alone(filled):
    for power in "all", "read":
        answer = filled.get("/server", headers=bearer(add(filled.data, "--project", "lab", "--power", power)))
        assert projects(answer.text) == [["lab", "1", "2.0 MB", "10.0 MB", "20 %"]] and facts(answer.text) == {}
    for power in "upload", "work":
        assert filled.get("/server", headers=bearer(add(filled.data, "--power", power))).status_code == 403


def test_where_the_reader_is(start, view):
    server = start("--base-url", "https://captures.example.org", "--require-key=false")
    page = view.open(server.url)
    assert page.locator("header .where").inner_text().split("\n") == ["Takeset captures.example.org", "all projects"]
    key = add(server.data, "--name", "laptop", "--project", "lab", "--power", "read")
    other = start()
    assert f"<strong>Takeset <bdi>{socket.gethostname()}</bdi></strong>" in other.get("/live").text
    shown = re.search(r'<div class="where">(.*?)</div>', server.get("/jobs", headers=bearer(key)).text)[1]
    assert re.sub("<[^>]*>", "", shown) == "Takeset captures.example.orgproject lab; key laptop for reading"


def test_strangers_learn_nothing_of_the_server(start):
    server = start("--require-key")
    insert(server, status="failed")
    for path in "/", "/live", "/nowhere":
        text = server.get(path, headers={"Accept": "text/html"}).text
        assert '<div class="where"><strong>Takeset</strong></div>' in text and "1 failed" not in text, path
    # What needs no key says no more to those who have none.
    refused = server.post("/api/v1/devices/register", headers={"Accept": "text/html"}, data=b"{}").text
    assert "<strong>Takeset</strong>" in refused and "1 failed" not in refused and "all projects" not in refused


def test_what_has_failed_is_marked_for_those_who_may_see_it(start):
    server = start("--require-key")
    key, other = (bearer(add(server.data, "--project", project)) for project in ("lab", "kitchen"))

    def marked(key):
        return [re.findall(r'<a href="/jobs"[^>]*>Jobs <span class="mark">([^<]*)', server.get(path, headers=key).text) for path in ("/", "/live", "/jobs", "/verify/x")]

    assert marked(key) == [[]] * 4
    for count, words in (1, "1 failed"), (98, "99 failed"), (1, "100 or more failed"):
        for _ in range(count):
            insert(server, status="failed", project="lab")
        assert marked(key) == [[words]] * 4
    assert marked(other) == [[]] * 4
