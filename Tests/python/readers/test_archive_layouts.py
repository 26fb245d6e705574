"""Archives: every layout of zip and tar is read."""

import dataclasses
import tarfile
import zipfile

import pytest
from archive_checks import content, named, noticed, searched
from archives import END, base256, directories, header, members, pax, tar_entries, tar_of, zip_of, zipped
from conversions import failed_with
from outputs import take
from small_sessions import session

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


def test_names_of_archives_give_ids_and_first_bytes_give_formats(takeset, tmp_path):
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


def test_two_sessions_at_one_depth_are_ambiguous(takeset, tmp_path):
    both = session("v2")
    found = {"good.zip": zip_of(both)}
    for number, names in enumerate([["poses.json"], ["metadata.json"], ["rgb/000000.jpg"], both]):
        partial = {name: both[name] for name in names}
        found[f"a-{number}.zip"] = zipped(members(both, "session_1") + members(partial, "session_2"))
        found[f"b-{number}.tar"] = tar_entries(both, "session_1") + tar_entries(partial, "session_2") + END
    entries = searched(takeset, tmp_path, found, check=3)
    assert entries.pop("good")["outcome"] == "written" and len(entries) == 8
    for entry in entries.values():
        failed_with(entry, "archive-ambiguous", "session_1", "session_2")
