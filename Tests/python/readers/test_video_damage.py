"""Files that are no valid video fail with a sentence."""

import io
import json
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

import pytest
from command import BINARY
from conversions import failed_with, fails, together
from outputs import record
from PIL import Image
from videos import FRAGMENTS, box, boxes, changed, cut, flipped, made, remade, samples, unfinished, video_file


def png():
    out = io.BytesIO()
    Image.new("RGB", (160, 120)).save(out, "PNG")
    return out.getvalue()


def track(kind, location):
    """A video whose index refers to samples in another file."""
    table = struct.pack(">II", 0, 1) + box(kind, struct.pack(">I", 0) + location)
    return changed(video_file(), "moov/trak/mdia/minf/dinf/dref", lambda payload: table)


def wide_color(transfer):
    return "-colorspace", "bt2020nc", "-color_primaries", "bt2020", "-color_trc", transfer, "-color_range", "tv"


def spliced(*videos):
    """One video of the images of several H.264 videos, which keep their sizes and colors."""
    return remade(b"".join(remade(data, "-f", "h264") for data in videos), before=("-r", 30, "-f", "h264"))


def edited(*edits):
    """A video with an edit list of these lengths and starts, in ticks; a start of -1 shows nothing for so long."""
    entries = b"".join(struct.pack(">QqI", length, start, 1 << 16) for length, start in edits)
    return changed(video_file(), "moov/trak/edts", lambda payload: box("elst", struct.pack(">II", 1 << 24, len(edits)) + entries))


def two_tracks():
    with tempfile.NamedTemporaryFile(suffix=".mov") as file:
        Path(file.name).write_bytes(video_file())
        return made(".mov", "-i", file.name, "-map", "0:v", "-map", "0:v", "-c", "copy")


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
    "a picture.mp4": ("not-a-movie", [], png),
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
    "samples in a file.mov": ("movie-external-data", [], lambda: track("url ", b"file:///nowhere/x.mov\0")),
    "samples on a server.mov": ("movie-external-data", [], lambda: track("url ", b"http://127.0.0.1:9/x.mov\0")),
    "samples nowhere.mov": ("movie-external-data", [], lambda: track("url ", b"")),
    "samples behind an alias.mov": ("movie-external-data", [], lambda: track("alis", bytes(150))),
    "samples behind a name.mov": ("movie-external-data", [], lambda: track("urn ", b"x\0y\0")),
    "sound alone.mp4": ("no-video", [], lambda: made(".mp4", "-f", "lavfi", "-i", "sine=duration=1", "-c:a", "aac")),
    "two video tracks.mov": ("video-ambiguous", [], two_tracks),
    "MPEG-4.mov": ("codec-unsupported", ["mpeg4"], lambda: video_file(count=6, codec="mpeg4")),
    "ProRes.mov": ("codec-unsupported", ["prores"], lambda: video_file(count=6, codec="prores")),
    "colours that change.mov": (
        "colour-unsupported", [15], lambda: spliced(video_file(count=15), video_file(count=15, color=wide_color("smpte2084")))),
    "over ten minutes.mov": ("limit", [600], lambda: video_file(ticks=(0, 20, 360_020))),
    "an empty edit of 2^62 ticks.mov": ("limit", [], lambda: edited((2**62, -1), (900, 0))),
    "65 edits.mov": ("limit", [65, 64], lambda: edited(*[(900, 0)] * 65)),
    "a size that changes.mov": (
        "image-size-changed", ["160x120", "320x240", 15], lambda: spliced(video_file(count=15), video_file(count=15, size=(320, 240)))),
}


@pytest.fixture(scope="module")
def failed(takeset, tmp_path_factory):
    """The entries of all of these, converted in one run with a good video among them."""
    files = {name: make() for name, (_, _, make) in INVALID_VIDEOS.items()} | {"good.mov": video_file(count=6)}
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


def test_an_invalid_video_stops_no_other(takeset, tmp_path):
    (tmp_path / "bad.mov").write_bytes(cut(10))
    fails(takeset, tmp_path / "bad.mov", "movie-truncated", "10 of 45")


@pytest.mark.parametrize("kind, whole", [("hoov", False), ("hoov", True), ("free", False), ("free", True), ("skip", False), ("moov", True)])
def test_a_video_of_two_indexes_is_corrupt(takeset, tmp_path, kind, whole):
    data = video_file()
    at, index = data.index(b"moov") - 4, dict(boxes(data))["moov"]
    other = index if whole else box("mvhd", dict(boxes(index))["mvhd"])
    (tmp_path / "bad.mov").write_bytes(data[:at] + box(kind, other) + data[at:])
    fails(takeset, tmp_path / "bad.mov", "movie-corrupt", kind)


FRAGMENT_CUTS = {  # number of the box, after ftyp and moov alternately moof and mdat, and the bytes of it that remain
    "in an index's size": (4, 5), "behind an index's size": (4, 12), "in an index": (4, 100), "before samples": (5, 0),
    "in the size of samples": (5, 3), "in samples": (5, 17_000), "in the last sample": (8, -1),
}


@pytest.mark.parametrize("name", FRAGMENT_CUTS)
def test_fragments_that_are_cut_are_truncated(takeset, tmp_path, name):
    data, (number, kept) = video_file(**FRAGMENTS), FRAGMENT_CUTS[name]
    start = sum(8 + len(payload) for _, payload in list(boxes(data))[:number])
    (tmp_path / "bad.mp4").write_bytes(data[: start + kept])
    fails(takeset, tmp_path / "bad.mp4", "movie-truncated")


@pytest.mark.parametrize("b_frames", [0, 2])
def test_a_missing_reference_frame_is_detected_in_hevc(takeset, tmp_path, b_frames):
    data = remade(video_file(codec="hevc", b_frames=b_frames), "-bsf:v", "noise=amount=0:dropamount=0:drop='eq(n,20)'")
    assert len(samples(data)) == 44
    (tmp_path / "bad.mov").write_bytes(data)
    fails(takeset, tmp_path / "bad.mov", "movie-corrupt", "of 44")


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


@pytest.mark.parametrize("share", [0.2, 0.6, 0.99])
def test_an_index_that_is_cut(takeset, tmp_path, share):
    data = video_file()
    start = data.index(b"moov") - 4
    (tmp_path / "bad.mov").write_bytes(data[: start + int((len(data) - start) * share)])
    takeset.convert(tmp_path / "bad.mov", output=tmp_path / "out", check=3)
    assert record(tmp_path / "out")["findings"][-1]["code"] in ("movie-unfinished", "movie-truncated")
