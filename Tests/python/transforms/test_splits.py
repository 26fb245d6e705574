"""Splits: groups, shares, kinds, split files. Normalization parameters: those of the train split."""

import hashlib
import json
import shutil

import h5py
import numpy as np
import pytest
import yaml
from action_oracle import summaries
from conversions import pipeline
from outputs import demos, manifest
from schemas import validator
from small_sessions import put, session

PARTS = ["train", "valid", "test"]


@pytest.fixture(scope="module")
def four(tmp_path_factory):
    """Sessions a, b, c and d."""
    root = tmp_path_factory.mktemp("four")
    for i, name in enumerate("abcd"):
        put(root / name, session("v1", count=4, seed=i, size=(48, 24)))
    return root


def parts(output):
    """The part of each take, after checks: the masks are the manifest's, every take is in one part, and the schema holds."""
    document = manifest(output)
    validator("manifest.schema.json").validate(document)
    with h5py.File(output / "dataset.h5") as file:
        ids = {name: demo.attrs["take_id"] for name, demo in file["data"].items()}
        masks = {part: [ids[name.decode()] for name in file["mask"][part][:]] for part in PARTS}
    assert masks == {part: document["record"]["splits"][part] for part in PARTS}
    assert sorted(sum(masks.values(), [])) == sorted(ids.values())
    return {take: part for part in PARTS for take in masks[part]}


def findings(output):
    return {f["code"]: f for f in manifest(output)["record"]["findings"]}


def shards(output):
    return {p.name: (p.stat().st_mtime_ns, p.stat().st_ino) for p in (output / "episodes").iterdir()}


# Days


def test_the_day_of_a_scan_is_that_of_its_video(takeset, tmp_path):
    tiny = ["--seconds", 0.1, "--size", "64x48", "--depth-size", "16x12"]
    for name, seed in ("a1", 3), ("b2", 3), ("c3", 4):
        takeset("simulate", "stray-scanner", "--output", tmp_path / "in" / name, *tiny, "--seed", seed, check=0)
    takeset.convert(tmp_path / "in", output=tmp_path / "out", arguments=pipeline(tmp_path, split={"valid": 0.4}))
    found = parts(tmp_path / "out")
    assert found["a1"] == found["b2"] != found["c3"] and "day-unknown" not in findings(tmp_path / "out")


def test_a_take_that_moves_to_another_directory_changes_its_group(takeset, four, tmp_path):
    for name, room in zip("abcd", ["kitchen", "kitchen", "hall", "hall"]):
        shutil.copytree(four / name, tmp_path / "in" / room / name)
    arguments = pipeline(tmp_path, split={"group": "directory", "valid": 0.5})
    takeset.convert(tmp_path / "in", output=tmp_path / "out", arguments=arguments)
    before = parts(tmp_path / "out")
    assert before["a"] == before["b"] != before["c"] == before["d"]
    (tmp_path / "in/kitchen/b").rename(tmp_path / "in/hall/b")
    (tmp_path / "in/hall/c").rename(tmp_path / "in/kitchen/c")
    takeset.convert(tmp_path / "in", output=tmp_path / "out", arguments=arguments)
    after = parts(tmp_path / "out")
    assert after["a"] == after["c"] != after["b"] == after["d"]


# Split files


def split_file(path, **lists):
    text = json.dumps(lists, indent=2) if path.suffix == ".json" else yaml.safe_dump(lists)
    path.write_text(text)
    return ["--split-file", path]


def test_a_split_file_replaces_the_rule_and_another_one_only_the_index(takeset, four, tmp_path):
    output, first, second = tmp_path / "out", tmp_path / "one.yaml", tmp_path / "two.json"
    one = [*pipeline(tmp_path, split={"group": "take", "valid": 0.25}), *split_file(first, train=["a", "b"], valid=["c"], test=["d"])]
    takeset.convert(four, output=output, arguments=one)
    assert parts(output) == {"a": "train", "b": "train", "c": "valid", "d": "test"}
    splits = manifest(output)["record"]["splits"]
    assert (splits["rule"], splits["seed"]) == ("file", None)
    assert splits["file_sha256"] == hashlib.sha256(first.read_bytes()).hexdigest()
    assert manifest(output)["record"]["findings"] == []

    before = {p: (p.stat().st_mtime_ns, p.stat().st_ino) for p in output.rglob("*") if p.is_file()}
    assert "nothing to do" in takeset.convert(four, output=output, arguments=one).stdout
    assert {p: (p.stat().st_mtime_ns, p.stat().st_ino) for p in output.rglob("*") if p.is_file()} == before

    kept = shards(output)
    two = [*one[:2], *split_file(second, train=["d"], valid=["a", "b", "c"])]
    done = takeset.convert(four, output=output, arguments=two)
    assert "4 unchanged" in done.stdout and "nothing to do" not in done.stdout and shards(output) == kept
    assert parts(output) == {"a": "valid", "b": "valid", "c": "valid", "d": "train"}
    assert manifest(output)["record"]["splits"]["file_sha256"] == hashlib.sha256(second.read_bytes()).hexdigest()
    with h5py.File(output / "dataset.h5") as file:
        poses = demos(output)["d"][0]["obs/pose"][:].astype("f8")
        assert file["stats/pose/mean"][:] == pytest.approx(poses.mean(axis=0), rel=1e-9, abs=1e-12)
    takeset("verify", output, check=0)

    takeset.convert(four, output=output, arguments=one[:2])
    assert sorted(parts(output).values()) == ["train"] * 3 + ["valid"] and shards(output) == kept
    assert "file_sha256" not in manifest(output)["record"]["splits"]
    assert "nothing to do" in takeset.convert(four, output=output, arguments=one[:2]).stdout


def test_a_split_file_needs_no_rule(takeset, four, tmp_path):
    takeset.convert(four, output=tmp_path / "out", arguments=[*pipeline(tmp_path), *split_file(tmp_path / "s.json", train=list("abc"), test=["d"])])
    assert parts(tmp_path / "out") == {"a": "train", "b": "train", "c": "train", "d": "test"}


def test_a_missing_split_file_is_refused(takeset, four, tmp_path):
    done = takeset.convert(four, output=tmp_path / "out", check=64, arguments=["--split-file", tmp_path / "none.yaml"])
    assert "none.yaml" in done.stderr and not (tmp_path / "out").exists()


# Pipelines that differ in what concerns the index alone

OTHERS = [{"split": {"group": "take", "valid": 0.5, "seed": 7}}, {"normalize": {}}, {"split": {"group": "directory"}, "normalize": {"method": "gaussian"}}]


def test_another_split_or_normalization_rewrites_index_and_manifest_only(takeset, four, tmp_path):
    output = tmp_path / "out"
    takeset.convert(four, output=output, arguments=pipeline(tmp_path, actions={}, split={}))
    kept = shards(output)
    for number, steps in enumerate(OTHERS):
        arguments = pipeline(tmp_path, actions={}, **steps)
        fresh = tmp_path / f"fresh{number}"
        takeset.convert(four, output=fresh, arguments=arguments)
        if number == 0:
            # A run that was killed between index and manifest goes on.
            shutil.copy(fresh / "dataset.h5", output / "dataset.h5")
        done = takeset.convert(four, output=output, arguments=arguments)
        assert "4 unchanged" in done.stdout and "nothing to do" not in done.stdout and shards(output) == kept
        assert (output / "dataset.h5").read_bytes() == (fresh / "dataset.h5").read_bytes()
        assert manifest(output)["record"] == manifest(fresh)["record"] and parts(output)
        takeset("verify", output, check=0)
        takeset("pack", output, "--output", tmp_path / f"{number}.h5", check=0)
        assert "nothing to do" in takeset.convert(four, output=output, arguments=arguments).stdout
    refused = takeset("run", four, "--output", output, *pipeline(tmp_path, actions={"horizon": 2}, split={}))
    assert refused.returncode == 64 and "another pipeline" in refused.stderr and shards(output) == kept


def test_datasets_of_other_splits_are_merged_by_the_first_ones(takeset, four, tmp_path):
    for name, take, seed in ("one", "a", 1), ("two", "b", 2):
        takeset.convert(four / take, output=tmp_path / name, arguments=pipeline(tmp_path, split={"group": "take", "valid": 0.5, "seed": seed}))
    takeset("merge", tmp_path / "one", tmp_path / "two", "--resplit", "--output", tmp_path / "both", check=0)
    assert sorted(parts(tmp_path / "both").values()) == ["train", "valid"] and manifest(tmp_path / "both")["record"]["splits"]["seed"] == 1
    takeset("verify", tmp_path / "both", check=0)
    takeset.convert(four / "c", output=tmp_path / "three", arguments=pipeline(tmp_path, split={"seed": 3}, actions={}))
    refused = takeset("merge", tmp_path / "one", tmp_path / "three", "--output", tmp_path / "all")
    assert refused.returncode == 65 and "transforms[2] is missing in one and " in refused.stderr and "seed" not in refused.stderr


# Normalization


@pytest.fixture(scope="module", params=["minmax", "gaussian"])
def normalized(request, takeset, four, tmp_path_factory):
    root = tmp_path_factory.mktemp(request.param)
    steps = {"actions": {}, "split": {"group": "take", "valid": 0.25}, "normalize": {"method": request.param}}
    takeset.convert(four, output=root / "out", arguments=pipeline(root, **steps))
    return request.param, root / "out"


def test_the_manifest_has_the_parameters_of_every_key(takeset, normalized):
    method, output = normalized
    parts(output)
    statistics = manifest(output)["record"]["statistics"]
    with h5py.File(output / "dataset.h5") as file:
        found = summaries(file["stats"])
        assert set(found) == set(statistics) and "action_dict/relative_rotation_6d" in found
        for key, stats in found.items():
            assert set(stats) == {"count", "mean", "std", "min", "max", "q01", "q99", "scale", "offset"}
            assert set(stats.attrs) == {"unit", "normalization"} and statistics[key]["normalization"] == method
            assert statistics[key]["scale"] == stats["scale"][:].tolist() and statistics[key]["offset"] == stats["offset"][:].tolist()
    takeset("verify", output, check=0)


def test_a_changed_parameter_is_found_in_an_index_that_was_added_to(takeset, normalized, tmp_path):
    _, output = normalized
    for name, change, words in [
        ("added", None, None),
        ("scale", lambda file: file["stats/pose/scale"].write_direct(2 * file["stats/pose/scale"][:]), "stats/pose/scale"),
        ("part", lambda file: file["stats/action_dict/relative_position/offset"].write_direct(np.full(3, 9.0)), "relative_position/offset"),
        ("method", lambda file: file["stats/pose"].attrs.modify("normalization", "none"), "stats/pose@normalization"),
        ("mask", lambda file: file["mask/train"].write_direct(file["mask/train"][:][::-1].copy()), "mask/train"),
    ]:
        copy = shutil.copytree(output, tmp_path / name)
        with h5py.File(copy / "dataset.h5", "r+") as file:
            file.create_dataset("labels", data=np.arange(5000))
            if change:
                change(file)
        done = takeset("verify", copy, check=2 if change else 0)
        assert words is None or words in done.stdout + done.stderr
