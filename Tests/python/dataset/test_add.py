"""takeset add: values that were computed outside become a stream, recorded and kept; the rest of the dataset keeps its bytes."""

import base64
import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import warnings
import zipfile

import h5py
import numpy as np
import pytest
import takeset as package
from command import BINARY, ROOT
from documents import blocks
from flips import of_take
from run_outputs import outputs
from schemas import validator
from system import calls, spread, stopped

NEW = {"data/demo_0/obs/width", "data/demo_0/obs/width_valid", *(f"meta/demo_0/streams/width/{n}" for n in ["dt_ns", "source_index", "next_index", "weight", "valid"])}


def rows(dataset):
    return {take["id"]: take["output"]["samples"] for take in record(dataset)["takes"] if take["output"]}


def record(dataset):
    return json.loads((dataset / "manifest.json").read_text())["record"]


def values(dataset, width=2):
    """Numbers for each episode: some of a row absent, and all of one row."""
    rng, made = np.random.default_rng(5), {}
    for id, count in rows(dataset).items():
        made[id] = rng.normal(size=(count, width))
        made[id][1], made[id][2, 0] = np.nan, np.nan
    return made


def saved(path, arrays):
    np.savez(path, **arrays)
    return path


def arrays(path):
    """Every dataset of a file with its stored bytes, chunk by chunk, and its attributes."""
    found = {}

    def note(name, item):
        if not isinstance(item, h5py.Dataset):
            return
        content = item[()]
        if item.chunks:
            content = [item.id.read_direct_chunk(item.id.get_chunk_info(i).chunk_offset) for i in range(item.id.get_num_chunks())]
        elif isinstance(content, np.ndarray):
            content = content.tobytes() if content.dtype != object else [bytes(row) for row in content]
        found[name] = content, dict(item.attrs)

    with h5py.File(path) as file:
        file.visititems(note)
    return found


def add(takeset, dataset, file, *options, name="width", check=0):
    return takeset("add", dataset, "--stream", f"{name}={file}", *options, check=check)


def test_values_become_a_stream_and_the_rest_keeps_its_bytes(takeset, tiny_dataset, copy, tmp_path):
    given = values(copy)
    for path in (copy / "episodes").iterdir():
        path.chmod(0o640)
    file = saved(tmp_path / "w.npz", given)
    said = add(takeset, copy, file, "--unit", "m").stdout
    assert f"width (2 numbers a row, m) added to {len(given)} episodes, {sum(map(len, given.values()))} rows, {len(given)} without a value" in said

    before, after = record(tiny_dataset), record(copy)
    validator("manifest.schema.json").validate(json.loads((copy / "manifest.json").read_text()))
    for old, new in zip(before["takes"], after["takes"], strict=True):
        assert new.pop("additions") == [{"stream": "width", "file": "w.npz", "sha256": hashlib.sha256(file.read_bytes()).hexdigest(), "unit": "m"}]
        own, other = old.pop("output"), new.pop("output")
        assert new == old and {a["path"][1:] for a in other["datasets"]} - {a["path"][1:] for a in own["datasets"]} >= NEW
        assert [a for a in other["datasets"] if a in own["datasets"]] == own["datasets"]
        one, two = arrays(tiny_dataset / own["path"]), arrays(copy / own["path"])
        assert {name for name in two if name not in one} >= NEW and {name: two[name] for name in one} == one
        with h5py.File(copy / own["path"]) as shard:
            stored, mask = shard["data/demo_0/obs/width"], shard["data/demo_0/obs/width_valid"]
            np.testing.assert_array_equal(stored, given[new["id"]].astype(np.float32))
            np.testing.assert_array_equal(mask, ~np.isnan(given[new["id"]]))
            assert stored.attrs["unit"] == "m" and stored.attrs["sha256"] == hashlib.sha256(stored[()].tobytes()).hexdigest()
            group, times = shard["meta/demo_0/streams/width"], shard["meta/demo_0/source_index"][:]
            np.testing.assert_array_equal(group["valid"], ~np.isnan(given[new["id"]]).all(1))
            np.testing.assert_array_equal(group["source_index"], np.where(group["valid"][:] == 1, times, -1))
    for part in ["splits", "findings", "pipeline", "pipeline_sha256", "totals"]:
        assert after[part] == before[part]
    train = np.concatenate([given[id] for id in after["splits"]["train"]])
    with h5py.File(copy / "dataset.h5") as index:
        assert np.allclose(index["stats/width/mean"], np.nanmean(train, 0)) and np.allclose(index["stats/width/q99"], np.nanquantile(train.astype(np.float32), 0.99, 0))
        assert list(index["stats/width/count"]) == list((~np.isnan(train)).sum(0))
    takeset("verify", copy, check=0)
    assert {path.stat().st_mode & 0o777 for path in (copy / "episodes").iterdir()} == {0o640}
    assert "nothing to do" in add(takeset, copy, file, "--unit", "m").stdout


def test_the_stream_reaches_what_reads_datasets(takeset, copy, tmp_path):
    given = values(copy, width=1)
    add(takeset, copy, saved(tmp_path / "w.npz", given), "--unit", "m")
    for episode in package.open(copy):
        np.testing.assert_array_equal(episode["width"][:], given[episode.id].astype(np.float32))
    takeset("export", copy, "--to", "mcap", "--episodes", "v1", "--output", tmp_path / "mcap", check=0)
    assert b"width" in (tmp_path / "mcap/v1.mcap").read_bytes()
    traced = json.loads(takeset("trace", copy, "--episode", "v1", "--row", 3, "--json", check=0).stdout)
    [stream] = [s for s in traced["streams"] if s["name"] == "width"]
    assert stream["added"]["file"] == "w.npz" and traced["reproduced"] is True
    alone = takeset("trace", copy, "--episode", "v1", "--row", 3, "--stream", "width", check=0).stdout
    assert "w.npz, by takeset add" in alone and "not tried" in alone
    takeset("pack", copy, "--output", tmp_path / "packed.h5", check=0)
    takeset("verify", tmp_path / "packed.h5", check=0)
    takeset("select", copy, "--episodes", "v1,scan", "--output", tmp_path / "some", check=0)
    takeset("verify", tmp_path / "some", check=0)
    assert {take["id"] for take in record(tmp_path / "some")["takes"] if take["additions"][0]["stream"] == "width"} == {"v1", "scan"}
    assert "width" in record(tmp_path / "some")["statistics"]


def test_the_page_says_what_happens(takeset, tiny_dataset, tmp_path):
    """Its script and its command, in a folder with a dataset/; only the numbers of the output are of another dataset."""
    takeset("select", tiny_dataset, "--episodes", "v1,scan", "--output", tmp_path / "dataset", check=0)
    [script] = blocks("docs/add.md", "python")
    [console] = blocks("docs/add.md", "console")
    command, said = console.splitlines()
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT / "python")}, check=True)
    done = takeset(*command.split()[2:], cwd=tmp_path, check=0)
    assert re.sub(r"\d[\d,]*", "N", done.stdout) == re.sub(r"\d[\d,]*", "N", said + "\n")
    with h5py.File(tmp_path / "dataset/dataset.h5") as index:
        assert all("distance" in demo["obs"] for demo in index["data"].values())


def test_lines_of_a_table(takeset, copy, tmp_path):
    """Two episodes, every other row, in any order."""
    count = rows(copy)
    lines = [(id, row, row / 8, -row) for id in ["v1", "scan"] for row in range(0, count[id], 2)]
    np.random.default_rng(1).shuffle(lines)
    text = "\n".join(",".join(map(str, line)) for line in lines)
    (tmp_path / "f.csv").write_text("episode,row,force,torque\n" + text + "\n")
    done = add(takeset, copy, tmp_path / "f.csv", "--unit", "N", name="load")
    assert "have no values: pour, v2" in done.stderr
    with h5py.File(of_take(copy, "v1")) as shard:
        stored = shard["data/demo_0/obs/load"]
        assert stored.attrs["order"] == "force torque" and stored[2].tolist() == [0.25, -2] and np.isnan(stored[1::2]).all()
    (tmp_path / "one.csv").write_text("".join(f"{row}\n" for row in range(count["v2"])))
    add(takeset, copy, tmp_path / "one.csv", "--episode", "v2", name="number")
    with h5py.File(copy / "dataset.h5") as index:
        assert index["stats/load/count"][0] > 0 and [d for d in index["data"].values() if "number" in d["obs"]][0]["obs/number"][3, 0] == 3
    takeset("verify", copy, check=0)


BAD = {
    "no such file": (lambda path, n: path / "nothing.npz", 64, "no such file"),
    "another kind of file": (lambda path, n: written(path / "w.txt", "1"), 64, "expected a .npz or a .csv file"),
    "no archive": (lambda path, n: written(path / "w.npz", "hello"), 65, "w.npz: the zip cannot be read"),
    "an unknown episode": (lambda path, n: saved(path / "w.npz", {"v1": np.zeros(n), "v3": np.zeros(n)}), 64, 'has no episode "v3"'),
    "an unknown episode alone": (lambda path, n: saved(path / "w.npz", {"v3": np.zeros(n)}), 64, 'has no episode "v3"'),
    "a row too few": (lambda path, n: saved(path / "w.npz", {"v1": np.zeros(n - 1)}), 65, "the array v1 has {less} rows, and the episode v1 has {n}"),
    "one array for all": (lambda path, n: saved(path / "w.npz", {"width": np.zeros(n)}), 64, "does not say which of the 4 episodes"),
    "texts": (lambda path, n: saved(path / "w.npz", {"v1": np.array(["a"] * n)}), 65, "the array v1 has the type <U1"),
    "objects": (lambda path, n: saved(path / "w.npz", {"v1": np.array([{}] * n)}), 65, "the array v1 has the type |O"),
    "an infinite value": (lambda path, n: saved(path / "w.npz", {"v1": np.full(n, np.inf)}), 65, "row 0 of the array v1 has an infinite value"),
    "a value too large": (lambda path, n: saved(path / "w.npz", {"v1": np.full(n, 1e39)}), 65, "too large for a 32-bit float"),
    "a time in nanoseconds": (lambda path, n: saved(path / "w.npz", {"v1": np.full(n, 2**24 + 1)}), 65, "16777217, a whole number that a 32-bit float does not hold exactly"),
    "a whole number beyond 53 bits": (lambda path, n: saved(path / "w.npz", {"v1": np.full(n, 2**60 + 1)}), 65, "has 1152921504606846977, a whole number"),
    "the largest whole number": (lambda path, n: saved(path / "w.npz", {"v1": np.full(n, 2**64 - 1, np.uint64)}), 65, "has 18446744073709551615, a whole number"),
    "a whole number in a table": (lambda path, n: written(path / "w.csv", "episode,a\nv1,1152921504606846977\n"), 65, "line 2 has 1152921504606846977, a whole number"),
    "line ends of old": (lambda path, n: written(path / "w.csv", "episode,a\rv1,1\rv1,2\r"), 65, ""),
    "three axes": (lambda path, n: saved(path / "w.npz", {"v1": np.zeros((n, 2, 2))}), 65, "has the shape ({n}, 2, 2)"),
    "several widths": (lambda path, n: saved(path / "w.npz", {"v1": np.zeros((n, 2)), "v2": np.zeros((n, 3))}), 65, "2 and 3 numbers a row; expected as many in all"),
    "an array twice": (lambda path, n: twice(path / "w.npz", n), 65, 'the member "v1.npy" occurs twice'),
    "another checksum": (lambda path, n: flipped(saved(path / "w.npz", {"v1": np.zeros(n)})), 65, "the array v1 cannot be read"),
    "a truncated array": (lambda path, n: zipped(path / "w.npz", npy(np.zeros(n))[:-8]), 65, "its shape and type say otherwise"),
    "an enormous shape": (lambda path, n: zipped(path / "w.npz", npy(np.zeros(n)).replace(b"(%d,)" % n, b"(4611686018427387904, 4)")), 65, "the array v1"),
    "no number": (lambda path, n: written(path / "w.csv", "episode,width\nv1,wide\n"), 65, 'line 2: "wide" is no number'),
    "a field too few": (lambda path, n: written(path / "w.csv", "episode,a,b\nv1,1,2\nv1,1\n"), 65, "line 3 has 2 fields; expected 3"),
    "a row twice": (lambda path, n: written(path / "w.csv", "episode,row,a\nv1,1,2\nv1,1,3\n"), 65, "line 3: row 1 is in line 2 already"),
    "a row beyond": (lambda path, n: written(path / "w.csv", f"episode,row,a\nv1,{n},2\n"), 65, "line 2 is row {n} of the episode v1, which has {n}"),
    "the last row of all": (lambda path, n: written(path / "w.csv", "episode,row,a\nv1,9223372036854775807,2\n"), 65, "which has {n}"),
    "a line too many": (lambda path, n: written(path / "w.csv", "episode,a\n" + "v1,1\n" * (n + 1)), 65, "is row {n} of the episode v1"),
    "a line too few": (lambda path, n: written(path / "w.csv", "episode,a\n" + "v1,1\n" * (n - 1)), 65, "it has {less} rows for the episode v1, which has {n}"),
    "no values": (lambda path, n: written(path / "w.csv", "episode,row\nv1,1\n"), 65, "there is no column with values"),
    "no id": (lambda path, n: written(path / "w.csv", "episode,a\n,1\n"), 64, 'has no episode ""'),
    "an unnamed column": (lambda path, n: written(path / "w.csv", ",a\n0,1\n"), 65, 'column 1 is named ""'),
    "a quote without an end": (lambda path, n: written(path / "w.csv", 'episode,a\nv1,"1\n'), 65, "line 2: a quote has no end"),
    "UTF-16": (lambda path, n: written(path / "w.csv", "\ufeffepisode,a\n", encoding="utf-16-le"), 65, "the text is not UTF-8"),
    "nothing": (lambda path, n: written(path / "w.csv", ""), 65, "it has no lines with values"),
}


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def zipped(path, *members):
    with zipfile.ZipFile(path, "w") as file:
        for member in members:
            file.writestr("v1.npy", member)
    return path


def twice(path, count):
    with warnings.catch_warnings(action="ignore"):
        return zipped(path, npy(np.zeros(count)), npy(np.ones(count)))


def flipped(path):
    """A byte of the last value is another one, and the archive's checksum is not."""
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02") - 20] ^= 1
    path.write_bytes(data)
    return path


def written(path, text, **options):
    path.write_text(text, **options)
    return path


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_changes_nothing(takeset, copy, tmp_path, name):
    make, code, words = BAD[name]
    before, count = outputs(copy), rows(copy)["v1"]
    done = add(takeset, copy, make(tmp_path, count), check=code)
    assert words.format(n=count, less=count - 1) in done.stderr and done.stderr.count("\n") == 1
    assert outputs(copy) == before


@pytest.mark.parametrize(("name", "words"), [("pose", "has a stream pose already"), ("Width", "expected a name"), ("actions", "something else of this name"), ("a_valid", "something else")])
def test_a_bad_name_changes_nothing(takeset, copy, tmp_path, name, words):
    before = outputs(copy)
    assert words in add(takeset, copy, saved(tmp_path / "w.npz", values(copy)), name=name, check=64).stderr
    assert outputs(copy) == before


@pytest.mark.parametrize("array", ["v1", "scan"])
def test_an_array_of_another_episode_is_not_taken(takeset, copy, tmp_path, array):
    """Neither by --episode, nor because the dataset has only one."""
    takeset("select", copy, "--episodes", "v2", "--output", tmp_path / "one", check=0)
    file = saved(tmp_path / "w.npz", {array: np.zeros(rows(copy)["v2"])})
    before = outputs(copy), outputs(tmp_path / "one")
    assert f"{file} has no values for v2" in add(takeset, copy, file, "--episode", "v2", check=64).stderr
    assert f'has no episode "{array}"' in add(takeset, tmp_path / "one", file, check=64).stderr
    assert (outputs(copy), outputs(tmp_path / "one")) == before
    np.savez(tmp_path / "plain.npz", np.arange(rows(copy)["v2"], dtype=np.float16))
    add(takeset, copy, tmp_path / "plain.npz", "--episode", "v2")
    with h5py.File(of_take(copy, "v2")) as shard:
        assert shard["data/demo_0/obs/width"][7, 0] == 7


@pytest.mark.parametrize("obstacle", ["another program's array", "a link", "an array in place of a group", "damage"])
def test_an_obstacle_in_one_shard_stops_it_before_the_first(takeset, copy, tmp_path, obstacle):
    last = of_take(copy, max(rows(copy)))
    if obstacle == "a link":
        last.rename(tmp_path / "away.h5")
        last.symlink_to(tmp_path / "away.h5")
    elif obstacle == "damage":
        last.write_bytes(last.read_bytes()[:-100] + bytes(100))
    else:
        with h5py.File(last, "r+") as file:
            file["data/demo_0/obs/width" if obstacle == "another program's array" else "meta/demo_0/streams/width"] = np.zeros(5)
    before = {path.name: path.read_bytes() for path in (copy / "episodes").iterdir()}
    done = add(takeset, copy, saved(tmp_path / "w.npz", values(copy)), check=65)
    assert last.stem in done.stderr and done.stderr.count("\n") == 1 and "H5" not in done.stderr
    assert {path.name: path.read_bytes() for path in (copy / "episodes").iterdir()} == before


def test_other_values_take_the_place_of_those_that_were_added(takeset, failing_look, copy, tmp_path):
    """Also after a kill at any change: the dataset is sound then, and the same command ends as it would have."""
    first, second = values(copy), {id: 2 * array[:, :1] for id, array in values(copy).items()}
    add(takeset, copy, saved(tmp_path / "one.npz", first), "--unit", "m")
    refused = add(takeset, copy, saved(tmp_path / "two.npz", second), "--unit", "mm", check=64)
    assert "which takeset add has added from one.npz; choose another name, or give --replace" in refused.stderr
    again = ["add", "--stream", f"width={tmp_path / 'two.npz'}", "--unit", "mm", "--replace"]
    whole = shutil.copytree(copy, tmp_path / "whole")
    count = calls(takeset, failing_look, "change", whole, *again, whole)
    takeset("verify", whole, check=0)
    with h5py.File(of_take(whole, "v1")) as shard:
        np.testing.assert_array_equal(shard["data/demo_0/obs/width"], second["v1"].astype(np.float32))
        assert shard["data/demo_0/obs/width"].attrs["unit"] == "mm"
    assert {take["additions"][0]["file"] for take in record(whole)["takes"]} == {"two.npz"}
    for at in spread(min(count, 12), count):
        output = shutil.copytree(copy, tmp_path / f"at{at}")
        process = stopped([BINARY, *again, output], failing_look, "change", output, at)
        process.kill()
        process.wait()
        takeset("verify", output, check=0)
        takeset(*again, output, check=0)
        takeset("verify", output, check=0)
        assert record(output) == record(whole)
        shutil.rmtree(output)


def test_a_file_that_grew_adds_what_is_new(takeset, copy, tmp_path):
    given = values(copy)
    add(takeset, copy, saved(tmp_path / "w.npz", {"v1": given["v1"]}))
    assert f"added to {len(given)} episodes" in add(takeset, copy, saved(tmp_path / "more.npz", given)).stdout
    assert {take["id"]: take["additions"][0]["file"] for take in record(copy)["takes"]} == {id: "w.npz" if id == "v1" else "more.npz" for id in given}
    assert "nothing to do" in add(takeset, copy, shutil.copy(tmp_path / "more.npz", tmp_path / "a\nb.npz")).stdout


def test_an_interrupted_command_says_how_to_go_on(takeset, failing_look, copy, tmp_path):
    file = saved(tmp_path / "w.npz", values(copy))
    process = stopped([BINARY, "add", copy, "--stream", f"width={file}"], failing_look, "rename", copy, 1, stderr=subprocess.PIPE, text=True)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGCONT)
    assert "interrupted; the same command goes on" in process.communicate(timeout=300)[1] and process.returncode == 130
    takeset("verify", copy, check=0)
    takeset("select", copy, "--where", "frames > 0", "--output", tmp_path / "half", check=0)
    takeset("verify", tmp_path / "half", check=0)
    assert "width" not in record(tmp_path / "half")["statistics"]
    add(takeset, copy, file)
    takeset("verify", copy, check=0)


def test_a_signature_and_a_crate_name_the_file(takeset, copy, tmp_path):
    file = saved(tmp_path / "w.npz", values(copy))
    add(takeset, copy, file)
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", tmp_path / "key.pem"], check=True, capture_output=True)
    takeset("sign", copy, "--key", tmp_path / "key.pem", check=0)
    payload = json.loads(base64.b64decode(json.loads((copy / "attestation.json").read_text())["payload"]))
    sources = payload["predicate"]["buildDefinition"]["resolvedDependencies"]
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert {"name": "values of width", "digest": {"sha256": digest}} in sources
    takeset("describe", copy, "--ro-crate", check=0)
    crate = {entity["@id"]: entity for entity in json.loads((copy / "ro-crate-metadata.json").read_text())["@graph"]}
    [values_of] = [entity for entity in crate.values() if entity["name" if "name" in entity else "@id"] == "values of width"]
    assert values_of["sha256"] == digest and "w.npz" in values_of["description"] and {"@id": values_of["@id"]} in crate["#conversion"]["object"]


def test_a_plan_for_a_cluster_does_as_a_run(takeset, tiny_takes, tmp_path):
    output = tmp_path / "out"
    takeset.convert(tiny_takes, output=output)
    plain = outputs(output)
    add(takeset, output, saved(tmp_path / "w.npz", {"v1": np.zeros(rows(output)["v1"])}))
    assert "width to v1" in takeset("plan", tiny_takes, "--output", output, "--tasks", check=64).stderr
    takeset("plan", tiny_takes, "--output", output, "--tasks", "--replace", check=0)
    takeset("convert", output, "--task", 0, "--count", 4, check=0)
    takeset("publish", output, check=0)
    assert outputs(output) == plain


def test_a_run_of_the_same_takes_refuses_until_it_may_replace(takeset, tiny_takes, tmp_path):
    takes, output = shutil.copytree(tiny_takes, tmp_path / "takes"), tmp_path / "out"
    takeset.convert(takes, output=output)
    plain = outputs(output)
    add(takeset, output, saved(tmp_path / "w.npz", {"v1": np.zeros(rows(output)["v1"])}))
    added = outputs(output)
    refused = takeset.convert(takes, output=output, check=64)
    assert "has what takeset add has added: width to v1" in refused.stderr and outputs(output) == added
    # Other takes, and those that are gone, are no reason.
    shutil.copytree(takes / "v2", tmp_path / "other/later")
    done = takeset.convert(tmp_path / "other", output=output, arguments=["--prune"])
    assert "1 written" in done.stdout and "v1: it is no longer among the inputs, but takeset add has added width to episodes/v1.h5" in done.stderr
    takeset("verify", output, check=0)
    assert {take["id"]: "additions" in take for take in record(output)["takes"]} == {"later": False, "v1": True}
    takeset.convert(takes, output=output, arguments=["--replace", "--prune"])
    assert outputs(output) == plain


def test_beside_what_another_program_added(takeset, copy, tmp_path):
    with h5py.File(of_take(copy, "v1"), "r+") as file:
        file["data/demo_0/obs/other"] = np.zeros(5)
    add(takeset, copy, saved(tmp_path / "w.npz", values(copy)))
    assert json.loads(takeset("verify", copy, "--json", check=0).stdout)["added"] == ["episodes/v1.h5:/data/demo_0/obs/other"]
    with h5py.File(of_take(copy, "v1"), "r+") as file:
        assert len(file["data/demo_0/obs/other"]) == 5
        file["data/demo_0/obs/load"] = np.zeros(5)
    refused = add(takeset, copy, saved(tmp_path / "l.npz", values(copy)), name="load", check=65)
    assert "episodes/v1.h5 has /data/demo_0/obs/load, which another program" in refused.stderr


def test_a_damaged_shard_gets_nothing(takeset, copy, tmp_path):
    shard = of_take(copy, "v1")
    data = bytearray(shard.read_bytes())
    data[100] ^= 1
    shard.write_bytes(data)
    assert "nothing is added" in add(takeset, copy, saved(tmp_path / "w.npz", {"v1": np.zeros(rows(copy)["v1"])}), check=65).stderr
    assert shard.read_bytes() == data


def test_next_observations_have_the_next_value(takeset, tiny_takes, tmp_path):
    pipeline = written(tmp_path / "p.yaml", "version: 1\ntransforms: [{align: {}}, {actions: {next-obs: true}}]\n")
    takeset.convert(tiny_takes / "v1", output=tmp_path / "out", arguments=["--pipeline", pipeline])
    add(takeset, tmp_path / "out", saved(tmp_path / "w.npz", {"width": np.arange(rows(tmp_path / "out")["v1"])}))
    with h5py.File(of_take(tmp_path / "out", "v1")) as shard:
        now, later = shard["data/demo_0/obs/width"][:, 0], shard["data/demo_0/next_obs/width"][:, 0]
    np.testing.assert_array_equal(later, np.append(now[1:], now[-1]))
    takeset("verify", tmp_path / "out", check=0)


def test_killed_at_any_change(takeset, failing_look, copy, tmp_path):
    """The dataset is sound at every moment, and the same command makes what it would have made."""
    file = saved(tmp_path / "w.npz", values(copy))
    whole = shutil.copytree(copy, tmp_path / "whole")
    count = calls(takeset, failing_look, "change", whole, "add", whole, "--stream", f"width={file}")
    kills = 0
    for at in spread(min(count, 24), count):
        output = shutil.copytree(copy, tmp_path / f"at{at}")
        process = stopped([BINARY, "add", output, "--stream", f"width={file}"], failing_look, "change", output, at)
        kills += process.returncode is None
        process.kill()
        process.wait()
        takeset("verify", output, check=0)
        add(takeset, output, file)
        assert outputs(output) == outputs(whole)
        assert not [path.name for path in (output / "episodes").iterdir() if path.suffix != ".h5"]
        shutil.rmtree(output)
    assert kills > 15
