"""verify: what changed in a dataset is named."""

import hashlib
import json
import shutil

import h5py
import numpy as np
import pytest
from outputs import manifest, record_text


@pytest.fixture(scope="module")
def converted(takes, takeset, tmp_path_factory):
    output = tmp_path_factory.mktemp("verify") / "out"
    takeset.convert(takes, output=output)
    return output


@pytest.fixture
def output(converted, tmp_path):
    return shutil.copytree(converted, tmp_path / "out")


def test_verify_names_what_changed(takeset, takes, output):
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
    assert f"episodes/{name}.h5:/data/demo_0/obs/pose: its content has changed" in changed.stdout and "1 difference" in changed.stdout
    assert json.loads(takeset("verify", output, "--json", check=2).stdout)["sound"] is False
    assert "obs/pose" in takeset("verify", shard, check=2).stdout

    with h5py.File(shard, "r+") as f:  # with its own digest forged, the manifest still detects it
        pose = f["data/demo_0/obs/pose"]
        pose.attrs["sha256"] = hashlib.sha256(pose[:].tobytes()).hexdigest()
    takeset("verify", shard, check=0)
    assert f"episodes/{name}.h5:/data/demo_0/obs/pose: carries another digest" in takeset("verify", output, check=2).stdout

    shard.write_bytes(pristine[: len(pristine) // 2])
    assert f"episodes/{name}.h5: cannot be read: truncated file" in takeset("verify", output, check=2).stdout
    shard.unlink()
    assert "No such file" in takeset("verify", output, check=2).stdout


def test_verify_names_the_rows_that_changed(takeset, output):
    shard = sorted((output / "episodes").iterdir())[0]
    size = shard.stat().st_size
    with h5py.File(shard, "r+") as f:
        for row in 12, 13, 29:
            f["data/demo_0/obs/camera_image"][row, 7, 9, 1] ^= 1
    assert shard.stat().st_size == size
    reported = [line.strip() for line in takeset("verify", output, check=2).stdout.splitlines()]
    name = f"episodes/{shard.name}:/data/demo_0/obs/camera_image"
    assert reported[:3] == [f"{name}[{row}]: its content has changed" for row in (12, 13, 29)] and "3 differences" in reported[3]
    assert "camera_image[12]" in takeset("verify", shard, check=2).stdout


def test_verify_sees_a_changed_structure_though_every_dataset_is_intact(takeset, output):
    shard = sorted((output / "episodes").iterdir())[0]
    size = shard.stat().st_size
    with h5py.File(shard, "r+") as f:
        pose = f["data/demo_0/obs/pose"].attrs
        pose.modify("unit", np.array(b"k", h5py.string_dtype("utf-8", 1)))
        assert pose["unit"] == "k"
    assert shard.stat().st_size == size
    assert f"episodes/{shard.name}: its structure has changed" in takeset("verify", output, check=2).stdout


def test_a_shard_that_another_program_rewrites_is_valid_while_its_content_is_the_same(takeset, output, tmp_path):
    shard = sorted((output / "episodes").iterdir())[0]

    def copied(source, target, change):
        with h5py.File(source) as old, h5py.File(target, "w") as new:
            for section in "data", "meta":
                old.copy(section, new)
            new.attrs.update(old.attrs)
            change(new)

    def pack(f):
        for name in "camera_image", "camera_depth", "pose":
            old = f[f"data/demo_0/obs/{name}"]
            del f[f"data/demo_0/obs/{name}"]
            packed = f.create_dataset(f"data/demo_0/obs/{name}", data=old[:], chunks=(5, *old.shape[1:]), compression="gzip", compression_opts=9)
            packed.attrs.update(old.attrs)

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
    reported = takeset("verify", dataset, "--file-digests", check=0).stdout
    files = [path for path in sorted(dataset.rglob("*.h5"))]
    assert len(files) == 3
    for path in files:
        assert f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(dataset)}\n" in reported


def test_verify_sees_a_changed_record_and_input(takes, takeset, tmp_path):
    copy, output = tmp_path / "takes", tmp_path / "out"
    shutil.copytree(takes, copy)
    takeset.convert(copy, output=output, arguments=["--record-host"])
    text = (output / "manifest.json").read_text()
    (output / "manifest.json").write_text(text.replace('"frames_dropped":0', '"frames_dropped":7'))
    assert "manifest.json: its record's sha256" in takeset("verify", output, check=2).stdout
    (output / "manifest.json").write_text(text.replace(f'"user":"{manifest(output)["run"]["user"]}"', '"user":"mallory"'))
    assert "manifest.json: its run's sha256" in takeset("verify", output, check=2).stdout
    (output / "manifest.json").write_text(text)
    image = sorted(copy.iterdir())[0] / "rgb/000004.jpg"
    content = image.read_bytes()
    image.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert takeset("verify", output).returncode == 0
    assert "rgb/000004.jpg: sha256 is" in takeset("verify", output, "--inputs", check=2).stdout
    image.write_bytes(content + b"x")
    assert f"rgb/000004.jpg: has {len(content) + 1} bytes, recorded {len(content)}" in takeset("verify", output, "--inputs", check=2).stdout


def test_verify_of_what_is_no_dataset(takeset, tmp_path):
    assert f"{tmp_path} is not a Takeset dataset" in takeset("verify", tmp_path, check=64).stderr
    missing = takeset("verify", tmp_path / "nowhere", check=1).stderr
    assert "no such file or directory" in missing and str(tmp_path / "nowhere") in missing
    (tmp_path / "x.h5").write_text("not HDF5")
    done = takeset("verify", tmp_path / "x.h5", check=2)
    assert "x.h5: cannot be opened" in done.stdout and "1 difference" in done.stdout
    (report,) = [json.loads(takeset("verify", tmp_path / "x.h5", "--json", check=2).stdout)]
    assert report["sound"] is False


def test_verify_sees_a_changed_index_and_disguised_datasets(takeset, output):
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

    change(swap, "/mask/train: differs from the split")
    change(retarget, "/data/demo_000000: does not link to")
    change(edit, "/stats/pose/mean: differs from the manifest")
    change(edit, "dataset.h5: its bytes have changed", pristine)
    (output / "dataset.h5").write_bytes(pristine)
    shard = sorted((output / "episodes").iterdir())[0]
    with h5py.File(shard, "r+") as f:
        obs = f["data/demo_0/obs"]
        f["other"] = obs["pose"][:] * 2
        f["other"].attrs["sha256"] = obs["pose"].attrs["sha256"]
        del obs["pose"]
        obs["pose"] = h5py.SoftLink("/other")
    assert "obs/pose: is missing or a link" in takeset("verify", output, check=2).stdout


def test_verify_follows_a_link_that_is_given(converted, takeset, tmp_path):
    (tmp_path / "latest").symlink_to(converted)
    takeset("verify", tmp_path / "latest", check=0)


# Datasets of the first format


@pytest.mark.parametrize("sealed", [True, False])
def test_a_dataset_of_the_first_format_is_sent_back_to_its_inputs(takeset, dataset, tmp_path, sealed):
    copy = shutil.copytree(dataset, tmp_path / "copy")
    text = (copy / "manifest.json").read_text()
    assert text.count('"manifest_version":2') == 1
    first = text.replace('"manifest_version":2', '"manifest_version":1')
    digests = [hashlib.sha256(record_text(one).replace("\n", "").encode()).hexdigest() for one in (text, first)]
    assert first.count(digests[0]) == 1
    (copy / "manifest.json").write_text(first.replace(digests[0], digests[1]) if sealed else first)
    done = takeset("verify", copy, check=64)
    assert "rebuild" in done.stderr and "takeset run" in done.stderr and "format 1" in done.stderr


def test_a_file_of_the_first_format_is_sent_back_to_its_inputs(takeset, dataset, tmp_path):
    path = shutil.copy(next((dataset / "episodes").iterdir()), tmp_path / "old.h5")
    with h5py.File(path, "r+") as file:
        file.attrs.modify("format_version", "1.0.0")
    done = takeset("verify", path, check=64)
    assert "rebuild" in done.stderr and "takeset run" in done.stderr


@pytest.mark.parametrize("frames", range(8))
def test_every_row_has_the_digest_of_what_is_stored(takeset, tmp_path, frames):
    """Also a row without a depth map, wherever in a block of rows the first one is, and one without an image."""
    session, output = tmp_path / "session", tmp_path / "out"
    takeset.simulate(session, "--seconds", 0.5, "--size", "320x240")
    for number in range(5, len(list((session / "depth").iterdir()))):
        (session / f"depth/{number:06}.bin").unlink()
    (session / "rgb/000012.jpg").write_bytes(b"\xff\xd8")
    (tmp_path / "pipeline.yaml").write_text(f"version: 1\ntransforms: [{{align: {{tolerance: {0.02 + frames / 60:.4f}}}}}]\n")
    takeset.convert(session, output=output, arguments=["--pipeline", tmp_path / "pipeline.yaml"])
    with h5py.File(output / "dataset.h5") as file:
        obs = next(iter(file["data"].values()))["obs"]
        names = [name for name in obs if obs[name].attrs["sha256_of"] == "rows"]
        assert {"camera_image", "camera_depth", "camera_depth_valid"} <= set(names)
        assert not obs["camera_depth_valid"][-1].any()
        for name in names:
            rows = [hashlib.sha256(row.tobytes()).digest() for row in obs[name][:]]
            assert hashlib.sha256(b"".join(rows)).hexdigest() == obs[name].attrs["sha256"], name
