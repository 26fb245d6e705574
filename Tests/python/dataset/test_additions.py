"""What another program adds to a shard: every command reads what Takeset wrote, names the rest, and deletes it only when it is told to."""

import filecmp
import json
import shutil

import h5py
import numpy as np
import pytest
from flips import of_take

WIDTH = "/data/demo_0/obs/width"


def add(shard):
    """Adds a stream as other programs do, names that Takeset itself uses, and notes; returns the names of all of it."""
    with h5py.File(shard, "r+") as file:
        rows = len(file["data/demo_0/obs/pose"])
        width = file.create_dataset(WIDTH, data=np.arange(rows, dtype=np.float32)[:, None])
        width.attrs.update({"kind": "vector", "unit": "m"})
        file["meta/demo_0/streams"].create_group("width").create_dataset("valid", data=np.ones(rows, np.uint8))
        # Names that Takeset writes in other takes.
        file["meta/demo_0/segment"] = np.zeros(rows, np.int64)
        file["meta/demo_0/pose_raw"] = np.zeros((rows, 7), np.float32)
        file["data/demo_0"].attrs["task"] = "pour"
        file["notes/text"] = "x" * 3000
        names = {WIDTH, "/meta/demo_0/streams/width", "/meta/demo_0/segment", "/meta/demo_0/pose_raw", "/data/demo_0@task", "/notes"}
    return {f"episodes/{shard.name}:{name}" for name in names}


def same_files(one, other, apart=()):
    found = filecmp.dircmp(one, other, ignore=list(apart))
    assert not found.left_only and not found.right_only and found.common
    assert filecmp.cmpfiles(one, other, found.common_files, shallow=False)[1:] == ([], [])
    for name in found.common_dirs:
        same_files(one / name, other / name)


def test_every_command_reads_what_is_recorded_and_names_the_rest(takeset, tiny_dataset, copy, tmp_path):
    names = add(of_take(copy, "v1"))
    verified = json.loads(takeset("verify", copy, "--json", check=0).stdout)
    assert set(verified["added"]) == names and verified["sound"]
    assert f"were added by another program ({WIDTH}" not in takeset("verify", tiny_dataset, check=0).stdout

    for form, episodes in [("zarr", "v1"), ("tum", "v1,scan"), ("webdataset", "v1,scan"), ("kitti", "v1,scan")]:
        chosen = ["--episodes", episodes, "--to", form, "--output"]
        exported = takeset("export", copy, *chosen, tmp_path / form, check=0)
        assert "episodes/v1.h5" in exported.stderr and "added by another program (/" in exported.stderr
        takeset("export", tiny_dataset, *chosen, tmp_path / f"plain-{form}", check=0)
        same_files(tmp_path / form, tmp_path / f"plain-{form}", apart=["takeset-export.json"])

    assert "added by another program" in takeset("pack", copy, "--output", tmp_path / "packed.h5", check=0).stderr
    takeset("verify", tmp_path / "packed.h5", check=0)
    with h5py.File(tmp_path / "packed.h5") as file:
        [demo] = [demo for demo in file["data"].values() if "width" in demo["obs"]]
        assert demo.attrs["task"] == "pour" and demo["obs/width"][1, 0] == 1

    page = tmp_path / "page.html"
    takeset("report", copy, "--output", page, check=0)
    assert "added by another program" in page.read_text()
    rows = json.loads(takeset("report", copy, "--json", check=0).stdout)["takes"]
    assert [row["id"] for row in rows if "added" in row["codes"]] == ["v1"] and not [row for row in rows if "problem" in row]
    takeset("trace", copy, "--episode", "v1", "--row", 2, check=0)
    takeset("preview", copy, "--output", tmp_path / "preview", "--images", 2, check=0)
    takeset("describe", copy, "--output", tmp_path / "card", check=0)
    takeset("select", copy, "--where", "id = v1", "--output", tmp_path / "selected", check=0)
    assert set(json.loads(takeset("verify", tmp_path / "selected", "--json", check=0).stdout)["added"]) == names


@pytest.mark.parametrize("kind", ["external link", "soft link", "view"])
def test_an_addition_that_leads_elsewhere_is_not_followed(takeset, tiny_dataset, copy, tmp_path, kind):
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["x"] = np.full((1000, 1), 7, np.float32)
    with h5py.File(of_take(copy, "v1"), "r+") as file:
        observations = file["data/demo_0/obs"]
        if kind == "view":
            view = h5py.VirtualLayout(shape=(1000, 1), dtype="f4")
            view[:] = h5py.VirtualSource(str(tmp_path / "secret.h5"), "x", shape=(1000, 1))
            observations.create_virtual_dataset("width", view)
        else:
            observations["width"] = h5py.SoftLink("/nowhere") if kind == "soft link" else h5py.ExternalLink(str(tmp_path / "secret.h5"), "/x")
    assert f"episodes/v1.h5:{WIDTH}" in json.loads(takeset("verify", copy, "--json", check=0).stdout)["added"]
    for output, source in [("plain", tiny_dataset), ("again", copy)]:
        takeset("export", source, "--episodes", "v1", "--to", "zarr", "--output", tmp_path / output, check=0)
    same_files(tmp_path / "plain", tmp_path / "again", apart=["takeset-export.json"])
    refused = takeset("pack", copy, "--output", tmp_path / "packed.h5", check=65).stderr
    assert WIDTH in refused and "remove it from the shard" in refused and not (tmp_path / "packed.h5").exists()


def test_a_shard_that_is_stored_in_another_way_is_exported_as_before(takeset, tiny_dataset, copy, tmp_path):
    shard = of_take(copy, "v1")
    shutil.move(shard, tmp_path / "old.h5")
    with h5py.File(tmp_path / "old.h5") as old, h5py.File(shard, "w") as new:
        for section in "data", "meta":
            old.copy(section, new)
        new.attrs.update(old.attrs)
        depth = old["data/demo_0/obs/camera_depth"]
        del new["data/demo_0/obs/camera_depth"]
        stored = new.create_dataset("data/demo_0/obs/camera_depth", data=depth[:], chunks=(5, *depth.shape[1:]), compression="gzip")
        stored.attrs.update(depth.attrs)
    for output, source in [("plain", tiny_dataset), ("again", copy)]:
        takeset("export", source, "--episodes", "v1", "--to", "zarr", "--output", tmp_path / output, check=0)
    same_files(tmp_path / "plain", tmp_path / "again", apart=["takeset-export.json"])


def test_damage_beside_an_addition_is_damage(takeset, tiny_takes, copy, tmp_path):
    shard = of_take(copy, "v1")
    add(shard)
    with h5py.File(shard, "r+") as file:
        file["data/demo_0/obs/pose"][2] = 0
    assert "obs/pose" in takeset("verify", copy, check=2).stdout
    for command in [["export", copy, "--to", "tum", "--output", tmp_path / "tum"], ["pack", copy, "--output", tmp_path / "packed.h5"]]:
        done = takeset(*command, check=65)
        assert "/data/demo_0/obs/pose" in done.stderr and "content has changed" in done.stderr
    rows = json.loads(takeset("report", copy, "--json", check=0).stdout)["takes"]
    assert [row["id"] for row in rows if "problem" in row] == ["v1"]
    # What was added is kept all the same.
    done = takeset.convert(tiny_takes, output=copy, check=3)
    assert "was added by another program, and episodes/v1.h5 is damaged" in done.stderr and "--replace" in done.stderr
    assert f"episodes/v1.h5:{WIDTH}" in json.loads(takeset("verify", copy, "--json", check=2).stdout)["added"]


def test_no_run_deletes_what_was_added_before_it_is_told_to(takeset, tiny_takes, tmp_path):
    takes, output = shutil.copytree(tiny_takes, tmp_path / "takes"), tmp_path / "out"
    takeset.convert(takes, output=output)
    shards = {name: of_take(output, name) for name in ["v1", "v2", "scan", "pour"]}
    for name in ["v1", "v2", "scan"]:
        add(shards[name])
    before = {name: shard.read_bytes() for name, shard in shards.items()}

    def is_kept(*names):
        return [name for name in names if shards[name].read_bytes() != before[name]] == []

    for _ in range(2):
        same = takeset.convert(takes, output=output)
        assert "nothing to do (4 unchanged" in same.stdout and same.stderr.count("were added by another program") == 3
    # Takes that changed, that are damaged now, and that are gone.
    shutil.copy(takes / "v1/rgb/000001.jpg", takes / "v1/rgb/000002.jpg")
    sound = (takes / "v2/poses.json").read_text()
    (takes / "v2/poses.json").write_text("[")
    shutil.rmtree(takes / "scan")
    done = takeset.convert(takes, output=output, arguments=["--prune"], check=3)
    for name in ["v1", "v2", "scan"]:
        [line] = [line for line in done.stderr.splitlines() if f"{name}: " in line and "--replace" in line]
        assert "added by another program (/" in line and "is kept as it is" in line
    assert is_kept("v1", "v2", "scan", "pour") and "2 failed" in done.stdout
    takeset("verify", output, check=0)

    (takes / "v2/poses.json").write_text(sound)
    done = takeset.convert(takes, output=output, arguments=["--prune", "--replace"])
    assert "2 written" in done.stdout and "1 removed" in done.stdout and not shards["scan"].exists()
    assert json.loads(takeset("verify", output, "--json", check=0).stdout)["added"] == [] and is_kept("pour")


@pytest.mark.parametrize("origin", ["tasks", "run"])
def test_no_task_of_a_cluster_replaces_what_was_added(takeset, tiny_takes, tmp_path, origin):
    takes, output = shutil.copytree(tiny_takes, tmp_path / "takes"), tmp_path / "out"

    def tasks(*arguments, code=0):
        takeset("plan", takes, "--output", output, "--tasks", *arguments, check=0)
        return takeset("convert", output, "--task", 0, "--count", 9, check=code)

    if origin == "run":
        takeset.convert(takes, output=output)
    else:
        tasks()
        takeset("publish", output, check=0)
    shard = of_take(output, "v1")
    names = add(shard)
    before = shard.read_bytes()
    assert "v1: done before" in tasks().stdout
    takeset("publish", output, check=0)
    shutil.copy(takes / "v1/rgb/000001.jpg", takes / "v1/rgb/000002.jpg")
    [line] = [line for line in tasks(code=65).stdout.splitlines() if ": v1: not converted" in line]
    assert "added by another program (/" in line and "--replace" in line and shard.read_bytes() == before
    takeset("publish", output, check=0)
    assert set(json.loads(takeset("verify", output, "--json").stdout)["added"]) == names

    assert "v1: written" in tasks("--replace").stdout
    takeset("publish", output, check=0)
    assert json.loads(takeset("verify", output, "--json", check=0).stdout)["added"] == []


@pytest.mark.parametrize("how", ["run", "tasks"])
def test_a_shard_later_than_its_record_is_no_addition(takeset, tiny_takes, tmp_path, how):
    """A run is killed between the shard of a take that has gained depth and its record."""
    takes, output = shutil.copytree(tiny_takes, tmp_path / "takes"), tmp_path / "out"

    def convert():
        if how == "run":
            return takeset.convert(takes, output=output)
        takeset("plan", takes, "--output", output, "--tasks", check=0)
        takeset("convert", output, "--task", 0, "--count", 9, check=0)
        return takeset("publish", output, check=0)

    shutil.move(takes / "scan/depth", tmp_path / "depth")
    convert()
    records = {path: path.read_bytes() for path in output.glob("**/*") if path.is_file() and path.parent.name != "episodes"}
    shutil.move(tmp_path / "depth", takes / "scan/depth")
    convert()
    for path, before in records.items():
        path.write_bytes(before)
    assert "added by another program" not in convert().stderr
    assert json.loads(takeset("verify", output, "--json", check=0).stdout)["added"] == []
    with h5py.File(of_take(output, "scan")) as file:
        assert "camera_depth" in file["data/demo_0/obs"]
