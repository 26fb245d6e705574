"""Videos: which files are takes, and what their names say."""

import hashlib
import json
import subprocess

import pytest
from command import BINARY
from conversions import Together
from outputs import input_digest, manifest, record
from schemas import validator
from videos import box, made, video_file


STARTS = {
    "video_1761000000.mov": 1761000000, "recording_1761000001.mov": 1761000001, "video_1761000000123.mov": None, "pour-water-07.mov": None,
}
CONTENTS = ["capitals.MOV", "mp4.mp4", "m4v.m4v", "dat.dat", "bare"]
GENERIC = ["video", "movie", "capture", "recording", "clip", "bundle", "upload", "body"]


@pytest.fixture(scope="module")
def named(takeset, tmp_path_factory):
    found = {name: video_file(count=6, container="mp4") for name in CONTENTS}
    found |= {name: video_file(count=6) for name in [*STARTS, *(f"{stem}.mov" for stem in GENERIC)]}
    return Together(takeset, tmp_path_factory.mktemp("names"), found)


def test_a_video_is_recognized_by_its_contents(named):
    for name in CONTENTS:
        assert named[name][0]["reader"] == "slow-motion-video"


def test_the_start_is_known_from_the_phones_file_names_alone(named):
    for name, seconds in STARTS.items():
        attributes = named[name][2]["timestamp_ns"].attrs
        assert attributes.get("unix_origin_ns") == (None if seconds is None else seconds * 10**9), name


def test_a_generic_name_is_replaced_by_the_digest(named):
    for stem in GENERIC:
        digest = input_digest({f"{stem}.mov": video_file(count=6)})
        entry, _, _ = named[digest[:12]]
        assert entry["input_sha256"] == digest and entry["inputs"][0]["path"] == f"{stem}.mov"


def test_a_name_that_is_not_generic_is_the_id(named):
    (source,) = named["pour-water-07.mov"][0]["inputs"]
    assert source["path"] == "pour-water-07.mov" and source["sha256"] == hashlib.sha256(video_file(count=6)).hexdigest()


def test_a_directory_is_searched_for_videos(takeset, tmp_path):
    (tmp_path / "in/deep").mkdir(parents=True)
    for name, fps in ("a.mov", 60), ("deep/b.mp4", 120), ("deep/c.mov", 30):
        (tmp_path / "in" / name).write_bytes(video_file(count=12, fps=fps, container=name[-3:]))
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    found = manifest(tmp_path / "out")
    assert [(t["id"], t["variant"]) for t in found["record"]["takes"]] == [("a", "60fps"), ("b", "120fps"), ("c", None)]
    validator("manifest.schema.json").validate(found)
    takeset("verify", tmp_path / "out", check=0)


def test_images_and_music_next_to_a_video_are_no_takes(takeset, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/pour.mov").write_bytes(video_file(count=6))
    heic = box("ftyp", b"heic" + bytes(4) + b"mif1heic") + box("meta", bytes(40))
    music = made(".m4a", "-f", "lavfi", "-i", "sine=duration=0.1")
    for name, data in ("IMG_1.HEIC", heic), ("IMG_2", heic), ("song.m4a", music), ("song", music):
        assert data[4:8] == b"ftyp"
        (tmp_path / "in" / name).write_bytes(data)
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    assert record(tmp_path / "out")["id"] == "pour"
    (reported,) = json.loads(takeset("inspect", tmp_path / "in", "--json", check=0).stdout)["takes"]
    assert reported["id"] == "pour"


def test_a_link_among_videos_is_not_followed(takeset, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "elsewhere.mov").write_bytes(video_file(count=6))
    (tmp_path / "in/pour.mov").symlink_to(tmp_path / "elsewhere.mov")
    (tmp_path / "in/good.mov").write_bytes(video_file(count=6))
    takeset.convert(tmp_path / "in", output=tmp_path / "out", check=None)
    found = {t["id"]: t["outcome"] for t in manifest(tmp_path / "out")["record"]["takes"]}
    assert found["good"] == "written" and found.get("pour") != "written"


def test_inspect_reports_frames_rate_and_gaps(takeset, tmp_path):
    (tmp_path / "pour.mov").write_bytes(video_file(ticks=(0, 10, 20, 50, 60, 70, 80, 90, 100, 110, 120), fps=60))
    (reported,) = json.loads(takeset("inspect", tmp_path / "pour.mov", "--json", check=0).stdout)["takes"]
    assert reported["would_be"] == "written" and reported["frames"] == 11 and reported["gaps"] == 1
    assert reported["rate_hz"] == pytest.approx(60, rel=0.02)


@pytest.mark.slow
def test_more_videos_than_files_may_be_open_are_inspected(takeset, tmp_path):
    contents = video_file(count=3)
    for number in range(60):
        (tmp_path / f"m{number:02d}.mov").write_bytes(contents)
    limited = f"ulimit -n 40; exec {BINARY} inspect {tmp_path} --json --preview {tmp_path}/sheet.png"
    done = subprocess.run(["bash", "-c", limited], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert all(t["would_be"] == "written" for t in json.loads(done.stdout)["takes"])
