"""The list of captures and its filters, the jobs, and what buttons do: convert again, delete, download."""

import io
import re
import tarfile
import time
from urllib.parse import parse_qs, urlsplit

import pytest
from conftest import TAKESET, Server
from pages import HOSTILE, browser, follow, insert, insert_file, view  # noqa: F401 (fixtures)
from phone import rows
from queued import bundle, finished, queue
from test_keys import add, bearer

DAY = 86_400_000
START = 1_767_225_600_000  # 2026-01-01 00:00 UTC


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """Forty captures, one a day from 1 January, the first at the very start of its day and the last at its very end. Their server and ids."""
    server = Server(tmp_path_factory.mktemp("filled") / "data").start()
    device = "550e8400-e29b-41d4-a716-446655440000"
    ids = []
    for number in range(40):
        ids.append(insert(
            server, name=f"pour-{number:02}", receivedAt=START + number * DAY + (DAY - 1 if number == 39 else 0), bytes=1000 * number,
            type="movie" if number % 4 == 0 else "video", status="rejected" if number % 5 == 0 else "complete",
            badge=[None, "complete", "partial", "none"][number % 4], seconds=number * 1.5, device=device if number in (3, 7) else None))
    yield server, ids
    server.kill()


def listed(page):
    return page.locator("tbody a[href^='/verify/']").all_inner_texts()


def names(*numbers):
    return [f"pour-{number:02}" for number in numbers]


@pytest.mark.parametrize("query, expected", [
    ("", range(39, -1, -1)), ("q=POUR-1", range(19, 9, -1)), ("q=nothing", []), ("verified=partial", range(38, 0, -4)), ("verified=none", range(39, 0, -4)),
    ("from=2026-02-01", range(39, 30, -1)), ("to=2026-01-03", [2, 1, 0]), ("from=2026-01-05&to=2026-01-05", [4]), ("from=2026-02-09&to=2026-02-09", [39]),
    ("device=550E8400-e29b-41d4-a716-446655440000", [7, 3]), ("q=550e8400", [7, 3]), ("type=movie&status=rejected", [20, 0]),
    ("verified=complete&q=pour-3&to=2026-02-05", [33]), ("project=other", []),
])
def test_filters(filled, query, expected):
    """The page and the API show the same."""
    server, _ = filled
    text = server.get(f"/?{query}").text
    assert re.findall(r'href="/verify/[^"]*" title="[^"]*"><bdi>([^<]*)', text) == names(*expected)
    assert [c["name"] for c in server.get(f"/api/v1/captures?{query}").json()["data"]] == names(*expected)
    if not [*expected]:
        assert "No capture is like that" in text and "Show all" in text


def test_an_id_is_found_by_its_start(filled):
    server, ids = filled
    (text,) = re.findall(r'href="/verify/([^"]*)"', server.get(f"/?q={ids[5][:8].upper()}").text)
    assert text == ids[5]


def test_letters_of_any_alphabet_are_found(common):
    insert(common, name="\u00dcbung 7")
    for text in "\u00dcBUNG", "\u00fcbung", "bung":
        assert "\u00dcbung 7" in common.get("/", params={"q": text}).text, text


@pytest.mark.parametrize("query", ["from=yesterday", "to=2026-13-01", "verified=maybe", "newer=x", "from=2026-1-1", "limit=0", "labels=maybe", "from=2026-01-31T00:00:00Z"])
def test_filters_that_make_no_sense_are_said(common, query):
    answer = common.get(f"/?{query}", headers={"Accept": "text/html"})
    assert answer.status_code == 400 and "<nav" in answer.text
    if not query.startswith("newer"):
        assert common.get(f"/api/v1/captures?{query}").status_code == 400


def test_pages_lead_to_older_and_back_to_newer_ones(filled, view):
    server, _ = filled
    page = view.open(f"{server.url}/?limit=15&verified=")
    assert page.locator("main > p").first.inner_text() == "32 complete, 8 rejected"
    pages = [listed(page)]
    while page.locator("a[rel=next]").count():
        follow(page, "a[rel=next]")
        pages.append(listed(page))
    assert pages == [names(*range(39, 24, -1)), names(*range(24, 9, -1)), names(*range(9, -1, -1))]
    back = [listed(page)]
    while page.locator("a[rel=prev]").count():
        follow(page, "a[rel=prev]")
        back.append(listed(page))
    assert back == pages[::-1]
    assert parse_qs(urlsplit(page.url).query)["limit"] == ["15"]


def test_links_keep_the_filters(filled, view):
    server, _ = filled
    page = view.open(f"{server.url}/?q=pour&from=2026-01-02&verified=complete&limit=3")
    follow(page, "a[rel=next]")
    assert listed(page) == names(25, 21, 17)
    assert page.locator("input[name=q]").input_value() == "pour" and page.locator("input[name=from]").input_value() == "2026-01-02"
    page.fill("input[name=q]", "pour-0")
    follow(page, "button:text('Show')")
    assert listed(page) == names(9, 5, 1)
    follow(page, "text=Show all")
    assert page.url == f"{server.url}/" and len(listed(page)) == 40


def test_a_row_says_what_a_capture_is(filled, view):
    server, _ = filled
    page = view.open(f"{server.url}/?q=pour-03")
    heads = page.locator("thead th").all_inner_texts()
    cells = dict(zip(heads, page.locator("tbody td").all_inner_texts(), strict=True))
    assert cells["Verification"] == "not verified" and cells["Duration"] == "4.5 s" and cells["Device"] == "550e8400"
    assert cells["Status"] == "complete" and cells["Received"] == "2026-01-04 00:00:00 UTC" and cells["Size"] == "3.0 kB"
    follow(page, "tbody a[href^='/?device=']")
    assert listed(page) == names(7, 3)


def test_made_up_names_are_said_in_words(server):
    """What a person named keeps its name; where there is no image, there is a place of its size."""
    rows(server, "INSERT INTO device VALUES ('d', 'k', 'simulated', 'script', 1, 'unverified', NULL, 'default', 0)")
    at = START - DAY + 1000 * (18 * 3600 + 20 * 60 + 59)
    for name, values in {
        "video_1795803633388": {"device": "d", "seconds": 4.0}, "video_1795803633388_0d1e2f3a.mov": {"type": "movie"}, "pour_1795803633388": {}, "video_1": {},
    }.items():
        insert(server, name=name, receivedAt=at, **{"status": "rejected", **values})
        at += 1000
    capture = insert(server, name="stream_1795803633", type="stream", receivedAt=at, seconds=75.0, status="processing")
    text = server.get("/").text
    assert re.findall(r'href="/verify/[^"]*" title="[^"]*"><bdi>([^<]*)', text) == [
        "31 Dec 2025 18:21, 75.0 s, stream", "video_1", "pour_1795803633388", "31 Dec 2025 18:21, movie", "31 Dec 2025 18:20, 4.0 s, simulated"]
    assert f'href="/verify/{capture}" title="{capture}"' in text
    assert re.findall(r'class="nothing">([^<]*)', text) == ["waiting"] + ["no image"] * 4
    page = server.get(f"/verify/{capture}").text
    assert "<h1>31 Dec 2025 18:21, 75.0 s, stream</h1>" in page and "<dt>name</dt><dd>stream_1795803633</dd>" in page


def test_verifications_of_captures_from_before_are_listed(start):
    """The column is filled from what was known when the server is upgraded."""
    server = start()
    evidence = '{"partial":{"verified_seconds":5,"recorded_seconds":6,"state":"partial"},"assertion":{"state":"verified","covers":"checkpoint"}}'
    capture, other = insert(server, evidence=evidence), insert(server, evidence="{}")
    server.stop()
    for statement in (
        "DROP INDEX captureByTime", "DROP INDEX captureByProject", "CREATE INDEX captureByTime ON capture(receivedAt)",
        "CREATE INDEX captureByProject ON capture(project)", "ALTER TABLE capture DROP COLUMN seconds", "ALTER TABLE capture DROP COLUMN badge",
        "ALTER TABLE conversion DROP COLUMN startedAt", "DELETE FROM grdb_migrations WHERE identifier = 'listing'",
    ):
        rows(server, statement)
    server.start()
    assert dict(rows(server, "SELECT id, badge FROM capture")) == {capture: "partial", other: None}


# Buttons


@pytest.fixture
def failed(start, tmp_path):
    """A server whose converter fails, and a capture that it has given up."""
    command = tmp_path / "takeset"
    command.write_text("#!/bin/sh\necho 'no luck at /secret/place' >&2\nexit 70\n")
    command.chmod(0o755)
    server = start("--takeset", command, "--conversion-attempts", 1, conversions=1)
    capture = queue(server.data, "video", bundle(tmp_path / "b"))
    finished(server, capture)
    return server, capture, command


def test_a_failed_capture_is_converted_again(failed, view):
    server, capture, command = failed
    page = view.open(f"{server.url}/jobs")
    assert page.locator("p.soft").inner_text() == "0 running, 0 waiting, 1 failed"
    cells = page.locator("tbody td").all_inner_texts()
    assert cells[1] == "failed" and cells[3] == "1" and "no luck" in cells[4]
    follow(page, "tbody a")
    assert "The fault is the server's" in page.locator("main").inner_text()
    command.write_text(f'#!/bin/sh\nexec {TAKESET} "$@"\n')
    follow(page, "text=Convert again")
    assert page.url == f"{server.url}/verify/{capture}"
    finished(server, capture)
    page.reload()
    assert page.locator(".badge").first.inner_text() == "complete" and page.locator("text=The fault is").count() == 0


def test_a_failed_capture_is_converted_again_from_the_jobs(failed, view):
    server, capture, command = failed
    page = view.open(f"{server.url}/jobs")
    command.write_text(f'#!/bin/sh\nexec {TAKESET} "$@"\n')
    follow(page, "button:text('Convert again')")
    assert page.url == f"{server.url}/verify/{capture}"
    finished(server, capture)
    assert "Nothing waits" in view.open(f"{server.url}/jobs").locator("main").inner_text()


def test_a_capture_is_deleted_after_a_second_look(failed, view):
    server, capture, _ = failed
    page = view.open(f"{server.url}/verify/{capture}")
    button = page.locator("button:text('Delete for good')")
    assert button.is_hidden()
    page.click("summary:text('Delete')")
    with page.expect_navigation():
        button.click()
    assert page.url == f"{server.url}/" and page.locator("tbody").count() == 0
    assert server.get(f"/api/v1/captures/{capture}").status_code == 404
    assert not (server.data / "captures" / capture).exists()


def test_buttons_are_for_those_who_may_change_something(failed):
    server, capture, _ = failed
    server.stop()
    keys = {power: add(server.data, "--power", power) for power in ("all", "read", "upload")}
    foreign = add(server.data, "--project", "other")
    server.start()
    pages = {power: server.get(f"/verify/{capture}", headers=bearer(keys[power])) for power in ("all", "read")}
    assert "Delete for good" in pages["all"].text and "Delete for good" not in pages["read"].text and "Convert again" not in pages["read"].text
    # What went wrong names files of the machine.
    assert "no luck" in server.get("/jobs", headers=bearer(keys["all"])).text
    assert "no luck" not in server.get("/jobs", headers=bearer(keys["read"])).text
    assert all(("Convert again" in server.get("/jobs", headers=bearer(keys[power])).text) == (power == "all") for power in ("all", "read"))
    for name in "convert", "delete":
        for key, status in (keys["read"], 403), (keys["upload"], 403), (foreign, 404):
            assert server.post(f"/captures/{capture}/{name}", headers=bearer(key), allow_redirects=False).status_code == status
        for headers in {"Origin": "http://evil.example"}, {"Origin": "null"}:
            assert server.post(f"/captures/{capture}/{name}", headers=headers, allow_redirects=False).status_code == 403
    assert capture not in server.get("/jobs", headers=bearer(foreign)).text
    assert server.get(f"/captures/{capture}/download", headers=bearer(foreign)).status_code == 404
    assert server.get(f"/api/v1/captures/{capture}").status_code == 200


def test_a_page_has_a_thousand_rows_at_most(server):
    assert server.get("/?limit=1000").status_code == 200 and server.get("/?limit=1001").status_code == 400
    assert server.get("/api/v1/captures?limit=10000").status_code == 200 and server.get("/api/v1/captures?limit=10001").status_code == 400


def test_jobs_that_run_and_wait(server):
    now = int(time.time() * 1000)
    for name, state, before, started in ("a", "running", 0, now - 65_000), ("b", "waiting", 0, None), ("c", "waiting", now + 120_000, None), (HOSTILE, "waiting", 0, None):
        capture = insert(server, status="processing", name=name)
        rows(server, "INSERT INTO conversion (capture, state, attempts, notBefore, startedAt, lastError) VALUES (?, ?, 2, ?, ?, ?)", capture, state, before, started, HOSTILE)
    for _ in range(50):
        now = int(time.time() * 1000)
        rows(server, "UPDATE conversion SET startedAt = ? WHERE state = 'running'", now - 65_000)
        rows(server, "UPDATE conversion SET notBefore = ? WHERE notBefore > 0", now + 120_000)
        text = server.get("/jobs").text
        if time.time() * 1000 - now < 4000:
            break  # otherwise this machine was late itself: once more
    assert "1 running, 3 waiting, 0 failed" in text and "This server converts nothing" in text
    assert re.search("for 6[5-9].0 s", text) and re.search("tried again in 1 min 5[0-9] s|tried again in 2 min 0 s", text)
    assert HOSTILE not in text


# Downloads


def test_a_whole_capture_is_downloaded(server):
    capture = insert(server, type="session")
    long = "session/" + "x" * 120 + "/rgb/000000.jpg"
    files = {"metadata.json": b"{}", long: b"a" * 512, "session/empty": b"", "session/ü.bin": bytes(range(256)) * 5000}
    for name, data in files.items():
        insert_file(server, capture, name, data)
    answer = server.get(f"/captures/{capture}/download")
    assert answer.headers["Content-Type"] == "application/x-tar" and int(answer.headers["Content-Length"]) == len(answer.content)
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{capture}.tar"'
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as tar:
        assert {member.name: tar.extractfile(member).read() for member in tar} == {f"{capture}/{name}": data for name, data in files.items()}
    assert f'href="/captures/{capture}/download"' in server.get(f"/verify/{capture}").text
    empty = insert(server)
    assert server.get(f"/captures/{empty}/download").status_code == 404


def test_a_file_of_more_than_eight_gibibytes_is_downloaded(server):
    capture, size = insert(server), (1 << 33) + 5
    insert_file(server, capture, "video.mp4", b"")
    rows(server, "UPDATE file SET bytes = ? WHERE capture = ?", size, capture)
    with open(server.data / "captures" / capture / "video.mp4", "wb") as file:
        file.truncate(size)
    answer = server.get(f"/captures/{capture}/download", stream=True)
    head = answer.raw.read(4096)
    answer.close()
    with tarfile.open(fileobj=io.BytesIO(head), mode="r|", ignore_zeros=False) as tar:
        member = tar.next()
    assert (member.name, member.size) == (f"{capture}/video.mp4", size)
    assert int(answer.headers["Content-Length"]) == 512 * 3 + size + (-size % 512) + 1024
