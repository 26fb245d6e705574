"""Labels of captures: set by the API, written into the dataset of the project, and kept by whatever happens to it later."""

import json

import h5py
import pytest
import requests
from conftest import TAKESET
from devices import add_key
from pages import insert
from queued import bundle, connect, episodes, evidence, files_below, finished, manifest, merged, merged_bundles, queue, script
from test_conversion import session, zipped

LABELS = {
    "task": "put the cup away", "success": True, "tags": ["night", "left"], "robot_id": 7,
    "segments": [{"start": 0.0, "end": 0.5, "text": "reach", "success": True}, {"start": 0.5, "end": 0.9, "text": "lift"}],
}  # fmt: skip


def put(server, capture, labels, **options):
    return requests.put(f"{server.url}/api/v1/captures/{capture}/labels", json=labels, timeout=300, **options)


def recorded(server, project="default"):
    """The labels in a dataset, without sources, with the segments that have rows."""
    def plain(name, value):
        return [{key: part for key, part in segment.items() if key != "rows"} for segment in value if "rows" in segment] if name == "segments" else value

    labels = manifest(server.data / "datasets" / project)["record"].get("labels", {})
    return {id: {name: plain(name, value) for name, value in own.items() if name != "sources"} for id, own in labels.items()}


def until(server, expected, project="default"):
    def check():
        try:
            return recorded(server, project) == expected
        except FileNotFoundError:
            return False

    server.until(check)


def test_the_dataset_has_them_and_keeps_them(start, tmp_path):
    server = start("--takeset", TAKESET, conversions=1)
    (first,) = merged_bundles(server, 1)
    inode = (server.data / f"datasets/default/episodes/{first}.h5").stat().st_ino
    answer = put(server, first, LABELS)
    assert answer.status_code == 200 and answer.json()["data"]["labels"] == LABELS
    assert server.get(f"/api/v1/captures/{first}").json()["data"]["labels"] == LABELS
    until(server, {first: LABELS})
    dataset = merged(server, first)
    assert (dataset / f"episodes/{first}.h5").stat().st_ino == inode, "no shard is written"
    with h5py.File(dataset / "dataset.h5") as file:
        own = file[f"labels/{file['mask/success'][0].decode()}"]
        assert own.attrs["task"] == LABELS["task"] and [text.decode() for text in own["segment_text"][()]] == ["reach", "lift"]
        assert (own["segment_start"][0], own["segment_end"][0], own["segment_start"][1]) == (0, 15, 15), "rows of 30 Hz"
    # Others arrive, the capture is converted again, and the server starts anew.
    (second,) = merged_bundles(server, 2, beside=[first])
    until(server, {first: LABELS})
    assert server.post(f"/api/v1/captures/{first}/convert").status_code == 202
    finished(server, first)
    merged(server, first, second)
    until(server, {first: LABELS})
    server.restart()
    assert put(server, second, {"task": "fold the towel"}).status_code == 200
    until(server, {first: LABELS, second: {"task": "fold the towel"}})
    # A change takes the place of all that was there.
    put(server, first, {"success": False})
    until(server, {first: {"success": False}, second: {"task": "fold the towel"}})
    put(server, first, {})
    until(server, {second: {"task": "fold the towel"}})
    assert server.get(f"/api/v1/captures/{first}").json()["data"]["labels"] == {}
    requests.delete(f"{server.url}/api/v1/captures/{second}", timeout=300)
    merged(server, first)
    assert recorded(server) == {}


def test_a_change_of_somebody_else_is_not_replaced(start):
    server = start()
    capture = insert(server, name="pour")
    def shown():
        found = server.get(f"/api/v1/captures/{capture}").json()["data"]
        return found["labels"], found["labels_revision"]

    assert shown() == ({}, 0)
    put(server, capture, {"task": "pour"}, headers={"If-Match": '"0"'}).raise_for_status()
    answer = put(server, capture, {"task": "fold"}, headers={"If-Match": '"0"'})
    assert (answer.status_code, answer.json()["error"]["code"]) == (412, "LABELS_CHANGED") and "revision 1, and were of 0" in answer.json()["error"]["message"]
    assert shown() == ({"task": "pour"}, 1)
    # Labels that are there already are no change, however often somebody clicks.
    put(server, capture, {"task": "pour"}, headers={"If-Match": '"0"'}).raise_for_status()
    assert shown() == ({"task": "pour"}, 1)
    for text in ("yesterday", "-1", "+1", '""', 'W/"1"'):
        assert put(server, capture, {}, headers={"If-Match": text}).status_code == 400, text
    put(server, capture, {"task": "fold"}, headers={"If-Match": "*"}).raise_for_status()
    assert shown() == ({"task": "fold"}, 2)


def test_labels_that_come_before_the_conversion_wait_for_it(start, tmp_path):
    server = start("--takeset", TAKESET, conversions=0)
    capture = queue(server.data, "video", bundle(tmp_path / "1"))
    assert put(server, capture, LABELS).status_code == 200
    server.stop()
    server = start("--takeset", TAKESET, data=server.data, conversions=1)
    until(server, {capture: LABELS})


def test_what_a_capture_says_of_itself_is_known_and_can_be_taken_away(start, tmp_path):
    server = start("--takeset", TAKESET, conversions=1)
    folder = session(tmp_path / "session_a")
    own = {"task": "sort the screws", "tags": ["phone"], "segments": [{"start": 0.0, "end": 0.2, "text": "first"}]}
    (folder / "labels.json").write_text(json.dumps(own))
    capture = queue(server.data, "session", {"session.zip": zipped(folder, tmp_path / "a.zip")})
    found = finished(server, capture)
    id = evidence(found)["takes"][0]["id"]
    assert evidence(found)["labels"] == own
    until(server, {id: own})
    put(server, capture, {"tags": None, "success": True})
    until(server, {id: own | {"tags": None, "success": True}})
    put(server, capture, {})
    until(server, {id: own})


def test_a_capture_of_several_takes(start, tmp_path):
    server = start("--takeset", TAKESET, conversions=1)
    for seed in (1, 2):
        session(tmp_path / f"both/take_{seed}", seed)
    capture = queue(server.data, "session", files_below(tmp_path / "both"))
    finished(server, capture)
    server.until(lambda: len(episodes(server)) == 2)
    answer = put(server, capture, LABELS)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "SEVERAL_TAKES") and "2 takes" in answer.json()["error"]["message"]
    labels = {name: value for name, value in LABELS.items() if name != "segments"}
    assert put(server, capture, labels).status_code == 200
    until(server, {id: labels for id in episodes(server)})


def test_episodes_of_a_take_that_is_split_share_them(start, tmp_path):
    pipeline = tmp_path / "pipeline.yaml"
    pipeline.write_text("version: 1\ntransforms: [{align: {}}, {split-episodes: {at: 0.5}}]\n")
    server = start("--takeset", TAKESET, "--pipeline", pipeline, conversions=1)
    capture = queue(server.data, "video", bundle(tmp_path / "1"))
    put(server, capture, LABELS)
    finished(server, capture)
    server.until(lambda: len(episodes(server)) == 2)
    first, second = episodes(server)
    until(server, {first: LABELS | {"segments": LABELS["segments"][:1]}, second: LABELS | {"segments": LABELS["segments"][1:]}})


def test_large_labels_of_many_episodes(start, tmp_path):
    """More than the converter reads in one file."""
    pipeline = tmp_path / "pipeline.yaml"
    pipeline.write_text("version: 1\ntransforms: [{align: {}}, {split-episodes: {at: 0.1}}]\n")
    server = start("--takeset", TAKESET, "--pipeline", pipeline, conversions=1)
    capture = queue(server.data, "video", bundle(tmp_path / "1"))
    labels = {"task": "a / b: # \u2028 \U0001f600", "segments": [{"start": 0.0, "end": 9.0, "text": f"{number} " + "x" * 4000} for number in range(60)]}
    assert put(server, capture, labels).status_code == 200
    finished(server, capture)
    server.until(lambda: len(episodes(server)) == 10)
    server.until(lambda: len(recorded(server)) == 10)
    for own in recorded(server).values():
        assert own["task"] == labels["task"] and {one["text"] for one in own["segments"]} == {one["text"] for one in labels["segments"]}


def test_a_dataset_is_not_published_without_its_labels(start, tmp_path):
    command = script(tmp_path / "labelling", f"""#!/bin/sh
if [ "$1" = label ] && [ ! -e {tmp_path}/space ]; then echo no space left; exit 1; fi
exec '{TAKESET}' "$@"
""")
    server = start("--takeset", command, conversions=1)
    (capture,) = merged_bundles(server, 1)
    before = (server.data / "datasets/default/manifest.json").read_bytes()
    put(server, capture, LABELS)
    server.until(lambda: "its labels cannot be written: no space left" in server.log.read_text())
    assert (server.data / "datasets/default/manifest.json").read_bytes() == before
    (tmp_path / "space").touch()
    until(server, {capture: LABELS})


@pytest.mark.parametrize(
    "labels, words",
    [({"success": "perhaps"}, "success: expected true or false, found perhaps"), ({"Robot": 1}, "Robot is no name of a label"), ({"task": ""}, "task: expected a text"),
     ({"segments": [{"start": 2, "end": 1, "text": "x"}]}, "a segment starts at 2.0 s and ends at 1.0 s"), ({"segments": [{"start": 1, "text": "x"}]}, "start and end in seconds"),
     ({"tags": "night"}, "tags: expected a list of texts"), ([], "expected an object of labels"), ({"weight": 1e300}, "weight: the number is too large"), ({"measures": 1}, "measures is no name of a label")],
)  # fmt: skip
def test_labels_that_cannot_be(server, tmp_path, labels, words):
    capture = queue(server.data, "video", bundle(tmp_path / "1"), status="quarantined")
    put(server, capture, {"task": "stays"})
    answer = put(server, capture, labels)
    assert answer.status_code == 400 and words in answer.json()["error"]["message"], answer.text
    assert server.get(f"/api/v1/captures/{capture}").json()["data"]["labels"] == {"task": "stays"}


def test_requests_that_are_refused(start, tmp_path):
    server = start("--takeset", TAKESET, "--require-key", conversions=0)
    one, two, reader = (
        {"Authorization": f"Bearer {add_key(server, '--project', project, *options)}"} for project, options in (("one", []), ("two", []), ("one", ["--power", "read"]))
    )
    capture = queue(server.data, "video", bundle(tmp_path / "1"), project="one", status="quarantined")
    for headers, status in ((one, 200), (two, 404), (reader, 403), ({}, 401), (one | {"Origin": "https://elsewhere.example"}, 403)):
        assert put(server, capture, {"task": f"by {status}"}, headers=headers).status_code == status
    assert requests.put(f"{server.url}/api/v1/captures/{capture}/labels", data="{", headers=one, timeout=300).status_code == 400
    assert requests.put(f"{server.url}/api/v1/captures/{capture}/labels", data=b"[" * 300_000, headers=one, timeout=300).status_code == 413
    for id in ("00000000-0000-4000-8000-000000000000", "nonsense"):
        assert put(server, id, {}, headers=one).status_code == 404
    with connect(server.data) as database:
        assert database.execute("SELECT labels, labelsRevision FROM capture").fetchone()[:] == ('{"task":"by 200"}', 1)
