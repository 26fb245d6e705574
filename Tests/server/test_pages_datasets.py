"""Datasets and their reports, and what a key of a project lets a reader see."""

import io
import os
import re
import subprocess
import tarfile
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import TAKESET
from pages import browser, follow, view, insert, insert_dataset, insert_file
from phone import Phone
from queued import delete, episodes, finished, merged, queue, script
from test_conversion import movie
from test_keys import add, bearer

REPORTER = """#!/bin/sh
echo "$2" >> {folder}/runs
while [ ! -e {folder}/go ]; do sleep 0.02; done
[ -e {folder}/fail ] && exit 1
echo "<p>report $(wc -l < {folder}/runs)</p>" > "$4"
"""


@pytest.fixture
def reporter(start, tmp_path):
    """A server with a dataset and a converter that waits for a file `go`. The folder of that file, the server and the dataset."""
    server = start("--takeset", script(tmp_path / "reporter", REPORTER.format(folder=tmp_path)))
    return tmp_path, server, insert_dataset(server, "default", insert(server, rows=12), insert(server, rows=30))


def runs(folder):
    return len((folder / "runs").read_text().splitlines()) if (folder / "runs").exists() else 0


def report(server, name="default", **options):
    """The answer once the report is made; who waits for some seconds is told to ask again."""
    # An answer of 503 counts as false by itself.
    return server.until(lambda: (answer := server.get(f"/datasets/{name}/report", **options)).status_code != 202 and [answer])[0]


def test_one_report_is_made_for_all_who_ask(reporter):
    folder, server, dataset = reporter
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(report, server) for _ in range(8)]
        server.until(lambda: runs(folder) == 1)
        (folder / "go").touch()
        answers = [answer.result() for answer in asked]
    assert [answer.status_code for answer in answers] == [200] * 8 and {answer.text for answer in answers} == {"<p>report 1</p>\n"}
    assert (folder / "runs").read_text() == f"{dataset}\n"
    assert report(server).text == "<p>report 1</p>\n"
    policy = answers[0].headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and policy.endswith("sandbox allow-scripts")
    assert report(server).headers["X-Content-Type-Options"] == "nosniff"


def test_a_report_is_made_again_when_the_dataset_changes(reporter):
    folder, server, dataset = reporter
    # Who waits long is told.
    answer = server.get("/datasets/default/report")
    assert answer.status_code == 202 and "The report is being made. <a href=\"\">Look again</a>" in answer.text
    assert runs(folder) == 1
    (folder / "go").touch()
    assert report(server).text == "<p>report 1</p>\n"
    for number, time in enumerate((2_000_000_000, 1_000_000_000), 2):
        # Also an older one, as from a backup, is another dataset.
        os.utime(dataset / "manifest.json", (time, time))
        assert report(server).text == f"<p>report {number}</p>\n"
    server.restart()
    assert report(server).text == "<p>report 3</p>\n"


def test_a_report_that_fails_is_not_tried_at_every_request(reporter):
    folder, server, dataset = reporter
    for name in ("go", "fail"):
        (folder / name).touch()
    for _ in range(3):
        answer = report(server)
        assert answer.status_code == 503 and answer.headers["Retry-After"] == "60" and "could not be made" in answer.text
    assert runs(folder) == 1 and str(folder) not in answer.text
    (folder / "fail").unlink()
    os.utime(dataset / "manifest.json", (1, 1))
    assert report(server).text == "<p>report 2</p>\n"


def test_the_list_of_datasets(reporter):
    _, server, dataset = reporter
    (dataset / "dataset.h5").write_bytes(b"x" * 2_345_998)
    os.utime(dataset / "manifest.json", (1_764_239_420,) * 2)
    insert_dataset(server, "kitchen", insert(server, project="kitchen", rows=8), at=2)
    insert_dataset(server, "kitchen.0123456789ab", insert(server, project="kitchen", rows=7), pipeline="0123456789ab" + "1" * 52)
    text = server.get("/datasets").text
    cells = [re.sub("<.*?>", "", cell) for cell in re.findall(r"<td.*?</td>", text)]
    assert cells[:6] == ["default", "default", "2", "2", "42", "2.3 MB"]
    assert cells[7:14] == ["Report of default", "Download default", "kitchen", "kitchen", "1", "1", "8"]
    assert cells[16:23] == ["Report of kitchen", "Download kitchen", "kitchen.0123456789ab", "kitchen", "1", "1", "7"]
    assert cells[6] == "2025-11-27 10:30:20 UTC"
    assert 'href="/datasets/kitchen.0123456789ab/report"' in text
    # Its captures are those that it holds, not all of its project.
    assert 'href="/?dataset=kitchen.0123456789ab"' in text
    listed = server.get("/?dataset=kitchen.0123456789ab").text
    assert listed.count("<tr>") == 2 and "Only captures of the dataset <bdi>kitchen.0123456789ab</bdi>." in listed
    assert len(server.get("/api/v1/captures?dataset=kitchen.0123456789ab").json()["data"]) == 1
    assert server.get("/api/v1/captures?dataset=nothing").json()["data"] == []
    for name in ("..", "%2e%2e", "nothing", "..%2fcaptures"):
        assert server.get(f"/datasets/{name}/report").status_code == 404
        assert server.get(f"/datasets/{name}/download").status_code == 404


def test_a_dataset_is_downloaded_as_it_is_at_one_moment(start, tmp_path):
    """Also while it is replaced again and again; what was linked for it is gone afterwards, and after a reader who leaves."""
    server = start("--takeset", TAKESET, conversions=1)
    first = queue(server.data, "movie", {"video_1771446000.mov": movie(tmp_path / "first", "--seed", 50)})
    finished(server, first)
    merged(server, "video_1771446000")
    server.until(lambda: server.get("/datasets/default/download").ok)
    sizes = set()
    for number in range(3):
        before = len(episodes(server))
        queue(server.data, "movie", {f"video_177144610{number}.mov": movie(tmp_path / f"m{number}", "--seed", number)})
        with server.get("/datasets/default/download", stream=True) as answer:
            assert answer.headers["Content-Disposition"] == 'attachment; filename="default.tar"'
            pieces = answer.iter_content(1 << 16)
            body = next(pieces)
            server.until(lambda: len(episodes(server)) > before)  # another one takes its place
            body += b"".join(pieces)
        assert len(body) == int(answer.headers["Content-Length"])
        folder = tmp_path / f"unpacked{number}"
        with tarfile.open(fileobj=io.BytesIO(body)) as archive:
            archive.extractall(folder, filter="data")
        done = subprocess.run([TAKESET, "verify", folder / "default"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        sizes.add(len(body))
        server.until(lambda: server.get("/api/v1/captures?status=processing").json()["data"] == [])
    with server.get("/datasets/default/download", stream=True) as answer:
        next(answer.iter_content(1000))
    server.until(lambda: not list((server.data / "conversions/.work").glob("*")))


def test_the_converters_report_works_in_its_sandbox(start, view, tmp_path):
    server = start("--takeset", TAKESET, conversions=1)
    films = [queue(server.data, "movie", {f"video_177144600{seed}.mov": movie(tmp_path / f"m{seed}", "--seed", seed)}) for seed in (1, 2)]
    assert [found["status"] for found in finished(server, *films)] == ["complete"] * 2
    merged(server, "video_1771446001", "video_1771446002")
    page = view.open(f"{server.url}/datasets")
    page.click("text=Report of default")
    page.wait_for_selector("#rows > tr.take")
    assert sorted(page.locator("#rows > tr.take .toggle").all_inner_texts()) == ["video_1771446001", "video_1771446002"]
    page.fill("#q", "1771446002")
    assert page.locator("#rows > tr.take").count() == 1
    page.click("#open-all")
    page.wait_for_function("document.images.length > 0 && [...document.images].every((image) => image.naturalWidth > 0)")
    assert page.evaluate("self.origin") == "null"
    page.screenshot(path=tmp_path / "report.png")
    # Nothing of a deleted capture stays.
    kept = server.data / "reports/default.html"
    assert "video_1771446001" in kept.read_text()
    delete(server.data, films[0])
    merged(server, "video_1771446002")
    server.until(lambda: not kept.exists())
    assert "video_1771446001" not in report(server).text


class TestKeys:
    @pytest.fixture
    def projects(self, start, tmp_path):
        """A server with two projects. Their keys and captures."""
        server = start("--require-key", "--takeset", script(tmp_path / "reporter", "#!/bin/sh\necho report > \"$4\"\n"))
        found = {}
        for number, project in enumerate(("kitchen", "garage"), 1):
            capture = insert(server, project=project, name=f"take of the {project}", rows=5)
            insert_file(server, capture, "video.mp4", project.encode())
            images = server.data / "conversions" / capture
            images.mkdir()
            (images / "thumbnail.jpg").write_bytes(b"image of the " + project.encode())
            insert_dataset(server, project, capture)
            phone = Phone(server, number, project=project)
            found[project] = add(server.data, "--name", f"reader of the {project}", "--project", project), capture, phone.id.lower()
        return server, found

    def test_a_key_shows_only_its_project(self, projects):
        server, found = projects
        for own, other in (("kitchen", "garage"), ("garage", "kitchen")):
            key, capture, device = found[own]
            _, foreign, stranger = found[other]
            for path in ("/", "/datasets", "/devices"):
                text = server.get(path, headers=bearer(key)).text
                assert own in text and other not in text, path
            assert device in text and stranger not in text
            assert "1 complete" in server.get("/", headers=bearer(key)).text
            assert own in server.get(f"/verify/{capture}", headers=bearer(key)).text
            assert server.get(f"/captures/{capture}/files/video.mp4", headers=bearer(key)).text == own
            assert server.get(f"/captures/{capture}/thumbnail.jpg", headers=bearer(key)).text == f"image of the {own}"
            assert report(server, own, headers=bearer(key)).text == "report\n"
            for path in (f"/verify/{foreign}", f"/captures/{foreign}/files/video.mp4", f"/captures/{foreign}/thumbnail.jpg", f"/datasets/{other}/report"):
                answer = server.get(path, headers=bearer(key))
                assert answer.status_code == 404 and other not in answer.text, path


    def test_a_browser_asks_for_the_key(self, projects, view):
        server, found = projects
        key, capture, _ = found["kitchen"]
        page = view.open(server.url, http_credentials={"username": "anybody", "password": key})
        follow(page, "tbody a")
        assert page.url == f"{server.url}/verify/{capture}" and page.locator("h1").inner_text() == "take of the kitchen"
        follow(page, "nav a:text-is('Live')")
        assert page.locator("h1").first.inner_text() == "Live view"
