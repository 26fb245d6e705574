"""The manifest: its schema, its digests, and what it must not name."""

import hashlib
import json
import shutil
import subprocess

import h5py
import numpy as np
from outputs import arrays, canonical, check_digests, digest, manifest, take
from schemas import validator
from sealing import structure


def all_manifests(dataset, takes, takeset, tmp_path):
    """Written, failed, rejected, missing: every kind of entry."""
    yield manifest(dataset)
    bad = tmp_path / "bad"
    shutil.copytree(takes, bad)
    names = sorted(p.name for p in bad.iterdir())
    (bad / names[0] / "poses.json").write_text("{}")
    (bad / names[1] / "poses.json").write_text("[]")
    (bad / names[1] / "metadata.json").write_text('{"captureSource": "iphone_ultrawide"}')
    (bad / names[2] / "rgb/000003.jpg").write_bytes(b"")
    takeset.convert(bad, tmp_path / "nowhere", output=tmp_path / "out", check=3)
    yield manifest(tmp_path / "out")


def test_every_manifest_fits_the_schema_and_its_digest(dataset, takes, takeset, tmp_path):
    outcomes = set()
    for document in all_manifests(dataset, takes, takeset, tmp_path):
        validator("manifest.schema.json").validate(document)
        record = document["record"]
        assert sorted(document) == ["record", "record_sha256", "run", "run_sha256"] and record["manifest_version"] == 2
        for part in "record", "run":
            assert hashlib.sha256(canonical(document[part]).encode()).hexdigest() == document[f"{part}_sha256"], part
        outcomes |= {t["outcome"] for t in record["takes"]}
        totals = record["totals"]
        assert totals["takes"] == len(record["takes"]) == totals["written"] + totals["rejected"] + totals["failed"]
        assert totals["frames_in"] == totals["frames_out"] + totals["frames_dropped"]
        assert totals["frames_out"] == sum(t["output"]["samples"] for t in record["takes"] if t["output"])
        for t in record["takes"]:
            for before, after in zip(t["steps"], t["steps"][1:]):
                assert before["frames_out"] == after["frames_in"] or t["outcome"] != "written"
            for step in t["steps"]:
                assert step["frames_in"] == step["frames_out"] + sum(d["count"] for d in step["dropped"])
        assert [t["id"] for t in record["takes"]] == sorted(t["id"] for t in record["takes"])
    assert outcomes == {"written", "failed", "rejected"}


def test_the_manifest_has_its_keys_in_order_and_ends_with_a_line(dataset):
    def in_order(pairs):
        keys = [key for key, _ in pairs]
        assert keys == sorted(keys)
        return dict(pairs)

    text = (dataset / "manifest.json").read_bytes()
    assert text.endswith(b"}\n") and not text.endswith(b"\n\n")
    json.loads(text.decode("utf-8"), object_pairs_hook=in_order)


def test_a_rejected_take_does_not_fail_the_run(takes, takeset, tmp_path):
    copy = tmp_path / "takes"
    shutil.copytree(takes, copy)
    name = sorted(p.name for p in copy.iterdir())[0]
    (copy / name / "poses.json").write_text("[]")
    (copy / name / "metadata.json").write_text('{"captureSource": "iphone_ultrawide", "slamProcessed": false}')
    takeset.convert(copy, output=tmp_path / "out", check=0)
    record = take(tmp_path / "out", name)
    assert (record["outcome"], record["reason"], record["variant"]) == ("rejected", "needs-slam", "v3-raw")
    assert "nothing to do" in takeset.convert(copy, output=tmp_path / "out").stdout


def test_input_digests_are_what_coreutils_say(dataset, masters):
    for session in masters.values():
        record = take(dataset, session.name)
        for entry in record["inputs"]:
            data = (session / entry["path"]).read_bytes()
            assert entry["bytes"] == len(data) and entry["sha256"] == hashlib.sha256(data).hexdigest()
        listed = {e["path"] for e in record["inputs"]}
        assert listed == {str(p.relative_to(session)) for p in session.rglob("*") if p.is_file()} - {"truth.json"}
        command = "sha256sum " + " ".join(sorted(listed)) + " | LC_ALL=C sort | sha256sum"
        shown = subprocess.run(command, shell=True, cwd=session, capture_output=True, text=True, check=True).stdout
        assert record["input_sha256"] == shown.split()[0]


def attribute_lines(path):
    """Every attribute of a shard as the manifest's schema says."""
    lines = []

    def see(name, item):
        for key, value in item.attrs.items():
            value = value.item() if isinstance(value, np.generic) else value
            lines.append(f"{item.name}@{key}={canonical(value)}\n".encode())

    with h5py.File(path) as f:
        see("", f)
        f.visititems(see)
    return sorted(lines)


def filters(data):
    return ["shuffle"] * data.shuffle + [f"deflate {data.compression_opts}"] * (data.compression == "gzip")


def test_the_record_holds_the_shards_digests(dataset):
    for t in manifest(dataset)["record"]["takes"]:
        output = t["output"]
        assert sorted(output) == ["attributes_sha256", "bytes", "content_sha256", "datasets", "path", "samples", "structure_sha256"]
        path = dataset / output["path"]
        assert output["bytes"] == path.stat().st_size
        with h5py.File(path) as f:
            found = arrays(f["data/demo_0"], f["meta/demo_0"])
            assert [entry["path"] for entry in output["datasets"]] == sorted(found)
            for entry in output["datasets"]:
                data = found[entry["path"]]
                assert (entry["dtype"], tuple(entry["shape"])) == (data.dtype.str, data.shape)
                assert (entry["sha256_of"], entry["sha256"]) == digest(data)[:2]
                assert (entry["chunk"] and tuple(entry["chunk"])) == data.chunks and entry["filters"] == filters(data)
            check_digests(f["data/demo_0"], f["meta/demo_0"])
        lines = sorted(f"{entry['sha256']}  {entry['path']}\n".encode() for entry in output["datasets"])
        assert output["content_sha256"] == hashlib.sha256(b"".join(lines)).hexdigest()
        assert output["structure_sha256"] == structure(path)
        assert output["attributes_sha256"] == hashlib.sha256(b"".join(attribute_lines(path))).hexdigest()


def test_the_record_holds_the_digest_of_the_index(dataset):
    index, data = manifest(dataset)["record"]["index"], (dataset / "dataset.h5").read_bytes()
    assert index == {"path": "dataset.h5", "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def test_the_record_names_no_machine_person_or_place(dataset, takeset, takes, tmp_path):
    assert not {"host", "user"} & set(manifest(dataset)["run"]), "not unless asked for"
    dataset = tmp_path / "out"
    takeset.convert(takes, output=dataset, arguments=["--record-host"])
    document = manifest(dataset)
    record = json.dumps(document["record"])
    run = document["run"]
    places = [t["location"] for t in run["takes"].values()]
    assert run["host"] and run["user"] and all(p.startswith("/") for p in places)
    words = [str(dataset), "/tmp", "/home", run["started"], run["finished"], f'"{run["host"]}"', f'"{run["user"]}"', *places]
    assert [w for w in words if w in record] == []


def test_entries_of_lost_inputs_name_no_place(takes, takeset, tmp_path):
    (tmp_path / "empty").mkdir()
    takeset.convert(takes, tmp_path / "empty", tmp_path / "nowhere", output=tmp_path / "out", check=3)
    assert str(tmp_path) not in json.dumps(manifest(tmp_path / "out")["record"])
