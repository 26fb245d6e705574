"""Splits: groups, shares, kinds, split files. Normalization parameters: those of the train split."""

import hashlib
import json
import shutil

import h5py
import numpy as np
import pytest
import yaml
from conversions import pipeline
from outputs import demos, manifest, traces
from schemas import validator
from small_sessions import changed, dumped, put, session

PARTS = ["train", "valid", "test"]
NAMES = [f"session_2026-03-0{1 + i // 2}_1{i % 2}0000" for i in range(12)]  # two a day
MODELS = {name: f"Tracer{i % 4},1" for i, name in enumerate(NAMES)}
ROOMS = {name: ["kitchen", "garage", "hall"][i // 4] for i, name in enumerate(NAMES)}


@pytest.fixture(scope="module")
def captures_of_six_days(tmp_path_factory):
    """Twelve short sessions in three folders, of four phones; the last four are of another version of the app."""
    root = tmp_path_factory.mktemp("captures")
    for i, name in enumerate(NAMES):
        files = session("v1" if i < 8 else "v2", count=3, seed=i, size=(48, 24))
        put(root / ROOMS[name] / name, changed(files, "metadata.json", deviceModel=MODELS[name]))
    return root


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


# Rules


@pytest.mark.slow
@pytest.mark.parametrize("rule, group", [
    ({"group": "day"}, lambda name: name[8:18]),
    ({"group": "device"}, MODELS.get),
    ({"group": "directory"}, ROOMS.get),
    ({"group": "take"}, lambda name: name),
    ({"group": "regex", "pattern": "_1([01])0000$"}, lambda name: name[-5]),
    ({"group": "regex", "pattern": "2026-03-0[1-4]|05|06"}, lambda name: name[8:18]),
], ids=["day", "device", "directory", "take", "regex", "regex without a group"])
def test_groups_are_never_divided(takeset, captures_of_six_days, tmp_path, rule, group):
    arguments = pipeline(tmp_path, split={"valid": 0.25, "seed": 3, **rule})
    takeset.convert(captures_of_six_days, output=tmp_path / "out", arguments=arguments)
    found = parts(tmp_path / "out")
    assert sorted(found) == NAMES
    of_group = {}
    for name, part in found.items():
        of_group.setdefault(group(name), set()).add(part)
    assert all(len(its) == 1 for its in of_group.values()), of_group
    size = len(NAMES) // len(of_group)
    # As many groups as come nearest to three takes, the larger number of two that are as near.
    assert sum(its == {"valid"} for its in of_group.values()) == max(1, int(3 / size + 0.5)) and "test" not in found.values()
    assert "split-empty" not in findings(tmp_path / "out")
    assert traces(tmp_path / "out", "Tracer") == []


# Days


def started(root, **times):
    """Sessions that started at these times."""
    for i, (name, time) in enumerate(times.items()):
        put(root / name, changed(session("v1", count=3, seed=i, size=(48, 24)), "metadata.json", startTime=time))
    return root


@pytest.mark.parametrize("rule, together", [
    ({"group": "day"}, ["a", "bc"]), ({"group": "day", "timezone": "America/Los_Angeles"}, ["ab", "c"]),
    ({"group": {"hours-apart": 6}}, ["ab", "c"]), ({"group": {"hours-apart": 12}}, ["abc"]),
])
def test_an_afternoon_is_one_day_where_it_is_one(takeset, tmp_path, rule, together):
    root = started(tmp_path / "in", a="2026-02-18T23:59:30Z", b="2026-02-19T00:01:00Z", c="2026-02-19T09:00:00Z")
    takeset.convert(root, output=tmp_path / "out", arguments=pipeline(tmp_path, split={"valid": 0.4, **rule}))
    found = parts(tmp_path / "out")
    groups = {part: "".join(take for take in "abc" if found[take] == part) for part in found.values()}
    assert sorted(groups.values()) == together
    assert ("split-empty" in findings(tmp_path / "out")) == (len(together) == 1) and "day-unknown" not in findings(tmp_path / "out")


def test_takes_without_a_day_are_reported(takeset, four, tmp_path):
    for name in "ab":
        put(tmp_path / "in" / name, changed(session("v1", count=4, seed=ord(name), size=(48, 24)), "metadata.json", startTime=None))
    shutil.copytree(four / "c", tmp_path / "in/c")
    done = takeset.convert(tmp_path / "in", output=tmp_path / "out", arguments=pipeline(tmp_path, split={"valid": 0.3}))
    found = findings(tmp_path / "out")["day-unknown"]
    assert (found["severity"], found["count"]) == ("warning", 2) and "a, b" in found["message"] and found["message"] in done.stderr
    takeset.convert(tmp_path / "in", output=tmp_path / "none", arguments=pipeline(tmp_path, split={"group": "take"}))
    assert "day-unknown" not in findings(tmp_path / "none")


def test_contradictory_days_are_named(takeset, four, tmp_path):
    shutil.copytree(four / "a", tmp_path / "session_2026-01-31")
    takeset.convert(tmp_path / "session_2026-01-31", output=tmp_path / "out", arguments=pipeline(tmp_path, split={}))
    (entry,) = manifest(tmp_path / "out")["record"]["takes"]
    (found,) = [f for f in entry["findings"] if f["code"] == "day-contradictory"]
    assert found["severity"] == "info" and "2026-01-31" in found["message"] and "metadata.json says 2026-02-18" in found["message"]


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


@pytest.mark.slow
def test_shares_are_met_and_the_seed_decides(takeset, captures_of_six_days, tmp_path):
    seen = []
    for name, seed in ("a", 0), ("b", 0), ("c", 1), ("d", 2):
        (tmp_path / name).mkdir()
        arguments = pipeline(tmp_path / name, split={"valid": 0.25, "test": 0.17, "group": "take", "seed": seed})
        takeset.convert(captures_of_six_days, output=tmp_path / name / "out", arguments=arguments)
        seen.append(parts(tmp_path / name / "out"))
        assert [list(seen[-1].values()).count(part) for part in PARTS] == [7, 3, 2]
        splits = manifest(tmp_path / name / "out")["record"]["splits"]
        assert splits["seed"] == seed and "take" in splits["rule"] and "file_sha256" not in splits
    assert seen[0] == seen[1] and (seen[0] != seen[2] or seen[0] != seen[3])


@pytest.mark.parametrize("seed", range(3))
def test_a_stratified_split_has_every_kind_in_every_part(takeset, captures_of_six_days, tmp_path, seed):
    rule = {"valid": 0.25, "test": 0.25, "group": "take", "stratify": True, "seed": seed}
    takeset.convert(captures_of_six_days, output=tmp_path / "out", arguments=pipeline(tmp_path, split=rule))
    found = parts(tmp_path / "out")
    for kind, counts in (NAMES[:8], [4, 2, 2]), (NAMES[8:], [2, 1, 1]):
        assert [[found[name] for name in kind].count(part) for part in PARTS] == counts
    assert findings(tmp_path / "out").keys().isdisjoint({"split-empty"})


def test_an_empty_part_is_reported(takeset, four, tmp_path):
    done = takeset.convert(four, output=tmp_path / "out", arguments=pipeline(tmp_path, split={"valid": 0.25, "group": "device"}))
    assert set(parts(tmp_path / "out").values()) == {"train"}
    found = findings(tmp_path / "out")["split-empty"]
    assert found["severity"] == "warning" and found["message"] in done.stderr
    assert "valid" in found["message"] and "4 takes" in found["message"] and "one group" in found["message"]
    takeset.convert(four, output=tmp_path / "none", arguments=pipeline(tmp_path, split={"valid": 0, "group": "device"}))
    assert "split-empty" not in findings(tmp_path / "none")


@pytest.mark.parametrize("rule, option", [
    ({"group": "regex"}, "pattern"), ({"pattern": "a"}, "pattern"), ({"group": "regex", "pattern": "("}, "pattern"),
    ({"valid": 0.5, "test": 0.5}, "test"), ({"stratify": 1}, "stratify"), ({"group": "room"}, "group"),
    ({"group": {"hours-apart": 0}}, "group"), ({"timezone": "Mars"}, "timezone"), ({"group": "take", "timezone": "UTC"}, "timezone"),
])
def test_contradicting_options_are_refused(takeset, four, tmp_path, rule, option):
    done = takeset.convert(four, output=tmp_path / "out", check=64, arguments=pipeline(tmp_path, split=rule))
    assert f"transforms[1].split.{option}: " in done.stderr and not (tmp_path / "out").exists()


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


def test_takes_that_are_not_named_and_names_without_a_take_are_reported(takeset, four, tmp_path):
    named = split_file(tmp_path / "s.yaml", train=["a", "x1"], valid=["b", "x2", "x3", "x4"])
    done = takeset.convert(four, output=tmp_path / "out", arguments=[*pipeline(tmp_path), *named])
    assert parts(tmp_path / "out") == {"a": "train", "b": "valid", "c": "train", "d": "train"}
    found = findings(tmp_path / "out")
    assert {code: (f["severity"], f["count"]) for code, f in found.items()} == {
        "split-file-unlisted": ("warning", 2), "split-file-unknown": ("warning", 4)}
    assert all(f["message"] in done.stderr for f in found.values())
    message = found["split-file-unknown"]["message"]
    assert all(name in message for name in ("x1", "x2", "x3")) and "x4" not in message


def test_a_part_whose_names_are_all_unknown_is_reported_as_empty(takeset, four, tmp_path):
    named = split_file(tmp_path / "s.yaml", train=list("abcd"), valid=["e"])
    takeset.convert(four, output=tmp_path / "out", arguments=[*pipeline(tmp_path), *named])
    assert set(findings(tmp_path / "out")) == {"split-file-unknown", "split-empty"}
    assert set(parts(tmp_path / "out").values()) == {"train"}


@pytest.mark.parametrize("text, words", [
    ("train: [b, a]\nvalid:\n- c\n- b\n", ["valid[1]", "train[0]", "line 4"]),
    ("train: [a]\nvalidation: [b]\n", ["validation", "unknown key", "line 2"]),
    ("train: a\n", ["train", "list"]),
    ('{"train": ["a"], "valid": {"b": 1}}', ["valid", "list"]),
    ("train: [a, [b]]\n", ["train[1]"]),
    ("- a\n- b\n", ["object"]),
    ("", ["empty"]),
    ("train: [a\n", ["YAML"]),
], ids=["two parts", "unknown key", "text", "object", "nested", "no object", "empty", "syntax"])
def test_mistakes_in_a_split_file_are_refused_before_anything_is_read(takeset, tmp_path, text, words):
    (tmp_path / "s.yaml").write_text(text)
    done = takeset.convert(tmp_path / "missing", output=tmp_path / "out", check=64, arguments=["--split-file", tmp_path / "s.yaml"])
    assert all(word in done.stderr for word in ["s.yaml", *words]), done.stderr
    assert not (tmp_path / "out").exists()


def test_a_missing_split_file_is_refused(takeset, four, tmp_path):
    done = takeset.convert(four, output=tmp_path / "out", check=64, arguments=["--split-file", tmp_path / "none.yaml"])
    assert "none.yaml" in done.stderr and not (tmp_path / "out").exists()


# Takes of several episodes


def test_episodes_of_one_take_are_in_one_part(takeset, four, tmp_path):
    for seed in range(3):
        (tmp_path / str(seed)).mkdir()
        arguments = pipeline(tmp_path / str(seed), split_episodes={"at": 0.03}, split={"group": "take", "valid": 0.5, "seed": seed})
        takeset.convert(four, output=tmp_path / str(seed) / "out", arguments=arguments)
        found = parts(tmp_path / str(seed) / "out")
        assert sorted(found) == [f"{take}.{part}" for take in "abcd" for part in (0, 1)]
        assert all(found[f"{take}.0"] == found[f"{take}.1"] for take in "abcd")
        assert sorted(found.values()) == ["train"] * 4 + ["valid"] * 4


def test_a_split_file_names_takes_or_episodes(takeset, four, tmp_path):
    steps = pipeline(tmp_path, split_episodes={"at": 0.03})
    named = split_file(tmp_path / "s.yaml", train=["a", "b.0", "b.1"], valid=["c.1"], test=["d"])
    takeset.convert(four, output=tmp_path / "out", arguments=[*steps, *named])
    found = parts(tmp_path / "out")
    assert {take: {found[f"{take}.0"], found[f"{take}.1"]} for take in "abcd"} == {"a": {"train"}, "b": {"train"}, "c": {"valid"}, "d": {"test"}}
    assert manifest(tmp_path / "out")["record"]["findings"] == []
    for lists in {"train": ["a.0"], "valid": ["a.1"]}, {"train": ["a"], "valid": ["a.1"]}:
        done = takeset.convert(four, output=tmp_path / "not", check=64, arguments=[*steps, *split_file(tmp_path / "s.yaml", **lists)])
        assert "a.1" in done.stderr and "valid[0]" in done.stderr and not (tmp_path / "not").exists()


# Normalization


def expected(method, values):
    if len(values) == 0:
        return 1, 0
    if method == "gaussian":
        scale, offset, spread = values.std(), values.mean(), values.std()
    else:
        scale, offset, spread = (values.max() - values.min()) / 2, (values.max() + values.min()) / 2, values.max() - values.min()
    return (scale if spread >= 1e-6 else 1), offset


@pytest.fixture(scope="module", params=["minmax", "gaussian"])
def normalized(request, takeset, captures_of_six_days, tmp_path_factory):
    root = tmp_path_factory.mktemp(request.param)
    steps = {"actions": {}, "split": {"group": "take", "valid": 0.25}, "normalize": {"method": request.param}}
    takeset.convert(captures_of_six_days, output=root / "out", arguments=pipeline(root, **steps))
    return request.param, root / "out"


@pytest.mark.parametrize("key, array, valid", [
    ("pose", "obs/pose", None), ("camera_depth", "obs/camera_depth", "obs/camera_depth_valid"), ("camera_image", "obs/camera_image", None),
    ("joints", "obs/joints", "obs/joints_valid"), ("actions", "actions", "actions_valid"),
    ("action_dict/relative_position", "action_dict/relative_position", "actions_valid"),
])
def test_normalization_parameters_are_those_of_the_train_split(normalized, key, array, valid):
    method, output = normalized
    have = {take for take, (demo, _) in demos(output).items() if array in demo}
    assert have
    with h5py.File(output / "dataset.h5") as file:
        stats = file["stats"][key]
        assert stats.attrs["normalization"] == method
        scale, offset = stats["scale"], stats["offset"]
        assert scale.dtype.str == offset.dtype.str == "<f8" and scale.shape == offset.shape == stats["mean"].shape
        scale, offset = scale[:], offset[:]
    channels = len(scale)
    columns = [[] for _ in range(channels)]
    for take in have & set(manifest(output)["record"]["splits"]["train"]):
        demo = demos(output)[take][0]
        values = demo[array][:].astype("f8").reshape(-1, channels)
        mask = demo[valid][:].reshape(len(values), -1) == 1 if valid else np.ones(values.shape, bool)
        keep = np.broadcast_to(mask, values.shape)
        for channel in range(channels):
            columns[channel].append(values[keep[:, channel], channel])
    for channel, column in enumerate(columns):
        values = np.concatenate(column)
        own_scale, own_offset = expected(method, values)
        assert (scale[channel], offset[channel]) == pytest.approx((own_scale, own_offset), rel=1e-6, abs=1e-9)
        forward = (values - offset[channel]) / scale[channel]
        assert forward * scale[channel] + offset[channel] == pytest.approx(values, rel=1e-12, abs=1e-12)
        if own_scale != 1 and method == "minmax":
            assert (forward.min(), forward.max()) == pytest.approx((-1, 1), abs=1e-9)
        if own_scale != 1 and method == "gaussian":
            assert (forward.mean(), forward.std()) == pytest.approx((0, 1), abs=1e-6)


def leaves(stats, prefix=""):
    """The keys of /stats, with those in groups of groups."""
    for name, item in stats.items():
        if "mean" in item:
            yield prefix + name, item
        else:
            yield from leaves(item, f"{prefix}{name}/")


def test_the_manifest_has_the_parameters_of_every_key(takeset, normalized):
    method, output = normalized
    parts(output)
    statistics = manifest(output)["record"]["statistics"]
    with h5py.File(output / "dataset.h5") as file:
        found = dict(leaves(file["stats"]))
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


def test_none_stores_nothing_and_no_method_changes_the_data(takeset, normalized, captures_of_six_days, tmp_path):
    _, output = normalized
    steps = {"actions": {}, "split": {"group": "take", "valid": 0.25}, "normalize": {"method": "none"}}
    takeset.convert(captures_of_six_days, output=tmp_path / "out", arguments=pipeline(tmp_path, **steps))
    with h5py.File(tmp_path / "out/dataset.h5") as file:
        for _, stats in leaves(file["stats"]):
            assert "scale" not in stats and "offset" not in stats and "normalization" not in stats.attrs
    assert all("scale" not in members for members in manifest(tmp_path / "out")["record"]["statistics"].values())
    contents = [{t["id"]: t["output"]["content_sha256"] for t in manifest(o)["record"]["takes"]} for o in (output, tmp_path / "out")]
    assert contents[0] == contents[1] and len(contents[0]) == len(NAMES)


@pytest.mark.parametrize("method", ["minmax", "gaussian"])
def test_a_channel_without_a_spread_or_without_values_keeps_its_scale(takeset, tmp_path, method):
    files = session("v1", count=4, size=(48, 24))
    poses = json.loads(files["poses.json"])
    for entry in poses:
        entry["transform"] = poses[0]["transform"]
    depth = {name: bytes(len(data)) for name, data in files.items() if name.startswith("depth/")}
    put(tmp_path / "still", files | depth | {"poses.json": dumped(poses)})
    takeset.convert(tmp_path / "still", output=tmp_path / "out", arguments=pipeline(tmp_path, normalize={"method": method}))
    with h5py.File(tmp_path / "out/dataset.h5") as file:
        pose = demos(tmp_path / "out")["still"][0]["obs/pose"][0].astype("f8")
        assert (file["stats/pose/scale"][:] == 1).all() and file["stats/pose/offset"][:] == pytest.approx(pose, abs=1e-7)
        assert file["stats/camera_depth/count"][0] == 0
        assert (file["stats/camera_depth/scale"][0], file["stats/camera_depth/offset"][0]) == (1, 0)
    parts(tmp_path / "out")
    takeset("verify", tmp_path / "out", check=0)
