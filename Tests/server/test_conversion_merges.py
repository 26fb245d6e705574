"""Datasets that cannot be written for a while, and servers that end between a merge and its row."""

import json
import shutil
import subprocess

import pytest
from conftest import TAKESET

from queued import bundle, connect, finished, merged, merged_bundles, queue, row, script


def merging(tmp_path, before):
    """The real converter, after some shell commands before it merges. `$list` names the conversions."""
    return script(tmp_path / "merging", f"""#!/bin/sh
if [ "$1" = merge ]; then
  list=$3
  {before}
fi
exec '{TAKESET}' "$@"
""")


def test_a_dataset_that_cannot_be_written_stops_no_other(start, tmp_path):
    command = merging(tmp_path, f"if [ ! -e {tmp_path}/space ] && grep -q \"$(cat {tmp_path}/bad)\" \"$list\"; then echo no space left; exit 1; fi")
    (tmp_path / "bad").write_text("nothing")
    server = start("--takeset", command, conversions=1)
    (first,) = merged_bundles(server, 1, project="a")
    manifest = server.data / "datasets/a/manifest.json"
    before = manifest.read_bytes()
    second = queue(server.data, "video", bundle(tmp_path / "2", "--seed", 2), project="a", status="quarantined")
    (tmp_path / "bad").write_text(second)
    with connect(server.data) as database:
        database.execute("UPDATE capture SET status = 'processing' WHERE id = ?", (second,))
        database.execute("INSERT INTO conversion (capture, state, attempts, notBefore) VALUES (?, 'waiting', 0, 0)", (second,))
    assert finished(server, second)["status"] == "complete"
    server.until(lambda: "cannot be merged: no space left" in server.log.read_text())
    # Its project comes later in the alphabet.
    merged_bundles(server, 3, project="b")
    server.until(lambda: server.log.read_text().count("dataset a: cannot be merged") >= 2)
    assert manifest.read_bytes() == before and row(server.data, second)["status"] == "complete"
    (tmp_path / "space").touch()
    merged(server, first, second, project="a")


def parts(dataset):
    splits = json.loads((dataset / "manifest.json").read_text())["record"]["splits"]
    return {take: part for part in ("train", "valid", "test") for take in splits[part]}


def test_takes_keep_their_part_of_the_split_while_others_arrive(start, tmp_path):
    pipeline = tmp_path / "pipeline.yaml"
    pipeline.write_text("version: 1\ntransforms: [{align: {}}, {split: {valid: 0.3, group: take}}]\n")
    server = start("--takeset", TAKESET, "--pipeline", pipeline, conversions=2)
    dataset, sent, known = server.data / "datasets/default", [], {}
    for seeds in [0], [1], [2, 3], [4, 5, 6]:
        sent += merged_bundles(server, *seeds, beside=sent)
        found = parts(dataset)
        assert {take: found[take] for take in known} == known and len(found) == len(sent)
        known = found
    assert list(known.values()).count("valid") == 2
    # What says the parts is damaged: the takes are split anew, and the dataset is whole again.
    (dataset / "manifest.json").write_text("{")
    sent.append(queue(server.data, "video", bundle(tmp_path / "last", "--seed", 99)))
    server.until(lambda: "dataset default: it is damaged, and its takes are split anew" in server.log.read_text())
    server.until(lambda: "dataset default: 8 captures" in server.log.read_text())
    assert len(parts(merged(server, *sent))) == 8


@pytest.mark.parametrize("small_disk", ["48m"], indirect=True)
def test_a_full_disk_while_merging(start, small_disk, tmp_path):
    """The disk holds captures and conversions; their dataset only once there is room."""
    command = merging(tmp_path, f"[ -e {tmp_path}/room ] || head -c 100000000 /dev/zero >{small_disk}/filler 2>/dev/null")
    server = start("--takeset", command, "--reserve", 0, data=small_disk / "data", conversions=1)
    capture = queue(server.data, "video", bundle(tmp_path / "1"))
    found = finished(server, capture)
    assert found["status"] == "complete"
    server.until(lambda: "dataset default: " in server.log.read_text() and "cannot be merged" in server.log.read_text())
    assert not (server.data / "datasets/default").exists() and server.get("/health").ok
    assert server.get(f"/api/v1/captures/{capture}").json()["data"]["status"] == "complete"
    (tmp_path / "room").touch()
    (small_disk / "filler").unlink()
    merged(server, capture)


def test_a_server_killed_around_a_merge_doubles_and_loses_no_take(start, tmp_path, monkeypatch):
    """Its data folder is relative, too."""
    monkeypatch.chdir(tmp_path)
    server = start("--takeset", TAKESET, data="here", conversions=1)
    captures, dataset = merged_bundles(server, 1, 2), server.data / "datasets/default"

    def rows():
        with connect(server.data) as database:
            return sorted(found["capture"] for found in database.execute("SELECT capture FROM merged WHERE dataset = 'default'"))

    # After: the dataset is in place, and its rows are not written.
    for moment in ("after", "before"):
        server.kill()
        with connect(server.data) as database:
            database.execute("DELETE FROM merged WHERE capture = ?", (captures[1],))
        if moment == "before":
            shutil.rmtree(dataset)
            made = subprocess.run([TAKESET, "merge", "--from", "-", "--output", dataset, "--link", "--resplit"], text=True, capture_output=True,
                                  input=f"{server.data}/conversions/{captures[0]}/dataset\n")
            assert made.returncode == 0, made.stderr
        server.start()
        merged(server, *captures)
        assert server.until(lambda: rows() == sorted(captures))
    server.kill()
    # The conversion is in place, and the row still says that it runs.
    with connect(server.data) as database:
        database.execute("UPDATE capture SET status = 'processing', evidence = NULL, rows = NULL WHERE id = ?", (captures[0],))
        database.execute("UPDATE conversion SET state = 'running', attempts = 0, pipeline = NULL, finishedAt = NULL WHERE capture = ?", (captures[0],))
        database.execute("DELETE FROM take WHERE capture = ?", (captures[0],))
        database.execute("DELETE FROM merged WHERE capture = ?", (captures[0],))
    server.start()
    found = finished(server, captures[0])
    assert (found["status"], found["attempts"], found["rows"]) == ("complete", 1, 30)
    merged(server, *captures)
