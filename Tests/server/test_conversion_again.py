"""Captures that are converted once more: by request, by the command, after an upgrade."""

import subprocess
import uuid

import pytest
import requests
from conftest import BINARY, TAKESET

from queued import (bundle, connect, delete, episodes, evidence, fake, finished, merged, queue, real, row)

PIPELINE = "version: 1\ntransforms:\n  - align: {}\n  - resize-image: {width: 160, height: 120}\n"


def again(server, capture, **options):
    return server.post(f"/api/v1/captures/{capture}/convert", **options)


def command(server, *arguments):
    return subprocess.run([BINARY, "convert", "--data", server.data, *arguments], capture_output=True, text=True, timeout=300)


def is_linked(server, capture, dataset="default"):
    """Whether the dataset has the shard of the capture's newest conversion."""
    name = f"episodes/{capture}.h5"
    return (server.data / "datasets" / dataset / name).stat().st_ino == (server.data / "conversions" / capture / "dataset" / name).stat().st_ino


def test_a_failed_capture_is_converted_by_request(start, tmp_path):
    server = start("--takeset", fake(tmp_path, "broken", f"[ -e {tmp_path}/mended ] || exit 70\nexec '{TAKESET}' \"$@\""), "--conversion-attempts", 1,
                   conversions=1)
    capture = queue(server.data, "video", bundle(tmp_path / "1"))
    assert finished(server, capture)["status"] == "failed"
    (tmp_path / "mended").touch()
    answer = again(server, capture)
    assert answer.status_code == 202, answer.text
    assert (answer.json()["data"]["capture_id"], answer.json()["data"]["status"], answer.json()["data"]["reason"]) == (capture, "processing", None)
    found = finished(server, capture)
    assert (found["status"], found["attempts"], found["lastError"], found["reason"]) == ("complete", 1, None, None)
    merged(server, capture)


def test_requests_that_are_refused(start, tmp_path):
    server = start("--takeset", TAKESET, conversions=0)
    waiting = queue(server.data, "video", bundle(tmp_path / "1"))
    answer = again(server, waiting)
    assert (answer.status_code, answer.json()["error"]["code"], answer.headers["Retry-After"]) == (409, "CAPTURE_BUSY", "10")
    for name in (uuid.uuid4(), "nonsense", "..%2f.."):
        assert again(server, name).status_code == 404
    with connect(server.data) as database:
        database.execute("UPDATE capture SET status = 'complete'")
        database.execute("UPDATE conversion SET state = 'done'")
    assert again(server, waiting, headers={"Origin": "https://elsewhere.example"}).status_code == 403
    assert row(server.data, waiting)["status"] == "complete"
    with connect(server.data) as database:
        database.execute("DELETE FROM file")
    answer = again(server, waiting)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "FILES_REMOVED")
    assert (row(server.data, waiting)["status"], row(server.data, waiting)["state"]) == ("complete", "done")


def test_a_key_is_needed_and_only_for_its_project(start, tmp_path):
    server = start("--takeset", TAKESET, "--require-key", conversions=0)
    keys = {}
    for project in ("one", "two"):
        made = subprocess.run([BINARY, "keys", "add", "--data", server.data, "--project", project], capture_output=True, text=True, check=True)
        keys[project] = {"Authorization": f"Bearer {made.stdout.strip()}"}
    capture = queue(server.data, "video", bundle(tmp_path / "1"), project="one", status="quarantined")
    assert again(server, capture).status_code == 401
    assert again(server, capture, headers=keys["two"]).status_code == 404
    with connect(server.data) as database:
        assert database.execute("SELECT COUNT(*) FROM conversion").fetchone()[0] == 0
    assert again(server, capture, headers=keys["one"]).status_code == 202
    assert (row(server.data, capture)["status"], row(server.data, capture)["state"]) == ("processing", "waiting")


def test_the_command_queues_all_that_failed(start, tmp_path):
    server = start("--takeset", fake(tmp_path, "broken", f"[ -e {tmp_path}/mended ] || exit 70\nexec '{TAKESET}' \"$@\""), "--conversion-attempts", 1,
                   conversions=2)
    captures = [queue(server.data, "video", bundle(tmp_path / str(seed), "--seed", seed)) for seed in (1, 2)]
    assert {found["status"] for found in finished(server, *captures)} == {"failed"}
    (tmp_path / "mended").touch()
    bad = queue(server.data, "video", bundle(tmp_path / "bad", "--fault", "chain-final"))
    assert finished(server, bad)["status"] == "rejected"
    done = command(server, "--failed")
    assert (done.returncode, done.stdout) == (0, "2 captures queued\n"), done.stderr
    assert {found["status"] for found in finished(server, *captures)} == {"complete"}
    merged(server, *captures)
    assert command(server, "--failed").stdout == "0 captures queued\n"
    assert command(server, bad.upper()).stdout == "1 capture queued\n"
    assert finished(server, bad)["status"] == "rejected" and row(server.data, bad)["attempts"] == 1
    assert command(server, str(uuid.uuid4())).returncode == 64
    for arguments in ([], ["--failed", "--all"], ["--all", captures[0]]):
        assert command(server, *arguments).returncode == 64
    assert subprocess.run([BINARY, "convert", "--data", tmp_path / "none", "--all"], capture_output=True).returncode == 64
    assert not (tmp_path / "none").exists()


def test_another_pipeline_takes_all_captures_along(start, tmp_path):
    server = start("--takeset", TAKESET, conversions=1)
    captures = [queue(server.data, "video", bundle(tmp_path / str(seed), "--seed", seed)) for seed in (1, 2)]
    finished(server, *captures)
    merged(server, *captures)
    older = evidence(row(server.data, captures[0]))["pipeline_sha256"]
    server.stop()
    assert command(server, "--all").stdout == "2 captures queued\n"
    (tmp_path / "p.yaml").write_text(PIPELINE)
    server = start("--takeset", TAKESET, "--pipeline", tmp_path / "p.yaml", data=server.data, conversions=1)
    finished(server, *captures)
    merged(server, *captures)
    server.until(lambda: [path.name for path in (server.data / "datasets").iterdir()] == ["default"])
    assert evidence(row(server.data, captures[0]))["pipeline_sha256"] != older
    with connect(server.data) as database:
        # Written down after the dataset is published.
        rows = "SELECT dataset, capture FROM merged ORDER BY capture"
        server.until(lambda: [tuple(found) for found in database.execute(rows)] == sorted(("default", capture) for capture in captures))


def test_the_dataset_gets_the_newer_conversion(start, tmp_path):
    server = start("--takeset", TAKESET, conversions=1)
    captures = [queue(server.data, "video", bundle(tmp_path / str(seed), "--seed", seed)) for seed in (1, 2)]
    finished(server, *captures)
    dataset = merged(server, *captures)
    before = (dataset / f"episodes/{captures[0]}.h5").stat().st_ino
    assert again(server, captures[0]).status_code == 202
    assert finished(server, captures[0])["status"] == "complete"
    server.until(lambda: is_linked(server, captures[0]) and is_linked(server, captures[1]))
    assert (dataset / f"episodes/{captures[0]}.h5").stat().st_ino != before
    merged(server, *captures)


@pytest.mark.parametrize("run", ["exit 75", "kill -KILL $$"])
def test_a_take_stays_while_it_is_made_again_and_after_a_failure(start, tmp_path, run):
    server = start("--takeset", real(tmp_path, "late", f"[ ! -e {tmp_path}/bad ] || {{ while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; {run}; }}"),
                   "--conversion-attempts", 2, conversions=1)
    first = queue(server.data, "video", bundle(tmp_path / "1"))
    finished(server, first)
    merged(server, first)
    (tmp_path / "bad").touch()
    assert again(server, first).status_code == 202
    server.until(lambda: row(server.data, first)["state"] == "running")
    assert episodes(server) == [first] and requests.delete(f"{server.url}/api/v1/captures/{first}", timeout=300).status_code == 409
    (tmp_path / "go").touch()
    found = finished(server, first)
    assert (found["status"], found["attempts"]) == ("failed", 2) and "It was tried 2 times." in found["reason"]
    assert evidence(found)["rows"] == 30
    (tmp_path / "bad").unlink()
    second = queue(server.data, "video", bundle(tmp_path / "2", "--seed", 2))
    finished(server, second)
    merged(server, first, second)
    assert command(server, "--failed").stdout == "1 capture queued\n"
    assert finished(server, first)["status"] == "complete"
    merged(server, first, second)
    delete(server.data, first)
    merged(server, second)
