"""What a newcomer runs into: copies among the takes, names that no take has, files that are no take, and questions about a dataset's files."""

import json
import shutil
import zipfile

import h5py
import numpy as np
import pytest
from conversions import pipeline
from outputs import manifest
from phone_takes import zipped
from PIL import Image
from resample_oracle import steps as steps_of
from small_sessions import put, session


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """Sessions a and b, which differ."""
    root = tmp_path_factory.mktemp("recordings")
    for name in "ab":
        put(root / name, session("v2", count=24, seed=ord(name), size=(48, 24)))
    return root


def findings(output):
    return {f["code"]: f for f in manifest(output)["record"]["findings"]}


def split(tmp_path, **steps):
    return pipeline(tmp_path, **{"split": {"valid": 0.3, "group": "take"}, **steps})


# MARK: Copies


def encoded_again(source, target):
    shutil.copytree(source, target)
    for path in target.rglob("*.jpg"):
        Image.open(path).save(path, quality=30)


def archived(source, target):
    zipped(source, f"{target}.zip", f"{source.name}/")


@pytest.mark.parametrize("copy, what", [(shutil.copytree, "files"), (encoded_again, "poses"), (archived, "poses")])
def test_copies_are_in_one_part_and_said(takeset, recordings, tmp_path, copy, what):
    for seed in range(3):
        root = tmp_path / str(seed) / "in"
        shutil.copytree(recordings, root)
        copy(root / "a", root / "zz")
        arguments = split(tmp_path / str(seed), split={"valid": 0.4, "group": "take", "seed": seed})
        done = takeset.convert(root, output=root.parent / "out", arguments=arguments)
        found = findings(root.parent / "out")["duplicate-content"]
        assert (found["severity"], found["count"]) == ("warning", 1)
        assert found["message"] == f"takes with the same {what} as another one: zz of a" and found["message"] in done.stderr
        splits = manifest(root.parent / "out")["record"]["splits"]
        parts = {take: part for part in ("train", "valid", "test") for take in splits[part]}
        assert parts["a"] == parts["zz"] != parts["b"]
    takeset.convert(root, output=tmp_path / "strict", arguments=[*arguments, "--fail-on", "warning"], check=3)


def test_different_recordings_are_no_copies(takeset, recordings, tmp_path):
    takeset.convert(recordings, output=tmp_path / "out", arguments=split(tmp_path))
    assert "duplicate-content" not in findings(tmp_path / "out")
    assert "duplicate-content" not in takeset("verify", "--for", "robomimic", tmp_path / "out", check=None).stdout


def test_copies_in_different_parts_of_a_merge_are_said(takeset, recordings, tmp_path):
    (tmp_path / "first").mkdir(), (tmp_path / "second").mkdir()
    shutil.copytree(recordings / "a", tmp_path / "first/a"), shutil.copytree(recordings / "b", tmp_path / "first/b")
    encoded_again(recordings / "a", tmp_path / "second/again")
    arguments = pipeline(tmp_path)
    for name, lists in ("first", {"valid": ["a"], "train": ["b"]}), ("second", {"train": ["again"]}):
        (tmp_path / f"{name}.json").write_text(json.dumps(lists))
        takeset.convert(tmp_path / name, output=tmp_path / f"out-{name}", arguments=[*arguments, "--split-file", tmp_path / f"{name}.json"])
    takeset("merge", tmp_path / "out-first", tmp_path / "out-second", "--output", tmp_path / "out")
    found = findings(tmp_path / "out")["duplicate-content"]["message"]
    assert found == "takes with the same poses as another one: again of a; what is learned is also what is tested: a in valid, again in train"
    said = json.loads(takeset("verify", "--for", "robomimic", tmp_path / "out", "--json", check=None).stdout)["diagnoses"]
    (copies,) = [d for d in said if d["code"] == "duplicate-content"]
    assert copies["severity"] == "trains-badly" and copies["episodes"] == ["a", "again"] and "a in valid, again in train" in copies["message"]


# MARK: Names in options


@pytest.mark.parametrize("steps", [
    [{"align": {"latency": {"jonts": 0.02}}}], [{"align": {}}, {"resample": {"rate": 20, "method": {"jonts": "linear"}}}],
])
def test_a_name_that_no_take_has_is_a_warning_of_the_dataset(takeset, recordings, tmp_path, steps):
    arguments = steps_of(tmp_path, *steps)
    done = takeset.convert(recordings, output=tmp_path / "out", arguments=arguments)
    found = findings(tmp_path / "out")["option-unused"]
    assert (found["severity"], found["field"]) == ("warning", "jonts")
    assert "names jonts, which no take of the dataset has; did you mean joints?" in found["message"]
    assert found["message"] in done.stderr and found["message"] in takeset("inspect", tmp_path / "out").stdout
    takeset("verify", tmp_path / "out", check=0)
    takeset.convert(recordings, output=tmp_path / "strict", arguments=[*arguments, "--fail-on", "warning"], check=3)


def test_a_name_that_some_take_has_is_none(takeset, recordings, tmp_path):
    shutil.copytree(recordings, tmp_path / "in")
    put(tmp_path / "in/old", session("v1", count=24, seed=3, size=(48, 24)))
    takeset.convert(tmp_path / "in", output=tmp_path / "out", arguments=steps_of(tmp_path, {"align": {"latency": {"joints": 0.02}}}))
    assert "option-unused" not in findings(tmp_path / "out")


# MARK: Everything in the input


def test_what_is_no_take_is_named(takeset, recordings, tmp_path):
    root = shutil.copytree(recordings, tmp_path / "in")
    for name in "record3d_copy/rgb/0.jpg", "photos/a.jpg", "notes.txt", "deep/er/x.txt":
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")
    with zipfile.ZipFile(root / "holiday.zip", "w") as archive:
        archive.writestr("a.jpg", b"x")
    words = "ignored, because no reader recognizes them: 3 folders, 1 archive, 1 file (deep, photos, record3d_copy, holiday.zip, …)\n"
    assert words in takeset.convert(root, output=tmp_path / "out", arguments=pipeline(tmp_path)).stderr
    assert words in takeset("plan", root).stderr and words in takeset("inspect", root, "--summary").stderr
    assert "ignored" not in takeset("plan", recordings).stderr
    # The record says so too, is written again when that changes, and is the same from a cluster.
    found = manifest(tmp_path / "out")["record"]
    (finding,) = [f for f in found["findings"] if f["code"] == "input-ignored"]
    assert (finding["severity"], finding["count"], finding["message"] + "\n") == ("info", 5, words)
    assert "nothing to do" in takeset.convert(root, output=tmp_path / "out", arguments=pipeline(tmp_path)).stdout
    takeset("plan", root, "--output", tmp_path / "tasks", "--tasks", *pipeline(tmp_path), check=0)
    takeset("convert", tmp_path / "tasks", "--task", 0, "--count", len(found["takes"]), check=0)
    takeset("publish", tmp_path / "tasks", check=0)
    assert manifest(tmp_path / "tasks")["record"] == found
    (root / "notes.txt").unlink()
    takeset.convert(root, output=tmp_path / "out", arguments=pipeline(tmp_path))
    (finding,) = [f for f in manifest(tmp_path / "out")["record"]["findings"] if f["code"] == "input-ignored"]
    assert finding["count"] == 4


# MARK: Files of a dataset


@pytest.fixture(scope="module")
def dataset(takeset, recordings, tmp_path_factory):
    folder = tmp_path_factory.mktemp("dataset")
    takeset.convert(recordings, output=folder / "out", arguments=pipeline(folder, actions={"rotation-layout": "rows"}))
    return folder / "out"


def test_files_of_a_dataset_are_known(takeset, dataset, tmp_path):
    said = takeset("inspect", dataset / "dataset.h5", check=None).stderr
    assert f"this is the index of a Takeset dataset; its folder is {dataset.resolve()}" in said
    said = takeset("inspect", dataset / "episodes/a.h5", check=None).stderr
    assert f"this is an episode of a Takeset dataset; its folder is {dataset.resolve()}" in said
    shutil.copy(dataset / "dataset.h5", tmp_path / "dataset.h5")
    for path in tmp_path, tmp_path / "dataset.h5":
        done = takeset("inspect", path, check=None)
        assert "the index of a Takeset dataset" in done.stdout + done.stderr and "manifest.json" in done.stdout + done.stderr


def test_a_packed_file_and_an_interrupted_run_are_known(takeset, dataset, tmp_path):
    takeset("pack", dataset, "--output", tmp_path / "packed.h5", check=0)
    assert "takeset verify" in takeset("inspect", tmp_path / "packed.h5", check=None).stderr
    shutil.copytree(dataset, tmp_path / "cut")
    for name in "manifest.json", "dataset.h5":
        (tmp_path / "cut" / name).unlink()
    for command in "inspect", "verify":
        done = takeset(command, tmp_path / "cut", check=None)
        assert done.returncode not in (0, 70) and "was interrupted after 2 episodes; the same takeset run again goes on" in done.stdout + done.stderr


def test_a_take_whose_inputs_are_gone_is_one_difference(takeset, recordings, tmp_path):
    shutil.copytree(recordings, tmp_path / "in")
    takeset.convert(tmp_path / "in", output=tmp_path / "out", arguments=pipeline(tmp_path))
    shutil.rmtree(tmp_path / "in/a")
    lines = takeset("verify", tmp_path / "out", "--inputs", check=2).stdout.splitlines()
    assert sum(" gone: there is no " in line for line in lines) == 1 and "1 difference" in lines[-1], lines


def test_ignored_files_of_one_name_are_named_with_their_folders(takeset, recordings, tmp_path):
    for name in "x", "y":
        put(tmp_path / "in" / name / "take", session("v2", count=24, seed=ord(name), size=(48, 24)))
        (tmp_path / "in" / name / "truth.json").write_text("{}")
    assert "(x/truth.json, y/truth.json)" in takeset.convert(tmp_path / "in", output=tmp_path / "out", arguments=pipeline(tmp_path)).stderr


def test_a_stream_is_no_field_of_a_filter(takeset, dataset, tmp_path):
    for word, stream in ("joints", "joints"), ("pose", "pose"), ("depth", "camera_depth"):
        done = takeset("select", dataset, "--where", word, "--output", tmp_path / "x", check=64)
        assert done.stderr.rstrip().endswith(f"did you mean streams has {stream}?")


def test_actions_say_their_axes_and_layout(dataset):
    with h5py.File(dataset / "episodes/a.h5") as file:
        demo = file["data/demo_0"]
        for name in "actions", "action_dict/relative_rotation_6d":
            assert demo[name].attrs["rotation_layout"] == "rows"
        assert "rotation_layout" not in demo["action_dict/relative_position"].attrs
        for name in "actions", "action_dict/relative_position", "action_dict/relative_rotation_6d":
            for key in "camera_axes", "world_axes":
                assert demo[name].attrs[key] == demo["obs/pose"].attrs[key]
        assert "camera_axes" not in demo["action_dict/joints"].attrs


def test_a_preview_of_a_dataset_is_drawn(takeset, dataset, tmp_path):
    said = takeset("inspect", dataset, "--preview", tmp_path / "x.png", check=0).stderr
    ids = [take["id"] for take in manifest(dataset)["record"]["takes"]]
    lines = said.split(f"{tmp_path}/x.png, from the top:\n")[1].splitlines()
    assert [line.split(":")[0].strip() for line in lines] == ids and " of rows 0 (0 s), " in lines[0]
    with Image.open(tmp_path / "x.png") as sheet:
        assert sheet.format == "PNG" and len(sheet.getcolors(1 << 24)) > 50


def test_what_only_some_uses_need_is_no_warning(takeset, dataset):
    done = takeset("verify", "--for", "robomimic", dataset, check=None)
    assert "\ninfo: next-obs-missing: " in f"\n{done.stdout}" and "trains badly: next-obs-missing" not in done.stdout


# MARK: Links


@pytest.fixture()
def linked(recordings, tmp_path):
    """A directory with take a, and links to b, to a again, to itself, to a directory of takes that is among them, and to nothing."""
    root, other = tmp_path / "in", tmp_path / "other"
    shutil.copytree(recordings / "a", root / "a"), shutil.copytree(recordings / "b", other / "store/77ab")
    (root / "days").mkdir()
    links = ("days/monday", other / "store/77ab"), ("again", root / "a"), ("circle", root), ("days/all", other), ("gone", tmp_path / "nowhere")
    for name, target in links:
        (root / name).symlink_to(target)
    return root


def test_linked_directories_are_named_and_not_followed(takeset, linked, tmp_path):
    words = "not followed: 4 links to directories (again, all, circle, monday), which --follow-links searches"
    done = takeset.convert(linked, output=tmp_path / "out", arguments=pipeline(tmp_path))
    assert words in done.stderr and f"{linked}/gone is a symbolic link and is not followed" in done.stderr
    assert findings(tmp_path / "out")["input-ignored"]["message"].endswith(words)
    assert [t["id"] for t in manifest(tmp_path / "out")["record"]["takes"]] == ["a"]
    # An input of links only is refused with the remedy.
    shutil.rmtree(linked / "a")
    assert words.replace("4", "3").replace("again, ", "") in takeset("run", linked, "--output", tmp_path / "x", check=64).stderr


def test_linked_directories_are_followed_once(takeset, linked, tmp_path):
    arguments = [*pipeline(tmp_path), "--follow-links"]
    done = takeset.convert(linked, output=tmp_path / "out", arguments=arguments)
    assert "not followed: " not in done.stderr and f"{linked}/circle is a link to what is searched already" in done.stderr

    def locations():
        entries = [json.loads(line)["entry"] for line in (tmp_path / "out/journal.jsonl").read_text().splitlines()]
        return {e["id"]: e["location"] for e in entries}

    # Takes keep the path by which they were found, which also names them.
    assert locations() == {"a": f"{linked}/a", "77ab": f"{linked}/days/all/store/77ab"}
    assert [t["id"] for t in manifest(tmp_path / "out")["record"]["takes"]] == ["77ab", "a"]
    assert "nothing to do" in takeset.convert(linked, output=tmp_path / "out", arguments=arguments).stdout
    takeset("verify", tmp_path / "out", "--inputs", check=0)
    (linked / "days/all").unlink()
    takeset.convert(linked, output=tmp_path / "out", arguments=[*arguments, "--prune", "--isolate", "always"])
    assert locations() == {"a": f"{linked}/a", "monday": f"{linked}/days/monday"}
    for command in "plan", "inspect":
        assert "monday" in takeset(command, linked, "--follow-links").stdout
    refused = takeset("run", linked, "--output", tmp_path / "watched", "--watch", "--follow-links", check=64)
    assert "--watch follows no links" in refused.stderr and not (tmp_path / "watched").exists()


# MARK: Actions in different axes


def test_actions_in_different_axes_are_not_averaged(takeset, recordings, tmp_path):
    shutil.copytree(recordings / "a", tmp_path / "in/a")
    takeset("simulate", "stray-scanner", "--output", tmp_path / "in/scan", "--seconds", 0.6, "--size", "64x48", "--depth-size", "16x12", check=0)
    steps = [{"align": {}}, {"select": {"streams": ["pose"]}}, {"actions": {"kind": "relative-6d"}}]
    takeset.convert(tmp_path / "in", output=tmp_path / "out", arguments=steps_of(tmp_path, *steps))
    mixed = [f for f in manifest(tmp_path / "out")["record"]["findings"] if f["code"] == "mixed-units"]
    parts = {"action_dict/relative_position", "action_dict/relative_rotation_6d", "actions", "pose"}
    assert {f["field"] for f in mixed} == parts and {f["severity"] for f in mixed} == {"warning"}
    with h5py.File(tmp_path / "out/dataset.h5") as file:
        for number, axes in enumerate(("x right, y up, z back", "x right, y down, z forward")):
            demo = file[f"data/demo_{number:06d}"]
            assert demo["actions"].attrs["camera_axes"] == axes
            valid = demo["actions"][:][demo["actions_valid"][:] == 1]
            stats = file[f"stats/actions@m, 1 ({axes})"]
            np.testing.assert_allclose(stats["mean"][:], valid.mean(0, dtype="f8"), rtol=1e-6, atol=1e-9)
            assert f"action_dict/relative_rotation_6d@1 ({axes})" in file["stats"]
        assert "actions" not in file["stats"]
    # One convention makes them one.
    steps.insert(1, {"pose-frame": {"axes": "arkit"}})
    takeset.convert(tmp_path / "in", output=tmp_path / "one", arguments=steps_of(tmp_path, *steps))
    assert "mixed-units" not in findings(tmp_path / "one")


# MARK: What is said once


def test_what_holds_for_a_take_is_said_once(takeset, tmp_path):
    files = session("v1", count=40, seed=1, size=(48, 24))
    poses = json.loads(files["poses.json"])
    for entry in poses[20:]:
        entry["timestamp"] += 1
    metadata = json.loads(files["metadata.json"]) | {"rgbFrameCount": 99}
    put(tmp_path / "in/a", files | {name: json.dumps(value).encode() for name, value in (("poses.json", poses), ("metadata.json", metadata))})
    done = takeset.convert(tmp_path / "in", output=tmp_path / "out", arguments=pipeline(tmp_path, split_episodes={"at": "gaps"}))
    takes = manifest(tmp_path / "out")["record"]["takes"]
    assert len(takes) == 2 and all("count-mismatch" in {f["code"] for f in take["findings"]} for take in takes)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("  warning")]
    assert line.split()[1:4] == ["a", "(2", "episodes)"] and "count-mismatch" in line
