"""Videos: the same bytes whatever the jobs, little memory, and inputs that are never touched."""

import os
import shutil
import subprocess

import pytest
from command import BINARY, measured
from conversions import failed_with, same_for_all_jobs
from outputs import manifest
from video_checks import convert
from videos import flipped, rotated, samples, video_file


def test_jobs_do_not_show(takeset, tmp_path):
    (tmp_path / "in").mkdir()
    for index, settings in enumerate([dict(fps=60), dict(fps=120, codec="hevc", b_frames=3), dict(fps=240, b_frames=2), dict(fps=30)]):
        (tmp_path / f"in/take-{index}.mov").write_bytes(rotated(video_file(**settings), 90 * index))
    (tmp_path / "in/take-bad.mov").write_bytes(flipped(video_file(), [7, 20]))
    assert same_for_all_jobs(takeset, tmp_path / "in", check=3) == 4


@pytest.mark.slow
def test_jobs_do_not_show_in_damage(takeset, tmp_path):
    (tmp_path / "in").mkdir()
    noticed = set()
    for codec, b_frames in ("h264", 2), ("hevc", 0):
        intact = video_file(codec=codec, b_frames=b_frames)
        for number, (offset, size) in list(enumerate(samples(intact)))[4:34:6]:
            data, path = bytearray(intact), tmp_path / f"in/{codec}-{number}.mov"
            data[offset + 5 + size // 10] ^= 8
            path.write_bytes(data)
            said = subprocess.run(["ffmpeg", "-nostdin", "-threads", "1", "-i", path, "-f", "null", "-"], capture_output=True).stderr
            noticed |= {path.stem} if b"corrupt decoded frame" in said else set()
    episodes = same_for_all_jobs(takeset, tmp_path / "in", check=3, jobs=(1, 2, 8))
    failed = {t["id"]: t for t in manifest(tmp_path / "out1")["record"]["takes"] if t["outcome"] == "failed"}
    assert noticed and noticed <= set(failed) and episodes == 10 - len(failed)
    assert any("hevc" in path.name for path in (tmp_path / "out1/episodes").iterdir())
    for entry in failed.values():
        failed_with(entry, "movie-corrupt", "of 45")


@pytest.mark.slow
def test_memory_does_not_grow_with_the_video(tmp_path):
    peaks = []
    for count in 200, 2000:
        (tmp_path / f"{count}.mov").write_bytes(video_file(count=count, fps=60, extra=("-preset", "ultrafast")))
        code, peak, _ = measured(BINARY, "run", tmp_path / f"{count}.mov", "--output", tmp_path / f"out{count}")
        assert code == 0
        peaks.append(peak)
        shutil.rmtree(tmp_path / f"out{count}")
    assert peaks[1] <= 1.3 * peaks[0], peaks


def test_a_video_is_never_modified(takeset, tmp_path):
    data = video_file(count=6)
    convert(takeset, tmp_path, data)
    takeset("inspect", tmp_path / "pour.mov")
    assert (tmp_path / "pour.mov").read_bytes() == data
    assert sorted(os.listdir(tmp_path)) == ["out", "pour.mov"]
