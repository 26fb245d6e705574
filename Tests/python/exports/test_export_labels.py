"""Labels in exports, as the readers of each format find them."""

import json

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest
import zarr
from lerobot_datasets import Export, dataset as converted, export as lerobot, recordings
from mcap.reader import make_reader
from scene_oracle import export

TASKS = ["put the cup away", "", "Tuch falten äöü"]
SEGMENTS = [{"start": 0, "end": 0.3, "text": "reach"}, {"start": 0.3, "end": 99, "text": "greifen äöü"}]


@pytest.fixture(scope="module")
def labelled(takeset, tmp_path_factory):
    """Three sessions: one with a task, success and segments, one without labels, one with a task and a label of its own."""
    root = recordings(takeset, tmp_path_factory.mktemp("labels"), "64x48", "16x12", 0.7, 0.5, 4)
    output = converted(takeset, root, {"actions": {"kind": "relative-6d"}})
    ids = [take["id"] for take in json.loads((output / "manifest.json").read_text())["record"]["takes"]]
    (root / "labels.json").write_text(json.dumps({ids[0]: {"task": TASKS[0], "success": True, "segments": SEGMENTS, "tags": ["a", "b"]}, ids[2]: {"task": TASKS[2], "robot_id": 7}}))
    takeset("label", output, "--from", root / "labels.json", check=0)
    return output, ids


def test_lerobot_has_tasks_subtasks_and_success(labelled, tmp_path):
    dataset, ids = labelled
    lerobot(dataset, tmp_path / "out")
    found = Export(tmp_path / "out")
    by_id = {row["takeset/episode_id"]: row for row in found.episodes}
    assert [by_id[id]["tasks"] for id in ids] == [[TASKS[0]], ["unspecified"], [TASKS[2]]]
    assert [by_id[id]["takeset/success"] for id in ids] == [True, None, None]
    tasks = pq.read_table(tmp_path / "out/meta/tasks.parquet").to_pandas()["task_index"].to_dict()
    table = pq.read_table(tmp_path / "out/data/chunk-000/file-000.parquet")
    assert found.info["features"]["language_persistent"] == {"dtype": "language", "shape": [1], "names": None} and found.info["total_tasks"] == 3
    for id, task in zip(ids, TASKS):
        rows = np.flatnonzero(np.array(table["episode_index"]) == by_id[id]["episode_index"])
        assert {table["task_index"][row].as_py() for row in rows} == {tasks[task or "unspecified"]}
        subtasks = table["language_persistent"][rows[0]].as_py()
        assert all(table["language_persistent"][row].as_py() == subtasks for row in rows)
        assert [one["content"] for one in subtasks] == ([one["text"] for one in SEGMENTS] if id == ids[0] else [])
    first = table["language_persistent"][int(np.flatnonzero(np.array(table["episode_index"]) == by_id[ids[0]]["episode_index"])[0])].as_py()
    assert {(one["role"], one["style"], one["camera"], one["tool_calls"]) for one in first} == {("assistant", "subtask", None, None)}
    frames = np.array([one["timestamp"] for one in first]) * found.info["fps"]
    assert frames[0] == 0 and abs(frames[1] - 0.3 * found.info["fps"]) < 1.5 and abs(frames[1] - round(frames[1])) < 1e-3
    lost = json.loads((tmp_path / "out/takeset-export.json").read_text())["lost"]
    assert "labels: robot_id, tags; LeRobot has a task, success and subtasks" in lost
    lerobot(dataset, tmp_path / "other", "--task", "pick up the cup", "--drop-keys", "language_persistent")
    other = Export(tmp_path / "other")
    assert {tuple(row["tasks"]) for row in other.episodes} == {("pick up the cup",)} and "language_persistent" not in other.info["features"]
    (tmp_path / "typo.json").write_text(json.dumps({ids[1]: "wipe", "sesion_9": "wipe"}))
    assert "no take or episode sesion_9" in lerobot(dataset, tmp_path / "typo", "--tasks", tmp_path / "typo.json", check=64).stderr
    # Episodes that the file does not name have their labels.
    (tmp_path / "tasks.json").write_text(json.dumps({ids[1]: "wipe"}))
    lerobot(dataset, tmp_path / "some", "--tasks", tmp_path / "tasks.json")
    assert {row["takeset/episode_id"]: row["tasks"] for row in Export(tmp_path / "some").episodes} == dict(zip(ids, [[TASKS[0]], ["wipe"], [TASKS[2]]]))


def test_a_replay_buffer_has_a_task_and_success_for_each_episode(labelled, takeset, tmp_path):
    dataset, ids = labelled
    export(takeset, dataset, "zarr", tmp_path / "out")
    buffer = zarr.open(str(tmp_path / "out"), mode="r")
    owners = [ids.index(one["take"]) for one in json.loads((tmp_path / "out/takeset-export.json").read_text())["replay_episodes"]]
    assert buffer["meta/task"][:].tolist() == [TASKS[owner] for owner in owners] and len(buffer["meta/episode_ends"]) == len(owners)
    assert buffer["meta/success"].dtype == np.int8 and buffer["meta/success"][:].tolist() == [1 if owner == 0 else -1 for owner in owners]


def test_samples_of_webdataset_have_them(labelled, takeset, tmp_path):
    import tarfile

    dataset, ids = labelled
    export(takeset, dataset, "webdataset", tmp_path / "out")
    samples = []
    for path in sorted((tmp_path / "out").rglob("*.tar")):
        with tarfile.open(path) as tar:
            samples += [json.load(tar.extractfile(member)) for member in tar if member.name.endswith(".json")]
    own = {id: [one for one in samples if one["take"] == id] for id in ids}
    assert {one["text"] for one in own[ids[0]]} == {"reach", "greifen äöü"} and own[ids[0]][0]["labels"] == {"task": TASKS[0], "success": True, "tags": ["a", "b"]}
    assert all("labels" not in one and "text" not in one for one in own[ids[1]])
    assert all(one["text"] == TASKS[2] and one["labels"] == {"task": TASKS[2], "robot_id": 7} for one in own[ids[2]])


def test_mcap_has_a_record_of_metadata(labelled, takeset, tmp_path):
    dataset, ids = labelled
    export(takeset, dataset, "mcap", tmp_path / "out")
    found = {}
    for id in ids:
        with open(tmp_path / f"out/{id}.mcap", "rb") as file:
            found[id] = {one.name: one.metadata for one in make_reader(file).iter_metadata()}.get("labels")
    segments = json.loads(found[ids[0]].pop("segments"))
    assert [one["text"] for one in segments] == ["reach", "greifen äöü"]
    assert found == {ids[0]: {"task": TASKS[0], "success": "true", "tags": '["a","b"]'}, ids[1]: None, ids[2]: {"task": TASKS[2], "robot_id": "7"}}


def test_files_of_aloha_have_the_language_where_robomimic_looks(labelled, takeset, tmp_path):
    dataset, ids = labelled
    export(takeset, dataset, "aloha", tmp_path / "out", "--fixed-length", "pad")
    found = []
    for path in sorted((tmp_path / "out").glob("episode_*.hdf5"), key=lambda path: int(path.stem.split("_")[1])):
        with h5py.File(path) as file:
            meta = file.attrs.get("ep_meta")
            found.append(json.loads(meta)["lang"] if meta else "")
    assert found == TASKS
