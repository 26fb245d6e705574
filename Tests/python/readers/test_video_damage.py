"""Files that are no valid video fail with a sentence."""

import json
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest
from command import BINARY
from conversions import failed_with, together
from odd_videos import spliced
from scans import png
from videos import FRAGMENTS, box, boxes, changed, cut, flipped, made, remade, samples, unfinished, video_file, with_reference


def wide_color(transfer):
    return "-colorspace", "bt2020nc", "-color_primaries", "bt2020", "-color_trc", transfer, "-color_range", "tv"


def edited(*edits):
    """A video with an edit list of these lengths and starts, in ticks; a start of -1 shows nothing for so long."""
    entries = b"".join(struct.pack(">QqI", length, start, 1 << 16) for length, start in edits)
    return changed(video_file(), "moov/trak/edts", lambda payload: box("elst", struct.pack(">II", 1 << 24, len(edits)) + entries))


def two_tracks():
    with tempfile.NamedTemporaryFile(suffix=".mov") as file:
        Path(file.name).write_bytes(video_file())
        return made(".mov", "-i", file.name, "-map", "0:v", "-map", "0:v", "-c", "copy")


def with_second_index(kind, whole):
    """A video with a second index before the first one, either the whole one or its head alone, in a box of this kind."""
    data = video_file()
    at, index = data.index(b"moov") - 4, dict(boxes(data))["moov"]
    other = index if whole else box("mvhd", dict(boxes(index))["mvhd"])
    return data[:at] + box(kind, other) + data[at:]


def cut_fragments(number, kept):
    """A video in fragments up to so many bytes of a box; after ftyp and moov these are alternately moof and mdat."""
    data = video_file(**FRAGMENTS)
    start = sum(8 + len(payload) for _, payload in list(boxes(data))[:number])
    return data[: start + kept]


def cut_index(share):
    data = video_file()
    start = data.index(b"moov") - 4
    return data[: start + int((len(data) - start) * share)]


def without_a_frame(b_frames):
    data = remade(video_file(codec="hevc", b_frames=b_frames), "-bsf:v", "noise=amount=0:dropamount=0:drop='eq(n,20)'")
    assert len(samples(data)) == 44
    return data


SHARES = [0.2, 0.6, 0.99]
INDEXES = [("hoov", False), ("hoov", True), ("free", False), ("free", True), ("skip", False), ("moov", True)]
PLAYLISTS = {
    "a playlist.mp4": b"#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nsecret.ts\n#EXT-X-ENDLIST\n",
    "ffconcat.mp4": b"ffconcat version 1.0\nfile secret.mov\n",
    "SDP.mp4": b"v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 5004 RTP/AVP 96\na=rtpmap:96 H264/90000\n",
}
INVALID_VIDEOS = {name: ("not-a-movie", [], lambda data=data: data) for name, data in PLAYLISTS.items()} | {
    "nothing.mov": ("file-empty", [], bytes),
    "text.mp4": ("not-a-movie", [], lambda: b"the movie is on the other disk\n"),
    "HTML.mov": ("not-a-movie", [], lambda: b"<!DOCTYPE html><html>404</html>"),
    "zeros.mov": ("not-a-movie", [], lambda: bytes(4096)),
    "a picture.mp4": ("not-a-movie", [], lambda: png(np.zeros((120, 160, 3), np.uint8))),
    "Matroska.mp4": ("not-a-movie", [], lambda: made(".mkv", "-f", "lavfi", "-i", "testsrc=size=64x48:duration=0.2", "-c:v", "libx264")),
    "no samples yet.mov": ("movie-unfinished", [], lambda: unfinished(0)),
    "a tenth of the samples.mov": ("movie-unfinished", [], lambda: unfinished(0.1)),
    "half of the samples.mov": ("movie-unfinished", [], lambda: unfinished(0.5)),
    "all samples and no index.mov": ("movie-unfinished", [], lambda: unfinished(1)),
    "an index made free space.mov": ("movie-unfinished", [], lambda: video_file().replace(b"moov", b"free")),
    "cut in sample 0.mov": ("movie-truncated", ["0 of 45"], lambda: cut(0)),
    "cut in sample 1.mov": ("movie-truncated", ["1 of 45"], lambda: cut(1)),
    "cut in sample 10.mov": ("movie-truncated", ["10 of 45"], lambda: cut(10)),
    "cut in sample 20, HEVC.mov": ("movie-truncated", ["20 of 45"], lambda: cut(20, "hevc")),
    "cut after sample 30.mov": ("movie-truncated", ["31 of 45"], lambda: cut(30, of_next=1)),
    "cut in sample 44.mov": ("movie-truncated", ["44 of 45"], lambda: cut(44)),
    "without its last byte.mov": ("movie-truncated", ["44 of 45"], lambda: cut(44, of_next=0.9999)),
    "a sample turned over.mov": ("movie-corrupt", ["of 45"], lambda: flipped(video_file(), [20])),
    "many samples turned over.mov": ("movie-corrupt", ["of 45"], lambda: flipped(video_file(), range(16, 45, 3))),
    "samples at the end turned over.mov": ("movie-corrupt", ["of 45"], lambda: flipped(video_file(), [42, 43])),
    "a length turned over.mov": ("movie-corrupt", ["of 45"], lambda: flipped(video_file(), [20], lengths=True)),
    "a length turned over, HEVC.mov": ("movie-corrupt", ["of 45"], lambda: flipped(video_file(codec="hevc"), [20], lengths=True)),
    "many lengths turned over, HEVC.mov": ("movie-corrupt", ["of 45"], lambda: flipped(video_file(codec="hevc"), range(3, 40), lengths=True)),
    "samples nowhere.mov": ("movie-external-data", [], lambda: with_reference("url ", b"")),
    "samples behind an alias.mov": ("movie-external-data", [], lambda: with_reference("alis", bytes(150))),
    "sound alone.mp4": ("no-video", [], lambda: made(".mp4", "-f", "lavfi", "-i", "sine=duration=1", "-c:a", "aac")),
    "two video tracks.mov": ("video-ambiguous", [], two_tracks),
    "MPEG-4.mov": ("codec-unsupported", ["mpeg4"], lambda: video_file(count=6, codec="mpeg4")),
    "ProRes.mov": ("codec-unsupported", ["prores"], lambda: video_file(count=6, codec="prores")),
    "colors that change.mov": (
        "color-unsupported", [15], lambda: spliced(video_file(count=15), video_file(count=15, color=wide_color("smpte2084")))),
    "over ten minutes.mov": ("limit", [600], lambda: video_file(ticks=(0, 20, 360_020))),
    "an empty edit of 2^62 ticks.mov": ("limit", [], lambda: edited((2**62, -1), (900, 0))),
    "65 edits.mov": ("limit", [65, 64], lambda: edited(*[(900, 0)] * 65)),
    "a size that changes.mov": (
        "image-size-changed", ["160x120", "320x240", 15], lambda: spliced(video_file(count=15), video_file(count=15, size=(320, 240)))),
    "fragments cut in the size of an index.mp4": ("movie-truncated", [], lambda: cut_fragments(4, 5)),
    "fragments cut behind the size of an index.mp4": ("movie-truncated", [], lambda: cut_fragments(4, 12)),
    "fragments cut in an index.mp4": ("movie-truncated", [], lambda: cut_fragments(4, 100)),
    "fragments cut before samples.mp4": ("movie-truncated", [], lambda: cut_fragments(5, 0)),
    "fragments cut in the size of samples.mp4": ("movie-truncated", [], lambda: cut_fragments(5, 3)),
    "fragments cut in samples.mp4": ("movie-truncated", [], lambda: cut_fragments(5, 17_000)),
    "fragments cut in the last sample.mp4": ("movie-truncated", [], lambda: cut_fragments(8, -1)),
}


@pytest.fixture(scope="module")
def failed(takeset, tmp_path_factory):
    """The entries of all of these, converted in one run with a good video among them."""
    files = {name: make() for name, (_, _, make) in INVALID_VIDEOS.items()} | {"good.mov": video_file(count=6)}
    files |= {f"{kind} {whole}.mov": with_second_index(kind, whole) for kind, whole in INDEXES}
    files |= {f"{share} of an index.mov": cut_index(share) for share in SHARES}
    files |= {f"without a frame, {b_frames}.mov": without_a_frame(b_frames) for b_frames in (0, 2)}
    root = tmp_path_factory.mktemp("no-movies")
    entries = together(takeset, root, files, check=3)
    assert [p.name for p in (root / "out/episodes").iterdir()] == ["good.h5"] and entries["good"]["outcome"] == "written"
    return root, entries


@pytest.mark.slow
@pytest.mark.parametrize("name", INVALID_VIDEOS)
def test_what_is_not_a_valid_video_fails_and_says_why(failed, name):
    code, words, _ = INVALID_VIDEOS[name]
    failed_with(failed[1][name.rpartition(".")[0]], code, name, *words)


def test_inspect_reports_what_would_fail(takeset, failed):
    root, entries = failed
    reported = json.loads(takeset("inspect", *(root / "in").iterdir(), "--json", check=3).stdout)["takes"]
    assert {t["id"]: t["would_be"] for t in reported} == {name: entry["outcome"] for name, entry in entries.items()}


@pytest.mark.parametrize("name", [name for name, (code, _, _) in INVALID_VIDEOS.items() if code == "movie-corrupt"])
def test_a_corrupt_video_is_corrupt_to_ffmpeg_too(failed, name):
    strict = ["ffmpeg", "-v", "error", "-xerror", "-err_detect", "explode", "-i", failed[0] / "in" / name, "-f", "null", "-"]
    assert subprocess.run(strict, capture_output=True).returncode != 0


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
@pytest.mark.parametrize("name", PLAYLISTS)
def test_a_playlist_opens_nothing_else(tmp_path, name):
    (tmp_path / "video.mp4").write_bytes(PLAYLISTS[name])
    for secret in "secret.ts", "secret.mov":
        (tmp_path / secret).write_bytes(video_file(count=6))
    command = ["strace", "-f", "-e", "trace=openat,open,socket,connect", "-o", tmp_path / "log"]
    subprocess.run([*command, BINARY, "run", tmp_path / "video.mp4", "--output", tmp_path / "out"], capture_output=True)
    log = (tmp_path / "log").read_text()
    assert "video.mp4" in log and "secret" not in log and "AF_INET" not in log


@pytest.mark.parametrize("kind, whole", INDEXES)
def test_a_video_of_two_indexes_is_corrupt(failed, kind, whole):
    failed_with(failed[1][f"{kind} {whole}"], "movie-corrupt", f"{kind} {whole}.mov", f"{kind} box")


@pytest.mark.parametrize("share", SHARES)
def test_an_index_that_is_cut(failed, share):
    assert failed[1][f"{share} of an index"]["findings"][-1]["code"] in ("movie-unfinished", "movie-truncated")


@pytest.mark.parametrize("b_frames", [0, 2])
def test_a_missing_reference_frame_is_detected_in_hevc(failed, b_frames):
    failed_with(failed[1][f"without a frame, {b_frames}"], "movie-corrupt", f"without a frame, {b_frames}.mov", "of 44")
