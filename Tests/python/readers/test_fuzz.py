"""Thousands of damaged sessions: whatever is in their bytes, each gets its sentence, and nothing else suffers."""

import json
import re

import pytest
from command import BINARY, ROOT, little_memory, measured
from images import frame_code
from mutants import BATCHES, bases, intact
from outputs import demos, manifest
from small_sessions import put, session

MOST = 400 << 20  # bytes resident


def placed(directory, found):
    for name, one in found:
        put(directory / name, one) if isinstance(one, dict) else put(directory, {name: one})
    return directory


def documented_codes():
    """The codes and the reasons of rejections in the first columns of the document's tables."""
    return set(re.findall(r"^\| `([a-z0-9-]+)", (ROOT / "docs/findings.md").read_text(), re.M))


@pytest.fixture(scope="module")
def clean(takeset, tmp_path_factory):
    """The shards of the clean takes when nothing else is there."""
    root = tmp_path_factory.mktemp("clean")
    takeset.convert(placed(root / "in", intact().items()), output=root / "out", check=0)
    return shards(root / "out", "clean-")


def shards(output, start):
    return {path.name: path.read_bytes() for path in (output / "episodes").iterdir() if path.name.startswith(start)}


@pytest.mark.slow
def test_there_are_enough_mutants_and_none_is_the_original():
    originals = [data for files in bases() for data in files.values()]
    counts = {name: sum(1 for _ in make()) for name, make in BATCHES.items()}
    assert sum(counts.values()) >= 1500
    same = [number for number, files in BATCHES["poses.json"]() if files["poses.json"] in originals]
    assert len(same) < 10


@pytest.mark.slow
@pytest.mark.parametrize("batch", BATCHES)
def test_damaged_bytes_hurt_nothing_but_their_own_take(takeset, tmp_path, clean, batch):
    placed(tmp_path / "in", [*intact().items(), *BATCHES[batch]()])
    code, peak, _ = measured(BINARY, "run", tmp_path / "in", "--output", tmp_path / "out", "--progress", "none")
    assert code in (0, 3), code
    assert peak < MOST, peak
    record = manifest(tmp_path / "out")["record"]
    found = {one["id"]: one for one in record["takes"]}
    assert {name for name in clean} == {f"{name}.h5" for name in found if name.startswith("clean-")}
    assert shards(tmp_path / "out", "clean-") == clean
    seen = {finding["code"] for one in found.values() for finding in one["findings"]}
    reasons = {one["reason"].partition(":")[0] for one in found.values() if one["outcome"] == "rejected"}
    assert "internal" not in seen, [one for one in found.values() if "internal" in json.dumps(one["findings"])]
    for one in found.values():
        assert (one["outcome"] == "failed") == any(finding["severity"] == "error" for finding in one["findings"]), one["id"]
        assert one["outcome"] == "written" or one["reason"], one["id"]
    assert code == (3 if any(one["outcome"] == "failed" for one in found.values()) else 0)
    outcomes = {one["outcome"] for one in found.values() if not one["id"].startswith("clean-")}
    assert {"written", "failed"} <= outcomes, outcomes  # the mutants are neither all harmless nor all unusable
    takeset("verify", tmp_path / "out", check=0)
    assert seen | reasons <= documented_codes(), (seen | reasons) - documented_codes()


@pytest.mark.slow
def test_members_that_do_not_fit_their_sums_are_never_taken_for_json(takeset, tmp_path):
    placed(tmp_path / "in", BATCHES["inflated"]())
    takeset.convert(tmp_path / "in", output=tmp_path / "out", check=3)
    for one in manifest(tmp_path / "out")["record"]["takes"]:
        found = {finding["code"] for finding in one["findings"]}
        assert found.isdisjoint({"json-invalid", "json-type", "poses-truncated"}), (one["id"], one["findings"])


@pytest.mark.slow
@pytest.mark.parametrize("batch", BATCHES)
def test_inspect_foresees_what_a_run_makes_of_damaged_bytes(takeset, tmp_path, batch):
    placed(tmp_path / "in", list(BATCHES[batch]())[::3])
    done = takeset("inspect", tmp_path / "in", "--json", preexec_fn=little_memory)
    assert done.returncode in (0, 3), done.stderr[-2000:]
    reported = {one["id"]: one for one in json.loads(done.stdout)["takes"]}
    takeset.convert(tmp_path / "in", output=tmp_path / "out", check=done.returncode)
    ran = {one["id"]: one for one in manifest(tmp_path / "out")["record"]["takes"]}
    assert {name: one["would_be"] for name, one in reported.items()} == {name: one["outcome"] for name, one in ran.items()}


def marker(data, code):
    return data.index(b"\xff" + code)


HEADERS = {
    "cut-before-the-scan": lambda data: data[: marker(data, b"\xc4") + 9],
    "huffman-table": lambda data: data[: marker(data, b"\xc4") + 5] + b"\xff" * 16 + data[marker(data, b"\xc4") + 21 :],
    "components": lambda data: data[: marker(data, b"\xc0") + 9] + b"\x30" + data[marker(data, b"\xc0") + 10 :],
    "no-height": lambda data: data[: marker(data, b"\xc0") + 5] + b"\0\0" + data[marker(data, b"\xc0") + 7 :],
    "no-frame": lambda data: data[: marker(data, b"\xc0")] + data[marker(data, b"\xc0") + 19 :],
    "marker-length": lambda data: data[: marker(data, b"\xdb") + 2] + b"\0\0" + data[marker(data, b"\xdb") + 4 :],
    "only-start": lambda data: b"\xff\xd8\xff",
    "only-end": lambda data: b"\xff\xd8\xff\xd9",
}


@pytest.mark.parametrize("number", [0, 3, 11])
def test_an_image_with_a_damaged_header_costs_its_own_row_and_no_other(takeset, tmp_path, number):
    files = session("v1", count=12)
    name = f"rgb/{number:06d}.jpg"
    placed(tmp_path / "in", [(damage, files | {name: change(files[name])}) for damage, change in HEADERS.items()])
    for jobs in 1, 2:
        output = tmp_path / f"out{jobs}"
        takeset.convert(tmp_path / "in", output=output, arguments=["--jobs", jobs])
        for damage, (demo, meta) in demos(output).items():
            assert meta["streams/camera_image/valid"][:].tolist() == [row != number for row in range(12)], damage
            assert [frame_code(image) for image in demo["obs/camera_image"][:]] == [0 if row == number else row for row in range(12)]
        assert [path.name for path in sorted((output / "episodes").iterdir())] == sorted(f"{damage}.h5" for damage in HEADERS)
    assert shards(tmp_path / "out1", "") == shards(tmp_path / "out2", "")
    takeset("inspect", tmp_path / "in", check=0)
