"""Sessions in zip and tar archives: read in place as their folders are, and nothing in them is trusted."""

import dataclasses
import gzip
import hashlib
import json
import os
import re
import resource
import shutil
import subprocess
import tarfile
import zipfile
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
from archives import (
    BLOCKS, CHARACTERS, DIRECTORY, END, FIFO, LINK, MOST16, MOST64, Member, base256, bomb, changed, deflated, directories, entry, header, jpeg,
    long_name, members, overlapping, pax, put, session, tar_entries, tar_of, zip_of, zipped,
)
from bundles import boxes, codes, failed_with, input_digest, measured, movie, same_for_all_jobs, times
from conftest import BINARY, demos, manifest, take
from PIL import Image
from test_record import validator
from test_takes import frame_code

VARIANTS = ["v1", "v2", "v3-raw", "v3-slam", "v3-scaled", "packed", "synthetic"]


def placed(root, found):
    """Folders of files by path, and files of bytes, by name."""
    for name, one in found.items():
        put(root / name, one) if isinstance(one, dict) else put(root, {name: one})
    return root


def entries(output):
    return {one["id"]: one for one in manifest(output)["record"]["takes"]}


def searched(takeset, root, found, check=0, arguments=()):
    """The entries of a run over a directory with all of these in it."""
    takeset.convert(placed(root / "in", found), output=root / "out", check=check, arguments=arguments)
    return entries(root / "out")


def reader(directory, writer=None, **options):
    """A pipeline file with options of the reader."""
    steps = {"version": 1, "reader": {"name": "stack-session", **options}, "transforms": ["align"]} | ({"writer": writer} if writer else {})
    path = directory / "pipeline.yaml"
    path.write_text(json.dumps(steps))
    return ["--pipeline", path]


def content(output, name):
    """Every dataset of an episode's obs and meta with all that it says of itself."""
    found = {}

    def see(_, item):
        if isinstance(item, h5py.Dataset):
            found[item.name] = item.dtype.str, item.shape, item[()].tobytes(), dict(item.attrs)

    with h5py.File(output / f"episodes/{name}.h5") as file:
        for group in "data/demo_0/obs", "meta/demo_0":
            file[group].visititems(see)
    rows = "/meta/demo_0/row_sha256/"  # digests have none of their own
    assert all(("sha256" in attributes) != name.startswith(rows) for name, (*_, attributes) in found.items())
    assert {"/data/demo_0/obs/camera_image", rows + "camera_image", "/meta/demo_0/statistics"} <= set(found)
    return found


def noticed(one):
    return [(f["code"], f["severity"], f.get("count")) for f in one["findings"]]


# What is in an archive is what is in its folder


@pytest.fixture(scope="module")
def variants(takeset, tmp_path_factory):
    """All variants three times: output directories by container."""
    root = tmp_path_factory.mktemp("variants")
    found = {name: session(name) for name in VARIANTS}
    kinds = {
        "folder": found,
        "zip": {f"{name}.zip": zipped(directories(files, name) + members(files, name)) for name, files in found.items()},
        "tar": {f"{name}.tar": tar_of(files, name) for name, files in found.items()},
    }
    for kind, takes in kinds.items():
        options = reader(root, poses="optional")
        takeset.convert(placed(root / f"{kind}-in", takes), output=root / kind, arguments=options)
    return root


@pytest.mark.parametrize("kind", ["zip", "tar"])
@pytest.mark.parametrize("name", VARIANTS)
def test_an_archive_converts_as_its_folder(variants, kind, name):
    plain, archived = take(variants / "folder", name), take(variants / kind, name)
    assert content(variants / kind, name) == content(variants / "folder", name)
    assert (archived["reader"], archived["variant"]) == ("stack-session", name)
    assert noticed(archived) == noticed(plain)
    assert (archived["steps"], archived["streams"], archived["alignment"]) == (plain["steps"], plain["streams"], plain["alignment"])
    demo, meta = demos(variants / kind)[name]
    assert [frame_code(image) for image in demo["obs/camera_image"][:]] == meta["source_index"][:].tolist() == list(range(8))


def test_an_archive_without_poses_asks_for_slam(takeset, tmp_path):
    found = searched(takeset, tmp_path, {"session_X.zip": zip_of(session("v3-raw"))})
    assert (found["session_X"]["outcome"], found["session_X"]["reason"]) == ("rejected", "needs-slam")


@pytest.mark.parametrize("options", [{"method": 0}, {"method": 8}, {"streamed": "signed"}])
def test_times_come_from_a_movie_in_an_archive(takeset, tmp_path, options):
    files = session("v3-slam") | {"video.mov": movie(ticks=(0, 10, 20, 40, 50, 60, 71, 80))}
    put(tmp_path, {"video.mov": files["video.mov"]})
    found = searched(takeset, tmp_path, {"session_X.zip": zip_of(files, **options)})
    assert "times-from-movie" in codes(found["session_X"])
    _, meta = demos(tmp_path / "out")["session_X"]
    assert meta["timestamp_ns"].attrs["clock"] == "media-time"
    assert meta["timestamp_ns"][:].tolist() == times(tmp_path / "video.mov")


LONG = 300  # MiB; five minutes as the app records


def long_movie(root):
    """A session whose movie has a long filling between its pictures and its index: as a folder, sparse, and in a zip."""
    files = session("v3-slam")
    film = files.pop("video.mov")
    parts = dict(boxes(film))
    assert list(parts)[-1] == "moov"
    index = len(parts["moov"]) + 8
    before, after = film[:-index] + ((LONG << 20) + 8).to_bytes(4, "big") + b"free", film[-index:]
    archive = zipped([bomb("session_X/video.mov", LONG, before, after), *members(files)])
    placed(root, {"zip/session_X.zip": archive, "folder/session_X": files})
    with open(root / "folder/session_X/video.mov", "wb") as file:
        file.write(before)
        file.seek(LONG << 20, os.SEEK_CUR)
        file.write(after)
    return reader(root, **{"max-archive-ratio": 10_000})


def test_a_long_movie_in_an_archive_is_read_as_in_a_folder_with_no_more_memory(tmp_path):
    options = long_movie(tmp_path)
    peaks = {}
    for kind in "folder", "zip":
        code, peaks[kind], _ = measured(BINARY, "run", tmp_path / kind, "--output", tmp_path / f"out-{kind}", *options)
        assert code == 0 and "times-from-movie" in codes(take(tmp_path / f"out-{kind}", "session_X"))
    assert peaks["zip"] < peaks["folder"] + (64 << 20), peaks
    assert content(tmp_path / "out-zip", "session_X") == content(tmp_path / "out-folder", "session_X")


def test_a_long_movie_in_an_archive_is_put_in_no_file_even_in_memory(takeset, tmp_path):
    options = long_movie(tmp_path)
    done = takeset("run", tmp_path / "zip", "--output", tmp_path / "out", *options, preexec_fn=small_files)
    assert done.returncode == 0, done.stderr
    assert "times-from-movie" in codes(take(tmp_path / "out", "session_X"))


def small_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 20, 64 << 20))


def test_jpeg_files_of_an_archive_can_be_stored_untouched(takeset, tmp_path):
    files = session("v2")
    options = reader(tmp_path, writer={"hdf5": {"image": "jpeg"}})
    searched(takeset, tmp_path, {"a.zip": zip_of(files), "b.tar": tar_of(files)}, arguments=options)
    for demo, _ in demos(tmp_path / "out").values():
        assert [one.tobytes() for one in demo["obs/camera_image"]] == [files[f"rgb/{number:06d}.jpg"] for number in range(8)]


# Layouts

LAYOUT = session("v1")
DEEP = "d" * 150


def zip_layouts():
    found = members(LAYOUT)
    return {
        "stored": zip_of(LAYOUT, method=0),
        "deflated": zip_of(LAYOUT),
        "both": zipped([dataclasses.replace(one, method=8 * (k % 2)) for k, one in enumerate(found)]),
        "large-members": zip_of(LAYOUT, zip64=True),
        "large-end": zipped(found, zip64=True),
        "large-both": zipped(members(LAYOUT, zip64=True), zip64=True),
        "backwards": zipped(found[::-1]),
        "streamed": zip_of(LAYOUT, streamed="signed"),
        "streamed-bare": zip_of(LAYOUT, streamed="bare"),
        "streamed-stored": zip_of(LAYOUT, streamed="signed", method=0),
        "folders": zipped(directories(LAYOUT) + found),
        "folders-last": zipped(found + directories(LAYOUT)[::-1]),
        "rootless": zip_of(LAYOUT, root=""),
        "other-root": zip_of(LAYOUT, root="another name"),
        "deep": zip_of(LAYOUT, root="exports/today/session_X"),
        "utf-8": zip_of(LAYOUT, root="séance_été"),
        "commented": zipped(found, comment=b"for uploading"),
        "modeless": zip_of(LAYOUT, mode=0),
    }


def tar_layouts():
    plain = tar_entries(LAYOUT)
    paths = {f"session_X/{name}": data + bytes(-len(data) % 512) for name, data in LAYOUT.items()}
    sizes = {f"session_X/{name}": len(data) for name, data in LAYOUT.items()}
    return {
        "ustar": tar_of(LAYOUT),
        "pax": tar_of(LAYOUT, format=tarfile.PAX_FORMAT),
        "gnu": tar_of(LAYOUT, format=tarfile.GNU_FORMAT),
        "folders": tar_of(LAYOUT, folders=True),
        "rootless": tar_of(LAYOUT, root=""),
        "dotted": tar_of(LAYOUT, root="./session_X"),
        "dotted-rootless": header("./", kind=b"5") + tar_of(LAYOUT, root=".", folders=False),
        "backwards": tar_of(dict(reversed(LAYOUT.items()))),
        "deep": tar_of(LAYOUT, root="exports/today/session_X"),
        "long-ustar": tar_of(LAYOUT, root="d" * 90 + "/session_X"),
        "long-gnu": tar_of(LAYOUT, root=DEEP + "/session_X", format=tarfile.GNU_FORMAT),
        "long-pax": tar_of(LAYOUT, root=DEEP + "/session_X", format=tarfile.PAX_FORMAT),
        "utf-8-pax": tar_of(LAYOUT, root="séance_été", format=tarfile.PAX_FORMAT),
        "utf-8-gnu": tar_of(LAYOUT, root="séance_été", format=tarfile.GNU_FORMAT),
        "pax-sizes": b"".join(pax({"size": sizes[path]}) + header(path, 0) + data for path, data in paths.items()) + END,
        "pax-comment": pax({"comment": "made by hand"}, kind=b"g") + plain + END,
        "old-type": tar_entries(LAYOUT, kind=b"\0") + END,
        "base-256": b"".join(header(path, field=base256(sizes[path])) + data for path, data in paths.items()) + END,
        "padded": plain + bytes(10240 - len(plain) % 10240 + 10240),
    }


def named(zips, tars):
    """Files by name: each zip and tar by what is special about it."""
    return {f"zip-{name}.zip": data for name, data in zips.items()} | {f"tar-{name}.tar": data for name, data in tars.items()}


@pytest.fixture(scope="module")
def layouts(takeset, tmp_path_factory):
    root = tmp_path_factory.mktemp("layouts")
    searched(takeset, root, {"plain": LAYOUT} | named(zip_layouts(), tar_layouts()))
    return root


@pytest.mark.parametrize("name", [f"zip-{name}" for name in zip_layouts()] + [f"tar-{name}" for name in tar_layouts()])
def test_every_layout_of_archives_is_read(layouts, name):
    assert content(layouts / "out", name) == content(layouts / "out", "plain")
    assert noticed(take(layouts / "out", name)) == noticed(take(layouts / "out", "plain"))


@pytest.mark.parametrize("name", zip_layouts())
def test_the_zips_of_these_tests_are_zips_to_others(layouts, name):
    with zipfile.ZipFile(layouts / f"in/zip-{name}.zip") as archive:
        assert sorted(archive.read(one) for one in archive.infolist() if not one.is_dir()) == sorted(LAYOUT.values())


@pytest.mark.parametrize("name", tar_layouts())
def test_the_tars_of_these_tests_are_tars_to_others(layouts, name):
    with tarfile.open(layouts / f"in/tar-{name}.tar") as archive:
        assert sorted(archive.extractfile(one).read() for one in archive if one.isfile()) == sorted(LAYOUT.values())


def test_names_of_archives_give_ids_and_first_bytes_tell_what_they_are(takeset, tmp_path):
    files = session("v2")
    found = searched(takeset, tmp_path, {
        "été 1.zip": zip_of(files), "UPPER.ZIP": zip_of(files), "upper.TAR": tar_of(files), "zip-inside.tar": zip_of(files),
        "tar-inside.zip": tar_of(files), "a.b.zip": zip_of(files), "UPPER.metadata.json": files["metadata.json"],
    })
    formats = {name: one["details"]["archive"]["format"] for name, one in found.items()}
    assert formats == {"été 1": "zip", "UPPER": "zip", "upper": "tar", "zip-inside": "zip", "tar-inside": "tar", "a.b": "zip"}
    assert all(one["outcome"] == "written" for one in found.values())
    assert [one["role"] for one in found["UPPER"]["inputs"]] == ["archive", "sidecar"]  # by path, bytewise


def test_of_two_sessions_in_an_archive_the_shallower_one_is_read(takeset, tmp_path):
    inner, outer = session("v2", seed=1), session("v2")
    nested = members(inner, "session_X/old/session_Y") + members(outer)
    found = searched(takeset, tmp_path, {"nested.zip": zipped(nested), "plain": outer})
    assert found["nested"]["details"]["archive"]["root"] == "session_X"
    assert content(tmp_path / "out", "nested") == content(tmp_path / "out", "plain")


@pytest.mark.parametrize("names", [["poses.json"], ["metadata.json"], ["rgb/000000.jpg"], session("v2")])
def test_two_sessions_at_one_depth_are_ambiguous(takeset, tmp_path, names):
    both = session("v2")
    partial = {name: both[name] for name in names}
    found = searched(takeset, tmp_path, {
        "a.zip": zipped(members(both, "session_1") + members(partial, "session_2")),
        "b.tar": tar_entries(both, "session_1") + tar_entries(partial, "session_2") + END,
        "good.zip": zip_of(both),
    }, check=3)
    failed_with(found["a"], "archive-ambiguous", "session_1", "session_2")
    failed_with(found["b"], "archive-ambiguous", "session_1", "session_2")
    assert found["good"]["outcome"] == "written"


# What the manifest says

JUNK = {
    ".DS_Store": b"\0\0\0\1Bud1", "._poses.json": b"\0\5\x16\7", "rgb/.DS_Store": b"", "rgb/._000000.jpg": b"\0\5\x16\7",
    "rgb/000003 copy.jpg": b"", "viz/frame_000.png": b"png", "viz/deep/stats.txt": b"", "notes.txt": b"good",
    "__MACOSX/._poses.json": b"\0\5\x16\7", "__MACOSX/rgb/._000000.jpg": b"\0\5\x16\7", "inner.zip": zip_of(session("v2", seed=2)),
}
IGNORED = [
    ".DS_Store", "._poses.json", "__MACOSX/", "inner.zip", "notes.txt", "rgb/.DS_Store", "rgb/._000000.jpg", "rgb/000003 copy.jpg", "viz/",
]


def test_what_desktops_add_is_ignored_and_listed(takeset, tmp_path):
    files = session("v2")
    full = files | JUNK
    rooted = [dataclasses.replace(one, name=one.name.replace("session_X/__MACOSX", "__MACOSX/session_X")) for one in members(full)]
    found = searched(takeset, tmp_path, {
        "folder": full, "rootless.zip": zip_of(full, root=""), "rootless.tar.tar": tar_of(full, root=""), "rooted.zip": zipped(rooted),
        "clean": files,
    })
    assert sorted(found) == ["clean", "folder", "rooted", "rootless", "rootless.tar"]
    assert found["clean"]["details"].get("ignored", []) == []
    for name in "folder", "rootless", "rootless.tar", "rooted":
        assert content(tmp_path / "out", name) == content(tmp_path / "out", "clean")
        assert noticed(found[name]) == noticed(found["clean"])
        ignored = found[name]["details"]["ignored"]
        assert ignored == sorted(ignored) and sorted(path.removeprefix("session_X/") for path in ignored) == IGNORED
    assert not {one["path"] for one in found["folder"]["inputs"]} & set(JUNK)


def test_the_manifest_names_the_archive_and_its_sidecar(takeset, tmp_path):
    files = session("v2") | {"viz/a.png": b"x" * 1000}
    archive, tar = zipped(directories(files) + members(files)), tar_of(files, root="")
    found = searched(takeset, tmp_path, {"session_X.zip": archive, "session_X.metadata.json": files["metadata.json"], "session_Y.tar": tar})

    def said(data, path, role):
        return {"bytes": len(data), "path": path, "role": role, "sha256": hashlib.sha256(data).hexdigest()}

    one, other = found["session_X"], found["session_Y"]
    assert one["inputs"] == [said(files["metadata.json"], "session_X.metadata.json", "sidecar"), said(archive, "session_X.zip", "archive")]
    assert one["input_sha256"] == input_digest({"session_X.zip": archive, "session_X.metadata.json": files["metadata.json"]})
    assert other["inputs"] == [said(tar, "session_Y.tar", "archive")]
    assert other["input_sha256"] == input_digest({"session_Y.tar": tar})
    size = sum(map(len, files.values()))
    assert one["details"]["archive"] == {"bytes": size, "format": "zip", "members": 12, "root": "session_X"}
    assert other["details"]["archive"] == {"bytes": size, "format": "tar", "members": 12, "root": ""}
    document = manifest(tmp_path / "out")
    validator("manifest.schema.json").validate(document)
    assert str(tmp_path) not in json.dumps(document["record"])


def test_an_archive_named_with_its_path_has_its_sidecar_too(takeset, tmp_path):
    files = session("v2")
    placed(tmp_path / "in", {"session_X.tar": tar_of(files), "session_X.metadata.json": files["metadata.json"]})
    takeset.convert(tmp_path / "in/session_X.tar", output=tmp_path / "out")
    assert [one["role"] for one in take(tmp_path / "out", "session_X")["inputs"]] == ["sidecar", "archive"]


def test_steps_tell_the_caps(takeset):
    (told,) = json.loads(takeset("steps", "stack-session", "--json", check=0).stdout)
    defaults = {one["name"]: one["default"] for one in told["options"]}
    assert [defaults[f"max-archive-{name}"] for name in ("entries", "gibibytes", "ratio")] == [200_000, 64, 200]


# Sidecars


def test_sidecars_are_compared_with_the_metadata_inside(takeset, tmp_path):
    files = session("v3-scaled")
    inner = json.loads(files["metadata.json"])
    bare = {name: data for name, data in files.items() if name != "metadata.json"}
    reordered = json.dumps(dict(reversed(inner.items())), indent=2).replace("iPhone", "\\u0069Phone").encode()
    found = searched(takeset, tmp_path, {
        "same.zip": zip_of(files), "same.metadata.json": reordered,
        "other.zip": zip_of(files), "other.metadata.json": json.dumps(inner | {"poseCount": 99, "synthetic": True}).encode(),
        "missing.zip": zip_of(bare), "missing.metadata.json": files["metadata.json"],
        "missing-tar.tar": tar_of(bare), "missing-tar.metadata.json": files["metadata.json"],
        "neither.zip": zip_of(bare), "plain": files,
    })
    assert sorted(found) == ["missing", "missing-tar", "neither", "other", "plain", "same"]
    plain = set(codes(found["plain"], "warning"))
    assert set(codes(found["same"], "warning")) == plain
    assert set(codes(found["other"], "warning")) == plain | {"sidecar-differs"}
    assert found["other"]["variant"] == "v3-scaled" and found["other"]["details"]["declared"]["poseCount"] == 8
    assert "metadata-missing" in codes(found["neither"], "warning") and found["neither"]["variant"] == "v3-slam"
    for name in "missing", "missing-tar":
        assert set(codes(found[name], "warning")) == plain | {"metadata-from-sidecar"} and found[name]["variant"] == "v3-scaled"
    for name in "same", "other", "missing", "missing-tar":
        assert content(tmp_path / "out", name) == content(tmp_path / "out", "plain")


def test_a_sidecar_without_its_archive_is_a_loss_that_is_told(takeset, tmp_path):
    files = session("v2")
    found = searched(takeset, tmp_path, {
        "session_lost.metadata.json": files["metadata.json"], "session_Z": files, "session_Z.metadata.json": files["metadata.json"],
    }, check=3)
    assert sorted(found) == ["session_Z", "session_lost"]
    failed_with(found["session_lost"], "archive-missing", "session_lost")
    assert found["session_Z"]["outcome"] == "written" and "sidecar" not in [one["role"] for one in found["session_Z"]["inputs"]]
    inspected = json.loads(takeset("inspect", tmp_path / "in", "--json", check=3).stdout)["takes"]
    assert {one["id"]: one["would_be"] for one in inspected} == {"session_Z": "written", "session_lost": "failed"}


def test_a_sidecar_all_alone_is_told_too(takeset, tmp_path):
    placed(tmp_path / "in", {"session_lost.metadata.json": session("v2")["metadata.json"]})
    takeset.convert(tmp_path / "in", output=tmp_path / "out", check=3)
    failed_with(take(tmp_path / "out", "session_lost"), "archive-missing")


WHOLE = session("v2")

# Twice the same


def test_a_folder_and_its_archive_are_one_take(takeset, tmp_path):
    files = session("v2")
    searched(takeset, tmp_path, {
        "a": files, "a.zip": zip_of(files, "a"), "b": files | JUNK, "b.tar": tar_of(files, "anything"),
    })
    found = entries(tmp_path / "out")
    assert sorted(found) == ["a", "a-2", "b", "b-2"] and sorted(demos(tmp_path / "out")) == ["a", "b"]
    for name, archive in ("a", "a.zip"), ("b", "b.tar"):
        assert found[name]["outcome"] == "written" and "poses.json" in [one["path"] for one in found[name]["inputs"]]
        second = found[f"{name}-2"]
        assert second["outcome"] == "rejected" and second["reason"].startswith("duplicate")
        assert archive in [one["path"] for one in second["inputs"]]
    assert "nothing to do" in takeset.convert(tmp_path / "in", output=tmp_path / "out").stdout


def test_a_folder_and_an_archive_that_differ_are_both_written(takeset, tmp_path):
    files = session("v2")
    less = {name: data for name, data in files.items() if name != "rgb/000004.jpg"}
    found = searched(takeset, tmp_path, {
        "a": files, "a.zip": zip_of(session("v2", seed=1)), "b": files, "b.tar": tar_of(less),
    })
    assert sorted(demos(tmp_path / "out")) == ["a", "a-2", "b", "b-2"]
    for name in "a", "b":
        assert "duplicate-id" in codes(found[f"{name}-2"], "warning") and "duplicate-id" not in codes(found[name])
        assert [one["role"] for one in found[f"{name}-2"]["inputs"]] == ["archive"]
    assert len(demos(tmp_path / "out")["b-2"][1]["source_index"]) == 7
    assert content(tmp_path / "out", "a") != content(tmp_path / "out", "a-2")


def test_an_archive_that_is_asked_for_alone_is_written_though_its_folder_is_there(takeset, tmp_path):
    placed(tmp_path / "in", {"session_X": WHOLE, "session_X.zip": zip_of(WHOLE)})
    takeset.convert(tmp_path / "in/session_X.zip", output=tmp_path / "out")
    assert take(tmp_path / "out", "session_X")["outcome"] == "written"


# Hostile members

OUTSIDE = "/takeset-must-not-write-here"
NAMES = {
    "absolute": f"{OUTSIDE}/evil", "above": "../evil", "above-within": "session_X/rgb/../../../evil",
    "above-and-back": "session_X/../session_X/evil", "ends-above": "session_X/evil/..", "backslash": "..\\evil",
    "backslash-within": "session_X\\..\\..\\evil", "drive": "C:\\evil",
    "drive-slash": "C:/evil", "ignorable-above": "__MACOSX/../../evil", "ignorable-drive": "C:\\__MACOSX\\._evil",
}


def hostile_zips():
    modes = {"link": LINK, "fifo": FIFO, "characters": CHARACTERS, "blocks": BLOCKS}
    whole = members(WHOLE)
    found = {name: [Member(evil, b"x")] for name, evil in NAMES.items()}
    found |= {name: [Member("session_X/evil", b"/etc/passwd" if mode == LINK else b"", mode=mode)] for name, mode in modes.items()}
    found |= {
        "link-as-picture": [Member("session_X/rgb/000099.jpg", b"/evil", mode=LINK)],
        "link-ignorable": [Member("__MACOSX/._evil", b"/etc/passwd", mode=LINK)],
        "link-in-viz": [Member("session_X/viz/evil", b"/etc", mode=LINK)],
        "link-with-slash": [Member("session_X/evil/", b"/etc", mode=LINK, method=0)],
        "above-directory": [Member("../evil/", mode=DIRECTORY, method=0)],
        "twice": [Member("session_X/poses.json", b"[]")],
        "twice-the-same": [Member("session_X/poses.json", WHOLE["poses.json"])],
        "twice-ignorable": [Member("session_X/.DS_Store", b"1"), Member("session_X/.DS_Store", b"2")],
    }
    last = {name: zipped(whole + evil) for name, evil in found.items()}
    return last | {f"{name}-first": zipped(found[name] + whole) for name in ("above", "link", "twice")}


def hostile_tars():
    kinds = {"hard-link": b"1", "link": b"2", "characters": b"3", "blocks": b"4", "fifo": b"6"}
    whole = tar_entries(WHOLE)
    found = {name: entry(evil, b"x") for name, evil in NAMES.items()}
    found |= {name: header("session_X/evil", kind=kind, link="session_X/poses.json") for name, kind in kinds.items()}
    found |= {
        "link-as-picture": header("session_X/rgb/000099.jpg", kind=b"2", link="/evil"),
        "link-ignorable": header("__MACOSX/._evil", kind=b"2", link="/etc/passwd"),
        "link-with-slash": header("session_X/evil/", kind=b"2", link="/etc"),
        "above-directory": header("../evil/", kind=b"5"),
        "above-by-pax": pax({"path": "../evil"}) + entry("session_X/viz/good", b"x"),
        "above-by-pax-for-all": pax({"path": "../evil"}, kind=b"g") + entry("session_X/viz/good", b"x"),
        "above-by-gnu": long_name("../" + "long/" * 30 + "evil") + entry("session_X/viz/good", b"x"),
        "above-by-prefix": entry("evil", b"x", prefix=".."),
        "absolute-by-prefix": entry("evil", b"x", prefix=OUTSIDE),
        "twice": entry("session_X/poses.json", b"[]"),
        "twice-ignorable": entry("session_X/.DS_Store") + entry("session_X/.DS_Store"),
        "twice-dotted": entry("./session_X/poses.json", b"[]"),
    }
    last = {name: whole + evil + END for name, evil in found.items()}
    return last | {f"{name}-first": found[name] + whole + END for name in ("above", "link", "twice")}


@pytest.fixture(scope="module")
def hostile(takeset, tmp_path_factory):
    root = tmp_path_factory.mktemp("hostile")
    searched(takeset, root, named(hostile_zips(), hostile_tars()) | {"good.zip": zip_of(WHOLE), "plain": WHOLE}, check=3)
    return root


@pytest.mark.parametrize("name", [f"zip-{name}" for name in hostile_zips()] + [f"tar-{name}" for name in hostile_tars()])
def test_an_archive_with_a_hostile_member_is_refused_whole(hostile, name):
    culprits = {"as-picture": "000099.jpg", "twice-ignorable": ".DS_Store", "twice": "poses.json"}
    culprit = next((member for part, member in culprits.items() if part in name), "evil")
    failed = take(hostile / "out", name)
    assert (failed["outcome"], failed["findings"][-1]["code"]) == ("failed", "archive-hostile"), failed["findings"]
    assert culprit in failed["reason"]


def test_hostile_archives_harm_nothing_else(hostile, takeset):
    assert sorted(demos(hostile / "out")) == ["good", "plain"]
    assert content(hostile / "out", "good") == content(hostile / "out", "plain")
    assert list(hostile.rglob("*evil*")) == [] and not os.path.exists(OUTSIDE)
    inspected = json.loads(takeset("inspect", hostile / "in", "--json", check=3).stdout)["takes"]
    assert {one["id"] for one in inspected if one["would_be"] == "written"} == {"good", "plain"}
    assert {one["findings"][-1]["code"] for one in inspected if one["would_be"] == "failed"} == {"archive-hostile"}


# Caps and bombs


def little_memory():
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))


def poor(takeset, root, found, check=3, arguments=()):
    """The entries of a run that may use 1 GiB of addresses, and that writes a good take beside these."""
    placed(root / "in", found | {"good.zip": zip_of(WHOLE)})
    command = ["run", root / "in", "--output", root / "out", "--progress", "plain", *arguments]
    takeset(*command, check=check, preexec_fn=little_memory)
    found = entries(root / "out")
    assert found.pop("good")["outcome"] == "written"
    return found


@pytest.mark.parametrize("kind, option", [
    ("zip", "max-archive-entries"), ("tar", "max-archive-entries"), ("zip", "max-archive-gibibytes"), ("tar", "max-archive-gibibytes"),
    ("zip", "max-archive-ratio"),
])
def test_caps_hold_exactly(takeset, tmp_path, kind, option):
    files = changed(WHOLE, "metadata.json", extra="." * 20_000)
    archive = zip_of(files) if kind == "zip" else tar_of(files)
    size = sum(map(len, files.values()))
    enough, little = {
        "max-archive-entries": (len(files), len(files) - 1),
        "max-archive-gibibytes": (size * 1.001 / 2**30, size * 0.999 / 2**30),
        "max-archive-ratio": (size // len(archive) + 1, size // len(archive)),
    }[option]
    put(tmp_path, {f"session_X.{kind}": archive})
    for name, value, code in ("enough", enough, 0), ("little", little, 3):
        options = reader(tmp_path, **{option: value})
        takeset.convert(tmp_path / f"session_X.{kind}", output=tmp_path / name, check=code, arguments=options)
    assert take(tmp_path / "enough", "session_X")["outcome"] == "written"
    failed_with(take(tmp_path / "little", "session_X"), "limit", option)


def test_bombs_are_refused_by_their_ratio(takeset, tmp_path):
    files = members(WHOLE)
    found = poor(takeset, tmp_path, {
        "poses.zip": zipped([*members({k: v for k, v in WHOLE.items() if k != "poses.json"}), bomb("session_X/poses.json", 1024)]),
        "picture.zip": zipped([*files, bomb("session_X/rgb/000008.jpg", 1024)]),
        "ignorable.zip": zipped([*files, bomb("session_X/viz/x.png", 1024)]),
        "streamed.zip": zipped([*files, bomb("session_X/viz/x.png", 1024, streamed="signed")]),
    })
    for one in found.values():
        failed_with(one, "limit", "max-archive-ratio")


def test_members_that_share_their_bytes_are_refused(takeset, tmp_path):
    found = poor(takeset, tmp_path, {"a.zip": overlapping("session_X/rgb/00000", 1000, 16)})
    assert found["a"]["outcome"] == "failed" and found["a"]["findings"][-1]["code"] in ("limit", "archive-hostile", "archive-unreadable")


def test_archives_in_archives_are_not_opened(takeset, tmp_path):
    inner = zipped([bomb("session_Y/poses.json", 1024), *members(WHOLE, "session_Y")])
    with_inner = zip_of(WHOLE | {"inner.zip": inner, "rgb/inner.zip": inner})
    found = poor(takeset, tmp_path, {"a.zip": with_inner, "only.zip": zip_of({"inner.zip": inner}, root="")}, check=0)
    assert sorted(found) == ["a"] and found["a"]["outcome"] == "written"
    assert {path.removeprefix("session_X/") for path in found["a"]["details"]["ignored"]} == {"inner.zip", "rgb/inner.zip"}


def test_bombs_that_lie_about_their_size_are_damaged_members(takeset, tmp_path):
    v1 = session("v1")

    def without(name, lie):
        return zipped([*members({k: v for k, v in v1.items() if k != name}), bomb(f"session_X/{name}", 1024, size=lie)])

    paths = {"poses": "poses.json", "metadata": "metadata.json", "picture": "rgb/000002.jpg", "depth": "depth/000001.bin"}
    lies = 100, 100_000
    found = poor(takeset, tmp_path, {f"{name}-{lie}.zip": without(path, lie) for name, path in paths.items() for lie in lies})
    for lie in lies:
        failed_with(found[f"poses-{lie}"], "archive-damaged", "poses.json")
        failed_with(found[f"metadata-{lie}"], "archive-damaged", "metadata.json")
        for name, code in ("picture", "image-undecodable"), ("depth", "depth-undecodable"):
            assert found[f"{name}-{lie}"]["outcome"] == "written" and code in codes(found[f"{name}-{lie}"])
        _, meta = demos(tmp_path / "out")[f"picture-{lie}"]
        assert np.flatnonzero(meta["streams/camera_image/valid"][:] == 0).tolist() == [2]


def test_with_a_higher_ratio_other_limits_stand(takeset, tmp_path):
    v1 = session("v1")

    def inflated(name):
        return zipped([*members({k: v for k, v in v1.items() if k != name}), bomb(f"session_X/{name}", 1024)])

    paths = {"poses": "poses.json", "picture": "rgb/000002.jpg", "depth": "depth/000001.bin"}
    placed(tmp_path / "in", {f"{name}.zip": inflated(path) for name, path in paths.items()})
    options = reader(tmp_path, **{"max-archive-ratio": 10_000})
    code, peak, _ = measured(BINARY, "run", tmp_path / "in", "--output", tmp_path / "out", *options)
    assert code == 3 and peak < 400 << 20, (code, peak)
    found = entries(tmp_path / "out")
    failed_with(found["poses"], "input-too-large", "poses.json")
    for name, stream in ("picture", "camera_image"), ("depth", "camera_depth"):
        if found[name]["outcome"] == "written":
            assert 0 in demos(tmp_path / "out")[name][1][f"streams/{stream}/valid"][:]


def test_more_members_than_the_cap_are_refused(takeset, tmp_path):
    many = [Member(f"session_X/viz/{k}", method=0) for k in range(200_001 - len(WHOLE))]
    found = poor(takeset, tmp_path, {"most.zip": zipped(members(WHOLE) + many[1:]), "more.zip": zipped(members(WHOLE) + many)})
    assert found["most"]["outcome"] == "written" and found["most"]["details"]["archive"]["members"] == 200_000
    failed_with(found["more"], "limit", "max-archive-entries")


def test_ends_of_zips_that_claim_too_much_are_refused(takeset, tmp_path):
    files = members(WHOLE)
    claims = [{"count": number} for number in (2**40, MOST64, MOST16, len(files) + 1)] + [{"count": 2**40, "zip64": True}]
    claims += [{field: number} for field in ("length", "start") for number in (2**31, 2**62, MOST64)] + [{"length": 2**62, "start": 2**62}]
    found = poor(takeset, tmp_path, {f"claim-{number}.zip": zipped(files, **claim) for number, claim in enumerate(claims)})
    assert len(found) == len(claims)
    for one in found.values():
        assert one["outcome"] == "failed" and one["findings"][-1]["code"] in ("archive-unreadable", "limit"), one


def test_sizes_in_tars_that_cannot_be_are_refused(takeset, tmp_path):
    whole, data = tar_entries(WHOLE), bytes(512)
    fields = [base256(number) for number in (2**63 - 1, 2**63, 2**62, 2**94, -1, -512, -(2**63))]
    fields += [b"77777777777\0", b"7" * 12, b"-0000000001\0"]
    claims = {f"field-{number}": header("session_X/x", field=field) + data for number, field in enumerate(fields)}
    claims |= {f"name-{number}": header("././@LongLink", kind=b"L", field=field) + data for number, field in enumerate(fields)}
    claims |= {f"pax-{number}": header("PaxHeaders/x", kind=b"x", field=field) + data for number, field in enumerate(fields)}
    claims |= {f"record-{size}": pax({"size": size}) + header("session_X/x", 512) + data for size in (-1, 2**63 - 1, 2**63, 10**30, "1e3")}
    claims |= {f"length-{length}": entry("PaxHeaders/x", b"%d path=x\n" % length, kind=b"x") for length in (0, 5, 10**6, 2**64, -12)}
    first = {f"{name}-first.tar": claim + whole + END for name, claim in claims.items()}
    last = {f"{name}-last.tar": whole + claim + END for name, claim in claims.items()}
    found = poor(takeset, tmp_path, first | last)
    assert len(found) == 2 * len(claims)
    for name, one in found.items():
        assert one["outcome"] == "failed" and one["findings"][-1]["code"] in ("archive-unreadable", "limit"), (name, one)


# Archives that cannot be read


def unreadable():
    whole = zip_of(WHOLE)
    tar = tar_entries(WHOLE)
    most = {name: data for name, data in WHOLE.items() if name != "poses.json"}

    def poses(**lies):
        return zipped([*members(most), Member("session_X/poses.json", WHOLE["poses.json"], **lies)])

    def bad_sum(text):
        return header("session_X/x", checksum=text)

    more = entry("session_X/viz/x", bytes(5000))
    return {
        "empty.zip": b"", "text.zip": b"<html>not found</html>", "text-too.tar": b"<html>not found</html>",
        "gzip.tar": gzip.compress(tar + END, mtime=0),
        "cut-end.zip": whole[:-10], "cut-middle.zip": whole[: len(whole) // 2],
        "no-directory.zip": b"".join(one.written(0)[0] for one in members(WHOLE)),
        "encrypted.zip": poses(flags=1, packed=bytes(12) + WHOLE["poses.json"], method=0), "aes.zip": poses(flags=1, method=99),
        "ppmd.zip": poses(method=98), "shrunk.zip": poses(method=1),
        "sum-first.tar": bad_sum(b"0000000\0") + tar + END, "sum-last.tar": tar + bad_sum(b"0000000\0") + END,
        "sum-text.tar": tar + bad_sum(b"checksum") + END,
        "cut-member.tar": tar + more[:3000], "cut-header.tar": tar + more[:100], "cut-by-one.tar": tar + more[: 512 + 5000 - 1],
        "cut-name.tar": tar + long_name("x" * 2000)[:1024],
    }


@pytest.fixture(scope="module")
def broken(takeset, tmp_path_factory):
    root = tmp_path_factory.mktemp("broken")
    searched(takeset, root, unreadable() | {"good.tar": tar_of(WHOLE)}, check=3)
    return root


def test_inspect_says_the_same_of_archives_that_cannot_be_read(broken, takeset):
    inspected = json.loads(takeset("inspect", broken / "in", "--json", check=3).stdout)["takes"]
    told = {one["id"]: (one["would_be"], one["findings"][-1]["code"]) for one in inspected if one["id"] != "good"}
    assert told == {name.rpartition(".")[0]: ("failed", "archive-unreadable") for name in unreadable()}


@pytest.mark.parametrize("name", unreadable())
def test_an_archive_that_cannot_be_read_fails(broken, name):
    failed = take(broken / "out", name.rpartition(".")[0])
    failed_with(failed, "archive-unreadable")
    assert take(broken / "out", "good")["outcome"] == "written"


def test_archives_of_other_things_are_passed_over(takeset, tmp_path):
    holiday = {"IMG_0001.jpg": b"x", "album/IMG_0002.jpg": b"y"}
    others = {"photos.zip": zip_of(holiday, root=""), "letters.tar": tar_of(holiday, "letters"), "none.zip": zipped([]), "no.tar": END}
    found = searched(takeset, tmp_path, others | {"session_X": WHOLE})
    assert sorted(found) == ["session_X"]
    takeset.convert(*(tmp_path / "in" / name for name in ("session_X", *others)), output=tmp_path / "named", check=3)
    told = [one for one in entries(tmp_path / "named").values() if one["outcome"] == "failed"]
    assert len(told) == 4 and {one["findings"][0]["code"] for one in told} == {"not-a-take"}


# Damaged members


DAMAGES = {
    "sum": lambda data: {"method": 0, "crc": zlib.crc32(data) ^ 1},
    "flip": lambda data: {"method": 0, "packed": bytes([data[0] ^ 1]) + data[1:]},
    "deflate": lambda data: {"packed": b"\xff" * 40},
    "cut": lambda data: {"packed": deflated(data)[:-9]},
    "long": lambda data: {"packed": deflated(data + bytes(1000))},
    "short": lambda data: {"packed": deflated(data[:-2])},
    "gone": lambda data: {"packed": b""},
    "gone-stored": lambda data: {"packed": b"", "method": 0},
}


def damaged(files, *names, kind="sum"):
    """A zip in which the bytes of some members are not those that were put in."""
    found = [dataclasses.replace(one, **DAMAGES[kind](one.data)) if one.name[10:] in names else one for one in members(files)]
    return zipped(found)


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_picture_is_a_row_with_its_mask_off(takeset, tmp_path, kind):
    files = session("v1", count=12)
    bad = ["rgb/000002.jpg", "rgb/000007.jpg"]
    found = searched(takeset, tmp_path, {
        "two.zip": damaged(files, *bad, kind=kind), "three.zip": damaged(files, *bad, "rgb/000009.jpg", kind=kind), "plain": files,
    }, check=3)
    (finding,) = [f for f in found["two"]["findings"] if f["code"] == "image-undecodable"]
    assert (finding["severity"], finding["count"]) == ("warning", 2) and "rgb/000002.jpg" in finding["file"]
    demo, meta = demos(tmp_path / "out")["two"]
    plain, _ = demos(tmp_path / "out")["plain"]
    valid = meta["streams/camera_image/valid"][:] == 1
    assert np.flatnonzero(~valid).tolist() == [2, 7] and not demo["obs/camera_image"][:][~valid].any()
    assert (demo["obs/camera_image"][:][valid] == plain["obs/camera_image"][:][valid]).all()
    assert (demo["obs/pose"][:] == plain["obs/pose"][:]).all()
    failed_with(found["three"], "image-undecodable", "fifth")
    inspected = json.loads(takeset("inspect", tmp_path / "in", "--json", check=3).stdout)["takes"]
    assert {one["id"]: one["would_be"] for one in inspected} == {"plain": "written", "three": "failed", "two": "written"}
    assert [f["count"] for one in inspected if one["id"] == "two" for f in one["findings"] if f["code"] == "image-undecodable"] == [2]


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_depth_map_is_masked(takeset, tmp_path, kind):
    files = session("v1", count=12)
    found = searched(takeset, tmp_path, {"a.zip": damaged(files, "depth/000002.bin", kind=kind), "plain": files})
    (finding,) = [f for f in found["a"]["findings"] if f["code"] == "depth-undecodable"]
    assert finding["severity"] == "warning" and finding["count"] == 1 and "depth/000002.bin" in finding["file"]
    demo, meta = demos(tmp_path / "out")["a"]
    plain, _ = demos(tmp_path / "out")["plain"]
    stream = meta["streams/camera_depth"]
    valid = stream["valid"][:] == 1
    assert set(stream["source_index"][:][~valid]) <= {2, -1} and 2 not in stream["source_index"][:][valid]
    assert not valid[4] and not demo["obs/camera_depth"][4].any() and not demo["obs/camera_depth_valid"][4].any()
    assert valid.sum() >= 9 and (demo["obs/camera_depth"][:2] == plain["obs/camera_depth"][:2]).all()


@pytest.mark.parametrize("name", ["metadata.json", "poses.json", "encoders.json", "imu.json"])
def test_damaged_json_fails_the_take(takeset, tmp_path, name):
    files = session("v3-slam")
    bad = {f"{kind}.zip": damaged(files, name, kind=kind) for kind in DAMAGES}
    found = searched(takeset, tmp_path, bad | {"good.zip": zip_of(files)}, check=3)
    for kind in DAMAGES:
        failed_with(found[kind], "archive-damaged", name)
    assert found["good"]["outcome"] == "written"


def test_damage_in_what_is_ignored_does_no_harm(takeset, tmp_path):
    junk = {"viz/a.png": b"picture" * 50, ".DS_Store": b"x" * 50}
    found = searched(takeset, tmp_path, {"a.zip": damaged(WHOLE | junk, *junk), "plain": WHOLE})
    assert noticed(found["a"]) == noticed(found["plain"]) and content(tmp_path / "out", "a") == content(tmp_path / "out", "plain")


def test_pictures_of_an_archive_that_are_no_pictures(takeset, tmp_path):
    files = session("v2", count=12) | {"rgb/000003.jpg": b"", "rgb/000005.jpg": b"<html>"}
    wide = session("v2", count=12) | {"rgb/000003.jpg": jpeg(Image.new("RGB", (40, 30)))}
    found = searched(takeset, tmp_path, {"a.zip": zip_of(files), "b.tar": tar_of(files), "c.zip": zip_of(wide)}, check=3)
    for name in "a", "b":
        assert [f["count"] for f in found[name]["findings"] if f["code"] == "image-undecodable"] == [2]
    failed_with(found["c"], "image-size-changed", "40x30")


# The commands


def test_inspect_and_plan_tell_of_an_archive_what_they_tell_of_its_folder(takeset, tmp_path):
    found = {"folder/session_X": WHOLE, "zip/session_X.zip": zip_of(WHOLE), "tar/session_X.tar": tar_of(WHOLE)}
    placed(tmp_path, found)
    told, plans = {}, {}
    for path in found:
        (told[path],) = json.loads(takeset("inspect", tmp_path / path, "--json", check=0).stdout)["takes"]
        plans[path] = json.loads(takeset("plan", tmp_path / path, "--json", check=0).stdout)
        assert told[path].pop("path") == str(tmp_path / path)
    for path, kind in ("zip/session_X.zip", "zip"), ("tar/session_X.tar", "tar"):
        assert told[path]["details"].pop("archive")["format"] == kind
        assert told[path] == told["folder/session_X"] and plans[path] == plans["folder/session_X"]


def test_inspect_shows_pictures_of_archives(takeset, tmp_path):
    placed(tmp_path, {"session_X.zip": zip_of(session("v1")), "session_Y": session("v1")})
    for name in "session_X.zip", "session_Y":
        takeset("inspect", tmp_path / name, "--preview", tmp_path / f"{name}.png", check=0)
    sheets = [np.array(Image.open(tmp_path / f"{name}.png")) for name in ("session_X.zip", "session_Y")]
    assert (sheets[0] == sheets[1]).all()


def test_verify_digests_archives_and_sidecars_again(takeset, tmp_path):
    searched(takeset, tmp_path, {
        "session_X.zip": zip_of(WHOLE), "session_X.metadata.json": WHOLE["metadata.json"], "session_Y.tar": tar_of(WHOLE),
    })
    takeset("verify", tmp_path / "out", "--inputs", check=0)
    for name, take_id in ("session_X.zip", "session_X"), ("session_X.metadata.json", "session_X"), ("session_Y.tar", "session_Y"):
        path = tmp_path / "in" / name
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        done = takeset("verify", tmp_path / "out", "--inputs", check=2)
        assert f"{take_id}: {name}" in done.stdout + done.stderr
        takeset("verify", tmp_path / "out", check=0)
        path.unlink()
        assert takeset("verify", tmp_path / "out", "--inputs").returncode == 2
        path.write_bytes(data)
    takeset("verify", tmp_path / "out", "--inputs", check=0)


def test_a_changed_archive_is_rebuilt_and_only_that(takeset, tmp_path):
    searched(takeset, tmp_path, {"session_X.zip": zip_of(WHOLE), "session_Y.tar": tar_of(WHOLE)})
    before = {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert "nothing to do (2 unchanged" in takeset.convert(tmp_path / "in", output=tmp_path / "out").stdout
    assert before == {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    (tmp_path / "in/session_X.zip").touch()
    assert "nothing to do" in takeset.convert(tmp_path / "in", output=tmp_path / "out").stdout
    other = zip_of(session("v2", seed=5))
    (tmp_path / "in/session_X.zip").write_bytes(other)
    assert "1 written, 1 unchanged" in takeset.convert(tmp_path / "in", output=tmp_path / "out").stdout
    assert take(tmp_path / "out", "session_X")["inputs"][0]["sha256"] == hashlib.sha256(other).hexdigest()
    assert demos(tmp_path / "out")["session_X"][0]["obs/pose"][0, 2] == pytest.approx(4.7, abs=1e-6)
    placed(tmp_path / "in", {"session_Y.metadata.json": changed(WHOLE, "metadata.json", iosVersion="1")["metadata.json"]})
    assert "1 written, 1 unchanged" in takeset.convert(tmp_path / "in", output=tmp_path / "out").stdout
    assert "sidecar-differs" in codes(take(tmp_path / "out", "session_Y"))


def test_archives_give_the_same_bytes_whatever_the_jobs(takeset, tmp_path):
    v1 = session("v1", count=12)
    placed(tmp_path / "in", {
        "a.zip": zip_of(v1), "b.tar": tar_of(session("v3-slam")), "c.zip": damaged(v1, "rgb/000003.jpg", "depth/000001.bin"),
        "d.zip": b"PK\3\4", "e.zip": zip_of(WHOLE), "e": WHOLE, "f.zip": zipped(members(WHOLE) + [Member("../evil")]),
        "g.zip": damaged(v1, "poses.json"),
    })
    assert same_for_all_jobs(takeset, tmp_path / "in", check=3, jobs=(1, 2)) == 4


def test_nothing_is_unpacked_to_disk(takeset, tmp_path):
    placed(tmp_path / "in", {
        "a.zip": zip_of(session("v3-slam")), "b.tar": tar_of(session("v1")), "c.zip": zip_of(session("v1"), streamed="signed"),
        "d": WHOLE, "d.zip": zip_of(WHOLE), "e.zip": zipped(members(WHOLE) + [Member("session_X/../evil", b"x")]),
    })
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    calls = "open,openat,openat2,creat,mkdir,mkdirat,rename,renameat,renameat2,link,linkat,symlink,symlinkat,mknod,mknodat"
    log, output = tmp_path / "log", tmp_path / "out"
    trace = ["strace", "-f", "-y", "-qq", "-s", "4096", "-e", f"trace={calls}", "-o", log]
    command = [*trace, BINARY, "run", tmp_path / "in", "--output", output]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "nowhere")}
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=tmp_path, env=environment)
    if "ptrace" in done.stderr.lower() and not log.read_text():
        pytest.skip("tracing is not allowed here")
    assert done.returncode == 3, done.stderr
    made = [line for line in log.read_text().splitlines() if re.search(r"O_CREAT|O_TMPFILE|^\d+ +(creat|mk|rename|link|symlink)", line)]
    assert len(made) > 5
    for line in made:
        for place, name in re.findall(r'(?:AT_FDCWD|\d+)?<?([^<>(,"]*)>?(?:, )?"([^"]*)"', line):
            path = Path(place or tmp_path) / name
            assert path == output or output in path.parents or str(path).startswith(("/dev/", "/proc/")), line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "log", "out"]
