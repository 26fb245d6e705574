"""A worker that lies: what it sends back names no folder, writes no page and no line of the log."""

import json
import re
import subprocess

import pytest
import requests
from conftest import BINARY, TAKESET
from queued import bundle, connect, finished, merged_bundles, queue, row


@pytest.fixture
def server(start, tmp_path):
    """One that merges nothing: what is sent here is no dataset, and a capture whose dataset cannot be merged is soon to be converted again."""
    command = tmp_path / "takeset-without-merge"
    command.write_text(f'#!/bin/sh\n[ "$1" = merge ] && exit 1\nexec {TAKESET} "$@"\n')
    command.chmod(0o755)
    return start("--worker-silence", 3600, "--conversion-attempts", 1, takeset=command)


def deliver(server, files, **result):
    """Takes the capture that waits, and sends this back."""
    version = subprocess.run([BINARY, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    work = server.post("/api/v1/work", json={"worker": "liar", "version": version}).json()["data"]
    at = f"{server.url}/api/v1/work/{work['lease']}"
    for name, data in files.items():
        assert requests.put(f"{at}/result/{name}", data=data, timeout=300).status_code == 204
    done = {"outcome": "converted", "reason": "", "detail": "", "isFinal": False, "folder": "", **result}
    answer = requests.post(f"{at}/done", json={"result": done, "files": {name: len(data) for name, data in files.items()}}, timeout=300)
    assert answer.status_code == 204, answer.text
    return work["capture"]


def dataset(pipeline, *takes):
    takes = [{"id": take, "outcome": "written", "findings": [], "output": {"samples": 1}} for take in takes]
    return {"dataset/manifest.json": json.dumps({"record": {"pipeline_sha256": pipeline, "takes": takes}}).encode()}


@pytest.mark.parametrize("pipeline", ["", "/../../PWN", "/../kitchen", "b" * 63, "B" * 64, "b" * 63 + "/"])
def test_a_pipelines_digest_is_one(server, tmp_path, pipeline):
    capture = queue(server.data, "video", bundle(tmp_path / "b"))
    assert deliver(server, dataset(pipeline, "t")) == capture
    found = finished(server, capture)
    assert (found["status"], found["rows"]) == ("failed", None) and "pipeline_sha256" in found["lastError"]
    # It is the digest that is refused.
    assert deliver(server, dataset("b" * 64, queue(server.data, "video", bundle(tmp_path / "b")))) != capture


def test_a_database_with_such_a_digest_leads_nowhere(start, tmp_path):
    """One that an earlier version has written."""
    server = start(conversions=1)
    first, second = merged_bundles(server, 1, 2)
    server.stop()
    with connect(server.data) as database:
        database.execute("UPDATE conversion SET pipeline = '/../../PWN', finishedAt = 1 WHERE capture = ?", (first,))
        database.execute("INSERT INTO merged (dataset, capture, conversion, at) SELECT 'default./../../PWN', capture, conversion, at FROM merged WHERE capture = ?", (first,))
    (server.data / "datasets/default.").mkdir()
    server.start()
    server.until(lambda: "is no name of a dataset" in server.log.read_text())
    assert sorted(path.name for path in tmp_path.iterdir() if "PWN" in path.name) == [] and not (server.data / "PWN").exists()
    for path in ("/datasets", "/datasets/default.%2F..%2F..%2FPWN/download"):
        assert server.get(path).status_code in (200, 404)


def test_a_trajectory_is_drawn_from_numbers(server, tmp_path):
    form = '<form method="post" action="/captures/x/delete"><button>Play</button></form>'
    drawing = {
        "svg": form, "title": form, "width": 270, "height": 210,
        "track": [[0, 10.5, 20], [1, form, 2], [1, 30, 40], [form], 5, [2, 1e308, "1\"/><script>"]],
        "labels": [[6, 204, "0.5 <b> m", "start"], [999, 2, "far", "end"], [1, 2, "odd", "\"/><script>"], [form, 2, "x", "end"], form]}
    for bar, drawn in ("M6 189v3h55v-3", ['<path class="axis" d="M6 189v3h55v-3"/>']), ('M6 1"/><script>', []):
        capture = queue(server.data, "video", bundle(tmp_path / str(len(drawn))))
        preview = {"preview_version": 1, "episodes": [{"id": "t", "rows": 1, "seconds": 1, "trajectory": drawing | {"scale_bar": bar}}]}
        deliver(server, dataset("b" * 64, capture) | {"preview/preview.json": json.dumps(preview).encode()})
        assert finished(server, capture)["status"] == "complete"
        page = server.get(f"/verify/{capture}").text
        assert re.findall(r'<path class="axis"[^>]*>|<text.*?</text>', page) == [
            *drawn, '<text x="6.0" y="204.0" text-anchor="start">0.5 &lt;b&gt; m</text>']
    assert 'points="10.5,20.0 30.0,40.0"' in page and "<form method=\"post\" action=\"/captures/x" not in page and "<script>" not in page.split("</main>")[0]


def test_a_file_where_a_folder_is_is_refused(server, tmp_path):
    queue(server.data, "video", bundle(tmp_path / "b"))
    version = subprocess.run([BINARY, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    at = f"{server.url}/api/v1/work/{server.post('/api/v1/work', json={'worker': 'liar', 'version': version}).json()['data']['lease']}/result"
    for name, status in ("dataset/a", 204), ("dataset/a/b", 400), ("dataset/a/b/c", 400), ("dataset/d/e/f", 204), ("dataset/d/e", 400), ("dataset/a", 204):
        answer = requests.put(f"{at}/{name}", data=b"x", timeout=300)
        assert answer.status_code == status, name
        assert status == 204 or f"{name}: there is a file where this has a folder" in answer.json()["error"]["message"]


def test_a_line_of_the_log_is_the_servers(server, tmp_path):
    capture = queue(server.data, "video", bundle(tmp_path / "b"))
    forged = "x\n2026-11-27T00:00:00+0000 notice takeset-server: FORGED\x1b[31m\u2028\x85\n\n"
    deliver(server, {}, outcome="failed", reason=forged, detail=forged)
    server.until(lambda: row(server.data, capture)["status"] == "failed")
    log = server.log.read_bytes().decode()
    assert "FORGED" in log and not [line for line in log.splitlines() if "FORGED" in line and capture not in line]
    assert not set(log) & {"\x1b", "\u2028", "\x85"}
    assert all(line for line in log.splitlines())
