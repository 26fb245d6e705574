"""All quirks of sessions in one run: each take has its own findings, and none has another's."""

import hashlib

from conversions import PLAIN
from outputs import manifest, warnings
from quirks import CLEAN, QUIRKS, modules


def failing():
    return {one.name for one in QUIRKS.values() if one.outcome == "failed"}


def failed(output):
    return {entry["id"]: entry["reason"] for entry in manifest(output)["record"]["takes"] if entry["outcome"] == "failed"}


def test_every_row_has_a_take_and_a_test():
    rows = [*range(1, 56), 60]
    assert sorted({one.row for one in QUIRKS.values()}) == rows
    assert sorted({int(name[9:11]) for module in modules() for name in vars(module) if name.startswith("test_row_")}) == rows


def test_in_one_run_each_take_has_its_own_findings(batch):
    wrong = {}
    for build, one in QUIRKS.items():
        try:
            batch(build)
        except (AssertionError, KeyError) as error:
            wrong[one.name] = str(error)[:300]
    assert not wrong, "\n".join(f"{name}: {text}" for name, text in wrong.items())
    for name in CLEAN:
        assert warnings(batch.entries[name]) == ({"scale-arbitrary"} if "slam" in name else set())


def test_inspect_foresees_what_the_run_made_of_each_take(batch):
    assert batch.inspected.keys() == batch.entries.keys()
    for name, entry in batch.entries.items():
        seen = batch.inspected[name]
        assert (seen["would_be"], seen["variant"]) == (entry["outcome"], entry["variant"]), name
        if entry["outcome"] == "written":
            assert warnings(seen) == warnings(entry) and seen["alignment"] == entry["alignment"], name
    for one in QUIRKS.values():
        assert one.codes <= {f["code"] for f in batch.inspected[one.name]["findings"]}, one.name


def test_takes_that_must_fail_make_the_exit_code_and_no_others(takeset, batch, tmp_path):
    assert batch.done.returncode == 3 and failed(batch.root / "out").keys() == failing()
    paths = [path for name, found in batch.paths.items() if name not in failing() for path in found]
    paths = [path for path in paths if not path.name.endswith(".metadata.json")]
    done = takeset.convert(*paths, *[batch.root / "in" / name for name in CLEAN], output=tmp_path / "out", check=None)
    assert failed(tmp_path / "out") == {} and done.returncode == 0


def test_clean_takes_do_not_depend_on_the_others(takeset, batch, tmp_path):
    takeset.convert(*[batch.root / "in" / name for name in CLEAN], output=tmp_path / "out", arguments=PLAIN)
    for name in CLEAN:
        shards = [(root / "out/episodes" / f"{name}.h5").read_bytes() for root in (batch.root, tmp_path)]
        assert hashlib.sha256(shards[0]).digest() == hashlib.sha256(shards[1]).digest(), name
    takeset("verify", batch.root / "out", check=0)
