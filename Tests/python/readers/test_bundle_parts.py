"""Bundles: their parts are found by name or contents, missing and oversized ones are reported."""

import dataclasses
import os

import pytest
from bundle_checks import convert, holds, reader
from bundles import NAMES, SMALL, STORAGE, bundle, maps
from conversions import PLAIN, converted, failed_with
from outputs import codes, demos, input_digest, manifest, record, take
from videos import video_file


PART_NAMES = [
    NAMES,
    NAMES | {"video": "video.mp4", "depth_data": "video_depth.gz"},
    NAMES | {"depth_data": "depth.bin"},
    NAMES | {"depth_data": "depth_data"},
    {"video": "a.bin", "depth_data": "b.bin", "hash_chain": "c.bin", "metadata": "d.bin"},
    {"video": "1", "depth_data": "2", "hash_chain": "3", "metadata": "4"},
]


@pytest.fixture(scope="module")
def named_parts(takeset, tmp_path_factory):
    """Bundles whose parts have these names, by container and number of the names."""
    root = tmp_path_factory.mktemp("named")
    for container in "deflate", "gzip":
        for number, names in enumerate(PART_NAMES):
            bundle(count=6, container=container).write(root / f"in/{container}-{number}", names)
    takeset.convert(root / "in", output=root / "out")
    return root / "out"


@pytest.mark.parametrize("names", PART_NAMES)
@pytest.mark.parametrize("container", ["deflate", "gzip"])
def test_parts_are_found_by_name_or_contents(named_parts, names, container):
    found = bundle(count=6, container=container)
    name = f"{container}-{PART_NAMES.index(names)}"
    entry, (demo, meta) = take(named_parts, name), demos(named_parts)[name]
    holds(demo, meta, maps(2), [0, 100_000_000])
    assert codes(entry) == [] and {e["path"] for e in entry["inputs"]} == set(names.values())
    assert {p["name"] for p in entry["details"]["parts"]} == {"video", "depth_data", "hash_chain", "metadata"}
    assert entry["input_sha256"] == input_digest({names[part]: data for part, data in found.parts().items()})


def test_the_storage_layout_has_no_metadata(takeset, tmp_path):
    found = bundle()
    found.video = video_file(container="mp4")
    entry, demo, meta = convert(takeset, tmp_path, found, STORAGE)
    assert codes(entry, "warning") == ["metadata-missing"] or set(codes(entry, "warning")) == {"metadata-missing", "depth-count-mismatch"}
    holds(demo, meta, maps(15), [k * 100_000_000 for k in range(15)])
    assert entry["verification"]["chain"]["state"] == "sound" and entry["verification"]["assertion"]["state"] == "absent"
    assert {p["name"] for p in entry["details"]["parts"]} == {"video", "depth_data", "hash_chain"}


LIMITS = {"video": 104857600, "depth_data": 20971520, "hash_chain": 1048576, "metadata": 102400}
TEXTS = ["notes.txt", "notes"]  # which are not read as depth
SPOILED = {f"{part} missing": ("part-missing", [part.removesuffix("_data")]) for part in ("video", "depth_data", "metadata")}
SPOILED |= {name: ("part-missing", ["depth"]) for name in TEXTS}
SPOILED |= {f"{part} empty": ("part-empty", [part.removesuffix("_data")]) for part in ("video", "depth_data")}
SPOILED |= {f"{part} too large": ("input-too-large", [limit + 1, limit]) for part, limit in LIMITS.items()}


@pytest.fixture(scope="module")
def spoiled(takeset, tmp_path_factory):
    """Bundles whose parts are missing, empty or too large, or just not too large, converted in one run."""
    root = tmp_path_factory.mktemp("spoiled")

    def write(name, **changed):
        return dataclasses.replace(bundle(count=6), **changed).write(root / "in" / name)

    for name in SPOILED:
        part, _, how = name.partition(" ")
        if how in ("missing", "empty"):
            write(name, **{part: None if how == "missing" else b""})
    for name in TEXTS:
        (write(name, depth_data=None) / name).write_text("Größe der Küche\n", "utf-8")
    for part, limit in LIMITS.items():
        with (write(f"{part} too large") / NAMES[part]).open("ab") as file:
            if part in ("hash_chain", "metadata"):
                file.write(b" " * (limit + 1 - file.tell()))
            file.truncate(limit + 1)
    for part in "hash_chain", "metadata":
        with (write(f"{part} large") / NAMES[part]).open("ab") as file:
            file.write(b" " * (LIMITS[part] - file.tell()))
    takeset.convert(root / "in", output=root / "out", check=3, arguments=PLAIN)
    return root / "out"


@pytest.mark.parametrize("name", SPOILED)
def test_a_part_that_is_missing_empty_or_too_large(spoiled, name):
    code, words = SPOILED[name]
    failed_with(take(spoiled, name), code, *words)


@pytest.mark.parametrize("part", ["hash_chain", "metadata"])
def test_a_part_of_just_its_limit(spoiled, part):
    assert codes(take(spoiled, f"{part} large")) == []


@pytest.mark.parametrize("code", ["part-missing", "part-empty", "depth-undecodable"])
def test_depth_may_be_optional(takeset, tmp_path, code):
    found = bundle(count=6)
    found.depth_data = {"part-missing": None, "part-empty": b"", "depth-undecodable": b"another kind"}[code]
    entry, demo, meta = convert(takeset, tmp_path, found, arguments=reader(tmp_path, depth="optional"))
    assert entry["outcome"] == "written" and entry["variant"] == "no-depth" and codes(entry, "warning") == [code]
    assert list(demo["obs"]) == ["camera_image"] and list(meta["streams"]) == ["camera_image"]


@pytest.mark.parametrize("part", NAMES)
def test_links_are_not_followed(takeset, tmp_path, part):
    directory = bundle(count=6, **SMALL).write(tmp_path / "take")
    (directory / NAMES[part]).rename(tmp_path / "elsewhere")
    (directory / NAMES[part]).symlink_to(tmp_path / "elsewhere")
    takeset.convert(directory, output=tmp_path / "out", check=None)
    entry = record(tmp_path / "out")
    if part == "hash_chain" and entry["outcome"] == "written":
        assert entry["verification"]["chain"]["state"] == "absent"
    else:
        assert entry["findings"][-1]["code"] in ("not-a-regular-file", "part-missing")


def test_a_bundle_of_no_name_that_has_a_link_keeps_its_name(takeset, tmp_path):
    directory = bundle(count=6, **SMALL).write(tmp_path / "bundle")
    (directory / "depth.gz").rename(tmp_path / "elsewhere")
    (directory / "depth.gz").symlink_to(tmp_path / "elsewhere")
    takeset.convert(directory, output=tmp_path / "out", check=3)
    assert record(tmp_path / "out")["id"] == "bundle"
    failed_with(record(tmp_path / "out"), "not-a-regular-file", "depth.gz")


def test_a_pipe_is_not_waited_for(takeset, tmp_path):
    directory = bundle(count=6, **SMALL).write(tmp_path / "take")
    (directory / "depth.gz").unlink()
    os.mkfifo(directory / "depth.gz")
    takeset.convert(directory, output=tmp_path / "out", check=3)
    assert record(tmp_path / "out")["findings"][-1]["code"] in ("not-a-regular-file", "part-missing")


def test_files_of_the_operating_system_are_no_parts(takeset, tmp_path):
    directory = bundle(count=6).write(tmp_path / "take")
    for name in ".DS_Store", "._video.mov", "Thumbs.db":
        (directory / name).write_bytes(b"\0\5\x16\7")
    entry, _, _ = converted(takeset, directory)
    assert entry["outcome"] == "written" and codes(entry, "error", "warning") == []


# Which folders are bundles


def test_a_bundle_is_not_searched_for_videos(takeset, tmp_path):
    bundle(count=6).write(tmp_path / "in/kitchen-1")
    (tmp_path / "in/loose.mov").write_bytes(video_file(count=6))
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    found = {t["id"]: t["reader"] for t in manifest(tmp_path / "out")["record"]["takes"]}
    assert found == {"kitchen-1": "realitycam-bundle", "loose": "slow-motion-video"}


@pytest.mark.parametrize("strays", [["metadata.json"], ["metadata.json", "depth.bin"]])
def test_videos_next_to_other_files_are_no_bundle(takeset, tmp_path, strays):
    (tmp_path / "in").mkdir()
    for name in "a.mov", "b.mov":
        (tmp_path / "in" / name).write_bytes(video_file(count=6))
    for name in strays:
        (tmp_path / "in" / name).write_bytes(b'{"album": 1}')
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    found = manifest(tmp_path / "out")["record"]["takes"]
    assert [(t["id"], t["reader"], t["outcome"]) for t in found] == [(name, "slow-motion-video", "written") for name in "ab"]


def test_a_stray_chain_does_not_swallow_the_bundles_below_it(takeset, tmp_path):
    found = bundle(count=6, **SMALL)
    for name in "kitchen-1", "kitchen-2":
        found.write(tmp_path / "in" / name)
    (tmp_path / "in/hash_chain.json").write_bytes(found.parts()["hash_chain"])
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    takes = manifest(tmp_path / "out")["record"]["takes"]
    assert [(t["id"], t["outcome"]) for t in takes] == [("kitchen-1", "written"), ("kitchen-2", "written")]
