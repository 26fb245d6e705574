"""`takeset report`: hostile texts, the size of the page, existing files, damaged files, runs that go on."""

import json
import os
import shutil
import signal
import subprocess

import h5py
import pytest
from command import BINARY, measured
from outputs import manifest
from report_pages import Page, dataset, multiplied, page, polylines, report  # noqa: F401 (fixtures)
from sealing import rewrite, seal
from system import stopped


@pytest.fixture
def copy(dataset, tmp_path):
    return shutil.copytree(dataset, tmp_path / "copy")


TRAPS = [
    "</script><script>alert(1)</script>", "<!--<script>", "\"><b id=x>", "'--></title>", "&lt;b&gt;", "]]>", "\u2028\u2029", "a\tb\x01\x7f",
]
# Ids are names that files can have; others are refused where the manifest is read.
PLAIN = [trap for trap in TRAPS if "/" not in trap and trap.isprintable() or "\u2028" in trap]


def on_one_line(value):
    """The texts of a record, as Takeset reads them: what could begin a line or move a cursor is escaped."""
    if isinstance(value, str):
        return "".join(f"\\u{ord(c):04X}" if ord(c) < 0x20 or c in "\x7f\u2028\u2029" else c for c in value)
    return {key: on_one_line(item) for key, item in value.items()} if isinstance(value, dict) else value


def test_no_text_of_a_dataset_becomes_markup(takeset, copy, tmp_path):
    def change(record):
        for number, take in enumerate(t for t in record["takes"] if t["outcome"] == "written"):
            trap = TRAPS[number % len(TRAPS)]
            take["id"] = PLAIN[number % len(PLAIN)] + str(number)
            with h5py.File(copy / take["output"]["path"], "r+") as shard:
                shard["data/demo_0"].attrs["take_id"] = take["id"]
            take["reader"] = take["variant"] = take["reason"] = trap
            take["findings"].append({"code": "pose-jump", "severity": "warning", "message": trap, "file": trap, "field": trap})
        for number, take in enumerate(t for t in record["takes"] if t["outcome"] != "written"):
            take["id"], take["reason"] = PLAIN[number] + "x", "min-frames: " + " ".join(TRAPS)
        record["findings"] = [{"code": "mixed-units", "severity": "warning", "message": " ".join(TRAPS)}]
        record["splits"]["rule"] = " ".join(TRAPS)
        record["tool"]["revision"] = TRAPS[0]

    rewrite(copy, change)
    seal(copy)
    page, _ = report(takeset, copy, tmp_path / "r.html", "--title", TRAPS[0] + TRAPS[3])
    records = manifest(copy)["record"]["takes"]
    assert set(page.rows) == {t["id"] for t in records}
    for take in records:
        findings = [on_one_line(finding) | {"file": finding["file"]} if "file" in finding else on_one_line(finding) for finding in take["findings"]]
        reason = take["reason"] and on_one_line(take["reason"])
        assert page.details(take["id"])["findings"] == findings and page.rows[take["id"]].get("reason") == reason
    assert page.tree.one("h1").text == TRAPS[0] + TRAPS[3]
    assert len([s for s in page.tree.all("script") if "type" not in s.attributes]) == 1 and not list(page.tree.all(id="x"))
    assert page.html.count("<script") == len(records) + 2 and "<!--" not in page.html and "alert(1)</script" not in page.html


def test_the_same_dataset_gives_the_same_bytes(takeset, page, dataset, copy, tmp_path):
    for number, arguments in enumerate((["--jobs", 1], ["--jobs", 3])):
        other, _ = report(takeset, copy, tmp_path / f"{number}.html", *arguments)
        assert other.bytes == page.bytes
    assert str(dataset.parent) not in page.html


def test_the_table_is_printed_as_json(takeset, page, dataset):
    printed = json.loads(takeset("report", dataset, "--json", check=0).stdout)
    rows = []
    for row, values in zip(page.data["rows"], page.data["measured"], strict=True):
        measures = {name: value for name, value in zip(page.data["measures"], values) if value is not None}
        rows.append(row | ({"measures": measures} if measures else {}))
    assert printed["takes"] == rows and printed["record_sha256"] == manifest(dataset)["record_sha256"]


def test_watching_prints_no_json(takeset, dataset, tmp_path):
    assert "--watch writes pages only" in takeset("report", dataset, "--json", "--watch", "--output", tmp_path / "r.html", check=64).stderr


@pytest.mark.slow
def test_a_manifest_needs_little_more_memory_than_its_own_size(dataset, tmp_path):
    """Of takes with thousands of inputs each."""
    many = multiplied(dataset, tmp_path / "many", 20)

    def lengthen(record):
        for take in record["takes"]:
            take["inputs"] = [{**take["inputs"][0], "path": f"rgb/{number:06d}.jpg"} for number in range(15_000)]

    rewrite(many, lengthen)
    size = (many / "manifest.json").stat().st_size
    assert size > 35_000_000
    code, peak, _ = measured(BINARY, "inspect", many, "--quiet")
    assert code == 0 and peak < 4 * size + 40_000_000


# The size of the page


@pytest.mark.slow
def test_a_hundred_takes_fit_into_5_megabytes_with_images_of_each(takeset, dataset, tmp_path):
    many = multiplied(dataset, tmp_path / "many", 100)
    page, done = report(takeset, many, tmp_path / "r.html")
    assert len(page.bytes) < 5_000_000 and len(page.rows) == 100 and "100 with images and plots" in done.stdout
    assert all(page.details(take)["strips"] and page.details(take)["timeline"] for take in page.order)


@pytest.mark.slow
def test_images_become_smaller_before_they_become_fewer(takeset, dataset, tmp_path):
    many = multiplied(dataset, tmp_path / "many", 60)
    large, _ = report(takeset, many, tmp_path / "large.html")
    small, _ = report(takeset, many, tmp_path / "small.html", "--max-size", 1)
    assert len(small.bytes) <= 1e6 < len(large.bytes)
    widths = [[page.details(take)["strips"][0]["w"] for take in page.order] for page in (small, large)]
    assert all(a <= b for a, b in zip(*widths)) and sum(widths[0]) < sum(widths[1])


@pytest.mark.slow
@pytest.mark.parametrize("size", [0.5, 0.3])
def test_a_smaller_page_has_fewer_images_and_says_so(takeset, dataset, tmp_path, size):
    many = multiplied(dataset, tmp_path / "many", 60)
    page, _ = report(takeset, many, tmp_path / "r.html", "--max-size", size)
    assert len(page.bytes) <= size * 1e6 and len(page.rows) == 60
    with_images = [take for take in page.order if page.details(take).get("strips")]
    shown = [take for take in page.order if "timeline" in page.details(take)]
    assert 0 < len(shown) < 60 and with_images == shown == page.order[: len(shown)]
    assert f"Images and plots are shown for {len(shown)} of 60 episodes" in page.section("Takes").text
    for take in page.order[len(shown) :]:
        assert "--max-size" in page.details(take)["omitted"] and page.details(take)["streams"] and page.rows[take]["seconds"] > 0


def test_images_are_left_out_on_request(takeset, dataset, tmp_path):
    page, _ = report(takeset, dataset, tmp_path / "r.html", "--thumbnails", 0)
    assert not any("strips" in page.details(take) for take in page.order) and "timeline" in page.details("v1")
    page, _ = report(takeset, dataset, tmp_path / "r2.html", "--thumbnails", 3)
    assert len(page.details("v1")["strips"][0]["times"]) == 3


# Outputs and damage


def test_an_existing_file_is_overwritten_on_request_only(takeset, dataset, tmp_path):
    output = tmp_path / "r.html"
    output.write_text("mine")
    done = takeset("report", dataset, "--output", output, check=73)
    assert "already exists" in done.stderr and output.read_text() == "mine"
    takeset("report", dataset, "--output", output, "--watch", check=73)
    takeset("report", dataset, "--output", output, "--replace", check=0)
    assert Page(output).rows
    takeset("report", dataset, "--output", tmp_path, "--replace", check=73)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r.html"]


def test_the_datasets_own_files_are_never_overwritten(takeset, copy):
    before = {p: p.read_bytes() for p in copy.rglob("*") if p.is_file()}
    for name in "manifest.json", "dataset.h5", "journal.jsonl", "episodes/v1.h5":
        assert "file of the dataset" in takeset("report", copy, "--output", copy / name, "--replace", check=64).stderr
    assert {p: p.read_bytes() for p in copy.rglob("*") if p.is_file()} == before


def test_what_is_no_dataset_is_refused(takeset, tmp_path):
    (tmp_path / "empty").mkdir()
    assert "not a Takeset dataset" in takeset("report", tmp_path / "empty", "--output", tmp_path / "r.html", check=64).stderr
    assert "no such file" in takeset("report", tmp_path / "absent", "--output", tmp_path / "r.html", check=1).stderr
    takeset("report", tmp_path / "empty", check=64)
    assert not (tmp_path / "r.html").exists()


def test_a_damaged_file_is_named_and_stops_nothing(takeset, copy, tmp_path, page):
    episodes = copy / "episodes"
    data = bytearray((episodes / "v1.h5").read_bytes())
    data[200] ^= 0xFF
    (episodes / "v1.h5").write_bytes(data)
    (episodes / "v2.h5").write_bytes((episodes / "v2.h5").read_bytes()[:5000])
    (episodes / "slam.h5").unlink()
    (episodes / "signed.h5").write_bytes(b"")
    found, done = report(takeset, copy, tmp_path / "r.html")
    for take in "v1", "v2", "slam", "signed":
        row, details = found.rows[take], found.details(take)
        assert row["problem"] and take in row["problem"] and row["severity"] == "error" and "timeline" not in details
        assert f"{take}: " in done.stderr and "strips" not in details and details["facts"]
        assert row["frames"] == page.rows[take]["frames"]
    assert found.details("partial")["strips"] and "problem" not in found.rows["partial"]
    assert "4 unreadable" in done.stdout
    # Every entry is one of these.
    verdict = found.tree.one("head").one("title").text.partition(": ")[2]
    assert "4 unreadable" in verdict and sum(int(part.split()[0]) for part in verdict.split(", ")) == len(found.rows)


def test_images_that_cannot_be_decoded_do_not_hide_the_others(takeset, copy, tmp_path):
    path = copy / "episodes/v1.h5"
    with h5py.File(path) as file:
        depth = file["data/demo_0/obs/camera_depth"]
        first = depth.id.get_chunk_info_by_coord((0, 0, 0, 0))
    data = bytearray(path.read_bytes())
    data[first.byte_offset : first.byte_offset + first.size] = b"\xff" * first.size
    path.write_bytes(data)
    page, _ = report(takeset, copy, tmp_path / "r.html")
    images, edges = page.details("v1")["strips"]
    assert (images["missing"], edges["missing"]) == (0, 1) and "problem" not in page.rows["v1"]


def test_a_run_that_has_not_finished_is_shown_from_its_journal(takeset, copy, tmp_path, page):
    (copy / "manifest.json").unlink()
    found, _ = report(takeset, copy, tmp_path / "r.html")
    assert set(found.rows) == set(page.rows) and "The run has not finished" in found.html
    assert all({**page.rows[take], "split": None} == {**found.rows[take], "split": None} for take in page.rows)
    assert polylines(found.details("v1")["trajectory"]["lines"][0][1])
    # A line that is cut short, as a run writes it just now.
    journal = copy / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:-200])
    found, _ = report(takeset, copy, tmp_path / "r2.html")
    assert len(found.rows) == len(page.rows) - 1


# Beside a run


@pytest.fixture
def takes(takeset, tmp_path):
    for number in range(3):
        takeset.simulate(tmp_path / f"in/take-{number}", "--variant", "v2", "--seconds", 0.3, "--size", "64x48", "--seed", number)
    return tmp_path / "in"


def watching(output, page, *arguments):
    command = [BINARY, "report", output, "--output", page, "--watch", "--interval", "0.2", *arguments]
    return subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_watched_run_shows_its_finished_takes_and_ends_with_the_final_page(takeset, takes, tmp_path, failing_look):
    """The run stops as the third episode gets its name, until the page was seen."""
    output, path = tmp_path / "out", tmp_path / "r.html"
    run = stopped([BINARY, "run", takes, "--output", output, "--jobs", "1"], failing_look, "rename", output / "episodes", 3)
    watch = watching(output, path)
    assert watch.stderr.readline().rstrip() == f"{path}: 2 takes so far"
    live = Page(path)
    assert live.order == ["take-0", "take-1"] and live.details("take-1")["strips"] and "A run is in progress" in live.html
    refresh = live.tree.one("meta", **{"http-equiv": "refresh"})
    assert refresh.parent.name == "noscript" and live.data["reload"] == 0.2 and live.tree.one("button", id="pause")
    run.send_signal(signal.SIGCONT)
    assert run.wait(timeout=300) == 0
    out, _ = watch.communicate(timeout=300)
    assert watch.returncode == 0 and "3 takes" in out
    final = path.read_bytes()
    assert Page(path).order == ["take-0", "take-1", "take-2"] and b'http-equiv="refresh"' not in final
    # The page is that of the dataset, and its own earlier page is overwritten.
    assert report(takeset, output, tmp_path / "again.html")[0].bytes == final
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_watch_leaves_a_page_that_does_not_reload(takes, tmp_path, failing_look, number, code):
    output, path = tmp_path / "out", tmp_path / "r.html"
    run = stopped([BINARY, "run", takes, "--output", output, "--jobs", "1"], failing_look, "rename", output / "episodes", 2)
    try:
        watch = watching(output, path)
        watch.stderr.readline()
        watch.send_signal(number)
        watch.communicate(timeout=300)
        assert watch.returncode == code and Page(path).order == ["take-0"] and Page(path).data["reload"] is None
    finally:
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
