"""Sessions in zip and tar archives: read in place as their folders are."""

import dataclasses
import os
import resource

import pytest
from archive_checks import JUNK, content, noticed, placed, reader, searched
from archives import bomb, directories, members, tar_of, zip_of, zipped
from command import BINARY, measured
from images import frame_code
from outputs import codes, demos, take
from small_sessions import put, session
from videos import boxes, times, video_file

VARIANTS = ["v1", "v2", "v3-raw", "v3-slam", "v3-scaled", "packed", "synthetic"]


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


@pytest.mark.slow
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
def test_times_come_from_a_video_in_an_archive(takeset, tmp_path, options):
    files = session("v3-slam") | {"video.mov": video_file(ticks=(0, 10, 20, 40, 50, 60, 71, 80))}
    put(tmp_path, {"video.mov": files["video.mov"]})
    found = searched(takeset, tmp_path, {"session_X.zip": zip_of(files, **options)})
    assert "times-from-movie" in codes(found["session_X"])
    _, meta = demos(tmp_path / "out")["session_X"]
    assert meta["timestamp_ns"].attrs["clock"] == "media-time"
    assert meta["timestamp_ns"][:].tolist() == times(tmp_path / "video.mov")


LONG = 300  # MiB; five minutes as the app records


def long_video(root):
    """A session whose video has a long filling between its images and its index: as a folder, sparse, and in a zip."""
    files = session("v3-slam")
    video = files.pop("video.mov")
    parts = dict(boxes(video))
    assert list(parts)[-1] == "moov"
    index = len(parts["moov"]) + 8
    before, after = video[:-index] + ((LONG << 20) + 8).to_bytes(4, "big") + b"free", video[-index:]
    archive = zipped([bomb("session_X/video.mov", LONG, before, after), *members(files)])
    placed(root, {"zip/session_X.zip": archive, "folder/session_X": files})
    with open(root / "folder/session_X/video.mov", "wb") as file:
        file.write(before)
        file.seek(LONG << 20, os.SEEK_CUR)
        file.write(after)
    return reader(root, **{"max-archive-ratio": 10_000})


@pytest.mark.slow
def test_a_long_video_in_an_archive_is_read_as_in_a_folder_with_no_more_memory(tmp_path):
    options = long_video(tmp_path)
    peaks = {}
    for kind in "folder", "zip":
        code, peaks[kind], _ = measured(BINARY, "run", tmp_path / kind, "--output", tmp_path / f"out-{kind}", *options)
        assert code == 0 and "times-from-movie" in codes(take(tmp_path / f"out-{kind}", "session_X"))
    assert peaks["zip"] < peaks["folder"] + (64 << 20), peaks
    assert content(tmp_path / "out-zip", "session_X") == content(tmp_path / "out-folder", "session_X")


@pytest.mark.slow
def test_a_long_video_in_an_archive_is_put_in_no_file_even_in_memory(takeset, tmp_path):
    options = long_video(tmp_path)
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
