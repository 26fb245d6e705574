"""What a dataset says of itself holds: the manifest, verify, plan, the schemas, and the command's own words."""

import hashlib
import json
import os
import re
import shutil
import subprocess

import h5py
import numpy as np
import pytest
from conftest import BINARY, ROOT, arrays, canonical, check_digests, digest, manifest, take
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

SCHEMAS = {name: json.loads((ROOT / "schemas" / name).read_text()) for name in ("manifest.schema.json", "pipeline.schema.json")}
REGISTRY = Registry().with_resources((name, Resource.from_contents(schema)) for name, schema in SCHEMAS.items())


def validator(name):
    return Draft202012Validator(SCHEMAS[name], registry=REGISTRY)


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


def outside_of_chunks(path):
    """The bytes of a shard that belong to no chunk of a dataset, in file order."""
    chunks = []

    def see(_, item):
        if isinstance(item, h5py.Dataset) and item.chunks:
            item.id.chunk_iter(lambda one: chunks.append((one.byte_offset, one.byte_offset + one.size)))

    with h5py.File(path) as f:
        f.visititems(see)
    data, position, found = path.read_bytes(), 0, []
    for start, end in sorted(chunks):
        assert start >= position
        found.append(data[position:start])
        position = end
    return b"".join([*found, data[position:]])


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
        assert output["structure_sha256"] == hashlib.sha256(outside_of_chunks(path)).hexdigest()
        assert output["attributes_sha256"] == hashlib.sha256(b"".join(attribute_lines(path))).hexdigest()


def test_the_record_holds_the_digest_of_the_index(dataset):
    index, data = manifest(dataset)["record"]["index"], (dataset / "dataset.h5").read_bytes()
    assert index == {"path": "dataset.h5", "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def test_the_record_names_no_machine_person_or_place(dataset):
    document = manifest(dataset)
    record = json.dumps(document["record"])
    run = document["run"]
    places = [t["location"] for t in run["takes"].values()]
    assert run["host"] and run["user"] and all(p.startswith("/") for p in places)
    words = [str(dataset), "/tmp", "/home", run["started"], run["finished"], f'"{run["host"]}"', f'"{run["user"]}"', *places]
    assert [w for w in words if w in record] == []


# verify


def test_verify_names_what_changed(takes, takeset, tmp_path):
    output = tmp_path / "out"
    takeset.convert(takes, output=output)
    assert "sound" in takeset("verify", output, "--inputs", check=0).stdout
    name = sorted(p.name for p in takes.iterdir())[1]
    shard = output / f"episodes/{name}.h5"
    pristine = shard.read_bytes()

    with h5py.File(shard, "r+") as f:  # a tool that adds something breaks nothing
        f["data/demo_0/obs"].create_dataset("embedding", data=[1.0] * 3)
    grown = shard.stat().st_size - len(pristine)
    added = takeset("verify", output, check=0)
    assert grown > 0 and f"note: episodes/{name}.h5: {grown} bytes were added by another program" in added.stdout and "sound" in added.stdout
    assert json.loads(takeset("verify", output, "--json", check=0).stdout)["sound"] is True

    with h5py.File(shard, "r+") as f:
        f["data/demo_0/obs/pose"][4, 0] += 1
    changed = takeset("verify", output, check=2)
    assert f"episodes/{name}.h5:/data/demo_0/obs/pose: its content is not what it was" in changed.stdout and "1 difference" in changed.stdout
    assert json.loads(takeset("verify", output, "--json", check=2).stdout)["sound"] is False
    assert "obs/pose" in takeset("verify", shard, check=2).stdout

    with h5py.File(shard, "r+") as f:  # with its own digest forged, the manifest still tells
        pose = f["data/demo_0/obs/pose"]
        pose.attrs["sha256"] = hashlib.sha256(pose[:].tobytes()).hexdigest()
    takeset("verify", shard, check=0)
    assert f"episodes/{name}.h5:/data/demo_0/obs/pose: carries another digest" in takeset("verify", output, check=2).stdout

    shard.write_bytes(pristine[: len(pristine) // 2])
    assert f"episodes/{name}.h5: cannot be read: truncated file" in takeset("verify", output, check=2).stdout
    shard.unlink()
    assert "No such file" in takeset("verify", output, check=2).stdout


def test_verify_names_the_rows_that_changed(takes, takeset, tmp_path):
    output = tmp_path / "out"
    takeset.convert(takes, output=output)
    shard = sorted((output / "episodes").iterdir())[0]
    size = shard.stat().st_size
    with h5py.File(shard, "r+") as f:
        for row in 12, 13, 29:
            f["data/demo_0/obs/camera_image"][row, 7, 9, 1] ^= 1
    assert shard.stat().st_size == size
    told = [line.strip() for line in takeset("verify", output, check=2).stdout.splitlines()]
    name = f"episodes/{shard.name}:/data/demo_0/obs/camera_image"
    assert told[:3] == [f"{name}[{row}]: its content is not what it was" for row in (12, 13, 29)] and "3 differences" in told[3]
    assert "camera_image[12]" in takeset("verify", shard, check=2).stdout


def test_verify_sees_a_changed_structure_though_every_dataset_is_intact(takes, takeset, tmp_path):
    output = tmp_path / "out"
    takeset.convert(takes, output=output)
    shard = sorted((output / "episodes").iterdir())[0]
    size = shard.stat().st_size
    with h5py.File(shard, "r+") as f:
        pose = f["data/demo_0/obs/pose"].attrs
        pose.modify("unit", np.array(b"k", h5py.string_dtype("utf-8", 1)))
        assert pose["unit"] == "k"
    assert shard.stat().st_size == size
    assert f"episodes/{shard.name}: its structure is not what it was" in takeset("verify", output, check=2).stdout


def test_a_shard_that_another_program_stores_anew_is_sound_while_it_says_the_same(takes, takeset, tmp_path):
    output = tmp_path / "out"
    takeset.convert(takes, output=output)
    shard = sorted((output / "episodes").iterdir())[0]

    def copied(source, target, change):
        with h5py.File(source) as old, h5py.File(target, "w") as new:
            for section in "data", "meta":
                old.copy(section, new)
            new.attrs.update(old.attrs)
            change(new)

    def pack(f):
        images = f["data/demo_0/obs/camera_image"]
        del f["data/demo_0/obs/camera_image"]
        packed = f.create_dataset("data/demo_0/obs/camera_image", data=images[:], chunks=(5, *images.shape[1:]), compression="gzip")
        packed.attrs.update(images.attrs)

    def stored_anew(change=lambda f: None):
        copied(tmp_path / "old.h5", tmp_path / "holes.h5", pack)
        copied(tmp_path / "holes.h5", shard, change)
        return takeset("verify", output)

    shutil.copy(shard, tmp_path / "old.h5")
    done = stored_anew()
    saved = (tmp_path / "old.h5").stat().st_size - shard.stat().st_size
    assert saved > 1_000_000 and f"note: episodes/{shard.name}: {saved} bytes were saved by another program" in done.stdout, done.stdout
    assert done.returncode == 0

    def paint(f):
        f["data/demo_0/obs/camera_image"][3] = 0

    def rename(f):
        f["data/demo_0"].attrs["take_id"] = "another"

    done = stored_anew(paint)
    assert done.returncode == 2 and f"episodes/{shard.name}:/data/demo_0/obs/camera_image[3]" in done.stdout
    assert stored_anew(rename).returncode == 2


def test_verify_prints_the_digests_of_files_for_publishing(dataset, takeset):
    told = takeset("verify", dataset, "--file-digests", check=0).stdout
    files = [path for path in sorted(dataset.rglob("*.h5"))]
    assert len(files) == 3
    for path in files:
        assert f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(dataset)}\n" in told


def test_verify_sees_a_changed_record_and_input(takes, takeset, tmp_path):
    copy, output = tmp_path / "takes", tmp_path / "out"
    shutil.copytree(takes, copy)
    takeset.convert(copy, output=output)
    text = (output / "manifest.json").read_text()
    (output / "manifest.json").write_text(text.replace('"frames_dropped":0', '"frames_dropped":7'))
    assert "manifest.json: its record's sha256" in takeset("verify", output, check=2).stdout
    (output / "manifest.json").write_text(text.replace(f'"user":"{manifest(output)["run"]["user"]}"', '"user":"mallory"'))
    assert "manifest.json: its run's sha256" in takeset("verify", output, check=2).stdout
    (output / "manifest.json").write_text(text)
    picture = sorted(copy.iterdir())[0] / "rgb/000004.jpg"
    picture.write_bytes(picture.read_bytes() + b"x")
    assert takeset("verify", output).returncode == 0
    assert "rgb/000004.jpg: sha256 is" in takeset("verify", output, "--inputs", check=2).stdout


def test_verify_of_what_is_no_dataset(takeset, tmp_path):
    assert takeset("verify", tmp_path).returncode == 64
    assert takeset("verify", tmp_path / "nowhere").returncode == 64
    (tmp_path / "x.h5").write_text("not HDF5")
    assert takeset("verify", tmp_path / "x.h5").returncode == 2


def test_entries_of_lost_inputs_name_no_place(takes, takeset, tmp_path):
    (tmp_path / "empty").mkdir()
    takeset.convert(takes, tmp_path / "empty", tmp_path / "nowhere", output=tmp_path / "out", check=3)
    assert str(tmp_path) not in json.dumps(manifest(tmp_path / "out")["record"])


def test_verify_sees_a_changed_index_and_disguised_datasets(takes, takeset, tmp_path):
    output = tmp_path / "out"
    takeset.convert(takes, output=output)
    pristine = (output / "dataset.h5").read_bytes()
    with h5py.File(output / "dataset.h5", "r+") as f:
        f["mask"].create_dataset("mine", data=[b"demo_000000"])
    with_mine = (output / "dataset.h5").read_bytes()
    grown = len(with_mine) - len(pristine)
    assert f"note: dataset.h5: {grown} bytes were added by another program" in takeset("verify", output, check=0).stdout

    def change(action, words, before=with_mine):
        (output / "dataset.h5").write_bytes(before)
        with h5py.File(output / "dataset.h5", "r+") as f:
            action(f)
        assert words in takeset("verify", output, check=2).stdout

    def swap(f):
        f["mask"].move("train", "x")
        f["mask"].move("valid", "train")
        f["mask"].move("x", "valid")

    def retarget(f):
        target = f["data"].get("demo_000001", getlink=True)
        del f["data/demo_000000"]
        f["data/demo_000000"] = h5py.ExternalLink(target.filename, target.path)

    def edit(f):
        f["stats/pose/mean"][0] += 1

    change(swap, "/mask/train: is not the split")
    change(retarget, "/data/demo_000000: does not lead to")
    change(edit, "/stats/pose/mean: is not what the manifest says")
    change(edit, "dataset.h5: its bytes are not what they were", pristine)
    (output / "dataset.h5").write_bytes(pristine)
    shard = sorted((output / "episodes").iterdir())[0]
    with h5py.File(shard, "r+") as f:
        obs = f["data/demo_0/obs"]
        f["other"] = obs["pose"][:] * 2
        f["other"].attrs["sha256"] = obs["pose"].attrs["sha256"]
        del obs["pose"]
        obs["pose"] = h5py.SoftLink("/other")
    assert "obs/pose: is missing or a link" in takeset("verify", output, check=2).stdout


def test_verify_follows_a_link_that_is_given(takes, takeset, tmp_path):
    takeset.convert(takes, output=tmp_path / "out")
    (tmp_path / "latest").symlink_to("out")
    takeset("verify", tmp_path / "latest", check=0)


# plan, steps, schema


STATISTICS = "/meta/demo_0/statistics"  # as long as the values are many, which a plan cannot know


def layout(found, without=None):
    """The datasets of a plan or a record."""
    return sorted([d[k] for k in ("path", "dtype", "shape", "chunk", "filters")] for d in found["datasets"] if d["path"] != without)


def test_plan_is_what_a_run_writes(takes, takeset, tmp_path):
    plan = json.loads(takeset("plan", takes, "--json", check=0).stdout)
    takeset.convert(takes, output=tmp_path / "out")
    for planned in plan["takes"]:
        record = take(tmp_path / "out", planned["id"])["output"]
        assert planned["frames"] == record["samples"]
        assert layout(planned) == layout(record, without=STATISTICS)
        assert STATISTICS in [d["path"] for d in record["datasets"]]
    assert "4 takes, 120 frames" in takeset("plan", takes, check=0).stdout


def test_the_pipeline_schema_is_the_registry(takeset):
    steps = json.loads(takeset("steps", "--json", check=0).stdout)
    schema = SCHEMAS["pipeline.schema.json"]
    kinds = {"reader": "readers", "transform": "transforms", "writer": "writers"}
    assert {(kinds[s["kind"]], s["name"]) for s in steps} == {(k, n) for k in kinds.values() for n in schema["$defs"][k]}
    for step in steps:
        options = dict(schema["$defs"][kinds[step["kind"]]][step["name"]]["properties"])
        options.pop("name", None)
        assert {o["name"]: o["default"] for o in step["options"]} == {n: o["default"] for n, o in options.items()}, step["name"]
        assert all(o["help"] for o in step["options"])
    items = schema["properties"]["transforms"]["items"]["oneOf"]
    transforms = [s["name"] for s in steps if s["kind"] == "transform"]
    assert items[0]["enum"] == transforms == list(items[1]["properties"])


def test_the_pipeline_schema_accepts_what_takeset_accepts(takeset, tmp_path):
    import yaml

    for path in ROOT.glob("examples/**/*.yaml"):
        validator("pipeline.schema.json").validate(yaml.safe_load(path.read_text()))
    for text, is_good in [
        ("version: 1", True), ("version: 1\ntransforms: [align, split: {seed: 3}]", True), ("version: 1\nreader: {name: stack-session}", True),
        ("version: 1\nwriter: {hdf5: {compression: fast}}", True), ("version: 2", False), ("version: 1\ntransforms: [align: {tol: 1}]", False),
        ("version: 1\ntransforms: [{align: {}, split: {}}]", False), ("version: 1\nwriter: {hdf5: {compression: 10}}", False),
        ("version: 1\ntransforms: [decimate: {rate: 0}]", False), ("version: 1\nextra: 1", False),
    ]:
        (tmp_path / "p.yaml").write_text(text)
        (tmp_path / "empty").mkdir(exist_ok=True)
        accepted = takeset("plan", tmp_path / "empty", "--pipeline", tmp_path / "p.yaml").returncode != 64
        assert accepted == is_good == validator("pipeline.schema.json").is_valid(yaml.safe_load(text)), text


STEPS = [
    "[align, decimate: {every: 2}, resize-image: {width: 160, height: 120}]",
    "[align, drop-frames: {with: [joints-missing, depth-missing]}, decimate: {rate: 30}]",
    "[align, drop-frames: {with: [pose-jump, pose-repeated, pose-interpolated, depth-missing, joints-missing]}, decimate: {every: 99}]",
    "[align, verify-hash-chain: {require: assertion}, resize-image: {width: 64, height: 64, mode: stretch}]",
]


def test_inspect_goes_through_all_steps_of_a_pipeline(takes, takeset, tmp_path):
    copy = tmp_path / "takes"
    shutil.copytree(takes, copy)
    names = sorted(p.name for p in copy.iterdir())
    (copy / names[0] / "rgb/000010.jpg").unlink()
    text = takeset("inspect", copy / names[0], check=0).stdout
    assert "  detected from there are depth maps\n" in text
    assert re.search(r"frames +29 of 30, 1 dropped \(image-missing\); 60\.\d\d Hz, 0\.48 s, 1 gap$", text, re.M)
    for number, steps in enumerate(STEPS):
        (tmp_path / "p.yaml").write_text(f"version: 1\ntransforms: {steps}\n")
        pipeline = ["--pipeline", tmp_path / "p.yaml"]
        inspected = takeset("inspect", copy, "--json", *pipeline)
        done = takeset("run", copy, "--output", tmp_path / f"out{number}", *pipeline)
        assert inspected.returncode == done.returncode
        told = {t["id"]: (t["would_be"], [f["code"] for f in t["findings"]]) for t in json.loads(inspected.stdout)["takes"]}
        record = manifest(tmp_path / f"out{number}")["record"]
        assert told == {t["id"]: (t["outcome"], [f["code"] for f in t["findings"]]) for t in record["takes"]}, steps


@pytest.mark.parametrize("steps, code", [
    ("transforms: [align, resize-image: {width: 100, height: 75}]\nwriter: {hdf5: {image: jpeg}}", "not-jpeg"),
    ("transforms: []", "not-aligned"),
])
def test_inspect_foresees_that_a_take_does_not_fit_the_writer(takes, takeset, tmp_path, steps, code):
    (tmp_path / "p.yaml").write_text(f"version: 1\n{steps}\n")
    name = sorted(p.name for p in takes.iterdir())[0]
    takeset.convert(takes / name, output=tmp_path / "out", arguments=["--pipeline", tmp_path / "p.yaml"], check=3)
    assert take(tmp_path / "out", name)["findings"][-1]["code"] == code
    (told,) = json.loads(takeset("inspect", takes / name, "--json", "--pipeline", tmp_path / "p.yaml", check=3).stdout)["takes"]
    assert (told["would_be"], told["findings"][-1]["code"]) == ("failed", code)


def test_help_teaches(takeset):
    assert "takeset run sessions/ --output dataset/" in takeset("--help", check=0).stdout
    for command in "run", "inspect", "plan", "verify", "steps", "simulate", "pack":
        text = takeset(command, "--help", check=0).stdout
        assert "USAGE" in text and f"takeset {command}" in text
    assert takeset("--version", check=0).stdout.startswith("takeset ")
    assert "tolerance: 0.05" in takeset("steps", "align", check=0).stdout
    assert takeset("steps", "blur").returncode == 64


def test_progress_in_json_tells_every_take(takes, takeset, tmp_path):
    done = takeset("run", takes, "--output", tmp_path / "out", "--progress", "json", check=0)
    events = [json.loads(line) for line in done.stderr.splitlines()]
    assert [e["event"] for e in events] == ["take"] * 4 and {e["outcome"] for e in events} == {"written"}
    assert takeset("run", takes, "--output", tmp_path / "quiet", "--progress", "none", check=0).stderr == ""


def test_a_bar_is_drawn_on_a_terminal(takes, tmp_path):
    import pty

    ours, theirs = pty.openpty()
    process = subprocess.Popen([BINARY, "run", takes, "--output", tmp_path / "out"], stderr=theirs, stdout=subprocess.DEVNULL)
    assert process.wait(timeout=60) == 0
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert "4/4 takes" in shown and "frames/s" in shown and "MB/s" in shown and "ETA" in shown
