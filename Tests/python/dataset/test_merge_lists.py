"""`merge --from`, and merging again and again into hard links."""

import json
import os
import shutil
import subprocess

import pytest
from command import BINARY
from outputs import manifest
from schemas import validator
from stack_sessions import v1, v2


@pytest.fixture
def days(tmp_path, takeset):
    """Three datasets of a take each, and a list of them."""
    for number, make in enumerate((v1, v2, v2)):
        make().write(tmp_path / f"in/{number}/take_{number}")
        takeset.convert(tmp_path / f"in/{number}", output=tmp_path / f"day {number}")
    (tmp_path / "list").write_text("".join(f"{tmp_path}/day {number}\n\n" for number in range(3)))
    return tmp_path


def ids(directory):
    return [take["id"] for take in manifest(directory)["record"]["takes"]]


def sources(directory):
    return manifest(directory)["record"]["sources"]


def test_a_list_of_datasets_is_merged(takeset, days):
    takeset("merge", *(days / f"day {number}" for number in range(3)), "--output", days / "named", check=0)
    takeset("merge", "--from", days / "list", "--output", days / "listed", check=0)
    takeset("merge", "--from", "-", "--output", days / "piped", input=(days / "list").read_text(), check=0)
    takeset("merge", days / "day 0", "--from", "-", "--output", days / "both", input=f"{days}/day 1\n{days}/day 2", check=0)
    for name in ("listed", "piped", "both"):
        assert manifest(days / name)["record"] == manifest(days / "named")["record"]
        takeset("verify", days / name, check=0)
    takeset("merge", "--from", "-", "--output", days / "one", input=f"{days}/day 1\n", check=0)
    assert ids(days / "one") == ["take_1"] and len(sources(days / "one")) == 1


def test_mistakes_in_a_list(takeset, days):
    def refused(*arguments, code=64, **options):
        done = takeset("merge", *arguments, "--output", days / "out", check=code, **options)
        assert not (days / "out").exists()
        return done.stderr

    assert "names no dataset" in refused("--from", "-", input="\n\n")
    assert "cannot be read as text" in refused("--from", days / "absent")
    assert "cannot be read as text" in refused("--from", days)
    assert "at least two" in refused(days / "day 0")
    refused("--from", "-", input=f"{days}/day 0\n{days}/nowhere\n", code=1)


def test_a_merge_of_linked_shards_does_not_read_them_again(takeset, days):
    """Every link changes the inode; only what changes the file counts."""
    merge = ("merge", "--from", days / "list", "--link", "--output")
    takeset(*merge, days / "first", check=0)
    shard = days / "day 1/episodes/take_1.h5"
    before = shard.stat()
    content = bytearray(shard.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 64] = bytes(64)

    def write(times):
        with shard.open("r+b") as file:
            file.write(content)
        if times:
            os.utime(shard, ns=(before.st_atime_ns, before.st_mtime_ns))

    # A program that hides that it has written: the next merge does not look, verify does.
    write(times=True)
    takeset(*merge, days / "second", check=0)
    takeset("verify", days / "second", check=2)
    # One that does not hide it.
    write(times=False)
    done = takeset(*merge, days / "third", check=65)
    assert "take_1" in done.stderr and "is damaged" in done.stderr


def test_a_shard_that_was_never_linked_is_read_after_any_change(takeset, days):
    shard = days / "day 1/episodes/take_1.h5"
    before, content = shard.stat(), bytearray(shard.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 64] = bytes(64)
    with shard.open("r+b") as file:
        file.write(content)
    os.utime(shard, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "is damaged" in takeset("merge", "--from", days / "list", "--link", "--output", days / "out", check=65).stderr


@pytest.mark.slow
def test_a_dataset_that_grows_by_merging_stays_small_and_readable(takeset, days):
    """Forty nights, each merged to what there is: the record was nested deeper with each, until nothing could read it."""
    merged = days / "merged 0"
    takeset("merge", days / "day 0", days / "day 1", "--output", merged, "--link", check=0)
    for number in range(1, 40):
        earlier, merged = merged, days / f"merged {number}"
        takeset("merge", earlier, days / "day 2", "--output", merged, "--link", check=0)
    takeset("verify", merged, check=0)
    assert not list(validator("manifest.schema.json").iter_errors(manifest(merged)))
    found = sources(merged)
    digests = [source["record_sha256"] for source in found]
    assert len(digests) == len(set(digests)) == 42, "two days, 39 datasets between, and the third day"
    # Every dataset names those that it was made of, and every one of them is in the list.
    assert {digest for source in found for digest in source.get("sources", [])} <= set(digests)
    assert [source.get("indirect", False) for source in found] == [False] * 2 + [True] * 40
    done = takeset("trace", merged, "--episode", "take_1", "--row", 0, check=0)
    assert "merged from 2 datasets" in done.stdout
    size = (merged / "manifest.json").stat().st_size
    takeset("merge", merged, merged, "--output", days / "twice", "--link", check=0)
    assert (days / "twice/manifest.json").stat().st_size < size * 1.1


def test_more_datasets_are_merged_than_files_may_be_open_at_first(takeset, days):
    names = "".join(f"{days}/day {number % 3}\n" for number in range(80))
    limited = f"ulimit -Sn 64; exec {BINARY} merge --from - --output {days}/many"
    done = subprocess.run(["bash", "-c", limited.replace("day ", "day\\ ")], input=names, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert ids(days / "many") == ["take_0", "take_1", "take_2"]


def test_json_says_what_was_written_or_which_dataset_cannot_be_used(takeset, takes, tmp_path):
    names = ["a", "b"]
    for name, take in zip(names, sorted(takes.iterdir())):
        takeset.convert(take, output=tmp_path / name)
    command = ["merge", "a", "b", "--output", "out", "--json"]
    answer = json.loads(takeset(*command, cwd=tmp_path, check=0).stdout)
    frames = sum(t["output"]["samples"] for name in names for t in manifest(tmp_path / name)["record"]["takes"])
    assert (answer["output"], answer["episodes"], answer["frames"], answer["without_episode"], answer["duplicates"]) == ("out", 2, frames, 0, [])
    shutil.rmtree(tmp_path / "out")
    (shard,) = (tmp_path / "b/episodes").iterdir()
    whole = shard.read_bytes()
    for damage, code, words in (
        (lambda: shard.write_bytes(whole[:-100] + bytes(100)), 65, "is damaged"), (shard.unlink, 65, "is missing"),
        (lambda: (tmp_path / "b/journal.jsonl").write_text(""), 64, "is not finished"),
        (lambda: ((tmp_path / "b/journal.jsonl").unlink(), (tmp_path / "b/journal.jsonl").mkdir()), 64, "journal.jsonl"),
        (lambda: (tmp_path / "b/manifest.json").write_text("{"), 64, "is not a Takeset dataset"),
        (lambda: shutil.rmtree(tmp_path / "b"), 1, "b"),
    ):
        damage()
        done = takeset(*command, cwd=tmp_path, check=code)
        (unusable,) = json.loads(done.stdout)["unusable"]
        assert unusable["dataset"] == "b" and words in unusable["reason"] and unusable["reason"] in done.stderr
        assert not (tmp_path / "out").exists()
