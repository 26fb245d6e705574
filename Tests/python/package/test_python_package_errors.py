"""The Python package: what `takeset.open` says about paths that are no dataset, and about datasets that are not complete."""

import gzip
import json
import shutil
import zipfile

import h5py
import numpy as np
import pytest
from PIL import Image

import takeset as package
from takeset import TakesetError

V1, V2 = "session_2026-01-31_120000", "session_2026-02-01_130000"


@pytest.fixture
def copy(dataset, tmp_path):
    return shutil.copytree(dataset, tmp_path / "copy")


def refusal(path):
    with pytest.raises(TakesetError) as refused:
        package.open(path)
    assert str(refused.value).startswith(str(path))
    return str(refused.value).removeprefix(str(path))


# What is no dataset


def test_a_path_that_does_not_exist(tmp_path):
    assert refusal(tmp_path / "nowhere") == " does not exist"


def test_directories_that_are_no_dataset(tmp_path, masters):
    (tmp_path / "empty").mkdir()
    assert refusal(tmp_path / "empty") == " is not a Takeset dataset: it is empty"
    assert refusal(masters["v1"]).endswith("it has no dataset.h5; takeset run INPUT --output DIR writes one")
    (tmp_path / "lerobot/meta").mkdir(parents=True)
    (tmp_path / "lerobot/meta/info.json").write_text("{}")
    assert refusal(tmp_path / "lerobot").endswith("it is a LeRobot dataset")
    (tmp_path / "replay").mkdir()
    (tmp_path / "replay/.zgroup").write_text("{}")
    assert refusal(tmp_path / "replay").endswith("it is a zarr folder")


def test_an_export_names_its_format(tmp_path):
    (tmp_path / "takeset-export.json").write_text(json.dumps({"export_version": 1, "format": "aloha"}))
    assert refusal(tmp_path).endswith("it is an export (format aloha); open the dataset that it was made from")
    (tmp_path / "takeset-export.json").write_text("{")
    assert refusal(tmp_path).endswith("it is an export (format unknown); open the dataset that it was made from")


def test_a_run_that_has_not_finished(copy):
    (copy / "dataset.h5").unlink()
    assert "its run has not finished, so it has no dataset.h5; run the same takeset run again" in refusal(copy)


def test_files_of_other_formats_are_named(tmp_path, masters):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr("a", "a")
    with gzip.open(tmp_path / "a.gz", "w") as file:
        file.write(b"a")
    np.save(tmp_path / "a.npy", np.zeros(3))
    Image.new("RGB", (2, 2)).save(tmp_path / "a.png")
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "a.mov").write_bytes(b"\0\0\0\x14ftypqt  ")
    (tmp_path / "a.txt").write_text("words")
    (tmp_path / "a.none").write_bytes(b"")
    expected = {
        "zip": "a zip file, ", "gz": "a gzip file, ", "npy": "a NumPy file, ", "png": "a PNG image, ", "json": "JSON or text, ",
        "mov": "a video, ", "txt": "", "none": "empty and ",
    }  # fmt: skip
    for suffix, what in expected.items():
        assert refusal(tmp_path / f"a.{suffix}") == f" is not a Takeset dataset: it is {what}not an HDF5 file"
    jpeg = sorted((masters["v1"] / "rgb").iterdir())[0]
    assert refusal(jpeg) == " is not a Takeset dataset: it is a JPEG image, not an HDF5 file"


def test_hdf5_files_of_others(tmp_path):
    members = {None: "", "data/demo_0": "; it looks like a robomimic dataset", "action": "; it looks like an ACT (ALOHA) episode"}
    for member, kind in members.items():
        path = tmp_path / "a.h5"
        with h5py.File(path, "w") as file:
            if member:
                file.create_group(member)
        assert refusal(path) == f' is not a Takeset dataset: it has no attribute format = "takeset"{kind}'


@pytest.mark.parametrize(
    "version, reason",
    [
        ("1.1.0", "1.1.0, written by an earlier version of Takeset; rebuild it from its inputs: takeset run INPUT --output DIR --replace"),
        ("3.0.0", "3.0.0, and this package reads version 2; update takeset"),
        (None, "without a version, and this package reads version 2; update takeset"),
    ],
)
def test_other_versions_of_the_format(version, reason, copy):
    with h5py.File(copy / "dataset.h5", "r+") as file:
        del file.attrs["format_version"]
        if version:
            file.attrs["format_version"] = version
    assert refusal(copy) == f"/dataset.h5 is in format {reason}"


def test_damaged_indexes(copy):
    content = (copy / "dataset.h5").read_bytes()
    (copy / "dataset.h5").write_bytes(b"")
    assert refusal(copy) == "/dataset.h5 is damaged: it is not an HDF5 file; rebuild it by running the same takeset run again"
    (copy / "dataset.h5").write_bytes(content[: len(content) // 2])
    assert "/dataset.h5 cannot be opened by HDF5: " in refusal(copy) and "truncated" in refusal(copy)
    (copy / "dataset.h5").write_bytes(content)
    with h5py.File(copy / "dataset.h5", "r+") as file:
        del file["meta"]
    assert refusal(copy) == "/dataset.h5 is damaged: it has no /data or no /meta"


# Datasets that are not complete


def test_a_missing_shard_is_named_and_the_others_are_read(copy):
    (copy / f"episodes/{V1}.h5").unlink()
    with package.open(copy) as ds:
        missing, whole = ds
        assert missing.id == V1 and ds[V1] is missing and "is missing" in repr(missing)
        for read in (lambda: missing["pose"], lambda: len(missing), missing.keys, lambda: missing.times_ns, lambda: missing.group):
            with pytest.raises(TakesetError, match=f"the shard of demo_000000 is missing: .*/episodes/{V1}.h5; move or copy a dataset"):
                read()
        assert whole["pose"][:].shape == (60, 7) and [take["id"] for take in ds.takes] == [V1, V2]


def test_a_shard_of_another_file_is_named(copy):
    path = copy / f"episodes/{V1}.h5"
    path.unlink()
    with h5py.File(path, "w") as file:
        file["something"] = 1
    with package.open(copy) as ds, pytest.raises(TakesetError, match=f"{V1}.h5 has no group /data/demo_0, so it has no episode demo_0"):
        ds[0]["pose"]
    path.write_bytes(b"no HDF5")
    with package.open(copy) as ds, pytest.raises(TakesetError, match=f"{V1}.h5 cannot be opened by HDF5: "):
        ds[0]["pose"]


def test_a_moved_dataset_and_a_link_to_its_index_are_read(copy, tmp_path):
    copy.rename(tmp_path / "moved")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/link.h5").symlink_to(tmp_path / "moved/dataset.h5")
    for path in tmp_path / "moved", tmp_path / "elsewhere/link.h5":
        with package.open(path) as ds:
            assert [episode["pose"][0].shape for episode in ds] == [(7,), (7,)]


def test_a_relative_path_stays_the_same_file_when_the_working_directory_changes(copy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with package.open("copy") as ds:
        assert ds.path == "copy/dataset.h5"
        monkeypatch.chdir("/")
        ds._store.files._open.clear()
        assert [episode["pose"][0].shape for episode in ds] == [(7,), (7,)] and len(ds.takes) == 2 and ds[V1].take["id"] == V1


def test_an_index_of_another_program_is_read_in_the_order_of_its_numbers(copy, tmp_path):
    shutil.copytree(copy / "episodes", tmp_path / "episodes")
    with h5py.File(copy / "dataset.h5") as source, h5py.File(tmp_path / "dataset.h5", "w") as file:
        file.attrs.update(source.attrs)
        for section in "data", "meta":
            group = file.create_group(section)
            for number, take in (10, V1), (9, V2):
                group[f"demo_{number}"] = h5py.ExternalLink(f"episodes/{take}.h5", f"/{section}/demo_0")
            group["notes"] = "of somebody else"
    with package.open(tmp_path) as ds:
        assert [(episode.name, episode.id) for episode in ds] == [("demo_9", V2), ("demo_10", V1)]  # by number, not by name
        assert ds[V1].split is None and ds.record is None and ds.splits == {}


def test_manifests_that_are_not_the_datasets_own(copy):
    other = copy / "manifest.json"
    content = json.loads(other.read_text())
    content["record"]["index"]["path"], content["record"]["takes"] = "another.h5", []
    other.write_text(json.dumps(content))
    with package.open(copy) as ds:
        assert ds.record is None and ds.takes == [] and ds[0].id == V1
    earlier = '{"record": {"takes": [], "manifest_version": 1}}'
    for text, reason in ("{", "cannot be read"), ("{}", "is not the manifest"), (earlier, "has version 1"):
        other.write_text(text)
        with package.open(copy) as ds:
            assert ds[0].id == V1 and ds[0]["pose"][:].shape == (30, 7)
            with pytest.raises(TakesetError, match=f"manifest.json {reason}"):
                ds.takes
    other.unlink()
    with package.open(copy) as ds:
        assert ds.record is None and ds[V2].split == "train" and ds[V2].findings == [] and ds[V2].take is None


def test_a_manifest_with_members_of_a_later_version_is_read(copy):
    content = json.loads((copy / "manifest.json").read_text())
    finding = {"code": "a-code", "severity": "info", "message": "a sentence", "since": "3.0"}
    content["record"]["findings"] = [finding]
    (copy / "manifest.json").write_text(json.dumps(content))
    with package.open(copy) as ds:
        assert ds.findings == [package.Finding("a-code", "info", "a sentence")]
