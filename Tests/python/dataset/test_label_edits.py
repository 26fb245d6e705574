"""takeset label: labels that somebody sets by hand change index and manifest only, in one moment, and stay."""

import csv
import io
import json
import re
import shutil
import subprocess

import h5py
import pytest
import takeset as package
from command import BINARY
from labelled import converted, digests, found, labels, pipeline, record
from system import calls, spread, stopped


def state(dataset):
    """What a reader sees of both files."""
    with h5py.File(dataset / "dataset.h5") as index:
        masks = {name: index["mask"][name][()].tolist() for name in index["mask"]}
        stored = {name: dict(one.attrs) for name, one in index["labels"].items()} if "labels" in index else {}
    return labels(dataset), masks, stored


def test_label_changes_index_and_manifest_only(takeset, copy, tmp_path):
    before, shards = record(copy), digests(copy)
    takeset("label", copy, "--episode", "v1", "--episode", "scan", "--task", "x", "--tag", "a", "--tag", "b", "--set", "robot_id=7", "--set", "who=me", check=0)
    assert labels(copy) == {id: {"task": "x", "tags": ["a", "b"], "robot_id": 7, "who": "me"} for id in ["v1", "scan"]}
    assert digests(copy) == shards and not list(copy.glob(".*"))
    after = record(copy)
    assert {name: one for name, one in after.items() if name not in ("labels", "index")} == {name: one for name, one in before.items() if name != "index"}
    takeset("verify", copy, check=0)
    assert "0 episodes labelled, 1 had these labels already" in takeset("label", copy, "--episode", "v1", "--task", "x", check=0).stdout
    takeset("label", copy, "--episode", "v1", "--set", "robot_id=", "--tag", "c", "--success", "false", check=0)
    assert record(copy)["labels"]["v1"]["robot_id"] is None and labels(copy)["v1"]["tags"] == ["c"]
    with h5py.File(copy / "dataset.h5") as index:
        assert len(index["mask/failure"]) == 1 and "robot_id" not in index["labels"][index["mask/failure"][0].decode()].attrs


def test_no_shard_is_opened(takeset, copy, tmp_path):
    (copy / "episodes").rename(tmp_path / "aside")
    (copy / "episodes").mkdir()
    takeset("label", copy, "--episode", "v1", "--task", "x", "--success", "true", check=0)
    (copy / "episodes").rmdir()
    (tmp_path / "aside").rename(copy / "episodes")
    takeset("verify", copy, check=0)
    assert labels(copy) == {"v1": {"task": "x", "success": True}}


def test_what_label_refuses(takeset, copy, tmp_path):
    before = (copy / "manifest.json").read_bytes()
    assert "has no episode v11" in (said := takeset("label", copy, "--episode", "v11", "--task", "x", check=64).stderr) and "v1" in said
    (tmp_path / "labels.csv").write_text("take,task\nv1,x\nv9,y\n")
    assert "labels.csv: line 3: " in takeset("label", copy, "--from", tmp_path / "labels.csv", check=64).stderr
    for options in [["--list", "--episode", "v1"], ["--episode", "v1"], ["--task", "x"], [], ["--list", "--csv", "--json"]]:
        takeset("label", copy, *options, check=64)
    takeset("label", copy, "--episode", "v1", "--set", "Robot=1", check=64)
    takeset("label", tmp_path, "--list", check=64)
    assert (copy / "manifest.json").read_bytes() == before


def test_a_listing_can_be_edited_and_read_back(takeset, labelled_takes, tmp_path):
    output = converted(takeset, labelled_takes, output=tmp_path / "out")
    takeset("label", output, "--episode", "v2", "--task", 'say "hi", then\ngo', "--tag", "x;", "--set", "robot_id=7", check=0)
    text = takeset("label", output, "--list", "--csv", check=0).stdout
    lines = list(csv.DictReader(io.StringIO(text)))
    assert [line["take"] for line in lines] == ["pour", "v1", "v1", "v1", "v2"] and lines[4]["task"] == 'say "hi", then\ngo'
    assert json.loads(takeset("label", output, "--list", "--json", check=0).stdout)["v1"]["task"] == "put the cup away"
    assert re.search(r"^v1 +put the cup away +true +night;left +2 ", takeset("label", output, "--list", check=0).stdout, re.M)
    (tmp_path / "labels.csv").write_text(text)
    before = labels(output)
    takeset("label", output, "--from", tmp_path / "labels.csv", check=0)
    after = labels(output)
    assert after.pop("v2")["tags"] == ["x"] and before.pop("v2")["tags"] == ["x;"] and after["v1"] == before["v1"]


def test_killed_at_any_change_it_is_old_or_new(takeset, failing_look, copy, tmp_path):
    edit = ["--episode", "v1", "--task", "new", "--success", "true"]
    whole = shutil.copytree(copy, tmp_path / "whole")
    count = calls(takeset, failing_look, "change", whole, "label", whole, *edit)
    states = [state(copy), state(whole)]
    assert states[0] != states[1] and count > 5
    for at in spread(min(count, 24), count):
        output = shutil.copytree(copy, tmp_path / f"killed-{at}")
        process = stopped([BINARY, "label", output, *edit], failing_look, "change", output, at)
        process.kill()
        process.wait()
        # The next command is one that only reads.
        takeset("verify", output, check=0)
        assert state(output) in states
        takeset("label", output, *edit, check=0)
        assert state(output) == states[1] and not list(output.glob(".*.next"))
        shutil.rmtree(output)


def edited(takeset, labelled_takes, tmp_path, *options):
    output = converted(takeset, labelled_takes, *options, output=tmp_path / "edited")
    takeset("label", output, "--episode", "v2", "--task", "mine", "--success", "true", check=0)
    return output


def test_edits_outlive_a_failure_of_their_take(takeset, labelled_takes, tmp_path):
    output, sound = edited(takeset, labelled_takes, tmp_path), (labelled_takes / "v2/metadata.json").read_bytes()
    (tmp_path / "labels.yaml").write_text("v2: {segments: [{start: 0, end: 0.1, text: x}]}")
    takeset("label", output, "--from", tmp_path / "labels.yaml", check=0)
    (labelled_takes / "v2/metadata.json").write_text("{")
    takeset("run", labelled_takes, "--output", output, check=3)
    assert labels(output)["v2"].pop("segments") == [{"start": 0, "end": 0.1, "text": "x"}]
    assert labels(output)["v2"]["task"] == "mine" and not found(output, "labels-unmatched")
    (labelled_takes / "v2/metadata.json").write_bytes(sound)
    takeset("run", labelled_takes, "--output", output, check=0)
    [segment] = labels(output)["v2"].pop("segments")
    assert segment["rows"][0] == 0 and labels(output)["v2"]["task"] == "mine" and labels(output)["v2"]["success"] is True


def test_edits_outlive_a_run_that_stops_halfway(takeset, labelled_takes, tmp_path):
    output, sound = edited(takeset, labelled_takes, tmp_path), (labelled_takes / "v1/metadata.json").read_bytes()
    (labelled_takes / "v1/metadata.json").write_text("{")
    other = pipeline(tmp_path / "other.yaml", [])
    takeset("run", labelled_takes, "--output", output, "--pipeline", other, "--replace", "--on-failure", "stop", "--jobs", 1, check=3)
    (labelled_takes / "v1/metadata.json").write_bytes(sound)
    takeset("run", labelled_takes, "--output", output, "--pipeline", other, "--replace", check=0)
    assert labels(output)["v2"] == {"task": "mine", "success": True}


def test_edits_of_a_take_are_those_of_its_episodes_and_wait_while_it_is_gone(takeset, labelled_takes, tmp_path):
    output = edited(takeset, labelled_takes, tmp_path, "--pipeline", pipeline(tmp_path / "whole.yaml", []))
    takeset("run", labelled_takes, "--output", output, "--replace", "--pipeline", pipeline(tmp_path / "split.yaml", ["- split-episodes: {at: 0.1}"]), check=0)
    parts = [take["id"] for take in record(output)["takes"] if take["id"].startswith("v2.")]
    assert len(parts) > 1 and all(labels(output)[id]["task"] == "mine" for id in parts) and not found(output, "labels-unmatched")
    shutil.move(labelled_takes / "v2", tmp_path / "aside")
    takeset("run", labelled_takes, "--output", output, "--replace", "--prune", "--pipeline", tmp_path / "whole.yaml", check=0)
    assert "v2, whose labels are kept" in found(output, "labels-unmatched")[0]["message"]
    shutil.move(tmp_path / "aside", labelled_takes / "v2")
    takeset("run", labelled_takes, "--output", output, "--pipeline", tmp_path / "whole.yaml", check=0)
    assert labels(output)["v2"] == {"task": "mine", "success": True} and not found(output, "labels-unmatched")
    takeset("verify", output, check=0)


def test_segments_outside_of_the_rows_wait_for_them(takeset, labelled_takes, tmp_path):
    (tmp_path / "labels.yaml").write_text("v2: {segments: [{start: 0, end: 0.05, text: first}, {start: 0.05, end: 9, text: rest}]}")
    output = converted(takeset, labelled_takes, "--pipeline", pipeline(tmp_path / "trim.yaml", ["- trim: {start: 0.1}"]), output=tmp_path / "out")
    takeset("label", output, "--from", tmp_path / "labels.yaml", check=0)
    assert "1 had these labels already" in takeset("label", output, "--from", tmp_path / "labels.yaml", check=0).stdout
    with package.open(output) as dataset:
        assert [one.text for one in dataset["v2"].labels.segments] == ["rest"]
    takeset("run", labelled_takes, "--output", output, "--replace", "--pipeline", pipeline(tmp_path / "whole.yaml", []), check=0)
    with package.open(output) as dataset:
        assert [one.text for one in dataset["v2"].labels.segments] == ["first", "rest"]


def test_many_segments_and_many_labels(takeset, labelled_takes, tmp_path):
    (tmp_path / "labels.csv").write_text("take,start,end,text\n" + "".join(f"v1,{n / 1e5},{n / 1e5 + 0.1},t{n}\n" for n in range(12_000)))
    output = converted(takeset, labelled_takes, output=tmp_path / "out")
    takeset("label", output, "--from", tmp_path / "labels.csv", check=0)
    takeset("label", output, "--episode", "v1", *(word for n in range(20) for word in ("--set", f"k{n}={'x' * 3000}")), check=0)
    takeset("run", labelled_takes, "--output", output, check=0)
    assert len(labels(output)["v1"]["segments"]) == 12_000 and labels(output)["v1"]["k19"] == "x" * 3000
    takeset("pack", output, "--output", tmp_path / "packed.h5", check=0)
    takeset("verify", tmp_path / "packed.h5", check=0)
    with package.open(tmp_path / "packed.h5") as packed, package.open(output) as dataset:
        assert dict(packed["v1"].labels) == dict(dataset["v1"].labels) and len(packed["v1"].labels.segments) == len(dataset["v1"].labels.segments) > 10_000


def test_of_one_episode_in_two_datasets_edits_win(takeset, labelled_takes, copy, tmp_path):
    one, other = converted(takeset, labelled_takes, output=tmp_path / "one"), shutil.copytree(copy, tmp_path / "other")
    for id in ["v2", "pour"]:
        shutil.rmtree(labelled_takes / id)
    plain = converted(takeset, labelled_takes, output=tmp_path / "plain")
    again = shutil.copytree(plain, tmp_path / "again")
    takeset("label", again, "--episode", "v1", "--task", "mine", check=0)
    takeset("merge", plain, again, "--output", tmp_path / "merged", check=0)
    own = labels(tmp_path / "merged")["v1"]
    assert own["task"] == "mine" and own["success"] is True and own["robot_id"] == 7


def test_a_damaged_manifest_is_said_and_one_with_other_line_ends_stays_sound(takeset, copy, labelled_takes, tmp_path):
    output = edited(takeset, labelled_takes, tmp_path)
    text = (output / "manifest.json").read_text()
    place = text.index('"findings":', text.index('"takes":['))
    (output / "manifest.json").write_text(text[:place] + "\n" + text[place:])
    takeset("verify", output, check=0)
    takeset("label", output, "--episode", "v2", "--task", "new", check=0)
    takeset("verify", output, check=0)
    (output / "manifest.json").unlink()
    assert "labels that takeset label has set may be gone" in takeset("run", labelled_takes, "--output", output, check=0).stderr


def test_findings_of_a_run_stay_after_an_edit(takeset, labelled_takes, tmp_path):
    (labelled_takes / "pour/labels.yaml").write_text("success: maybe")
    output = edited(takeset, labelled_takes, tmp_path)
    assert "maybe" in found(output, "labels-invalid")[0]["message"]
    assert "nothing to do" in takeset("run", labelled_takes, "--output", output, check=0).stdout


def test_texts_that_tables_find_hard(takeset, copy, tmp_path):
    texts = {"v1": "a\r\nb", "v2": "a,\u0301b", "scan": '"\u0301', "pour": "\U0001f600" * 12 + " end"}
    for id, text in texts.items():
        takeset("label", copy, "--episode", id, "--task", text, "--set", "serial=12345678901234567890", check=0)
    assert "\U0001f600" * 12 + " end" in takeset("label", copy, "--list", check=0).stdout
    (tmp_path / "labels.csv").write_bytes(subprocess.run([BINARY, "label", copy, "--list", "--csv"], stdout=subprocess.PIPE, check=True).stdout)
    before = labels(copy)
    assert before["v1"]["serial"] == "12345678901234567890" and {id: own["task"] for id, own in before.items()} == texts
    takeset("label", copy, "--from", tmp_path / "labels.csv", check=0)
    assert labels(copy) == before
    (tmp_path / "labels.json").write_text('{"v1": {"serial": 12345678901234567890}}')
    assert "too large to be exact" in takeset("label", copy, "--from", tmp_path / "labels.json", check=65).stderr
