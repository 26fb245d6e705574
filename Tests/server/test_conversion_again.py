"""Captures that are converted once more: by request, by the command, after an upgrade."""

import subprocess
import uuid

import pytest
import requests
from conftest import BINARY, TAKESET
from devices import add_key

from queued import bundle, connect, episodes, evidence, fake, finished, merged, merged_bundles, queue, real, row


def again(server, capture, **options):
    return server.post(f"/api/v1/captures/{capture}/convert", **options)


def command(server, *arguments):
    return subprocess.run([BINARY, "convert", "--data", server.data, *arguments], capture_output=True, text=True, timeout=300)


def is_linked(server, capture, dataset="default"):
    """Whether the dataset has the shard of the capture's newest conversion."""
    name = f"episodes/{capture}.h5"
    return (server.data / "datasets" / dataset / name).stat().st_ino == (server.data / "conversions" / capture / "dataset" / name).stat().st_ino


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
    keys = {project: {"Authorization": f"Bearer {add_key(server, '--project', project)}"} for project in ("one", "two")}
    capture = queue(server.data, "video", bundle(tmp_path / "1"), project="one", status="quarantined")
    assert again(server, capture).status_code == 401
    assert again(server, capture, headers=keys["two"]).status_code == 404
    with connect(server.data) as database:
        assert database.execute("SELECT COUNT(*) FROM conversion").fetchone()[0] == 0
    assert again(server, capture, headers=keys["one"]).status_code == 202
    assert (row(server.data, capture)["status"], row(server.data, capture)["state"]) == ("processing", "waiting")


def test_failed_captures_are_converted_by_request_and_by_the_command(start, tmp_path):
    server = start("--takeset", fake(tmp_path, "broken", f"[ -e {tmp_path}/mended ] || exit 70\nexec '{TAKESET}' \"$@\""), "--conversion-attempts", 1,
                   conversions=2)
    captures = [queue(server.data, "video", bundle(tmp_path / str(seed), "--seed", seed)) for seed in (1, 2, 3)]
    assert {found["status"] for found in finished(server, *captures)} == {"failed"}
    (tmp_path / "mended").touch()
    bad = queue(server.data, "video", bundle(tmp_path / "bad", "--fault", "chain-final"))
    assert finished(server, bad)["status"] == "rejected"
    answer = again(server, captures[0])
    assert answer.status_code == 202, answer.text
    shown = answer.json()["data"]
    assert (shown["capture_id"], shown["status"], shown["reason"]) == (captures[0], "processing", None)
    found = finished(server, captures[0])
    assert (found["status"], found["attempts"], found["lastError"], found["reason"]) == ("complete", 1, None, None)
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


def test_another_pipeline_starts_another_dataset_until_it_takes_all_captures_along(start, tmp_path):
    server = start("--takeset", TAKESET, conversions=1)
    (first,) = merged_bundles(server, 1)
    older = evidence(row(server.data, first))["pipeline_sha256"]
    server.stop()
    (tmp_path / "p.yaml").write_text("version: 1\ntransforms:\n  - align: {}\n  - resize-image: {width: 160, height: 120}\n")
    server = start("--takeset", TAKESET, "--pipeline", tmp_path / "p.yaml", data=server.data, conversions=1)
    (second,) = merged_bundles(server, 2)
    merged(server, first, project=f"default.{older[:12]}")
    server.stop()
    assert command(server, "--all").stdout == "2 captures queued\n"
    server.start()
    finished(server, first, second)
    merged(server, first, second)
    server.until(lambda: [path.name for path in (server.data / "datasets").iterdir()] == ["default"])
    assert evidence(row(server.data, first))["pipeline_sha256"] != older
    with connect(server.data) as database:
        # Written down after the dataset is published.
        rows = "SELECT dataset, capture FROM merged ORDER BY capture"
        server.until(lambda: [tuple(found) for found in database.execute(rows)] == sorted(("default", capture) for capture in (first, second)))


def test_the_dataset_gets_the_newer_conversion(start):
    server = start("--takeset", TAKESET, conversions=1)
    captures = merged_bundles(server, 1, 2)
    taken = server.data / f"datasets/default/episodes/{captures[0]}.h5"
    before = taken.stat().st_ino
    assert again(server, captures[0]).status_code == 202
    assert finished(server, captures[0])["status"] == "complete"
    server.until(lambda: is_linked(server, captures[0]) and is_linked(server, captures[1]))
    assert taken.stat().st_ino != before
    merged(server, *captures)


@pytest.mark.parametrize("run", ["exit 75", "kill -KILL $$"])
def test_a_take_stays_while_it_is_made_again_and_after_a_failure(start, tmp_path, run):
    server = start("--takeset", real(tmp_path, "late", f"[ ! -e {tmp_path}/bad ] || {{ while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; {run}; }}"),
                   "--conversion-attempts", 2, conversions=1)
    (first,) = merged_bundles(server, 1)
    (tmp_path / "bad").touch()
    assert again(server, first).status_code == 202
    server.until(lambda: row(server.data, first)["state"] == "running")
    assert episodes(server) == [first] and requests.delete(f"{server.url}/api/v1/captures/{first}", timeout=300).status_code == 409
    (tmp_path / "go").touch()
    found = finished(server, first)
    assert (found["status"], found["attempts"]) == ("failed", 2) and "It was tried 2 times." in found["reason"]
    assert evidence(found)["rows"] == 30
    (tmp_path / "bad").unlink()
    (second,) = merged_bundles(server, 2, beside=[first])
    assert command(server, "--failed").stdout == "1 capture queued\n"
    assert finished(server, first)["status"] == "complete"
    merged(server, first, second)
    assert requests.delete(f"{server.url}/api/v1/captures/{first}", timeout=300).status_code == 204
    merged(server, second)
