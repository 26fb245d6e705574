"""`merge` and `select`: datasets of the takes of others, whose rows, digests and records stay as they were."""

import json
import shutil

import h5py
import pytest
from outputs import demos, manifest, take as entry_of
from resample_oracle import split, steps, uneven
from run_outputs import outputs
from schemas import validator
from stack_sessions import v1, v2


@pytest.fixture(scope="module")
def days(tmp_path_factory, takeset):
    """Two datasets of the same pipeline, and the inputs of both: `a` has two takes and a bad one, `b` a third one."""
    root = tmp_path_factory.mktemp("days")
    for name, make in ("a/take_2026-01-01", v1), ("a/take_2026-01-02", v2), ("b/take_2026-01-03", v2):
        make().write(root / name)
    v1().write(root / "a/broken")
    (root / "a/broken/poses.json").write_text("{")
    takeset.convert(root / "a", output=root / "da", check=3)
    takeset.convert(root / "b", output=root / "db")
    return root


def shards(directory):
    return {path.name: path.read_bytes() for path in (directory / "episodes").iterdir()}


def records(directory):
    return {entry["id"]: entry for entry in manifest(directory)["record"]["takes"]}


def test_merged_takes_are_those_of_the_sources(takeset, days, tmp_path):
    out = tmp_path / "out"
    done = takeset("merge", days / "da", days / "db", "--output", out, check=0)
    assert "3 episodes" in done.stdout and "1 take without an episode" in done.stdout
    assert shards(out) == shards(days / "da") | shards(days / "db")
    assert records(out) == records(days / "da") | records(days / "db")
    document = manifest(out)
    assert not list(validator("manifest.schema.json").iter_errors(document))
    assert document["record"]["sources"] == [
        {"record_sha256": manifest(days / d)["record_sha256"], "takes": n, "tool": manifest(days / d)["record"]["tool"]} for d, n in (("da", 3), ("db", 1))
    ]
    takeset("verify", out, check=0)
    with h5py.File(out / "dataset.h5") as file:
        assert [demo.attrs["take_id"] for demo in file["data"].values()] == ["take_2026-01-01", "take_2026-01-02", "take_2026-01-03"]


def test_the_merged_dataset_is_the_one_of_all_inputs(takeset, days, tmp_path):
    """Statistics are merged from those of the shards, so nothing differs from one run over everything but the list of sources."""
    takeset("merge", days / "da", days / "db", "--output", tmp_path / "merged", "--resplit", check=0)
    takeset.convert(days / "a", days / "b", output=tmp_path / "whole", check=3)
    merged, whole = (manifest(tmp_path / name)["record"] for name in ("merged", "whole"))
    merged.pop("sources")
    assert merged == whole
    assert (tmp_path / "merged/dataset.h5").read_bytes() == (tmp_path / "whole/dataset.h5").read_bytes()


def test_takes_keep_their_part_of_the_split(takeset, days, tmp_path):
    (tmp_path / "split.json").write_text(json.dumps({"train": ["take_2026-01-02"], "test": ["take_2026-01-01"]}))
    takeset.convert(days / "a", output=tmp_path / "a", arguments=["--split-file", tmp_path / "split.json"], check=3)
    takeset("merge", tmp_path / "a", days / "db", "--output", tmp_path / "kept", check=0)
    splits = manifest(tmp_path / "kept")["record"]["splits"]
    assert splits["test"] == ["take_2026-01-01"] and set(splits["train"]) == {"take_2026-01-02", "take_2026-01-03"}
    assert splits["rule"] == "kept from the source datasets" and splits["seed"] is None
    (tmp_path / "other.json").write_text(json.dumps({"train": ["take_2026-01-01", "take_2026-01-02"], "valid": ["take_2026-01-03"]}))
    takeset("merge", tmp_path / "a", days / "db", "--output", tmp_path / "given", "--split-file", tmp_path / "other.json", check=0)
    with h5py.File(tmp_path / "given/dataset.h5") as file:
        assert file["mask/valid"][:].tolist() == [b"demo_000002"] and file["mask/test"].shape == (0,)


@pytest.mark.slow
def test_a_dataset_that_grows_keeps_the_parts_it_has(takeset, tmp_path):
    """Takes come one after the other, as to the server; each merge is split like the one before."""
    pipeline = tmp_path / "pipeline.yaml"
    pipeline.write_text("version: 1\ntransforms: [{align: {}}, {split: {valid: 0.3, group: take}}]\n")
    known, sources = {}, []
    for number in range(12):
        session, dataset, out = tmp_path / f"in/take-{number:02}", tmp_path / f"single-{number}", tmp_path / f"all-{number}"
        takeset.simulate(session, "--variant", "v2", "--seconds", 0.2, "--size", "64x48", "--seed", number)
        takeset.convert(session, output=dataset, arguments=["--pipeline", pipeline])
        sources.append(dataset)
        like = ["--split-like", tmp_path / f"all-{number - 1}"] if number else ["--resplit"]
        (tmp_path / "list").write_text("".join(f"{source}\n" for source in sources))
        takeset("merge", "--from", tmp_path / "list", *like, "--output", out, check=0)
        splits = manifest(out)["record"]["splits"]
        parts = {id: part for part in ("train", "valid", "test") for id in splits[part]}
        assert {id: parts[id] for id in known} == known and len(parts) == number + 1
        assert splits["rule"].startswith("by take: valid 0.3")
        known = parts
        with h5py.File(out / "dataset.h5") as file:
            assert len(file["mask/valid"]) == list(parts.values()).count("valid")
    assert 3 <= list(known.values()).count("valid") <= 4
    takeset("verify", out, check=0)


def test_mistakes_of_split_like(takeset, days, tmp_path):
    merge = ("merge", days / "da", days / "db", "--output", tmp_path / "out")
    assert "only one of --resplit and --split-like" in takeset(*merge, "--resplit", "--split-like", days / "da", check=64).stderr
    done = takeset(*merge, "--split-like", tmp_path / "nothing", "--json", check=1)
    assert json.loads(done.stdout)["unusable"][0]["dataset"] == str(tmp_path / "nothing")
    shutil.copytree(days / "da", tmp_path / "damaged")
    (tmp_path / "damaged/manifest.json").write_text("{")
    done = takeset(*merge, "--split-like", tmp_path / "damaged", "--json", check=None)
    assert done.returncode in (1, 64, 65) and json.loads(done.stdout)["unusable"][0]["dataset"] == str(tmp_path / "damaged")
    assert not (tmp_path / "out").exists()


def test_a_run_into_the_merged_dataset_finds_its_takes_unchanged(takeset, days, tmp_path):
    out = tmp_path / "out"
    takeset("merge", days / "da", days / "db", "--output", out, check=0)
    before = {p.name: p.stat().st_mtime_ns for p in (out / "episodes").iterdir()}
    done = takeset.convert(days / "a", days / "b", output=out, check=3)
    assert {p.name: p.stat().st_mtime_ns for p in (out / "episodes").iterdir()} == before, done.stderr


def test_different_pipelines_do_not_merge(takeset, days, tmp_path):
    other = steps(tmp_path, {"align": {"tolerance": 0.01}}, "split")
    takeset.convert(days / "b", output=tmp_path / "other", arguments=other)
    done = takeset("merge", days / "da", tmp_path / "other", "--output", tmp_path / "out", check=65)
    assert "different pipelines" in done.stderr and "transforms[0].align.tolerance is 0.01 in" not in done.stderr
    assert "transforms[0].align.tolerance is " in done.stderr and "0.01 in the other" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["other", "p.yaml"]


def test_the_differing_option_is_named(takeset, days, tmp_path):
    for name, tolerance in ("x", 0.01), ("y", 0.02):
        pipeline = steps(tmp_path, {"align": {"tolerance": tolerance}}, name=f"{name}.yaml")
        takeset.convert(days / "b", output=tmp_path / name, arguments=pipeline)
    done = takeset("merge", tmp_path / "x", tmp_path / "y", "--output", tmp_path / "out", check=65)
    assert "transforms[0].align.tolerance is 0.01 in one and 0.02 in the other" in done.stderr


def test_an_episode_of_both_counts_once_unless_it_differs(takeset, days, tmp_path):
    done = takeset("merge", days / "da", days / "db", days / "db", "--output", tmp_path / "out", check=0)
    assert "take_2026-01-03" in done.stderr and len(shards(tmp_path / "out")) == 3
    assert [source["takes"] for source in manifest(tmp_path / "out")["record"]["sources"]] == [3, 1, 0]
    other = v2(30)
    other.write(tmp_path / "in/take_2026-01-03")
    takeset.convert(tmp_path / "in", output=tmp_path / "db")
    done = takeset("merge", days / "db", tmp_path / "db", "--output", tmp_path / "no", check=65)
    assert "both have an episode take_2026-01-03" in done.stderr and not (tmp_path / "no").exists()


CONDITIONS = [
    ("outcome = written", ["take_2026-01-01", "take_2026-01-02"], []),
    ("outcome == failed or streams has joints", ["take_2026-01-02"], ["broken"]),
    ("id ~ 'take_*-01' and not (split = test)", ["take_2026-01-01"], []),
    ("variant != v1 and outcome = written", ["take_2026-01-02"], []),
    ("frames > 0 and seconds >= 0.1 and warnings < 5 and part != 3", ["take_2026-01-01", "take_2026-01-02"], []),
]


@pytest.mark.parametrize("condition, written, others", CONDITIONS)
def test_conditions(takeset, days, tmp_path, condition, written, others):
    takeset("select", days / "da", "--where", condition, "--output", tmp_path / "out", check=0)
    assert sorted(records(tmp_path / "out")) == sorted(written + others)
    assert sorted(demos(tmp_path / "out")) == written
    takeset("verify", tmp_path / "out", check=0)


@pytest.mark.parametrize("options, code, words", [
    (["--where", "framse > 3"], 64, "did you mean frames?"), (["--where", "streams has jionts"], 65, "did you mean joints?"),
    *((["--where", opening * 30000 + "frames > 0" + closing * 30000], 64, "nested deeper than") for opening, closing in (("(", ")"), ("not ", ""))),
    *((["--episodes", ids], 64, "name at least one episode") for ids in ("", " , ")),  # no ids are not all ids
    (["--episodes", "take_2026-01-20"], 64, "take_2026-01-02"), (["--where", "frames > 1e6"], 65, "no episode matches"),
    # Ids that the condition leaves out are no mistake.
    (["--episodes", "take_2026-01-01", "--where", "frames < 1"], 65, "no episode matches"),
], ids=lambda value: str(value)[:80])
def test_what_cannot_be_selected(takeset, days, tmp_path, options, code, words):
    done = takeset("select", days / "da", *options, "--output", tmp_path / "out", check=code)
    assert words in done.stderr and not (tmp_path / "out").exists()


def test_nothing_is_written_over_something(takeset, days, tmp_path):
    takeset("select", days / "da", "--episodes", "take_2026-01-02", "--output", tmp_path / "out", check=0)
    again = ["select", days / "da", "--episodes", "take_2026-01-01", "--output", tmp_path / "out"]
    takeset(*again, check=73)
    takeset(*again, "--replace", check=0)
    assert list(records(tmp_path / "out")) == ["take_2026-01-01"]
    (tmp_path / "mine").mkdir()
    takeset("select", days / "da", "--where", "frames > 0", "--output", tmp_path / "mine", "--replace", check=73)
    takeset("select", days / "da", "--where", "frames > 0", "--output", days / "da/inside", check=64)


@pytest.mark.parametrize("damage, words", [(lambda path: path.unlink(), "is missing"), (lambda path: path.write_bytes(b"x" * 5000), "cannot be read"),
                                           (lambda path: path.write_bytes(path.read_bytes()[:9000]), "cannot be read")])
def test_a_shard_that_cannot_be_read_is_named(takeset, days, tmp_path, damage, words):
    source = tmp_path / "source"
    shutil.copytree(days / "da", source)
    damage(source / "episodes/take_2026-01-02.h5")
    done = takeset("select", source, "--where", "frames > 0", "--output", tmp_path / "out", check=65)
    assert "take_2026-01-02: " in done.stderr and words in done.stderr and len(done.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["source"]
    takeset("select", source, "--episodes", "take_2026-01-01", "--output", tmp_path / "out", check=0)


@pytest.mark.parametrize("options", [[], ["--link"]])
def test_a_shard_with_other_pixels_is_refused(takeset, days, tmp_path, options):
    """Its structure is as it was, and four bytes of one image are not."""
    source = tmp_path / "source"
    shutil.copytree(days / "da", source)
    path = source / "episodes/take_2026-01-01.h5"
    with h5py.File(path) as file:
        place = file["data/demo_0/obs/camera_image"].id.get_chunk_info_by_coord((2, 0, 0, 0))
    data = bytearray(path.read_bytes())
    for at in range(place.byte_offset + place.size // 2, place.byte_offset + place.size // 2 + 4):
        data[at] ^= 0xFF
    path.write_bytes(data)
    done = takeset("merge", source, days / "db", "--output", tmp_path / "out", *options, check=65)
    assert "take_2026-01-01: " in done.stderr and str(path) in done.stderr and "camera_image" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["source"]


def test_what_another_program_added_to_a_shard_is_kept(takeset, days, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(days / "db", source)
    with h5py.File(source / "episodes/take_2026-01-03.h5", "r+") as file:
        file["data/demo_0"].create_dataset("mine", data=list(range(10000)))
        file.attrs["note"] = "x" * 3000
    takeset("verify", source, check=0)
    takeset("select", source, "--where", "frames > 0", "--output", tmp_path / "out", check=0)
    assert shards(tmp_path / "out") == shards(source)
    takeset("verify", tmp_path / "out", check=0)


def test_an_episode_in_two_parts_is_refused(takeset, days, tmp_path):
    for name in "train", "test":
        (tmp_path / f"{name}.json").write_text(json.dumps({name: ["take_2026-01-03"]}))
        takeset("select", days / "db", "--where", "frames > 0", "--split-file", tmp_path / f"{name}.json", "--output", tmp_path / name, check=0)
    merge = ["merge", tmp_path / "train", tmp_path / "test", "--output", tmp_path / "out"]
    done = takeset(*merge, check=65)
    assert "take_2026-01-03 is in train of" in done.stderr and "in test of" in done.stderr and "--resplit" in done.stderr
    takeset(*merge, "--split-file", tmp_path / "test.json", check=0)
    assert manifest(tmp_path / "out")["record"]["splits"]["test"] == ["take_2026-01-03"]


def test_what_a_killed_command_left_is_in_nobodys_way(takeset, days, tmp_path):
    select = ["select", days / "db", "--where", "frames > 0", "--output", tmp_path / "out"]
    takeset(*select, check=0)
    for name in ".out.partial", ".out.partial.old":
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("")
    takeset(*select, "--replace", check=0)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_links_share_the_file(takeset, days, tmp_path):
    takeset("select", days / "da", "--where", "frames > 0", "--output", days / "linked", "--link", check=0)
    for path in (days / "linked/episodes").iterdir():
        assert path.stat().st_ino == (days / "da/episodes" / path.name).stat().st_ino
    takeset("verify", days / "linked", check=0)
    shutil.rmtree(days / "linked")
    takeset("verify", days / "da", check=0)


def test_some_episodes_of_a_split_take(takeset, tmp_path):
    """Its frames count once, and those of the episodes left out count as dropped."""
    uneven(40).write(tmp_path / "in/t")
    split(takeset, tmp_path / "in", tmp_path / "out", "gaps", "split")
    whole = manifest(tmp_path / "out")["record"]["totals"]
    takeset("select", tmp_path / "out", "--episodes", "t.1", "--output", tmp_path / "second", check=0)
    totals = manifest(tmp_path / "second")["record"]["totals"]
    assert totals["frames_in"] == whole["frames_in"] and totals["frames_out"] == entry_of(tmp_path / "out", "t.1")["output"]["samples"]
    assert totals["frames_in"] + totals["frames_repeated"] == totals["frames_out"] + totals["frames_dropped"]
    takeset("verify", tmp_path / "second", check=0)
    takeset("select", tmp_path / "out", "--episodes", "t", "--output", tmp_path / "both", check=0)
    assert sorted(records(tmp_path / "both")) == ["t.0", "t.1"]


def test_frames_of_a_take_count_once_in_whatever_order_its_episodes_come_together(takeset, tmp_path):
    """Resampled before it is split, so that the take has repeats that belong to no episode."""
    uneven(40).write(tmp_path / "in/t")
    takeset.convert(tmp_path / "in", output=tmp_path / "out", arguments=steps(tmp_path, "align", {"resample": {"rate": 97}}, {"split-episodes": {"at": 0.3}}))
    whole = manifest(tmp_path / "out")["record"]["totals"]
    ids = sorted(records(tmp_path / "out"))
    assert len(ids) > 1 and whole["frames_repeated"] > 10
    for name, episodes in ("first", ids[:1]), ("rest", ids[1:]):
        takeset("select", tmp_path / "out", "--episodes", ",".join(episodes), "--output", tmp_path / name, check=0)
        part = manifest(tmp_path / name)["record"]["totals"]
        assert part["frames_in"] == whole["frames_in"] and part["frames_repeated"] == whole["frames_repeated"]
        assert part["frames_dropped"] >= whole["frames_dropped"]
    for order in ["first", "rest"], ["rest", "first"]:
        takeset("merge", *(tmp_path / name for name in order), "--output", tmp_path / "-".join(order), check=0)
        assert manifest(tmp_path / "-".join(order))["record"]["totals"] == whole


def test_the_same_command_writes_the_same_bytes(takeset, days, tmp_path):
    for name in "x", "y":
        takeset("merge", days / "da", days / "db", "--output", tmp_path / name, check=0)
    assert outputs(tmp_path / "x") == outputs(tmp_path / "y")


def test_the_unix_origin_is_that_of_the_first_row(takeset, tmp_path):
    """A step that removes the start moves it."""
    takeset.simulate(tmp_path / "in/session_2026-02-01_130000", "--variant", "v2", "--seconds", 1, "--size", "64x48")
    for name, start in ("whole", 0), ("late", 0.5):
        takeset.convert(tmp_path / "in", output=tmp_path / name, arguments=steps(tmp_path, "align", *([{"trim": {"start": start}}] if start else [])))
    (_, whole), (_, late) = (demos(tmp_path / name)["session_2026-02-01_130000"] for name in ("whole", "late"))
    origin, later = whole["timestamp_ns"].attrs, late["timestamp_ns"].attrs
    moved = later["origin_ns"] - origin["origin_ns"]
    assert moved >= 5 * 10**8 and later["unix_origin_ns"] - origin["unix_origin_ns"] == moved
