"""Labels of episodes: from files, options and formats into index and manifest, and to what reads datasets."""

import io
import json
import random
import subprocess
import sys
import tarfile
import zipfile

import h5py
import numpy as np
import pytest
import takeset as package
from clusters import convert_all
from command import ROOT
from documents import blocks, small_simulations
from labelled import converted, digests, found, labels, pipeline, record
from schemas import validator


def test_a_file_in_a_take_reaches_index_manifest_and_python(takeset, labelled_takes, tmp_path):
    output = converted(takeset, labelled_takes, output=tmp_path / "out")
    validator("manifest.schema.json").validate(json.loads((output / "manifest.json").read_text()))
    own = labels(output)["v1"]
    assert own["task"] == "put the cup away" and own["success"] is True and own["tags"] == ["night", "left"] and own["mass"] == 0.25
    assert set(record(output)["labels"]["v1"]["sources"].values()) == {"take: labels.yaml"} and "v2" not in labels(output)
    with package.open(output) as dataset, h5py.File(output / "dataset.h5") as index:
        episode = dataset["v1"]
        times = episode.times_ns / 1e9
        wanted = [(0, int((times < 0.1).sum()), "reach"), (int((times < 0.1).sum()), len(times), "greifen äöü")]
        stored = index["labels"][episode.name]
        assert stored.attrs["success"].dtype == np.int8 and stored.attrs["success"] == 1 and json.loads(stored.attrs["tags"]) == ["night", "left"]
        assert [stored.attrs[name] for name in ["task", "robot_id", "mass", "calibrated", "place"]] == ["put the cup away", 7, 0.25, 0, "kitchen äöü"]
        assert stored["segment_start"].dtype == stored["segment_end"].dtype == "<i8"
        rows = zip(stored["segment_start"][()].tolist(), stored["segment_end"][()].tolist(), [text.decode() for text in stored["segment_text"][()]])
        assert list(rows) == wanted
        assert index["mask/success"][()].tolist() == [episode.name.encode()] and "failure" not in index["mask"]
        own = episode.labels
        assert (own.task, own.success, own.tags, own["robot_id"], own["calibrated"]) == ("put the cup away", True, ["night", "left"], 7, False)
        assert [(one.rows.start, one.rows.stop, one.text) for one in own.segments] == wanted
        assert [own.text(row) for row in (0, len(times) - 1)] == ["reach", "greifen äöü"] and own.segments[1].success is False
        assert own.sources["task"] == "take: labels.yaml" and "robot_id=7" in repr(own)
        assert not dataset["v2"].labels and dataset["v2"].labels.text(0) is None and dataset.splits["success"] == [episode]
    takeset("verify", output, check=0)


def test_label_files_are_no_inputs(takeset, labelled_takes, tmp_path):
    output = converted(takeset, labelled_takes, output=tmp_path / "out")
    shards = digests(output)
    assert "nothing to do" in takeset("run", labelled_takes, "--output", output, check=0).stdout
    (labelled_takes / "v1/labels.yaml").write_text("task: another")
    (labelled_takes / "pour.labels.json").write_text("{}")
    assert "3 unchanged" in takeset("run", labelled_takes, "--output", output, check=0).stdout
    assert labels(output) == {"v1": {"task": "another"}} and digests(output) == shards
    assert not any("labels" in one["path"] for take in record(output)["takes"] for one in take["inputs"])
    assert "nothing to do" in takeset("run", labelled_takes, "--output", output, check=0).stdout
    # The same dataset as one that was made with these labels from the start, byte for byte.
    fresh = converted(takeset, labelled_takes, output=tmp_path / "fresh")
    assert record(fresh) == record(output) and (fresh / "dataset.h5").read_bytes() == (output / "dataset.h5").read_bytes()
    (labelled_takes / "v1/labels.yaml").unlink()
    takeset("run", labelled_takes, "--output", output, check=0)
    assert "labels" not in record(output)


def test_of_several_sources_the_later_wins_name_by_name(takeset, labelled_takes, tmp_path):
    table = tmp_path / "labels.csv"
    table.write_text('take,success,tags,start,end,text,robot_id\nv*,false,,,,,8\nv1,,"a; b",,,,\nv2,,,0,0.05,"look, then go",\nv2,true,,0.05,0.1,go,\n')
    output = converted(takeset, labelled_takes, "--labels", table, "--task", "fold", output=tmp_path / "out")
    own, sources = labels(output), record(output)["labels"]["v1"]["sources"]
    assert own["v1"]["task"] == "fold" and own["v1"]["success"] is False and own["v1"]["tags"] == ["a", "b"] and own["v1"]["robot_id"] == 8
    assert own["v1"]["mass"] == 0.25 and len(own["v1"]["segments"]) == 2 and own["pour"] == {"task": "fold"}
    assert (sources["task"], sources["success"], sources["mass"]) == ("--task", "--labels labels.csv", "take: labels.yaml")
    assert [(one["text"], one.get("success")) for one in own["v2"]["segments"]] == [("look, then go", None), ("go", True)]
    takeset("label", output, "--episode", "v1", "--task", "mine", "--success", "none", check=0)
    takeset("run", labelled_takes, "--output", output, "--task", "other", check=0)
    own = labels(output)
    assert own["v1"]["task"] == "mine" and own["v1"]["success"] is None and own["v1"]["robot_id"] == 7 and own["pour"] == {"task": "other"}
    with package.open(output) as dataset:
        assert dataset["v1"].labels.success is None and "success" not in dataset.splits


BAD = {
    "labels.csv": {
        "take,success\nv1,maybe\nv2,true\n": "labels.csv: line 2: success: expected true or false, found maybe",
        "take,start,end,text\nv1,2,1,no\nv2,0,1,yes\n": "line 2: segments: a segment starts at 2.0 s and ends at 1.0 s",
        "take,start,end,text\nv1,2,,no\nv2,0,1,yes\n": "line 2: segments: expected start and end in seconds and a text",
        "take,Task\nv1,x\n": "Task is no name of a label",
        "take,task\n,x\nv2,y\n": "line 2: it names no take",
        "take,task\nv1,x,y\nv2,y\n": "line 2: 3 fields, expected 2",
    },
    "labels.yaml": {
        "v1: {tags: night}\nv2: {task: x}\n": "line 1: tags: expected a list of texts, found text",
        "v1:\n  task: x\n  mass: [1]\n": "line 3: mass: expected a text, a number, or true or false, found a list",
        "v1: {segments: [{start: 0, end: 1, text: x, rows: 3, when: 4}]}\n": "a segment has no when",
        "v1: 3\nv2: {task: x}\n": "line 1: v1: expected an object of labels, found a number",
    },
}


@pytest.mark.parametrize("name, text", [(name, text) for name, texts in BAD.items() for text in texts])
def test_what_cannot_be_is_a_finding_of_a_run_and_refused_by_label(takeset, labelled_takes, copy, tmp_path, name, text):
    file = tmp_path / name
    file.write_text(text)
    output = converted(takeset, labelled_takes, "--labels", file, output=tmp_path / "out")
    assert BAD[name][text] in found(output, "labels-invalid")[0]["message"]
    before = (copy / "manifest.json").read_bytes()
    assert BAD[name][text].removeprefix("labels.csv: ") in takeset("label", copy, "--from", file, check=65).stderr
    assert (copy / "manifest.json").read_bytes() == before


@pytest.mark.parametrize("text", ["", "nothing,here\n1,2\n", "take,take\nv1,v1\n", 'take,task\nv1,"x\n'])
def test_a_file_without_labels_is_refused(takeset, labelled_takes, tmp_path, text):
    (tmp_path / "labels.csv").write_text(text)
    assert "labels.csv: " in takeset("run", labelled_takes, "--output", tmp_path / "out", "--labels", tmp_path / "labels.csv", check=64).stderr
    assert not (tmp_path / "out").exists()


def test_names_of_no_take_and_broken_files_of_takes_are_said(takeset, labelled_takes, tmp_path):
    (tmp_path / "labels.csv").write_text("take,task\nnobody,x\nv*,y\nx*,z\n")
    (labelled_takes / "v2/labels.json").write_text('{"task": "x", "success": 3}')
    (labelled_takes / "pour/labels.json").write_text('{"task": ')
    output = converted(takeset, labelled_takes, "--labels", tmp_path / "labels.csv", output=tmp_path / "out")
    assert found(output, "labels-unmatched")[0]["message"] == "no take has this name: labels.csv: line 2 (nobody), labels.csv: line 4 (x*)"
    message = found(output, "labels-invalid")[0]["message"]
    assert "v2: labels.json: line 1: success: expected true or false" in message and "pour: labels.json: line " in message
    assert labels(output)["v2"] == {"task": "y"} and set(labels(output)) == {"v1", "v2"}
    for _ in range(3):  # Each process has another order of its dictionaries.
        assert "nothing to do" in takeset("run", labelled_takes, "--output", output, "--labels", tmp_path / "labels.csv", check=0).stdout


def test_merge_select_and_pack_keep_labels(takeset, labelled_takes, copy, tmp_path):
    output = converted(takeset, labelled_takes, output=tmp_path / "out")
    takeset("label", output, "--episode", "v2", "--task", "Fold the towel", "--success", "false", check=0)
    for where, ids in {
        "success": ["v1"], "not success": ["pour", "v2"], "success = false": ["v2"], 'task ~ "cup"': ["v1"], "task ~ 'Fold*'": ["v2"], "tags has left": ["v1"],
        "segments ~ greifen": ["v1"], "labels.robot_id = 7 and labels.mass < 0.3": ["v1"], "labels.place ~ kitchen*": ["v1"], "task = 'put the cup away'": ["v1"],
    }.items():  # fmt: skip
        chosen = tmp_path / f"chosen-{len(list(tmp_path.iterdir()))}"
        takeset("select", output, "--where", where, "--output", chosen, check=0)
        assert [take["id"] for take in record(chosen)["takes"]] == ids, where
        assert labels(chosen) == {id: own for id, own in labels(output).items() if id in ids}
        takeset("verify", chosen, check=0)
    assert "success" in takeset("select", output, "--where", "success = yes", "--output", tmp_path / "no", check=64).stderr
    takeset("label", chosen, "--episode", "v1", "--task", "elsewhere", check=0)
    scan = tmp_path / "scan"
    takeset("select", copy, "--episodes", "scan", "--output", scan, check=0)
    merged = tmp_path / "merged"
    takeset("merge", output, scan, "--output", merged, check=0)
    assert labels(merged) == labels(output)
    takeset("pack", merged, "--output", tmp_path / "packed.h5", check=0)
    takeset("verify", tmp_path / "packed.h5", check=0)
    with package.open(tmp_path / "packed.h5") as packed, package.open(merged) as dataset, h5py.File(tmp_path / "packed.h5") as file:
        for one, other in zip(packed, dataset, strict=True):
            assert dict(one.labels) == dict(other.labels), one.id
            assert [(part.rows, part.text) for part in one.labels.segments] == [(part.rows, part.text) for part in other.labels.segments]
            meta = file["data"][one.name].attrs.get("ep_meta")
            assert (json.loads(meta)["lang"] if meta else None) == other.labels.task


@pytest.mark.parametrize("seed", range(8))
def test_the_rows_of_segments_are_those_whose_time_lies_in_them(takeset, tiny_takes, tmp_path, seed):
    """By random steps that split, trim, thin out and resample."""
    rng = random.Random(seed)
    takes = tmp_path / "takes"
    takeset.simulate(takes / "take", "--seconds", 2, "--size", "16x12", "--seed", seed)
    segments = [{"start": rng.uniform(-0.2, 1.9), "text": f"part {number}"} for number in range(6)]
    segments = [one | {"end": one["start"] + rng.uniform(0.001, 0.8)} for one in segments]
    (takes / "take/labels.json").write_text(json.dumps({"segments": segments}))
    plain = converted(takeset, takes, "--pipeline", pipeline(tmp_path / "plain.yaml", []), output=tmp_path / "plain")
    with package.open(plain) as dataset:
        origin = dataset["take"].origin_ns
    kinds = ["- trim: {start: 0.3, end: 0.2}", "- decimate: {every: 3}", "- resample: {rate: 25}", "- drop-frames: {blur: 0.9}"]
    steps = rng.sample(kinds, rng.randint(0, 3))
    steps.append(rng.choice(["- split-episodes: {at: 0.7}", "- split-episodes: {at: 0.4}"]))
    output = converted(takeset, takes, "--pipeline", pipeline(tmp_path / "steps.yaml", steps), output=tmp_path / "out")
    with package.open(output) as dataset:
        assert len(dataset) > 1
        for episode in dataset:
            times = (episode.times_ns + episode.origin_ns - origin) / 1e9
            wanted = []
            for one in segments:
                rows = np.flatnonzero((times >= round(one["start"], 9)) & (times < round(one["end"], 9)))
                if len(rows):
                    wanted.append((int(rows[0]), int(rows[-1]) + 1, one["text"]))
            assert sorted((one.rows.start, one.rows.stop, one.text) for one in episode.labels.segments) == sorted(wanted)


@pytest.mark.parametrize("name, value", [
    ("tags", "[" * 60_000), ("tags", "{}"), ("success", 2.5), ("success", "no"), ("task", 3), ("segment_start", [0, 1, 2]), ("segment_end", [0, 0]),
    ("segment_text", [1, 2])])  # fmt: skip
def test_damaged_labels_of_a_packed_file_are_errors_of_the_package(takeset, labelled_takes, tmp_path, name, value):
    takeset("pack", converted(takeset, labelled_takes, output=tmp_path / "out"), "--output", tmp_path / "packed.h5", check=0)
    with h5py.File(tmp_path / "packed.h5", "r+") as file:
        [group] = file["labels"].values()
        if name.startswith("segment"):
            del group[name]
            group[name] = value
        else:
            group.attrs[name] = value
    with package.open(tmp_path / "packed.h5") as dataset, pytest.raises(package.TakesetError):
        dataset["v1"].labels.text(0)


def test_windows_have_the_text_of_their_row(takeset, labelled_takes, tmp_path):
    from takeset._window_options import WindowOptions
    from takeset._windows import WindowReader

    output = converted(takeset, labelled_takes, output=tmp_path / "out")
    for ids, wanted in ((["v1"], {"reach", "greifen äöü"}), (["v2"], {""})):
        reader = WindowReader(output, ids, WindowOptions(1, 1, ("pose",), actions=None, labels=True))
        texts = [reader[number]["text"] for number in range(len(reader))]
        assert set(texts) == wanted and len(texts) > 3
    assert "text" not in WindowReader(output, ["v1"], WindowOptions(1, 1, ("pose",), actions=None))[0]


def test_labels_of_steps_and_of_the_format(takeset, tiny_takes, tmp_path):
    (tmp_path / "steps.py").write_text(
        "from takeset import steps\n\n@steps.labels(reads=['pose'])\ndef rate(block):\n"
        "    return {'success': True, 'height': float(block.pose[-1, 1]), 'measures': {'x': 1.0}, 'bad': [1]}\n"
    )
    takeset("simulate", "iphumi", "--output", tmp_path / "takes/pour", "--seconds", 0.3, "--size", "64x48", check=0)
    [table] = [path for path in (tmp_path / "takes").rglob("*.json") if "rgbTimes" in path.read_text()]
    content = json.loads(table.read_text())
    first, last = content["rgbTimes"][0], content["rgbTimes"][-1]
    table.write_text(json.dumps(content | {"taskNames": ["pour", "pour"], "taskStartTimestamps": [first, content["rgbTimes"][3]], "taskEndTimestamps": [content["rgbTimes"][3], last], "isErrorCorrection": True}))
    path = pipeline(tmp_path / "p.yaml", ["- python: {file: steps.py, function: rate}"])
    output = converted(takeset, tmp_path / "takes", "--pipeline", path, output=tmp_path / "out")
    [own], [sources] = labels(output).values(), [one["sources"] for one in record(output)["labels"].values()]
    assert own["success"] is True and isinstance(own["height"], float) and own["task"] == "pour" and own["error_correction"] is True
    assert [one["rows"] for one in own["segments"]] == [[0, 3], [3, len(content["rgbTimes"]) - 1]] and "measures" not in own
    assert (sources["success"], sources["task"]) == ("steps.labels", "format") and "bad: expected a text" in found(output, "labels-invalid")[0]["message"]


def test_a_cluster_gives_the_same_labels(takeset, labelled_takes, tmp_path):
    whole = converted(takeset, labelled_takes, "--task", "fold", output=tmp_path / "whole")
    takeset("plan", labelled_takes, "--tasks", "--output", tmp_path / "out", check=0)
    convert_all(takeset, tmp_path / "out")
    takeset("publish", tmp_path / "out", "--task", "fold", check=0)
    assert record(tmp_path / "out")["labels"] == record(whole)["labels"]
    assert (tmp_path / "out/dataset.h5").read_bytes() == (whole / "dataset.h5").read_bytes()


def test_files_of_labels_that_are_not_read_are_said(takeset, labelled_takes, tmp_path):
    (tmp_path / "elsewhere.yaml").write_text("task: x")
    (labelled_takes / "v2/labels.yaml").symlink_to(tmp_path / "elsewhere.yaml")
    (labelled_takes / "pour/labels.json").mkdir()
    output = converted(takeset, labelled_takes, output=tmp_path / "out")
    message = found(output, "labels-invalid")[0]["message"]
    assert "v2: labels.yaml is not a file; links are not followed" in message and "pour: labels.json is not a file" in message


def test_a_split_has_its_share_of_each_task(takeset, tmp_path):
    for number in range(8):
        takeset.simulate(tmp_path / f"takes/t{number}", "--seconds", 0.2, "--size", "16x12", "--seed", number)
    (tmp_path / "labels.csv").write_text("take,task\nt0,a\nt1,a\nt2,a\nt3,a\nt*,\nt4,b\nt5,b\nt6,b\nt7,b\n")
    path = pipeline(tmp_path / "p.yaml", ["- split: {valid: 0.25, group: take, stratify: task}"])
    output = converted(takeset, tmp_path / "takes", "--pipeline", path, "--labels", tmp_path / "labels.csv", output=tmp_path / "out")
    own = labels(output)
    assert sorted(own[id]["task"] for id in record(output)["splits"]["valid"]) == ["a", "b"]
    takeset("label", output, *(word for n in range(7) for word in ("--episode", f"t{n}")), "--task", "c", check=0)
    takeset("run", tmp_path / "takes", "--output", output, "--pipeline", path, "--labels", tmp_path / "labels.csv", check=0)
    assert "within each task" in record(output)["splits"]["rule"] and "t7" not in record(output)["splits"]["valid"]
    assert "nothing to do" in takeset("run", tmp_path / "takes", "--output", output, "--pipeline", path, "--labels", tmp_path / "labels.csv", check=0).stdout


def test_the_report_and_the_doctor_know_tasks(takeset, labelled_takes, tmp_path):
    output = converted(takeset, labelled_takes, output=tmp_path / "out")
    rows = {row["id"]: row for row in json.loads(takeset("report", output, "-o", tmp_path / "r.html", "--json", check=0).stdout)["takes"]}
    assert rows["v1"]["task"] == "put the cup away" and rows["v1"]["success"] == "yes" and rows["v1"]["tags"] == ["night", "left"] and "task" not in rows["v2"]
    assert 'id="task"' in (tmp_path / "r.html").read_text() and "greifen" in (tmp_path / "r.html").read_text()
    found = json.loads(takeset("verify", output, "--for", "lerobot", "--json").stdout)["diagnoses"]
    [task] = [one for one in found if one["code"] == "task-missing"]
    assert task["severity"] == "trains-badly" and task["episodes"] == ["pour", "v2"]


def test_the_page_says_what_happens(takeset, tmp_path):
    """Its file in a take, its table, its commands one after the other, and its script."""
    for number in 1, 3:
        takeset.simulate(tmp_path / f"takes/kitchen-{number}", "--seconds", 3.2, "--size", "16x12", "--seed", number)
    [(yaml, table), commands, [script]] = [sum((blocks("docs/labels.md", kind) for kind in kinds), []) for kinds in (["yaml", "csv"], ["sh"], ["python"])]
    (tmp_path / "takes/kitchen-1/labels.yaml").write_text(yaml)
    (tmp_path / "labels.csv").write_text(table)
    output = converted(takeset, tmp_path / "takes", "--labels", tmp_path / "labels.csv", output=tmp_path / "dataset")
    own = labels(output)
    assert own["kitchen-1"]["robot_id"] == 7 and own["kitchen-1"]["success"] is True and not found(output, "labels-invalid")
    assert [one["text"] for one in own["kitchen-3"]["segments"]] == ["reach for the cup", "put it on the shelf"] and own["kitchen-3"]["tags"] == ["night", "left"]
    environment = small_simulations(tmp_path, "16x12") | {"PYTHONPATH": str(ROOT / "python")}
    subprocess.run(["bash", "-ec", "".join(commands)], cwd=tmp_path, env=environment, check=True)
    assert labels(output)["kitchen-3"]["task"] == "put the cup away" and labels(output)["kitchen-3"]["success"] is None
    said = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True).stdout
    assert "put it on the shelf" in said and "put the cup away True" in said


@pytest.mark.parametrize("is_zip", [True, False])
@pytest.mark.parametrize("folder", ["", "inside/"])
def test_a_file_in_the_archive_of_a_take_counts(takeset, labelled_takes, tmp_path, is_zip, folder):
    """It changes with its archive alone; a file beside the archive says more."""
    source = labelled_takes / "v1"
    (tmp_path / "zipped").mkdir()

    def pack(text):
        files = [(path, folder + str(path.relative_to(source))) for path in sorted(source.rglob("*")) if path.is_file() and not path.name.startswith("labels.")]
        if is_zip:
            with zipfile.ZipFile(tmp_path / "zipped/pour.zip", "w") as archive:
                for path, name in files:
                    archive.write(path, name)
                archive.writestr(folder + "labels.yaml", text)
        else:
            with tarfile.open(tmp_path / "zipped/pour.tar", "w") as archive:
                for path, name in files:
                    archive.add(path, name)
                member = tarfile.TarInfo(folder + "labels.yaml")
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text.encode()))

    pack("task: from the archive\ntags: [a]\nsegments: [{start: 0, end: 9, text: all}]\n")
    output = converted(takeset, tmp_path / "zipped", output=tmp_path / "out")
    ((id, own),) = record(output)["labels"].items()
    assert (own["task"], own["tags"], own["sources"]["task"]) == ("from the archive", ["a"], "take: labels.yaml") and own["segments"][0]["rows"][0] == 0
    assert "nothing to do" in takeset("run", tmp_path / "zipped", "--output", output, check=0).stdout
    (tmp_path / "zipped/pour.labels.json").write_text('{"task": "from beside it"}')
    takeset("run", tmp_path / "zipped", "--output", output, check=0)
    own = record(output)["labels"][id]
    assert (own["task"], own["tags"]) == ("from beside it", ["a"])
    (tmp_path / "zipped/pour.labels.json").unlink()
    pack("task: 3\nsuccess: true\n")
    takeset("run", tmp_path / "zipped", "--output", output, check=0)
    assert record(output)["labels"][id]["success"] is True
    assert found(output, "labels-invalid")[0]["message"].startswith(f"{id}: labels.yaml: line 1: task: expected a text")
    pack("x: " + "y" * (1 << 20))
    takeset("run", tmp_path / "zipped", "--output", output, check=0)
    assert "over the limit of 1048576" in found(output, "labels-invalid")[0]["message"]


def test_texts_of_json_are_kept_to_the_letter(takeset, labelled_takes, copy, tmp_path):
    """YAML, which reads them, ends lines at some characters."""
    text = "  a / b: # \u2028 \u2029 \x85 \U0001f600 \t 'x' \\ \" \n end  "
    (tmp_path / "labels.json").write_text(json.dumps({"v1": {"task": text, "tags": ["yes", "- x", "{}", "1.0"]}}, ensure_ascii=False))
    takeset("label", copy, "--from", tmp_path / "labels.json", check=0)
    assert labels(copy)["v1"]["task"] == text and labels(copy)["v1"]["tags"] == ["yes", "- x", "{}", "1.0"]
