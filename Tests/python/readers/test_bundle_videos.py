"""Bundles: their video, and runs over many of them."""

import json
import shutil

import pytest
from bundle_checks import convert, holds, reader
from bundles import NAMES, SMALL, STORAGE, bundle, maps
from command import BINARY, measured
from conversions import failed_with, same_for_all_jobs, together
from images import numbers
from outputs import manifest, record
from schemas import STATISTICS, validator
from videos import changed, remade, rotated, samples, times, video_file

def corrupt():
    data = bytearray(video_file())
    for offset, size in samples(video_file())[16:40:3]:
        data[offset : offset + 4] = b"\x00\xff\xff\xff"
    return bytes(data)


VIDEO_FAILURES = {
    "movie-unfinished": lambda: video_file()[:50_000],
    "movie-truncated": lambda: video_file(extra=("-movflags", "+faststart"))[:50_000],
    "movie-corrupt": corrupt,
    "not-a-movie": lambda: b"#EXTM3U\n#EXTINF:10,\nsecret.ts\n",
    "codec-unsupported": lambda: video_file(count=6, codec="mpeg4"),
    "no-video": lambda: changed(video_file(), "moov/trak", lambda payload: None),
}


def test_a_bundle_fails_as_its_video_does(takeset, tmp_path):
    found = {code: bundle(video=make(), **SMALL) for code, make in VIDEO_FAILURES.items()} | {"good": bundle(**SMALL)}
    entries = together(takeset, tmp_path, found, check=3)
    assert entries.pop("good")["outcome"] == "written"
    for code, entry in entries.items():
        failed_with(entry, code, *([45] if code == "movie-corrupt" else []))


def test_the_limits_of_videos_hold_for_bundles(takeset, tmp_path):
    takeset.convert(bundle(**SMALL).write(tmp_path / "bad"), output=tmp_path / "out", arguments=reader(tmp_path, max_samples=44), check=3)
    assert record(tmp_path / "out")["findings"][-1]["code"] == "limit"


def test_a_bundles_video_is_stored_upright(takeset, tmp_path):
    entry, demo, _ = convert(takeset, tmp_path, bundle(video=rotated(video_file(), 180), **SMALL))
    assert demo["obs/camera_image"].attrs["rotation_applied"] == 180 == entry["details"]["rotation"]
    assert numbers(demo["obs/camera_image"][:], 180) == list(range(45))


def test_a_bundles_edit_list_is_followed(takeset, tmp_path):
    found = bundle(count=24, video=remade(video_file(), before=("-ss", "0.7")), **SMALL)
    _, demo, meta = convert(takeset, tmp_path, found)
    assert meta["timestamp_ns"][:].tolist() == times(tmp_path / "take/video.mov")
    assert numbers(demo["obs/camera_image"][:]) == list(range(21, 45))
    holds(demo, meta, maps(8, 8, 6), [k * 100_000_000 for k in range(8)])


# Runs


@pytest.mark.slow
def test_jobs_do_not_show(takeset, tmp_path):
    root = tmp_path / "in"
    bundle().write(root / "one")
    bundle(container="gzip", layout="rldp").write(root / "two")
    bundle(video=video_file(codec="hevc", b_frames=3), codec="hevc", keyframes=10).write(root / "three", NAMES | {"depth_data": "depth.bin"})
    bundle(count=6).write(root / "four", STORAGE)
    (root / "five.multipart").write_bytes(bundle(count=12).body())
    invalid = bundle(count=6)
    invalid.hash_chain = b"{"
    invalid.write(root / "six")
    unreadable = bundle(count=6)
    unreadable.depth_data = b"no depth"
    unreadable.write(root / "seven")
    assert same_for_all_jobs(takeset, root, check=3) == 5
    found = manifest(tmp_path / "out1")
    assert {t["id"]: t["outcome"] for t in found["record"]["takes"]} == {
        "one": "written", "two": "written", "three": "written", "four": "written", "five": "written", "six": "rejected", "seven": "failed"
    }
    validator("manifest.schema.json").validate(found)
    takeset("verify", tmp_path / "out1", "--inputs", check=0)
    assert "nothing to do" in takeset.convert(root, output=tmp_path / "out1", check=None).stdout


def test_a_plan_is_what_a_run_writes(takeset, tmp_path):
    root = tmp_path / "in"
    bundle(**SMALL).write(root / "indexed")
    bundle(count=6).write(root / "headerless")
    bundle(count=6).write(root / "stored", STORAGE)
    (root / "sent.multipart").write_bytes(bundle(count=12, **SMALL).body())
    (root / "turned.mov").write_bytes(rotated(video_file(size=(720, 480), count=3), 90, 720, 480))
    takeset.convert(root, output=tmp_path / "out")
    def layout(found):
        return sorted((d["path"], d["dtype"], d["shape"]) for d in found["datasets"])

    written = {t["id"]: layout(t["output"]) for t in manifest(tmp_path / "out")["record"]["takes"]}
    shapes = {name: [one for one in found if one[0] != STATISTICS] for name, found in written.items()}
    assert all(len(found) == len(shapes[name]) + 1 for name, found in written.items())
    plan = json.loads(takeset("plan", root, "--json", check=0).stdout)["takes"]
    assert {t["id"]: layout(t) for t in plan} == shapes and len(shapes) == 5
    assert dict((path, shape) for path, _, shape in shapes["turned"])["/data/demo_0/obs/camera_image"] == [3, 240, 160, 3]


def test_bundles_are_never_modified(takeset, tmp_path):
    found = bundle(count=6)
    convert(takeset, tmp_path, found)
    takeset("inspect", tmp_path / "take")
    assert {p.name: p.read_bytes() for p in (tmp_path / "take").iterdir()} == {NAMES[part]: data for part, data in found.parts().items()}


@pytest.mark.slow
def test_memory_does_not_grow_with_the_bundle(tmp_path):
    peaks = []
    for count in 150, 900:
        found = bundle(count=count, keyframes=150 if count > 450 else 50, video=video_file(count=count, extra=("-preset", "ultrafast")), **SMALL)
        found.write(tmp_path / str(count))
        code, peak, _ = measured(BINARY, "run", tmp_path / str(count), "--output", tmp_path / f"out{count}")
        assert code == 0
        peaks.append(peak)
        shutil.rmtree(tmp_path / f"out{count}")
    assert peaks[1] <= 1.3 * peaks[0], peaks
